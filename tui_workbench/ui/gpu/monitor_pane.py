"""The GPU monitor: every GPU of every target at once, live, with the processes on it and whose they are.

It is handed targets and runs, and listens to the targets' machines itself, from a thread, for exactly as long as it can
be seen. It asks for nothing: a machine that needs a login says so, and which key gives it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from textual import on
from textual.app import ComposeResult
from textual.message import Message

from tui_workbench.core import target_types
from tui_workbench.core.model import ComputeTarget, Run
from tui_workbench.runs.gpu.usage import own_processes
from tui_workbench.targets.gpu.fleet import Fleet, MachineState
from tui_workbench.ui.commands.screen_commands import MONITOR
from tui_workbench.ui.formatting import count
from tui_workbench.ui.gpu import gpu_lines as words
from tui_workbench.ui.gpu.gpu_lines import Known
from tui_workbench.ui.gpu.gpu_view import Entry, GpuDetails, GpuView, graph_height
from tui_workbench.ui.messages import CheckRequested
from tui_workbench.ui.terminal.clipboard import copy
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.widgets.field_row import FilterRow
from tui_workbench.ui.widgets.pane import Pane

WITH_DETAILS = 15
"""Lines from which on some are given to the GPU under the cursor."""

LOOK_SECONDS, SLOW_LOOK_SECONDS = 0.5, 1.0
"""Half of the time between two samples, so that none is shown much later than it was taken; all of it for many GPUs."""

IDLE_LOOK_SECONDS = 2.0
MANY_GPUS = 16
TURN_SECONDS = 0.04
"""Between two machines that are shown in turns: a frame or two."""


@dataclass(eq=False)
class GpusSeen(Message):
    """What was told of GPUs since, of all machines.

    `held` are the runs of processes that do not tell it, by the target's name and the process id.
    """

    states: tuple[MachineState, ...]
    held: Mapping[tuple[str, int], str]

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, GpusSeen)


class MonitorPane(Pane):
    """Posts `RunWanted`, `CheckRequested` and `Seen`."""

    number = 7
    title = "GPUs"
    about = (
        "Every GPU of every compute target, looked at once a second by one process a machine. ● is the selected run, "
        "○ another run of yours, ◇ somebody else. A dash is what the driver does not tell."
    )
    BINDINGS = MONITOR.bindings
    DEFAULT_CSS = """
    MonitorPane > GpuDetails { display: none; }
    MonitorPane > GpuDetails.-shown { display: block; }
    """

    @dataclass(eq=False)
    class RunWanted(Message):
        """A run of this user should be shown."""

        run_id: str

    @dataclass(eq=False)
    class Seen(Message):
        """Something was told of GPUs; `text` sums it up, as safe text; `runs` are ours that are on them."""

        text: str
        runs: frozenset[str]
        states: Sequence[MachineState]

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._view = GpuView()
        self._filter = FilterRow("/", "machine, name, user, run, busy, idle, free", self._view)
        self._details = GpuDetails()
        self._targets: Sequence[ComputeTarget] = ()
        self._runs: Sequence[Run] = ()
        self._known = Known()
        self._states: tuple[MachineState, ...] = ()
        self._follower: GpuWatch | None = None

    def compose(self) -> ComposeResult:
        yield self._filter
        yield self._view
        yield self._details

    def take_focus(self) -> None:
        self.screen.set_focus(self._view)

    # --- What is handed down

    def show_targets(self, targets: Sequence[ComputeTarget]) -> None:
        """Watch the GPUs of these targets."""
        self._targets = tuple(targets)
        if self._follower is not None:
            self._follower.follow(self._targets)
        elif self.is_mounted and self.region.size:
            self.on_show()

    def show_runs(self, runs: Sequence[Run], selected: str) -> None:
        """Tell processes of these runs from others; `selected` is the id of the run that is looked at."""
        if runs is self._runs and selected == self._known.selected:
            return
        self._runs = runs
        self._known = self._known._replace(runs={run.run_id: run for run in runs}, selected=selected)
        if self._follower is not None:
            self._follower.follow_runs(runs)
        self._show()

    # --- Watching

    def on_show(self) -> None:
        if self._follower is None and self._targets:
            self._follower = GpuWatch(self._targets, self._runs, self.post_message)

    def on_hide(self) -> None:
        if self._follower is not None:
            self._follower.stop()
            self._follower = None

    on_unmount = on_hide

    def on_gpus_seen(self, event: GpusSeen) -> None:
        event.stop()
        if self._follower is not None:
            self._states = event.states
            self._known = self._known._replace(held=event.held)
            self._show()

    def _show(self) -> None:
        if not self.screen.is_current:
            return
        self._fit()
        self._view.show(self._states, self._known)
        self._show_details()
        text = summary(self._states)
        self.set_title(text)
        self.post_message(self.Seen(text, _runs_on(self._states), self._states))

    @on(GpuView.CursorMoved)
    def _show_details(self) -> None:
        self._details.show(self._view.current, self._known)
        self.refresh_bindings()

    def on_resize(self) -> None:
        self._fit()

    def _fit(self) -> None:
        """Where each GPU has graphs of its own there is no need for more of the one under the cursor."""
        width, height = self.content_size
        has_graphs = bool(graph_height(self._states, width, height))
        self._details.set_class(height >= WITH_DETAILS and not has_graphs, "-shown")

    # --- Commands

    def why_not(self, action: str) -> str:
        entry = self._view.current
        if action == "open" and (entry is None or not entry.run_id):
            return "No run of yours is on what is under the cursor."
        if action in ("copy", "check") and entry is None:
            return "Nothing is under the cursor."
        if action == "retry" and (entry is None or not entry.state.problem):
            return "The machine under the cursor is seen."
        if action == "clear_filter" and not self._filter.display:
            return "There is no filter."
        return ""

    @on(GpuView.Chosen)
    def action_open(self) -> None:
        entry = self._view.current
        if entry is not None and entry.run_id:
            self.post_message(self.RunWanted(entry.run_id))

    def action_check(self) -> None:
        if entry := self._view.current:
            self.post_message(CheckRequested(entry.state.targets[0]))

    def action_retry(self) -> None:
        entry = self._view.current
        if entry is not None and self._follower is not None:
            self._follower.retry(entry.state.key)

    def action_copy(self) -> None:
        if (entry := self._view.current) and copy(self.app, told(entry, self._known)):
            self.app.notify("Copied.", timeout=3.0, markup=False)

    # --- The filter

    def action_filter(self) -> None:
        self._filter.open()

    def action_clear_filter(self) -> None:
        self._filter.clear()

    @on(FilterRow.Changed)
    def _filter_changed(self, event: FilterRow.Changed) -> None:
        self._view.filter(event.text)
        self._show_details()


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
    return tuple(run for run in runs if run.is_active and target_types.find(run.target_type).runs_in_container)


def _runs_on(states: Sequence[MachineState]) -> frozenset[str]:
    samples = [state.sample for state in states if state.sample is not None]
    return frozenset(process.run for sample in samples for process in sample.processes if process.run)


def summary(states: Sequence[MachineState]) -> str:
    """`3 GPUs, 2 at work, 132 W`, and machines that are not seen."""
    devices = sum(map(_gpus_of, states))
    readings = [reading for state in states if state.sample and not state.problem for reading in state.sample.readings]
    at_work = sum((reading.utilization or 0.0) >= words.AT_WORK for reading in readings)
    power = sum(reading.power or 0.0 for reading in readings)
    parts = [count(devices, "GPU")] if devices else []
    parts += [f"{at_work} at work"] if at_work else []
    parts += [words.watts(power)] if power else []
    unseen = sum(bool(state.problem) and not words.has_none(state) for state in states)
    parts += [f"{count(unseen, 'machine')} not seen"] if unseen else []
    return ", ".join(parts)


def told(entry: Entry, known: Known) -> str:
    """What is known of the thing that an entry is about, in one line of plain text."""
    if entry.shown is None:
        lines = [
            "".join(piece.text for piece in line).strip() for line in words.problem_lines(entry.state, words.LONGEST)
        ]
        return safe_text(" ".join([", ".join(entry.state.targets), entry.state.address, *lines]))
    device, reading = entry.shown.device, entry.shown.reading
    parts = [f"{entry.state.targets[0]} GPU {device.number}", device.name, device.uuid]
    process = next((process for process in entry.shown.processes if process.pid == entry.pid), None)
    if process is not None:
        owner = words.whose(process, entry.state, known)
        parts += [f"pid {process.pid}", process.name, owner.text, owner.run_id, words.size(process.memory)]
    elif entry.shown.is_told:
        parts += [
            words.amount(reading.utilization, "%"),
            words.memory(reading.memory, device.memory),
            words.watts(reading.power, device.power_limit),
            words.amount(reading.temperature, "°C"),
            *(text for text, _ in entry.shown.troubles()),
        ]
    return safe_text("  ".join(part for part in parts if part))
