"""The watcher: a detached process that drives many runs on a target.

On targets with `drives_together`, it drives all runs; on other targets with a `shared_group`, the runs whose scripts
have started. If the script of the latter must be started again, the watcher starts a controller for the run; on targets
with `drives_together`, it starts the script itself when the next attempt is due.

It executes the steps of many controllers. Steps that block (prepare, start, cancel, collect) are jobs in a few threads.
One `RunGroup` waits for the ends of all scripts. A waiting run needs only the descriptor of its lock and a small
object, and on this machine a descriptor of its process. If its GPUs are recorded or its duration is limited, it also
needs a thread. All decisions are made in the main thread, to which other threads post calls.

The watcher holds the lock of each run, so that other processes start no controller for it. When it is woken, and every
few seconds, it looks for new runs, cancel requests and removed run directories. It ends LINGER_SECONDS after its last
run. Each step is recorded in the run directory, so that a new watcher can continue if a watcher is killed. `handover`
starts the process.
"""

from __future__ import annotations

import contextlib
import os
import queue
import resource
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial

from tui_workbench.core import trace
from tui_workbench.core.errors import ImportedRun, RunNotFound, StorageError, WorkbenchError
from tui_workbench.core.waiting import Backoff, wait_ready, waking_pipe
from tui_workbench.runs.lifecycle import queueing, starting
from tui_workbench.runs.lifecycle.controller import Controller, listen_for_cancel
from tui_workbench.runs.lifecycle.following import GroupThread
from tui_workbench.runs.lifecycle.handover import WatchFolder
from tui_workbench.runs.lifecycle.helpers import Helpers
from tui_workbench.runs.lifecycle.target_lifecycle import NotDue, TryLater
from tui_workbench.runs.lifecycle.watcher_helpers import WatcherHelpers
from tui_workbench.runs.store.rundir import ControllerLock, RunDirectory
from tui_workbench.targets.base.group import RunGroup
from tui_workbench.targets.registry import target_for
from tui_workbench.targets.values import Outcome

MOST_JOBS = 4  # maximum number of concurrent jobs until the target is known; see `Target.jobs_at_once`
LOOK_SECONDS = 5.0  # maximum time between two scans of the folders
SHORTEST_LOOK_SECONDS = 0.1  # minimum time, because a scan of many runs takes milliseconds
LINGER_SECONDS = 5.0  # the watcher ends after this time without runs; the next run often follows soon
SPARE_DESCRIPTORS = 200  # number of descriptors that runs must leave free
RUN_DESCRIPTORS = 5  # maximum number of descriptors of a run: its lock, the end of its process, 3 for its GPU samples
FIRST_RETRY, LONGEST_RETRY = 0.5, 300.0  # seconds between two attempts after an error
EVENT = "watcher"  # name of the step in events that record an error of the watcher


class _Run:
    """A run that this process drives. It is either queued for a job, in a job, followed, or due for a retry."""

    def __init__(self, name: str, directory: RunDirectory, lock: ControllerLock) -> None:
        self.name = name
        self.directory = directory
        self.lock = lock
        self.has_ended = False  # the script has ended
        self.outcome: Outcome | None = None  # of the script that has ended, unless `Target.wait` returns it
        self.needs_controller = False  # the script must be started, by another process
        self.interrupt = -1  # descriptor that interrupts the job in progress when it becomes readable
        self.interrupting = -1  # the other end of this pipe
        self.group: _Group | None = None  # while it is followed
        self.is_canceled = False
        self.retries: Backoff | None = None
        self.retry_at = 0.0
        self.error = ""
        self.helpers: Helpers | None = None  # while the script runs

    @property
    def is_followed(self) -> bool:
        return self.group is not None


class _Group:
    """A thread that follows runs. Their IDs differ, although two projects can contain the same run of the target."""

    def __init__(
        self,
        group: RunGroup,
        on_ended: Callable[[_Group, str, Outcome | None], object],
        on_broken: Callable[[_Group, Exception], object],
    ) -> None:
        self.runs: dict[str, _Run] = {}  # by run ID
        self.thread = GroupThread(group, partial(on_ended, self), partial(on_broken, self))


