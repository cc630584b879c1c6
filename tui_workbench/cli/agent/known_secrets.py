"""The secrets of a project that are masked in everything that agents read."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator
from typing import Any

from tui_workbench.core import trace
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.masking import MASK, secret_values, secrets_of
from tui_workbench.projects.project import Project
from tui_workbench.runs.logs.log_file import LogFile

_LONGEST_SECRET = 64 << 10
"""Maximum size of a secret that is found across the border of two lines or pages of a log, in bytes."""


def hide(project: Project) -> None:
    """Mask the secrets of all run configurations and targets in all answers and in the trace of this process.

    A script can print the secret of its configuration, so the values are masked wherever they appear.
    """
    with contextlib.suppress(WorkbenchError, OSError):
        for configuration in project.run_configurations():
            trace.hide(secret_values(configuration.environment_variables))
            trace.hide(_texts(secrets_of(dict(configuration.values))))
        for target in project.targets():
            trace.hide(_texts(secrets_of(target._asdict())))
            for command in target.setup:
                trace.hide(secret_values(_assignments(command)))


def _texts(secrets: dict[Any, Any]) -> Iterator[str]:
    return (value for value in secrets.values() if isinstance(value, str) and not value.startswith("/"))


def _assignments(command: str) -> dict[str, str]:
    """Return the variables that a shell command such as `export API_TOKEN=...` sets."""
    try:
        words = shlex.split(command)
    except ValueError:  # an open quotation mark
        words = command.split()
    return {name: value for name, equals, value in (word.partition("=") for word in words) if equals}


def masked_bytes(log: LogFile, start: int, data: bytes) -> bytes:
    """Return `data`, which is in the log at the offset `start`, with secrets masked.

    A secret that only begins or ends in `data` is masked too.
    """
    secrets = [secret.encode("utf-8", "surrogateescape") for secret in trace.hidden_values()]
    # The longest secret decides how much of the log around `data` is read.
    secrets = sorted((secret for secret in secrets if len(secret) <= _LONGEST_SECRET), key=len, reverse=True)
    if not secrets:
        return data
    around = len(secrets[0])
    begin = max(0, start - around)
    window = log.read(begin, start - begin) + data + log.read(start + len(data), around)
    first, last = start - begin, start - begin + len(data)
    shown, position = b"", first
    for left, right in _spans(window, secrets):
        if right > position and left < last:
            shown += window[position : max(left, position)] + MASK.encode()
            position = min(right, last)
    return shown + window[position:last]


def _spans(text: bytes, secrets: list[bytes]) -> list[tuple[int, int]]:
    """Return where the secrets are in a text, in order, with overlapping ones joined."""
    spans = []
    for secret in secrets:
        at = text.find(secret)
        while at >= 0:
            spans.append((at, at + len(secret)))
            at = text.find(secret, at + 1)  # a secret can overlap itself, as `aa` in `aaa`
    joined: list[tuple[int, int]] = []
    for left, right in sorted(spans):
        if joined and left <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(right, joined[-1][1]))
        else:
            joined.append((left, right))
    return joined
