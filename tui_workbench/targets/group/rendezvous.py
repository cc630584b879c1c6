"""The addresses with which the members of a group connect to each other."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.model import ComputeTarget, RunSpec
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.projects.project import line_of_key
from tui_workbench.targets.base.run_environment import RENDEZVOUS_VARIABLE
from tui_workbench.targets.hosts.host import Completed, Host

FIRST_PORT, PORTS = 20000, 10000
"""The first port and the number of ports for rendezvous, below the ports that Linux gives to outgoing connections."""

NODE_VARIABLE = "WORKBENCH_NODE"

_ADDRESSES = shell_script("targets/group/scripts/list_addresses.sh")


class Place(NamedTuple):
    """The network interface of a member ("" if it is not known), and its address."""

    interface: str
    address: str


def port_of(run_id: str) -> int:
    """Return the port of the rendezvous of a run."""
    return FIRST_PORT + zlib.crc32(run_id.encode()) % PORTS


def find_place(group: ComputeTarget, member: str, host: Host) -> Place:
    """Return the network interface and address of a member. Raises TargetUnreachable or another WorkbenchError."""
    return place_in(group, member, host.run(["sh", "-c", _ADDRESSES]))


def place_in(group: ComputeTarget, member: str, done: Completed) -> Place:
    """Find the network interface and address of a member in the output of _ADDRESSES. Raises ConfigurationError."""
    first, *lines = done.stdout.decode("utf-8", "replace").split("\n")
    rows = [line.split() for line in lines]
    # `ip` adds the name of the other end to the interface of a container: `eth0@if7`.
    found = [Place(row[1].partition("@")[0], row[3].partition("/")[0]) for row in rows if len(row) > 3]
    words = first.split()
    own = words[2] if len(words) == 4 else ""
    wanted = group.network_interface or next((each.interface for each in found if each.address == own), "")
    there = [each for each in found if each.interface == wanted and not _is_loopback(each.address)]
    if there:
        # IPv4 is preferred. A link-local address of IPv6 is last, because it needs the number of an interface.
        return min(there, key=lambda each: (":" in each.address, each.address.startswith("fe80:")))
    if own and not group.network_interface and not _is_loopback(own):
        return Place("", own)
    names = ", ".join(sorted({each.interface for each in found} - {"lo"}))
    problem = (
        f"is reached at the address {own}, which other machines cannot use"
        if _is_loopback(own) and not group.network_interface
        else f"has no interface {wanted!r} with an address"
        if wanted
        else "does not report its address"
    )
    raise ConfigurationError(
        f"member {member} {problem}",
        remedy="Set `networkInterface` to an interface that `ip addr` lists on every member."
        f"{f' {member} has: {names}.' if names else ''}",
        file=group.path,
        line=line_of_key(group.path, "networkInterface"),
    )


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


def variables_of(spec: RunSpec, places: Sequence[Place], number: int) -> Mapping[str, str]:
    """Return the variables with which member `number`, counted from 0, joins the other members.

    The first member hosts the rendezvous.
    """
    host = places[0].address
    endpoint = f"{f'[{host}]' if ':' in host else host}:{port_of(spec.run_id)}"
    place = places[number]
    # torchrun compares the endpoint with the addresses of its host name, which is often 127.0.1.1.
    found = {
        RENDEZVOUS_VARIABLE: endpoint,
        NODE_VARIABLE: spec.target.parts[number].name,
        "PET_LOCAL_ADDR": place.address,
        "PET_RDZV_CONF": f"is_host={int(number == 0)}",
    }
    if place.interface:
        found |= {"GLOO_SOCKET_IFNAME": place.interface, "NCCL_SOCKET_IFNAME": place.interface}
    return found


def part_with_places(spec: RunSpec, places: Sequence[Place], number: int) -> RunSpec:
    """Return the part of a run on a member, with the variables that connect the member to the others."""
    part = spec.parts[number]
    configuration = part.run_configuration
    own = {**variables_of(spec, places, number), **configuration.environment_variables}
    return part._replace(run_configuration=configuration._replace(environment_variables=own))
