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


class NodeAddress(NamedTuple):
    """The network interface of a member ("" if it is not known), and its address."""

    interface: str
    address: str


def port_of(run_id: str) -> int:
    """Return the port of the rendezvous of a run."""
    return FIRST_PORT + zlib.crc32(run_id.encode()) % PORTS


def find_address(group: ComputeTarget, member: str, host: Host) -> NodeAddress:
    """Return the network interface and address of a member. Raises TargetUnreachable or another WorkbenchError."""
    return parse_address(group, member, host.run(["sh", "-c", _ADDRESSES]))


def parse_address(group: ComputeTarget, member: str, done: Completed) -> NodeAddress:
    """Find the network interface and address of a member in the output of _ADDRESSES. Raises ConfigurationError."""
    first, *lines = done.stdout.decode("utf-8", "replace").split("\n")
    rows = [line.split() for line in lines]
    # `ip` adds the name of the other end to the interface of a container: `eth0@if7`.
    addresses = [NodeAddress(row[1].partition("@")[0], row[3].partition("/")[0]) for row in rows if len(row) > 3]
    words = first.split()
    own = words[2] if len(words) == 4 else ""
    interface = group.network_interface or next((node.interface for node in addresses if node.address == own), "")
    usable = [node for node in addresses if node.interface == interface and not _is_loopback(node.address)]
    if usable:
        # IPv4 is preferred. A link-local address of IPv6 is last, because it needs the number of an interface.
        return min(usable, key=lambda node: (":" in node.address, node.address.startswith("fe80:")))
    if own and not group.network_interface and not _is_loopback(own):
        return NodeAddress("", own)
    names = ", ".join(sorted({node.interface for node in addresses} - {"lo"}))
    problem = (
        f"is reached at the address {own}, which other machines cannot use"
        if _is_loopback(own) and not group.network_interface
        else f"has no interface {interface!r} with an address"
        if interface
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


def variables_of(spec: RunSpec, addresses: Sequence[NodeAddress], number: int) -> Mapping[str, str]:
    """Return the variables with which member `number`, counted from 0, joins the other members.

    The first member hosts the rendezvous.
    """
    host = addresses[0].address
    endpoint = f"{f'[{host}]' if ':' in host else host}:{port_of(spec.run_id)}"
    node = addresses[number]
    # torchrun compares the endpoint with the addresses of its host name, which is often 127.0.1.1.
    variables = {
        RENDEZVOUS_VARIABLE: endpoint,
        NODE_VARIABLE: spec.target.parts[number].name,
        "PET_LOCAL_ADDR": node.address,
        "PET_RDZV_CONF": f"is_host={int(number == 0)}",
    }
    if node.interface:
        variables |= {"GLOO_SOCKET_IFNAME": node.interface, "NCCL_SOCKET_IFNAME": node.interface}
    return variables


def part_with_addresses(spec: RunSpec, addresses: Sequence[NodeAddress], number: int) -> RunSpec:
    """Return the part of a run on a member, with the variables that connect the member to the others."""
    part = spec.parts[number]
    configuration = part.run_configuration
    own = {**variables_of(spec, addresses, number), **configuration.environment_variables}
    return part._replace(run_configuration=configuration._replace(environment_variables=own))
