"""The GPU monitor: the live state of all GPUs of all targets, with processes and their owners.

A thread reads the machines while the pane is visible. It never asks for a login, and never connects to a machine that
the user has not contacted. For such a machine, or one that needs a login, the pane shows the key to press.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from textual import on, work
from textual.app import ComposeResult
from textual.message import Message

from tui_workbench.core import target_types
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import ComputeTarget, Run
from tui_workbench.core.plaintext import counted
from tui_workbench.runs.gpu.run_verdict import is_stalled
from tui_workbench.runs.gpu.usage import own_processes
from tui_workbench.targets.gpu.fleet import Fleet, MachineState
from tui_workbench.targets.gpu.holding import Holder, Holding, parse_duration
from tui_workbench.ui import units
from tui_workbench.ui.blocking import in_thread
from tui_workbench.ui.commands.screen_commands import MONITOR
from tui_workbench.ui.formatting import error_text
from tui_workbench.ui.gpu import gpu_lines
from tui_workbench.ui.gpu.cluster_view import ClusterView
from tui_workbench.ui.gpu.gpu_lines import KnownRuns
from tui_workbench.ui.gpu.gpu_view import Entry, GpuDetails, GpuView, graph_height
from tui_workbench.ui.run_messages import CheckRequested
from tui_workbench.ui.terminal.clipboard import copy
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.widgets.field_row import FilterRow, PromptRow
from tui_workbench.ui.widgets.pane import Pane

WITH_DETAILS = 15  # minimum height at which details of the selected GPU are shown

POLL_SECONDS, SLOW_POLL_SECONDS = 0.5, 1.0
"""Half of the sampling interval, so that samples are shown early; the whole interval for many GPUs."""

IDLE_POLL_SECONDS = 2.0
MANY_GPUS = 16
VERDICT_SECONDS = 5.0  # seconds between two checks for stalled runs
PAUSE_SECONDS = 0.04  # pause after each group of `MANY_GPUS` updated GPUs, in which the screen can handle keys


@dataclass(eq=False)
class GpusSeen(Message):
    """The states of all machines. `held` and `stalled` are described in `KnownRuns`."""

    states: tuple[MachineState, ...]
    held: Mapping[tuple[str, int], str]
    stalled: frozenset[str] = frozenset()

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, GpusSeen)


class MonitorPane(Pane):
    """The pane of the GPUs of all targets. Posts `RunOpened`, `CheckRequested` and `Updated`."""

    number = 7
    title = "GPUs"
    about = (
        "All GPUs of all compute targets, sampled once a second. ● is the selected run, ○ another run of yours, "
        "■ a stalled run, ◇ another user or process. — means that the driver does not report the value. For a Slurm "
        "cluster, the pane shows the GPUs of each partition and the nodes of your jobs, updated every 30 seconds."
    )
    BINDINGS = MONITOR.bindings
    DEFAULT_CSS = """
    MonitorPane > GpuDetails { display: none; }
    MonitorPane > GpuDetails.-shown { display: block; }
    """

    @dataclass(eq=False)
    class RunOpened(Message):
        """Posted when the user opens a run."""

        run_id: str

    @dataclass(eq=False)
    class Updated(Message):
        """Posted with new values: a summary (safe text), the IDs of the user's runs on GPUs, and the machine states."""

        text: str
        runs: frozenset[str]
        states: Sequence[MachineState]

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._view = GpuView()
        self._filter = FilterRow("/", "machine, partition, name, user, run, busy, idle, free", self._view)
        self._details = GpuDetails()
        self._clusters = ClusterView()
        self._prompt = PromptRow()
        self._targets: Sequence[ComputeTarget] = ()
        self._runs: Sequence[Run] = ()
        self._known_runs = KnownRuns()
        self._states: tuple[MachineState, ...] = ()
        self._watch: GpuWatch | None = None

    def compose(self) -> ComposeResult:
        yield self._filter
        yield self._view
        yield self._clusters
        yield self._details
        yield self._prompt

    def take_focus(self) -> None:
        self.screen.set_focus(self._view)

    def show_targets(self, targets: Sequence[ComputeTarget]) -> None:
        self._targets = tuple(targets)
        self._clusters.show_targets(self._targets)
        if any(target.kind.has_scheduler for target in self._targets):
            self._view.empty = ()
            has_machines = any(target.problem is not None or target.kind.has_gpus for target in self._targets)
            self._view.styles.height = "1fr" if has_machines else 1
            if not has_machines and self._view.has_focus:
                self.screen.set_focus(self._clusters.text)  # so that the keys scroll it
        if self._watch is not None:
            self._watch.follow(self._targets)
        elif self.is_mounted and self.region.size:
            self.on_show()

    def show_runs(self, runs: Sequence[Run], selected: str) -> None:
        """Set the runs whose processes are recognized; `selected` is the ID of the selected run."""
        if runs is self._runs and selected == self._known_runs.selected:
            return
        self._runs = runs
        self._clusters.show_runs(runs)
        self._known_runs = self._known_runs._replace(by_id={run.run_id: run for run in runs}, selected=selected)
        if self._watch is not None:
            self._watch.follow_runs(runs)
        self._show()

    def on_show(self) -> None:
        self._clusters.follow(is_visible=True)
        if self._watch is None and self._targets:
            self._watch = GpuWatch(self._targets, self._runs, self.post_message)

    def on_hide(self) -> None:
        self._clusters.follow(is_visible=False)
        if self._watch is not None:
            self._watch.stop()
            self._watch = None

    on_unmount = on_hide

    def on_gpus_seen(self, event: GpusSeen) -> None:
        event.stop()
        if self._watch is not None:
            self._states = event.states
            self._known_runs = self._known_runs._replace(held=event.held, stalled=event.stalled)
            self._show()

    def _show(self) -> None:
        if not self.screen.is_current:
            return
        self._fit()
        self._view.show(self._states, self._known_runs)
        self._show_details()
        text = summary(self._states)
        self.set_title(text)
        samples = [state.sample for state in self._states if state.sample is not None]
        run_ids = frozenset(process.run for sample in samples for process in sample.processes if process.run)
        self.post_message(self.Updated(text, run_ids, self._states))

    @on(GpuView.CursorMoved)
    def _show_details(self) -> None:
        self._details.show(self._view.current, self._known_runs)
        self.refresh_bindings()

    def on_resize(self) -> None:
        self._fit()

    def _fit(self) -> None:
        """Show the details if there is room for them and the GPUs in the list have no graphs."""
        width, height = self.content_size
        has_graphs = bool(graph_height(self._states, width, height))
        has_gpus = any(map(_gpu_count, self._states))
        self._details.set_class(height >= WITH_DETAILS and not has_graphs and has_gpus, "-shown")

    # --- Commands

    def why_not(self, action: str) -> str:
        entry = self._view.current
        if action == "open" and (entry is None or not entry.run_id):
            return "No run of yours is selected."
        if action in ("copy", "check", "retry") and entry is None:
            return "No GPU selected."
        if action == "retry" and entry is not None and not entry.state.problem:
            return "This machine has no problem."
        if action in ("reserve", "release"):
            return self._why_not_reserve(entry, action)
        if action == "clear_filter" and not self._filter.display:
            return "No filter is set."
        return ""

    @on(GpuView.Chosen)
    def action_open(self) -> None:
        entry = self._view.current
        if entry is not None and entry.run_id:
            self.post_message(self.RunOpened(entry.run_id))

    def action_check(self) -> None:
        if entry := self._view.current:
            self.post_message(CheckRequested(entry.state.targets[0]))

    def action_retry(self) -> None:
        entry = self._view.current
        if entry is not None and self._watch is not None:
            self._watch.retry(entry.state.key)

    def _why_not_reserve(self, entry: Entry | None, action: str) -> str:
        if entry is None or entry.gpu is None:
            return "No GPU selected."
        if not entry.state.is_shared:
            return "gpuReservations of this target is not set, so no other user would see a reservation."
        held = entry.gpu.held
        if held is not None and held.until and not held.is_own:
            return f"This GPU is reserved by {safe_text(held.text)}."
        if action == "release" and (held is None or not held.until):
            return "You have not reserved this GPU."
        return ""

    def action_reserve(self) -> None:
        if (entry := self._view.current) is None or entry.gpu is None:
            return
        number, held = entry.gpu.device.number, entry.gpu.held
        if held is not None and held.until:
            label = f"GPU {number} is yours until {held.until}. Extend it by"
        else:
            label = f"Reserve GPU {number} for (30m, 3h, 2d)"
        self._prompt.ask(label, "", partial(self._reserve, entry.state, number, is_held=bool(held and held.until)))

    def _reserve(self, state: MachineState, number: int, text: str, *, is_held: bool) -> None:
        def change(holding: Holding) -> Sequence[Holder]:
            seconds = parse_duration(text.strip())
            return holding.extend(seconds, [number]) if is_held else holding.reserve(seconds, numbers=[number])

        self._change(state, change, "reserved")

    def action_release(self) -> None:
        if (entry := self._view.current) is not None and entry.gpu is not None:
            number = entry.gpu.device.number
            self._change(entry.state, lambda holding: holding.release([number]), "released")

    @work(group="reservations")
    async def _change(self, state: MachineState, call: Callable[[Holding], Sequence[Holder]], verb: str) -> None:
        """Change the reservations of a machine in a thread, and show the result or the error."""
        sharing = (target for target in self._targets if target.name in state.targets and target.gpu_reservations)
        if (target := next(sharing, None)) is None:
            return
        try:
            holders = await in_thread(lambda: call(Holding(target)))
            end = f" until {holders[0].until}" if verb == "reserved" else ""
            self.app.notify(f"GPU {holders[0].gpu} is {verb}{end}.", timeout=6.0, markup=False)
        except WorkbenchError as error:
            self.app.notify(safe_text(error_text(error)), severity="error", timeout=12.0, markup=False)
        if self._watch is not None:
            self._watch.refresh_reservations(state.key)

    def action_copy(self) -> None:
        if (entry := self._view.current) and copy(self.app, entry_text(entry, self._known_runs)):
            self.app.notify("Copied.", timeout=3.0, markup=False)

    def action_filter(self) -> None:
        self._filter.open()

    def action_clear_filter(self) -> None:
        self._filter.clear()

    @on(FilterRow.Changed)
    def _filter_changed(self, event: FilterRow.Changed) -> None:
        self._view.filter(event.text)
        self._clusters.filter(event.text)
        self._show_details()


