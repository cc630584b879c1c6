"""Measure tracked runs of a project with many files, of which one changes before each run.

    python -m benchmarks.large_projects

The time of `experiment submit --wait` of a one-line script, from the command until the end of the run is recorded, on
this machine and on another machine over SSH. The baseline is the least that finds a changed file: a walk of the project
with `os.scandir` and `stat`. Each run gets the spare working copy of the run before.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.harness import SECONDS, compare, environment, finish, note, python, scratch_folder
from benchmarks.ssh_machine import Remote, is_possible, remote

FILES, FOLDER = 10_000, 100  # number of files, and of the files in each folder
TARGET = "box"
ROUNDS = 1
PAUSE, LONGEST_WAIT = 0.02, 120.0
"""Seconds between two looks for the spare, and until the benchmark fails without one."""

LOCAL_LIMIT, SSH_LIMIT = 5.0, 8.0
"""Limits as multiples of a walk of the project. For 100,000 files on a machine with two slow cores, about 2 and 3 s."""

LOCAL_MARGIN, SSH_MARGIN = 0.300, 0.700
"""Seconds of a run with few files."""


def main() -> int:
    with scratch_folder() as name:
        os.environ["HOME"] = name
        measure_local(Path(name))
    if is_possible():
        with remote() as box:
            measure_ssh(box)
    else:
        note("runs on another machine, because only root can create the machine")
    return finish()


def measure_local(folder: Path) -> None:
    """Compare a run on this machine with a walk of its project."""
    project = _Project(folder / "project", {"type": "local", "pythonLocation": python()})
    compare(
        f"`local`, tracked, one of {FILES:,} files changed",
        project.submit,
        project.walk,
        LOCAL_LIMIT,
        ROUNDS,
        baseline_name="`os.scandir` and `stat`",
        margin=LOCAL_MARGIN,
        unit=SECONDS,
    )


def measure_ssh(box: Remote) -> None:
    """Compare a run on another machine with a walk of its project."""
    login = box.host.login
    compute = {"type": "remote", "address": login.address, "username": login.username, "pythonLocation": "python3"}
    project = _Project(box.folder / "project", compute, box.home / ".workbench-tui" / "projects")
    compare(
        f"`remote`, tracked, one of {FILES:,} files changed",
        project.submit,
        project.walk,
        SSH_LIMIT,
        ROUNDS,
        baseline_name="`os.scandir` and `stat` here",
        margin=SSH_MARGIN,
        unit=SECONDS,
    )


class _Project:
    """A project with many files. `there` is the folder of projects on another machine, if runs execute there."""

    def __init__(self, root: Path, compute: dict[str, str], there: Path | None = None) -> None:
        self._root = root
        self._there = there
        self._runs = 0
        configuration = {"Target": TARGET, "Framework": "Python", "TrackedRun": True}
        (root / "aml_config").mkdir(parents=True)
        (root / "aml_config" / f"{TARGET}.compute").write_text(json.dumps(compute))
        (root / "aml_config" / f"{TARGET}.runconfig").write_text(json.dumps(configuration))
        (root / ".gitignore").write_text("*.pyc\nbuild/\n")
        (root / "hello.py").write_text("print('hello')\n")
        for number in range(FILES):
            path = self._file(number)
            if number % FOLDER == 0:
                path.parent.mkdir(parents=True)
            path.write_text(f"file {number}\n" * 10)
        self.submit()

    def _file(self, number: int) -> Path:
        return self._root / "data" / f"part{number // FOLDER}" / f"{number}.txt"

    def submit(self) -> float:
        """Change a file and submit a run when there is a spare. Return the seconds until the run has ended."""
        if self._runs:
            self._wait_for_spare()
        self._runs += 1
        self._file(self._runs).write_text(f"changed before run {self._runs}\n")
        command = [python(), "-P", "-m", "tui_workbench", "experiment", "submit", "--wait", "-c", TARGET, "hello.py"]
        begun = time.perf_counter()
        subprocess.run(command, cwd=self._root, env=environment(), check=True, capture_output=True)
        return time.perf_counter() - begun

    def walk(self) -> None:
        """Find the size and the times of every file."""
        folders = [os.fspath(self._root / "data")]
        while folders:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        entry.stat(follow_symlinks=False)

    def _wait_for_spare(self) -> None:
        end = time.monotonic() + LONGEST_WAIT
        while not self._has_spare():
            if time.monotonic() > end:
                raise RuntimeError(f"no spare working copy after {LONGEST_WAIT:g} s")
            time.sleep(PAUSE)

    def _has_spare(self) -> bool:
        spares = self._root / ".workbench" / "snapshots.git" / "spare"
        is_ready = spares.is_dir() and os.listdir(spares) == ["ready"]
        return is_ready and (self._there is None or any(self._there.glob("*/spare")))


if __name__ == "__main__":
    sys.exit(main())
