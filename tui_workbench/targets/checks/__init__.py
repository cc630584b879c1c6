"""Checks of a compute target, from the tools on its machine to a framework that uses its GPUs.

Checks of a Docker engine, a cluster or a group belong to the folders of these types, checks of configuration files to
`config.checks`. `ladder.py` has the checks of a target in order; `checks_for` in `targets.registry` returns them.
"""
