"""A chart as lines of a terminal: legend, axes with their ticks, and the curves in braille.

The invariant: curves are told apart by a mark as well as by a colour, the same in the chart, its legend and wherever
else the curve is named.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from textual.strip import Strip

from tui_workbench.ui.safetext import truncate_middle
from tui_workbench.ui.themes import style
from tui_workbench.ui.widgets.chart_canvas import DOTS_ACROSS, DOTS_DOWN, Canvas
from tui_workbench.ui.widgets.chart_data import TIME, value_at
from tui_workbench.ui.widgets.chart_scale import Scale, labels, number, span_label, ticks, time_ticks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui_workbench.ui.themes import Palette
    from tui_workbench.ui.widgets.chart_data import Bucket, Picture, Prepared

ROLES = ("accent", "number", "string", "keyword", "warning", "running", "error", "text")
"""The colours of curves, in order: names of palette fields."""

MARKS = "●▲■◆○△□◇+×abcdefghijklmnopqrstuvwxyz"
"""The marks of curves, in order."""

RAW = -2
"""Owner of what stands behind smoothed curves."""

MARK_EVERY = 24
"""Dots between the marks on a curve."""

MOST_MARKS = 2
"""Points for each cell of width up to which each of those that are not joined is marked."""

LEGEND_LINES = 2
LEAST_AXIS_HEIGHT = 5
"""Lines from which on the x axis gets a line of its own."""


class Look(NamedTuple):
    """What a chart is called and how its axes read."""

    title: str = ""
    joined: bool = True  # points are joined by lines
    durations: bool = False  # values are seconds
    x_name: str = ""  # "" for what the view says


class Area(NamedTuple):
    """Where the curves are in a chart: cells from the left edge, and how many."""

    left: int
    columns: int
    rows: int


def look_of(index: int) -> tuple[str, str]:
    """The colour (a palette field) and the mark of the curve with this number."""
    return ROLES[index % len(ROLES)], MARKS[index % len(MARKS)]


def area_of(picture: Picture, width: int, height: int, look: Look) -> Area:
    """Where the curves go in a chart of this size."""
    rows = _rows(picture, width, height)
    wide = max((cell_len(label) for _, label in _y_ticks(picture, rows, look)), default=1)
    left = min(max(wide, len(_x_name(picture, look))), max(0, width // 2)) + 2
    return Area(left, max(2, width - left - 1), rows)


def columns_for(width: int) -> int:
    """Dots to prepare curves for before their values, and with them the labels' width, are known."""
    return max(2, width - 9) * DOTS_ACROSS


def _rows(picture: Picture, width: int, height: int) -> int:
    """Lines of the curves."""
    below = 2 if height >= LEAST_AXIS_HEIGHT else 1
    return max(1, height - below - _legend_height(picture, width, height))


def _legend_height(picture: Picture, width: int, height: int) -> int:
    if height < 4:
        return 0
    if len(picture.curves) < 2 or height < 10:
        return 1
    return LEGEND_LINES if sum(cell_len(curve.curve.label) + 14 for curve in picture.curves) + 20 > width else 1


def draw(
    picture: Picture, size: tuple[int, int], look: Look, palette: Palette, cursor: float | None = None
) -> list[Strip]:
    """The lines of the chart. `cursor` is the x that is read out, None for none."""
    width, height = size
    area = area_of(picture, width, height, look)
    legend = _legend(picture, width, _legend_height(picture, width, height), look, palette, cursor)
    cursor_column = None
    if cursor is not None and 0 <= picture.x.place(cursor) <= 1:
        cursor_column = round(picture.x.place(cursor) * (area.columns - 1))
    body = _body(picture, area, look, palette, cursor_column)
    below = _x_axis(picture, area, width, height, look, palette)
    blank = style(palette.text, palette.background)
    return [strip.adjust_cell_length(width, blank) for strip in (*legend, *body, *below)][:height]


# --- The legend


def _legend(
    picture: Picture, width: int, lines: int, look: Look, palette: Palette, cursor: float | None
) -> list[Strip]:
    if not lines:
        return []
    ground = palette.background
    head = [Segment(f" {look.title}", style(palette.text, ground, bold=True))] if look.title else []
    where = _where(picture, cursor, look)
    if where:
        head.append(Segment(f"  {where}", style(palette.accent, ground)))
    entries = [_entry(index, curve, picture, look, palette, cursor) for index, curve in enumerate(picture.curves)]
    rows: list[list[Segment]] = [head]
    used = sum(segment.cell_length for segment in head)
    for shown, entry in enumerate(entries):
        size = sum(segment.cell_length for segment in entry)
        if used + size > width - (8 if len(rows) == lines else 0) and used:
            if len(rows) == lines:
                rows[-1].append(Segment(f"  +{len(entries) - shown} more", style(palette.muted, ground)))
                break
            rows.append([])
            used = 0
        rows[-1].extend(entry)
        used += size
    return [Strip(row) for row in [*rows, *([[]] * (lines - len(rows)))]]


