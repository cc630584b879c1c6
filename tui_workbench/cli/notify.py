"""`notify add|list|remove|test`: manage and test the channels for notifications about runs."""

from __future__ import annotations

import argparse
from typing import Any

from tui_workbench.cli.shared import prompts
from tui_workbench.cli.shared.output import emit, output
from tui_workbench.cli.shared.parser import option, options
from tui_workbench.core.errors import UsageError
from tui_workbench.runs.notify.changing import add_channel, check_channel, remove_channel
from tui_workbench.runs.notify.channels import DEFAULT_EVENTS, EVENTS, Channel, load_channels
from tui_workbench.runs.notify.sending import send_test

COLUMNS = ("name", "events", "metrics")
NO_CHANNEL = "Add a channel: `workbench-tui notify add NAME`."

_NAME = option("name", metavar="NAME", help="the name of the channel, such as `phone`")

configure_add = options(
    _NAME,
    option(
        "--on",
        action="append",
        choices=EVENTS,
        help="report the end of each run (end), of runs that failed, were ended by a policy, or have an unknown result "
        "(failed), or stalls (stalled); repeatable (default: end and stalled)",
    ),
    option(
        "--metric",
        action="append",
        default=[],
        metavar="CONDITION",
        help="also report when a metric meets a condition such as `loss < 0.1`; repeatable",
    ),
    option("--url-stdin", action="store_true", help="read the URL from stdin instead of asking for it"),
    option("--replace", action="store_true", help="replace the URL, events and conditions of an existing channel"),
    output(default="text", has_project=False),
)
configure_list = options(output(default="table", example="[?contains(events, 'end')].name", has_project=False))
configure_remove = options(_NAME, output(default="text", has_project=False))
configure_test = options(
    option("name", nargs="?", default="", metavar="NAME", help="only this channel (default: all channels)"),
    output(default="text", has_project=False),
)


def run_add(arguments: argparse.Namespace) -> int:
    """Store a channel. Raises UsageError for an invalid argument, and WorkbenchError without a keyring."""
    name, metrics, replace = arguments.name, arguments.metric, arguments.replace
    check_channel(name, metrics, replace=replace)  # before the URL is asked for
    channel = add_channel(name, _read_url(arguments), arguments.on or DEFAULT_EVENTS, metrics, replace=replace)
    text = f"added {name}; try it: workbench-tui notify test {name}"
    return emit(_record(channel), arguments, text=[text])


def run_list(arguments: argparse.Namespace) -> int:
    return emit([_record(channel) for channel in load_channels()], arguments, COLUMNS)


def run_remove(arguments: argparse.Namespace) -> int:
    channel = _channel(arguments.name)
    remove_channel(channel)
    return emit(_record(channel), arguments, text=[f"removed {channel.name}"])


def run_test(arguments: argparse.Namespace) -> int:
    """Send a test message to each channel. Return 1 if a channel does not accept it."""
    channels = [_channel(arguments.name)] if arguments.name else load_channels()
    if not channels:
        raise UsageError("no channel is configured", remedy=NO_CHANNEL)
    errors = {channel.name: send_test(channel) for channel in channels}
    result = [{"name": name, "sent": not error, "error": error} for name, error in errors.items()]
    emit(result, arguments, text=[f"{name}: {error or 'sent'}" for name, error in errors.items()])
    return 1 if any(errors.values()) else 0


def _read_url(arguments: argparse.Namespace) -> str:
    if arguments.url_stdin:
        return prompts.secret_from_stdin("--url-stdin")
    if not prompts.can_ask():
        raise UsageError(
            "cannot ask for the URL: not a terminal",
            remedy="Run the command in a terminal, or add `--url-stdin` and pipe the URL into it.",
        )
    return prompts.ask_secret("URL of the service")


def _channel(name: str) -> Channel:
    for channel in load_channels():
        if channel.name == name:
            return channel
    names = ", ".join(channel.name for channel in load_channels())
    remedy = f"Choose one of: {names}." if names else NO_CHANNEL
    raise UsageError(f"unknown channel {name!r}", remedy=remedy)


def _record(channel: Channel) -> dict[str, Any]:
    return {"name": channel.name, "events": list(channel.events), "metrics": list(channel.metrics)}
