"""The screens in a browser: a server on the loopback address, also usable through `ssh -L`.

A request is refused if its Host header does not name this machine, or if it comes from a page of another site. A
request must also carry the token, or a cookie that this server issued. The token works once: the browser receives a
cookie in exchange. When the server ends, it ends the workbenches that it started; their runs continue.

Browsers send a cookie to all ports of a machine, and so to any program whose port was forwarded to this machine. All
pages therefore have a secret path, and the cookie is limited to this path: a program that does not know the path never
receives the cookie.
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
"""Accepted host names. A request with another name may be a DNS rebinding attack."""

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
DRIVER = "tui_workbench.ui.terminal.browser_driver:BrowserDriver"

SHUTDOWN_SECONDS = 3.0
"""Maximum seconds for a workbench to end after its browser has disconnected or the server has been stopped."""

# The script of textual-serve expects these names of elements and classes.
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
<link rel="stylesheet" href="static/css/xterm.css">
<script src="static/js/textual.js"></script>
<script src="focus.js"></script>
</head>
<body>
<div id="terminal" class="textual-terminal" data-session-websocket-url="{socket}" data-font-size="16"></div>
<div class="note opening">Opening workbench-tui...</div>
<div class="note closed"><p>Closed. <a href="./">Open again</a></p></div>
<span id="start" hidden></span>
</body>
</html>
"""
)

FOCUS = "addEventListener('load', () => document.querySelector('.xterm-helper-textarea').focus());\n"
"""A script that focuses the terminal, so that the screens receive keys without a click."""

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

_TERMINAL_VARIABLES = ("TMUX", "TMUX_PANE", "STY", "NO_COLOR", "SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY")


class Access:
    """The token of the address, and the cookies that were issued."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(32)
        self.path = f"/{secrets.token_urlsafe(32)}/"  # of all pages
        self._cookies: list[str] = []

    def exchange(self, token: str) -> str | None:
        """Return a new cookie for the token and replace the token. Return None for a wrong token."""
        if not _equal(token, self.token):
            return None
        self.token = secrets.token_urlsafe(32)
        self._cookies.append(secrets.token_urlsafe(32))
        return self._cookies[-1]

    def allows(self, cookie: str) -> bool:
        """Return True if the cookie was issued by this server."""
        # All cookies are compared, so that the duration of the comparison reveals nothing about them.
        return sum(_equal(cookie, issued) for issued in self._cookies) > 0


def _equal(value: str, secret: str) -> bool:
    return hmac.compare_digest(value.encode(errors="surrogateescape"), secret.encode())


class Screens(AppService):
    """A workbench process and the browser that shows it."""

    def _build_environment(self, width: int = 80, height: int = 24) -> dict[str, str]:
        environment = super()._build_environment(width, height)
        for name in _TERMINAL_VARIABLES:
            environment.pop(name, None)
        return {**environment, IN_BROWSER: DRIVER, "TERM": "xterm-256color", "COLORTERM": "truecolor"}

    async def run(self) -> None:
        await super().run()
        await self.remote_close()

    async def stop(self) -> None:
        """Ask the workbench to exit; kill it if it is still running after `SHUTDOWN_SECONDS`."""
        if self._task is None or self._process is None:
            return
        try:
            # Without the shield, a timeout would also cancel the task that reads the output of the workbench.
            await asyncio.wait_for(asyncio.shield(super().stop()), SHUTDOWN_SECONDS)
        except TimeoutError:
            self._process.kill()
        await self._process.wait()


class Server(TextualServer):
    """The server of the screens of one project."""

    def __init__(self, project: str, port: int) -> None:
        """Listen on `port`. Raises UsageError if it cannot be opened, and StorageError if only root may open it."""
        self._listening = _listen(port)
        self.access = Access()
        self._open: set[Screens] = set()
        self._name = safe_text(os.path.basename(project))
        program = shlex.join([sys.executable, "-P", "-m", "tui_workbench", project])
        super().__init__(f"exec {program}", HOST, self._listening.getsockname()[1], title="workbench-tui")

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}/?token={self.access.token}"

    @property
    def cookie_name(self) -> str:
        """The name of the cookie. It contains the port, because browsers share cookies between ports."""
        return f"workbench-tui-{self.port}"

    async def run(self, started: Callable[[], None]) -> None:
        """Serve until SIGINT, SIGTERM or SIGHUP. Call `started` when browsers can connect."""
        ending = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, ending.set)
        runner = web.AppRunner(await self._make_app(), access_log=None, shutdown_timeout=SHUTDOWN_SECONDS)
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
        path = self.access.path
        app.router.add_get(path, self._page)
        app.router.add_get(f"{path}focus.js", self._focus)
        app.router.add_get(f"{path}ws", self.handle_websocket)
        app.router.add_static(f"{path}static", self.statics_path)
        return app

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Refuse requests from pages of other sites, and requests without a valid cookie or token."""
        cookie = None
        if not self._is_same_origin(request):
            response: web.StreamResponse = _refusal(
                "This server accepts only requests to its own address on this machine. "
                "From another machine, use the `ssh -L` command that `workbench-tui serve` printed."
            )
        elif (token := request.query.get("token")) is not None and request.path == "/":
            cookie = self.access.exchange(token)
            response = (
                _refusal("This address was used or replaced. Open the new address that `workbench-tui serve` printed.")
                if cookie is None
                # Keep the token out of the browser's history.
                else web.HTTPSeeOther(self.access.path)
            )
        elif not self.access.allows(request.cookies.get(self.cookie_name, "")):
            response = _refusal(
                "This browser has no access yet. Open the newest address that `workbench-tui serve` printed."
            )
        else:
            response = await handler(request)
        if cookie is not None:
            response.set_cookie(self.cookie_name, cookie, path=self.access.path, httponly=True, samesite="Strict")
            _print(f"Opened. Address for another browser:  {self.address}")
        if not response.prepared:
            socket_policy = POLICY.replace("{socket}", f"ws://{request.host}")
            response.headers.update({**HEADERS, "Content-Security-Policy": socket_policy})
        return response

    def _is_same_origin(self, request: web.Request) -> bool:
        """Return True if the request names this machine and does not come from a page of another site."""
        host = request.headers.get("Host", "")
        name, _, port = host.rpartition(":")
        if host not in NAMES and (name not in NAMES or not port.isdecimal()):
            return False
        origin = request.headers.get("Origin")
        if origin is None:
            # Without an Origin header, pages can be requested, but not the WebSocket, which carries the key presses.
            return request.headers.get("Upgrade") is None
        return origin == f"http://{host}"

    async def _page(self, request: web.Request) -> web.Response:
        text = PAGE.replace("{socket}", f"ws://{request.host}{self.access.path}ws").replace(
            "{title}", html.escape(self._name)
        )
        return web.Response(text=text, content_type="text/html")

    async def _focus(self, request: web.Request) -> web.Response:
        return web.Response(text=FOCUS, content_type="text/javascript")

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """Start a workbench and show it until it ends or the browser disconnects."""
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
            await self._handle_messages(websocket, screens)
        finally:
            await screens.stop()
            self._open.discard(screens)
            await websocket.close()
        return websocket

    async def _handle_messages(self, websocket: web.WebSocketResponse, screens: Screens) -> None:
        """Handle the messages of the page until it closes or sends an invalid message."""
        async for message in websocket:
            if message.type != WSMsgType.TEXT:
                return
            try:
                kind, *rest = message.json()
                if kind == "stdin":
                    await screens.send_bytes(str(rest[0]).encode())
                elif kind == "resize":
                    await screens.set_terminal_size(_within(rest[0]["width"]), _within(rest[0]["height"]))
                elif kind == "ping":
                    await websocket.send_json(["pong", rest[0]])
                elif kind in ("blur", "focus"):
                    await (screens.blur() if kind == "blur" else screens.focus())
            except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError):
                return


