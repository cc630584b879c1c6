"""The screens in a browser: a server for this machine alone, for whom it was started by, also through `ssh -L`.

The invariants: nothing is answered that does not come from a page of this server, by a name of this machine, with a key
that only this server gives out; a key in an address opens one browser, once; and when the server ends, so do the
programs whose screens it showed. Runs go on, as they do whenever screens are left.
"""

from __future__ import annotations

import asyncio
import hmac
import html
import os
import secrets
import shlex
import signal
import socket
import sys
from collections.abc import Awaitable, Callable

from aiohttp import WSMsgType, web
from textual_serve.app_service import AppService
from textual_serve.server import Server as TextualServer

from tui_workbench.core.errors import StorageError, UsageError
from tui_workbench.ui.terminal.capabilities import IN_BROWSER
from tui_workbench.ui.terminal.safetext import safe_text

HOST = "127.0.0.1"
NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""What a browser on this machine may call us; anything else is a page that had its own name lead here."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self' data:; "
    "img-src 'self' data: blob:; connect-src 'self' {socket}; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'none'"
)
HEADERS = {
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
DRIVER = "tui_workbench.ui.browser.serving_driver:BrowserDriver"

FAREWELL_SECONDS = 3.0
"""How long a program may take to leave when its browser or the server has gone."""

# The names of elements and classes are those that the script of textual-serve looks for. Nothing comes from elsewhere.
_HEAD = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
  html, body { margin: 0; height: 100%; overflow: hidden; background: #14171c; color: #d8dee6; }
  body { font: 16px/1.5 monospace; }
  .textual-terminal { width: 100vw; height: 100vh; }
  .xterm .xterm-viewport { overflow: hidden; background: #14171c; }
  .note { position: fixed; inset: 0; display: flex; align-items: center; justify-content: center; text-align: center; }
  .note a { color: #6cb6ff; }
  .closed { display: none; background: #14171ce0; }
  body.-first-byte .opening { display: none; }
  body.-closed .closed { display: flex; }
</style>
"""

PAGE = (
    _HEAD
    + """\
<link rel="stylesheet" href="/static/css/xterm.css">
<script src="/static/js/textual.js"></script>
<script src="/focus.js"></script>
</head>
<body>
<div id="terminal" class="textual-terminal" data-session-websocket-url="{socket}" data-font-size="16"></div>
<div class="note opening">workbench-tui opens …</div>
<div class="note closed"><p>The workbench was left. <a href="/">Open it again</a></p></div>
<span id="start" hidden></span>
</body>
</html>
"""
)

FOCUS = "addEventListener('load', () => document.querySelector('.xterm-helper-textarea').focus());\n"
"""What the page runs beside that: keys are for the screens, without a click on them first."""

REFUSED = (
    _HEAD
    + """\
</head>
<body>
<div class="note"><p>{reason}</p></div>
</body>
</html>
"""
)

_NOT_OF_A_BROWSER = ("TMUX", "TMUX_PANE", "STY", "NO_COLOR", "SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY")


class Keys:
    """Which key opens the server, and which cookies were given out."""

    def __init__(self) -> None:
        self.in_address = secrets.token_urlsafe(32)
        self._cookies: list[str] = []

    def exchange(self, key: str) -> str | None:
        """A cookie for the key of the address, which then is another one; None for any other key."""
        if not _same(key, self.in_address):
            return None
        self.in_address = secrets.token_urlsafe(32)
        self._cookies.append(secrets.token_urlsafe(32))
        return self._cookies[-1]

    def knows(self, cookie: str) -> bool:
        """True for a cookie that was given out."""
        return sum(_same(cookie, known) for known in self._cookies) > 0


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(errors="surrogateescape"), other.encode())


class Screens(AppService):
    """One workbench, in a process of its own, and the browser that shows it."""

    def _build_environment(self, width: int = 80, height: int = 24) -> dict[str, str]:
        environment = super()._build_environment(width, height)
        for name in _NOT_OF_A_BROWSER:
            environment.pop(name, None)
        return {**environment, IN_BROWSER: DRIVER, "TERM": "xterm-256color", "COLORTERM": "truecolor"}

    async def run(self) -> None:
        """Hand on what the program shows until it has left, then close the page."""
        await super().run()
        await self.remote_close()

    async def stop(self) -> None:
        """Have the program leave, and see to it."""
        if self._task is None or self._process is None:
            return
        try:
            await asyncio.wait_for(asyncio.shield(super().stop()), FAREWELL_SECONDS)
        except TimeoutError:
            self._process.kill()
        await self._process.wait()


class Server(TextualServer):
    """Serves the screens of one project."""

    def __init__(self, project: str, port: int) -> None:
        """Raises UsageError when the port is taken, and StorageError when it may not be used."""
        self._listening = _listen(port)
        self.keys = Keys()
        self._open: set[Screens] = set()
        self._name = safe_text(os.path.basename(project))
        program = shlex.join([sys.executable, "-P", "-m", "tui_workbench", project])
        super().__init__(f"exec {program}", HOST, self._listening.getsockname()[1], title="workbench-tui")

    @property
    def address(self) -> str:
        """The address that opens one browser."""
        return f"http://{HOST}:{self.port}/?token={self.keys.in_address}"

    @property
    def cookie_name(self) -> str:
        """The cookie's name. Browsers do not keep the cookies of two ports apart."""
        return f"workbench-tui-{self.port}"

    async def run(self, started: Callable[[], None]) -> None:
        """Serve until this process is told to end; `started` is called when browsers can come."""
        ending = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, ending.set)
        runner = web.AppRunner(await self._make_app(), access_log=None, shutdown_timeout=FAREWELL_SECONDS)
        await runner.setup()
        try:
            await web.SockSite(runner, self._listening).start()
            started()
            await ending.wait()
        finally:
            await asyncio.gather(*(screens.stop() for screens in list(self._open)))
            await runner.cleanup()

    async def _make_app(self) -> web.Application:
        app = web.Application(middlewares=[self._guard])
        app.router.add_get("/", self._page)
        app.router.add_get("/focus.js", self._focus)
        app.router.add_get("/ws", self.handle_websocket)
        app.router.add_get("/download/{key}", self.handle_download)
        app.router.add_static("/static", self.statics_path)
        return app

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Refuse what does not come from a page of ours, or without a key."""
        cookie = None
        if not self._is_from_here(request):
            response: web.StreamResponse = _refusal("This page is shown to browsers on its own machine only.")
        elif (token := request.query.get("token")) is not None and request.path == "/":
            cookie = self.keys.exchange(token)
            response = (
                _refusal("This address was used already, or is not the one that was printed last.")
                if cookie is None
                # The address with the key is not to stay in the browser's history.
                else web.HTTPSeeOther("/")
            )
        elif not self.keys.knows(request.cookies.get(self.cookie_name, "")):
            response = _refusal("Open the address that `workbench-tui serve` printed.")
        else:
            response = await handler(request)
        if cookie is not None:
            response.set_cookie(self.cookie_name, cookie, path="/", httponly=True, samesite="Strict")
            _tell(f"Opened. For one more browser:  {self.address}")
        if not response.prepared:
            socket_policy = POLICY.replace("{socket}", f"ws://{request.host}")
            response.headers.update({**HEADERS, "Content-Security-Policy": socket_policy})
        return response

    def _is_from_here(self, request: web.Request) -> bool:
        """True when the browser was led here by a name of this machine, and by no other site's page."""
        host = request.headers.get("Host", "")
        name, _, port = host.rpartition(":")
        if host not in NAMES and (name not in NAMES or not port.isdecimal()):
            return False
        origin = request.headers.get("Origin")
        if origin is None:
            # A page of another site can only bring a browser here by leading it to the start.
            return request.headers.get("Upgrade") is None
        return origin == f"http://{host}"

    async def _page(self, request: web.Request) -> web.Response:
        text = PAGE.replace("{socket}", f"ws://{request.host}/ws").replace("{title}", html.escape(self._name))
        return web.Response(text=text, content_type="text/html")

    async def _focus(self, request: web.Request) -> web.Response:
        return web.Response(text=FOCUS, content_type="text/javascript")

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """Start a workbench, and show it until it or the browser leaves."""
        websocket = web.WebSocketResponse(heartbeat=15)
        await websocket.prepare(request)

        async def close() -> None:
            await websocket.close()

        screens = Screens(
            self.command,
            write_bytes=websocket.send_bytes,
            write_str=websocket.send_str,
            close=close,
            download_manager=self.download_manager,
        )
        self._open.add(screens)
        try:
            await screens.start(_size(request, "width", 80), _size(request, "height", 24))
            await self._obey(websocket, screens)
        finally:
            await screens.stop()
            self._open.discard(screens)
            await websocket.close()
        return websocket

    async def _obey(self, websocket: web.WebSocketResponse, screens: Screens) -> None:
        """Do what the page asks, until it closes or says what no page of ours says."""
        async for message in websocket:
            if message.type != WSMsgType.TEXT:
                return
            try:
                kind, *rest = message.json()
                if kind == "stdin":
                    await screens.send_bytes(str(rest[0]).encode())
                elif kind == "resize":
                    await screens.set_terminal_size(int(rest[0]["width"]), int(rest[0]["height"]))
                elif kind == "ping":
                    await websocket.send_json(["pong", rest[0]])
                elif kind in ("blur", "focus"):
                    await (screens.blur() if kind == "blur" else screens.focus())
            except (ValueError, TypeError, LookupError):
                return


def serve(project: str, port: int) -> None:
    """Serve the screens of a project on this machine until the process is told to end. Port 0 is any that is free.

    Raises UsageError when the port is taken, and StorageError when it may not be used.
    """
    server = Server(project, port)
    asyncio.run(server.run(lambda: _tell(invitation(server))))


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def invitation(server: Server) -> str:
    """What is printed when browsers can come."""
    return f"""\
In a browser on this machine:  {server.address}
From another machine, there first:  {tunnel(server.port)}
The address opens one browser. ctrl+c ends this; runs go on."""


def tunnel(port: int) -> str:
    """The command that brings the port of this machine to another one."""
    import getpass

    # What the user's own connection has reached is better than a name that may mean nothing elsewhere.
    parts = os.environ.get("SSH_CONNECTION", "").split()
    host, at = (parts[2], parts[3]) if len(parts) == 4 else (socket.gethostname(), "22")
    to_port = ["-p", at] if at != "22" else []
    return shlex.join(["ssh", "-N", *to_port, "-L", f"{port}:{HOST}:{port}", f"{getpass.getuser()}@{host}"])


def _size(request: web.Request, name: str, usual: int) -> int:
    text = request.query.get(name, "")
    return max(1, min(int(text), 1000)) if text.isdecimal() and len(text) < 6 else usual


def _refusal(text: str) -> web.Response:
    return web.Response(
        status=403, text=REFUSED.replace("{title}", "workbench-tui").replace("{reason}", text), content_type="text/html"
    )


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port))
    except PermissionError as error:
        raise StorageError(f"port {port} may not be used", remedy="Choose one above 1023 with --port.") from error
    except OSError as error:
        raise UsageError(
            f"port {port} of this machine is taken", remedy="Choose another with --port, or 0 for any that is free."
        ) from error
