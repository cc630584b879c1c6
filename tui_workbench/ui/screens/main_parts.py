"""The parts of the main screen that the first frame does not need; importing this module imports all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tui_workbench.ui.panes.editor import EditorPane
from tui_workbench.ui.panes.jobs import JobsPane
from tui_workbench.ui.panes.log import LogPane
from tui_workbench.ui.panes.pane import Pane
from tui_workbench.ui.panes.run_bar import RunBar
from tui_workbench.ui.panes.targets import TargetsPane
from tui_workbench.ui.widgets.latest_line import LatestLine

if TYPE_CHECKING:
    from textual.widget import Widget

    from tui_workbench.ui.panes.files import FilesPane


class Parts(NamedTuple):
    """Each part, ready to be mounted in place of the slot with its id."""

    run_bar: RunBar
    targets: TargetsPane
    editor: EditorPane
    log: LogPane
    jobs: JobsPane
    latest: LatestLine

    @classmethod
    def build(cls) -> Parts:
        """New parts, which know nothing yet."""
        return cls(
            RunBar(id="run-bar"),
            TargetsPane(id="targets"),
            EditorPane(id="editor"),
            LogPane(id="log"),
            JobsPane(id="jobs"),
            LatestLine(id="latest"),
        )

    def of(self, name: str) -> Widget:
        """The part with this id."""
        return next(part for part in self if part.id == name)

    def focusable(self, name: str, files: FilesPane) -> Pane | RunBar:
        """The pane with this id, `files` among them, or the run bar."""
        part = files if name == files.id else self.of(name)
        assert isinstance(part, Pane | RunBar)
        return part
