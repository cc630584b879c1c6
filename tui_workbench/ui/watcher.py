"""Looks at the project once a second, from a thread, and tells what changed: the only way the outside is noticed.

Only `stat` is called while nothing changes, which works on every file system, needs no handles, writes nothing, and
costs less than a thousandth of a processor. Files are read again only when their signature is another one. While a
run is active the look is more frequent, because then a person waits for what it does. Every call of the backend is
made here or in a worker, never on the loop that draws.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import ParamSpec, Protocol

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import ComputeTarget, Run, RunConfiguration, RunState
from tui_workbench.core.progress import Progress, listening
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.lifecycle.step_progress import PROGRESS, steps_of
from tui_workbench.targets.base.interpreter import version_without_project
from tui_workbench.targets.local.local_target import find_interpreter
from tui_workbench.ui.files.changed_files import ChangedFiles

IDLE_SECONDS = 1.0
ACTIVE_SECONDS = 0.2
"""How often is looked while nothing runs, and while something does."""

CONFIGURATION = (".compute", ".runconfig", ".yml", ".yaml")
"""What the names of files end with on which targets, run configurations and their problems depend."""

PROGRESS_NS = 3_000_000_000
"""How often is read how far a run's preparation is: all runs are read for it."""

Signature = tuple[tuple[str, int, int], ...]
"""Path, time of change in ns and size of each file looked at; a missing one has zeros."""


Arguments = ParamSpec("Arguments")


class Listener(Protocol):
    """Shows the current state of a project."""

    def show_folders(self, changed: list[str]) -> None: ...
    def show_branch(self, branch: str) -> None: ...
    def show_changes(self, number: int) -> None: ...
    def show_configuration(self, targets: list[ComputeTarget], configurations: list[RunConfiguration]) -> None: ...
    def show_interpreters(self, versions: Mapping[str, str], errors: Mapping[str, WorkbenchError]) -> None: ...
    def show_runs_read(self, runs: list[Run], steps: Mapping[str, str]) -> None: ...
    def show_work(self, progress: Progress | None) -> None: ...
    def show_failure(self, error: WorkbenchError) -> None: ...


