"""Changes to configuration files, shown before they are applied.

Planning and applying a change belongs to `config.changes`.
"""
