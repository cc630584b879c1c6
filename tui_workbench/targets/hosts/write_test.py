"""Try whether a folder of a machine can be written to. Nothing that exists is changed, and nothing is left behind."""

from __future__ import annotations

import secrets
from typing import NamedTuple

from tui_workbench.targets.hosts.host import Host

# $1: a folder, $2: a new name. A folder that does not exist would be created in its nearest parent that exists. Prints
# the folder that was tried. The new folder has a random name and only this user may enter it, and `set -C` opens no
# file that exists, so no link is followed.
_TRY = """\
LC_ALL=C; export LC_ALL; umask 077; set -C
folder=$1
while [ ! -e "$folder" ] && [ ! -L "$folder" ] && [ "$folder" != / ]; do folder=$(dirname -- "$folder"); done
printf '%s\\n' "$folder"
mkdir -- "$folder/$2" || exit
trap 'rm -f -- "$folder/$2/file"; rmdir -- "$folder/$2"' EXIT
printf '%4096s\\n' x >"$folder/$2/file"
"""


class WriteTest(NamedTuple):
    """The folder in which a file was written, and the error of the system, such as `Permission denied`, or ""."""

    folder: str
    complaint: str

    @property
    def is_read_only(self) -> bool:
        return "Read-only file system" in self.complaint


def try_to_write(host: Host, folder: str) -> WriteTest:
    """Write a small file in a folder, or in its nearest parent that exists. Raises TargetUnreachable."""
    done = host.run(["sh", "-c", _TRY, "sh", folder, f".workbench-tui-{secrets.token_hex(8)}"])
    return WriteTest(done.text.strip("\n") or folder, done.complaint.rpartition(": ")[2] if done.code else "")
