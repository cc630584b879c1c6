"""GPU samples of a machine, the choice of GPUs, and checks that a framework uses the GPUs."""
