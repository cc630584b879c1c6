"""`port`: list and close the open ports of runs."""

from __future__ import annotations

import argparse

from tui_workbench.cli.shared.output import TEXT, emit, notify, output
from tui_workbench.cli.shared.parser import option, options
from tui_workbench.core.errors import UsageError
from tui_workbench.runs.ports import close_ports, open_ports

COLUMNS = ("port", "kind", "leads_to", "machine", "run_id", "url")

configure_list = options(output("table", has_project=False))


def run_list(arguments: argparse.Namespace) -> int:
    return emit([record._asdict() for record in open_ports()], arguments, COLUMNS)


configure_close = options(
    option("ports", nargs="*", metavar="PORT", help="a port number or URL from `port list`"),
    option("--all", action="store_true", help="close all ports"),
    output(TEXT, has_project=False),
)


def run_close(arguments: argparse.Namespace) -> int:
    if bool(arguments.ports) == arguments.all:
        raise UsageError(
            "expected either ports or --all", remedy="Give ports from `workbench-tui port list`, or `--all`."
        )
    closed = []
    for name in arguments.ports or [""]:
        for record in close_ports(name):
            closed.append(record._asdict())
            notify(f"closed {record.title}")
    if not closed:
        notify("no open ports")
    return emit(closed, arguments, COLUMNS, text=())
