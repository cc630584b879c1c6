"""`Runs`, the interface to the runs of a project for the screens and the command line.

The methods block, so the screens call them in threads. No state is kept between calls: each call reads the files again.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable, Sequence

from tui_workbench.core.errors import RunNotFound
from tui_workbench.core.masking import mask_plan
from tui_workbench.core.model import Plan, Run, RunRequest, RunState
from tui_workbench.core.processes import reap
from tui_workbench.runs import deleting, resuming
from tui_workbench.runs.agents import timekeeper
from tui_workbench.runs.history import History
from tui_workbench.runs.lifecycle import queueing
from tui_workbench.runs.lifecycle.adoption import take_over_imported
from tui_workbench.runs.lifecycle.agent_ends import end_run_of_agent
from tui_workbench.runs.lifecycle.collecting import collect
from tui_workbench.runs.snapshots.restore import Restoration, restore, undo, undoable
from tui_workbench.runs.stacks import Stacks, take_stacks
from tui_workbench.runs.store.rundir import DEFAULT_GRACE
from tui_workbench.runs.submission import launch
from tui_workbench.runs.submission.plan_details import plan_details
from tui_workbench.runs.submission.planning import prepare, request_of
from tui_workbench.runs.sweeps import sweep
from tui_workbench.runs.sweeps.sweep import Member


class Runs(History):
    """The runs of a project: `History`, and actions on runs."""

    def get(self, run_id: str, *, adopt: bool = False) -> Run:
        """Return a run. Raises RunNotFound.

        With `adopt`, start a controller if the run is active, belongs to this user and has no controller.
        """
        run = super().get(run_id)
        if adopt and run.is_active and resuming.resume_runs(self.project, [run.run_id]):
            return super().get(run.run_id)
        return run

    def list(self, *, adopt: bool = False) -> builtins.list[Run]:
        """Return all runs, newest first.

        With `adopt`, start a controller for each active run of this user that has none.
        """
        reap()
        runs = super().list()
        active = [run.run_id for run in runs if run.is_active] if adopt else []
        return super().list() if active and resuming.resume_runs(self.project, active) else runs

    def submit(
        self, request: RunRequest, *, single_threaded: bool = False, on_started: Callable[[Run], object] | None = None
    ) -> Run:
        """Take a snapshot, create the run directory, start the run, and return without waiting for its end.

        If this process has only one thread, set `single_threaded`: the controller is then a fork and starts faster.
        `on_started` is called with the run after its script was started or the run was queued. Raises
        ConfigurationError, UsageError, StorageError, or WorkbenchError if no controller can be started. After an error,
        no run remains, even if `on_started` was called.
        """
        return launch.submit(self.project, request, single_threaded=single_threaded, on_started=on_started)

    def cancel(self, run_id: str, *, grace: float = DEFAULT_GRACE) -> Run:
        """Cancel a run, unless it has ended, and wait until all its processes have ended.

        `grace` is the time in seconds between SIGTERM and SIGKILL; the value of the last call applies. Raises
        RunNotFound, ImportedRun, StorageError if the end cannot be recorded, and WorkbenchError if the run does not end
        in time, for example because its target is unreachable.
        """
        return resuming.cancel(self.directory(run_id), grace)

    def end_removed(self, run_id: str, *, grace: float = DEFAULT_GRACE) -> bool:
        """End the processes of an agent's run whose directory was removed or cannot be read.

        Return False if the run has a readable directory, or if no agent submitted a run with this ID. Raises
        WorkbenchError if its processes could not be ended.
        """
        try:
            self.directory(run_id).run()
        except RunNotFound:
            return end_run_of_agent(os.path.join(self.project.runs_directory, run_id), grace)
        return False

    def stacks(self, run_id: str) -> Stacks:
        """Read the Python stacks of all processes of a running run, and keep them with the run.

        The script is neither paused nor changed. Raises UsageError if the script is not running, RunNotFound,
        ImportedRun, or another WorkbenchError if the processes cannot be read.
        """
        return take_stacks(self.directory(run_id))

    def resume(self) -> builtins.list[str]:
        """Start a controller for each active run of this user that has none, and continue interrupted sweeps.

        Remove the files of interrupted submissions. Return the IDs of the runs that had no controller, and of the
        queued runs that have started.
        """
        timekeeper.resume()
        return resuming.resume_all(self.project)

    def start_again(self, run_id: str) -> Run:
        """Start another attempt of an ended run of this user, in its working copy, with its outputs so far.

        Raises RunNotFound, ImportedRun, StorageError, and UsageError or ConfigurationError if the run cannot be started
        again.
        """
        directory = self.directory(run_id)
        resuming.start_again(directory)
        return directory.run()

    def plan(self, request: RunRequest) -> Plan:
        """Return the plan of `submit` with secrets masked, without changing anything.

        Raises ConfigurationError or UsageError.
        """
        return mask_plan(prepare(self.project, request).plan)

    def plan_details(self, request: RunRequest) -> tuple[Plan, str]:
        """Return the plan with details from the target, and "" or the error of an unreachable target.

        Nothing is changed. Raises ConfigurationError, UsageError or StorageError.
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
        """Run a request once for each member (see `sweep.members_of`), and return the name of the sweep.

        At most `max_parallel` runs are active at the same time. The name is the `group` of the runs.
        `on_made` is called with each new run. Raises the errors of `submit`; runs created before the error continue.
        """
        group = sweep.create(self.project, request, tuple(members), max_parallel).group
        sweep.make_members(self.project, group, on_made)
        return group

    def stop_group(self, group: str, *, all_of_it: bool = False, grace: float = DEFAULT_GRACE) -> builtins.list[Run]:
        """Stop a sweep, cancel its queued runs, and with `all_of_it` all its active runs. Return the canceled runs.

        The missing runs of the sweep are not created. Raises RunNotFound, ImportedRun, StorageError or WorkbenchError,
        as `cancel` does.
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
        """Restore the project to the snapshot of the run, after saving the current state.

        Ignored files stay unchanged. With `dry_run`, nothing is changed. Raises RunNotFound, StorageError, or
        UsageError if the run has no snapshot or git is not installed.
        """
        return restore(self.project, self.directory(run_id).read_record(), dry_run=dry_run)

    def undo_restore(self, *, dry_run: bool = False) -> Restoration:
        """Undo the last `restore`; a second call redoes it.

        With `dry_run`, nothing is changed. Raises StorageError, or UsageError if there is nothing to undo, if the
        journal of the last restore is damaged, or if git is not installed.
        """
        return undo(self.project, dry_run=dry_run)

    def undoable_restore(self) -> str:
        """Return a description of the state that `undo_restore` would restore, or "".

        Raises UsageError if the journal of the last restore is damaged.
        """
        return undoable(self.project)

    def check_deletable(self, run_id: str) -> None:
        """Raise RunNotFound for an unknown run, and UsageError if the run is active, pinned or needed by other runs."""
        deleting.check(self.project, run_id)

    def delete(self, run_id: str) -> str:
        """Move an ended run to the trash, and return its ID. Raises RunNotFound, UsageError or StorageError."""
        return deleting.delete(self.project, run_id)

    def undelete(self, run_id: str) -> str:
        """Move a run from the trash back to the history, and return its ID; see `deleting.restore`."""
        return deleting.restore(self.project, run_id)

    def outdated(self, keep: int) -> builtins.list[Run]:
        """Return the ended runs to delete if the `keep` newest runs are kept; see `deleting.outdated`."""
        return deleting.outdated(self.project, keep)

    def purge(
        self, run_ids: Sequence[str], delete_copies: Callable[[frozenset[str]], builtins.list[str]] = lambda _: []
    ) -> deleting.Purged:
        """Delete runs in the trash permanently, with the snapshots that no other run uses. Raises StorageError.

        `delete_copies` deletes the copies of this user's runs on targets, and returns errors.
        """
        return deleting.purge(self.project, run_ids, delete_copies)

    def collect(self, run_id: str) -> Run:
        """Fetch files that were not fetched when the run ended; see `lifecycle.collecting`. Raises WorkbenchError."""
        directory = self.directory(run_id)
        collect(directory, self.project.state_directory)
        return directory.run()

    def take_over_imported(self, run_id: str) -> None:
        """Take over an imported run that the user has reviewed, so that `get` with `adopt` can start it.

        See `tui_workbench.runs.lifecycle.adoption`. Raises ImportedRun, RunNotFound or StorageError.
        """
        take_over_imported(self.directory(run_id))
