"""A keyring, and real servers for e-mail and HTTP on this machine."""

from __future__ import annotations

import asyncio
import email.policy
import json
import threading
from collections.abc import Iterator
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, Envelope

from tests.cli.support import Installed
from tests.targets.conftest import connections, keyring  # noqa: F401  (fixtures)
from tui_workbench.projects.project import Project

SENDER, RECIPIENT = "workbench@lab.example", "me@lab.example"
TOPIC = "secret-topic"


class Mailbox:
    """The mails that the server has received. `url` is its URL for Apprise."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.url = ""

    async def handle_DATA(self, _server: SMTP, _session: object, envelope: Envelope) -> str:  # noqa: N802  (aiosmtpd)
        content = envelope.content
        assert isinstance(content, bytes)
        mail = email.message_from_bytes(content, policy=email.policy.default)
        assert isinstance(mail, EmailMessage)
        self.mails.append(mail)
        return "250 OK"


class Topic(ThreadingHTTPServer):
    """An HTTP server that accepts the requests of ntfy. `url` is its URL for Apprise, `code` its answer."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Requests)
        self.messages: list[dict[str, Any]] = []
        self.code = 200
        self.url = f"ntfy://127.0.0.1:{self.server_port}/{TOPIC}"


class _Requests(BaseHTTPRequestHandler):
    server: Topic

    def do_POST(self) -> None:
        self.server.messages.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
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
    asyncio.run_coroutine_threadsafe(close(server), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
def topic() -> Iterator[Topic]:
    with Topic() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def shell(project: Project, keyring: Path) -> Installed:  # noqa: F811  (fixture)
    """Return the command in a project whose script prints a loss and ends with its first argument."""
    Path(project.root, "train.py").write_text(
        "import sys\nprint('loss=0.50')\nprint('loss=0.05')\nsys.exit(int(sys.argv[1]))\n"
    )
    return Installed(Path(project.root))
