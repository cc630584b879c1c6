"""Shorten the pauses of TCP after an interruption of the network."""

from __future__ import annotations

import contextlib
import socket
import sys

_RTO_MAX_MS = 44  # TCP_RTO_MAX_MS of linux/tcp.h, since Linux 6.15; the module `socket` does not define it
_SHORTEST = 1000  # milliseconds; Linux accepts no smaller value


def retransmit_each_second(used: socket.socket | None) -> None:
    """Let the TCP connection of a socket retransmit at least once a second.

    Output then arrives at once when the network works again. Otherwise each pause is twice as long as the one before:
    after an interruption of a minute, the next attempt may be a minute later. Other systems keep their pauses. A
    connection through a jump host or a proxy command has no socket.
    """
    if used is not None and sys.platform == "linux":
        with contextlib.suppress(OSError):
            used.setsockopt(socket.IPPROTO_TCP, _RTO_MAX_MS, _SHORTEST)
