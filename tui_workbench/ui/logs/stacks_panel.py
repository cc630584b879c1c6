"""The Python stacks of a run, below the end of its log."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from functools import partial

from textual.content import Content
from textual.message import Message

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import Run
from tui_workbench.runs.stacks import (
    Stacks,
    has_several_nodes,
    is_library,
    last_stacks,
    left_out_text,
    place_of,
    process_title,
    rank_places,
    take_stacks,
    thread_state,
    why_no_stacks,
)
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.targets.hosts.stacks import Frame, NamedProcess
from tui_workbench.ui.blocking import CallQueue
from tui_workbench.ui.commands.main_commands import STACKS
from tui_workbench.ui.formatting import capitalized
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.widgets.pieces import Piece
from tui_workbench.ui.widgets.text_view import Line, TextView

READING = "Reading the Python stacks of all processes."
_IN = Piece(", in ", "muted")


class StacksPanel(TextView):
    """The Python stacks of a run; hidden until `show_run`."""

    class Closed(Message):
        """Posted when the user closes the stacks."""

    heading = "Python stacks"
    about = (
        "The current Python calls of all ranks, data loader workers and threads of the run. The most recent call is "
        "first. The script is not paused. The stacks are kept with the run; for an ended run, the last stacks are "
        "shown."
    )
    BINDINGS = STACKS.bindings
    DEFAULT_CSS = """
    StacksPanel { height: 60%; display: none; border-top: solid $border-blurred; border-title-color: $text-muted; }
    StacksPanel:focus { border-top: solid $border; border-title-color: $border; }
    """

    def __init__(self) -> None:
        super().__init__(wraps=True)
        self._run: Run | None = None
        self._calls = CallQueue(self)

    def show_run(self, run: Run) -> None:
        """Read and show the stacks of an active run, or show the last stacks of an ended run."""
        self._run, self.display = run, True
        self.border_title = Content(self.heading)
        self.show([(Piece(READING, "muted"),)])
        self._calls.add(partial(_read, run), partial(self._show, run.run_id))

    def _show(self, run_id: str, stacks: tuple[str, list[Line]]) -> None:
        if self.is_attached and self._run is not None and self._run.run_id == run_id:
            title, lines = stacks
            self.border_title = Content(title)
            self.show(lines)

    def hide(self) -> None:
        self._run, self.display = None, False

    def update_run(self, run: Run) -> None:
        """Update the state of the shown run."""
        if self._run is not None:
            self._run = run
            self.refresh_bindings()

    def why_not(self, action: str) -> str:
        if action == "read_again" and self._run is not None:
            return why_not_read(self._run)
        return super().why_not(action)

    def action_close_stacks(self) -> None:
        self.post_message(self.Closed())

    def action_read_again(self) -> None:
        if self._run is not None:
            self.show_run(self._run)


def why_not_read(run: Run) -> str:
    """Return the reason why the stacks of a run cannot be read now, as a sentence; "" if they can be read."""
    reason = why_no_stacks(run)
    return f"{capitalized(reason)}." if reason else ""


def _read(run: Run) -> tuple[str, list[Line]]:
    """Return a title and the lines of the stacks, or of the error."""
    try:
        stacks = take_stacks(RunDirectory(run.directory)) if run.is_active else last_stacks(run.directory)
    except WorkbenchError as error:
        lines: list[Line] = [(Piece(f"✗ {safe_text(error.message)}.", "error"),)]
        return StacksPanel.heading, [*lines, *((Piece(safe_text(line)),) for line in error.remedy.split("\n"))]
    moment = time.strftime("%H:%M:%S", time.localtime(stacks.time))
    return f"{StacksPanel.heading} at {moment}", list(stack_lines(stacks))


def stack_lines(stacks: Stacks) -> Iterator[Line]:
    """Yield the lines of the stacks: the calls that the ranks execute, and then each process with its threads."""
    calls_of_ranks = rank_places(stacks.processes)
    for ranks, frames in calls_of_ranks:
        own, *inside = map(_frame, frames)
        yield (Piece(f"{ranks}: ", "accent", bold=True), *own, *(piece for call in inside for piece in (_IN, *call)))
    if calls_of_ranks:
        yield ()
    has_nodes = has_several_nodes(stacks.processes)
    for process in stacks.processes:
        yield from _process(process, has_nodes=has_nodes)
    if left_out := left_out_text(stacks):
        yield (Piece(left_out, "warning"),)


def _process(named: NamedProcess, *, has_nodes: bool) -> Iterator[Line]:
    title = safe_text(process_title(named, has_nodes=has_nodes))
    yield Piece(title, "accent", bold=True), Piece(f"  {safe_text(shlex.join(named.stacks.command))}", "muted")
    if named.stacks.problem:
        yield (Piece(f"  not read: {safe_text(named.stacks.problem)}", "warning"),)
    for thread in named.stacks.threads:
        role = "success" if thread.is_active else "muted"
        yield Piece(f"  {safe_text(thread.name) or 'thread'}", bold=True), Piece(f"  {thread_state(thread)}", role)
        for frame in thread.frames:
            yield Piece("    "), *_frame(frame)
    yield ()


def _frame(frame: Frame) -> Line:
    """Return a call; calls in libraries are less prominent than those of the project."""
    is_own = not is_library(frame)
    name = Piece(safe_text(frame.function), "text" if is_own else "muted", bold=is_own)
    return name, Piece(f" ({safe_text(place_of(frame))})", "string" if is_own else "muted")
