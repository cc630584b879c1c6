"""Send a text to a service through Apprise.

Apprise returns only whether a service accepted a text. The reason of a failure is in its log: most plugins write to it
while they handle an exception, so the log handler also collects these exceptions.
"""

from __future__ import annotations

import logging
import re
import sys
from http import HTTPStatus
from types import ModuleType
from typing import NamedTuple

from tui_workbench.core.errors import UsageError
from tui_workbench.core.installation import extra_command
from tui_workbench.runs.notify.buses import Address

ANSWER_SECONDS = 45.0
"""Seconds to wait for the answer of a service. Apprise itself gives up after 60 seconds."""

INFO, SUCCESS, WARNING, FAILURE = "info", "success", "warning", "failure"
"""Apprise's kinds of texts. Many services show the kind as a color or an icon."""

_NOT_CONNECTED = {"gaierror", "ConnectionRefusedError", "NewConnectionError", "ConnectTimeoutError", "ConnectTimeout"}
"""The exceptions of sockets, urllib3 and requests without a connection to the service."""

_NO_ANSWER = {"TimeoutError", "ReadTimeoutError", "ReadTimeout"}


class Delivery(NamedTuple):
    """The result of an attempt to send. `error` is "" if the service accepted the text."""

    error: str = ""
    may_repeat: bool = False
    """True if the service has certainly not received the text, and may be reachable later."""


def deliver(address: Address, title: str, body: str, kind: str = INFO) -> Delivery:
    """Send a text of a kind, such as SUCCESS, to a service once. Raises UsageError if Apprise is not installed."""
    if address.url is None:
        return Delivery(f"cannot read its URL: {address.reason}")
    apprise = _apprise()
    service = apprise.Apprise.instantiate(address.url, suppress_exceptions=True)
    if service is None:
        return Delivery("Apprise does not support its URL")
    # A service that accepts a text slowly must not be mistaken for one that fails. E-mail uses only the first limit.
    service.socket_connect_timeout = max(service.socket_connect_timeout, ANSWER_SECONDS)
    service.socket_read_timeout = max(service.socket_read_timeout, ANSWER_SECONDS)
    sender, log = apprise.Apprise(), _Log()
    sender.add(service)
    logger = logging.getLogger(apprise.logger.name)
    logger.setLevel(logging.DEBUG)
    logger.addHandler(log)
    try:
        if sender.notify(title=title, body=body, notify_type=kind, body_format=apprise.NotifyFormat.TEXT):
            return Delivery()
    finally:
        logger.removeHandler(log)
    return log.failure()


def is_known_service(url: str) -> bool:
    """Return True if Apprise can send to a URL of this form. Raises UsageError if Apprise is not installed."""
    return _apprise().Apprise.instantiate(url, suppress_exceptions=True) is not None


class _Log(logging.Handler):
    """The messages of Apprise about one text. They may contain any part of the URL, so they are not shown."""

    def __init__(self) -> None:
        super().__init__()
        self._warnings: list[str] = []
        self._errors: list[set[str]] = []  # for each warning, the types of the exceptions that were handled then
        self._has_sent = self._has_timeout = False

    def emit(self, record: logging.LogRecord) -> None:
        errors = _handled_errors()
        self._has_timeout |= bool(errors & _NO_ANSWER) and not errors & _NOT_CONNECTED
        if record.levelno >= logging.WARNING:
            self._warnings.append(record.getMessage())
            self._errors.append(errors)
        elif record.levelno == logging.INFO and record.getMessage().startswith("Sent"):
            self._has_sent = True  # to one of several recipients

    def failure(self) -> Delivery:
        """Return the kind of the failure."""
        codes = re.findall(r"\berror=(\d{3})\b", "\n".join(self._warnings))
        if codes and int(codes[-1]) in {status.value for status in HTTPStatus}:
            return Delivery(f"the service answered {codes[-1]} {HTTPStatus(int(codes[-1])).phrase}")
        if self._has_timeout:
            return Delivery("the service did not answer in time; it may have received the notification")
        if any("connection error" in text.lower() for text in self._warnings):
            is_unreached = all(errors & _NOT_CONNECTED for errors in self._errors) and not self._has_sent
            return Delivery(
                "the connection to the service failed; check the network, and the address and password in the URL",
                may_repeat=is_unreached,
            )
        return Delivery("the service did not accept the notification; check the URL")


def _handled_errors() -> set[str]:
    """Return the names of the types of the exception that this thread handles, and of its causes."""
    error, names = sys.exception(), set()
    while error is not None:
        names.add(type(error).__name__)
        error = error.__cause__ or error.__context__
    return names


def _apprise() -> ModuleType:
    try:
        import apprise  # takes 0.2 s
    except ModuleNotFoundError as error:
        raise UsageError(
            f"notifications need the package {error.name}, which is not installed",
            remedy=f"Install it: `{extra_command('notify')}`.",
        ) from error
    return apprise
