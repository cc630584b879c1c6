"""Plan changes of one or more files, show them as a diff, and apply or undo them in one step.

Edits within the text of a file belong to `config.yaml_edit`.
"""
