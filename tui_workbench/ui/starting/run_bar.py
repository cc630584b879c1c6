"""The run bar: run configuration, script, arguments and the Run button, and the status line below them.

The bar holds the request of the next run. It posts `RequestChanged` when the request changes, so that the screen can
check the request before it is submitted.
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

from tui_workbench.core.directories import abbreviate_home
from tui_workbench.core.errors import UsageError, WorkbenchError
from tui_workbench.core.masking import mask_words
from tui_workbench.core.model import ComputeTarget, Plan, Run, RunConfiguration, RunRequest
from tui_workbench.targets.gpu.gpus import asked_for
from tui_workbench.ui.commands.command import shown_key
from tui_workbench.ui.commands.main_commands import ARGUMENTS, RUN_BAR, RUN_BUTTON
from tui_workbench.ui.run_messages import RequestChanged, RunBarRequested, RunRequested
from tui_workbench.ui.session_state import Values
from tui_workbench.ui.terminal.safetext import safe_text, truncate_middle
from tui_workbench.ui.widgets.choice_field import ChoiceField
from tui_workbench.ui.widgets.line import Line
from tui_workbench.ui.widgets.notice import Notice
from tui_workbench.ui.widgets.pieces import Piece, Row
from tui_workbench.ui.widgets.text_field import TextField

FILE_VARIABLE = "$file"  # stands for the script of the run bar in an ArgumentVector
HISTORY_RUNS = 500  # number of past runs whose arguments are offered
USUAL_SCRIPTS = ("train.py", "main.py", "run.py")  # preferred if the configuration names no script
_LABEL_CELLS = 34  # cells for the labels and the button of a `RequestLine`


def parse_arguments(text: str) -> tuple[str, ...]:
    """Split arguments as a shell does. Raises UsageError."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(
            f"cannot parse the arguments: {str(error).lower()}",
            remedy="Close the quotation mark, or write a backslash before it. If the arguments end in a "
            "backslash, write two.",
        ) from error


class ArgumentsField(TextField):
    """The field for the arguments of the script. Up and down show the arguments of earlier runs."""

    BINDINGS = ARGUMENTS.bindings

    def __init__(self) -> None:
        super().__init__(placeholder="arguments", id="arguments")
        self.history: list[str] = []  # the arguments of earlier runs, newest first
        self._index = -1
        self._typed = ""

    def action_older(self) -> None:
        for index in range(self._index + 1, len(self.history)):
            if self.history[index] != self.value:
                self._go_to(index)
                return

    def action_newer(self) -> None:
        if self._index >= 0:
            self._go_to(self._index - 1)

    def _go_to(self, index: int) -> None:
        if self._index < 0:
            self._typed = self.value
        self._index = index
        self.value = self._typed if index < 0 else self.history[index]
        self.cursor_position = len(self.value)


