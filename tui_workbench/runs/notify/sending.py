"""Send the notifications about events of runs.

Each notification is sent once: by the process that creates its file in `notifications/` of the run. The file then holds
the result. If the process is killed while it sends, the notification is not sent again.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import time
from collections.abc import Iterator
from hashlib import blake2b
from http import HTTPStatus
from types import ModuleType

from tui_workbench.core.errors import UsageError, WorkbenchError
from tui_workbench.core.files import append_below, make_folders, read_below, unlink_below
from tui_workbench.core.installation import extra_command
from tui_workbench.core.model import Run, RunState
from tui_workbench.core.plaintext import visible
from tui_workbench.core.waiting import pause
from tui_workbench.runs.gpu.run_verdict import brief_of
from tui_workbench.runs.lifecycle.retrying import attempt_number
from tui_workbench.runs.metrics.recording import FAULTS
from tui_workbench.runs.metrics.run_metrics import RunMetrics
from tui_workbench.runs.metrics.values import MetricSummary
from tui_workbench.runs.notify import pending
from tui_workbench.runs.notify.announcing import END, METRIC, STALLED
from tui_workbench.runs.notify.channels import Channel, load_channels, parse_condition
from tui_workbench.runs.store.rundir import NOTIFICATIONS, RunDirectory
from tui_workbench.targets.base.secrets import SecretStore

RECORD_SECONDS = 10.0
"""Seconds to wait for the record of a run's end. After that, another process drives the run and announces its end."""

LARGEST_EVENT = 1 << 16
"""Maximum size of the file of a pending event in bytes; it contains a path."""

PAUSES = (5.0, 30.0)
"""Seconds before the second and the third attempt to send."""

GLYPHS = {RunState.COMPLETED: "✓", RunState.FAILED: "✗", RunState.CANCELED: "⊘"}


class Notification:
    """A text about a run. `key` is unique in the run."""

    def __init__(self, key: str, title: str, body: str) -> None:
        self.key = key
        self.title = visible(title)
        self.body = "\n".join(visible(line) for line in body.split("\n"))


def send_all(directory: RunDirectory, event: str) -> None:
    """Send the notifications that the channels want about an event and that no process has sent yet.

    A notification that cannot be sent is omitted. Raises ConfigurationError if the file of the channels is invalid, and
    StorageError if it cannot be read.
    """
    # Create all texts first: sending can take long, and the run may be resumed or removed meanwhile.
    for channel, notification in list(_due(directory, event, load_channels())):
        with contextlib.suppress(OSError, WorkbenchError):  # the other notifications must still be sent
            _send_once(directory, channel, notification)


def _due(directory: RunDirectory, event: str, channels: list[Channel]) -> Iterator[tuple[Channel, Notification]]:
    """Yield the notifications about an event, with their channels."""
    if event == END and _has_ended(directory):
        number = attempt_number(directory)  # read it before the run: if it is resumed in between, the run is active
        run = directory.run()
        end = _end(directory, run, number)
        yield from ((channel, end) for channel in channels if not run.is_active and channel.reports_end(run.state))
    elif event == STALLED:
        stall = _stall(directory)
        yield from ((channel, stall) for channel in channels if STALLED in channel.events)
    if event in (END, METRIC) and any(channel.metrics for channel in channels):
        summary, name = _summary(directory), _name(directory.run())
        yield from ((channel, met) for channel in channels for met in _met(name, channel, summary))


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
        return _kind_of_error(log.getvalue())


def is_known_service(url: str) -> bool:
    """Return True if Apprise can send to a URL of this form. Raises UsageError if Apprise is not installed."""
    return _apprise().Apprise.instantiate(url, suppress_exceptions=True) is not None


def _apprise() -> ModuleType:
    try:
        import apprise  # takes 0.2 s
    except ModuleNotFoundError as error:
        raise UsageError(
            f"notifications need the package {error.name}, which is not installed",
            remedy=f"Install it: `{extra_command('notify')}`.",
        ) from error
    return apprise


