"""Edit YAML files byte for byte: a change touches the bytes of its value and nothing else.

The meaning of keys and values belongs to `config.schema`.
"""
