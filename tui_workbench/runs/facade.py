"""`Runs`: everything that can be done with a project's runs. The screens and the command line are both written on it.

The calls block; screens make them from threads. Nothing is held between calls but the project: every answer is read
from the files.
"""

from __future__ import annotations

import os
import time

from tui_workbench.errors import RunNotFound, UsageError, WorkbenchError
from tui_workbench.model import RunState
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs.rundir import DEFAULT_GRACE, ControllerLock, RunDirectory
from tui_workbench.targets.children import reap

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Sequence
    from typing import Any

    from tui_workbench.model import Plan, Run, RunRequest, RunSpec
    from tui_workbench.project import Project
    from tui_workbench.runs.annotations import Annotations
    from tui_workbench.runs.comparing import Comparison
    from tui_workbench.runs.exchange import Exported
    from tui_workbench.runs.gpu.verdict import Verdict
    from tui_workbench.runs.history import Facts
    from tui_workbench.runs.index import RunIndex
    from tui_workbench.runs.restore import Restoration
    from tui_workbench.runs.shell import Shell
    from tui_workbench.runs.sweep import Member
    from tui_workbench.runs.table import Group, Page, RunQuery

HEAD_START_SECONDS = 0.05
"""What a script has before its controller is started: an interpreter's start is over by then."""

CANCEL_POLL_SECONDS = 0.02

LONGEST_NUMBER = 18
"""Digits of a run's number; with more it is none."""


