"""Requests to a real engine, and to one whose answers the test determines."""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engines import PYTHON_IMAGE, DockerEngine
from tui_workbench.core.errors import ConfigurationError, TargetUnreachable, WorkbenchError
from tui_workbench.targets.docker import engine as engine_module
from tui_workbench.targets.docker.engine import Engine, EngineRefused
from tui_workbench.targets.hosts.host import ConnectionLost

PING = b"HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nContent-Length: 2\r\n\r\nOK"


@contextlib.contextmanager
def server(*answers: bytes, ping: bytes = PING, seen: list[bytes] | None = None) -> Iterator[str]:
    """Run an engine that gives these answers, one per request, and then closes the connection."""
    left = list(answers)
    with tempfile.TemporaryDirectory(prefix="wb-") as folder, socket.socket(socket.AF_UNIX) as listener:
        path = f"{folder}/s"
        listener.bind(path)
        listener.listen()

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection, contextlib.suppress(OSError):
                        head = b""
                        while b"\r\n\r\n" not in head and (data := connection.recv(65536)):
                            head += data
                        if head.startswith(b"GET /_ping"):
                            connection.sendall(ping)
                            continue
                        if seen is not None and head:
                            seen.append(head)
                        connection.sendall(left.pop(0) if left and head else b"")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield path
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def answer(body: bytes, status: str = "200 OK") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode("ascii") + body


def chunked(*chunks: bytes) -> bytes:
    body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks if chunk)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n"


def frame(text: bytes, stream: int = 1) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(text).to_bytes(4, "big") + text


def refusal(said: str, status: str = "500 Bad") -> bytes:
    return answer(json.dumps({"message": said}).encode(), status)


def test_missing_engine_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(TargetUnreachable, match="the Docker engine on box does not answer"):
        Engine(str(tmp_path / "none"), "box")


@pytest.mark.parametrize("ping", [b"", b"nonsense\r\n\r\n", answer(b"OK")])
def test_other_server_is_unreachable(ping: bytes) -> None:
    with server(ping=ping) as path, pytest.raises(TargetUnreachable, match="box"):
        Engine(path, "box")


