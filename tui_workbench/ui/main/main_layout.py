"""Where everything of the main screen stands at each size: rules over a width and a height, and no more.

Wide screens show all five panes; narrow ones, and a zoomed pane, show the pane that has the focus. The same thing
stands in the same place at every size, and nothing moves but when the size, the zoom or (where one pane fits) the
focus changes. Borders move by keys and by the mouse; what is remembered of that are sizes that the panes have: a border
that cannot go further forgets how far one wanted it to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from textual import events
from textual.geometry import NULL_OFFSET, NULL_SPACING, Region, Size
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.widget import Widget

from tui_workbench.ui.session_state import Values

PANES = ("files", "targets", "editor", "log", "jobs")
"""The ids of the panes, in the order of their numbers."""

WIDE_WIDTH = 100
WIDE_HEIGHT = 22
"""The size from which on all panes fit beside each other, each with lines that can be read."""

RIGHT_WIDTH = 180
"""The width from which on there is a column for all runs and the GPUs."""

USUAL_RIGHT = 62
"""Cells in which the table of runs has room for two metrics."""

RIGHT_PANES = ("history", "gpus")
"""What stands there; both have a screen of their own, which the keys 6 and 7 open."""

LEAST_LISTS, LEAST_MIDDLE, LEAST_RIGHT = 24, 40, 30
"""Cells that a column keeps, whatever a person wants."""

LEAST_LINES = 4
WHOLE = 1000
"""What the shares of `Sizes` are of."""

BORDERS = 2
STEP_X, STEP_Y = 4, 2
"""Cells that a key moves a border."""

MOST_NOTICE_LINES = 4


class Sizes(NamedTuple):
    """How large a person has made the panes, in thousandths of the room that they share; 0 where nobody has."""

    lists: int = 0  # width of the column of lists
    right: int = 0  # width of the column at the right
    editor: int = 0  # height of the editor, above the log
    jobs: int = 0  # height of the runs, below files and targets
    targets: int = 0  # height of the targets, below the files
    history: int = 0  # height of the history, above the GPUs


class View(NamedTuple):
    """What the places depend on, besides the size."""

    active: str = "files"  # the id of the pane that is shown where only one fits
    zoomed: bool = False
    target_lines: int = 3
    notice_lines: int = 1  # what the run bar says below its fields
    has_error: bool = False  # it is an error, which is shown also where there is little room
    question_lines: int = 0  # of the question that waits for an answer
    has_right: bool = False  # there are parts for the column at the right
    sizes: Sizes = Sizes()


def view_of(saved: Values) -> View:
    """The view that was left."""
    part = saved.part("screen")
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


class Grid(NamedTuple):
    """The sizes of the panes that stand beside each other, in cells."""

    lists: int
    right: int  # 0 where there is no room for that column
    editor: int
    targets: int
    jobs: int
    history: int


def grid(body: Size, view: View) -> Grid:
    """How the panes share the room: as a person wants it, as far as every pane keeps lines that can be read."""
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


def _share(wanted: int, room: int, usual: int, least: int, most: int) -> int:
    cells = wanted * room // WHOLE if wanted else usual
    return max(least, min(cells, most))


def _side_by_side(body: Region, view: View) -> dict[str, Region]:
    """Lists at the left; in the middle, where the room is, what one writes and reads; at the right what one watches."""
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


def border_of(pane: str, *, is_upright: bool) -> str:
    """The field of `Sizes` that the keys of this pane change: the border of its column, or the one between its rows."""
    if is_upright:
        return "right" if pane in RIGHT_PANES else "lists"
    return "history" if pane in RIGHT_PANES else "editor" if pane in ("editor", "log") else "jobs"


def border_at(size: Size, view: View, x: int, y: int) -> str:
    """The border at this place of the screen, as the field of `Sizes` that it is of; "" where none can be moved."""
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
        # The first line of the editor's neighbour alone: the last one of the editor has words to click on.
        return "editor" if y == editor.bottom else ""
    return "history" if history is not None and y == history.bottom else ""


def moved(size: Size, view: View, border: str, cells: int) -> Sizes:
    """The sizes after this border was moved right or down by so many cells, or left or up when negative."""
    body = _body(size, view)
    now = grid(body, view)
    room = body.width if border in ("lists", "right") else body.height
    grows = -1 if border in ("right", "jobs", "targets") else 1
    wanted = max(1, getattr(now, border) + grows * cells)
    sizes = view.sizes._replace(**{border: -(-wanted * WHOLE // room)})
    # What cannot be given is not saved, or keys in the other direction would seem dead.
    given = getattr(grid(body, view._replace(sizes=sizes)), border)
    return sizes._replace(**{border: -(-given * WHOLE // room)})


def _body(size: Size, view: View) -> Size:
    """The room that the panes share."""
    bar = 1 + _notice_lines(view)
    return Size(size.width, size.height - 2 - bar - view.question_lines)


class MainLayout(Layout):
    """Puts the children of the main screen where `regions` says. A child that is not named there is not shown."""

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
    """Moves the borders of a widget that is laid out by `MainLayout`; `show` makes the panes as large as it says."""

    def __init__(self, area: Widget, layout: MainLayout, show: Callable[[Sizes], None]) -> None:
        self._area = area
        self._layout = layout
        self._show = show
        self._held = ""
        self._held_at = (0, 0)

    def why_not(self) -> str:
        """Why no border can be moved now: a sentence, or "" when one can."""
        if self._layout.view.zoomed:
            return "One pane has the whole screen; z gives the others theirs."
        if not is_wide(self._area.size):
            return "The panes stand beside each other in terminals of 100 by 22 and more."
        return ""

    def step(self, pane: str, axis: str, direction: int) -> None:
        """Move a border of the pane's column, by as much as a key does."""
        if not self.why_not():
            self._move(border_of(pane, is_upright=axis == "x"), direction * (STEP_X if axis == "x" else STEP_Y))

    def hold(self, event: events.MouseDown) -> None:
        """Take hold of the border under the mouse, if one is."""
        self._held_at = event.screen_x, event.screen_y
        at = self._held_at if event.button == 1 else (-1, -1)
        self._held = border_at(self._area.size, self._layout.view, *at)

    def drag(self, event: events.MouseMove) -> None:
        """Let the border that is held follow the mouse."""
        if not self._held or event.button != 1:
            self._held = ""
            return
        if self._area.app.mouse_captured is None:
            self._area.capture_mouse()
        axis = 0 if self._held in ("lists", "right") else 1
        place = event.screen_x, event.screen_y
        if cells := place[axis] - self._held_at[axis]:
            self._move(self._held, cells)
            self._held_at = place

    def let_go(self) -> None:
        """The mouse button is no longer pressed."""
        if self._held:
            self._held = ""
            self._area.release_mouse()
            self._area.screen.clear_selection()

    def _move(self, border: str, cells: int) -> None:
        self._show(moved(self._area.size, self._layout.view, border, cells))
