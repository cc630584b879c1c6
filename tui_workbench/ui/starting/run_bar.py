"""The run bar: which run configuration, which script, which arguments, and the button; below them what a run would use.

It is the one place that holds what the next run will be asked for. It is handed configurations, scripts and past
runs, and posts `RequestChanged` whenever the request is another, so that the screen can look whether it would work
before it is run.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Label

from tui_workbench.core.errors import UsageError, WorkbenchError
from tui_workbench.core.masking import mask_words
from tui_workbench.core.model import ComputeTarget, Plan, Run, RunConfiguration, RunRequest
from tui_workbench.targets.gpu.gpus import asked_for
from tui_workbench.ui.commands.command import shown_key
from tui_workbench.ui.commands.main_commands import ARGUMENTS, RUN_BAR, RUN_BUTTON
from tui_workbench.ui.messages import RequestChanged, RunBarRequested, RunRequested
from tui_workbench.ui.session_state import Values
from tui_workbench.ui.terminal.safetext import safe_text, truncate_middle
from tui_workbench.ui.widgets.choice_field import ChoiceField
from tui_workbench.ui.widgets.line import Line
from tui_workbench.ui.widgets.notice import Notice
from tui_workbench.ui.widgets.pieces import Piece, Row
from tui_workbench.ui.widgets.text_field import TextField

FILE_VARIABLE = "$file"
"""Stands in an ArgumentVector for the script that is chosen here."""

HISTORY_RUNS = 500
"""Past runs whose arguments can be brought back."""

USUAL_SCRIPTS = ("train.py", "main.py", "run.py")
"""What is taken for the script when the configuration names none, in this order; else the first one."""

_BESIDE = 34
"""Cells that the words and the button of a `RequestLine` take."""


class ArgumentsField(TextField):
    """The arguments of the script, with the ones of earlier runs under up and down."""

    BINDINGS = ARGUMENTS.bindings

    def __init__(self) -> None:
        super().__init__(placeholder="arguments", id="arguments")
        self.history: list[str] = []  # the arguments of earlier runs, newest first
        self._place = -1
        self._typed = ""

    def action_older(self) -> None:
        """Go back a run; arguments that are the same as those shown are passed over."""
        for place in range(self._place + 1, len(self.history)):
            if self.history[place] != self.value:
                self._go_to(place)
                return

    def action_newer(self) -> None:
        """Go forward a run, in the end to what was typed."""
        if self._place >= 0:
            self._go_to(self._place - 1)

    def _go_to(self, place: int) -> None:
        if self._place < 0:
            self._typed = self.value
        self._place = place
        self.value = self._typed if place < 0 else self.history[place]
        self.cursor_position = len(self.value)


class RunButton(Line, can_focus=True):
    """Starts the run."""

    DEFAULT_CSS = "RunButton { width: 15; }"
    BINDINGS = RUN_BUTTON.bindings

    def pieces(self, width: int) -> tuple[Sequence[Piece], Sequence[Piece]]:
        quiet = "text" if self.has_focus else "muted"
        key = shown_key("run.start", "ctrl+r")
        return [Piece(" ▶ Run", "text" if self.has_focus else "success", bold=True), Piece(f"  {key} ", quiet)], ()

    def background_role(self) -> str:
        return "selected" if self.has_focus else "marked"

    @on(events.Click)
    def _button_clicked(self, event: events.Click) -> None:
        event.stop()
        self.action_press()

    def action_press(self) -> None:
        self.post_message(RunRequested())


class RunBar(Widget, inherit_bindings=False):
    """Holds the request of the next run."""

    heading = "Run bar"
    about = (
        f"What {shown_key('run.start', 'ctrl+r')} runs, and where. "
        "The environment is a .runconfig file of aml_config: it names the compute target "
        "and may bring a script and arguments. The line below says what a run would use, or what is wrong with it."
    )
    BINDINGS = RUN_BAR.bindings
    DEFAULT_CSS = """
    RunBar { layout: vertical; background: $panel; }
    RunBar > Horizontal { height: 1; }
    RunBar > Notice { height: 1fr; }
    RunBar Label { color: $text-muted; }
    .-narrow RunBar Label { display: none; }
    RunBar ChoiceField { margin: 0 1; max-width: 30%; }
    RunBar ArgumentsField.-textual-compact { width: 1fr; margin: 0 1; background: $block-hover-background; }
    RunBar ArgumentsField.-textual-compact:focus { background: $block-cursor-background; }
    """

    class Left(Message):
        """Escape was pressed: the focus should go back to where it was."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._environment = ChoiceField(self._choose, placeholder="no environment", id="environment")
        self._script = ChoiceField(self.choose_script, placeholder="no script", free="use", id="script")
        self._arguments = ArgumentsField()
        self.notice = Notice(id="notice")
        self._configurations: dict[str, RunConfiguration] = {}
        self._targets: dict[str, ComputeTarget] = {}
        self._scripts: list[str] = []
        self._runs: Sequence[Run] = ()
        self._posted: RunRequest | None = None
        self._state = ("", False)  # about the request: what the run would use, or why it cannot start (True)
        self._known: set[str] = set()

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield Label(" Run on")
            yield self._environment
            yield self._script
            yield self._arguments
            yield RunButton()
        yield self.notice

    @property
    def script(self) -> str:
        """The chosen script; empty when there is none."""
        return self._script.value

    @property
    def environment(self) -> str:
        """The chosen run configuration; empty when there is none."""
        return self._environment.value

    @property
    def saved_state(self) -> dict[str, object]:
        words = self._arguments.value.split()
        # It is kept in a file, which must hold no secret.
        arguments = self._arguments.value if mask_words(words) == words else ""
        return {"environment": self.environment, "script": self.script, "arguments": arguments}

    def restore(self, saved: Values) -> None:
        """Ask for what was asked for then; to be called before anything is shown here."""
        if saved.text("environment"):
            self._environment.show_value(saved.text("environment"))
            self._show_script(saved.text("script"))
            self._arguments.value = saved.text("arguments")

    def holds(self, request: RunRequest) -> bool:
        """True while this is what the bar asks for, so that an answer about it is not one about something else."""
        return request == self._posted

    def take_focus(self) -> None:
        self.screen.set_focus(self._environment)

    def focus_arguments(self) -> None:
        """To the arguments."""
        self.screen.set_focus(self._arguments)

    def action_leave(self) -> None:
        self.post_message(self.Left())

    def request(self) -> RunRequest:
        """What the next run is asked for. Raises UsageError when that is not complete, or not well formed."""
        if not self._environment.value:
            raise UsageError("there is no run configuration", remedy="Add a .runconfig file to aml_config.")
        if not self._script.value:
            raise UsageError("no script is chosen", remedy="Choose one in the run bar, or press s on it in Files.")
        try:
            arguments = tuple(shlex.split(self._arguments.value))
        except ValueError as error:
            raise UsageError(
                f"the arguments are not well formed: {str(error).lower()}", remedy="Close the quotes."
            ) from error
        # What the configuration brings is in the field already; whoever empties it wants none.
        return RunRequest(self._environment.value, self._script.value, arguments, exact_arguments=True)

    def show_error(self, error: WorkbenchError, root: str) -> None:
        """Show the error of an action until `forget_error`; file names are shown relative to the project."""
        self.notice.say(_relative(error, root), wrong=True)

    def forget_error(self) -> None:
        """Show the state of the request again instead of an action's error."""
        if self.notice.is_error:
            self.show_use("")

    @property
    def is_refused(self) -> bool:
        """True while a run cannot start as it is asked for."""
        return self._state[1]

    def show_refusal(self, error: WorkbenchError, root: str) -> None:
        """Show why a run cannot start, until it can or something else is asked for."""
        self._show_state(_relative(error, root), wrong=True)

    def _show_state(self, text: str, *, wrong: bool = False) -> None:
        self._state = (text, wrong)
        self.notice.say(text, wrong=wrong)

    @property
    def chosen(self) -> tuple[RunConfiguration | None, ComputeTarget | None]:
        """The chosen run configuration and its compute target, as far as there are such files."""
        configuration = self._configurations.get(self._environment.value)
        return configuration, self._targets.get(configuration.target) if configuration is not None else None

    def show_use(self, text: str) -> None:
        """Say something in passing; for "" the state of the request."""
        if text:
            self.notice.say(text)
        else:
            state, wrong = self._state
            self.notice.say(state, wrong=wrong)

    def say_what_is_looked_for(self) -> None:
        """Say what a run waits for that asks for a GPU: a framework that was never asked takes seconds to answer."""
        configuration, target = self.chosen
        if configuration is not None and target is not None and asked_for(target, configuration):
            self.show_use("Looking whether it would compute on a GPU...")

    def show_plan(self, plan: Plan, version: str) -> None:
        """Say what a run would use, before it is run."""
        python = f"Python {version}   {plan.interpreter}" if version else plan.interpreter
        copied = "in a copy of the project as it is now" if plan.step("snapshot") else "right in the project folder"
        self._show_state(f"{python}   {copied}")

    def show_configurations(self, configurations: Sequence[RunConfiguration], targets: Sequence[ComputeTarget]) -> None:
        """The environments that can be chosen. The chosen one stays chosen while its file is there."""
        self._known.add("configurations")
        self._configurations = {configuration.name: configuration for configuration in configurations}
        self._targets = {target.name: target for target in targets}
        self._environment.show_options(tuple(self._option(configuration) for configuration in configurations))
        if self._environment.value not in self._configurations:
            self._choose(self._first_choice())
        elif self._environment.value:
            # The file may have changed under the same name.
            self._mark_environment()
            self._request_changed(always=True)

    def show_scripts(self, scripts: list[str]) -> None:
        """The scripts that can be chosen. One that is chosen stays, even when its file has gone."""
        self._known.add("scripts")
        self._scripts = scripts
        self._script.show_options(tuple(Row(script, Piece(safe_text(script))) for script in scripts))
        if not self._script.value:
            self._show_script(self._usual_script())
        self._request_changed()

    def show_runs(self, runs: Sequence[Run]) -> None:
        """Past runs, newest first: their arguments can be brought back."""
        self._runs = runs
        self._show_history()

    def choose_script(self, script: str) -> None:
        """Make a file the script."""
        self._show_script(script)
        self._request_changed()

    def choose_target(self, target: str) -> bool:
        """Choose a run configuration of this compute target; False when there is none."""
        for configuration in self._configurations.values():
            if configuration.target == target and configuration.problem is None:
                self._choose(configuration.name)
                return True
        return False

    def choose_run(self, run: Run) -> None:
        """Fill the bar with what a run was asked for."""
        self._environment.show_value(run.run_configuration)
        self._mark_environment()
        self._show_script(run.script_name)
        self._arguments.value = shlex.join(run.arguments)
        self._request_changed()

    def _option(self, configuration: RunConfiguration) -> Row:
        broken = configuration.problem is not None
        where = "problem" if broken else f"on {safe_text(configuration.target)}"
        return Row(
            configuration.name,
            Piece(safe_text(configuration.name)),
            right=(Piece(where, "error" if broken else "muted"),),
        )

    def _first_choice(self) -> str:
        """At first what runs on this machine, else the first that is whole, else any."""

        def order(configuration: RunConfiguration) -> tuple[bool, bool]:
            target = self._targets.get(configuration.target)
            return configuration.problem is not None, target is None or not target.kind.runs_here

        return min(self._configurations.values(), key=order).name if self._configurations else ""

    def _choose(self, name: str) -> None:
        """Choose an environment; a script and arguments that it brings replace those in the bar."""
        self._environment.show_value(name)
        self._mark_environment()
        vector = self._configurations[name].argument_vector if name in self._configurations else ()
        if vector:
            if vector[0] != FILE_VARIABLE:
                self._show_script(vector[0])
            elif not self._script.value:
                self._show_script(self._usual_script())
            self._arguments.value = shlex.join(vector[1:])
        self._request_changed()

    def _mark_environment(self) -> None:
        configuration = self._configurations.get(self._environment.value)
        wrong = configuration is None or configuration.problem is not None
        self._environment.show_value(self._environment.value, wrong=wrong and bool(self._environment.value))

    def _usual_script(self) -> str:
        return next((usual for usual in (*USUAL_SCRIPTS, *self._scripts) if usual in self._scripts), "")

    def _show_script(self, script: str) -> None:
        self._script.show_value(script)
        self._show_history()

    def _show_history(self) -> None:
        script = self._script.value
        runs = self._runs[:HISTORY_RUNS]
        lines = [shlex.join(run.arguments) for run in runs if run.script_name == script]
        self._arguments.history = list(dict.fromkeys(lines))

    def _request_changed(self, *, always: bool = False) -> None:
        try:
            request = self.request()
        except UsageError as error:
            self._posted = None
            # While the project is still being read, nothing is missing yet.
            if self._known == {"configurations", "scripts"}:
                self._show_state(str(error), wrong=True)
            self.post_message(RequestChanged(None))
            return
        if always or request != self._posted:
            self._posted = request
            self.post_message(RequestChanged(request))

    @on(Input.Changed, "#arguments")
    def _arguments_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._request_changed()

    @on(Input.Submitted, "#arguments")
    def _arguments_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(RunRequested())


