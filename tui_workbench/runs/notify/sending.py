"""Send notifications about a run, in a detached process: `python -m tui_workbench.runs.notify.sending RUN EVENT`.

Each notification is sent by one process only: the one that creates its file in `notifications/` of the run. The file
then holds the result. If the process is killed while it sends, the notification is not sent again.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import sys
import time
from collections.abc import Iterator
from types import ModuleType
from urllib.parse import quote

from tui_workbench.core.errors import UsageError, WorkbenchError
from tui_workbench.core.files import append_below, make_folders
from tui_workbench.core.model import Run, RunState
from tui_workbench.core.plaintext import visible
from tui_workbench.core.waiting import pause
from tui_workbench.runs.gpu.run_verdict import brief_of
from tui_workbench.runs.lifecycle.retrying import attempt_number
from tui_workbench.runs.metrics.run_metrics import RunMetrics
from tui_workbench.runs.metrics.values import MetricSummary
from tui_workbench.runs.notify.announcing import END, METRIC, STALLED
from tui_workbench.runs.notify.channels import Channel, load_channels, parse_condition
from tui_workbench.runs.store.rundir import NOTIFICATIONS, RunDirectory
from tui_workbench.targets.base.secrets import SecretStore

RECORD_SECONDS = 60.0
"""Time to wait for the record of a run's end. Without it, another process drives the run, and announces its end."""

PAUSES = (5.0, 30.0)
"""Seconds before the second and the third attempt to send."""

GLYPHS = {RunState.COMPLETED: "✓", RunState.FAILED: "✗", RunState.CANCELED: "⊘"}


class Notification:
    """A text about a run. `key` is unique in the run."""

    def __init__(self, key: str, title: str, body: str) -> None:
        self.key = key
        self.title = visible(title)
        self.body = visible(body)


def send_all(directory: RunDirectory, event: str) -> None:
    """Send the notifications that the channels want about an event and that no process has sent yet."""
    channels = load_channels()
    if event == END:
        for channel in channels if _has_ended(directory) else []:
            run = directory.run()
            if channel.reports_end(run.state):
                _send_once(directory, channel, _end(directory, run))
    elif event == STALLED:
        for channel in channels:
            if STALLED in channel.events:
                _send_once(directory, channel, _stall(directory))
    if event in (END, METRIC) and any(channel.metrics for channel in channels):
        metrics = RunMetrics(directory.path)
        metrics.refresh()
        summary = metrics.summary()
        for channel in channels:
            for notification in _met(directory, channel, summary):
                _send_once(directory, channel, notification)


def deliver(channel: Channel, title: str, body: str) -> str:
    """Send a text to a channel once. Return the error, or "". Raises UsageError if Apprise is not installed."""
    url = SecretStore().get(channel.reference)
    if url is None:
        return "its URL is not in the keyring, or the keyring is locked"
    apprise = _apprise()
    service = apprise.Apprise.instantiate(url, suppress_exceptions=True)
    if service is None:
        return "Apprise does not support its URL"
    with apprise.LogCapture(level=logging.WARNING, fmt="%(message)s") as log:
        sender = apprise.Apprise()
        sender.add(service)
        if sender.notify(title=title, body=body, body_format=apprise.NotifyFormat.TEXT):
            return ""
        lines = log.getvalue().split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "the service did not accept it")
    return _without_secrets(last, url)


def is_known_service(url: str) -> bool:
    """Return True if Apprise can send to a URL of this form. Raises UsageError if Apprise is not installed."""
    return _apprise().Apprise.instantiate(url, suppress_exceptions=True) is not None


def _apprise() -> ModuleType:
    try:
        import apprise  # takes 0.2 s
    except ModuleNotFoundError as error:
        raise UsageError(
            f"notifications need the package {error.name}, which is not installed",
            remedy="Install it: `pip install 'workbench-tui[notify]'`.",
        ) from error
    return apprise


