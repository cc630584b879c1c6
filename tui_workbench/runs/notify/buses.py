"""The message buses of the user's sessions, through which the keyring with the URLs of the channels can be reached.

The process that drives a run may have been started in another session, such as one without a keyring: the watcher
drives the runs of all projects. The addresses of the buses of the newest submissions are therefore recorded. They are
not secret.
"""

from __future__ import annotations

import contextlib
import os
from typing import NamedTuple

from tui_workbench.core.directories import channels_path, user_state_directory
from tui_workbench.core.files import load_json, write_atomically
from tui_workbench.runs.notify.channels import Channel
from tui_workbench.runs.store.rundir import json_bytes
from tui_workbench.targets.hosts.secrets import BUS, SecretStore

MOST_BUSES = 4
"""Maximum number of recorded addresses."""


class Address(NamedTuple):
    """The URL of a channel, or the reason why no keyring returns it."""

    url: str | None = None
    reason: str = ""


def remember_bus() -> None:
    """Record the address of the bus of this session, if the user has channels. Errors are ignored."""
    own, recorded = os.environ.get(BUS), _recorded()
    if own and own not in recorded[:1] and os.path.lexists(channels_path()):
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(_path()), mode=0o700, exist_ok=True)
            # Another process may write the file at once. Then one address is lost until the next submission.
            newest = [own, *(bus for bus in recorded if bus != own)][:MOST_BUSES]
            write_atomically(_path(), json_bytes(newest), mode=0o600)


def read_address(channel: Channel) -> Address:
    """Read the URL of a channel from the keyring.

    The recorded buses are asked first, then that of this session, then the default bus of the user.
    """
    own = os.environ.get(BUS, "")
    default = os.path.join(os.environ.get("XDG_RUNTIME_DIR", ""), "bus")
    others = [f"unix:path={default}"] if os.path.isabs(default) and os.path.exists(default) else []
    reasons = {}
    for bus in dict.fromkeys([*_recorded(), own, *others]):
        url, reasons[bus] = SecretStore().look_up(channel.reference, bus)
        if url is not None:
            return Address(url)
    return Address(None, reasons[own])


def _recorded() -> list[str]:
    """Return the recorded addresses, the newest first."""
    try:
        addresses = load_json(_path())
    except (OSError, ValueError):
        return []
    if not isinstance(addresses, list):
        return []
    return [address for address in addresses if isinstance(address, str)][:MOST_BUSES]


def _path() -> str:
    # Several machines may share the home folder.
    return os.path.join(user_state_directory(), "buses", f"{os.uname().nodename}.json")
