"""The user's channels for notifications: services such as e-mail, ntfy or Slack, with the events that each reports.

`notify.json` in the user's configuration folder holds the channels of all projects. The URL of a channel can contain a
password or a token. The URL is therefore in the keyring, and the file holds only a reference to it.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, NamedTuple

from tui_workbench.config.schema.limits import STOP_IF_STALLED
from tui_workbench.core.causes import POLICIES
from tui_workbench.core.directories import channels_path
from tui_workbench.core.errors import ConfigurationError, UsageError, storage_errors
from tui_workbench.core.files import load_json, write_atomically
from tui_workbench.core.model import Run, RunState
from tui_workbench.targets.hosts.secrets import is_reference

END, FAILED, STALLED = "end", "failed", "stalled"
EVENTS = (END, FAILED, STALLED)
"""The events that a channel can report.

END: ends of all runs. FAILED: ends of runs that failed, that a policy ended, or whose result is unknown. STALLED:
stalls, and ends of runs that were ended because they stalled.
"""

METRIC = "metric"
"""The event of a metric that meets a condition of a channel."""

DEFAULT_EVENTS = (END, STALLED)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_CONDITION = re.compile(r"\s*(.*?\S)\s*([<>])\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*")


class Condition(NamedTuple):
    """A condition on a metric, such as `loss < 0.1`. One value of the run is enough to meet the condition."""

    metric: str
    operator: str  # < or >
    limit: float

    def is_met(self, minimum: float, maximum: float) -> bool:
        """Return True if the smallest or the largest value meets the condition; False if they are NaN."""
        return minimum < self.limit if self.operator == "<" else maximum > self.limit


class Channel(NamedTuple):
    """A service with the events and conditions that are reported to it. `reference` names its URL in the keyring."""

    name: str
    reference: str
    events: tuple[str, ...]
    metrics: tuple[str, ...]

    def reports(self, event: str) -> bool:
        """Return True if there may be a notification about the event. At the end of a run, metrics are checked too."""
        if event == STALLED:
            return STALLED in self.events
        return bool(self.metrics) or (event == END and bool(self.events))

    def reports_end(self, run: Run) -> bool:
        """Return True if the end of the run is reported."""
        policy = policy_that_ended(run)
        has_failed = run.state in (RunState.FAILED, RunState.UNKNOWN) or bool(policy)
        return (
            END in self.events
            or (FAILED in self.events and has_failed)
            or (STALLED in self.events and policy == STOP_IF_STALLED)
        )


def policy_that_ended(run: Run) -> str:
    """Return the name of the policy that ended a run, such as `MaxDurationMinutes`, or ""."""
    policies = (POLICIES[kind] for kind in run.kinds if kind in POLICIES)
    return next(policies, "") if run.state == RunState.CANCELED else ""


def load_channels() -> list[Channel]:
    """Return the channels, sorted by name. Raises ConfigurationError for an invalid file, and StorageError."""
    path = channels_path()
    if not os.path.lexists(path):
        return []
    with storage_errors("read", path):
        try:
            stored = load_json(path)
            return sorted(_channel(name, values) for name, values in stored.items())
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise ConfigurationError(
                "this file does not contain valid notification channels",
                remedy="Remove the file, and add the channels again with `workbench-tui notify add NAME`.",
                file=path,
            ) from error


def save_channels(channels: list[Channel]) -> None:
    """Write all channels. Raises StorageError."""
    path = channels_path()
    stored = {
        channel.name: {"url": channel.reference, "events": channel.events, "metrics": channel.metrics}
        for channel in sorted(channels)
    }
    with storage_errors("write", path):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        write_atomically(path, (json.dumps(stored, indent=2) + "\n").encode(), mode=0o600)


def check_name(name: str) -> None:
    """Raise UsageError if a channel cannot have this name."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid channel name",
            remedy="Use at most 64 letters, digits, `.`, `_` and `-`, and begin with a letter or digit.",
        )


def parse_condition(text: str) -> Condition:
    """Parse a condition such as `loss < 0.1`. Raises UsageError."""
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise UsageError(
            f"{text!r} is not a condition on a metric", remedy="Write a metric, `<` or `>`, and a number: `loss < 0.1`."
        )
    return Condition(match[1], match[2], float(match[3]))


def _channel(name: str, values: dict[str, Any]) -> Channel:
    """Parse a channel. Raises ValueError, TypeError or KeyError for invalid values."""
    channel = Channel(name, str(values["url"]), tuple(values["events"]), tuple(values["metrics"]))
    if not (_NAME.fullmatch(name) and is_reference(channel.reference) and set(channel.events) <= set(EVENTS)):
        raise ValueError(name)
    try:
        for text in channel.metrics:
            parse_condition(text)
    except UsageError as error:
        raise ValueError(text) from error
    return channel
