"""A thread that polls the project for changes once a second and reports them.

While nothing changes, a poll only lists the configuration folder and calls `stat`. Polling works on every file system,
needs no watch handles, and takes less than 0.1 % of a processor. After a change, and otherwise every 15 seconds, git
counts the changed files (less often in large repositories, see `ChangedFiles`). Files are read again only when their
modification time or size has changed. While a run is active, the thread polls more often.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import ParamSpec, Protocol

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.git import GitError
from tui_workbench.core.model import ComputeTarget, Run, RunConfiguration, RunState
from tui_workbench.core.progress import Progress, listening
from tui_workbench.core.repository import Head, Repository, find_repository, read_head
from tui_workbench.projects.project import Project
from tui_workbench.runs.agents.approvals import WAITING, read_approvals, requests_directory
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.lifecycle.step_progress import PROGRESS, steps_of
from tui_workbench.runs.store.annotations import JOURNAL
from tui_workbench.runs.store.cluster_job import JOB
from tui_workbench.runs.store.rundir import EVENTS
from tui_workbench.targets.base.interpreter import version_without_project
from tui_workbench.targets.local.local_target import find_interpreter
from tui_workbench.ui.files.changed_files import ChangedFiles

IDLE_SECONDS, ACTIVE_SECONDS = 1.0, 0.2  # seconds between polls, without and with active runs
CONFIGURATION_SUFFIXES = (".compute", ".runconfig", ".yml", ".yaml")
PROGRESS_NS = 3_000_000_000  # minimum ns between two reads of the runs for new progress of preparation

FileSignature = tuple[str, int, int]  # path, modification time in ns, size; zeros for a missing file
Arguments = ParamSpec("Arguments")


class Listener(Protocol):
    """A receiver of the current state of a project."""

    def show_folders(self, changed: list[str]) -> None: ...
    def show_branch(self, branch: str) -> None: ...
    def show_changes(self, number: int) -> None: ...
    def show_approvals(self, waiting: int) -> None: ...
    def show_configuration(self, targets: list[ComputeTarget], configurations: list[RunConfiguration]) -> None: ...
    def show_interpreters(self, versions: Mapping[str, str], errors: Mapping[str, WorkbenchError]) -> None: ...
    def show_runs_read(self, runs: list[Run], steps: Mapping[str, str]) -> None: ...
    def show_progress(self, progress: Progress | None) -> None: ...
    def show_failure(self, error: WorkbenchError) -> None: ...


class ProjectWatcher:
    """A thread that reports changes in a project to a listener until `stop` is called.

    The first poll reports the configuration, the runs and the branch.

    `call_later` schedules a call on the event loop and must be callable from any thread.
    """

    def __init__(self, project: Project, call_later: Callable[[Callable[[], object]], object]) -> None:
        self._project = project
        self._call_later = call_later
        self._wake = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._watch, name="project watcher", daemon=True)
        self._folders: tuple[str, ...] = ()
        self._seen_folders: dict[str, int] = {}
        self._seen: dict[str, tuple[FileSignature, ...]] = {}
        self._active: tuple[str, ...] = ()
        self._changes = ChangedFiles(project.root)
        self.polls = 0

    def start(self, listener: Listener) -> None:
        self._listener = listener
        self._thread.start()

    def _report(self, call: Callable[Arguments, None], *arguments: Arguments.args, **options: Arguments.kwargs) -> None:
        self._call_later(partial(call, *arguments, **options))

    def stop(self) -> None:
        """Stop polling. The thread ends after its current call; this method does not wait for it."""
        self._stopped = True
        self._wake.set()

    def join(self) -> None:
        self._thread.join()

    def watch_folders(self, folders: list[str]) -> None:
        """Set the folders, relative to the project, whose changes are reported."""
        self._folders = tuple(folders)

    def poll_now(self) -> None:
        self._changes.expect()
        self._wake.set()

    def _watch(self) -> None:
        # Rebuilding a large index is slow, so its progress is shown.
        with listening(lambda progress: self._report(self._listener.show_progress, progress)):
            runs = Runs(self._project)
            self._poll(runs)
            self._with_errors_reported(runs.resume)
            while not self._stopped:
                self._wake.wait(ACTIVE_SECONDS if self._active else IDLE_SECONDS)
                # Cleared before the poll, so that a request during the poll is followed by another poll.
                self._wake.clear()
                if not self._stopped:
                    self._poll(runs)

    def _poll(self, runs: Runs) -> None:
        self._check_folders()
        if self._changed("configuration", self._configuration_signature()):
            self._with_errors_reported(self._read_configuration)
        if self._changed("runs", self._runs_signature()):
            self._with_errors_reported(lambda: self._read_runs(runs))
        repository = _repository(self._project.root)
        if self._changed("branch", (file_signature(repository.head_path() if repository is not None else ""),)):
            self._report(self._listener.show_branch, _branch(repository))
        if self._changed("approvals", (file_signature(requests_directory()),)):
            self._with_errors_reported(self._read_approvals)
        if self.polls and self._changes.update():
            self._report(self._listener.show_changes, self._changes.number)
        self.polls += 1

    def _with_errors_reported(self, call: Callable[[], object]) -> None:
        try:
            call()
        except WorkbenchError as error:
            self._report(self._listener.show_failure, error)

    def _changed(self, subject: str, signature: tuple[FileSignature, ...]) -> bool:
        before, self._seen[subject] = self._seen.get(subject), signature
        return signature != before

    def _check_folders(self) -> None:
        now = {folder: file_signature(os.path.join(self._project.root, folder))[1] for folder in self._folders}
        changed = [folder for folder, time in now.items() if self._seen_folders.get(folder, time) != time]
        self._seen_folders = now
        if changed:
            self._changes.expect()
            self._report(self._listener.show_folders, changed)

    def _configuration_signature(self) -> tuple[FileSignature, ...]:
        directory = self._project.config_directory
        try:
            names = sorted(name for name in os.listdir(directory) if name.endswith(CONFIGURATION_SUFFIXES))
        except OSError:
            names = []
        return tuple(map(file_signature, [directory, *(os.path.join(directory, name) for name in names)]))

    def _read_configuration(self) -> None:
        targets = self._project.targets()
        self._report(self._listener.show_configuration, targets, self._project.run_configurations())
        # To find a version may start an interpreter, so the configuration is shown first.
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
        self._report(self._listener.show_interpreters, versions, errors)

    def _runs_signature(self) -> tuple[FileSignature, ...]:
        directory = self._project.runs_directory
        folders = [os.path.join(directory, run_id) for run_id in self._active]
        events = [f"{folder}/{name}" for folder in folders for name in (EVENTS, JOB)]
        # An ended run that is started again changes only the journal.
        journal = os.path.join(self._project.state_directory, JOURNAL)
        return (*map(file_signature, [directory, journal, *events]), *map(_progress_signature, folders))

    def _read_runs(self, runs: Runs) -> None:
        listed: list[Run] = runs.list(adopt=True)
        # The signature was taken before the read, so the next poll finds changes that were made meanwhile.
        self._active = tuple(run.run_id for run in listed if run.is_active)
        steps = steps_of(run for run in listed if run.state != RunState.RUNNING)
        self._report(self._listener.show_runs_read, listed, steps)

    def _read_approvals(self) -> None:
        waiting = sum(approval.state == WAITING for approval in read_approvals())
        self._report(self._listener.show_approvals, waiting)


def _progress_signature(folder: str) -> FileSignature:
    """Return a signature of a run's progress that changes at most every `PROGRESS_NS` nanoseconds."""
    path, changed, _ = file_signature(f"{folder}/{PROGRESS}")
    return path, changed // PROGRESS_NS, 0


def file_signature(path: str) -> FileSignature:
    """Return the signature of a file or folder. One that cannot be examined counts as missing."""
    try:
        status = os.stat(path)
    except OSError:
        return (path, 0, 0)
    return (path, status.st_mtime_ns, status.st_size)


def _repository(root: str) -> Repository | None:
    """Return the repository at the top of the project, or None. A repository above the project does not count."""
    try:
        return find_repository(root) if os.path.lexists(os.path.join(root, ".git")) else None
    except GitError:
        return None


def _branch(repository: Repository | None) -> str:
    """Return the checked-out branch, else the abbreviated commit; "" if HEAD cannot be read."""
    try:
        head = read_head(repository) if repository is not None else Head("", "")
    except GitError:
        return ""
    return head.branch or head.commit[:8]