CALLS: dict[str, Callable[[Engine], object]] = {
    "facts": Engine.facts,
    "image": lambda engine: engine.image("x"),
    "images": lambda engine: engine.images("x"),
    "container": lambda engine: engine.container("x"),
    "containers": lambda engine: engine.containers("x"),
    "create": lambda engine: engine.create("x", {"Image": "x"}),
    "start": lambda engine: engine.start("x"),
    "wait": lambda engine: engine.wait("x"),
    "kill": lambda engine: engine.kill("x"),
    "remove": lambda engine: engine.remove("x"),
    "execute": lambda engine: engine.execute("x", ["true"]),
    "commit": lambda engine: engine.commit("x", "a:b", ["CMD []"]),
    "get": lambda engine: b"".join(engine.get("x", "/x") or ()),
    "records": lambda engine: list(engine.records("x")),
    "pull": lambda engine: list(engine.pull("x")),
    "has_volume": lambda engine: engine.has_volume("x"),
    "remove_volume": lambda engine: engine.remove_volume("x"),
    "remove_image": lambda engine: engine.remove_image("x"),
    "started_at": Engine.started_at,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_broken_connection_is_unreachable_in_every_call(call: Callable[[Engine], object]) -> None:
    with server() as path, pytest.raises(TargetUnreachable, match="box does not answer"):
        call(Engine(path, "box"))


@pytest.mark.parametrize("name", sorted(CALLS.keys() - {"records", "get", "pull", "execute"}))
@pytest.mark.parametrize("body", [b"[]", b"{}", b"17", b"null", b"<html>", b"[" * 100_000])
def test_invalid_answer_raises_a_workbench_error(name: str, body: bytes) -> None:
    with server(*[answer(body)] * 3) as path, contextlib.suppress(WorkbenchError):
        CALLS[name](Engine(path, "box"))


@pytest.mark.parametrize("call", [CALLS[name] for name in ("facts", "start", "commit", "get", "records", "pull")])
def test_refusal_has_message_and_status(call: Callable[[Engine], object]) -> None:
    with server(refusal("no\nway")) as path, pytest.raises(EngineRefused, match="no way") as caught:
        call(Engine(path, "box"))
    assert (caught.value.status, caught.value.reason) == (500, "no way")


@pytest.mark.parametrize("name", sorted(CALLS.keys() - {"records", "get", "pull", "execute"}))
def test_answer_without_end_is_refused(name: str) -> None:
    endless = chunked(*[b"x" * (1 << 20)] * 17)
    with server(*[endless] * 3) as path, pytest.raises(EngineRefused, match="its answer is larger than 16 MiB"):
        CALLS[name](Engine(path, "box"))


STREAMS = {name: CALLS[name] for name in ("execute", "get", "records", "pull")}
LOOKING = {name: CALLS[name] for name in ("facts", "image", "images", "container", "containers", "has_volume")}


@contextlib.contextmanager
def sender(*pieces: bytes, forever: bytes = b"", pause: float = 0.0) -> Iterator[str]:
    """Run an engine that answers `_ping`; to other requests it sends `pieces`, and then `forever` until it is closed.

    Without `forever`, it then keeps the connection open and sends nothing.
    """
    is_over = threading.Event()

    def answer_one(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            if connection.recv(65536).startswith(b"GET /_ping"):
                connection.sendall(PING)
                return
            for piece in pieces:
                connection.sendall(piece)
            while not is_over.wait(pause):
                connection.sendall(forever)
                if not forever:
                    is_over.wait()

    with tempfile.TemporaryDirectory(prefix="wb-") as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/s")
        listener.listen()

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    threads.append(threading.Thread(target=answer_one, args=(connection,), daemon=True))
                    threads[-1].start()

        threads = [threading.Thread(target=serve, daemon=True)]
        threads[0].start()
        try:
            yield f"{folder}/s"
        finally:
            is_over.set()
            listener.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()


HEAD = b"HTTP/1.1 200 OK\r\n"
SLOW: dict[str, tuple[bytes, bytes]] = {
    "silent": (b"", b""),
    "false length": (HEAD + b"Content-Length: 99999999999999\r\n\r\n{", b""),
    "slow status": (b"H", b""),
    "slow headers": (HEAD, b"X: y\r\n"),
    "slow body": (HEAD + b"Content-Length: 1000\r\n\r\n", b" "),
    "slow chunks": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "slow refusal": (b"HTTP/1.1 500 Bad\r\nContent-Length: 1000\r\n\r\n", b" "),
    "100 Continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
}


@pytest.mark.parametrize(("start", "then"), SLOW.values(), ids=SLOW)
def test_engine_that_answers_slowly_is_unreachable_in_time(
    monkeypatch: pytest.MonkeyPatch, start: bytes, then: bytes
) -> None:
    monkeypatch.setattr(engine_module, "LOOK_TIMEOUT", 0.5)
    with sender(start, forever=then, pause=0.05) as path:
        asked = Engine(path, "box")
        begun = time.monotonic()
        with pytest.raises(ConnectionLost, match="box does not answer"):
            asked.facts()
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize("call", LOOKING.values(), ids=LOOKING)
def test_every_call_that_looks_has_the_short_limit(
    monkeypatch: pytest.MonkeyPatch, call: Callable[[Engine], object]
) -> None:
    monkeypatch.setattr(engine_module, "LOOK_TIMEOUT", 0.2)
    with sender() as path, pytest.raises(ConnectionLost):
        call(Engine(path, "box"))


def test_engine_that_accepts_no_connection_is_unreachable_in_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(engine_module, "LOOK_TIMEOUT", 0.2)
    with contextlib.ExitStack() as opened, tempfile.TemporaryDirectory(prefix="wb-") as folder:
        listener = opened.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(f"{folder}/s")
        listener.listen(0)
        with contextlib.suppress(BlockingIOError):
            while True:
                waiting = opened.enter_context(socket.socket(socket.AF_UNIX))
                waiting.setblocking(False)
                waiting.connect(f"{folder}/s")
        with pytest.raises(TargetUnreachable):
            Engine(f"{folder}/s", "box")


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("status", ["200 OK", "500 Bad"])
def test_compressed_answer_is_refused(call: Callable[[Engine], object], status: str) -> None:
    packed = gzip.compress(b"[" + b" " * 1_000_000 + b"]")
    head = f"HTTP/1.1 {status}\r\nContent-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n".encode()
    with server(*[head + packed] * 3) as path, pytest.raises(EngineRefused, match="its answer is compressed"):
        call(Engine(path, "box"))


def test_compressed_answers_are_not_asked_for() -> None:
    seen: list[bytes] = []
    with server(answer(b"{}"), answer(b"{}"), seen=seen) as path, contextlib.suppress(WorkbenchError):
        Engine(path, "box").facts()
        list(Engine(path, "box").pull("x"))
    assert [b"accept-encoding: identity" in head.lower() for head in seen] == [True, True]


def test_redirection_is_not_followed() -> None:
    seen: list[bytes] = []
    redirection = b"HTTP/1.1 307 X\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n"
    with server(redirection, answer(b"{}"), seen=seen) as path, pytest.raises(TargetUnreachable):
        Engine(path, "box").facts()
    assert len(seen) == 1


ENDLESS: dict[str, tuple[bytes, bytes]] = {
    "100 Continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 5000),
    "refusal": (b"HTTP/1.1 500 Bad\r\n\r\n", b"x" * 100_000),
    "redirection": (b"HTTP/1.1 307 X\r\nLocation: /other\r\n\r\n", b"x" * 100_000),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["facts", *STREAMS])
@pytest.mark.parametrize(("start", "then"), ENDLESS.values(), ids=ENDLESS)
def test_endless_answer_is_refused_in_every_kind_of_call(name: str, start: bytes, then: bytes) -> None:
    with sender(start, forever=then) as path, pytest.raises(EngineRefused, match="larger than 16 MiB"):
        CALLS[name](Engine(path, "box"))


@pytest.mark.parametrize("head", [HEAD + b"\r\n", HEAD + b"Transfer-Encoding: chunked\r\n\r\n8000000\r\n"])
def test_message_of_a_pull_without_end_is_refused(head: bytes) -> None:
    with sender(head + b'{"status": "', forever=b"x" * 100_000) as path, pytest.raises(TargetUnreachable):
        list(Engine(path, "box").pull("x"))


def test_messages_of_a_pull_arrive_in_any_pieces() -> None:
    whole = b'{"status": "one"}\r\n{"status": "two"}\r\n\r\n{"status": "\xc3\xa9"}'
    for size in (1, 7, 1000):
        pieces = [whole[start : start + size] for start in range(0, len(whole), size)]
        with server(chunked(*pieces)) as path:
            assert [message["status"] for message in Engine(path, "box").pull("x")] == ["one", "two", "é"]


def test_stream_may_be_larger_than_an_answer() -> None:
    with server(chunked(*[b"x" * (1 << 20)] * 40)) as path:
        assert sum(map(len, Engine(path, "box").get("x", "/x") or ())) == 40 << 20
    with server(chunked(*[frame(b"1 " + b"x" * (1 << 20))] * 40)) as path:
        assert sum(map(len, Engine(path, "box").records("x"))) > 40 << 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("record", "pause"), [(b"1 " + b"x" * 60_000, 0.0), (b"", 0.0), (b"1 x", 0.05)], ids=["large", "empty", "slow"]
)
def test_output_of_a_check_without_end_is_refused(monkeypatch: pytest.MonkeyPatch, record: bytes, pause: float) -> None:
    monkeypatch.setattr(engine_module, "TIMEOUT", 30.0 if not pause else 0.5)
    reason = "takes longer than" if pause else "larger than 16 MiB"
    with (
        sender(HEAD + b"\r\n", forever=frame(record) * (1 if pause else 50), pause=pause) as path,
        pytest.raises(EngineRefused, match=reason),
    ):
        Engine(path, "box").output("x")


def test_events_end_when_they_are_stopped() -> None:
    event = b'{"Actor": {"Attributes": {"name": "a"}}}\n'
    with sender(HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(event), event)) as path:
        asked = Engine(path, "box")
        with asked.ends("x") as events:
            messages = events.messages()
            assert next(messages) == json.loads(event)
            events.stop()
            with pytest.raises(TargetUnreachable), asked.translated("report events"):
                next(messages)