class GpuWatch:
    """A thread that reads the machines and posts `GpusSeen`. `post` must be thread-safe."""

    def __init__(
        self, targets: Sequence[ComputeTarget], runs: Iterable[Run], post: Callable[[GpusSeen], object]
    ) -> None:
        self._targets = targets
        self._stalled: frozenset[str] = frozenset()
        self._verdicts_due = 0.0
        self.follow_runs(runs)
        self._post = post
        self._wake = threading.Event()
        self._changed = True
        self._stopped = False
        # Keys of machines: the event loop appends them, and the thread removes them. Both operations are atomic.
        self._retried: list[str] = []
        self._changed_reservations: list[str] = []
        threading.Thread(target=self._watch, name="GPU watch", daemon=True).start()

    def follow(self, targets: Sequence[ComputeTarget]) -> None:
        if targets != self._targets:
            self._targets, self._changed = targets, True
            self._wake.set()

    def follow_runs(self, runs: Iterable[Run]) -> None:
        self._active = tuple(run for run in runs if run.is_active)
        # Processes in containers do not show their run ID to this user.
        self._in_containers = tuple(run for run in self._active if target_types.find(run.target_type).runs_in_container)

    def retry(self, key: str) -> None:
        self._retried.append(key)
        self._wake.set()

    def refresh_reservations(self, key: str) -> None:
        self._changed_reservations.append(key)
        self._wake.set()

    def stop(self) -> None:
        """Stop watching, without waiting for the thread."""
        self._stopped = True
        self._wake.set()

    def _watch(self) -> None:
        with Fleet() as fleet:
            while not self._stopped:
                # Cleared before the requests are read, so that a later request ends the wait below.
                self._wake.clear()
                is_new = self._changed
                if self._changed:
                    self._changed = False
                    fleet.follow(self._targets)
                    self._post(GpusSeen(fleet.states, {}, self._stalled))
                while self._retried:
                    fleet.retry(self._retried.pop())
                while self._changed_reservations:
                    fleet.refresh_reservations(self._changed_reservations.pop())
                has_news = self._read(fleet)
                if (has_news or is_new) and not self._stopped:
                    self._post(self._seen(fleet))
                self._wake.wait(_pause(fleet.states))

    def _read(self, fleet: Fleet) -> bool:
        """Read all machines, and post states after every `MANY_GPUS` updated GPUs.

        Return True if there are new states left to post.
        """
        updated = 0
        has_news = False
        for is_new, state in zip(fleet.read_each(), fleet.states, strict=True):
            has_news |= is_new
            updated += _gpu_count(state) if is_new else 0
            if updated > MANY_GPUS and not self._stopped:
                self._post(self._seen(fleet))
                self._wake.wait(PAUSE_SECONDS)
                updated, has_news = 0, False
        return has_news

    def _seen(self, fleet: Fleet) -> GpusSeen:
        now = time.monotonic()
        if now >= self._verdicts_due:
            self._stalled = frozenset(run.run_id for run in self._active if is_stalled(run.directory))
            self._verdicts_due = now + VERDICT_SECONDS
        runs = self._in_containers
        held = {(run.target, pid): run.run_id for run in runs for pid in own_processes(run.directory)}
        return GpusSeen(fleet.states, held, self._stalled)


