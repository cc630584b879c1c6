"""Changes of several configuration files in one step: planned, shown, applied together and undone together.

Edits of a single file belong to `config.yaml_edit`.
"""
