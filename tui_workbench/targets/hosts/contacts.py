"""The machines that this user has contacted.

A received project can name any machine. Commands and screens that only look connect only to machines in this list, so
that opening a project contacts no machine. Everything that the user starts on a machine, such as a check or a run,
adds the machine before it connects (`SshHost`, and `record` for the rest).

An entry is a file in the user's state directory. Its name is a digest of the login as the target file spells it: user,
host and port, or all keys of a target whose type another package adds. A target with another address is therefore not
in the list, whatever its name. The content of the file, the login as text, is for the user, and is never read.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import stat
from hashlib import blake2b

from tui_workbench.core import target_types
from tui_workbench.core.addresses import split_address
from tui_workbench.core.directories import user_state_directory
from tui_workbench.core.errors import TargetUnreachable
from tui_workbench.core.files import open_folder, write_below
from tui_workbench.core.model import ComputeTarget

FOLDER = "contacted"
"""The folder of entries in the user's state directory."""

NOT_CONTACTED = "not contacted yet"
"""The problem of a machine in lists."""


class NotContacted(TargetUnreachable):
    """Looking at a target would connect to a machine that the user has not contacted."""


def is_contacted(target: ComputeTarget) -> bool:
    """Return True if the user has contacted every machine of a target. This machine always counts as contacted."""
    return all(map(_has_entry, machines_of(target)))


def require_contacted(target: ComputeTarget) -> None:
    """Raise NotContacted unless `is_contacted`. Call this before anything that only looks connects to a machine."""
    if not is_contacted(target):
        raise NotContacted(
            f"the machine of {target.name} has not been contacted yet",
            remedy=f"To contact it, run `workbench-tui computetarget check {shlex.quote(target.name)}`.",
        )


def record(target: ComputeTarget) -> None:
    """Add the machines of a target, which the user has chosen to contact."""
    for machine in machines_of(target):
        _add(machine)


def record_login(address: str, username: str) -> None:
    """Add the machine of an SSH login, to which an action of the user connects."""
    _add(_login(address, username))


def machines_of(target: ComputeTarget) -> tuple[str, ...]:
    """Return the machines to which a target connects, as text; () for this machine."""
    if target.parts:
        return tuple(machine for part in target.parts for machine in machines_of(part))
    machines: tuple[str, ...] = (_login(target.address, target.username),) if target.uses_ssh else ()
    if target.kind not in target_types.BUILT_IN:
        # The package of the type may read an address from any key. The values may contain secrets.
        machines += (json.dumps([target.type, _digest(json.dumps(target.values, sort_keys=True, default=str))]),)
    return machines


def _login(address: str, username: str) -> str:
    # Another spelling may mean another machine: `Host` lines of the user's SSH configuration distinguish case, and a
    # name with a final dot is not looked up in the search domains.
    host, port = split_address(address)
    return json.dumps([username, host, port])


def _state() -> str:
    return os.path.realpath(user_state_directory())  # the user may have replaced the folder with a link


def _digest(text: str) -> str:
    return blake2b(text.encode("ascii"), digest_size=16).hexdigest()


def _has_entry(machine: str) -> bool:
    with contextlib.suppress(OSError):
        folder = open_folder(_state(), FOLDER)
        try:
            entry = os.stat(_digest(machine), dir_fd=folder, follow_symlinks=False)
            return stat.S_ISREG(entry.st_mode) and all(map(_is_private, (os.fstat(folder), entry)))
        finally:
            os.close(folder)
    return False


def _is_private(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _add(machine: str) -> None:
    """Add an entry. If the state directory is not writable, the machine stays unknown to commands that look."""
    if _has_entry(machine):
        return
    top = _state()
    with contextlib.suppress(OSError):
        os.makedirs(top, mode=0o700, exist_ok=True)
        os.close(open_folder(top, FOLDER, make=0o700))
        write_below(top, f"{FOLDER}/{_digest(machine)}", f"{machine}\n".encode("ascii"))
