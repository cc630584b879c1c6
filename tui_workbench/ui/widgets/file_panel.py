"""A tree of files on the left, and the content of the selected file on the right.

The owner sets the paths and reads the files: the panel posts `FileWanted`, and the owner calls `show_content`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message

from tui_workbench.core.notebooks import is_notebook
from tui_workbench.ui.commands.available_commands import ExplainsUnavailable
from tui_workbench.ui.commands.screen_commands import FILE_PANEL
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.widgets.pieces import Piece, Row
from tui_workbench.ui.widgets.row_list import RowList
from tui_workbench.ui.widgets.text_view import MIN_WIDTH, Line, TextView

FOLDER = "/"
"""The last character in the key of a folder."""


class FilePanel(ExplainsUnavailable, Horizontal, inherit_bindings=False):
    """A tree of files, and the content of the selected file."""

    heading = "Files"
    DEFAULT_CSS = """
    FilePanel { height: 1fr; }
    FilePanel > RowList { width: 2fr; max-width: 60; }
    FilePanel > TextView { width: 3fr; border-left: solid $border-blurred; }
    FilePanel > TextView:focus { border-left: solid $border; }
    """
    BINDINGS = FILE_PANEL.bindings

    @dataclass(eq=False)
    class FileWanted(Message):
        """Posted when the panel needs the content of a file.

        `cells_width` is the width in which the cells of a notebook are shown, or 0 if the text of the file is shown.
        """

        panel: FilePanel
        path: str
        cells_width: int

        @property
        def control(self) -> FilePanel:
            return self.panel

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.list = RowList(has_filter=True)
        self.view = TextView()
        self._files: tuple[tuple[str, str], ...] = ()
        self._folded: set[str] = set()
        self._empty: tuple[str, ...] = ()
        self._as_cells = True
        self._shown = ("", False)  # the path of the shown file, and whether its cells are shown

    def compose(self) -> ComposeResult:
        yield self.list
        yield self.view

    @property
    def current(self) -> str:
        """The selected path; a folder ends with a slash."""
        return self.list.current

    def show_files(self, files: Sequence[tuple[str, str]], *, empty: tuple[str, ...] = ()) -> None:
        """Show these files: sorted untrusted paths, each with a remark, which must be safe text."""
        fresh = not self._files
        self._files, self._empty = tuple(files), empty
        # Select a file at first, not a folder.
        self._show(self._files[0][0] if fresh and self._files else None)

    def show_content(self, path: str, lines: Sequence[Line]) -> None:
        """Show the content of a file, unless another file was selected meanwhile."""
        if path == self.current:
            before, self._shown = self._shown, (path, self._shows_cells)
            self.view.wraps = self._shows_cells
            self.view.show(lines, keep_place=self._shown == before)

    @property
    def _shows_cells(self) -> bool:
        return self._as_cells and is_notebook(self.current)

    def _show(self, current: str | None = None) -> None:
        rows: list[Row] = []
        seen: set[str] = set()
        for path, remark in self._files:
            parts = path.split("/")
            folders = ["/".join(parts[:depth]) + FOLDER for depth in range(1, len(parts))]
            hidden = False
            for depth, folder in enumerate(folders):
                if folder not in seen and not hidden:
                    seen.add(folder)
                    glyph = "▸" if folder in self._folded else "▾"
                    before = Piece(f"{'  ' * depth}{glyph} ", "muted")
                    rows.append(Row(folder, Piece(safe_text(parts[depth]), "accent"), before=(before,)))
                hidden = hidden or folder in self._folded
            if not hidden:
                before = Piece("  " * (len(parts) - 1) + "  ", "muted")
                rows.append(Row(path, Piece(safe_text(parts[-1])), before=(before,), right=(Piece(remark, "muted"),)))
        self.list.show_rows(rows, empty=self._empty, current=current)
        self._request_content()

    def _request_content(self) -> None:
        path = self.current
        if path and not path.endswith(FOLDER):
            width = max(self.view.scrollable_content_region.width, MIN_WIDTH)
            self.post_message(self.FileWanted(self, path, width if self._shows_cells else 0))
        else:
            self.view.show(())
        self.refresh_bindings()

    @on(RowList.CursorMoved)
    def _cursor_moved(self, event: RowList.CursorMoved) -> None:
        event.stop()
        self._request_content()

    @on(RowList.Clicked)
    def _clicked(self, event: RowList.Clicked) -> None:
        event.stop()
        if event.count > 1:
            self.action_open()

    def action_open(self) -> None:
        if self.current.endswith(FOLDER):
            self._folded ^= {self.current}
            self._show()
        elif self.current:
            self.screen.set_focus(self.view)

    def on_resize(self) -> None:
        if self._shows_cells:
            self._request_content()

    def why_not(self, action: str) -> str:
        return "Not a notebook." if action == "change_view" and not is_notebook(self.current) else ""

    def action_change_view(self) -> None:
        self._as_cells = not self._as_cells
        self._request_content()

    def action_back(self) -> None:
        self.screen.set_focus(self.list)
