"""Measure a run on another machine: the transfer of its output to this machine, and of files to that machine.

    python -m benchmarks.ssh

Lag: a run of type `remote` prints the clock every 5 ms. The time until each line is in the local `output.log` is
compared with the same script under `ssh`. The machines share a clock. Volume: 1 GB that a run has written, compared
with `ssh HOST cat FILE > FILE`. Files: 2,000 files with 200 MB in total, sent for the first time, again, and with five
changes. The baseline is `rsync -a` over `ssh` with default settings, which logs in each time. The workbench uses its
open connection.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.harness import MILLISECONDS, check, compare, environment, finish, note, percentile
from benchmarks.ssh_machine import Remote, is_possible, remote
from tui_workbench.core.model import RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.targets.hosts.host import Entry
from tui_workbench.targets.hosts.mirror import Mirror
from tui_workbench.targets.hosts.sending import sync

LINES = 600
LAG_PLUS = 0.050
GIGABYTE = 1_000_000_000
VOLUME_LIMIT = 1.2
FILES, BYTES, CHANGED = 2_000, 200_000_000, 5
FIRST_LIMIT, AGAIN_LIMIT = 1.2, 0.5

SCRIPT = f"""\
import time
for _ in range({LINES}):
    print(time.clock_gettime_ns(time.CLOCK_MONOTONIC), flush=True)
    time.sleep(0.005)
"""


def main() -> int:
    if not is_possible():
        note("not measured: only root can create the other machine")
        return 0
    with remote() as box:
        _measure_lag(box)
        _measure_volume(box)
        _measure_files(box)
    return finish()


def _measure_lag(box: Remote) -> None:
    project = _make_project(box)
    run = Runs(project).submit(RunRequest("box", "clock.py"))
    log = Path(run.log_path)
    while not log.exists():
        time.sleep(0.001)
    with log.open("rb", buffering=0) as file:
        ours = _steady(lambda: file.read(1 << 16))
    while Runs(project).get(run.run_id).is_active:
        time.sleep(0.05)
    command = [*box.ssh, "python3 -u -"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as plain:
        assert plain.stdin is not None
        assert plain.stdout is not None
        plain.stdin.write(SCRIPT.encode())
        plain.stdin.close()
        descriptor = plain.stdout.fileno()
        theirs = _steady(lambda: os.read(descriptor, 1 << 16))
    least = percentile(theirs, 95)
    check(
        "print to the local output.log, p95",
        percentile(ours, 95),
        least + LAG_PLUS,
        MILLISECONDS,
        note=f"{len(ours)} lines; ssh {MILLISECONDS.show(least)}, limit + {MILLISECONDS.show(LAG_PLUS)}",
    )


def _steady(read: Callable[[], bytes]) -> list[float]:
    """Return the lags of the lines, without the first ones, which were written before they could be followed."""
    lags: list[float] = []
    rest = b""
    while len(lags) < LINES:
        rest += read()
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        *lines, rest = rest.split(b"\n")
        lags += [(now - int(line)) / 1e9 for line in lines]
        time.sleep(0.0002)
    return lags[LINES // 10 :]


def _measure_volume(box: Remote) -> None:
    block = bytes(range(256)) * 4096
    with (box.home / "big").open("wb") as file:
        while file.tell() < GIGABYTE:
            file.write(block)
    size = (box.home / "big").stat().st_size
    ours, theirs = box.folder / "ours", box.folder / "theirs"

    def take() -> None:
        ours.unlink(missing_ok=True)
        with Mirror(box.host, "/home/research/big", str(box.folder), ours.name) as mirror:
            mirror.open()
            while mirror.size < size and mirror.pump():
                pass

    def cat() -> None:
        with theirs.open("wb") as file:
            subprocess.run([*box.ssh, "cat big"], stdout=file, env=environment(), check=True)

    compare("1 GB of output over SSH", take, cat, VOLUME_LIMIT, 3, baseline_name="ssh cat")
    if ours.stat().st_size != size:
        raise SystemExit("the received file differs from the written file")


def _make_project(box: Remote) -> Project:
    root = box.folder / "project"
    (root / "aml_config").mkdir(parents=True)
    target = {"type": "remote", "address": box.machine.address, "username": "research", "pythonLocation": "python3"}
    configuration = {"Target": "box", "Framework": "Python"}
    (root / "aml_config" / "box.compute").write_text(json.dumps(target))
    (root / "aml_config" / "box.runconfig").write_text(json.dumps(configuration))
    (root / "clock.py").write_text(SCRIPT)
    return Project.find(os.fspath(root))


def _measure_files(box: Remote) -> None:
    rsync = shutil.which("rsync")
    if rsync is None:
        note("files are not measured: rsync, the baseline, is not installed")
        return
    source = box.folder / "files"
    listing = _make_tree(source)
    ours, theirs = _Ours(box, source, listing), _Rsync(box, source, rsync)
    name = f"sync of {FILES:,} files, {BYTES / 1e6:.0f} MB"
    compare(f"{name}, first", ours.first, theirs.first, FIRST_LIMIT, 4, baseline_name="rsync -a")
    compare(f"{name}, nothing changed", ours.again, theirs.again, AGAIN_LIMIT, 8, baseline_name="rsync -a")
    compare(f"{name}, {CHANGED} changed", ours.changed, theirs.changed, AGAIN_LIMIT, 8, baseline_name="rsync -a")
    difference = subprocess.run(["diff", "-r", str(source), str(box.home / "ours" / "tree")], check=False)
    if difference.returncode != 0:
        raise SystemExit("the received files differ from the sent files")


class _Ours:
    def __init__(self, box: Remote, source: Path, listing: list[Entry]) -> None:
        self._box, self._source, self._listing = box, source, listing
        self._version = 0
        self._destination = f"{box.host.home().removesuffix('/.workbench-tui')}/ours/tree"

    def first(self) -> None:
        """Send to an empty folder. For both programs, removing the files of the last round is included."""
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
