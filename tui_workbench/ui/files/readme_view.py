"""A view and a screen of the project's readme. The file is read and rendered in a thread."""

from __future__ import annotations

import textwrap
from functools import partial

from tui_workbench.projects.project import Project
from tui_workbench.ui.blocking import ask
from tui_workbench.ui.commands.screen_commands import HISTORY
from tui_workbench.ui.files.readme import WIDEST, Readme, read_readme, readme_lines
from tui_workbench.ui.full_screen import HistoryScreen
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.widgets.pieces import Piece
from tui_workbench.ui.widgets.text_view import MIN_WIDTH, Line, TextView


class ReadmeView(TextView):
    """The readme of a project. An error, or a hint if there is no readme, is shown in the middle."""

    def __init__(self, root: str, hint: str) -> None:
        """`root` is the folder of the project; if `root` is "", the view reads no file."""
        super().__init__()
        self._root = root
        self._hint = hint
        self._error = ""
        self._readme: Readme | None = None

    def read(self) -> None:
        """Read the readme from disk, and show it."""
        self._error = ""
        if self._root:
            ask(self, "readme", partial(read_readme, self._root), self._was_read)

    def show_error(self, text: str) -> None:
        """Show an untrusted text instead of the readme, until the next `read`."""
        self._error = text
        self.rebuild()

    def _was_read(self, readme: Readme | None) -> None:
        self._readme = readme
        self.rebuild()

    def rebuild(self) -> None:
        width = self.scrollable_content_region.width
        if not width:
            return  # hidden
        if self._readme is None or self._error:
            width = max(MIN_WIDTH, width)
            lines = textwrap.wrap(safe_text(self._error or self._hint), width)
            blank: list[Line] = [()] * max(0, (self.size.height - len(lines)) // 2)
            self.show([*blank, *((Piece(line.center(width), "muted"),) for line in lines)])
        else:
            render = partial(readme_lines, self._readme, min(WIDEST, max(MIN_WIDTH, width)))
            ask(self, "lines", render, partial(self._show_lines, width))

    def _show_lines(self, width: int, lines: list[Line]) -> None:
        self.show(lines, keep_place=True)
        # The width may have changed while a thread rendered the lines.
        if self.scrollable_content_region.width != width:
            self.rebuild()

    def why_not(self, action: str) -> str:
        return "No readme to filter." if action == "filter" and self._readme is None else super().why_not(action)


class ReadmeScreen(HistoryScreen, inherit_bindings=False):
    """The screen of the readme."""

    BINDINGS = HISTORY.bindings
    AUTO_FOCUS = "TextView"
    heading = "Readme"
    about = "The project's readme."

    def __init__(self, project: Project) -> None:
        super().__init__(project)
        self.view = ReadmeView(project.root, "Add a README.md to the project to show it here.")
        self.content = (self.view,)

    def on_mount(self) -> None:
        self.view.read()
