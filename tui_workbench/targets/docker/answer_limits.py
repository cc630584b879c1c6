"""Read answers of an engine with limits of size and time, which apply to each byte that the socket receives."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

from tui_workbench.core.json_values import parse_json

MOST_ANSWER = 16 << 20
"""Maximum size in bytes of an answer with its headers, and of each part of a stream."""

MOST_MESSAGE = 1 << 20
"""Maximum size in bytes of a message in a stream of messages."""

_PIECE = 1 << 16
_ENCODING = "Content-Encoding"


def refuse_encoded(answer: Any, *, refuse: Callable[[str], Exception], **_: Any) -> None:
    """Raise `refuse(REASON)` for a compressed answer, which may be much larger. This is a hook of `requests`."""
    if answer.headers.get(_ENCODING, "identity") != "identity":
        answer.close()
        raise refuse("its answer is compressed")


class LimitedSocket(socket.socket):
    """A Unix socket for one request. Its limits cover connecting, sending, and the headers and body of the answer.

    Raises TimeoutError `seconds` after its creation (None: never), and `refuse(REASON)` for an answer of more than
    MOST_ANSWER bytes. The methods that change the limits are for streams, which have other limits.
    """

    def __init__(self, seconds: float | None, refuse: Callable[[str], Exception]) -> None:
        super().__init__(socket.AF_UNIX, socket.SOCK_STREAM)
        self._refuse = refuse
        self._left = MOST_ANSWER
        self._late: Exception = TimeoutError("timed out")
        self._deadline = None if seconds is None else time.monotonic() + seconds

    def limit(self, seconds: float | None) -> None:
        """Replace the time limit: from now on, raise `refuse(REASON)` after `seconds`; None for no limit."""
        self._late = self._refuse(f"its answer takes longer than {seconds or 0:g} s")
        self._deadline = None if seconds is None else time.monotonic() + seconds

    def allow_part(self) -> None:
        """Allow MOST_ANSWER more bytes."""
        self._left = MOST_ANSWER

    def connect(self, address: Any) -> None:
        with self._timed():
            super().connect(address)

    def sendall(self, *arguments: Any) -> None:
        with self._timed():
            super().sendall(*arguments)

    def recv_into(self, *arguments: Any) -> int:
        with self._timed():
            size = super().recv_into(*arguments)
        self._left -= size
        if self._left < 0:
            raise self._refuse(f"its answer is larger than {MOST_ANSWER >> 20} MiB")
        return size

    @contextlib.contextmanager
    def _timed(self) -> Iterator[None]:
        left = None if self._deadline is None else self._deadline - time.monotonic()
        if left is not None and left <= 0:
            raise self._late
        # The timeout of a socket applies to each call alone, so each call gets only the rest of the time.
        self.settimeout(left)
        try:
            yield
        except TimeoutError:
            raise self._late from None


class Stream:
    """The body of an answer that is read in parts of limited size, for as long as the engine sends it.

    `seconds` limits the time of the whole stream.
    """

    def __init__(self, response: Any, seconds: float | None = None) -> None:
        self._response = response
        self._raw = response.raw
        connection = self._raw.connection  # None after an empty body
        self._socket: LimitedSocket | None = getattr(connection, "limited", None)
        if self._socket is not None:
            self._socket.limit(seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._response.close()

    def stop(self) -> None:
        """End the stream from another thread. Raises OSError if the connection was lost."""
        if self._socket is not None:
            self._socket.shutdown(socket.SHUT_RDWR)

    def pieces(self, size: int = _PIECE) -> Iterator[bytes]:
        """Yield the data in pieces of at most `size` bytes as they arrive, or of `size` bytes if it is not chunked."""
        pieces = self._raw.stream(size, decode_content=False)
        self._allow_part()
        for piece in pieces:
            yield piece
            self._allow_part()

    def frames(self) -> Iterator[bytes]:
        """Yield the data of both streams. A frame is a header of eight bytes (stream, 0, 0, 0, length) and the data.

        Raises ValueError for an invalid frame.
        """
        while len(header := self._read(8)) == 8:
            size = int.from_bytes(header[4:8], "big")
            if size > MOST_ANSWER:
                raise ValueError("invalid frame")
            data = self._read(size) if size else b""
            if len(data) < size:
                return  # the record is incomplete, and is read again
            yield data

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield the JSON objects of a stream with one object on each line. Raises ValueError for another stream."""
        line = b""
        for piece in self.pieces():
            *ended, line = (line + piece).split(b"\n")
            yield from map(_message, filter(bytes.strip, ended))
            if len(line) > MOST_MESSAGE:
                raise ValueError("too long a message")
        if line.strip():
            yield _message(line)

    def _read(self, size: int) -> bytes:
        self._allow_part()
        data: bytes = self._raw.read(size)
        return data

    def _allow_part(self) -> None:
        if self._socket is not None:
            self._socket.allow_part()


def _message(line: bytes) -> dict[str, Any]:
    message = parse_json(line)
    if not isinstance(message, dict):
        raise ValueError("not a message")
    return message