def _pause(states: Sequence[MachineState]) -> float:
    """Return the seconds until the next poll."""
    if sum(map(_gpu_count, states)) > MANY_GPUS:
        return SLOW_POLL_SECONDS
    # Machines without GPUs seldom change.
    is_idle = all(state.problem and not _gpu_count(state) for state in states)
    return IDLE_POLL_SECONDS if is_idle else POLL_SECONDS


def _gpu_count(state: MachineState) -> int:
    return len(state.machine.devices) if state.machine else 0


def summary(states: Sequence[MachineState]) -> str:
    """Summarize the GPUs: `3 GPUs, 2 busy, 132 W, 1 machine unavailable`."""
    devices = sum(map(_gpu_count, states))
    readings = [reading for state in states if state.sample and not state.problem for reading in state.sample.readings]
    busy = sum((reading.utilization or 0.0) >= gpu_lines.BUSY_PERCENT for reading in readings)
    power = sum(reading.power or 0.0 for reading in readings)
    parts = [counted(devices, "GPU")] if devices else []
    parts += [f"{busy} busy"] if busy else []
    parts += [units.watts(power)] if power else []
    unknown = sum(not state.is_contacted for state in states)
    missing = sum(bool(state.problem) and not gpu_lines.has_no_gpus(state) for state in states) - unknown
    parts += [f"{counted(missing, 'machine')} unavailable"] if missing else []
    parts += [f"{counted(unknown, 'machine')} not contacted"] if unknown else []
    return ", ".join(parts)


