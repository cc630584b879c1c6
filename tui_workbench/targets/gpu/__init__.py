"""What the GPUs of a target's machine do: asked once a second by one process a machine, read by whoever wants to."""
