"""Check, before a run starts, that the members of a group can connect to each other."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import ComputeTarget
from tui_workbench.core.waiting import at_once, wait_ready
from tui_workbench.projects.project import line_of_key
from tui_workbench.targets.base.python_environment import PythonEnvironment
from tui_workbench.targets.group.comparing import PYTHON_SECONDS
from tui_workbench.targets.group.rendezvous import NodeAddress
from tui_workbench.targets.hosts.host import READ_SIZE, ConnectionLost, HostProcess

CONNECT_SECONDS, LISTEN_SECONDS = 10.0, 600.0
"""Time limits in seconds of a connection, and of the listener on the first member.

The listener normally ends when all members have connected, so its limit only matters after a lost connection.
"""

LOSS_SECONDS = 1.0
"""Seconds after a failed connection in which the loss of the connection to the first member is noticed."""

_ALONE = ("-I", "-c")  # a socket.py in the home folder must not replace the standard library's

_READY = "ready"

# Arguments: address, seconds, ports; 0 for a free port. Prints the ports, and ends early at the end of its input. Like
# torchrun, it can use a port on which old connections are being closed.
_LISTEN = f"""\
import select, socket, sys
servers = []
for port in sys.argv[3:]:
    server = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server.bind((sys.argv[1], int(port)))
        server.listen(128)
    except OSError as error:
        sys.exit(print("port", port + ":", error.strerror or error, flush=True))
    servers.append(server)
print("{_READY}", *[server.getsockname()[1] for server in servers], flush=True)
select.select([sys.stdin], [], [], float(sys.argv[2]))
"""

# Arguments: seconds, then addresses and ports. Prints the first place that cannot be reached: its number, and why.
_CONNECT = """\
import socket, sys
places = sys.argv[2:]
for number in range(0, len(places), 2):
    try:
        socket.create_connection((places[number], int(places[number + 1])), float(sys.argv[1])).close()
    except OSError as error:
        sys.exit(print(number // 2, error.strerror or error))
"""


class _Destination(NamedTuple):
    """A port on which a member listens."""

    member: str
    address: str
    port: str


def require_connections(
    group: ComputeTarget, members: Mapping[str, PythonEnvironment], addresses: Mapping[str, NodeAddress], port: int
) -> None:
    """Listen on ports of all members for a moment, and connect to them from all others.

    The first member listens on the port of the rendezvous. Every member also listens on a free port, because NCCL and
    Gloo use such ports in both directions. `members` and `addresses` are by name. Raises EnvironmentMissing,
    TargetUnreachable (also if the connection to a member is lost meanwhile) or another WorkbenchError.
    """
    first, *others = members
    with contextlib.ExitStack() as opened:
        listeners = {}
        for name in members:
            ports = (port, 0) if name == first else (0,)
            words = [*_ALONE, _LISTEN, addresses[name].address, str(LISTEN_SECONDS), *map(str, ports)]
            listeners[name] = members[name].host.open(members[name].command(words))
            opened.enter_context(contextlib.closing(listeners[name]))
        # Read and connect at once, because starting an interpreter can take long.
        destinations = at_once({
            name: functools.partial(_destinations, group, name, addresses[name].address, listeners[name])
            for name in members
        })  # fmt: skip
        try:
            at_once({
                name: functools.partial(_connect, group, name, members[name], destinations) for name in (*others, first)
            })  # fmt: skip
        except WorkbenchError as error:
            for name, process in listeners.items():
                if wait_ready([process.stdout], timeout=LOSS_SECONDS):  # the output has ended, and so has the listener
                    raise ConnectionLost(
                        f"the connection to member {name} was lost while the other members connected to it",
                        remedy="Check the network between this machine and the member, then try again.",
                    ) from error
            raise


def _destinations(group: ComputeTarget, name: str, address: str, listener: HostProcess) -> list[_Destination]:
    """Return the ports on which a member listens. Raises WorkbenchError or TargetUnreachable."""
    output = _first_line(name, listener)
    word, *ports = output.split()
    if word == _READY:
        return [_Destination(name, address, port) for port in ports]
    raise WorkbenchError(
        f"member {name} cannot listen on {address}, {output}",
        remedy="If the port is in use, try again: each run uses another port. If the member has a rootless "
        "Docker engine, use a target of type `remote`. Otherwise, set `networkInterface` to the name of an "
        "interface that every member has.",
        file=group.path,
    )


def _connect(
    group: ComputeTarget, name: str, member: PythonEnvironment, destinations_of: Mapping[str, Sequence[_Destination]]
) -> None:
    """Connect from a member to the others. Raises WorkbenchError or TargetUnreachable."""
    destinations = [
        destination for other, listening in destinations_of.items() if other != name for destination in listening
    ]
    words = [word for destination in destinations for word in (destination.address, destination.port)]
    command = member.command([*_ALONE, _CONNECT, str(CONNECT_SECONDS), *words])
    output = member.host.check(command, timeout=PYTHON_SECONDS + CONNECT_SECONDS).text.strip()
    if not output:
        return
    number, _, reason = output.partition(" ")
    other, address, port = destinations[int(number)]
    raise WorkbenchError(
        f"member {name} cannot connect to {other} at {address}, port {port}: {reason}",
        remedy="Allow TCP connections on all ports between the members in their firewalls, or set `networkInterface` "
        "to an interface through which they reach each other.",
        file=group.path,
        line=line_of_key(group.path, "networkInterface"),
    )


def _first_line(member: str, process: HostProcess) -> str:
    """Return the first line of the output of a member's interpreter. Raises WorkbenchError or TargetUnreachable."""
    data = b""
    while b"\n" not in data and len(data) < READ_SIZE:
        is_ready = wait_ready([process.stdout], timeout=PYTHON_SECONDS)
        new = os.read(process.stdout, READ_SIZE) if is_ready else b""
        if not new:
            code = process.wait() if is_ready else None
            problem = f"did not answer within {PYTHON_SECONDS:g} s"
            if code is not None:
                complaint = os.read(process.stderr, READ_SIZE).decode("utf-8", "replace").strip()
                problem = f"ended with exit code {code}: {complaint}".rstrip(": ")
            raise WorkbenchError(
                f"Python of member {member} {problem}",
                remedy=f"Run `workbench-tui computetarget check {member}` to find the cause, such as a wrong "
                "`pythonLocation`. For a member with containers, the program `docker` must be installed.",
            )
        data += new
    return data.partition(b"\n")[0].decode("utf-8", "replace")
