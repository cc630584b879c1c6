"""Read JSON, which is never trusted: documents with limits, and values with declared types. Write standard JSON.

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
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

MOST_LEVELS = 100
"""Maximum depth of nested lists and objects."""

MOST_BITS = 1000
"""Maximum of `bits`, so that each integer can become a float."""

_TOO_DEEP = "it is nested too deeply"
_LONGEST = 19  # characters of an integer that has at most 63 bits
_SHOWN = 40
_INFINITE = {"\ue000+": "1e999", "\ue000-": "-1e999"}
"""Placeholders for infinities, and the numbers that replace them in JSON. Python parses these numbers as infinity."""
_Tuple = TypeVar("_Tuple")
_Reader = Callable[[Any, str], Any]


def parse_json(data: bytes | str, *, bits: int = 63) -> Any:
    """Return the value of a JSON document.

    Raises ValueError if it is invalid, or has too many levels or an integer of more than `bits` bits.
    """
    text = data if isinstance(data, str) else data.decode(json.detect_encoding(data), "surrogatepass")
    value = _decoded(text, _decoder(bits))
    # Counting brackets is fast. Few documents have so many that their levels must be counted.
    if text.count("[") + text.count("{") > MOST_LEVELS and _levels(value) > MOST_LEVELS:
        raise ValueError(_TOO_DEEP)
    return value


def parse_json_lines(lines: Sequence[bytes]) -> list[Any]:
    """Return the values of lines with one JSON document each. An integer that is too large becomes a float.

    Raises ValueError if a line is invalid or has too many levels.
    """
    if any(line.count(b"[") + line.count(b"{") > MOST_LEVELS for line in lines):
        values = [parse_json(line, bits=MOST_BITS) for line in lines]
    else:
        # Parsing all lines together takes half as long as parsing each line.
        values = _decoded((b"[%s]" % b",".join(lines)).decode("utf-8", "surrogatepass"), _line_decoder())
    if len(values) != len(lines):
        raise ValueError("a line has several values")
    return values


def _decoded(text: str, decoder: json.JSONDecoder) -> Any:
    try:
        return decoder.decode(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


@functools.cache
def _decoder(bits: int) -> json.JSONDecoder:
    end, longest = 1 << bits, len(str(1 << bits)) + 1

    def integer(text: str) -> int:
        # The length is compared first, because converting thousands of digits is slow, and Python refuses it.
        if len(text) <= longest and -end <= (number := int(text)) < end:
            return number
        raise ValueError(f"the number {shown(text)} is too large")

    return json.JSONDecoder(parse_int=integer)


@functools.cache
def _line_decoder() -> json.JSONDecoder:
    return json.JSONDecoder(parse_int=lambda text: int(text) if len(text) < _LONGEST else float(text))


def _levels(value: Any) -> int:
    """Return the depth of a value, without recursion."""
    levels, current = 0, [value]
    while current := [item for item in current if isinstance(item, list | dict)]:
        levels += 1
        current = [inner for item in current for inner in (item.values() if isinstance(item, dict) else item)]
    return levels


def shown(value: Any) -> str:
    """Return a short form of an untrusted value for an error message."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def read_as(kind: type[_Tuple], value: Any, path: str = "") -> _Tuple:
    """Convert a JSON object to the named tuple `kind`. Its fields can be named tuples, too.

    Missing fields have their defaults, and keys without a field are ignored, because other versions have other fields.
    Raises ValueError, which names `path` and the key, for a value of another type than the annotation of its field.
    """
    return typing.cast("_Tuple", check_type(kind, value, path))


def check_type(kind: Any, value: Any, path: str) -> Any:
    """Return the value as type `kind`: `int | None`, `tuple[str, ...]`, `tuple[str, int]` ... Raises ValueError."""
    return _reader_of(kind)(value, path)


def _wrong(path: str, value: Any, expected: str) -> ValueError:
    return ValueError(f"{f'`{path}` is ' if path else 'it is '}{shown(value)}, expected {expected}")


@functools.cache
def _reader_of(kind: Any) -> _Reader:
    """Return the function that converts a value to a type."""
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        (reader,) = (_reader_of(member) for member in inner if member is not types.NoneType)
        return lambda value, path: None if value is None else reader(value, path)
    if origin is tuple:
        if inner[-1] is Ellipsis:
            return _list_of(_reader_of(inner[0]))
        return _tuple_of([_reader_of(member) for member in inner])
    if origin is Mapping:
        return _object_of(_reader_of(inner[1]))
    return _fields_of(kind)


def _any(value: Any, path: str) -> Any:
    return value


def _text(value: Any, path: str) -> str:
    if isinstance(value, str):
        return value
    raise _wrong(path, value, "text")


def _bool(value: Any, path: str) -> bool:
    if isinstance(value, bool):
        return value
    raise _wrong(path, value, "true or false")


def _int(value: Any, path: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63:
        return value
    raise _wrong(path, value, "an integer")


def _float(value: Any, path: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1 << 63 and math.isfinite(value):
        return float(value)
    raise _wrong(path, value, "a number")


_SIMPLE: dict[Any, _Reader] = {Any: _any, object: _any, str: _text, bool: _bool, int: _int, float: _float}


def _list_of(read_item: _Reader) -> _Reader:
    def read(value: Any, path: str) -> Any:
        if not isinstance(value, list | tuple):
            raise _wrong(path, value, "a list")
        return tuple([read_item(item, path) for item in value])

    return read


def _tuple_of(readers: Sequence[_Reader]) -> _Reader:
    def read(value: Any, path: str) -> Any:
        if not isinstance(value, list | tuple) or len(value) != len(readers):
            raise _wrong(path, value, f"a list with a length of {len(readers)}")
        return tuple([read_item(item, path) for read_item, item in zip(readers, value, strict=True)])

    return read


def _object_of(read_item: _Reader) -> _Reader:
    def read(value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise _wrong(path, value, "an object")
        return {key: read_item(item, f"{path}.{key}") for key, item in value.items()}

    return read


def _fields_of(kind: Any) -> _Reader:
    hints: dict[str, Any] = {}

    def read(value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise _wrong(path, value, "an object")
        if not hints:  # later than the definition of the class, which can name itself
            hints.update({name: _reader_of(hint) for name, hint in typing.get_type_hints(kind).items()})
        before = f"{path}." if path else ""
        fields = {key: read_field(value[key], before + key) for key, read_field in hints.items() if key in value}
        for key in hints:
            if key not in fields and key not in kind._field_defaults:
                raise ValueError(f"`{before}{key}` is missing")
        return kind(**fields)

    return read


def json_text(value: Any) -> str:
    """Return JSON that every reader accepts. NaN becomes null, and infinities become numbers too large for a float."""
    text = json.dumps(_finite(value), indent=2)
    for mark, number in _INFINITE.items():
        text = text.replace(json.dumps(mark), number)
    return text


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and value - value != 0:
        return None if value != value else "\ue000+" if value > 0 else "\ue000-"
    return value
