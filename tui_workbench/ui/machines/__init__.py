"""Compute targets: the pane, attaching a machine and checking it.

The checks themselves belong to `targets.checks`.
"""