def entry_text(entry: Entry, runs: KnownRuns) -> str:
    """Describe the machine, GPU or process of an entry in one line of plain text."""
    if entry.gpu is None:
        lines = [
            "".join(piece.text for piece in line).strip()
            for line in gpu_lines.problem_lines(entry.state, gpu_lines.LONGEST)
        ]
        return safe_text(" ".join([", ".join(entry.state.targets), entry.state.address, *lines]))
    device, reading = entry.gpu.device, entry.gpu.reading
    parts = [f"{entry.state.targets[0]} GPU {device.number}", device.name, device.uuid]
    process = next((process for process in entry.gpu.processes if process.pid == entry.pid), None)
    if process is not None:
        owner = gpu_lines.owner_of(process, entry.state, runs)
        parts += [f"pid {process.pid}", process.name, owner.text, owner.run_id, units.size(process.memory)]
    elif entry.gpu.is_reported:
        parts += [
            units.amount(reading.utilization, "%"),
            units.memory(reading.memory, device.memory),
            units.watts(reading.power, device.power_limit),
            units.amount(reading.temperature, "°C"),
            *(text for text, _ in entry.gpu.troubles()),
        ]
    if entry.gpu.held is not None:
        parts.append(f"reserved by {entry.gpu.held.text}")
    return safe_text("  ".join(part for part in parts if part))
