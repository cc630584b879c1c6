"""Send the notifications about events of runs.

A process creates the file of a notification in `notifications/` of the run just before it sends. The file then holds
the result. A notification that has a file is not sent again: if the process was killed while it sent, the service may
have received the notification.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator
from hashlib import blake2b

from tui_workbench.core.causes import CANCELED
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.files import append_below, make_folders, read_below, unlink_below
from tui_workbench.core.json_values import parse_json
from tui_workbench.core.model import Run, RunState
from tui_workbench.core.plaintext import visible
from tui_workbench.core.waiting import pause
from tui_workbench.runs.gpu.run_verdict import brief_of
from tui_workbench.runs.metrics.recording import FAULTS
from tui_workbench.runs.metrics.run_metrics import RunMetrics
from tui_workbench.runs.metrics.values import MetricSummary
from tui_workbench.runs.notify import pending
from tui_workbench.runs.notify.buses import Address, read_address
from tui_workbench.runs.notify.channels import (
    END,
    METRIC,
    STALLED,
    Channel,
    load_channels,
    parse_condition,
    policy_that_ended,
)
from tui_workbench.runs.notify.delivery import FAILURE, INFO, SUCCESS, WARNING, Delivery, deliver
from tui_workbench.runs.store.attempts import attempt_number
from tui_workbench.runs.store.rundir import NOTIFICATIONS, RunDirectory

RECORD_SECONDS = 10.0
"""Seconds to wait for the record of a run's end. After that, another process drives the run and announces its end."""

LARGEST_EVENT = 1 << 16
"""Maximum size of the file of a pending event in bytes; it contains a path."""

PAUSES = (5.0, 30.0)
"""Seconds before the second and the third attempt, if no connection to the service was possible."""

GLYPHS = {RunState.COMPLETED: "✓", RunState.FAILED: "✗", RunState.CANCELED: "⊘"}

KINDS = {RunState.COMPLETED: SUCCESS, RunState.FAILED: FAILURE, RunState.CANCELED: INFO}


class Notification:
    """A text about a run. `key` is unique in the run; `kind` is INFO or another constant of `delivery`."""

    def __init__(self, key: str, kind: str, title: str, body: str) -> None:
        self.key = key
        self.kind = kind
        self.title = visible(title)
        self.body = "\n".join(visible(line) for line in body.split("\n"))


def send_pending(name: str) -> None:
    """Send the notifications about all pending events of a channel, the oldest first.

    An event is removed when all of its notifications are sent, so that the next process continues after a killed one.
    Raises OSError if a folder is not accessible, and WorkbenchError if the file of the channels cannot be used.
    """
    channel = next((candidate for candidate in load_channels() if candidate.name == name), None)
    address = read_address(channel) if channel else Address()  # once: a locked keyring takes long to answer
    folder = pending.folder_of(name)
    for event_name in pending.names(name):
        try:
            if channel is not None:  # it may have been removed
                path, event = parse_json(read_below(folder, event_name, LARGEST_EVENT))
                _send_event(RunDirectory(path), event, channel, address)
        except (OSError, WorkbenchError, *FAULTS):
            pass  # the run was removed or has malformed files
        finally:
            with contextlib.suppress(FileNotFoundError):  # the channel was removed meanwhile
                unlink_below(folder, event_name)


def _send_event(directory: RunDirectory, event: str, channel: Channel, address: Address) -> None:
    """Send the notifications about an event that the channel reports and that no process has sent yet.

    A notification that cannot be sent is omitted. Raises OSError and WorkbenchError if the run cannot be read.
    """
    # Create all texts first: sending can take long, and the run may be resumed or removed meanwhile.
    for notification in list(_due(directory, event, channel)):
        with contextlib.suppress(OSError, WorkbenchError):  # the other notifications must still be sent
            _send_once(directory, channel, address, notification)


def send_test(channel: Channel) -> str:
    """Send a test message to a channel. Return the error, or "". Raises UsageError if Apprise is not installed."""
    body = f"This channel reports the runs that {os.environ.get('USER') or 'you'} submitted on {socket.gethostname()}."
    return deliver(read_address(channel), "Test message from workbench-tui", body).error