def _where(picture: Picture, cursor: float | None, look: Look) -> str:
    if cursor is None:
        words = [f"smoothed {picture.view.smoothing:g}"] if picture.view.smoothing else []
        words += ["log"] if picture.view.log else []
        return ", ".join(words)
    if look.x_name:
        return f"{look.x_name} {number(cursor)}"
    return span_label(cursor) if picture.view.by == TIME else f"step {number(cursor)}"


def _entry(
    index: int, curve: Prepared, picture: Picture, look: Look, palette: Palette, cursor: float | None
) -> list[Segment]:
    role, mark = look_of(curve.curve.look if curve.curve.look >= 0 else index)
    ground = palette.background
    value = None
    if cursor is not None:
        point = value_at(curve, cursor)
        # Of runs beside each other only the one that is meant has the value.
        value = point[1] if point is not None and (not look.x_name or point[0] == cursor) else None
    elif curve.ys:
        value = curve.ys[-1]
    shown = "" if value is None else span_label(value) if look.durations else number(value)
    single = len(picture.curves) == 1
    name = "" if single and look.title else truncate_middle(curve.curve.label, 28)
    entry = [Segment("  ", style(palette.text, ground)), Segment(mark, style(getattr(palette, role), ground))]
    entry.append(Segment(f" {name}" if name else "", style(palette.muted, ground)))
    entry.append(Segment(f" {shown}", style(palette.text, ground)))
    if curve.left_out:
        entry.append(Segment(f" {_left_out(curve, picture)}", style(palette.warning, ground)))
    return entry


def _left_out(curve: Prepared, picture: Picture) -> str:
    return f"▲ {curve.left_out:,} not {'above 0' if picture.view.log else 'finite'}"


# --- The curves


def _body(picture: Picture, area: Area, look: Look, palette: Palette, cursor: int | None) -> list[Strip]:
    canvas = Canvas(area.columns, area.rows)
    if picture.is_empty:
        return _nothing(picture, area, palette)
    for index, curve in enumerate(picture.curves):
        for stroke in curve.raw:
            _stroke(canvas, stroke, picture, RAW, look)
        for stroke in curve.strokes:
            _stroke(canvas, stroke, picture, index, look)
    for index, curve in enumerate(picture.curves):
        _set_marks(canvas, curve, index, picture, look)
    at_row = dict(_y_ticks(picture, area.rows, look))
    owners = [getattr(palette, look_of(_look(curve, index))[0]) for index, curve in enumerate(picture.curves)]
    lines = []
    for row in range(area.rows):
        label = at_row.get(row, "")
        ground = palette.background
        segments = [Segment(f"{label:>{area.left - 2}} ", style(palette.muted, ground))]
        segments.append(Segment("┤" if label else "│", style(palette.faint, ground)))
        column = 0
        for text, owner in canvas.row(row):
            colour = owners[owner] if owner >= 0 else palette.faint
            segments += _with_cursor(text, column, cursor, colour, palette)
            column += len(text)
        lines.append(Strip(segments))
    return lines


def _with_cursor(text: str, column: int, cursor: int | None, colour: str, palette: Palette) -> list[Segment]:
    ink = style(colour, palette.background)
    if cursor is None or not column <= cursor < column + len(text):
        return [Segment(text, ink)]
    place = cursor - column
    under = "│" if text[place] == " " else text[place]
    loud = style(palette.accent if under == "│" else colour, palette.marked)
    return [Segment(text[:place], ink), Segment(under, loud), Segment(text[place + 1 :], ink)]


def _nothing(picture: Picture, area: Area, palette: Palette) -> list[Strip]:
    words = "Nothing logged yet."
    if any(curve.left_out for curve in picture.curves):
        words = "No value is above 0: l shows them on a linear scale." if picture.view.log else "No value is finite."
    elif picture.view.window is not None:
        words = "No value in this part: = shows all."
    elif any(curve.curve.values for curve in picture.curves):
        words = "The times of these values are not known: x shows them by step."
    ink = style(palette.muted, palette.background)
    middle = area.rows // 2
    return [Strip([Segment(f"  {words}" if row == middle else "", ink)]) for row in range(area.rows)]


def _look(curve: Prepared, index: int) -> int:
    return curve.curve.look if curve.curve.look >= 0 else index


def _stroke(canvas: Canvas, stroke: Sequence[Bucket], picture: Picture, owner: int, look: Look) -> None:
    """Draw an unbroken part: across each column its extremes, from each to the next a line."""
    before: tuple[int, int] | None = None
    for bucket in stroke:
        x = _dot_x(bucket.column, picture, canvas)
        canvas.upright(x, _dot_y(bucket.low, picture, canvas), _dot_y(bucket.high, picture, canvas), owner)
        if before is not None and look.joined:
            canvas.line(*before, x, _dot_y(bucket.first, picture, canvas), owner)
        before = x, _dot_y(bucket.last, picture, canvas)