def test_record_of_gigabytes_is_refused() -> None:
    head = chunked(bytes([1, 0, 0, 0]) + (1 << 31).to_bytes(4, "big") + b"x" * 100)
    with server(head) as path, pytest.raises(TargetUnreachable):
        list(Engine(path, "box").records("x"))


def test_full_disk_is_recognized() -> None:
    with (
        server(refusal("write /x: no space left on device")) as path,
        pytest.raises(EngineRefused, match="the Docker engine on box is full") as caught,
    ):
        Engine(path, "box").start("x")
    assert "experiment clean" in caught.value.remedy


def test_api_version_follows_the_engine() -> None:
    seen: list[bytes] = []
    for version in (b"1.24", b"1.99"):
        with server(answer(b"{}"), ping=PING.replace(b"1.41", version), seen=seen) as path:
            Engine(path, "box").facts()
    assert [head.split()[1] for head in seen] == [b"/v1.24/info", b"/v1.99/info"]


def test_broken_log_stream_is_not_its_end() -> None:
    whole = frame(b"1 one\n") + frame(b"2 two\n", 2) + frame(b"") + frame(b"3 three")
    for size in (1, 7, 1000):
        pieces = [whole[start : start + size] for start in range(0, len(whole), size)]
        with server(chunked(*pieces)) as path:
            assert list(Engine(path, "box").records("x")) == [b"1 one\n", b"2 two\n", b"", b"3 three"]
        with server(chunked(*pieces)[:-5]) as path, pytest.raises(TargetUnreachable):
            list(Engine(path, "box").records("x"))


