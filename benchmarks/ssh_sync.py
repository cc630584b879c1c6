"""Time to send 2,000 files of 200 MB to another machine: first, again, and with five changes.

The baseline is `rsync -a` of the same files over `ssh` with default settings. rsync logs in each time; the workbench
uses its open connection.
"""

from __future__ import annotations

import os
import random
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.harness import compare, environment, finish, note
from benchmarks.ssh_machine import Remote, is_possible, remote
from tui_workbench.targets.hosts.host import Entry
from tui_workbench.targets.hosts.sending import sync

FILES, BYTES, CHANGED = 2_000, 200_000_000, 5
FIRST_LIMIT, AGAIN_LIMIT = 1.2, 0.5


def main() -> int:
    """Run the benchmark."""
    if not is_possible():
        note("not measured: another machine can only be made by root")
        return 0
    rsync = shutil.which("rsync")
    if rsync is None:
        note("not measured: rsync, the baseline, is not installed")
        return 0
    with remote() as box:
        source = box.folder / "project"
        listing = _make_tree(source)
        ours, theirs = _Ours(box, source, listing), _Rsync(box, source, rsync)
        compare(
            "sync of 2,000 files, 200 MB, first", ours.first, theirs.first, FIRST_LIMIT, 5, baseline_name="rsync -a"
        )
        compare("nothing changed", ours.again, theirs.again, AGAIN_LIMIT, 10, baseline_name="rsync -a")
        compare("5 files changed", ours.changed, theirs.changed, AGAIN_LIMIT, 10, baseline_name="rsync -a")
        difference = subprocess.run(["diff", "-r", str(source), str(box.home / "ours" / "tree")], check=False)
        if difference.returncode != 0:
            raise SystemExit("what arrived is not what was sent")
    return finish()


class _Ours:
    def __init__(self, box: Remote, source: Path, listing: list[Entry]) -> None:
        self._box, self._source, self._listing = box, source, listing
        self._version = 0
        self._destination = f"{box.host.home().removesuffix('/.workbench-tui')}/ours/tree"

    def first(self) -> None:
        """Send to an empty folder; both measurements include removing the files of the last round."""
        self._box.host.check(["rm", "-rf", self._destination.removesuffix("/tree")])
        self.again()

    def again(self) -> None:
        sync(self._box.host, self._listing, str(self._source), self._destination)

    def changed(self) -> None:
        self._version += 1
        for number in range(CHANGED):
            entry = self._listing[number]
            self._listing[number] = entry._replace(identity=f"{number}-{self._version}")
        self.again()


class _Rsync:
    def __init__(self, box: Remote, source: Path, rsync: str) -> None:
        self._source = source
        self._version = 0
        *words, self._account = box.ssh
        self._shell = [*words, self._account]
        self._command = [rsync, "-a", "--delete", "-e", shlex.join(words), f"{source}/", f"{self._account}:theirs"]

    def first(self) -> None:
        """Send with rsync."""
        subprocess.run([*self._shell, "rm -rf theirs"], check=True, env=environment())
        self.again()

    def again(self) -> None:
        subprocess.run(self._command, check=True, env=environment())

    def changed(self) -> None:
        self._version += 1
        for number in range(CHANGED):
            os.utime(self._source / _name(number), (self._version, self._version))
        self.again()


def _name(number: int) -> str:
    return f"package_{number % 50}/file_{number}"


def _make_tree(root: Path) -> list[Entry]:
    generator = random.Random(1)
    words = [generator.randbytes(4).hex() for _ in range(5_000)]
    size = BYTES // FILES
    text = " ".join(generator.choice(words) for _ in range(size // 8)).encode()[:size]
    listing = []
    for number in range(FILES):
        path = root / _name(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        data = generator.randbytes(size) if number % 2 else text
        path.write_bytes(data)
        listing.append(Entry(_name(number), str(number), len(data)))
    return listing


if __name__ == "__main__":
    sys.exit(main())
