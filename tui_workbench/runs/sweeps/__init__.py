"""Create sweeps, which run a script with many values of its arguments.

The runs of a sweep are ordinary runs, which `runs.lifecycle` executes.
"""
