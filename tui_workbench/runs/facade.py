"""`Runs`: the interface of the screens and the command line to a project's runs.

The calls block; screens call them from threads. No state is kept between calls: every result is read from the files.
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
from tui_workbench.runs.lifecycle.adoption import take_over_imported
from tui_workbench.runs.lifecycle.collecting import collect
from tui_workbench.runs.snapshots.restore import Restoration, restore, undo, undoable
from tui_workbench.runs.store.rundir import DEFAULT_GRACE, RunDirectory
from tui_workbench.runs.submission import launch
from tui_workbench.runs.submission.plan_details import plan_details
from tui_workbench.runs.submission.planning import prepare, request_of
from tui_workbench.runs.sweeps import sweep
from tui_workbench.runs.sweeps.sweep import Member


class Runs(History):
    """The runs of one project: everything in `History`, and actions on runs."""

    def get(self, run_id: str, *, adopt: bool = False) -> Run:
        """Return a run. With `adopt`, an active run without a controller gets one. Raises RunNotFound."""
        run = super().get(run_id)
        if adopt and run.is_active and resuming.resume_runs(self.project, [run.run_id]):
            return super().get(run.run_id)
        return run

    def list(self, *, adopt: bool = False) -> builtins.list[Run]:
        """Return all runs, newest first. With `adopt`, this user's active runs without a controller get one."""
        reap()
        runs = super().list()
        active = [run.run_id for run in runs if run.is_active] if adopt else []
        return super().list() if active and resuming.resume_runs(self.project, active) else runs

    def submit(
        self, request: RunRequest, *, single_threaded: bool = False, on_started: Callable[[Run], object] | None = None
    ) -> Run:
        """Snapshot the project, create the run directory and start the run. Returns while the run is active.

        `single_threaded` means that this process has only one thread: the controller is then a fork and starts faster.
        `on_started` is called with the run when its script was started or the run was queued. Raises
        ConfigurationError, UsageError or StorageError; then there is no run, even if `on_started` was called.
        """
        return launch.submit(self.project, request, single_threaded=single_threaded, on_started=on_started)

    def cancel(self, run_id: str, *, grace: float = DEFAULT_GRACE) -> Run:
        """Cancel a run and wait until all its processes have ended; a run that has ended is returned unchanged.

        `grace` is the time in seconds between asking the script to end and killing it; the last call sets it. Raises
        RunNotFound, StorageError when the end cannot be recorded, and WorkbenchError when the run does not end because
        its target is unreachable.
        """
        return resuming.cancel(self.directory(run_id), grace)

    def resume(self) -> builtins.list[str]:
        """Give each of this user's active runs a controller, and remove the remains of killed submits.

        Returns the IDs of the runs that had no controller.
        """
        return resuming.resume_all(self.project)

    def take_over(self, run_id: str) -> bool:
        """Give the run a controller if it has none; return True if it had none.

        Raises ImportedRun, and WorkbenchError when no controller can be started.
        """
        path = os.path.join(self.project.runs_directory, run_id)
        return resuming.take_over(self.project, RunDirectory(path))

    def plan(self, request: RunRequest) -> Plan:
        """Return the plan that `submit` would follow, with secrets masked; changes nothing.

        Raises ConfigurationError or UsageError.
        """
        return mask_plan(prepare(self.project, request).plan)

    def plan_details(self, request: RunRequest) -> tuple[Plan, str]:
        """Return the plan with details from the target, and the error if the target is unreachable, else "".

        Raises ConfigurationError or UsageError; changes nothing.
        """
        plan, unknown = plan_details(prepare(self.project, request))
        return mask_plan(plan), unknown

    def request_of(self, run_id: str) -> RunRequest:
        """Return a request that repeats a run unchanged. Raises RunNotFound."""
        return request_of(self.project, self.directory(run_id).run_id)

    def sweep(
        self,
        request: RunRequest,
        members: Sequence[Member],
        max_parallel: int = 1,
        on_made: Callable[[Run], object] | None = None,
    ) -> str:
        """Run a request once for each member (see `sweep.members_of`); return the name of the sweep.

        At most `max_parallel` runs are active at a time; the others are `queued`. The name is the `group` of the runs.
        `on_made` is called with each new run. Raises the errors of `submit`; runs created before the error continue.
        """
        group = sweep.create(self.project, request, tuple(members), max_parallel).group
        sweep.make_members(self.project, group, on_made)
        return group

    def stop_group(self, group: str, *, all_of_it: bool = False, grace: float = DEFAULT_GRACE) -> builtins.list[Run]:
        """Cancel the queued runs of a sweep, and with `all_of_it` also its active runs.

        Returns the canceled runs. Raises RunNotFound, StorageError.
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
        """Restore the project to the snapshot of the run; the current state is saved first.

        Ignored files stay unchanged. With `dry_run` nothing is changed. Raises RunNotFound, UsageError when there is no
        snapshot, StorageError.
        """
        return restore(self.project, self.directory(run_id).read_record(), dry_run=dry_run)

    def undo_restore(self, *, dry_run: bool = False) -> Restoration:
        """Undo the last `restore`; a second call undoes the undo.

        With `dry_run` nothing is changed. Raises UsageError when there is nothing to undo, StorageError.
        """
        return undo(self.project, dry_run=dry_run)

    def undoable_restore(self) -> str:
        """Return a description of what `undo_restore` would restore; "" if there is nothing to undo."""
        return undoable(self.project)

    def collect(self, run_id: str) -> Run:
        """Fetch files that could not be fetched at the run's end. Raises WorkbenchError; see `lifecycle.collecting`."""
        directory = self.directory(run_id)
        collect(directory, self.project.state_directory)
        return directory.run()

    def take_over_imported(self, run_id: str) -> None:
        """Take over an imported run, after the user has reviewed it; `get` then adopts it.

        Raises ImportedRun, RunNotFound and StorageError; see `tui_workbench.runs.lifecycle.adoption`.
        """
        take_over_imported(self.directory(run_id))
