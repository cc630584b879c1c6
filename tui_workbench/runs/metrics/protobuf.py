"""The wire format of protocol buffers, as far as TensorBoard's events need it."""

from __future__ import annotations

import struct

from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class Malformed(ValueError):
    """These bytes are no message."""


def fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Each field of a message as number, wire type and value; numbers of a fixed size come as their bytes.

    Raises Malformed.
    """
    position, end = 0, len(data)
    while position < end:
        key, position = varint(data, position)
        kind = key & 7
        if kind == VARINT:
            value, position = varint(data, position)
            yield key >> 3, kind, value
            continue
        if kind == BYTES:
            length, position = varint(data, position)
        elif kind == FIXED64:
            length = 8
        elif kind == FIXED32:
            length = 4
        else:
            raise Malformed(f"wire type {kind}")
        if position + length > end:
            raise Malformed("it ends within a field")
        yield key >> 3, kind, data[position : position + length]
        position += length


def varint(data: bytes, position: int) -> tuple[int, int]:
    """The number of variable length at a position, and the position behind it. Raises Malformed."""
    value = shift = 0
    while position < len(data) and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
    raise Malformed("it ends within a number")


def signed(value: int) -> int:
    """A number of 64 bits as the signed one that it stands for."""
    return value - (1 << 64) if value >= 1 << 63 else value


def double(data: bytes) -> float:
    """Eight bytes as a number."""
    return float(struct.unpack("<d", data)[0])


def single(data: bytes) -> float:
    """Four bytes as a number."""
    return float(struct.unpack("<f", data)[0])
