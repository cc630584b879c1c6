"""The GPU monitor: every GPU of every target at once, live, with the processes on it and whose they are.

It is handed targets and runs, and listens to the targets' machines itself, from a thread, for exactly as long as it can
be seen. It asks for nothing: a machine that needs a login says so, and which key gives it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.message import Message
from textual.widgets import Input

from tui_workbench.ui.clipboard import copy
from tui_workbench.ui.commands import bindings
from tui_workbench.ui.gpu_commands import MONITOR
from tui_workbench.ui.messages import CheckWanted
from tui_workbench.ui.panes.pane import Pane
from tui_workbench.ui.safetext import safe_text
from tui_workbench.ui.widgets import gpu_words as words
from tui_workbench.ui.widgets.field_row import FieldRow
from tui_workbench.ui.widgets.gpu_layout import graph_height
from tui_workbench.ui.widgets.gpu_view import GpuDetails, GpuView
from tui_workbench.ui.widgets.gpu_watch import GpusSeen, GpuWatch
from tui_workbench.ui.widgets.gpu_words import Known
from tui_workbench.ui.widgets.text_field import SearchField
from tui_workbench.ui.words import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tui_workbench.model import ComputeTarget, Run
    from tui_workbench.targets.gpu.fleet import MachineState
    from tui_workbench.ui.widgets.gpu_layout import Entry

WITH_DETAILS = 15
"""Lines from which on some are given to the GPU under the cursor."""


class MonitorPane(Pane):
    """Posts `RunWanted`, `CheckWanted` and `Seen`."""

    number = 7
    title = "GPUs"
    about = (
        "Every GPU of every compute target, looked at once a second by one process a machine. ● is the selected run, "
        "○ another run of yours, ◇ somebody else. A dash is what the driver does not tell."
    )
    BINDINGS: ClassVar[list[BindingType]] = bindings(MONITOR)
    DEFAULT_CSS = """
    MonitorPane > GpuDetails { display: none; }
    MonitorPane > GpuDetails.-shown { display: block; }
    """

    class RunWanted(Message):
        """One wants to see this run of ours."""

        def __init__(self, run_id: str) -> None:
            super().__init__()
            self.run_id = run_id

    class Seen(Message):
        """Something was told of GPUs; `text` sums it up, as safe text; `runs` are ours that are on them."""

        def __init__(self, text: str, runs: frozenset[str]) -> None:
            super().__init__()
            self.text = text
            self.runs = runs

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._filter = FieldRow("/", "machine, name, user, run, busy, idle, free")
        self._view = GpuView()
        self._details = GpuDetails()
        self._targets: Sequence[ComputeTarget] = ()
        self._runs: Sequence[Run] = ()
        self._known = Known()
        self._states: tuple[MachineState, ...] = ()
        self._follower: GpuWatch | None = None

    def compose(self) -> ComposeResult:
        """The filter, the GPUs, and what is known of the one under the cursor."""
        yield self._filter
        yield self._view
        yield self._details

    def take_focus(self) -> None:
        """To the GPUs."""
        self.screen.set_focus(self._view)

    # --- What is handed down

    def show_targets(self, targets: Sequence[ComputeTarget]) -> None:
        """Watch the GPUs of these targets."""
        self._targets = tuple(targets)
        if self._follower is not None:
            self._follower.follow(self._targets)
        elif self.is_mounted and self._can_be_seen:
            self._begin()

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

    @property
    def _can_be_seen(self) -> bool:
        return bool(self.region.size)

    @property
    def is_watching(self) -> bool:
        """Whether machines are listened to."""
        return self._follower is not None

    def on_show(self) -> None:
        """It can be seen from now on."""
        self._begin()

    def on_hide(self) -> None:
        """Nobody looks any more."""
        self._end()

    def on_unmount(self) -> None:
        """Nobody looks any more."""
        self._end()

    def _begin(self) -> None:
        if self._follower is None and self._targets:
            self._follower = GpuWatch(self._targets, self._runs, self.post_message)

    def _end(self) -> None:
        if self._follower is not None:
            self._follower.stop()
            self._follower = None

    def on_gpus_seen(self, event: GpusSeen) -> None:
        """Something was told."""
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
        self.post_message(self.Seen(text, _runs_on(self._states)))
        self.refresh_bindings()

    def _show_details(self) -> None:
        self._details.show(self._view.current, self._known)

    def on_resize(self) -> None:
        """There may be room for more now."""
        self._fit()

    def _fit(self) -> None:
        """Where each GPU has graphs of its own there is no need for more of the one under the cursor."""
        width, height = self.content_size
        has_graphs = bool(graph_height(self._states, width, height))
        self._details.set_class(height >= WITH_DETAILS and not has_graphs, "-shown")

    @on(GpuView.CursorMoved)
    def _cursor_moved(self, event: GpuView.CursorMoved) -> None:
        event.stop()
        self._show_details()
        self.refresh_bindings()

    @on(GpuView.Chosen)
    def _chosen(self, event: GpuView.Chosen) -> None:
        event.stop()
        self.action_open()

    # --- Commands

    def why_not(self, action: str) -> str:
        """Why a command is not available now."""
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

    def action_open(self) -> None:
        """Go to the run."""
        entry = self._view.current
        if entry is not None and entry.run_id:
            self.post_message(self.RunWanted(entry.run_id))

    def action_check(self) -> None:
        """Check the machine under the cursor."""
        if entry := self._view.current:
            self.post_message(CheckWanted(entry.state.targets[0]))

    def action_retry(self) -> None:
        """Try to see the machine under the cursor."""
        entry = self._view.current
        if entry is not None and self._follower is not None:
            self._follower.retry(entry.state.key)

    def action_copy(self) -> None:
        """Copy what is under the cursor."""
        if (entry := self._view.current) and copy(self.app, told(entry, self._known)):
            self.app.notify("Copied.", timeout=3.0, markup=False)

    # --- The filter

    def action_filter(self) -> None:
        """Type what to show."""
        self._filter.open()

    def action_clear_filter(self) -> None:
        """Show all."""
        self._filter.field.value = ""
        self._filter.close()
        self.take_focus()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._view.filter(event.value)
        self._show_details()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if not event.value:
            self._filter.close()
        self.take_focus()

    @on(SearchField.Left)
    def _field_left(self, event: SearchField.Left) -> None:
        event.stop()
        self.action_clear_filter()

    @on(SearchField.Stepped)
    def _stepped(self, event: SearchField.Stepped) -> None:
        event.stop()
        self._view.step(event.rows)


def _runs_on(states: Sequence[MachineState]) -> frozenset[str]:
    samples = [state.sample for state in states if state.sample is not None]
    return frozenset(process.run for sample in samples for process in sample.processes if process.run)


def summary(states: Sequence[MachineState]) -> str:
    """`3 GPUs, 2 at work, 132 W`, and machines that are not seen."""
    devices = sum(len(state.machine.devices) for state in states if state.machine)
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
        lines = [text.strip() for text, _ in words.problem_lines(entry.state, words.LONGEST)]
        return safe_text(" ".join([", ".join(entry.state.targets), entry.state.address, *lines]))
    device, reading = entry.shown.device, entry.shown.reading
    parts = [f"{entry.state.targets[0]} GPU {device.number}", device.name, device.uuid]
    process = next((process for process in entry.shown.processes if process.pid == entry.pid), None)
    if process is not None:
        owner = words.whose(process, entry.state, known)
        parts += [f"pid {process.pid}", process.name, owner.text, owner.run_id, words.size(process.memory)]
    elif reading is not None:
        parts += [
            words.percent(reading.utilization).strip(),
            words.memory(reading.memory, device.memory),
            words.watts(reading.power, device.power_limit),
            words.degrees(reading.temperature),
            *(text for text, _ in words.troubles(entry.state, device, reading)),
        ]
    return safe_text("  ".join(part for part in parts if part))
