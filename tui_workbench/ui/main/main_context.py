"""The context that the parts of the main screen share: project, panes, questions, status line.

Questions are asked one after the other. The focus moves from a text field to a question only if the question directly
follows a key press. After the answer, the focus returns.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from textual import on
from textual.app import App
from textual.screen import Screen
from textual.widget import Widget

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.projects.project import Project
from tui_workbench.ui.commands.command import shown_key
from tui_workbench.ui.editor.editor import EditorPane
from tui_workbench.ui.files.files import FilesPane
from tui_workbench.ui.logs.latest_line import LatestLine
from tui_workbench.ui.logs.log import LogPane
from tui_workbench.ui.machines.secret_row import SecretRow
from tui_workbench.ui.machines.targets import TargetsPane
from tui_workbench.ui.main.main_area import Header, MainArea
from tui_workbench.ui.runs.jobs import JobsPane
from tui_workbench.ui.starting.run_bar import RunBar
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.watcher import ProjectWatcher
from tui_workbench.ui.widgets.question_row import Choice, Question, QuestionRow

FOCUS_KEY = shown_key("run.start", "ctrl+r")  # the key starts a run, or focuses the question that a run waits for
WAITING_QUESTION = "A question is open on the main screen."


class Questions(Widget, inherit_bindings=False):
    """A widget that shows questions one at a time at the bottom of the main screen."""

    def __init__(self, area: MainArea, *, id: str) -> None:
        super().__init__(id=id)
        self._area = area
        self._lock = asyncio.Lock()
        self._row: QuestionRow | SecretRow | None = None
        self._answer: asyncio.Future[str] | None = None

    @property
    def is_open(self) -> bool:
        return self._row is not None

    async def choose(self, text: str, *choices: Choice, is_awaited: bool = False, needs_letter: bool = False) -> str:
        """Ask a question and return the value of the choice, or "" if the user cancels. `text` must be safe.

        Set `is_awaited` if the question directly follows a key press: the focus then moves even from a text field.
        """
        row = QuestionRow(Question(text, choices, needs_letter), focus_key=FOCUS_KEY)
        return await self._ask(row, is_awaited=is_awaited)

    async def secret(self, prompt: str) -> str:
        """Ask for a secret and return it, or "" if the user cancels. `prompt` is untrusted text."""
        return await self._ask(SecretRow(prompt, focus_key=FOCUS_KEY))

    async def _ask(self, row: QuestionRow | SecretRow, *, is_awaited: bool = False) -> str:
        async with self._lock:
            self._answer = asyncio.get_running_loop().create_future()
            self._row = row
            try:
                await self.mount(row)
                if not self.screen.is_current:
                    self.notify(WAITING_QUESTION, timeout=6.0, markup=False)
                self.on_resize()
                if is_awaited or not self._area.is_typing():
                    self.take_focus()
                return await self._answer
            finally:
                had_focus = row.has_focus
                self._row = self._answer = None
                if row.is_attached:
                    if had_focus:
                        self._area.focus_pane()
                    await row.remove()
                    self._area.show_question_lines(0)

    def take_focus(self) -> None:
        if self._row is not None:
            self.screen.set_focus(self._row)

    def on_resize(self) -> None:
        if self._row is not None:
            self._area.show_question_lines(self._row.lines(self.screen.size.width))

    @on(QuestionRow.Answered)
    @on(SecretRow.Answered)
    def _answered(self, event: QuestionRow.Answered | SecretRow.Answered) -> None:
        event.stop()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(event.answer)


class Panes(NamedTuple):
    """The widgets that show the project."""

    header: Header
    files: FilesPane
    run_bar: RunBar
    targets: TargetsPane
    editor: EditorPane
    log: LogPane
    jobs: JobsPane
    latest: LatestLine


@dataclass
class MainContext:
    """The objects that the parts of the main screen share."""

    screen: Screen[None]
    project: Project
    panes: Panes
    questions: Questions
    watcher: ProjectWatcher

    @property
    def app(self) -> App[Any]:
        return self.screen.app

    def run(
        self, group: str, call: Callable[..., Awaitable[object]], *arguments: object, exclusive: bool = False
    ) -> None:
        """Run `call` in a worker of the screen. A WorkbenchError is shown."""

        async def work() -> None:
            with self.errors_shown():
                await call(*arguments)

        self.screen.run_worker(work, group=group, exclusive=exclusive)  # type: ignore[arg-type]

    @contextlib.contextmanager
    def errors_shown(self) -> Iterator[None]:
        """Catch and show a WorkbenchError that is raised in the `with` block."""
        try:
            yield
        except WorkbenchError as error:
            self.show_error(error)

    def say(self, text: str) -> None:
        """Show a text in the status line under the run bar. "" shows the status of the request again."""
        self.panes.run_bar.show_status(text)

    def show_error(self, error: WorkbenchError) -> None:
        self.panes.run_bar.show_error(error, self.project.root)

    def notify(self, text: str, seconds: float) -> None:
        """Show an untrusted text as a toast."""
        self.screen.notify(safe_text(text), timeout=seconds, markup=False)
