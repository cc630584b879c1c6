"""GPU samples of a run, their totals, the GPU verdict, and policies."""