class RunButton(Line, can_focus=True):
    """The button that starts a run."""

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
    """The editable request of the next run."""

    heading = "Run bar"
    about = (
        f"Run configuration, script and arguments of the next run. {shown_key('run.start', 'ctrl+r')} starts it. "
        "A run configuration is a .runconfig file in aml_config. It names the compute target and can set a script and "
        "arguments. The line below shows the interpreter, or the first error. For a Slurm target, the last field "
        "overrides options of the job: gpus=2,time=2:00:00."
    )
    BINDINGS = RUN_BAR.bindings
    DEFAULT_CSS = """
    RunBar { layout: vertical; background: $panel; }
    RunBar > Horizontal { height: 1; }
    RunBar > Notice { height: 1fr; }
    RunBar Label { color: $text-muted; }
    .-narrow RunBar Label { display: none; }
    RunBar ChoiceField { margin: 0 1; max-width: 30%; }
    RunBar TextField.-textual-compact { width: 1fr; margin: 0 1; background: $block-hover-background; }
    RunBar TextField.-textual-compact:focus { background: $block-cursor-background; }
    RunBar #slurm { display: none; }
    RunBar.-slurm #slurm { display: block; }
    RunBar.-slurm ChoiceField { max-width: 22%; }
    """

    class Left(Message):
        """Posted when escape is pressed. The focus should return to the previous pane."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._environment = ChoiceField(self._choose, placeholder="no run configuration", id="environment")
        self._script = ChoiceField(self.choose_script, placeholder="no script", free="use", id="script")
        self._arguments = ArgumentsField()
        self._slurm = TextField(placeholder="Slurm options", id="slurm")
        self.notice = Notice(id="notice")
        self._configurations: dict[str, RunConfiguration] = {}
        self._targets: dict[str, ComputeTarget] = {}
        self._scripts: list[str] = []
        self._runs: Sequence[Run] = ()
        self._posted: RunRequest | None = None
        self._status = ("", False)  # status of the request: a text, and True if it is an error
        self._read_parts: set[str] = set()

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield Label(" Run on")
            yield self._environment
            yield self._script
            yield self._arguments
            yield self._slurm
            yield RunButton()
        yield self.notice

    @property
    def script(self) -> str:
        return self._script.value

    @property
    def environment(self) -> str:
        return self._environment.value

    @property
    def saved_state(self) -> dict[str, object]:
        words = self._arguments.value.split()
        # The session file must contain no secrets.
        arguments = self._arguments.value if mask_words(words) == words else ""
        return {
            "environment": self.environment,
            "script": self.script,
            "arguments": arguments,
            "slurm": self._slurm.value,
        }

    def restore(self, saved: Values) -> None:
        """Restore a saved request, before configurations and scripts are shown."""
        if saved.text("environment"):
            self._environment.show_value(saved.text("environment"))
            self._show_script(saved.text("script"))
            self._arguments.value = saved.text("arguments")
            self._slurm.value = saved.text("slurm")

    def holds(self, request: RunRequest) -> bool:
        """Return True if this is the current request, so that a result for the request is still valid."""
        return request == self._posted

    def take_focus(self) -> None:
        self.screen.set_focus(self._environment)

    def focus_arguments(self) -> None:
        self.screen.set_focus(self._arguments)

    def action_leave(self) -> None:
        self.post_message(self.Left())

    def request(self) -> RunRequest:
        """Return the request of the next run. Raises UsageError when it is incomplete or invalid."""
        if not self._environment.value:
            raise UsageError("the project has no run configuration", remedy="Create one with `New runconfig` in Files.")
        if not self._script.value:
            raise UsageError(
                "no script selected", remedy="Choose a script in the run bar, or with `Use as script` in Files."
            )
        arguments = parse_arguments(self._arguments.value)
        # The field contains the arguments of the configuration already, unless the user has removed them.
        slurm = self._slurm.value.strip() if self._is_for_slurm else ""
        return RunRequest(self._environment.value, self._script.value, arguments, exact_arguments=True, slurm=slurm)

    @property
    def _is_for_slurm(self) -> bool:
        _, target = self.chosen
        return target is not None and target.kind.has_scheduler

    def show_error(self, error: WorkbenchError, root: str) -> None:
        """Show the error of an action until the next status or `forget_error`. Paths are relative to the project."""
        self.notice.say(_relative(error, root), wrong=True)

    def forget_error(self) -> None:
        """Replace the error of an action with the status of the request."""
        if self.notice.is_error:
            self.show_status("")

    @property
    def is_refused(self) -> bool:
        return self._status[1]

    def show_refusal(self, error: WorkbenchError, root: str) -> None:
        self._set_status(_relative(error, root), wrong=True)

    def _set_status(self, text: str, *, wrong: bool = False) -> None:
        self._status = (text, wrong)
        self.notice.say(text, wrong=wrong)

    @property
    def chosen(self) -> tuple[RunConfiguration | None, ComputeTarget | None]:
        """The chosen run configuration and its compute target. Each is None if its file is missing."""
        configuration = self._configurations.get(self._environment.value)
        return configuration, self._targets.get(configuration.target) if configuration is not None else None

    def show_status(self, text: str) -> None:
        """Show a text in the status line. "" shows the status of the request again."""
        message, wrong = (text, False) if text else self._status
        self.notice.say(message, wrong=wrong)

    def show_gpu_check(self) -> None:
        """Show that GPUs are being checked, if the run needs a GPU. The first check of a framework takes seconds."""
        configuration, target = self.chosen
        if configuration is not None and target is not None and asked_for(target, configuration):
            self.show_status("Checking that the run would use a GPU...")

    def show_plan(self, plan: Plan, version: str) -> None:
        python = f"Python {version}   {abbreviate_home(plan.interpreter)}" if version else plan.interpreter
        folder = "a snapshot of the project" if plan.step("snapshot") else "the project folder"
        self._set_status(f"{python}   runs in {folder}")

    def show_configurations(self, configurations: Sequence[RunConfiguration], targets: Sequence[ComputeTarget]) -> None:
        """Set the run configurations to choose from. The chosen configuration stays while its file exists."""
        self._read_parts.add("configurations")
        self._configurations = {configuration.name: configuration for configuration in configurations}
        self._targets = {target.name: target for target in targets}
        self._environment.show_options(tuple(self._option(configuration) for configuration in configurations))
        if self._environment.value not in self._configurations:
            self._choose(self._first_choice())
        elif self._environment.value:
            # The file of the chosen configuration may have changed.
            self._mark_environment()
            self._request_changed(always=True)

    def show_scripts(self, scripts: list[str]) -> None:
        """Set the scripts to choose from. The chosen script stays, even if its file no longer exists."""
        self._read_parts.add("scripts")
        self._scripts = scripts
        self._script.show_options(tuple(Row(script, Piece(safe_text(script))) for script in scripts))
        if not self._script.value:
            self._show_script(self._usual_script())
        self._request_changed()

    def show_runs(self, runs: Sequence[Run]) -> None:
        """Set the past runs, newest first, whose arguments are offered."""
        self._runs = runs
        self._show_history()

    def choose_script(self, script: str) -> None:
        self._show_script(script)
        self._request_changed()

    def choose_target(self, target: str) -> bool:
        """Choose the first valid run configuration of this compute target. Return False if none is valid."""
        for configuration in self._configurations.values():
            if configuration.target == target and configuration.problem is None:
                self._choose(configuration.name)
                return True
        return False

    def choose_run(self, run: Run) -> None:
        """Fill the bar with the request of a run."""
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
        """Return the name of the default configuration, or "" without configurations.

        Prefer a configuration without problems that runs on this machine.
        """

        def order(configuration: RunConfiguration) -> tuple[bool, bool]:
            target = self._targets.get(configuration.target)
            return configuration.problem is not None, target is None or not target.kind.runs_here

        return min(self._configurations.values(), key=order).name if self._configurations else ""

    def _choose(self, name: str) -> None:
        """Choose a run configuration. If it names a script or arguments, they replace those in the bar."""
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
        self.set_class(self._is_for_slurm, "-slurm")

    def _usual_script(self) -> str:
        return next((script for script in (*USUAL_SCRIPTS, *self._scripts) if script in self._scripts), "")

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
            # Until the project has been read, a missing configuration or script is not an error.
            if self._read_parts == {"configurations", "scripts"}:
                self._set_status(str(error), wrong=True)
            self.post_message(RequestChanged(None))
            return
        if always or request != self._posted:
            self._posted = request
            self.post_message(RequestChanged(request))

    @on(Input.Changed, "#arguments, #slurm")
    def _arguments_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._request_changed()

    @on(Input.Submitted, "#arguments, #slurm")
    def _arguments_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(RunRequested())


class RequestLine(Line):
    """A line that shows the request of the run bar, if any.

    A click on the button starts the run; a click on a value focuses the run bar.
    """

    def __init__(self, request: RunRequest | None) -> None:
        super().__init__()
        self._request = request

    def pieces(self, width: int) -> tuple[Sequence[Piece], Sequence[Piece]]:
        request = self._request
        if request is None:
            key = shown_key("dashboard.run_bar", "0")
            return [Piece(" Nothing to run yet", "muted"), Piece(f"  {key} opens the run bar", "accent")], ()
        words = (request.run_configuration, request.script, shlex.join(request.arguments), request.slurm)
        room = max(6, (width - _LABEL_CELLS) // (4 if request.slurm else 3))
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
