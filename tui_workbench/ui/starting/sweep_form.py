"""The form of a sweep: values of arguments, seeds, and the number of runs at the same time."""

from __future__ import annotations

import shlex
from typing import NamedTuple

from textual import on
from textual.containers import Grid
from textual.widgets import Input, Static

from tui_workbench.core.errors import UsageError
from tui_workbench.core.model import RunRequest, Seeds
from tui_workbench.core.plaintext import counted
from tui_workbench.runs.sweeps.sweep import Member, members_of
from tui_workbench.runs.sweeps.sweep_values import chosen, grid, parse_parameter
from tui_workbench.ui.commands.screen_commands import RUN_EDIT
from tui_workbench.ui.formatting import error_text
from tui_workbench.ui.starting.run_bar import parse_arguments
from tui_workbench.ui.widgets.dialog import DialogScreen, box_of
from tui_workbench.ui.widgets.notice import Notice
from tui_workbench.ui.widgets.text_field import TextField

HELP = "Each combination of the values is a run. Quote values with commas."


class SweepChoice(NamedTuple):
    """The runs of a sweep, and the maximum number of runs at the same time."""

    members: tuple[Member, ...]
    max_parallel: int


class SweepScreen(DialogScreen["SweepChoice | None"], inherit_bindings=False):
    """The form for a sweep of a request. Its result is None if the user cancels."""

    BINDINGS = RUN_EDIT.bindings
    DECLARED_COMMANDS = RUN_EDIT
    about = HELP
    DEFAULT_CSS = """
    SweepScreen > Vertical { max-height: 100%; padding: 1 0 0 0; }
    SweepScreen Grid { grid-size: 2; grid-columns: 16 1fr; grid-rows: 1; height: auto; padding: 0 1; }
    SweepScreen Grid { grid-gutter: 1 0; }
    SweepScreen Notice { height: auto; margin: 1 0 0 0; background: $background; }
    """

    def __init__(self, request: RunRequest) -> None:
        self._request = request
        self._notice = Notice(id="said")
        self.values = TextField(placeholder="lr=0.1,0.01 batch=32,64")
        self.seeds = TextField(placeholder="none; 5 repeats each run with --seed 1 to 5")
        self.random = TextField(placeholder="all combinations; 20 draws 20 of them")
        self.parallel = TextField("1")
        fields = {"Values": self.values, "Seeds": self.seeds, "Random": self.random, "In parallel": self.parallel}
        form = Grid(*(widget for name, field in fields.items() for widget in (Static(name, markup=False), field)))
        super().__init__(box_of(f"Sweep of {request.script}", form, self._notice))

    def on_mount(self) -> None:
        self.set_focus(self.values)
        self._notice.say(HELP)

    def on_notice_changed(self, event: Notice.Changed) -> None:
        event.stop()
        self._notice.styles.height = len(self._notice.lines(self._notice.size.width or 80))

    def _choice(self) -> SweepChoice:
        """Return the runs that the fields describe. Raises UsageError."""
        parameters = [parse_parameter(word) for word in parse_arguments(self.values.value)]
        repeats, drawn = _number("Seeds", self.seeds.value), _number("Random", self.random.value)
        if not parameters and not repeats:
            raise UsageError("the sweep has no values", remedy="Write values such as `lr=0.1,0.01`, or the seeds.")
        if repeats == 1:
            raise UsageError("Seeds: 1 does not repeat anything", remedy="Write 2 or more, or nothing.")
        sets = chosen(parameters, drawn, 0) if drawn else grid(parameters)
        seeds = Seeds(repeats) if repeats else None
        parallel = _number("In parallel", self.parallel.value)
        return SweepChoice(members_of(self._request.arguments, sets, seeds), parallel or 1)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        """Show the number of runs and the first run, or the reason why the values are incomplete."""
        event.stop()
        try:
            members = self._choice().members
        except UsageError as error:
            self._notice.say(error_text(error) if self.values.value or self.seeds.value else HELP)
        else:
            first = shlex.join((self._request.script, *members[0].arguments))
            self._notice.say(f"{counted(len(members), 'run')}, such as: {first}")

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_go()

    def action_go(self) -> None:
        try:
            self.dismiss(self._choice())
        except UsageError as error:
            self._notice.say(error_text(error), wrong=True)

    def action_leave(self) -> None:
        self.dismiss(None)


def _number(name: str, text: str) -> int:
    """Parse a number above 0; "" is 0. Raises UsageError."""
    text = text.strip()
    if text and not (text.isascii() and text.isdigit() and int(text)):
        raise UsageError(f"{name}: {text!r} is not a number above 0", remedy="Write a number such as 5, or nothing.")
    return int(text or 0)
