"""The editor: open files, the text of configuration files, and search.

The form for configuration files belongs to `ui.form`. The external editor is opened by `ui.main`.
"""
