"""How a workbench talks to the server that shows it in a browser. It has the keys from the start, as in a terminal."""

from __future__ import annotations

from textual import events
from textual.drivers.web_driver import WebDriver


class BrowserDriver(WebDriver):
    """Textual's, which takes the page for one that nobody looks at until it is clicked."""

    def start_application_mode(self) -> None:
        super().start_application_mode()
        self._app.call_later(self._app.post_message, events.AppFocus())
