"""TensorBoard event files: the scalars in them, in both of their forms.

A file is a sequence of records: length (8 bytes), checksum of the length, an `Event` message, checksum of the message.
A record that is not complete yet waits for the next look; one whose length is damaged ends the file, because nothing
tells where the next one begins. Checksums of messages are not computed: in Python that would take longer than the rest.
"""

from __future__ import annotations

import math
import os
import re
import struct

from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs.metrics.columns import Columns
from tui_workbench.runs.metrics.protobuf import (
    BYTES,
    FIXED32,
    FIXED64,
    VARINT,
    Malformed,
    double,
    fields,
    signed,
    single,
)
from tui_workbench.runs.metrics.protobuf import varint as read_varint
from tui_workbench.runs.metrics.tail import Tail
from tui_workbench.runs.metrics.values import TENSORBOARD

if TYPE_CHECKING:
    from collections.abc import Callable

_HEADER = struct.Struct("<QI")
_FRAME = _HEADER.size + 4
LARGEST_RECORD = 1 << 30
LARGEST_SCALARS = 1 << 20
"""Bytes of an event beyond which it is an image or a graph, and is passed over unread."""

# An event of one short summary of one number, as nearly all are: time, step, and the summary with its name and its
# last field, the number.
_USUAL = re.compile(
    rb"\x09(.{8})(?:\x10([\x80-\xff]*[\0-\x7f]))?\x2a[\0-\x7f]\x0a[\0-\x7f]\x0a([\0-\x7f])(.{6,})", re.DOTALL
)
_SIMPLE_VALUE = 2 << 3 | FIXED32

_SPLITS = frozenset(("train", "training", "val", "valid", "validation", "test", "eval", "evaluation"))
"""Folders that tell courses of the same names apart: `train/epoch_loss`, `validation/epoch_loss`."""

# The numeric types of tensors that are written as bytes, by their numbers (types.proto).
_PACKED = {1: "<f", 2: "<d", 3: "<i", 4: "<B", 5: "<h", 6: "<b", 9: "<q", 17: "<H", 19: "<e", 22: "<I", 23: "<Q"}
_BOOL, _BFLOAT16 = 10, 14
_REAL = frozenset((*_PACKED, _BOOL, _BFLOAT16))


