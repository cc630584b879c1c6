"""`Runs`: everything that can be done with a project's runs. The screens and the command line are both written on it.

The calls block; screens make them from threads. Nothing is held between calls but the project: every answer is read
from the files.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable, Sequence

from tui_workbench.core.masking import mask_plan
from tui_workbench.core.model import Plan, Run, RunRequest, RunState
from tui_workbench.core.processes import reap
from tui_workbench.runs.history import History
from tui_workbench.runs.lifecycle import queueing, resuming
from tui_workbench.runs.lifecycle.adoption import take_in
from tui_workbench.runs.lifecycle.collecting import collect
from tui_workbench.runs.snapshots.restore import Restoration, restore, undo, undoable
from tui_workbench.runs.store.rundir import DEFAULT_GRACE, RunDirectory
from tui_workbench.runs.submission import launch
from tui_workbench.runs.submission.planning import prepare, request_of
from tui_workbench.runs.submission.survey import survey
from tui_workbench.runs.sweeps import sweep
from tui_workbench.runs.sweeps.sweep import Member


class Runs(History):
    """The runs of one project: everything that `History` tells, and what can be done with them."""

    def get(self, run_id: str, *, adopt: bool = False) -> Run:
        """One run, read from its files; with `adopt` it gets a controller if it needs one. Raises RunNotFound."""
        run = super().get(run_id)
        if adopt and run.is_active and resuming.resume_runs(self.project, [run.run_id]):
            return super().get(run.run_id)
        return run

    def list(self, *, adopt: bool = False) -> builtins.list[Run]:
        """Every run, newest first; with `adopt` this user's own active runs get the controllers that they need."""
        reap()
        runs = super().list()
        active = [run.run_id for run in runs if run.is_active] if adopt else []
        return super().list() if active and resuming.resume_runs(self.project, active) else runs

    def submit(
        self, request: RunRequest, *, single_threaded: bool = False, on_started: Callable[[Run], object] | None = None
    ) -> Run:
        """Snapshot the project, write the run's directory and start it. Returns while it runs.

        A process that has one thread only says so with `single_threaded`: its controller then is a fork and starts at
        once. `on_started` is called with the run as soon as its script was started, or it is in line for its turn.
        Raises ConfigurationError, UsageError or StorageError; then there is no run, though `on_started` may have told
        of one.
        """
        return launch.submit(self.project, request, single_threaded=single_threaded, on_started=on_started)

    def cancel(self, run_id: str, *, grace: float = DEFAULT_GRACE) -> Run:
        """End a run and wait until nothing of it is left; one that has ended is returned unchanged.

        `grace` is the seconds between asking the script to end and making it; where several ask, the last one's counts
        until it is asked. Raises RunNotFound, StorageError when the end cannot be recorded, and WorkbenchError when the
        run does not end, because its target is out of reach.
        """
        return resuming.cancel(self.directory(run_id), grace)

    def resume(self) -> builtins.list[str]:
        """Give each of this user's own active runs a controller, and remove what killed submits left half made.

        Returns the ids of the runs that had none.
        """
        return resuming.resume_all(self.project)

    def take_over(self, run_id: str) -> bool:
        """See to it that this run has a controller; True when it had none.

        Raises ImportedRun, and WorkbenchError when it has none and can have none.
        """
        path = os.path.join(self.project.runs_directory, run_id)
        return resuming.take_over(self.project, RunDirectory(path))

    def plan(self, request: RunRequest) -> Plan:
        """What `submit` would do. Raises ConfigurationError or UsageError; changes nothing."""
        return mask_plan(prepare(self.project, request).plan)

    def survey(self, request: RunRequest) -> tuple[Plan, str]:
        """The plan with what the target says of it now, and why it could not be asked, "" when it could.

        Raises ConfigurationError or UsageError; changes nothing.
        """
        plan, unknown = survey(prepare(self.project, request))
        return mask_plan(plan), unknown

    def request_of(self, run_id: str) -> RunRequest:
        """What would run a run again as it was; to be changed at will and given to `rerun` or `plan`.

        Raises RunNotFound.
        """
        return request_of(self.project, self.directory(run_id).run_id)

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
        group = sweep.create(self.project, request, tuple(members), max_parallel).group
        sweep.make_members(self.project, group, on_made)
        return group

    def stop_group(self, group: str, *, all_of_it: bool = False, grace: float = DEFAULT_GRACE) -> builtins.list[Run]:
        """Let no further run of a sweep begin, and with `all_of_it` end those that go on too.

        Returns the runs that were canceled. Raises RunNotFound, StorageError.
        """
        for run in self.group(group):
            if run.imported:
                self.directory(run.run_id).own_record()
        left = [self.directory(run_id) for run_id in sweep.stop(self.project, group)]
        waiting = [directory for directory in left if directory.is_waiting]
        for directory in waiting:
            directory.request_cancel(grace)
        queueing.resume(waiting)
        ended = [self.cancel(directory.run_id, grace=grace) for directory in left if all_of_it or directory in waiting]
        return [run for run in ended if run.state == RunState.CANCELED]

    def restore(self, run_id: str, *, dry_run: bool = False) -> Restoration:
        """Make the project what it was when the run was submitted; what is there is saved first.

        What the ignore files exclude stays as it is. With `dry_run` nothing is changed. Raises RunNotFound, UsageError
        when there is no snapshot, StorageError.
        """
        return restore(self.project, self.directory(run_id).read_record(), dry_run=dry_run)

    def undo_restore(self, *, dry_run: bool = False) -> Restoration:
        """Bring back what was there before the last `restore`; again, what was there before this.

        With `dry_run` nothing is changed. Raises UsageError when there is nothing to bring back, StorageError.
        """
        return undo(self.project, dry_run=dry_run)

    def undoable_restore(self) -> str:
        """What `undo_restore` would bring back, in words; "" when nothing."""
        return undoable(self.project)

    def collect(self, run_id: str) -> Run:
        """Bring here what could not be brought when the run ended. Raises WorkbenchError; see `runs.collecting`."""
        directory = self.directory(run_id)
        collect(directory, self.project.state_directory)
        return directory.run()

    def take_in(self, run_id: str) -> None:
        """Make an imported run this user's own, who has seen what it would execute; `get` then adopts it.

        Raises ImportedRun, RunNotFound and StorageError; see `tui_workbench.runs.lifecycle.adoption`.
        """
        take_in(self.directory(run_id))
