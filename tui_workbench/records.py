"""`NamedTuple`, `Protocol` and `TYPE_CHECKING` without loading `typing`, an eighth of the time of a short command.

Type checkers see typing's own. A class statement with this `NamedTuple` makes what the same statement with typing's
makes.
"""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
    from typing import Protocol as Protocol
else:
    from collections import namedtuple

    class Protocol:
        """Base of a class statement that declares an interface; at run time a name without meaning."""

    class _Meta(type):
        def __new__(mcs, name, bases, namespace):
            if not bases:
                return super().__new__(mcs, name, bases, namespace)
            fields = list(namespace.pop("__annotations__", ()))
            defaults = [namespace.pop(field) for field in fields if field in namespace]
            made = namedtuple(name, fields, defaults=defaults, module=namespace.pop("__module__"))
            for key, value in namespace.items():
                setattr(made, key, value)
            return made

    class NamedTuple(metaclass=_Meta):
        """Base of a class statement that declares a named tuple by its annotations and defaults."""
