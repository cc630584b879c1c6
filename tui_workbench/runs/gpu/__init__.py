"""Whether a run used a GPU: samples while it goes on, and what they add up to."""
