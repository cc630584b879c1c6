"""A project prepared by another user, and proof that reading it executes and changes nothing."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.conftest import write_project
from tests.runs.support import write_configuration, write_files
from tui_workbench.core.model import RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.metrics.curves_file import MAGIC
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.runs.submission.launch import create_run
from tui_workbench.runs.sweeps import sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

READING = (
    ("history", "list"),
    ("history", "list", "-o", "table"),
    ("history", "list", "--all", "--plain"),
    ("history", "last"),
    ("history", "info", "--run", "1"),
    ("history", "info", "--run", "2"),
    ("history", "compare", "1", "2"),
    ("status",),
    ("status", "--line"),
    ("logs", "1"),
    ("logs", "-f", "2"),
    ("experiment", "status", "--run", "1"),
    ("experiment", "resume"),
    ("computetarget", "list"),
    ("runconfiguration", "list"),
    ("config", "check"),
    ("asset", "list"),
    ("trace",),
)
"""Commands that only read, or that act only on the user's own runs."""


READ_AS_A_WHOLE = (
    "events.jsonl", "metrics.json", "metrics.cache", "metrics.cache.1", "annotations.json", "queue.json",
    "trace.jsonl", "progress.json", "gpu.jsonl", "gpu.json", "gpus", "provenance.json", "cancel", "pid", "exit",
    "environment.json",
)  # fmt: skip
"""Files of a run that commands read besides its record and its log."""

OF_THE_PROJECT = ("annotated", "restored.json", "sweeps/sweep-1.json", "trace.jsonl", "preparation.log")
"""Files in `.workbench` that commands read."""


class Hostile:
    """A project at `root` in which every part tries to create `canary`."""

    def __init__(self, folder: Path) -> None:
        self.root = write_project(folder / "project")
        self.canary = folder / "canary"
        self.victim = folder / "victim"
        self.victim.mkdir()
        (self.victim / "precious").write_text("precious\n")
        write_files(self.root, {"hello.py": f"open({str(self.canary)!r}, 'a').write('hello.py ran')\n"})
        self.runs: dict[str, RunDirectory] = {}
        # Prepared on another user's machine, which has a different registry.
        with state_directory(folder / "of the other one"):
            self._prepare()
        self._plant_programs(folder)

    def _plant_programs(self, folder: Path) -> None:
        """Return an interpreter in the project, and a git repository whose configuration names programs."""
        command = self.root / "bin" / "python3"
        write_files(self.root, {"bin/python3": f"#!/bin/sh\necho \"$0 $*\" >> '{self.canary}'\ncat\n"})
        command.chmod(0o755)
        write_configuration(self.root, suffix="compute", type="local", pythonLocation="bin/python3")
        subprocess.run(["git", "init", "-q"], cwd=self.root, check=True)
        subprocess.run(["git", "add", "hello.py"], cwd=self.root, check=True)
        settings = f'[core]\n\tfsmonitor = {command}\n[filter "evil"]\n\tclean = {command}\n\tprocess = {command}\n'
        for config in (self.root / ".git" / "config", self.root / ".workbench" / "snapshots.git" / "config"):
            with config.open("a") as file:
                file.write(settings)
        (self.root / ".git" / "info" / "attributes").write_text("* filter=evil\n")
        os.utime(self.root / "hello.py", (1, 1))
        for place in (".workbench/cache/configuration.json", ".workbench/index.db", ".workbench/annotated"):
            write_files(self.root, {place: "../../../etc/passwd\n{]"})

    def _prepare(self) -> None:
        project = Project(str(self.root))
        write_configuration(self.root, TrackedRun=True)
        self._run(project, "queued")
        over = self._run(project, "over")
        over.append_event("step", step="start", status="done", seconds=0.1)
        over.append_event("state", state="running")
        Path(over.file("pid")).write_text("1\nanother-boot\n1 (init) S 1\n")
        Path(over.file("exit")).write_text("0\n")
        write_files(Path(over.path), {"output.log": "loss: 0.5\n", "metrics.jsonl": '{"name": "a", "value": 1}\n'})
        canceled = self._run(project, "canceled")
        canceled.request_cancel(0.0)
        write_configuration(self.root, suffix="compute", type="local", maxConcurrentRuns=1)
        waiting = self._run(project, "waiting")
        Path(waiting.file("environment.json")).write_text(json.dumps({"PATH": str(self.root)}))
        members = sweep.members_of((), [{"n": "1"}, {"n": "2"}])
        sweep.create(project, RunRequest("local", "hello.py"), members, 1)
        unfinished = Path(project.runs_directory, ".new-project_1")
        unfinished.mkdir()
        write_files(unfinished, {"controller.lock": "", "work/file": "kept"})
        os.utime(unfinished, (1, 1))

    def plant(self, kind: str) -> None:
        """Replace each file that commands read by a kind of file in PLANTS; replace run.json in one run only."""
        record = Path(self.runs["canceled"].file("run.json"))
        places = [Path(self.runs[run].file(name)) for run in ("queued", "over") for name in READ_AS_A_WHOLE]
        places.remove(Path(self.runs["over"].file("events.jsonl")))
        model = self.root.parent / "planted"
        PLANTS[kind](model)
        for place in (record, *places, *(self.root / ".workbench" / name for name in OF_THE_PROJECT)):
            place.unlink(missing_ok=True)
            if place.name.startswith("metrics.cache") and model.is_file() and kind != "device":
                PLANTS[kind](place)
                with place.open("r+b") as file:
                    file.write(MAGIC + (2 << 30).to_bytes(8, "little"))
            else:
                # One file under many names: most of the time would go into writing.
                os.link(model, place, follow_symlinks=False)

    def _run(self, project: Project, name: str) -> RunDirectory:
        directory, lock, _ = create_run(project, RunRequest("local", "hello.py"))
        lock.release()
        self.runs[name] = directory
        return directory


