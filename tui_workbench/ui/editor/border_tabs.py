"""Tabs in the border of the editor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tui_workbench.ui.themes.themes import palette_of
from tui_workbench.ui.widgets.pane import Pane
from tui_workbench.ui.widgets.tab_title import Label, TabTitle, short_names, tab_title

if TYPE_CHECKING:  # imported when the first file is opened
    from tui_workbench.ui.editor.file_view import FileView

TITLE_OFFSET, NARROW_TITLE_OFFSET = 3, 1  # cells before the title, with and without a left border


class BorderTabs:
    """The tabs in the border of a pane, one for each view."""

    def __init__(self, pane: Pane) -> None:
        self._pane = pane
        self._views: Sequence[FileView] = ()
        self._title: TabTitle | None = None
        self._shown: tuple[object, ...] | None = None

    def show(self, views: Sequence[FileView], active: FileView | None) -> None:
        """Show a tab for each view; without an active view, show the title of the pane."""
        pane, self._views = self._pane, tuple(views)
        if active is None:
            self._title = self._shown = None
            pane.set_title()
            pane.border_subtitle = ""
            return
        names = short_names([view.path for view in views])
        marks = ["✗" if view.deleted else "●" if view.dirty else "" for view in views]
        labels = [Label(name, mark) for name, mark in zip(names, marks, strict=True)]
        width = max(pane.outer_size.width - 6, 10)
        self._title = title = tab_title(pane.number, labels, views.index(active), width, palette_of(pane))
        subtitle = active.presenter.subtitle
        shown = (title.content, title.content.spans, subtitle, subtitle.spans)
        if shown != self._shown:  # `shown` includes the spans, because `Content` compares only texts
            self._shown = shown
            pane.border_title, pane.border_subtitle = title.content, subtitle

    def view_at(self, x: int) -> FileView | None:
        index = self._title.tab_at(x - self._offset) if self._title is not None else None
        return self._views[index] if index is not None else None

    def places(self) -> Iterator[tuple[int, int, FileView]]:
        left = self._pane.region.x + self._offset - 1
        for start, _, index in self._title.spans if self._title is not None else ():
            yield left + start, self._pane.region.y, self._views[index]

    @property
    def _offset(self) -> int:
        return TITLE_OFFSET if self._pane.styles.border_left[0] else NARROW_TITLE_OFFSET
