"""`serve` in a real browser, and requests that it refuses."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

import aiohttp
import pytest
from aiohttp import web

from tests.browser import Browser
from tests.conftest import write_project
from tests.proc import PROC
from tui_workbench.core.errors import UsageError
from tui_workbench.core.installation import extra_command
from tui_workbench.ui.browser import serving
from tui_workbench.ui.browser.serving import Server, tunnel_command

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path


class Served(NamedTuple):
    """A running `serve` command and the address that it printed."""

    process: subprocess.Popen[str]
    address: str
    errors: Path  # the file with its stderr

    @property
    def root(self) -> str:
        """The address without the token."""
        return self.address.partition("?")[0]

    @property
    def host(self) -> str:
        """The host name and port."""
        return self.root.removeprefix("http://").rstrip("/")

    def next_address(self) -> str:
        """Return the next address, which is printed after an address was used."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().split()[-1]

    def children(self) -> list[int]:
        """Return the child processes of the server."""
        pid = self.process.pid
        return [int(child) for child in (PROC / f"{pid}/task/{pid}/children").read_text().split()]


def start(project: Path, home: Path, *program: str) -> Served:
    """Start the command on a free port and wait for its address."""
    environment = {**os.environ, "HOME": str(home), "PYTHONUNBUFFERED": "1"}
    errors = home / "serve.stderr"
    with errors.open("wb") as stderr:
        process = subprocess.Popen(
            [*(program or (sys.executable, "-m", "tui_workbench")), "serve", str(project), "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=environment,
            text=True,
        )
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(3)]
    assert "ssh -N" in lines[1], lines
    return Served(process, lines[0].split()[-1], errors)


@pytest.fixture
def served(project_root: Path, home: Path) -> Iterator[Served]:
    """Return a server for one test."""
    one = start(project_root, home)
    yield one
    one.process.kill()
    one.process.wait()
    assert one.process.stdout is not None
    one.process.stdout.close()


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return a server that the tests of refused requests share."""
    folder = tmp_path_factory.mktemp("door")
    one = start(write_project(folder / "project"), folder)
    yield one
    one.process.send_signal(signal.SIGINT)
    assert one.process.wait(120.0) == 0
    assert one.process.stdout is not None
    one.process.stdout.close()


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    """Return a client without cookies that does not follow redirections."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        yield session