class EventFile:
    """The reader of one event file."""

    source = TENSORBOARD

    def __init__(self, path: str) -> None:
        self.path = path
        self.columns = Columns()
        self._tail = Tail(path)
        self._pass = 0  # the byte behind an event that is passed over
        self._checksums: dict[int, int] = {}

    @property
    def unit(self) -> str:
        """The folder: a writer that is started again goes on in another file there."""
        return os.path.dirname(self.path)

    @property
    def always_labeled(self) -> bool:
        """Whether the folder's name belongs to the names of the curves."""
        return os.path.basename(self.unit).lower() in _SPLITS

    def move(self, path: str) -> None:
        """Go on with the same file at another path: outputs move out of the working copy when a run ends."""
        self.path = self._tail.path = path

    def refresh(self) -> bool:
        """Read what is new; True when there was something."""
        if self.columns.damaged_at >= 0 and not self._tail.was_replaced():
            return False
        something = False
        for chunk in self._tail.chunks():
            if self._tail.began_anew and not something:
                self.columns = Columns()
            self._pass = 0
            taken = self._take(chunk)
            something = something or taken > 0
            if self.columns.damaged_at >= 0:
                return True
            self._tail.offset = self._pass or self._tail.offset - len(chunk) + taken
        return something

    def _take(self, chunk: bytes) -> int:
        """Take the complete records of the bytes; how many bytes they are."""
        position, size = 0, len(chunk)
        base = self._tail.offset - size
        while position + _HEADER.size <= size:
            length, checksum = _HEADER.unpack_from(chunk, position)
            if checksum != self._checksums.get(length) and not self._is_sound(length, checksum):
                self.columns.damaged_at = base + position
                return position
            end = position + _FRAME + length
            if end > size:
                if length > LARGEST_SCALARS and base + end <= self._tail.size:
                    self._pass = base + end
                break
            try:
                self._event(chunk[position + _HEADER.size : end - 4])
            except (Malformed, struct.error, UnicodeDecodeError):
                self.columns.unreadable += 1
            position = end
        return position

    def _is_sound(self, length: int, checksum: int) -> bool:
        """Whether a length is one: by its checksum, which few different ones need."""
        if length > LARGEST_RECORD or checksum != masked_crc32c(struct.pack("<Q", length)):
            return False
        if len(self._checksums) < 1000:
            self._checksums[length] = checksum
        return True

    def _event(self, data: bytes) -> None:
        usual = _USUAL.fullmatch(data)
        if usual is not None and len(usual[4]) == usual[3][0] + 5 and usual[4][-5] == _SIMPLE_VALUE:
            step = read_varint(usual[2], 0)[0] if usual[2] else 0
            self._found(usual[4][:-5].decode(), float(signed(step)), single(usual[4][-4:]), double(usual[1]))
            return
        time, step, summary = math.nan, 0, b""
        for number, kind, value in fields(data):
            if number == 1 and kind == FIXED64 and isinstance(value, bytes):
                time = double(value)
            elif number == 2 and kind == VARINT and isinstance(value, int):
                step = signed(value)
            elif number == 5 and kind == BYTES and isinstance(value, bytes):
                summary = value
        for number, kind, value in fields(summary):
            if number == 1 and kind == BYTES and isinstance(value, bytes):
                self._value(value, float(step), time)

    def _value(self, data: bytes, step: float, time: float) -> None:
        tag, found = "", None
        for number, kind, value in fields(data):
            if number == 1 and isinstance(value, bytes):
                tag = value.decode()
            elif number == 2 and kind == FIXED32 and isinstance(value, bytes):
                found = single(value)
            elif number == 8 and isinstance(value, bytes):
                found = scalar_of_tensor(value)
        if tag and found is not None:
            self._found(tag, step, found, time)

    def _found(self, tag: str, step: float, value: float, time: float) -> None:
        # Hyperparameters are written as summaries of empty tensors under names of their own.
        if not tag.startswith("_hparams_/"):
            self.columns.add(tag, step, value, time)


def scalar_of_tensor(data: bytes) -> float | None:
    """The number that a TensorProto holds when it is of a real type and has no dimensions; else None."""
    type_number, content, typed, dimensions = 0, b"", None, 0
    for number, kind, value in fields(data):
        if number == 1 and isinstance(value, int):
            type_number = value
        elif number == 2 and isinstance(value, bytes):
            dimensions = sum(1 for field, _, _ in fields(value) if field == 2)
        elif number == 4 and isinstance(value, bytes):
            content = value
        elif number in _TYPED and typed is None:
            typed = _TYPED[number](value, kind)
    if dimensions or type_number not in _REAL:
        return None
    if not content:
        # A number that is zero is often left out.
        return typed if typed is not None else 0.0
    if type_number == _BFLOAT16:
        return single(b"\0\0" + content[:2])
    return float(struct.unpack_from(_PACKED.get(type_number, "<?"), content)[0])


def _first(form: str, size: int) -> Callable[[int | bytes, int], float | None]:
    """The reader of a repeated field of numbers of a fixed size, packed or not."""

    def read(value: int | bytes, _: int) -> float | None:
        return float(struct.unpack_from(form, value)[0]) if isinstance(value, bytes) and len(value) >= size else None

    return read


def _integer(value: int | bytes, kind: int) -> float | None:
    if isinstance(value, bytes):
        if not value or kind != BYTES:
            return None
        value = read_varint(value, 0)[0]
    return float(signed(value))


def _half(value: int | bytes, kind: int) -> float | None:
    bits = _integer(value, kind)
    return None if bits is None else float(struct.unpack("<e", struct.pack("<H", int(bits) & 0xFFFF))[0])


_TYPED: dict[int, Callable[[int | bytes, int], float | None]] = {
    5: _first("<f", 4),
    6: _first("<d", 8),
    7: _integer,
    10: _integer,
    11: _integer,
    13: _half,
    16: _integer,
    17: _integer,
}


def _crc_table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return tuple(table)


_CRC = _crc_table()


def masked_crc32c(data: bytes) -> int:
    """The checksum of a record, turned as its format asks for."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
