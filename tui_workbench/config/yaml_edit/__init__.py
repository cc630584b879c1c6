"""Edit YAML texts: an edit changes the bytes of its value and no others.

The meaning of keys and values belongs in `config.schema`.
"""
