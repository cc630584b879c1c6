"""`experiment ...`: submit, sweep, resume, prepare, collect and clean."""
