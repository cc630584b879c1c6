"""Declare the fields of configuration files for validation, forms, completion and documentation.

Checks that compare fields or files belong to `config.checks`.
"""