def test_program_with_broken_connection_has_not_ended() -> None:
    stream = b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\n"
    answers = [answer(b'{"Id": "1"}'), stream + frame(b"some"), answer(b'{"Running": true, "ExitCode": null}')]
    with server(*answers) as path, pytest.raises(TargetUnreachable):
        Engine(path, "box").execute("x", ["true"])


# Logins to registries are those of `docker login` on this machine.


@pytest.fixture
def docker_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    return tmp_path


def login_sent(image: str) -> dict[str, Any]:
    """Return the login that is sent to the engine to pull the image; empty if none is sent."""
    seen: list[bytes] = []
    with server(answer(b'{"status": "Pulling"}'), seen=seen) as path, contextlib.suppress(WorkbenchError):
        list(Engine(path, "box").pull(image))
    lines = seen[0].decode("ascii").split("\r\n")
    header = next((line.partition(": ")[2] for line in lines if line.lower().startswith("x-registry-auth:")), "")
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(header)) if header else {}
    return found


def test_pull_uses_credentials_of_docker_login(docker_folder: Path) -> None:
    secret = base64.b64encode(b"me:pass:word").decode()
    (docker_folder / "config.json").write_text(json.dumps({"auths": {"registry.example.org": {"auth": secret}}}))
    sent = login_sent("registry.example.org/a:1")
    assert (sent["username"], sent["password"]) == ("me", "pass:word")
    assert login_sent("python:3.11") == {}


def test_pull_without_tag_gets_one_image() -> None:
    for name, expected in (
        ("python", b"tag=latest&fromImage=python "),
        ("box:5000/a", b"tag=latest&fromImage=box%3A5000%2Fa "),
        ("a@sha256:12", b"tag=sha256%3A12&fromImage=a "),
    ):
        seen: list[bytes] = []
        with server(answer(b"{}"), seen=seen) as path, contextlib.suppress(WorkbenchError):
            list(Engine(path, "box").pull(name))
        assert expected in seen[0]


@pytest.mark.parametrize("text", ["[]", '{"auths": {"a": "b"}}', '{"auths": {"a": {"auth": "!"}}}', '{"proxies": 1}'])
def test_damaged_docker_configuration_is_reported(docker_folder: Path, text: str) -> None:
    path = docker_folder / "config.json"
    path.write_text(text)
    with server() as address, pytest.raises(ConfigurationError) as caught:
        Engine(address, "box")
    assert caught.value.file == str(path)


def test_docker_configuration_that_is_not_json_is_ignored(docker_folder: Path) -> None:
    (docker_folder / "config.json").write_text("{")
    with server() as address:
        Engine(address, "box")


# A real engine.


def test_socket_path_may_contain_any_character(engine: DockerEngine) -> None:
    with tempfile.TemporaryDirectory(prefix="wb-") as folder:
        link = Path(folder, "a#b?c%41 d;é")
        link.symlink_to(engine.socket)
        assert Engine(str(link), "box").facts().os_type == "linux"


def test_proxy_and_netrc_are_ignored(engine: DockerEngine, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    (home / ".netrc").write_text("machine localhost login me password secret\n")
    assert Engine(engine.socket, "box").image(PYTHON_IMAGE) is not None


@pytest.mark.parametrize(
    "name", ["/x", "a//b", "..", "a b", "UPPER", "-x", "x:", "é", "a\udcffb", "$(id)", "x?y#z", "a\nb"]
)
def test_invalid_image_name_is_missing_or_refused(engine: DockerEngine, name: str) -> None:
    asked = Engine(engine.socket, "box")
    with contextlib.suppress(EngineRefused):
        assert asked.image(name) is None
    with pytest.raises(EngineRefused):
        list(asked.pull(name))


def test_output_of_a_program_is_streamed(engine: DockerEngine) -> None:
    asked = Engine(engine.socket, "box")
    asked.create("idle", {"Image": PYTHON_IMAGE, "Cmd": ["sleep", "600"], "HostConfig": {"Init": True}})
    asked.start("idle")
    script = 'echo "$A"; until [ -e /go ]; do sleep 0.01; done; echo last >&2; exit 3'
    stream = asked.stream("idle", ["sh", "-c", script], environment={"A": "é"})
    assert next(stream) == "é\n".encode()
    assert asked.execute("idle", ["touch", "/go"]) == (0, b"")
    assert list(stream) == [b"last\n", 3]


def test_container_name_is_unique(engine: DockerEngine) -> None:
    asked = Engine(engine.socket, "box")
    for _ in range(2):
        asked.create("once", {"Image": PYTHON_IMAGE, "Cmd": ["true"]})
    assert engine.containers() == ["once"]
    asked.remove("once")
    asked.remove("once")
    assert asked.container("once") is None
