"""The form for configuration files.

Edits of the file itself belong to `config.yaml_edit`.
"""
