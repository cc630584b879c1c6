"""Changes of one or several configuration files: planned, shown as a diff, applied and undone as one step.

Edits within a YAML text belong to `config.yaml_edit`.
"""
