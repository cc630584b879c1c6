"""HTTP over a unix socket, as much as a Docker engine speaks: one request a connection, answered whole or in pieces.

Written here because of what it leaves out. The usual libraries (cookies, proxies, redirects, certificates, guessed
encodings) take longer to load than a container takes to be created. Nothing is held between two requests, so there is
nothing to share between threads and nothing to let go of.
"""

from __future__ import annotations

import io
import json
import os
import socket

from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import IO, Any

    Query = Sequence[tuple[str, str]]

_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/:@")
_CHUNK = 1 << 18
_LONGEST_LINE = 1 << 16


class Broken(ConnectionError):
    """The other side ended the connection in the middle of an answer."""


class Answer:
    """The answer to a request: its status, and its body as far as it is asked for. Close it, or use it in a `with`."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._file = io.BufferedReader(socket.SocketIO(connection, "r"), _CHUNK)
        self._left = 0  # bytes of the body (or of its current chunk) that are still to come; -1 until the end
        self._is_chunked = False
        self._is_over = False
        line = self._line()
        words = line.split(None, 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
            raise Broken(f"this is no HTTP: {line[:80]!r}")
        self.status = int(words[1])
        self._read_headers()

    def __enter__(self) -> Answer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection, whatever has not been read."""
        self._file.close()
        self._connection.close()

    def read(self, size: int) -> bytes:
        """Up to `size` bytes of the body as they arrive; none at its end. Raises OSError."""
        if self._is_over:
            return b""
        if self._is_chunked and self._left == 0 and not self._next_chunk():
            return b""
        wanted = size if self._left < 0 else min(size, self._left)
        data = self._file.read1(wanted) if wanted else b""
        if self._left > 0:
            if not data:
                raise Broken("the connection ended in the middle of an answer")
            self._left -= len(data)
        if self._is_chunked and self._left == 0:
            self._file.readline(_LONGEST_LINE)
        elif self._left == 0 or not data:
            self._is_over = True
        return data

    def exactly(self, size: int) -> bytes:
        """`size` bytes of the body; fewer at its end."""
        parts = []
        while size > 0 and (part := self.read(size)):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def chunks(self) -> Iterator[bytes]:
        """The body in pieces as they arrive."""
        while data := self.read(_CHUNK):
            yield data

    def body(self) -> bytes:
        """All of the body."""
        return b"".join(self.chunks())

    def json(self) -> Any:
        """The body as the value that it writes; None when there is none."""
        data = self.body()
        return json.loads(data) if data.strip() else None

    def lines(self) -> Iterator[bytes]:
        """The lines of the body as they arrive, without their ends; empty ones are left out."""
        rest = b""
        for data in self.chunks():
            *whole, rest = (rest + data).split(b"\n")
            yield from (line.strip() for line in whole if line.strip())
        if rest.strip():
            yield rest.strip()

    def _read_headers(self) -> None:
        length = -1
        while line := self._line():
            name, _, value = line.partition(b":")
            name, value = name.strip().lower(), value.strip()
            if name == b"content-length" and value.isdigit():
                length = int(value)
            elif name == b"transfer-encoding" and value.lower() == b"chunked":
                self._is_chunked = True
        self._left = 0 if self._is_chunked else length
        self._is_over = not self._is_chunked and (length == 0 or self.status in (204, 304))

    def _next_chunk(self) -> bool:
        size = self._line().split(b";")[0]
        try:
            self._left = int(size, 16)
        except ValueError:
            raise Broken(f"this is no chunk of an answer: {size[:80]!r}") from None
        if self._left == 0:
            self._is_over = True
        return not self._is_over

    def _line(self) -> bytes:
        line = self._file.readline(_LONGEST_LINE)
        if not line.endswith(b"\n"):
            raise Broken("the connection ended before the answer did")
        return line.strip()


def request(
    path: str,
    method: str,
    target: str,
    query: Query = (),
    *,
    body: IO[bytes] | bytes = b"",
    headers: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> Answer:
    """Ask the server behind the unix socket `path`; returns when it begins to answer. Raises OSError.

    `timeout` is how long the server may be silent, in seconds; None for ever.
    """
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(timeout)
        connection.connect(path)
        size = len(body) if isinstance(body, bytes) else os.fstat(body.fileno()).st_size
        if query:
            target += "?" + "&".join(f"{quote(name)}={quote(value, everything=True)}" for name, value in query)
        lines = [f"{method} {target} HTTP/1.1", "Host: docker", "Connection: close", f"Content-Length: {size}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        connection.sendall("\r\n".join([*lines, "", ""]).encode("ascii"))
        _send(connection, body)
        return Answer(connection)
    except BaseException:
        connection.close()
        raise


def _send(connection: socket.socket, body: IO[bytes] | bytes) -> None:
    try:
        if isinstance(body, bytes):
            connection.sendall(body)
            return
        while data := body.read(_CHUNK):
            connection.sendall(data)
    except (BrokenPipeError, ConnectionResetError):
        return  # it has answered before it had read all: what it says is worth more than that


def quote(text: str, *, everything: bool = False) -> str:
    """The text as it may stand in a path; with `everything` also as a value of a query."""
    data = text.encode("utf-8", "surrogateescape")
    plain = _UNRESERVED - frozenset(b"/:@") if everything else _UNRESERVED
    return "".join(chr(byte) if byte in plain else f"%{byte:02X}" for byte in data)