class Watcher:
    """The main loop that drives the runs in a folder. The caller holds the lock of the folder."""

    def __init__(self, folder: WatchFolder, lock: ControllerLock, woken: int) -> None:
        self._folder = folder
        self._lock = lock
        self._woken = woken
        self._runs: dict[str, _Run] = {}
        self._queued: deque[_Run] = deque()
        self._failed: list[_Run] = []  # due for a retry, or for their next attempt
        self._jobs = 0
        self._groups: list[_Group] = []
        self._calls: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._reading, self._writing = waking_pipe()
        self._unreachable = Backoff()
        self._paused_until = 0.0  # if the target is unreachable: no job starts before this time, then one at a time
        self._is_known = False  # the target has answered
        self._refused = Backoff(SHORTEST_LOOK_SECONDS, LOOK_SECONDS)
        self._look_at = 0.0
        self._looked_at = -LOOK_SECONDS
        self._idle_since = time.monotonic()
        self._helpers = WatcherHelpers(self._post)
        limit = _raise_descriptor_limit()
        self._most_runs = max(limit - SPARE_DESCRIPTORS, limit // 2) // RUN_DESCRIPTORS
        self._most_jobs = MOST_JOBS

    def run(self) -> None:
        """Drive all runs until LINGER_SECONDS after the end of the last run, and release the lock."""
        while True:
            now = time.monotonic()
            if now >= self._look_at:
                self._look(now)
            self._start_jobs(now)
            if self._runs or self._jobs or self._helpers.is_collecting:
                self._idle_since = now
            elif now >= self._idle_since + LINGER_SECONDS and self._may_end():
                break
            self._wait(now)
        for group in self._groups:
            group.thread.close()

    def _wait(self, now: float) -> None:
        """Wait for calls from other threads, but only until the next task is due."""
        due = [self._look_at, *(run.retry_at for run in self._failed)]
        if self._queued and self._jobs == 0:
            due.append(self._paused_until)
        if not self._runs:
            due.append(self._idle_since + LINGER_SECONDS)
        ready = wait_ready([self._woken, self._reading], timeout=max(0.0, min(due) - now))
        for descriptor in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(descriptor, 4096)
        if self._woken in ready:
            self._look_at = min(self._look_at, self._looked_at + SHORTEST_LOOK_SECONDS)
        with contextlib.suppress(queue.Empty):
            while True:
                self._calls.get_nowait()()

    def _post(self, call: Callable[[], object]) -> None:
        """Call `call` in the main thread."""
        self._calls.put(call)
        with contextlib.suppress(BlockingIOError):
            os.write(self._writing, b"c")

    def _may_end(self) -> bool:
        """Release the lock and return True, unless the folder contains runs."""
        try:
            with self._folder.locked():
                if self._folder.names():  # other processes are acting on these runs
                    self._idle_since = time.monotonic()
                    return False
                self._lock.release()
        except StorageError:
            self._lock.release()  # the folder was removed
        return True

    # --- Scanning the folders

    def _look(self, now: float) -> None:
        """Find new runs, cancel requests and removed directories."""
        self._looked_at, self._look_at = now, now + LOOK_SECONDS
        is_refused = False
        for name in self._folder.names():
            if name not in self._runs and len(self._runs) < self._most_runs:
                is_refused |= not self._take(name)
        if is_refused:
            self._look_at = now + self._refused.next()
        else:
            self._refused = Backoff(SHORTEST_LOOK_SECONDS, LOOK_SECONDS)
        for run in list(self._runs.values()):
            if not run.is_canceled and run.directory.cancel_requested:
                self._cancel(run)
            elif not os.path.isdir(run.directory.path):
                self._take_out(run, self._forget)
            elif run.is_followed and run.helpers is not None and run.helpers.limit_is_reached:
                run.helpers.limit_is_reached = False
                self._take_out(run, self._queued.append)
        followed = [run for run in self._runs.values() if run.is_followed]
        self._helpers.read_metrics([run.helpers.metrics for run in followed if run.helpers is not None])

    def _take(self, name: str) -> bool:
        """Take the run of a link. Return False if another process is acting on it."""
        directory = self._folder.run(name)
        if directory is None:
            return True
        try:
            lock = ControllerLock.acquire(directory)
        except (ImportedRun, RunNotFound):
            self._folder.remove(directory)
            return True
        except StorageError:
            return False
        if lock is None:
            return False
        run = self._runs[name] = _Run(name, directory, lock)
        self._queued.append(run)
        self._is_known |= "start" in directory.status().done  # started by an earlier watcher
        return True

    def _cancel(self, run: _Run) -> None:
        """Put the run before all others in the queue of jobs, because a user may be waiting."""
        run.is_canceled = True
        self._paused_until = 0.0
        self._take_out(run, self._queued.appendleft)

    def _take_out(self, run: _Run, then: Callable[[_Run], object]) -> None:
        """Interrupt the job of a run. If no job is in progress, stop all other work on the run and call `then`."""
        if run.interrupt >= 0:
            with contextlib.suppress(BlockingIOError):
                os.write(run.interrupting, b"c")
        elif run.is_followed:
            self._unfollow(run, then)
        else:
            for others in (self._queued, self._failed):
                with contextlib.suppress(ValueError):
                    others.remove(run)
            then(run)

    def _forget(self, run: _Run) -> None:
        if run.helpers is not None:
            run.helpers.stop_recording(wait=False)  # the directory may have been removed while the script runs
        self._runs.pop(run.name, None)
        self._folder.remove(run.directory)
        run.lock.release()

    # --- Jobs

    def _start_jobs(self, now: float) -> None:
        """Queue the runs whose retry is due, and start as many jobs as allowed."""
        for run in [run for run in self._failed if run.retry_at <= now]:
            self._failed.remove(run)
            self._queued.append(run)
        limit = self._most_jobs if self._paused_until == 0.0 else 1
        while self._queued and self._jobs < limit and now >= self._paused_until:
            run = self._queued.popleft()
            run.interrupt, run.interrupting = waking_pipe()
            self._jobs += 1
            threading.Thread(target=self._work, args=(run,), name=run.directory.run_id, daemon=True).start()

    def _work(self, run: _Run) -> None:
        """Execute the steps of a run that are due, in a thread."""
        controller: Controller | None = None
        error: Exception | None = None
        try:
            with trace.for_run(run.directory.path):
                controller = self._advance(run)
        except Exception as raised:  # an error of one run must not affect other runs
            error = raised
        self._post(partial(self._end_job, run, controller, error))

    def _advance(self, run: _Run) -> Controller | None:
        """Execute the steps up to the start of the script or the end of the run.

        Return the controller if the run is to be followed, and otherwise None.
        """
        controller = Controller(
            run.directory, run.interrupt, patient=False, is_known=self._is_known, helpers=run.helpers
        )
        with contextlib.closing(controller.target), trace.for_agent(controller.record.agent):
            self._most_jobs = controller.target.jobs_at_once
            is_over = run.has_ended and controller.conclude(run.outcome)
            if not is_over:
                if run.has_ended:
                    run.helpers = None  # the next attempt gets new ones
                if controller.must_start and not controller.target.drives_together:
                    run.needs_controller = True
                    return None
                run.directory.make_durable()
                if controller.begin():
                    if controller.target.limits_sweep:
                        queueing.lift_sweep_limit(run.directory)
                    return controller
        controller.keep_copy()
        queueing.leave(run.directory)
        controller.finish_late()
        return None

    def _end_job(self, run: _Run, controller: Controller | None, error: Exception | None) -> None:
        self._jobs -= 1
        os.close(run.interrupt)
        os.close(run.interrupting)
        run.interrupt, run.has_ended, run.outcome = -1, False, None
        if isinstance(error, NotDue):
            if run.directory.cancel_requested:
                self._cancel(run)
                return
            run.retry_at = time.monotonic() + max(0.0, error.due - time.time())
            self._failed.append(run)
            return
        if isinstance(error, TryLater):
            self._paused_until = time.monotonic() + self._unreachable.next()
            self._queued.append(run)  # another run is next, because the error may be specific to this run
            return
        self._paused_until, self._unreachable = 0.0, Backoff()
        if error is not None:
            self._retry(run, error)
        elif run.needs_controller:
            self._start_controller(run)
        elif controller is None:
            self._forget(run)
        elif run.directory.cancel_requested:
            run.is_canceled = True
            self._queued.appendleft(run)
        else:
            self._is_known = True
            self._follow(run, controller)

    def _start_controller(self, run: _Run) -> None:
        """Leave a run to a new controller. If no process can be started, try again with the next scan."""
        self._runs.pop(run.name)
        self._folder.remove(run.directory)  # first, because the controller adds the run again when the script runs
        try:
            starting.detach(run.directory, run.lock)
        except WorkbenchError:
            with contextlib.suppress(StorageError):
                self._folder.add(run.directory)

    def _retry(self, run: _Run, error: Exception) -> None:
        """Retry the steps of a run later, for example if the disk is full."""
        if isinstance(error, (ImportedRun, RunNotFound)) or not os.path.isdir(run.directory.path):
            self._forget(run)
            return
        text = f"{type(error).__name__}: {error}"
        if text != run.error:
            run.error = text
            with contextlib.suppress(StorageError):
                run.directory.append_event("step", step=EVENT, reason=text)
        run.retries = run.retries or Backoff(FIRST_RETRY, LONGEST_RETRY)
        run.retry_at = time.monotonic() + run.retries.next()
        self._failed.append(run)

    # --- Following

    def _follow(self, run: _Run, controller: Controller) -> None:
        run.retries = None
        progress, spec = controller.progress, controller.spec
        progress.interrupted = -1
        progress.on_running = partial(self._post, partial(self._help, run))
        run_id = run.directory.run_id
        group = next((candidate for candidate in self._groups if run_id not in candidate.runs), None)
        if group is None:
            try:
                shared = target_for(spec.target).shared_group(run.directory.path)
                if shared is None:
                    raise ValueError(f"run {run_id} has no group")
                opened = shared.open()
            except Exception as error:  # the code of a target may raise any exception
                self._retry(run, error)
                return
            group = _Group(
                opened,
                lambda group, run_id, outcome: self._post(partial(self._conclude, group, run_id, outcome)),
                lambda group, error: self._post(partial(self._reopen, group, error)),
            )
            self._groups.append(group)
        run.group = group
        group.runs[run_id] = run
        group.thread.add(spec, progress)
        if not controller.target.drives_together:
            self._help(run)  # the script has started, and samples since the end of its controller must be recorded

    def _unfollow(self, run: _Run, then: Callable[[_Run], object]) -> None:
        group, run_id = run.group, run.directory.run_id
        if group is None:
            return

        def end() -> None:
            if run.group is group:  # otherwise, the script has ended
                self._stop_following(group, run_id)
                then(run)

        group.thread.remove(run_id, partial(self._post, end))

    def _stop_following(self, group: _Group, run_id: str) -> _Run | None:
        run = group.runs.pop(run_id, None)
        if run is not None:
            run.group = None
        return run

    def _conclude(self, group: _Group, run_id: str, outcome: Outcome | None) -> None:
        run = self._stop_following(group, run_id)
        if run is not None:
            run.has_ended, run.outcome = True, outcome
            self._queued.append(run)

    def _reopen(self, group: _Group, error: Exception) -> None:
        """Discard a broken group. Its runs are retried, and then followed with another group."""
        self._groups.remove(group)
        for run_id in list(group.runs):
            run = self._stop_following(group, run_id)
            if run is not None:
                self._retry(run, error)

    def _help(self, run: _Run) -> None:
        if run.is_followed and run.helpers is None:
            run.helpers = self._helpers.begin(run.directory)


def _raise_descriptor_limit() -> int:
    """Raise the soft limit of open files to the hard limit, and return the new limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else sys.maxsize


def drive(directory: RunDirectory, lock: ControllerLock) -> None:
    """Drive the runs in the folder of a watcher, as the only task of this process, and release the lock."""
    woken = listen_for_cancel()
    trace.forget_agent()
    # Leave the current folder: it may be removed, and a process in it prevents its disk from being unmounted.
    os.chdir("/")
    with lock:
        Watcher(WatchFolder(directory.path), lock, woken).run()


def main(lock_descriptor: str, path: str) -> None:
    """Drive the runs in the folder at `path` with the inherited lock."""
    drive(RunDirectory(path), starting.inherited_lock(lock_descriptor))


if __name__ == "__main__":
    main(*sys.argv[1:])