def _set_marks(canvas: Canvas, curve: Prepared, index: int, picture: Picture, look: Look) -> None:
    """The curve's mark now and then on it, not at the places of its neighbours' marks, and once at least.

    Points that are not joined are all marked, unless they are too many.
    """
    mark = look_of(_look(curve, index))[1]
    if not look.joined and sum(map(len, curve.strokes)) <= MOST_MARKS * canvas.columns:
        for bucket in (bucket for stroke in curve.strokes for bucket in stroke):
            canvas.mark(_dot_x(bucket.column, picture, canvas), _dot_y(bucket.last, picture, canvas), mark, index)
        return
    several = len(picture.curves) > 1
    offset = (index * 10) % MARK_EVERY
    next_at = -1
    for stroke in curve.strokes:
        for bucket in stroke:
            x = _dot_x(bucket.column, picture, canvas)
            lonely = len(stroke) == 1
            if lonely or (several and x >= offset and x >= next_at):
                canvas.mark(x, _dot_y(bucket.last, picture, canvas), mark, index)
                next_at = x + MARK_EVERY
    if several and next_at < 0 and curve.strokes:
        last = curve.strokes[-1][-1]
        canvas.mark(_dot_x(last.column, picture, canvas), _dot_y(last.last, picture, canvas), mark, index)


def _dot_x(column: int, picture: Picture, canvas: Canvas) -> int:
    """The dot for a prepared column; both count alike unless the labels took another width than was foreseen."""
    if picture.columns == canvas.width:
        return column
    return round(column * (canvas.width - 1) / max(1, picture.columns - 1))


def _dot_y(value: float, picture: Picture, canvas: Canvas) -> int:
    return round((1 - picture.y.place(value)) * (canvas.height - 1))


# --- The axes


def _y_ticks(picture: Picture, rows: int, look: Look) -> list[tuple[int, str]]:
    """Row and label of each tick of the y axis."""
    if picture.is_empty:
        return []
    most = max(2, min(8, (rows + 1) // 2))
    values = time_ticks(picture.y, most) if look.durations and not picture.y.log else ticks(picture.y, most)
    if len(values) < 2:
        # No two round values lie in so small a span: its ends tell it.
        values = [picture.y.low, picture.y.high] if rows > 1 else [picture.y.high]
    if look.durations:
        texts = [span_label(value) for value in values]
    else:
        texts = [number(value) for value in values] if picture.y.log else labels(values)
    return [(_row(picture.y, value, rows), text) for value, text in zip(values, texts, strict=True)]


def _row(scale: Scale, value: float, rows: int) -> int:
    return min(rows - 1, max(0, round((1 - scale.place(value)) * (rows * DOTS_DOWN - 1)) // DOTS_DOWN))


def _x_name(picture: Picture, look: Look) -> str:
    return look.x_name or picture.view.by


def _x_axis(picture: Picture, area: Area, width: int, height: int, look: Look, palette: Palette) -> list[Strip]:
    name = _x_name(picture, look)
    by_time = name == TIME and not look.x_name
    most = max(2, min(10, area.columns // 12))
    values = time_ticks(picture.x, most) if by_time else ticks(picture.x, most)
    if not by_time:
        values = [value for value in values if value == int(value)] or values
    texts = [span_label(value) for value in values] if by_time else labels(values)
    places = [round(picture.x.place(value) * (area.columns - 1)) for value in values]
    line = [" "] * area.columns
    kept = []
    end = -2
    for place, text in zip(places, texts, strict=True):
        start = max(0, min(place - cell_len(text) // 2, area.columns - cell_len(text)))
        if start > end + 1 and start + len(text) <= area.columns:
            line[start : start + len(text)] = text
            end = start + len(text)
            kept.append(place)
    ink, quiet = style(palette.muted, palette.background), style(palette.faint, palette.background)
    name_ink = style(palette.comment, palette.background)
    left = truncate_middle(name, area.left - 1)
    below = [Strip([Segment(f"{left:>{area.left - 1}} ", name_ink), Segment("".join(line), ink)])]
    if height < LEAST_AXIS_HEIGHT:
        return below
    rule = "".join("┴" if column in kept else "─" for column in range(area.columns))
    return [Strip([Segment(" " * (area.left - 1), quiet), Segment(f"└{rule}", quiet)]), *below]


# --- What is read out


def nearest(picture: Picture, x: float) -> float | None:
    """The x of the point of the first curve that is nearest to x; None without points."""
    xs = _places(picture)
    place = bisect_left(xs, x)
    return min(xs[max(0, place - 1) : place + 1], key=lambda each: abs(each - x), default=None)


def moved(picture: Picture, x: float, cells: int) -> float:
    """The x of the point of the first curve that is so many cells to the right of x, but another one in any case."""
    xs = _places(picture)
    if not xs:
        return x
    target = x + (picture.x.high - picture.x.low) * cells * DOTS_ACROSS / max(1, picture.columns - 1)
    if cells > 0:
        place = max(bisect_right(xs, x), bisect_right(xs, target) - 1)
    else:
        place = min(bisect_left(xs, x) - 1, bisect_left(xs, target))
    return xs[max(0, min(len(xs) - 1, place))]


def _places(picture: Picture) -> Sequence[float]:
    return next((curve.xs for curve in picture.curves if curve.xs), ())
