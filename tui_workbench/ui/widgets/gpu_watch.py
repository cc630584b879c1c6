"""Follows the GPUs of targets from a thread, for as long as somebody looks at them.

The invariant: nothing here is waited for by the loop that draws, and once it is stopped nothing is listened to.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tui_workbench.model import ComputeTarget, Run
    from tui_workbench.targets.gpu.fleet import Fleet, MachineState

LOOK_SECONDS, SLOW_LOOK_SECONDS = 0.5, 1.0
"""Half of the time between two samples, so that none is shown much later than it was taken; all of it for many GPUs."""

IDLE_LOOK_SECONDS = 2.0
MANY_GPUS = 16
TURN_SECONDS = 0.04
"""Between two machines that are shown in turns: a frame or two."""


class GpusSeen(Message):
    """What was told of GPUs since, of all machines."""

    def __init__(self, states: tuple[MachineState, ...], held: Mapping[tuple[str, int], str]) -> None:
        """`held` are the runs of processes that do not tell it, by the target's name and the process id."""
        super().__init__()
        self.states = states
        self.held = held

    def can_replace(self, message: Message) -> bool:
        """The newest holds everything."""
        return isinstance(message, GpusSeen)


class GpuWatch:
    """A thread that posts `GpusSeen`. `post` must be callable from any thread."""

    def __init__(
        self, targets: Sequence[ComputeTarget], runs: Iterable[Run], post: Callable[[GpusSeen], object]
    ) -> None:
        self._targets = targets
        self._runs = runs_in_containers(runs)
        self._post = post
        self._wake = threading.Event()
        self._changed = True
        self._stopped = False
        self._retried: list[str] = []
        threading.Thread(target=self._watch, name="GPU watch", daemon=True).start()

    def follow(self, targets: Sequence[ComputeTarget]) -> None:
        """Watch these targets from now on."""
        if targets != self._targets:
            self._targets, self._changed = targets, True
            self._wake.set()

    def follow_runs(self, runs: Iterable[Run]) -> None:
        """Find the processes of these runs from now on."""
        self._runs = runs_in_containers(runs)

    def retry(self, key: str) -> None:
        """Try anew to see the machine of this key."""
        self._retried.append(key)
        self._wake.set()

    def stop(self) -> None:
        """Watch no more. Returns at once."""
        self._stopped = True
        self._wake.set()

    def _watch(self) -> None:
        from tui_workbench.targets.gpu.fleet import Fleet

        with Fleet() as fleet:
            while not self._stopped:
                self._wake.clear()
                is_new = self._changed
                if self._changed:
                    self._changed = False
                    fleet.follow(self._targets)
                    self._post(GpusSeen(fleet.states, {}))
                while self._retried:
                    fleet.retry(self._retried.pop())
                is_news = self._read(fleet)
                if (is_news or is_new) and not self._stopped:
                    self._post(GpusSeen(fleet.states, self._held()))
                self._wake.wait(_pause(fleet.states))

    def _read(self, fleet: Fleet) -> bool:
        """Whether there is news that was not posted. News of many GPUs is posted in turns, so that keys get theirs."""
        told = 0
        is_news = False
        for is_told, state in zip(fleet.read_each(), fleet.states, strict=True):
            is_news |= is_told
            told += _gpus_of(state) if is_told else 0
            if told > MANY_GPUS and not self._stopped:
                self._post(GpusSeen(fleet.states, self._held()))
                self._wake.wait(TURN_SECONDS)
                told, is_news = 0, False
        return is_news

    def _held(self) -> dict[tuple[str, int], str]:
        from tui_workbench.runs.gpu.holding import own_processes

        return {(run.target, pid): run.run_id for run in self._runs for pid in own_processes(run.directory)}


def _pause(states: Sequence[MachineState]) -> float:
    """Seconds until the next look."""
    if sum(map(_gpus_of, states)) > MANY_GPUS:
        return SLOW_LOOK_SECONDS
    # Where all have said that there is nothing to see, hardly anything will come.
    is_over = all(state.problem and not _gpus_of(state) for state in states)
    return IDLE_LOOK_SECONDS if is_over else LOOK_SECONDS


def _gpus_of(state: MachineState) -> int:
    return len(state.machine.devices) if state.machine else 0


def runs_in_containers(runs: Iterable[Run]) -> tuple[Run, ...]:
    """The active runs whose processes are somebody else's, who lets nobody read their environment."""
    return tuple(run for run in runs if run.is_active and run.target_type.endswith("docker"))