class ProjectWatcher:
    """A thread that tells a listener what changed in a project, until `stop`.

    `call_later` makes a call on the event loop; it must be callable from any thread. The first look tells everything.
    """

    def __init__(self, project: Project, call_later: Callable[[Callable[[], object]], object]) -> None:
        self._project = project
        self._call_later = call_later
        self._head = os.path.join(project.root, ".git", "HEAD")
        self._wake = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._watch, name="project watcher", daemon=True)
        self._folders: tuple[str, ...] = ()
        self._seen_folders: dict[str, int] = {}
        self._seen: dict[str, Signature] = {}
        self._active: tuple[str, ...] = ()
        self._changes = ChangedFiles(project.root)
        self.looks = 0
        """How often was looked so far."""

    def start(self, listener: Listener) -> None:
        """Begin to look."""
        self._listener = listener
        self._thread.start()

    def _tell(self, call: Callable[Arguments, object], *arguments: Arguments.args, **options: Arguments.kwargs) -> None:
        self._call_later(partial(call, *arguments, **options))

    def stop(self) -> None:
        """Look no more. Returns at once; the thread ends after the call that it is in."""
        self._stopped = True
        self._wake.set()

    def join(self) -> None:
        """Wait for the thread to end."""
        self._thread.join()

    def watch_folders(self, folders: list[str]) -> None:
        """Look at these folders, relative to the project, for names that come and go."""
        self._folders = tuple(folders)

    def look_now(self) -> None:
        """Do not wait for the next second."""
        self._changes.expect()
        self._wake.set()

    def _watch(self) -> None:
        # A large index that is made anew takes its time.
        with listening(lambda progress: self._tell(self._listener.show_work, progress)):
            runs = Runs(self._project)
            self._look(runs)
            self._guarded(runs.resume)
            while not self._stopped:
                self._wake.wait(ACTIVE_SECONDS if self._active else IDLE_SECONDS)
                self._wake.clear()
                if not self._stopped:
                    self._look(runs)

    def _look(self, runs: Runs) -> None:
        self._look_at_folders()
        if self._changed("configuration", self._configuration_signature()):
            self._guarded(self._read_configuration)
        if self._changed("runs", self._runs_signature()):
            self._guarded(lambda: self._read_runs(runs))
        if self._changed("branch", _signature([self._head])):
            self._tell(self._listener.show_branch, _branch(self._head))
        if self.looks and self._changes.look():
            self._tell(self._listener.show_changes, self._changes.number)
        self.looks += 1

    def _guarded(self, call: Callable[[], object]) -> None:
        try:
            call()
        except WorkbenchError as error:
            self._tell(self._listener.show_failure, error)

    def _changed(self, what: str, signature: Signature) -> bool:
        if self._seen.get(what) == signature:
            return False
        self._seen[what] = signature
        return True

    def _look_at_folders(self) -> None:
        now = {folder: _of_file(os.path.join(self._project.root, folder))[1] for folder in self._folders}
        changed = [folder for folder, time in now.items() if self._seen_folders.get(folder, time) != time]
        self._seen_folders = now
        if changed:
            self._changes.expect()
            self._tell(self._listener.show_folders, changed)

    def _configuration_signature(self) -> Signature:
        directory = self._project.config_directory
        try:
            names = sorted(name for name in os.listdir(directory) if name.endswith(CONFIGURATION))
        except OSError:
            names = []
        return _signature([directory, *(os.path.join(directory, name) for name in names)])

    def _read_configuration(self) -> None:
        targets = self._project.targets()
        self._tell(self._listener.show_configuration, targets, self._project.run_configurations())
        self._find_interpreters(targets)

    def _find_interpreters(self, targets: list[ComputeTarget]) -> None:
        versions: dict[str, str] = {}
        errors: dict[str, WorkbenchError] = {}
        for target in targets:
            if not target.kind.runs_here or target.problem is not None:
                continue
            try:
                version = version_without_project(find_interpreter(target), self._project.root)
                if version:
                    versions[target.name] = version
            except WorkbenchError as error:
                errors[target.name] = error
        self._tell(self._listener.show_interpreters, versions, errors)

    def _runs_signature(self) -> Signature:
        directory = self._project.runs_directory
        folders = [os.path.join(directory, run_id) for run_id in self._active]
        return (*_signature([directory, *(f"{folder}/events.jsonl" for folder in folders)]), *map(_slowly, folders))

    def _read_runs(self, runs: Runs) -> None:
        listed: list[Run] = runs.list(adopt=True)
        # The signature stays the one from before the reading: what a run did since then shows in the next look, which
        # reads once more when other runs are active now.
        self._active = tuple(run.run_id for run in listed if run.is_active)
        steps = steps_of(run for run in listed if run.state != RunState.RUNNING)
        self._tell(self._listener.show_runs_read, listed, steps)


def _signature(paths: list[str]) -> Signature:
    return tuple(_of_file(path) for path in paths)


def _slowly(folder: str) -> tuple[str, int, int]:
    """How far a run's preparation is, as something that differs every few seconds."""
    path, moment, _ = _of_file(f"{folder}/{PROGRESS}")
    return path, moment // PROGRESS_NS, 0


def _of_file(path: str) -> tuple[str, int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return (path, 0, 0)
    return (path, status.st_mtime_ns, status.st_size)


def _branch(head: str) -> str:
    """The checked-out branch; the first digits of the commit when there is none, nothing outside of git."""
    try:
        with open(head, encoding="utf-8", errors="replace") as file:
            text = file.read(4096).strip()
    except OSError:
        return ""
    return text.removeprefix("ref: refs/heads/") if text.startswith("ref: ") else text[:8]