def serve(project: str, port: int) -> None:
    """Serve the screens of a project until a signal ends the process. Port 0 selects any free port.

    Raises UsageError if the port cannot be opened, and StorageError if only root may open it.
    """
    server = Server(project, port)
    message = f"""\
Open:  {server.address}
From another machine, first run:  {tunnel_command(server.port)}
The address works once. ctrl+c stops the server; runs continue."""
    asyncio.run(server.run(lambda: _print(message)))


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def tunnel_command(port: int) -> str:
    """Return the `ssh` command that makes the port reachable on the machine that runs the command."""
    import getpass

    # The address of the user's SSH connection is reachable; the host name may not resolve elsewhere.
    parts = os.environ.get("SSH_CONNECTION", "").split()
    host, at = (parts[2], parts[3]) if len(parts) == 4 else (socket.gethostname(), "22")
    to_port = ["-p", at] if at != "22" else []
    return shlex.join(["ssh", "-N", *to_port, "-L", f"{port}:{HOST}:{port}", f"{getpass.getuser()}@{host}"])


def _size(request: web.Request, name: str, default: int) -> int:
    text = request.query.get(name, "")
    return _within(text) if text.isdecimal() and len(text) < 6 else default


def _within(size: float | str) -> int:
    """Return a width or height, limited to a reasonable range. Raises ValueError, TypeError or OverflowError."""
    return max(1, min(int(size), 1000))


def _refusal(text: str) -> web.Response:
    return web.Response(
        status=403, text=REFUSED.replace("{title}", "workbench-tui").replace("{reason}", text), content_type="text/html"
    )


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port))
    except PermissionError as error:
        raise StorageError(
            f"no permission to use port {port}", remedy="Choose a port above 1023: `--port NUMBER`."
        ) from error
    except OSError as error:
        raise UsageError(
            f"cannot use port {port}: {os.strerror(error.errno or 0).lower()}",
            remedy="Choose another port: `--port NUMBER`, or `--port 0` for any free port.",
        ) from error
