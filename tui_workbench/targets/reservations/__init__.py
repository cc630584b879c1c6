"""Reservations of GPUs, which runs and users make in a folder on the machine; the choice of GPUs is in `gpu`."""