async def until_gone(pids: list[int]) -> None:
    """Wait until all processes have ended; a zombie counts as ended."""

    def alive(pid: int) -> bool:
        try:
            return (PROC / f"{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    end = time.monotonic() + 90
    while left := [pid for pid in pids if alive(pid)]:
        assert time.monotonic() < end, left
        await asyncio.sleep(0.02)


@pytest.mark.browser
@pytest.mark.linux("Chromium needs /proc")
async def test_browser_shows_the_screens_and_sends_keys(served: Served, project_root: Path, tmp_path: Path) -> None:
    (project_root / "hello.py").write_text("copied = 'needle'\n")
    async with Browser(tmp_path) as browser:
        await browser.open(served.address)
        await browser.until_text("1 Files", "hello.py", "No runs yet.")
        page = await browser.evaluate("location.href")
        assert page.startswith(served.root)
        assert "token" not in page
        assert await browser.evaluate("document.title") == "project"
        before = await browser.picture()
        await browser.press("?")
        await browser.until_text("Help", "esc close")
        assert await browser.picture() != before
        await browser.press("Escape", code=27)
        await browser.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
        await browser.press("End", code=35)
        await browser.press("Enter", code=13)
        await browser.until_text("needle")
        await browser.press("F7", code=118)
        await browser.press("c", code=67, control=True)
        await browser.until(lambda: browser.evaluate("navigator.clipboard.readText()"), "copied = 'needle'\n")
        (first,) = served.children()
        await browser.open(page)  # the cookie is enough now
        await browser.until_text("1 Files", "hello.py")
        await until_gone([first])
        (second,) = served.children()
        served.process.send_signal(signal.SIGINT)
        await browser.until_words("Closed.")
        assert served.process.wait(120.0) == 0
        await until_gone([second])


class Opened(NamedTuple):
    """The page of a browser that has used the printed address, and the headers of its requests."""

    page: str
    headers: dict[str, str]


async def open_screens(client: aiohttp.ClientSession, served: Served, address: str) -> Opened:
    async with client.get(address, allow_redirects=False) as answer:
        assert answer.status == 303
        path = answer.headers["Location"]
        morsel = next(iter(answer.cookies.values()))
        assert morsel["httponly"]
        assert morsel["samesite"] == "Strict"
        assert morsel["path"] == path
        headers = {"Cookie": f"{morsel.key}={morsel.value}", "Origin": f"http://{served.host}"}
        return Opened(served.root.rstrip("/") + path, headers)


@pytest.mark.processes
async def test_killed_server_leaves_no_workbench_behind(served: Served, client: aiohttp.ClientSession) -> None:
    page, headers = await open_screens(client, served, served.address)
    async with client.ws_connect(f"{page}ws", headers=headers) as websocket:
        await websocket.receive_bytes(timeout=120)
        children = served.children()
        assert len(children) == 1
        served.process.kill()
        served.process.wait()
        await until_gone(children)


@pytest.mark.processes
async def test_dead_workbench_closes_its_page(served: Served, client: aiohttp.ClientSession) -> None:
    page, headers = await open_screens(client, served, served.address)
    async with client.ws_connect(f"{page}ws", headers=headers) as websocket:
        await websocket.receive_bytes(timeout=120)
        os.kill(served.children()[0], signal.SIGKILL)
        async with asyncio.timeout(20):
            while not websocket.closed:
                await websocket.receive()
    async with client.get(page, headers=headers) as answer:
        assert answer.status == 200


async def test_link_works_once(door: Served, client: aiohttp.ClientSession) -> None:
    opened, headers = await open_screens(client, door, door.address)
    async with client.get(door.address, allow_redirects=False) as again:
        assert again.status == 403
        assert "was used or replaced" in await again.text()
        assert not again.cookies
    async with client.get(opened, headers=headers) as page:
        assert page.status == 200
        assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
        assert "token" not in await page.text()
    other = door.next_address()
    assert other != door.address
    await open_screens(client, door, other)
    door.next_address()


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("", {}),
        ("?token=", {}),
        ("?token=wrong", {}),
        ("?token=%ff%00", {}),
        ("static/js/textual.js", {}),
        ("download/x", {}),
        ("no-such-page", {}),
        ("", {"Cookie": "workbench-tui-{port}=wrong"}),
        ("", {"Host": "evil.example"}),
        ("", {"Host": "localhost"}),
        ("", {"Host": "127.0.0.1:{port}'x"}),
        ("", {"Host": "127.0.0.1.evil.example:{port}"}),
        ("", {"Host": "evil.example@127.0.0.1:{port}"}),
        ("", {"Origin": "http://evil.example"}),
        ("", {"Origin": "null"}),
        ("", {"Origin": "http://127.0.0.1:1"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value.values()),
)
async def test_requests_without_key_or_host_name_are_refused(
    door: Served, client: aiohttp.ClientSession, path: str, headers: dict[str, str]
) -> None:
    port = door.host.rpartition(":")[2]
    sent = {name: value.replace("{port}", port) for name, value in headers.items()}
    async with client.get(f"{door.root}{path}", headers=sent, allow_redirects=False) as answer:
        assert answer.status == 403
        assert not answer.cookies


async def test_refused_websocket_starts_no_workbench(served: Served, client: aiohttp.ClientSession) -> None:
    page, headers = await open_screens(client, served, served.address)
    for changed in ({"Cookie": ""}, {"Origin": "http://evil.example"}, {"Origin": ""}, {"Host": "evil.example"}):
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await client.ws_connect(f"{page}ws", headers={**headers, **changed})
        assert caught.value.status == 403, changed
        assert served.children() == [], changed


NONSENSE = (
    "{",
    "[]",
    '["resize", 1]',
    '["resize", {"width": 1e999, "height": 1}]',
    '["stdin"]',
    '["stdin", "\\ud800"]',
    "7",
    "[" * 100_000,
    '["ping", ' + "[" * 100_000,
)


@pytest.mark.processes
async def test_invalid_messages_close_the_page(served: Served, client: aiohttp.ClientSession) -> None:
    page, headers = await open_screens(client, served, served.address)
    for nonsense in NONSENSE:
        async with client.ws_connect(f"{page}ws?width=x&height=999999", headers=headers) as websocket:
            await websocket.send_str(nonsense)
            async with asyncio.timeout(20):
                while not websocket.closed:
                    await websocket.receive()
    await until_gone(served.children())
    assert served.errors.read_text() == ""


@pytest.mark.browser
@pytest.mark.linux("Chromium needs /proc")
async def test_cookie_is_not_sent_to_other_ports(served: Served, tmp_path: Path) -> None:
    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Cookie", ""))
        return web.Response(text="<title>other</title>", content_type="text/html")

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    listening = socket.create_server(("127.0.0.1", 0))
    await web.SockSite(runner, listening).start()
    try:
        async with Browser(tmp_path) as browser:
            await browser.open(served.address)
            await browser.until_text("1 Files")
            await browser.open(f"http://127.0.0.1:{listening.getsockname()[1]}/")
            await browser.until(lambda: browser.evaluate("document.title"), "other")
    finally:
        await runner.cleanup()
    assert seen
    assert not any(seen)


async def test_cookie_without_the_secret_path_is_useless(served: Served, client: aiohttp.ClientSession) -> None:
    page, headers = await open_screens(client, served, served.address)
    for path in ("", "ws", "static/js/textual.js", "focus.js", "x/"):
        async with client.get(f"{served.root}{path}", headers=headers) as answer:
            assert answer.status in (403, 404), path
    async with client.get(f"{page}focus.js", headers=headers) as answer:
        assert answer.status == 200


def test_server_listens_on_this_machine_only(door: Served) -> None:
    port = int(door.host.rpartition(":")[2])
    with socket.socket() as connection:
        assert connection.connect_ex(("127.0.0.2", port)) != 0
        assert connection.connect_ex(("127.0.0.1", port)) == 0


def test_port_in_use_shows_the_fix(door: Served) -> None:
    port = int(door.host.rpartition(":")[2])
    said = f"cannot use port {port}: address already in use. Choose another port: `--port NUMBER`"
    with pytest.raises(UsageError, match=said):
        Server("/nowhere", port)


def test_port_that_cannot_be_used_shows_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "HOST", "192.0.2.1")
    with pytest.raises(UsageError, match="cannot use port 0: cannot assign requested address"):
        Server("/nowhere", 0)


@pytest.mark.parametrize(
    ("connection", "expected"),
    [
        ("10.0.0.9 51000 10.0.0.7 22", "-L 8347:127.0.0.1:8347 USER@10.0.0.7"),
        ("10.0.0.9 51000 10.0.0.7 2222", "-p 2222 -L 8347:127.0.0.1:8347 USER@10.0.0.7"),
        ("", f"-L 8347:127.0.0.1:8347 USER@{socket.gethostname()}"),
    ],
)
def test_ssh_tunnel_uses_the_address_of_the_login(
    monkeypatch: pytest.MonkeyPatch, connection: str, expected: str
) -> None:
    monkeypatch.setenv("SSH_CONNECTION", connection)
    monkeypatch.setenv("LOGNAME", "USER")
    assert tunnel_command(8347) == f"ssh -N {expected}"


def test_missing_package_shows_the_install_command(project_root: Path, tmp_path: Path) -> None:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "aiohttp.py").write_text("raise ModuleNotFoundError('no', name='aiohttp')\n")
    done = subprocess.run(
        [sys.executable, "-m", "tui_workbench", "serve", str(project_root)],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "hidden")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert f"which is not installed. Install it: `{extra_command('serve')}`." in done.stderr