class Runs:
    """The runs of one project."""

    def __init__(self, project: Project) -> None:
        self.project = project

    def plan(self, request: RunRequest) -> Plan:
        """What `submit` would do. Raises ConfigurationError or UsageError; changes nothing."""
        from tui_workbench.runs.launch import prepare

        return prepare(self.project, request).plan

    def specification(self, request: RunRequest) -> RunSpec:
        """The request made concrete: script, arguments, target. Raises ConfigurationError or UsageError."""
        from tui_workbench.runs.launch import prepare

        return prepare(self.project, request).spec

    def survey(self, request: RunRequest) -> tuple[Plan, str]:
        """The plan with what the target says of it now, and why it could not be asked, "" when it could.

        Raises ConfigurationError or UsageError; changes nothing.
        """
        from tui_workbench.runs.launch import prepare
        from tui_workbench.runs.survey import survey

        return survey(prepare(self.project, request))

    def submit(
        self,
        request: RunRequest,
        *,
        single_threaded: bool = False,
        on_started: Callable[[Run], object] | None = None,
    ) -> Run:
        """Snapshot the project, write the run's directory and start it. Returns while it runs.

        A process that has one thread only says so with `single_threaded`: its controller then is a fork and starts at
        once. `on_started` is called with the run as soon as its script was started, or it is in line for its turn; the
        controller comes a moment later, so that its start does not take the processor from the script's. Raises
        ConfigurationError, UsageError or StorageError; then there is no run, though `on_started` may have told of one.
        """
        from tui_workbench.runs.controller import Controller, detach
        from tui_workbench.runs.launch import create_run, discard, waits_for_its_turn
        from tui_workbench.targets.protocol import target_for

        directory, lock, record = create_run(self.project, request)
        starts_at_once = target_for(record.spec.target).starts_at_once
        try:
            if waits_for_its_turn(self.project, directory, lock):
                if on_started is not None:
                    on_started(directory.run())
                return directory.run()
            if starts_at_once:
                Controller(directory, record=record).start(os.environ)
                if on_started is not None:
                    on_started(directory.run())
                    time.sleep(HEAD_START_SECONDS)
            detach(directory, lock, fork=single_threaded)
        except BaseException:
            # Nobody has seen its id yet, so nobody would look after it.
            if starts_at_once:
                Controller(directory, record=record).abandon()
            lock.release()
            discard(directory.path)
            raise
        return directory.run()

    def request_of(self, run_id: str) -> RunRequest:
        """What would run a run again as it was; to be changed at will and given to `rerun` or `plan`.

        Raises RunNotFound.
        """
        from tui_workbench.runs.rerun import request_of

        return request_of(self.project, self.directory(run_id).run_id)

    def rerun(self, run_id: str, request: RunRequest | None = None, **options: Any) -> Run:
        """Run a run again, as it was or as a changed `request_of` says, from its snapshot and not from the project.

        `options` are those of `submit`, and so are the errors; UsageError as well when its snapshot is not there.
        """
        return self.submit(request or self.request_of(run_id), **options)

    def sweep(
        self,
        request: RunRequest,
        members: Sequence[Member],
        max_parallel: int = 1,
        on_made: Callable[[Run], object] | None = None,
    ) -> str:
        """Run a request once for each member (see `sweep.members_of`), so many at a time; returns the sweep's name.

        The name is `group` of its runs; those wait in state `queued` for their turn. `on_made` is called with each run
        as soon as there is one. Raises what `submit` does; what was made until then goes on.
        """
        from tui_workbench.runs import sweep

        group = sweep.create(self.project, request, tuple(members), max_parallel).group
        sweep.make_members(self.project, group, on_made)
        return group

    def group(self, group: str) -> builtins.list[Run]:
        """The runs of a sweep, the newest first."""
        return [run for run in self.list() if run.group == group]

    def stop_group(self, group: str, *, all_of_it: bool = False, grace: float = DEFAULT_GRACE) -> builtins.list[Run]:
        """Let no further run of a sweep begin, and with `all_of_it` end those that go on too.

        Returns the runs that were canceled. Raises RunNotFound, StorageError.
        """
        from tui_workbench.runs import queueing, sweep

        left = [self.directory(run_id) for run_id in sweep.stop(self.project, group)]
        waiting = [directory for directory in left if directory.is_waiting]
        for directory in waiting:
            directory.request_cancel(grace)
        queueing.resume(waiting)
        ended = [self.cancel(directory.run_id, grace=grace) for directory in left if all_of_it or directory in waiting]
        return [run for run in ended if run.state == RunState.CANCELED]

    def restoration(self, run_id: str) -> Restoration:
        """What `restore` would change. Raises RunNotFound, UsageError when there is no snapshot, StorageError."""
        from tui_workbench.runs.restore import preview

        return preview(self.project, self.directory(run_id).read_record())

    def restore(self, run_id: str) -> Restoration:
        """Make the project what it was when the run was submitted; what is there is saved first.

        What the ignore files exclude stays as it is. Raises as `restoration` does.
        """
        from tui_workbench.runs.restore import restore

        return restore(self.project, self.directory(run_id).read_record())

    def undo_restore(self) -> Restoration:
        """Bring back what was there before the last `restore`; again, what was there before this.

        Raises UsageError when there is nothing to bring back, StorageError.
        """
        from tui_workbench.runs.restore import undo

        return undo(self.project)

    def undo_restoration(self) -> Restoration:
        """What `undo_restore` would change. Raises as that does."""
        from tui_workbench.runs.restore import preview_undo

        return preview_undo(self.project)

    def undoable_restore(self) -> str:
        """What `undo_restore` would bring back, in words; "" when nothing."""
        from tui_workbench.runs.restore import undoable

        return undoable(self.project)

    def shell(self, run_configuration: str = "", run_id: str = "", *, is_interactive: bool = True) -> Shell:
        """What to start in a terminal for a shell in the project, or in the copy of a run.

        The interpreter of the run configuration's target is first on its PATH. Raises RunNotFound, ConfigurationError,
        UsageError or StorageError.
        """
        from tui_workbench.runs.shell import project_shell, run_shell

        if run_id:
            return run_shell(self.project, self.directory(run_id), is_interactive=is_interactive)
        return project_shell(self.project, run_configuration, is_interactive=is_interactive)

    def directory(self, run_id: str) -> RunDirectory:
        """The directory of a run, by id or by run number. Raises RunNotFound."""
        if run_id and os.sep not in run_id and not run_id.startswith("."):
            path = os.path.join(self.project.runs_directory, run_id)
            if os.path.isdir(path):
                return RunDirectory(path)
            if run_id.isdecimal() and len(run_id) <= LONGEST_NUMBER:
                from tui_workbench.runs.index import RunIndex

                with RunIndex(self.project) as index:
                    found = index.id_of(int(run_id))
                if found:
                    return RunDirectory(os.path.join(self.project.runs_directory, found))
        raise RunNotFound(
            f"there is no run {run_id!r} in {self.project.root}", remedy="`workbench-tui history list` shows the runs."
        )

    def get(self, run_id: str) -> Run:
        """One run, read from its files. Raises RunNotFound."""
        directory = self.directory(run_id)
        run = directory.run()
        # A run shown as active really has a controller, as in a list.
        return directory.run() if run.is_active and self._resume([run.run_id]) else run

    def list(self) -> builtins.list[Run]:
        """Every run, newest first."""
        reap()
        with self._index() as index:
            return index.runs()

    def last(self) -> Run | None:
        """The newest run; None when there is none."""
        with self._index() as index:
            return index.last()

    def page(self, query: RunQuery, offset: int = 0, limit: int = 100) -> Page:
        """Part of the table of runs; see `tui_workbench.runs.table`."""
        with self._index() as index:
            return index.page(query, offset, limit)

    def groups(self, query: RunQuery) -> builtins.list[Group]:
        """The groups of the table of runs, by the query's `group`."""
        with self._index() as index:
            return index.groups(query)

    def column(self, query: RunQuery, name: str, limit: int = 1000) -> builtins.list[tuple[str, int, Any]]:
        """Id, number and value of a column or metric for the newest runs that the query finds, oldest first."""
        with self._index() as index:
            return index.column(query, name, limit)

    def metric_names(self, limit: int = 1000) -> builtins.list[tuple[str, int]]:
        """The metrics of all runs, and how many runs have each; the most common first."""
        with self._index() as index:
            return index.metric_names(limit)

    def facts(self, run_id: str) -> Facts:
        """The metrics and annotations of one run. Raises RunNotFound."""
        from tui_workbench.runs.history import facts_of

        return facts_of(self.directory(run_id).path)

    def annotate(self, run_id: str, change: Callable[[Annotations], Annotations]) -> Annotations:
        """Change what is said of a run: `change` gets what is there and gives what is to be.

        Raises RunNotFound, UsageError and StorageError; see `tui_workbench.runs.annotations`.
        """
        from tui_workbench.runs.annotations import change_annotations

        return change_annotations(self.directory(run_id).path, self.project.state_directory, change)

    def compare(self, run_ids: Sequence[str]) -> Comparison:
        """What runs have in common and what not; see `tui_workbench.runs.comparing`. Raises RunNotFound, UsageError."""
        from tui_workbench.runs.comparing import compare, read_compared

        runs = {run.run_id: run for run in map(self.get, run_ids)}
        return compare(self.project.state_directory, [read_compared(run) for run in runs.values()])

    def exportable(self, run_ids: Sequence[str] = (), *, hidden: bool = False) -> builtins.list[Exported]:
        """The runs to export, newest first: those named, or all that have ended and are not archived.

        With `hidden` archived ones too. Raises RunNotFound, and UsageError for one that goes on.
        """
        from tui_workbench.runs.exchange import Exported
        from tui_workbench.runs.history import facts_of

        wanted = [self.get(run_id) for run_id in run_ids]
        for run in wanted:
            if run.is_active:
                raise UsageError(f"{run.run_id} has not ended", remedy="Export it when it has.")
        ended = (run for run in wanted or self.list() if not run.is_active)
        every = (Exported(run, facts_of(run.directory)) for run in ended)
        return [each for each in every if wanted or hidden or not each.facts.annotations.archived]

    def history_json(self, *, hidden: bool = False) -> tuple[bytes, ...]:
        """The history records of all runs that are not archived, with `hidden` of those too, newest first.

        A JSON list in ASCII with an indentation of 2, in pieces, as that of many runs is not to be copied needlessly.
        """
        with self._index() as index:
            records = index.history_json(hidden=hidden)
        return (b"[\n", records, b"\n]") if records else (b"[]",)

    def history_records(self, *, hidden: bool = False) -> builtins.list[dict[str, Any]]:
        """The same as values; see `tui_workbench.runs.history`."""
        import json

        records: builtins.list[dict[str, Any]] = json.loads(b"".join(self.history_json(hidden=hidden)))
        return records

    def history_record(self, run_id: str) -> dict[str, Any]:
        """The history record of one run, with its attachments. Raises RunNotFound."""
        from tui_workbench.runs.downloads import attachments
        from tui_workbench.runs.history import facts_of, history_record

        run = self.get(run_id)
        record = {**history_record(run, facts_of(run.directory)), "attachments": ", ".join(attachments(run.directory))}
        if "gpu" in record and (verdict := self.gpu_verdict(run.run_id)) is not None:
            from tui_workbench.runs.gpu.verdict import to_json

            record["gpu"] = to_json(verdict)
        return record

    def gpu_verdict(self, run_id: str) -> Verdict | None:
        """Whether the run used a GPU, so far while it goes on; None for one that had none in reach.

        Raises RunNotFound; see `tui_workbench.runs.gpu.verdict`.
        """
        from tui_workbench.runs.gpu.reading import verdict_of

        return verdict_of(self.directory(run_id))

    def cancel(self, run_id: str, *, grace: float = DEFAULT_GRACE) -> Run:
        """End a run and wait until nothing of it is left; one that has ended is returned as it is.

        `grace` is the seconds between asking the script to end and making it; where several ask, the last one's counts
        until it is asked. Raises RunNotFound, and StorageError when the end cannot be recorded.
        """
        from tui_workbench.runs.controller import CANCEL_SIGNAL, Controller, detach, leave_line
        from tui_workbench.targets.protocol import target_for

        directory = self.directory(run_id)
        if not directory.run().is_active:
            return directory.run()
        directory.request_cancel(grace)
        while True:
            holder = ControllerLock.holder(directory)
            if holder > 0:
                _send(holder, CANCEL_SIGNAL)
            lock = ControllerLock.acquire(directory) if holder == 0 else None
            is_near = directory.is_waiting or target_for(directory.read_record().spec.target).starts_at_once
            if lock is not None and not is_near:
                detach(directory, lock, fork=False)
            elif lock is not None:
                # With the wish to cancel on record there is nothing to wait for: this thread ends the run itself.
                try:
                    Controller(directory).finish(os.environ)
                finally:
                    lock.release()
                leave_line(directory)
            if not directory.run().is_active:
                return directory.run()
            time.sleep(CANCEL_POLL_SECONDS)

    def resume(self) -> builtins.list[str]:
        """See to it that each active run has a controller, and remove what killed submits left half made.

        Returns the ids of the runs that had none.
        """
        from tui_workbench.runs.index import RunIndex
        from tui_workbench.runs.launch import remove_unfinished
        from tui_workbench.runs.sweep import resume_unfinished

        remove_unfinished(self.project)
        resume_unfinished(self.project)
        with RunIndex(self.project) as index:
            return self._resume(index.active())

    def _resume(self, active: builtins.list[str]) -> builtins.list[str]:
        """Give the runs that have no controller one; those whose script is over are concluded here and now."""
        resumed = self._resume_waiting(active)
        for run_id in active:
            try:
                if run_id not in resumed and self.take_over(run_id):
                    resumed.append(run_id)
            except WorkbenchError:
                # Not ours, gone meanwhile, or no space: it stays as it is, and its record says what is known.
                continue
        return resumed

    def take_over(self, run_id: str) -> bool:
        """See to it that this run has a controller; True when it had none.

        Raises WorkbenchError when it has none and can have none.
        """
        from tui_workbench.runs.controller import Controller, detach, leave_line
        from tui_workbench.targets.protocol import target_for

        directory = RunDirectory(os.path.join(self.project.runs_directory, run_id))
        if directory.is_waiting:
            return bool(self._resume_waiting([run_id]))
        lock = ControllerLock.acquire(directory)
        if lock is None:
            return False
        try:
            spec = directory.read_record().spec
            if directory.status().end or target_for(spec.target).has_ended(spec):
                Controller(directory).finish(os.environ)
            else:
                detach(directory, lock, fork=False)
        finally:
            lock.release()
        if directory.status().end:
            leave_line(directory)
        return True

    def _resume_waiting(self, active: builtins.list[str]) -> builtins.list[str]:
        """See to it that the runs that wait for their turn are in line; the ids of those whose turn has come."""
        runs = (RunDirectory(os.path.join(self.project.runs_directory, run_id)) for run_id in active)
        waiting = [directory for directory in runs if directory.is_waiting]
        if not waiting:
            return []
        from tui_workbench.runs.queueing import resume
        from tui_workbench.runs.sweep import resume_unfinished

        resume_unfinished(self.project)
        try:
            return resume(waiting)
        except WorkbenchError:
            return []  # its folder cannot be used now: they wait on

    def _index(self) -> RunIndex:
        """The index, with every run that is shown as active really having a controller."""
        from tui_workbench.runs.index import RunIndex

        return RunIndex(self.project, self._resume)


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return