class RequestLine(Line):
    """Says what the next run is asked for; a click on it goes to the run bar, one on the button runs it."""

    def __init__(self, request: RunRequest | None) -> None:
        """`request` is None when the run bar holds none that could be run."""
        super().__init__()
        self._request = request

    def pieces(self, width: int) -> tuple[Sequence[Piece], Sequence[Piece]]:
        request = self._request
        if request is None:
            return [Piece(" Nothing to run is chosen", "muted"), Piece("  0 goes to the run bar", "accent")], ()
        words = (request.run_configuration, request.script, shlex.join(request.arguments))
        room = max(6, (width - _BESIDE) // 3)
        left = [Piece(" Run on", "muted")]
        for word in filter(None, words):
            left.append(Piece(f"  {truncate_middle(safe_text(word), room)}", action=self._edit))
        key = shown_key("dashboard.run", "ctrl+r")
        run = [Piece("▶ Run", "success", bold=True, action=self._run), Piece(f"  {key} ", "muted", action=self._run)]
        return left, run

    def _edit(self) -> None:
        self.post_message(RunBarRequested())

    def _run(self) -> None:
        self.post_message(RunRequested())


def _relative(error: WorkbenchError, root: str) -> str:
    return str(error).replace(f"{root}{os.sep}", "")
