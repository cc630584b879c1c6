"""Read the scalars in TensorBoard event files, whether they are encoded as plain values or as tensors.

A file is a sequence of records: length (8 bytes), checksum of the length, an `Event` message, checksum of the message.
An incomplete record is read at the next refresh. Reading stops at a record with a damaged length, because the start of
the next record is unknown. Checksums of messages are not verified, because in Python this takes more time than parsing.
"""

from __future__ import annotations

import functools
import math
import os
import struct
from collections.abc import Iterator

from tui_workbench.runs.metrics.tail import Reader
from tui_workbench.runs.metrics.values import TENSORBOARD

_HEADER = struct.Struct("<QI")
_FRAME = _HEADER.size + 4
LARGEST_RECORD = 1 << 30
LARGEST_SCALARS = 1 << 20  # bytes; a larger event is an image or a graph, and is skipped

_SPLITS = frozenset(("train", "training", "val", "valid", "validation", "test", "eval", "evaluation"))
"""Names of folders that distinguish curves of the same name: `train/epoch_loss`, `validation/epoch_loss`."""

# Struct formats of the numeric types of tensors that are encoded as bytes. Source: types.proto of TensorFlow.
_PACKED = {1: "<f", 2: "<d", 3: "<i", 4: "<B", 5: "<h", 6: "<b", 9: "<q", 17: "<H", 19: "<e", 22: "<I", 23: "<Q"}
_FLOAT, _BOOL, _BFLOAT16 = 1, 10, 14
_REAL = frozenset((*_PACKED, _BOOL, _BFLOAT16))

_SESSION_START = 1  # status of a SessionLog. Source: event.proto of TensorFlow

_HALF = 13
_TYPED = {5: "<f", 6: "<d", 7: "", 10: "", 11: "", _HALF: "", 16: "", 17: ""}
"""Struct formats of the number fields of a tensor; "" for integers of variable length. Source: tensor.proto."""


class EventFile(Reader):
    """The metrics in a TensorBoard event file."""

    source = TENSORBOARD

    @property
    def group(self) -> str:
        # A restarted script continues in another file of the folder.
        return os.path.dirname(self.path)

    @property
    def always_labeled(self) -> bool:
        return os.path.basename(self.group).lower() in _SPLITS

    def refresh(self, *, ended: bool = False) -> bool:
        if self.columns.damaged_at >= 0 and not self.tail.was_replaced():
            return False
        before = self.tail.offset
        return self.read(self.tail.chunks()) and self.tail.offset != before

    def parse(self, block: bytes) -> None:
        # The offset of the tail is set to the first incomplete record, which is then read again.
        position, size = 0, len(block)
        base = self.tail.offset - size
        while position + _HEADER.size <= size:
            length, checksum = _HEADER.unpack_from(block, position)
            if length > LARGEST_RECORD or checksum != masked_crc32c(struct.pack("<Q", length)):
                self.columns.damaged_at = base + position
                self.tail.offset = self.tail.size
                return
            end = position + _FRAME + length
            if end > size:
                if length > LARGEST_SCALARS and base + end <= self.tail.size:
                    position = end  # skipped
                break
            try:
                self._event(block[position + _HEADER.size : end - 4])
            except (Malformed, struct.error, UnicodeDecodeError):
                self.columns.unreadable += 1
            position = end
        self.tail.offset = base + position

    def _event(self, data: bytes) -> None:
        time, step, summary, session = math.nan, 0, b"", b""
        for number, kind, value in fields(data):
            if number == 1 and kind == FIXED64 and isinstance(value, bytes):
                (time,) = struct.unpack("<d", value)
            elif number == 2 and kind == VARINT and isinstance(value, int):
                step = signed(value)
            elif number == 5 and kind == BYTES and isinstance(value, bytes):
                summary = value
            elif number == 7 and kind == BYTES and isinstance(value, bytes):
                session = value
        if any(number == 1 and value == _SESSION_START for number, _, value in fields(session)):
            self.columns.begin_session(floor=float(step))
        for number, kind, value in fields(summary):
            if number == 1 and kind == BYTES and isinstance(value, bytes):
                self._value(value, float(step), time)

    def _value(self, data: bytes, step: float, time: float) -> None:
        tag, scalar = "", None
        for number, kind, value in fields(data):
            if number == 1 and isinstance(value, bytes):
                tag = value.decode()
            elif number == 2 and kind == FIXED32 and isinstance(value, bytes):
                (scalar,) = struct.unpack("<f", value)
            elif number == 8 and isinstance(value, bytes):
                scalar = scalar_of_tensor(value)
        # Hyperparameters are written as summaries with this prefix, whose tensors are empty.
        if tag and scalar is not None and not tag.startswith("_hparams_/"):
            self.columns.add(tag, step, scalar, time)


def scalar_of_tensor(data: bytes) -> float | None:
    """Return the number in a TensorProto of a real type without dimensions, or None."""
    type_number, content, typed, dimensions = 0, b"", None, 0
    for number, kind, value in fields(data):
        if number == 1 and isinstance(value, int):
            type_number = value
        elif number == 2 and isinstance(value, bytes):
            dimensions = sum(1 for field, _, _ in fields(value) if field == 2)
        elif number == 4 and isinstance(value, bytes):
            content = value
        elif number in _TYPED and typed is None:
            typed = _first_of(number, kind, value)
    if dimensions or type_number not in _REAL:
        return None
    if not content:
        # Writers may omit zero.
        return typed if typed is not None else 0.0
    if type_number == _BFLOAT16:
        content, type_number = b"\0\0" + content[:2], _FLOAT
    return float(struct.unpack_from(_PACKED.get(type_number, "<?"), content)[0])


def _first_of(field: int, kind: int, value: int | bytes) -> float | None:
    """Return the first number of a repeated number field, which can be packed, or None if it is empty."""
    if form := _TYPED[field]:
        if isinstance(value, bytes) and len(value) >= struct.calcsize(form):
            return float(struct.unpack_from(form, value)[0])
        return None
    if isinstance(value, bytes):
        if not value or kind != BYTES:
            return None
        value = varint(value, 0)[0]
    if field == _HALF:
        return float(struct.unpack("<e", struct.pack("<H", value & 0xFFFF))[0])
    return float(signed(value))


@functools.cache
def _crc_table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return tuple(table)


def masked_crc32c(data: bytes) -> int:
    """Return the CRC-32C checksum of `data` with the mask of the TFRecord format (a rotation and an offset)."""
    crc, table = 0xFFFFFFFF, _crc_table()
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class Malformed(ValueError):
    """Bytes that are not a protobuf message."""


def fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Yield number, wire type and value of each field. Numbers of fixed size are bytes. Raises Malformed."""
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
            raise Malformed("truncated field")
        yield key >> 3, kind, data[position : position + length]
        position += length


def varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the varint at a position, and the position after it. Raises Malformed."""
    value = shift = 0
    while position < len(data) and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
    raise Malformed("truncated number")


def signed(value: int) -> int:
    """Reinterpret an unsigned 64-bit number as signed."""
    return value - (1 << 64) if value >= 1 << 63 else value
