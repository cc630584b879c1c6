"""A headless Chromium, controlled with the DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import shutil
import subprocess
import time
from typing import TYPE_CHECKING, Any, Self

import aiohttp

from tests.conftest import missing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

PATIENCE = 90.0

_CATCH_TERMINAL = """
Object.defineProperty(Object.prototype, 'fitAddon', {
  configurable: true,
  set(value) {
    Object.defineProperty(this, 'fitAddon', {value, writable: true});
    window.shownTerminal = () => value._terminal;
  },
});
"""
"""Makes the terminal of a textual-serve page accessible."""

_TEXT = """
(() => {
  const terminal = window.shownTerminal && window.shownTerminal();
  if (!terminal) return '';
  const lines = [];
  for (let row = 0; row < terminal.rows; row++)
    lines.push(terminal.buffer.active.getLine(terminal.buffer.active.viewportY + row).translateToString(true));
  return lines.join('\\n');
})()
"""


class Browser:
    """A Chromium with one page. It ends with the `async with` block."""

    def __init__(self, folder: Path, *, width: int = 1200, height: int = 760) -> None:
        command = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if command is None:
            missing("no Chromium is installed")
        self._folder = folder / "browser"
        self._process = subprocess.Popen(
            [
                *(command, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
                *("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
                *("--remote-debugging-port=0", f"--user-data-dir={self._folder}", f"--window-size={width},{height}"),
                "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._number = 0
        self._http = aiohttp.ClientSession()
        self._page: aiohttp.ClientWebSocketResponse | None = None

    async def __aenter__(self) -> Self:
        try:
            where = self._folder / "DevToolsActivePort"
            await self._until(lambda: _done(where.exists() and where.read_text().count("\n") > 0))
            port = where.read_text().split("\n")[0]
            async with self._http.get(f"http://127.0.0.1:{port}/json") as answer:
                pages = [page for page in await answer.json() if page["type"] == "page"]
            self._page = await self._http.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=0)
            await self.call("Page.enable")
            await self.call("Page.addScriptToEvaluateOnNewDocument", source=_CATCH_TERMINAL)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._page is not None:
            await self._page.close()
        await self._http.close()
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        assert self._page is not None
        self._number += 1
        await self._page.send_json({"id": self._number, "method": method, "params": parameters})
        while True:
            answer = await self._page.receive_json(timeout=PATIENCE)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    async def evaluate(self, expression: str) -> Any:
        """Evaluate an expression on the page; wait for a promise."""
        answer = await self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        return answer["result"].get("value")

    async def open(self, address: str) -> None:
        """Open an address."""
        await self.call("Page.navigate", url=address)

    async def press(self, key: str, *, code: int = 0, control: bool = False) -> None:
        """Press a key: a character, or a name with its virtual key code."""
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 and not control else "")
        common = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 2 if control else 0}
        await self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **common)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    async def click(self, x: int, y: int) -> None:
        """Click on a point of the page."""
        for kind in ("mousePressed", "mouseReleased"):
            await self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    async def text(self) -> str:
        """Return the text of the terminal on the page."""
        return str(await self.evaluate(_TEXT))

    async def words(self) -> str:
        """Return the text of the page outside the terminal."""
        return str(await self.evaluate("document.body ? document.body.innerText : ''"))

    async def picture(self) -> bytes:
        """Return a screenshot as PNG."""
        answer = await self.call("Page.captureScreenshot", format="png")
        return base64.b64decode(answer["data"])

    async def until(self, question: Callable[[], Awaitable[Any]], answer: Any) -> None:
        """Wait until the expression has this value."""

        async def so() -> bool:
            return bool(await question() == answer)

        await self._until(so)

    async def until_text(self, *texts: str) -> None:
        """Wait until the terminal shows all texts."""

        async def there() -> bool:
            shown = await self.text()
            return all(text in shown for text in texts)

        await self._until(there)

    async def until_words(self, text: str) -> None:
        """Wait until the page shows the text."""

        async def there() -> bool:
            return text in await self.words()

        await self._until(there)

    async def _until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        end = time.monotonic() + PATIENCE
        while not await condition():
            assert time.monotonic() < end, "the browser never came to it" + (
                f":\n{await self.text()}\n{await self.words()}" if self._page is not None else ""
            )
            await asyncio.sleep(0.05)


async def _done(value: bool) -> bool:
    return value
