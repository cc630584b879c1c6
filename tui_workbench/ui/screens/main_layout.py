"""Where everything of the main screen stands at each size: rules over a width and a height, and no more.

Wide screens show all five panes; narrow ones, and a zoomed pane, show the pane that has the focus. The same thing
stands in the same place at every size, and nothing moves but when the size, the zoom or (where one pane fits) the
focus changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from textual.geometry import NULL_OFFSET, NULL_SPACING, Region
from textual.layout import Layout, WidgetPlacement

if TYPE_CHECKING:
    from textual.geometry import Size
    from textual.layout import ArrangeResult
    from textual.widget import Widget

    from tui_workbench.ui.remembered import Values

PANES = ("files", "targets", "editor", "log", "jobs")
"""The ids of the panes, in the order of their numbers."""

WIDE_WIDTH = 100
WIDE_HEIGHT = 22
"""The size from which on all panes fit beside each other, each with lines that can be read."""

BORDERS = 2
MOST_NOTICE_LINES = 4


class Sizes(NamedTuple):
    """How large a person has made the panes, in thousandths of the room that they share; 0 where nobody has."""

    lists: int = 0  # width of the column of lists
    right: int = 0  # width of the column at the right
    editor: int = 0  # height of the editor, above the log
    jobs: int = 0  # height of the runs, below files and targets
    history: int = 0  # height of the history, above the GPUs


class View(NamedTuple):
    """What the places depend on, besides the size."""

    active: str = "files"  # the id of the pane that is shown where only one fits
    zoomed: bool = False
    target_lines: int = 3
    notice_lines: int = 1  # what the run bar says below its fields
    has_error: bool = False  # it is an error, which is shown also where there is little room
    question_lines: int = 0  # of the question that waits for an answer
    sizes: Sizes = Sizes()


def view_of(remembered: Values) -> View:
    """The view that was left."""
    part = remembered.part("screen")
    sizes = Sizes(*(min(part.number(name), 1000) for name in Sizes._fields))
    active = part.text("active")
    return View(active if active in PANES else PANES[0], part.flag("zoomed"), sizes=sizes)


def is_wide(size: Size) -> bool:
    """True where all panes are shown."""
    return size.width >= WIDE_WIDTH and size.height >= WIDE_HEIGHT


def regions(size: Size, view: View) -> dict[str, Region]:
    """The region of each part that is shown, by its id."""
    width, height = size
    placed = {"header": Region(0, 0, width, 1), "footer": Region(0, max(0, height - 1), width, 1)}
    bottom = height - 1
    if view.question_lines:
        bottom -= view.question_lines
        placed["question"] = Region(0, max(0, bottom), width, view.question_lines)
    if view.zoomed:
        placed[view.active] = Region(0, 1, width, max(0, bottom - 1))
    elif is_wide(size):
        bar = 1 + _notice_lines(view)
        placed["run-bar"] = Region(0, 1, width, bar)
        placed.update(_side_by_side(Region(0, 1 + bar, width, bottom - 1 - bar), view))
    else:
        placed.update(_one_pane(width, bottom, view))
    return placed


def _notice_lines(view: View) -> int:
    """The lines of a question are taken from those of the notice, so that the panes keep theirs."""
    return min(view.notice_lines, MOST_NOTICE_LINES - max(0, view.question_lines - 1))


def _one_pane(width: int, bottom: int, view: View) -> dict[str, Region]:
    """Tabs, the active pane, and below it what the selected run said last, unless the log itself is shown."""
    bar = 1 + _notice_lines(view) if view.has_error else 1
    top = 2 + bar
    latest = 0 if view.active == "log" else 1
    placed = {
        "run-bar": Region(0, 1, width, bar),
        "tabs": Region(0, 1 + bar, width, 1),
        view.active: Region(0, top, width, max(0, bottom - latest - top)),
    }
    if latest:
        placed["latest"] = Region(0, max(0, bottom - 1), width, 1)
    return placed


def _side_by_side(body: Region, view: View) -> dict[str, Region]:
    """Lists at the left; at the right, where the room is, what one writes and reads."""
    x, y, width, height = body
    left = max(38, min(60, width * 35 // 100))
    targets = min(max(3, view.target_lines) + BORDERS, max(5, height // 4))
    jobs = max(5, height * 3 // 10)
    files = height - targets - jobs
    editor = (height + 1) * 11 // 20
    return {
        "files": Region(x, y, left, files),
        "targets": Region(x, y + files, left, targets),
        "jobs": Region(x, y + files + targets, left, jobs),
        "editor": Region(x + left, y, width - left, editor),
        "log": Region(x + left, y + editor, width - left, height - editor),
    }


class MainLayout(Layout):
    """Puts the children of the main screen where `regions` says. A child that is not named there is not shown."""

    name = "main"

    def __init__(self, view: View | None = None) -> None:
        self.view = view or View()

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> ArrangeResult:
        """Textual asks for the places of all children."""
        placed = regions(size, self.view)
        return [
            WidgetPlacement(placed[child.id], NULL_OFFSET, NULL_SPACING, child)
            for child in children
            if child.id in placed
        ]
