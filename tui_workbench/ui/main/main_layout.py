"""The layout rules of the main screen: the region of each part for a width and a height.

Wide screens show all five panes, and very wide screens also the right column; narrow and zoomed screens show the pane
with the focus. Regions depend only on the size of the screen and on a `View`. Borders are moved with keys or the mouse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from textual import events
from textual.geometry import NULL_OFFSET, NULL_SPACING, Region, Size
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.widget import Widget

from tui_workbench.ui.commands.command import shown_key
from tui_workbench.ui.session_state import Values

PANES = ("files", "targets", "editor", "log", "jobs")  # IDs of the panes, in the order of their numbers
RIGHT_PANES = ("history", "gpus")  # IDs of the panes in the right column; keys 6 and 7 show them as full screens

WIDE_WIDTH, WIDE_HEIGHT = 100, 22  # minimum size of a screen that shows all panes
RIGHT_WIDTH = 180  # minimum width of a screen that shows the right column
USUAL_RIGHT = 62  # default width of the right column, with room for two metrics in the table of runs
LEAST_LISTS, LEAST_MIDDLE, LEAST_RIGHT = 24, 40, 30  # minimum width of each column
LEAST_LINES = 4  # minimum height of a pane
WHOLE = 1000  # `Sizes` are multiples of 1/WHOLE of the width or height that panes share
BORDERS = 2
STEP_X, STEP_Y = 4, 2  # cells by which a key moves a border
MOST_NOTICE_LINES = 4


class Sizes(NamedTuple):
    """The sizes that the user has chosen, in thousandths of the width or height that panes share; 0 for the default."""

    lists: int = 0  # width of the column of lists
    right: int = 0  # width of the column at the right
    editor: int = 0  # height of the editor pane, above the log
    jobs: int = 0  # height of the jobs pane, below files and targets
    targets: int = 0  # height of the targets pane, below the files
    history: int = 0  # height of the pane with all runs, above the GPUs


class View(NamedTuple):
    """The state that the layout depends on, besides the size of the screen."""

    active: str = "files"  # ID of the pane that narrow screens show
    zoomed: bool = False
    target_lines: int = 3
    notice_lines: int = 1  # lines of the status under the run bar
    has_error: bool = False  # True if narrow screens must show the status: an error or a permanent notice
    question_lines: int = 0  # lines of the open question
    has_right: bool = False  # True if the panes of the right column are mounted
    sizes: Sizes = Sizes()


def view_of(saved: Values) -> View:
    """Return the view of a saved session."""
    part = saved.part("screen")
    sizes = Sizes(*(min(part.number(name), 1000) for name in Sizes._fields))
    active = part.text("active")
    return View(active if active in PANES else PANES[0], part.flag("zoomed"), sizes=sizes)


def is_wide(size: Size) -> bool:
    """Return True if a screen of this size shows all panes."""
    return size.width >= WIDE_WIDTH and size.height >= WIDE_HEIGHT


def regions(size: Size, view: View) -> dict[str, Region]:
    """Return the regions of the visible parts, keyed by ID."""
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
    """Return the number of status lines. A long question lowers the maximum, so that the panes keep their size."""
    return min(view.notice_lines, MOST_NOTICE_LINES - max(0, view.question_lines - 1))


def _one_pane(width: int, bottom: int, view: View) -> dict[str, Region]:
    """Place the run bar, the tabs, the active pane, and the last line of the log unless the log is shown."""
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


class Grid(NamedTuple):
    """The sizes of the panes on a wide screen, in cells."""

    lists: int
    right: int  # 0 without a right column
    editor: int
    targets: int
    jobs: int
    history: int


def grid(body: Size, view: View) -> Grid:
    """Return the sizes that the user wants, limited so that every pane keeps its minimum size."""
    width, height = body
    sizes = view.sizes
    has_right = view.has_right and width >= RIGHT_WIDTH
    right = _share(
        sizes.right, width, max(USUAL_RIGHT, width * 30 // 100), LEAST_RIGHT, width - LEAST_LISTS - LEAST_MIDDLE
    )
    right = right if has_right else 0
    rest = width - right
    lists = _share(sizes.lists, width, max(38, min(60, rest * 35 // 100)), LEAST_LISTS, rest - LEAST_MIDDLE)
    usual_targets = min(max(3, view.target_lines) + BORDERS, max(5, height // 4))
    targets = _share(sizes.targets, height, usual_targets, LEAST_LINES, height - 2 * LEAST_LINES)
    return Grid(
        lists=lists,
        right=right,
        editor=_share(sizes.editor, height, (height + 1) * 11 // 20, LEAST_LINES, height - LEAST_LINES),
        targets=targets,
        jobs=_share(sizes.jobs, height, max(5, height * 3 // 10), LEAST_LINES, height - targets - LEAST_LINES),
        history=_share(sizes.history, height, height * 11 // 20, LEAST_LINES, height - LEAST_LINES),
    )


def _share(chosen: int, room: int, usual: int, least: int, most: int) -> int:
    cells = chosen * room // WHOLE if chosen else usual
    return max(least, min(cells, most))


def _side_by_side(body: Region, view: View) -> dict[str, Region]:
    """Place the lists at the left, editor and log in the middle, all runs and GPUs at the right."""
    x, y, width, height = body
    cells = grid(body.size, view)
    files = height - cells.targets - cells.jobs
    middle = width - cells.lists - cells.right
    placed = {
        "files": Region(x, y, cells.lists, files),
        "targets": Region(x, y + files, cells.lists, cells.targets),
        "jobs": Region(x, y + files + cells.targets, cells.lists, cells.jobs),
        "editor": Region(x + cells.lists, y, middle, cells.editor),
        "log": Region(x + cells.lists, y + cells.editor, middle, height - cells.editor),
    }
    if cells.right:
        left = x + cells.lists + middle
        placed["history"] = Region(left, y, cells.right, cells.history)
        placed["gpus"] = Region(left, y + cells.history, cells.right, height - cells.history)
    return placed


def border_at(size: Size, view: View, x: int, y: int) -> str:
    """Return the field of `Sizes` for the border at this position, or ""."""
    if view.zoomed or not is_wide(size):
        return ""
    placed = regions(size, view)
    editor, targets, jobs, history = placed["editor"], placed["targets"], placed["jobs"], placed.get("history")
    if not editor.y <= y < jobs.bottom:
        return ""
    if x in (editor.x - 1, editor.x):
        return "lists"
    if history is not None and x in (history.x - 1, history.x):
        return "right"
    if x < editor.x:
        return next((name for name, pane in (("targets", targets), ("jobs", jobs)) if y in (pane.y - 1, pane.y)), "")
    if x < editor.right:
        # Only the first line of the log counts, because the last line of the editor has buttons.
        return "editor" if y == editor.bottom else ""
    return "history" if history is not None and y == history.bottom else ""


def moved(size: Size, view: View, border: str, cells: int) -> Sizes:
    """Return the sizes after a move of a border by `cells`: right or down if positive, left or up if negative."""
    bar = 1 + _notice_lines(view)
    body = Size(size.width, size.height - 2 - bar - view.question_lines)  # the area that the panes share
    now = grid(body, view)
    room = body.width if border in ("lists", "right") else body.height
    grows = -1 if border in ("right", "jobs", "targets") else 1
    new_size = max(1, getattr(now, border) + grows * cells)
    # Rounded up, because `_share` rounds down: together they return the same number of cells.
    sizes = view.sizes._replace(**{border: -(-new_size * WHOLE // room)})
    # The limited size is saved, not the new size. Otherwise keys in the other direction would first have no effect.
    given = getattr(grid(body, view._replace(sizes=sizes)), border)
    return sizes._replace(**{border: -(-given * WHOLE // room)})


class MainLayout(Layout):
    """A layout that places the children of the main screen by `regions`, and hides children without a region."""

    name = "main"

    def __init__(self, view: View | None = None) -> None:
        self.view = view or View()

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> ArrangeResult:
        placed = regions(size, self.view)
        return [
            WidgetPlacement(placed[child.id], NULL_OFFSET, NULL_SPACING, child)
            for child in children
            if child.id in placed
        ]


class Borders:
    """The movable borders of a widget with a `MainLayout`. `show` applies the new sizes."""

    def __init__(self, area: Widget, layout: MainLayout, show: Callable[[Sizes], None]) -> None:
        self._area = area
        self._layout = layout
        self._show = show
        self._held = ""
        self._held_at = (0, 0)

    def why_not(self) -> str:
        """Return the reason why no border can be moved now, or ""."""
        if self._layout.view.zoomed:
            return f"A zoomed pane has no borders to move. {shown_key('view.zoom', 'z')} restores its size."
        if not is_wide(self._area.size):
            return f"Moving borders needs a terminal of at least {WIDE_WIDTH} columns by {WIDE_HEIGHT} lines."
        return ""

    def step(self, pane: str, axis: str, direction: int) -> None:
        """Move the border that belongs to the keys of this axis while the pane has the focus."""
        if self.why_not():
            return
        if axis == "x":
            self._move("right" if pane in RIGHT_PANES else "lists", direction * STEP_X)
        else:
            border = "history" if pane in RIGHT_PANES else "editor" if pane in ("editor", "log") else "jobs"
            self._move(border, direction * STEP_Y)

    def hold(self, event: events.MouseDown) -> None:
        """Start dragging the border under the mouse, if any."""
        self._held_at = event.screen_x, event.screen_y
        at = self._held_at if event.button == 1 else (-1, -1)
        self._held = border_at(self._area.size, self._layout.view, *at)

    def drag(self, event: events.MouseMove) -> None:
        """Move the held border to the mouse."""
        if not self._held or event.button != 1:
            self._held = ""
            return
        if self._area.app.mouse_captured is None:
            self._area.capture_mouse()
        axis = 0 if self._held in ("lists", "right") else 1
        position = event.screen_x, event.screen_y
        if cells := position[axis] - self._held_at[axis]:
            self._move(self._held, cells)
            self._held_at = position

    def release(self) -> None:
        if self._held:
            self._held = ""
            self._area.release_mouse()
            self._area.screen.clear_selection()

    def _move(self, border: str, cells: int) -> None:
        self._show(moved(self._area.size, self._layout.view, border, cells))
