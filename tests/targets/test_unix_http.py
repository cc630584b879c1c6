"""HTTP over a unix socket, against a server that says exactly what a test wants it to say."""

from __future__ import annotations

import contextlib
import json
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui_workbench.errors import TargetUnreachable
from tui_workbench.targets.engine import Engine, EngineRefused
from tui_workbench.targets.unix_http import Answer, quote, request


@contextlib.contextmanager
def server(answer: bytes, *, pieces: int = 1 << 20, seen: list[bytes] | None = None) -> Iterator[str]:
    """A server that answers each request with these bytes, in pieces of this size, and ends the connection."""
    with tempfile.TemporaryDirectory(prefix="wb-") as folder, socket.socket(socket.AF_UNIX) as listener:
        path = f"{folder}/s"
        listener.bind(path)
        listener.listen()

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection, contextlib.suppress(OSError):
                        data = b""
                        while b"\r\n\r\n" not in data:
                            data += connection.recv(65536)
                        if seen is not None:
                            seen.append(data)
                        for start in range(0, len(answer), pieces):
                            connection.sendall(answer[start : start + pieces])

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield path
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def chunked(*chunks: bytes) -> bytes:
    body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks if chunk)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n"


def test_a_request_is_what_a_server_expects() -> None:
    seen: list[bytes] = []
    with server(b"HTTP/1.1 204 No Content\r\n\r\n", seen=seen) as path:
        query = [("filters", '{"label": ["a=b"]}'), ("q", "ü &?#")]
        with request(path, "POST", "/x", query, body=b"{}", headers={"Content-Type": "application/json"}) as answer:
            assert (answer.status, answer.body()) == (204, b"")
    head, _, body = seen[0].partition(b"\r\n\r\n")
    lines = head.decode("ascii").split("\r\n")
    assert lines[0] == "POST /x?filters=%7B%22label%22%3A%20%5B%22a%3Db%22%5D%7D&q=%C3%BC%20%26%3F%23 HTTP/1.1"
    assert {"Content-Length: 2", "Content-Type: application/json", "Connection: close"} <= set(lines)
    assert body in (b"{}", b"")


@settings(max_examples=40)
@given(st.lists(st.binary(max_size=300), max_size=8), st.integers(1, 400), st.integers(1, 400))
def test_a_body_is_the_same_however_it_is_cut(chunks: list[bytes], pieces: int, size: int) -> None:
    with server(chunked(*chunks), pieces=pieces) as path, request(path, "GET", "/") as answer:
        parts = iter(lambda: answer.read(size), b"")
        assert b"".join(parts) == b"".join(chunks)
        assert answer.read(1) == b""


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello\nworld",
        b"HTTP/1.1 200 OK\r\n\r\nhello\nworld",
        chunked(b"hel", b"lo\nwor", b"ld"),
    ],
)
def test_bodies_of_every_form_are_read(answer: bytes) -> None:
    with server(answer) as path:
        with request(path, "GET", "/") as found:
            assert found.body() == b"hello\nworld"
        with request(path, "GET", "/") as found:
            assert list(found.lines()) == [b"hello", b"world"]
        with request(path, "GET", "/") as found:
            assert (found.exactly(8), found.exactly(100)) == (b"hello\nwo", b"rld")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello",
        chunked(b"hello")[:-8],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20\r\nhello",
    ],
)
def test_an_answer_that_ends_too_early_is_a_broken_connection(answer: bytes) -> None:
    with server(answer) as path, pytest.raises(ConnectionError), request(path, "GET", "/") as found:
        found.body()


def test_a_server_that_says_nothing_is_waited_for_only_so_long() -> None:
    with tempfile.TemporaryDirectory(prefix="wb-") as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/s")
        listener.listen()
        with pytest.raises(TimeoutError):
            request(f"{folder}/s", "GET", "/", timeout=0.05)


def test_a_large_file_is_sent_from_the_disk(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 3_000_000)
    with (
        server(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as path,
        (tmp_path / "large").open("rb") as file,
        request(path, "PUT", "/", body=file, timeout=30) as answer,
    ):
        assert answer.status == 200


@given(st.text())
def test_names_are_quoted_so_that_they_come_back(text: str) -> None:
    from urllib.parse import unquote

    plain = text.encode("utf-8", "replace").decode()
    assert unquote(quote(plain)) == plain
    assert not set(quote(plain, everything=True)) & set(" ?&#=/:%\r\n") - {"%"}


PING = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK"


def test_an_engine_that_is_not_there_or_answers_nonsense_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(TargetUnreachable, match="does not answer"):
        Engine(str(tmp_path / "none"), "box")
    with server(b"nonsense\r\n\r\n") as path, pytest.raises(TargetUnreachable, match="box"):
        Engine(path, "box")


def refusal(body: bytes) -> bytes:
    return b"HTTP/1.1 500 Bad\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


def test_an_engine_s_refusal_carries_its_words_and_its_status() -> None:
    body = json.dumps({"message": "no\nway"}).encode()
    with server(refusal(body)) as path, pytest.raises(EngineRefused, match="no way") as caught:
        Engine(path, "box")
    assert (caught.value.status, caught.value.said) == (500, "no way")


def test_a_full_disk_is_told_apart() -> None:
    body = json.dumps({"message": "write /x: no space left on device"}).encode()
    with server(refusal(body)) as path, pytest.raises(EngineRefused, match="the Docker engine on box is full"):
        Engine(path, "box")


def test_an_answer_is_let_go_of_at_the_end_of_its_block() -> None:
    with server(PING) as path:
        with request(path, "GET", "/") as answer:
            assert isinstance(answer, Answer)
        assert answer._connection.fileno() == -1
