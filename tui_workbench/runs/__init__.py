"""Runs of a project: submit, follow, list, cancel. `facade.Runs` is what the screens and the command line use.

How a type of target executes a run belongs to `targets`.
"""
