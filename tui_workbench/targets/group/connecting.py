"""Check, before a run starts, that the members of a group can connect to each other and that their clocks agree."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Mapping

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import ComputeTarget
from tui_workbench.core.waiting import at_once, wait_ready
from tui_workbench.projects.project import line_of_key
from tui_workbench.targets.base.python_environment import PythonEnvironment
from tui_workbench.targets.group.rendezvous import Place
from tui_workbench.targets.group.versions import PYTHON_SECONDS
from tui_workbench.targets.hosts.clocks import Clock, clock_of
from tui_workbench.targets.hosts.host import READ_SIZE, ConnectionLost, HostProcess
from tui_workbench.targets.hosts.host_for import host_of

CLOCK_SECONDS = 5.0
"""Smallest difference between two clocks that is reported, in seconds.

torchrun compares the clocks of its nodes, and drops a node whose clock is 15 seconds behind (`keep_alive_interval`
times `keep_alive_max_attempt` of its rendezvous).
"""

CONNECT_SECONDS, LISTEN_SECONDS = 10.0, 600.0
"""Time limits in seconds of a connection, and of the listener on the first member.

The listener normally ends when all members have connected, so its limit only matters after a lost connection.
"""

LOSS_SECONDS = 1.0
"""Seconds after a failed connection in which the loss of the connection to the first member is noticed."""

_ALONE = ("-I", "-c")  # a socket.py in the home folder must not replace the standard library's

_READY = "ready"

# Arguments: address, port, seconds. Ends early at the end of its input. Like torchrun, it can use a port on which old
# connections are being closed.
_LISTEN = f"""\
import select, socket, sys
server = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
try:
    server.bind((sys.argv[1], int(sys.argv[2])))
    server.listen(128)
except OSError as error:
    print(error.strerror or error, flush=True)
else:
    print("{_READY}", flush=True)
    select.select([sys.stdin], [], [], float(sys.argv[3]))
"""

# Arguments: address, port, seconds. Prints nothing if the connection succeeds.
_CONNECT = """\
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), float(sys.argv[3])).close()
except OSError as error:
    print(error.strerror or error)
"""


def require_connections(
    group: ComputeTarget, members: Mapping[str, PythonEnvironment], places: Mapping[str, Place], port: int
) -> None:
    """Listen on a port of the first member for a moment, and connect to it from all others.

    `members` and `places` are by name. Raises EnvironmentMissing, TargetUnreachable (also if the connection to the
    first member is lost meanwhile) or another WorkbenchError.
    """
    member, *others = members
    address = places[member].address
    command = members[member].command([*_ALONE, _LISTEN, address, str(port), str(LISTEN_SECONDS)])
    with contextlib.closing(members[member].host.open(command)) as there:
        said = _first_line(member, there)
        if said != _READY:
            raise WorkbenchError(
                f"member {member} cannot listen on {address}, port {port}: {said}",
                remedy="If the port is in use, try again: each run uses another port. If the member has a rootless "
                "Docker engine, use a target of type `remote`. Otherwise, set `networkInterface` to the name of an "
                "interface that every member has.",
                file=group.path,
            )
        try:
            # Connect from all members at once, because starting an interpreter can take long.
            at_once({
                name: functools.partial(_connect, group, name, members[name], f"{member} at {address}", address, port)
                for name in others
            })  # fmt: skip
        except WorkbenchError as error:
            if wait_ready([there.stdout], timeout=LOSS_SECONDS):  # the output has ended, and so has the listener
                raise ConnectionLost(
                    f"the connection to member {member} was lost while the other members connected to it",
                    remedy="Check the network between this machine and the member, then try again.",
                ) from error
            raise


def _connect(
    group: ComputeTarget, name: str, member: PythonEnvironment, destination: str, address: str, port: int
) -> None:
    """Connect from a member to the first member. Raises WorkbenchError or TargetUnreachable."""
    command = member.command([*_ALONE, _CONNECT, address, str(port), str(CONNECT_SECONDS)])
    if said := member.host.check(command, timeout=PYTHON_SECONDS).text.strip():
        raise WorkbenchError(
            f"member {name} cannot connect to {destination}, port {port}: {said}",
            remedy="Allow TCP connections between the members in their firewalls, or set `networkInterface` to "
            "an interface through which they reach each other.",
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


def clocks_of(group: ComputeTarget) -> dict[str, Clock]:
    """Read the clocks of the members. Raises TargetUnreachable or WorkbenchError."""
    return {part.name: clock_of(host_of(part)) for part in group.parts}


def clock_warning(clocks: Mapping[str, Clock]) -> str:
    """Return a warning if the clocks of two members differ by CLOCK_SECONDS or more, otherwise ""."""
    ahead = max(clocks, key=lambda name: clocks[name].least)
    behind = min(clocks, key=lambda name: clocks[name].most)
    seconds = clocks[ahead].least - clocks[behind].most
    if seconds < CLOCK_SECONDS:
        return ""
    return f"the clock of member {ahead} is at least {int(seconds)} s ahead of the clock of member {behind}"
