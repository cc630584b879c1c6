"""The editor: open files, the text of configuration files, search and the external editor.

The form for configuration files belongs to `ui.form`.
"""
