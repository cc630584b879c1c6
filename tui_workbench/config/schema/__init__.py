"""Fields of configuration files, declared once for validation, forms, completion and documentation.

Checks that compare fields or files belong in `config.checks`.
"""
