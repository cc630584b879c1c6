"""What is meant for the terminal, in the form that a multiplexer in between lets through to it."""

from __future__ import annotations

SCREEN_CHUNK = 240
"""Bytes of one piece through GNU screen, which cuts its strings at 256."""


def through_tmux(sequence: str) -> str:
    """The sequence as tmux hands it on, where its `allow-passthrough` is on."""
    return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"


def through_screen(sequence: str) -> str:
    """The sequence as GNU screen hands it on, in pieces.

    Its strings end with the first string terminator; one at the end becomes a BEL, which means the same.
    """
    data = sequence.removesuffix("\x1b\\")
    data = sequence if data == sequence else data + "\x07"
    pieces, piece = [], b""
    for character in data:
        encoded = character.encode(errors="surrogateescape")
        if len(piece) + len(encoded) > SCREEN_CHUNK:
            pieces.append(piece)
            piece = b""
        piece += encoded
    return "".join(f"\x1bP{each.decode(errors='surrogateescape')}\x1b\\" for each in [*pieces, piece])
