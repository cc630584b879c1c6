"""Try whether a folder of a machine can be written to. Nothing that exists is changed, and nothing is left behind."""

from __future__ import annotations

import secrets
from typing import NamedTuple

from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.targets.hosts.host import Host, is_disk_full

_TEST = shell_script("targets/hosts/scripts/test_write.sh")


class WriteTest(NamedTuple):
    """The folder in which a file was written, and the error of the system, such as `Permission denied`, or ""."""

    folder: str
    complaint: str

    @property
    def is_read_only(self) -> bool:
        return "Read-only file system" in self.complaint

    @property
    def is_full(self) -> bool:
        """True if the disk is full, or the user's quota on it is used up."""
        return is_disk_full(self.complaint)


def try_to_write(host: Host, folder: str) -> WriteTest:
    """Write a small file in a folder, or in its nearest parent that exists. Raises TargetUnreachable."""
    done = host.run(["sh", "-c", _TEST, "sh", folder, f".workbench-tui-{secrets.token_hex(8)}"])
    return WriteTest(done.text.strip("\n") or folder, done.complaint.rpartition(": ")[2] if done.code else "")
