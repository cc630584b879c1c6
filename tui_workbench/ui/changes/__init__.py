"""Changes to configuration files, shown before they are applied.

`config.changes` plans and applies them.
"""
