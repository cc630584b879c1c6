"""Sweeps: run a script with many values of its arguments.

The runs of a sweep are ordinary runs; `runs.lifecycle` executes them.
"""
