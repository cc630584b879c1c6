"""A keyring, and real servers for e-mail and HTTP on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import email.policy
import json
import subprocess
import threading
from collections.abc import Iterator
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, Envelope

from tests.cli.support import Installed
from tests.json_output import check_output
from tests.targets.conftest import connections, keyring  # noqa: F401  (fixtures)
from tui_workbench.projects.project import Project
from tui_workbench.runs.store.rundir import RunDirectory

SENDER, RECIPIENT = "workbench@lab.example", "me@lab.example"
TOPIC = "secret-topic"


class Mailbox:
    """The mails that the server has received. `url` is its URL for Apprise, `reply` its answer to a mail."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.url = ""
        self.reply = "250 OK"
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def handle_DATA(self, _server: SMTP, _session: object, envelope: Envelope) -> str:  # noqa: N802  (aiosmtpd)
        content = envelope.content
        assert isinstance(content, bytes)
        mail = email.message_from_bytes(content, policy=email.policy.default)
        assert isinstance(mail, EmailMessage)
        self.mails.append(mail)
        await self.may_answer.wait()
        return self.reply


class Topic(ThreadingHTTPServer):
    """An HTTP server that accepts the requests of ntfy. `url` is its URL for Apprise, `code` its answer (0: none)."""

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Requests)
        self.messages: list[dict[str, Any]] = []
        self.code = 200
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.url = f"ntfy://127.0.0.1:{self.server_port}/{TOPIC}"

    @property
    def titles(self) -> list[str]:
        """The titles of the messages."""
        return [message["title"] for message in self.messages]


class _Requests(BaseHTTPRequestHandler):
    server: Topic

    def do_POST(self) -> None:
        self.server.messages.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.server.may_answer.wait()
        if not self.server.code:
            return
        with contextlib.suppress(ConnectionError):  # the client does not wait any longer
            self.send_response(self.server.code)
            self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    box, loop = Mailbox(), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def listen() -> asyncio.Server:
        return await loop.create_server(lambda: SMTP(box, hostname="mail.example", loop=loop), "127.0.0.1", 0)

    async def close(server: asyncio.Server) -> None:
        server.close()
        await server.wait_closed()

    server = asyncio.run_coroutine_threadsafe(listen(), loop).result()
    port = server.sockets[0].getsockname()[1]
    box.url = f"mailto://127.0.0.1:{port}?from={SENDER}&to={RECIPIENT}&mode=insecure"
    yield box
    loop.call_soon_threadsafe(box.may_answer.set)
    asyncio.run_coroutine_threadsafe(close(server), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@contextlib.contextmanager
def serving(port: int = 0) -> Iterator[Topic]:
    """Start a server, and stop it at the end."""
    with Topic(port) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.may_answer.set()
            server.shutdown()
            thread.join()


@pytest.fixture
def topic() -> Iterator[Topic]:
    with serving() as server:
        yield server


@pytest.fixture
def other() -> Iterator[Topic]:
    """Return another server."""
    with serving() as server:
        yield server


@pytest.fixture
def shell(project: Project, keyring: Path) -> Installed:  # noqa: F811  (fixture)
    """Return the command in a project whose script prints a loss and ends with its first argument."""
    Path(project.root, "train.py").write_text(
        "import sys\nprint('loss=0.50')\nprint('loss=0.05')\nsys.exit(int(sys.argv[1]))\n"
    )
    return Installed(Path(project.root))


def add(shell: Installed, name: str, url: str, *options: str) -> None:
    words = ("notify", "add", name, "--url-stdin", *options, "-o", "json")
    process = shell.start(*words, stdin=subprocess.PIPE)
    out, err = process.communicate(url.encode())
    assert process.returncode == 0, err
    check_output(words, out.decode())


def results(run: RunDirectory) -> dict[str, bool | None]:
    """Return the result of each notification about a run, by its file; None while there is no result."""
    files = Path(run.path, "notifications").glob("*.json")
    return {file.stem: json.loads(file.read_text())["sent"] if file.stat().st_size else None for file in files}


def last_reason(run: RunDirectory) -> str:
    """Return the reason in the last event of a run."""
    return str(json.loads(Path(run.path, "events.jsonl").read_text().splitlines()[-1])["reason"])
