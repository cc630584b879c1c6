"""The driver for screens that are shown in a browser."""

from __future__ import annotations

from textual import events
from textual.drivers.web_driver import WebDriver


class BrowserDriver(WebDriver):
    """A driver that focuses the app at the start. Textual's driver waits for a click on the page."""

    def start_application_mode(self) -> None:
        super().start_application_mode()
        self._app.call_later(self._app.post_message, events.AppFocus())
