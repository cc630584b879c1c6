"""`open` and `port list|close`: open TensorBoard, Jupyter or a port of a run at 127.0.0.1, and close open ports."""

from __future__ import annotations

import argparse

from tui_workbench.cli.shared.output import TEXT, emit, notify, output
from tui_workbench.cli.shared.parser import RUN, option, options
from tui_workbench.core.errors import UsageError
from tui_workbench.projects.project import Project
from tui_workbench.runs.history import History
from tui_workbench.runs.ports import KINDS, PORT, OpenPort, close_ports, open_ports, parse_destination, run_owner

COLUMNS = ("port", "kind", "leads_to", "machine", "run_id", "url")

NO_BROWSER = option("--no-browser", action="store_true", help="only print the address")

configure_open = options(
    RUN,
    option("kind", choices=KINDS, metavar="WHAT", help="tensorboard, jupyter or port"),
    option("port", nargs="?", default="", metavar="[HOST:]PORT",
           help="the port of the run; with HOST, the port of a host that the machine of the run can reach"),
    NO_BROWSER,
    output(TEXT),
    usage="%(prog)s -r ID {tensorboard | jupyter | port [HOST:]PORT} [--no-browser]",
    epilog="""\
Starts TensorBoard or Jupyter on the machine or in the container of the run, with
the Python of the run. `port` opens a port of that machine or container instead.
If the run is on another machine, the port is forwarded through the SSH connection to
127.0.0.1 of this machine. No port is published, and the server on the other machine
ends with the connection. A server or a forwarded port stays open until you press
Ctrl-C or use `port close`, or until the server or the connection ends. If `port`
leads to a port of this machine, nothing is forwarded: the address is printed, and
the command ends.

examples:
  workbench-tui open -r 12 tensorboard
  workbench-tui open -r 12 jupyter --no-browser
  workbench-tui open -r 12 port 8080""",
)  # fmt: skip
configure_list = options(output("table", has_project=False))
configure_close = options(
    option("ports", nargs="*", metavar="PORT", help="a port number or URL from `port list`"),
    option("--all", action="store_true", help="close all ports"),
    output(TEXT, has_project=False),
)


def run_open(arguments: argparse.Namespace) -> int:
    is_port = arguments.kind == PORT
    if is_port != bool(arguments.port):
        remedy = "Give `tensorboard`, `jupyter`, or `port` and a port number, for example `port 8080`."
        raise UsageError("`port` needs a number" if is_port else f"{arguments.kind} takes no port", remedy=remedy)
    destination = parse_destination(arguments.port) if is_port else None
    directory = History(Project.find(arguments.project)).directory(arguments.run)
    return keep_open(OpenPort(run_owner(directory), arguments.kind, destination), arguments)


def keep_open(opened: OpenPort, arguments: argparse.Namespace) -> int:
    """Print the address of a port, and show a server in the browser. If the port stays open, wait for its end."""
    try:
        if opened.record.port != opened.preferred_port:
            notify(f"port {opened.preferred_port} of this machine is in use, so port {opened.record.port} is used")
        emit(opened.record._asdict(), arguments, text=[opened.record.url])
        if opened.record.kind != PORT and not arguments.no_browser:
            opened.show_in_browser()
        if opened.stays_open:
            notify("Press Ctrl-C to close the port.")
            if reason := opened.wait():
                notify(reason)
    finally:
        opened.close()
    return 0


def run_list(arguments: argparse.Namespace) -> int:
    return emit([record._asdict() for record in open_ports()], arguments, COLUMNS)


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
