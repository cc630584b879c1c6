"""Checks of a compute target, from the connection to free disk space.

Checks of GPUs belong to `targets.gpu`, checks of configuration files to `config.checks`.
"""