def _due(directory: RunDirectory, event: str, channel: Channel) -> Iterator[Notification]:
    """Yield the notifications about an event. Those about metrics are older than the end of the run."""
    if event == STALLED:
        yield from [_stall(directory)] if STALLED in channel.events else []
        return
    end = _end(directory, channel) if event == END else None
    if channel.metrics:
        yield from _met(_name(directory.run()), channel, _summary(directory))
    if end is not None:
        yield end


def _has_ended(directory: RunDirectory) -> bool:
    """Wait until the end of the run is recorded. Return False after RECORD_SECONDS, or if the run was removed."""
    deadline = time.monotonic() + RECORD_SECONDS
    while not directory.status().end:
        if time.monotonic() > deadline or not os.path.isdir(directory.path):
            return False
        pause(0.1)
    return True


def _end(directory: RunDirectory, channel: Channel) -> Notification | None:
    """Return the notification about the end of the run, or None if the channel does not report it."""
    if not _has_ended(directory):
        return None
    number = attempt_number(directory)  # read it before the run: if it is resumed in between, the run is active
    run = directory.run()
    if run.is_active or not channel.reports_end(run):
        return None
    glyph = GLYPHS.get(run.state, "?")
    policy = policy_that_ended(run)
    cause = f" by {policy}" if policy else f" with exit code {run.exit_code}" if run.exit_code else ""
    body = ["" if run.kinds == (CANCELED,) else run.reason, str(brief_of(directory.path).get("text", ""))]
    if run.duration:
        body.append(f"It ran for {_duration(run.duration)} on {run.target}.")
    title = f"{glyph} {_name(run)} {run.state}{cause}"
    kind = FAILURE if policy else KINDS.get(run.state, WARNING)
    return Notification(f"{END}-{number}", kind, title, "\n".join(filter(None, body)) or title)


def _duration(seconds: float) -> str:
    """Format a duration as `4 s`, `2 min 5 s` or `3 h 12 min`."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minute} min"
    return f"{minutes} min {second} s" if minutes else f"{second} s"


def _stall(directory: RunDirectory) -> Notification:
    run = directory.run()
    text = str(brief_of(directory.path).get("text", ""))
    help_text = f"`workbench-tui experiment stacks -r {run.run_number}` shows where it waits."
    body = "\n".join(filter(None, (text, help_text)))
    return Notification(f"{STALLED}-{attempt_number(directory)}", WARNING, f"■ {_name(run)} stalled", body)


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
                WARNING,
                f"● {name}: {text}",
                f"{condition.metric} reached {_shown(best)}; the last value is {_shown(metric.last)}.",
            )


def _shown(value: float | str | None) -> str:
    return f"{value:.6g}" if isinstance(value, (int, float)) else str(value)


def _name(run: Run) -> str:
    return f"{run.script_name} [{run.run_number}]"


def _send_once(directory: RunDirectory, channel: Channel, address: Address, notification: Notification) -> None:
    """Send a notification, unless a process has sent it or was killed while it sent it."""
    name = f"{NOTIFICATIONS}/{channel.name}-{notification.key}.json"
    make_folders(directory.path, NOTIFICATIONS)
    pauses = list(PAUSES)
    while True:
        # The file is the mark that the notification is being sent, and only one process can create it.
        try:
            append_below(directory.path, name, b"", exclusive=True)
        except FileExistsError:
            return
        try:
            delivery = deliver(address, notification.title, notification.body, notification.kind)
        except WorkbenchError as error:
            delivery = Delivery(str(error))
        if not (delivery.may_repeat and pauses):
            break
        unlink_below(directory.path, name)  # if this process is killed in the pause, the next process sends
        pause(pauses.pop(0))
    result = {"time": round(time.time(), 3), "title": notification.title, "sent": not delivery.error}
    if delivery.error:
        result["error"] = delivery.error
    append_below(directory.path, name, (json.dumps(result) + "\n").encode())
    if delivery.error:
        directory.append_event("step", step="notify", reason=f"not sent to {channel.name}: {delivery.error}")
