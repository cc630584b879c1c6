"""A run again, changed: its arguments, its run configuration, its files, each as it was until somebody changes it."""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.containers import Grid, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from tui_workbench.errors import UsageError
from tui_workbench.model import RunRequest
from tui_workbench.ui.blocking import in_thread
from tui_workbench.ui.commands import bindings
from tui_workbench.ui.history_commands import RUN_EDIT
from tui_workbench.ui.safetext import safe_text
from tui_workbench.ui.widgets.choice_field import ChoiceField
from tui_workbench.ui.widgets.footer import KeyFooter
from tui_workbench.ui.widgets.notice import Notice
from tui_workbench.ui.widgets.pieces import Piece, Row
from tui_workbench.ui.widgets.text_field import TextField
from tui_workbench.ui.words import run_title

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tui_workbench.model import Run, RunConfiguration
    from tui_workbench.project import Project

AS_IT_WAS = "as it was"
SNAPSHOT, NOW = "as they were in the run", "as they are now"


class RunEditScreen(ModalScreen["RunRequest | None"], inherit_bindings=False):
    """Its result is what is to be run, None for nothing."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(RUN_EDIT)
    OFFERED = RUN_EDIT
    about = "What is not changed is as it was in the run. Secrets come from the configuration as it is now."
    DEFAULT_CSS = """
    RunEditScreen { align: center middle; background: $background 60%; }
    RunEditScreen > Vertical {
        width: 100; max-width: 96%; height: auto; padding: 1 0 0 0;
        background: $background; border: round $border; border-title-color: $border; border-title-style: bold;
    }
    RunEditScreen Grid { grid-size: 2; grid-columns: 16 1fr; grid-rows: 1; height: auto; padding: 0 1; }
    RunEditScreen Grid { grid-gutter: 1 0; }
    RunEditScreen Notice { height: auto; margin: 1 0 0 0; background: $background; }
    RunEditScreen ChoiceField { width: 100%; }
    """

    def __init__(self, project: Project, run: Run) -> None:
        super().__init__()
        self._project = project
        self._run = run
        self._notice = Notice(id="said")
        self.arguments = TextField(shlex.join(run.arguments), placeholder="no arguments")
        self.configuration = ChoiceField(self._configured, placeholder=AS_IT_WAS)
        self.files = ChoiceField(self._filed, placeholder=SNAPSHOT)

    def compose(self) -> ComposeResult:
        """Three fields and the keys."""
        box = Vertical()
        box.border_title = Content(f"Run {safe_text(run_title(self._run))} again, changed")
        with box:
            with Grid():
                for name, field in (
                    ("Arguments", self.arguments),
                    ("Configuration", self.configuration),
                    ("Files", self.files),
                ):
                    yield Static(Content(name))
                    yield field
            yield self._notice
            yield KeyFooter()

    def on_mount(self) -> None:
        """Type the arguments at once."""
        self.set_focus(self.arguments)
        tracked = bool(self._run.commit_id)
        self._configured(AS_IT_WAS)
        self._filed(SNAPSHOT if tracked else NOW)
        self.files.show_options(_rows((SNAPSHOT, NOW) if tracked else (NOW,)))
        self.run_worker(self._list_configurations(), group="configurations")

    async def _list_configurations(self) -> None:
        found = await in_thread(partial(_configurations, self._project))
        names = [configuration.name for configuration in found if configuration.problem is None]
        self.configuration.show_options(_rows((AS_IT_WAS, *names)))

    def _configured(self, value: str) -> None:
        self.configuration.show_value(value)

    def _filed(self, value: str) -> None:
        self.files.show_value(value)

    def on_notice_changed(self, event: Notice.Changed) -> None:
        """Take the room that it takes to say it."""
        event.stop()
        self._notice.styles.height = len(self._notice.lines(self._notice.size.width or 80))

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_go()

    def action_go(self) -> None:
        """Run it."""
        from tui_workbench.ui.screens.run_actions import arguments_of

        try:
            arguments = arguments_of(self.arguments.value)
        except UsageError as error:
            self._notice.say(f"{error.message}. {error.remedy}", wrong=True)
            return
        configuration = "" if self.configuration.value == AS_IT_WAS else self.configuration.value
        if self.files.value == SNAPSHOT:
            request = RunRequest(
                configuration, self._run.script_name, arguments, exact_arguments=True, origin=self._run.run_id
            )
        else:
            named = configuration or self._run.run_configuration
            request = RunRequest(named, self._run.script_name, arguments, exact_arguments=True)
        self.dismiss(request)

    def action_leave(self) -> None:
        """Run nothing."""
        self.dismiss(None)


def _rows(values: Sequence[str]) -> tuple[Row, ...]:
    return tuple(Row(value, Piece(safe_text(value))) for value in values)


def _configurations(project: Project) -> list[RunConfiguration]:
    return project.run_configurations()
