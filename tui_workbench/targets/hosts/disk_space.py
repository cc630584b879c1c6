"""Find out whether the user can still write to a disk of a host."""

from __future__ import annotations

from tui_workbench.core.numbers import whole_number
from tui_workbench.targets.hosts.host import Host, is_disk_full

FULL_BELOW = 64
"""A disk with less free space than this, in KiB, counts as full."""

# $1: the folder. df shows no quotas, so a small file is written, and removed.
_SPACE = f"""\
cd -- "$1" || exit
df -Pk .
umask 077
export LC_ALL=C
file=$(mktemp ./space.XXXXXX) || exit 0
dd if=/dev/zero of="$file" bs=1024 count={FULL_BELOW} conv=fsync
rm -f -- "$file"
"""


def is_full(host: Host, folder: str) -> bool:
    """Return True if the disk of a folder is full, or the user's quota on it is used up. Raises TargetUnreachable."""
    done = host.run(["sh", "-c", _SPACE, "sh", folder])
    words = done.text.split("\n")[-1].split() if done.code == 0 else []
    free = whole_number(words[3]) if len(words) >= 6 else None
    return (free is not None and free < FULL_BELOW) or is_disk_full(done.stderr.decode("utf-8", "replace"))