def _without_secrets(text: str, url: str) -> str:
    """Return a message of Apprise, with the parts of a URL replaced that may be a password or token."""
    service, _, rest = url.partition("://")
    host = re.split(r"[/?]", rest.rpartition("@")[2] if "@" in rest.partition("?")[0] else rest)[0]
    for part in re.split(r"[/:@?&=,]", rest):
        if len(part) >= 4 and part not in (service, host, host.partition(":")[0]):
            text = text.replace(part, "***")
    return visible(" ".join(text.split()))


def _has_ended(directory: RunDirectory) -> bool:
    """Wait until the end of the run is recorded. Return False if it is not."""
    deadline = time.monotonic() + RECORD_SECONDS
    while not directory.status().end:
        if time.monotonic() > deadline:
            return False
        pause(0.1)
    return True


def _end(directory: RunDirectory, run: Run) -> Notification:
    glyph = GLYPHS.get(run.state, "?")
    exit_code = f" with exit code {run.exit_code}" if run.exit_code else ""
    body = [run.reason, str(brief_of(directory.path).get("text", ""))]
    if run.start and run.end:
        minutes, seconds = divmod(round(run.end - run.start), 60)
        body.append(f"It ran for {minutes} min {seconds} s on {run.target}.")
    title = f"{glyph} {_name(run)} {run.state}{exit_code}"
    return Notification(f"{END}-{attempt_number(directory)}", title, "\n".join(filter(None, body)) or title)


def _stall(directory: RunDirectory) -> Notification:
    run = directory.run()
    text = str(brief_of(directory.path).get("text", ""))
    help_text = f"`workbench-tui experiment stacks -r {run.run_number}` shows where it waits."
    return Notification(
        f"{STALLED}-{attempt_number(directory)}", f"■ {_name(run)} stalled", "\n".join(filter(None, (text, help_text)))
    )


def _met(directory: RunDirectory, channel: Channel, summary: dict[str, MetricSummary]) -> Iterator[Notification]:
    """Yield a notification for each condition of the channel that the metrics of the run meet."""
    for text in channel.metrics:
        condition = parse_condition(text)
        metric = summary.get(condition.metric)
        if metric is not None and condition.is_met(metric.minimum, metric.maximum):
            best = metric.minimum if condition.operator == "<" else metric.maximum
            yield Notification(
                f"{METRIC}-{quote(text, safe='')}",
                f"● {_name(directory.run())}: {text}",
                f"{condition.metric} reached {best:.6g}; the last value is {metric.last}.",
            )


def _name(run: Run) -> str:
    return f"{run.script_name} [{run.run_number}]"


def _send_once(directory: RunDirectory, channel: Channel, notification: Notification) -> None:
    """Send a notification, unless another process sends or has sent it."""
    name = f"{NOTIFICATIONS}/{channel.name}-{notification.key}.json"
    try:
        make_folders(directory.path, NOTIFICATIONS)
        append_below(directory.path, name, b"", exclusive=True)
    except FileExistsError:
        return
    error = _error_of(channel, notification)
    for seconds in PAUSES:
        if not error:
            break
        pause(seconds)
        error = _error_of(channel, notification)
    result = {"time": round(time.time(), 3), "sent": not error, **({"error": error} if error else {})}
    append_below(directory.path, name, (json.dumps(result) + "\n").encode())
    if error:
        directory.append_event("step", step="notify", reason=f"not sent to {channel.name}: {error}")


def _error_of(channel: Channel, notification: Notification) -> str:
    try:
        return deliver(channel, notification.title, notification.body)
    except WorkbenchError as error:
        return str(error)


def main(path: str, event: str) -> None:
    """Send the notifications about an event of the run at `path`. The run may be removed meanwhile."""
    with contextlib.suppress(WorkbenchError, OSError):
        send_all(RunDirectory(path), event)


if __name__ == "__main__":
    main(*sys.argv[1:])
