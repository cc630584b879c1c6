"""Record the GPU samples of a run, derive its GPU verdict, and enforce its GPU policies."""
