"""The editor pane in a separate app, for tests."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from textual.app import App, ComposeResult
from textual.content import Content

from tests.ui.seen import content_of
from tui_workbench.ui.editor.config_view import ConfigView
from tui_workbench.ui.editor.editor import EditorPane
from tui_workbench.ui.editor.editor_status import EditorStatus
from tui_workbench.ui.editor.file_view import FileView
from tui_workbench.ui.form.form_drawing import FormHelp
from tui_workbench.ui.themes.themes import load_theme
from tui_workbench.ui.widgets.question_row import QuestionRow

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from textual.message import Message
    from textual.pilot import Pilot

    from tui_workbench.ui.editor.text_editor import TextEditor
    from tui_workbench.ui.form.form_view import FormView


class EditorApp(App[None]):
    """An app with only the editor pane."""

    CSS = "EditorPane { border: round $border-blurred; height: 1fr; }"

    def __init__(self) -> None:
        super().__init__()
        self.pane = EditorPane()
        self.told: list[Message] = []

    def compose(self) -> ComposeResult:
        yield self.pane

    def on_mount(self) -> None:
        theme = load_theme("slate")
        self.register_theme(theme)
        self.theme = theme.name
        self.pane.take_focus()

    def on_editor_pane_file_saved(self, event: EditorPane.FileSaved) -> None:
        self.told.append(event)

    def on_editor_pane_dirty_changed(self, event: EditorPane.DirtyChanged) -> None:
        self.told.append(event)


class EditorDriver:
    """A driver that reads and operates the editor."""

    def __init__(self, app: EditorApp, pilot: Pilot[None], folder: Path) -> None:
        self.app, self.pane, self.pilot, self.folder = app, app.pane, pilot, folder

    def path(self, name: str) -> str:
        return str(self.folder / name)

    async def open(self, name: str, line: int = 0) -> TextEditor:
        """Open a file as text."""
        await self.pane.open_file(self.path(name), line)
        self.view.presenter.show_text()
        await self.settled()
        return self.view.editor

    async def open_form(self, name: str, line: int = 0) -> FormView:
        """Open a configuration file as a form."""
        await self.pane.open_file(self.path(name), line)
        await self.settled()
        return self.config.form

    async def settled(self) -> None:
        """Wait until all workers have ended, including those that they started."""
        await self.pilot.pause()
        while len(self.app.workers):
            await self.app.workers.wait_for_complete()
            await self.pilot.pause()

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.settled()

    async def look_at_disk(self) -> None:
        self.pane.check_disk()
        await self.settled()

    @property
    def view(self) -> FileView:
        """The view of the shown file."""
        return next(view for view in self.pane.query(FileView) if view.presenter.root.display)

    @property
    def config(self) -> ConfigView:
        """The view of a configuration file."""
        assert isinstance(self.view.presenter, ConfigView)
        return self.view.presenter

    @property
    def help(self) -> str:
        """The help for the current field of the form, without line breaks."""
        return " ".join(content_of(self.view.query_one(FormHelp)))

    @property
    def text(self) -> TextEditor:
        return self.view.editor

    @property
    def title(self) -> str:
        return Content.from_markup(self.pane.border_title or "").plain

    def bold_in_title(self) -> list[str]:
        """Return the bold texts in the upper and in the lower border."""
        borders = [Content.from_markup(text or "") for text in (self.pane.border_title, self.pane.border_subtitle)]
        return [
            border.plain[span.start : span.end]
            for border in borders
            for span in border.spans
            if "bold" in str(span.style)
        ]

    @property
    def status(self) -> str:
        """The status lines as one text."""
        status = self.view.query_one(EditorStatus)
        return " ".join(status.render_line(y).text.rstrip() for y in range(status.size.height))

    @property
    def question(self) -> str:
        rows = list(self.view.query(QuestionRow)) if self.pane.query(FileView) else []
        return rows[0].render().plain if rows else ""


@asynccontextmanager
async def editor_app(folder: Path, size: tuple[int, int] = (90, 24)) -> AsyncIterator[EditorDriver]:
    app = EditorApp()
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield EditorDriver(app, pilot, folder)
