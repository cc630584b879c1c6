"""The folder on a machine in which runs and users reserve GPUs; `gpu` chooses the GPUs."""
