"""The fields of configuration files: declared once, for validation, forms, completion and documentation.

Checks that compare fields or files belong to `config.checks`.
"""
