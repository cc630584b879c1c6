"""Parse and edit YAML texts. An edit changes only the bytes of the edited value.

The meaning of keys and values belongs to `config.schema`.
"""
