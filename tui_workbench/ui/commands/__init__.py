"""The registry of commands with their keys, the palette, help and jump mode.

The code that executes a command belongs to the folder of its feature.
"""
