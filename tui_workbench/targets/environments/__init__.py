"""Environments for runs: recipes and managed environments. Image builds belong to `targets.docker`.

Descriptions of packages in configuration files belong to `config.checks`.
"""
