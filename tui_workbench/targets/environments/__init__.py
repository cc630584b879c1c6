"""Environments for runs: recipes, managed environments, image builds and packages for offline machines.

Descriptions of packages in configuration files belong to `config.checks`.
"""