def _kind_of_error(text: str) -> str:
    """Return the kind of error in messages of Apprise. The messages themselves may contain any part of the URL."""
    codes = [int(code) for code in re.findall(r"\berror=(\d{3})\b", text)]
    if codes and codes[-1] in {status.value for status in HTTPStatus}:
        return f"the service answered {codes[-1]} {HTTPStatus(codes[-1]).phrase}"
    if "connection error" in text.lower():
        return "the connection to the service failed; check the network, and the address and password in the URL"
    return "the service did not accept the notification; check the URL"


def _has_ended(directory: RunDirectory) -> bool:
    """Wait until the end of the run is recorded. Return False after RECORD_SECONDS, or if the run was removed."""
    deadline = time.monotonic() + RECORD_SECONDS
    while not directory.status().end:
        if time.monotonic() > deadline or not os.path.isdir(directory.path):
            return False
        pause(0.1)
    return True


def _end(directory: RunDirectory, run: Run, number: int) -> Notification:
    glyph = GLYPHS.get(run.state, "?")
    exit_code = f" with exit code {run.exit_code}" if run.exit_code else ""
    body = [run.reason, str(brief_of(directory.path).get("text", ""))]
    if run.start and run.end:
        minutes, seconds = divmod(round(run.end - run.start), 60)
        body.append(f"It ran for {minutes} min {seconds} s on {run.target}.")
    title = f"{glyph} {_name(run)} {run.state}{exit_code}"
    return Notification(f"{END}-{number}", title, "\n".join(filter(None, body)) or title)


def _stall(directory: RunDirectory) -> Notification:
    run = directory.run()
    text = str(brief_of(directory.path).get("text", ""))
    help_text = f"`workbench-tui experiment stacks -r {run.run_number}` shows where it waits."
    return Notification(
        f"{STALLED}-{attempt_number(directory)}", f"■ {_name(run)} stalled", "\n".join(filter(None, (text, help_text)))
    )


def _summary(directory: RunDirectory) -> dict[str, MetricSummary]:
    """Return the metrics of the run, or {} if its files are malformed."""
    try:
        metrics = RunMetrics(directory.path)
        metrics.refresh()
        return metrics.summary()
    except FAULTS:
        return {}


def _met(name: str, channel: Channel, summary: dict[str, MetricSummary]) -> Iterator[Notification]:
    """Yield a notification for each condition of the channel that the metrics of the run `name` meet."""
    for text in channel.metrics:
        condition = parse_condition(text)
        metric = summary.get(condition.metric)
        if metric is not None and condition.is_met(metric.minimum, metric.maximum):
            best = metric.minimum if condition.operator == "<" else metric.maximum
            digest = blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()  # a text can be long
            yield Notification(
                f"{METRIC}-{digest}",
                f"● {name}: {text}",
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
    result = {"time": round(time.time(), 3), "title": notification.title, "sent": not error}
    if error:
        result["error"] = error
    append_below(directory.path, name, (json.dumps(result) + "\n").encode())
    if error:
        directory.append_event("step", step="notify", reason=f"not sent to {channel.name}: {error}")


def _error_of(channel: Channel, notification: Notification) -> str:
    try:
        return deliver(channel, notification.title, notification.body)
    except WorkbenchError as error:
        return str(error)


def send_pending(folder: str) -> None:
    """Send the notifications about all pending events in a folder. Raises OSError if the folder is not accessible."""
    for name in pending.names(folder):
        content = read_below(folder, name, LARGEST_EVENT)
        unlink_below(folder, name)  # first, so that an event that kills this process does not kill the next process too
        with contextlib.suppress(OSError, WorkbenchError, *FAULTS):  # the run was removed or has malformed files
            path, event = json.loads(content)
            send_all(RunDirectory(path), event)