def _sparse(place: Path) -> None:
    with place.open("wb") as file:
        file.truncate(10 << 30)


PLANTS: dict[str, Callable[[Path], object]] = {
    "sparse": _sparse,
    "pipe": os.mkfifo,
    "device": lambda place: place.symlink_to("/dev/zero"),
    "nested": lambda place: place.write_bytes(b"[" * (1 << 20) + b"\n"),
    "nested objects": lambda place: place.write_bytes(b'{"event":' * (1 << 17) + b"\n"),
    "wide": lambda place: place.write_bytes(b"[" + b'{"a":1},' * (1 << 21) + b"{}]\n"),
    "lines": lambda place: place.write_bytes(b"\n" * (24 << 20)),
    "numbers": lambda place: place.write_bytes(b'{"d":[[1e999,1e999,1e999]],"t":1e999,"id":0,"at":1e999}\n' * 9),
}
"""Files that the workbench would never write, by name.

The large ones exceed the limit of files that are read as a whole (8 MiB). Parsed or split as a whole, `wide` and
`lines` would take more memory than a command may use.
"""


@contextmanager
def state_directory(folder: Path) -> Iterator[None]:
    """Use another state directory within the context."""
    before = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["XDG_STATE_HOME"]
        else:
            os.environ["XDG_STATE_HOME"] = before


def fingerprint(*folders: Path) -> dict[str, str]:
    """Return kind, mode, owner, time and content of each file below the folders."""
    found = {}
    for folder in folders:
        for path in (folder, *folder.rglob("*")):
            status = path.lstat()
            kind = stat.S_IFMT(status.st_mode)
            content = os.readlink(path) if path.is_symlink() else ""
            if stat.S_ISREG(status.st_mode):
                content = hashlib.sha256(path.read_bytes()).hexdigest()
            found[str(path)] = f"{kind:o} {status.st_mode:o} {status.st_uid} {status.st_mtime_ns} {content}"
    return found
