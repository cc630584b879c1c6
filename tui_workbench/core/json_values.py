"""Read untrusted JSON: documents with limits, and values with declared types.

`parse_json` accepts only documents that every other function can handle: recursion ends, and each number fits into a
float. `read_as` converts a value to a named tuple whose annotations declare the types. Both raise only ValueError, so
that a malformed file is one error, not one of many exceptions wherever its values are used.
"""

from __future__ import annotations

import functools
import json
import math
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

MOST_LEVELS = 100
"""Maximum depth of nested lists and objects."""

LONGEST_NUMBER = 19
"""Maximum number of characters of an integer, so that it has at most 63 bits and can become a float."""

_SHOWN = 40
_Tuple = TypeVar("_Tuple")
_Reader = Callable[[Any, str], Any]


def parse_json(data: bytes | str) -> Any:
    """Return the value of a JSON document.

    Raises ValueError if it is invalid, or has too many levels or an integer of more than 63 bits.
    """
    try:
        value = json.loads(data, parse_int=_integer)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    opening = (b"[", b"{") if isinstance(data, bytes) else ("[", "{")
    if sum(map(data.count, opening)) > MOST_LEVELS and _levels(value) > MOST_LEVELS:  # type: ignore[arg-type]
        raise ValueError("it is nested too deeply")
    return value


def _integer(text: str) -> int:
    if len(text) <= LONGEST_NUMBER and -(1 << 63) <= (number := int(text)) < 1 << 63:
        return number
    raise ValueError(f"the number {shown(text)} is too large")


def _levels(value: Any) -> int:
    """Return the depth of a value, without recursion."""
    levels, current = 0, [value]
    while current := [each for each in current if isinstance(each, list | dict)]:
        levels += 1
        current = [inner for each in current for inner in (each.values() if isinstance(each, dict) else each)]
    return levels


def shown(value: Any) -> str:
    """Return a short form of an untrusted value for an error message."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def read_as(kind: type[_Tuple], value: Any, place: str = "") -> _Tuple:
    """Convert a JSON object to the named tuple `kind`. Its fields can be named tuples, too.

    Missing fields have their defaults, and keys without a field are ignored, because other versions have other fields.
    Raises ValueError, which names `place` and the key, for a value of another type than the annotation of its field.
    """
    return typing.cast("_Tuple", check_type(kind, value, place))


def check_type(kind: Any, value: Any, place: str) -> Any:
    """Return the value as type `kind`, such as `str`, `int | None` or `tuple[str, ...]`. Raises ValueError."""
    return _reader_of(kind)(value, place)


def _wrong(place: str, value: Any, expected: str) -> ValueError:
    return ValueError(f"{f'`{place}` is ' if place else 'it is '}{shown(value)}, expected {expected}")


@functools.cache
def _reader_of(kind: Any) -> _Reader:
    """Return the function that converts a value to a type."""
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        (each,) = (_reader_of(each) for each in inner if each is not types.NoneType)
        return lambda value, place: None if value is None else each(value, place)
    if origin is tuple:
        return _list_of(_reader_of(inner[0]))
    if origin is Mapping:
        return _object_of(_reader_of(inner[1]))
    return _fields_of(kind)


def _any(value: Any, place: str) -> Any:
    return value


def _text(value: Any, place: str) -> str:
    if isinstance(value, str):
        return value
    raise _wrong(place, value, "text")


def _bool(value: Any, place: str) -> bool:
    if isinstance(value, bool):
        return value
    raise _wrong(place, value, "true or false")


def _int(value: Any, place: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63:
        return value
    raise _wrong(place, value, "an integer")


def _float(value: Any, place: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1 << 63 and math.isfinite(value):
        return float(value)
    raise _wrong(place, value, "a number")


_SIMPLE: dict[Any, _Reader] = {Any: _any, str: _text, bool: _bool, int: _int, float: _float}


def _list_of(each: _Reader) -> _Reader:
    def read(value: Any, place: str) -> Any:
        if not isinstance(value, list | tuple):
            raise _wrong(place, value, "a list")
        return tuple([each(item, place) for item in value])

    return read


def _object_of(each: _Reader) -> _Reader:
    def read(value: Any, place: str) -> Any:
        if not isinstance(value, dict):
            raise _wrong(place, value, "an object")
        return {key: each(item, f"{place}.{key}") for key, item in value.items()}

    return read


def _fields_of(kind: Any) -> _Reader:
    hints: dict[str, Any] = {}

    def read(value: Any, place: str) -> Any:
        if not isinstance(value, dict):
            raise _wrong(place, value, "an object")
        if not hints:  # later than the definition of the class, which can name itself
            hints.update({name: _reader_of(hint) for name, hint in typing.get_type_hints(kind).items()})
        before = f"{place}." if place else ""
        found = {key: read_field(value[key], before + key) for key, read_field in hints.items() if key in value}
        for key in hints:
            if key not in found and key not in kind._field_defaults:
                raise ValueError(f"`{before}{key}` is missing")
        return kind(**found)

    return read
