"""GPU samples of a machine, the choice of GPUs for runs, and reservations of users."""
