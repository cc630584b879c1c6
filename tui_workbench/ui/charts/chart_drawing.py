"""Draw a chart as terminal lines: legend, axes with ticks, and curves of braille dots.

Curves differ in mark and color, so that they can be told apart without colors. Dots outside the chart are clipped.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from operator import itemgetter
from typing import NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from textual.strip import Strip

from tui_workbench.ui.charts.chart_data import (
    TIME,
    Bucket,
    Curve,
    Points,
    Stroke,
    View,
    attempt_begins,
    extremes,
    points_of,
    replaced_points,
    strokes,
)
from tui_workbench.ui.charts.chart_scale import (
    Scale,
    even_ticks,
    labels,
    number,
    scale_over,
    span_label,
    ticks,
    time_ticks,
)
from tui_workbench.ui.commands.command import shown_key
from tui_workbench.ui.terminal.safetext import truncate_middle
from tui_workbench.ui.themes.themes import Palette, style
from tui_workbench.ui.widgets.pieces import Piece, draw_line, width_of

ROLES = ("accent", "number", "string", "keyword", "warning", "running", "error", "text")
"""Colors of the curves: field names of `Palette`."""

MARKS = "●▲■◆○△□◇+×abcdefghijklmnopqrstuvwxyz"

DOTS_ACROSS, DOTS_DOWN = 2, 4
_BRAILLE = 0x2800
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bit of each dot in a braille character, by row and column."""

MARK_EVERY = 24  # columns of dots between two marks on a curve
MOST_MARKS = 2  # points per column up to which a chart without lines marks every point
LEGEND_LINES = 2
LEAST_AXIS_HEIGHT = 5  # minimum height of a chart with a line above the labels of the x axis


class Look(NamedTuple):
    """The title of a chart and the meaning of its axes."""

    title: str = ""
    joined: bool = True  # True if lines connect the points
    durations: bool = False  # True if the values of the y axis are seconds
    x_name: str = ""  # the meaning of the x axis; "" if `View.by` determines it


def look_of(index: int) -> tuple[str, str]:
    """Return the color (a palette field) and the mark of the curve with this index."""
    return ROLES[index % len(ROLES)], MARKS[index % len(MARKS)]


class Canvas:
    """A surface of braille dots with the origin at the upper left.

    A cell shows a mark, or the dots of all lines through it in the color of the line drawn last.
    """

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.width, self.height = columns * DOTS_ACROSS, rows * DOTS_DOWN
        self._bits = [bytearray(columns) for _ in range(rows)]
        self._roles = [["faint"] * columns for _ in range(rows)]
        self._marks: dict[tuple[int, int], tuple[str, str]] = {}

    def upright(self, x: int, first: int, last: int, role: str) -> None:
        """Draw a vertical line between two heights, given in either order."""
        if not 0 <= x < self.width:
            return
        column, side = x >> 1, x & 1
        for y in range(max(0, min(first, last)), min(self.height - 1, max(first, last)) + 1):
            self._bits[y >> 2][column] |= _BITS[y & 3][side]
            self._roles[y >> 2][column] = role

    def shade(self, x: int, first: int, last: int, role: str) -> None:
        """Draw every fourth dot between two heights, so that curves stay visible on the shaded area."""
        for y in range(min(first, last), max(first, last) + 1):
            if y % 4 == x % 2 * 2:
                self.upright(x, y, y, role)

    def line(self, x0: int, y0: int, x1: int, y1: int, role: str) -> None:
        """Draw a straight line from left to right (`x0 <= x1`)."""
        across = x1 - x0
        if across <= 1:
            middle = (y0 + y1) // 2
            self.upright(x0, y0, middle, role)
            self.upright(x1, middle, y1, role)
            return
        rise = (y1 - y0) / across
        before = y0
        for step in range(max(0, -x0), min(across, self.width - x0) + 1):
            here = round(y0 + rise * step)
            # Each step is a vertical line, so that a steep line has no holes.
            self.upright(x0 + step, before if step else y0, here, role)
            before = here

    def mark(self, x: int, y: int, glyph: str, role: str) -> None:
        """Put a glyph into the cell of this dot, unless the cell already has a glyph."""
        if 0 <= x < self.width and 0 <= y < self.height:
            self._marks.setdefault((y >> 2, x >> 1), (glyph, role))

    def row(self, row: int) -> Iterator[Piece]:
        """Yield the cells of a row from left to right, grouped by color."""
        cells = (
            self._marks.get((row, column)) or (chr(_BRAILLE + bits) if bits else " ", role)
            for column, (bits, role) in enumerate(zip(self._bits[row], self._roles[row], strict=True))
        )
        for role, same in groupby(cells, key=itemgetter(1)):
            yield Piece("".join(text for text, _ in same), role)


class Picture:
    """Curves prepared for a chart of a given size. Preparing a million points takes 0.1 s."""

    def __init__(self, curves: Sequence[Curve], view: View, look: Look, width: int, height: int) -> None:
        self._view, self._look, self._width, self._height = view, look, width, height
        self.curves = [points_of(curve, view) for curve in curves]
        self._looks = [look_of(curve.look if curve.look >= 0 else index) for index, curve in enumerate(curves)]
        # The points of the lower and the upper edge of the band of each curve; [] without a band.
        self._bands = [[points_of(curve._replace(values=edge), view) for edge in curve.band or ()] for curve in curves]
        self._xs = next((curve.xs for curve in self.curves if curve.xs), ())
        replaced = [points for curve in curves for points in replaced_points(curve, view)]
        drawn_xs = [points.xs for points in (*self.curves, *replaced) if points.xs]
        self.whole = scale_over(end for xs in drawn_xs for end in (xs[0], xs[-1]))
        self.x = Scale(*view.window) if view.window else self.whole
        drawn = [*self.curves, *chain.from_iterable(self._bands)]
        shown = list(chain.from_iterable(extremes(curve, self.x, log=view.log) for curve in drawn))
        self.is_empty = not shown
        self._legend_height = self._count_legend_lines()
        self._rows = max(1, height - (2 if height >= LEAST_AXIS_HEIGHT else 1) - self._legend_height)
        self.y = scale_over(chain(shown, () if view.log else view.shown), log=view.log)
        self._scale, self._labels = self._y_axis(self.y)
        self._x_name = look.x_name or view.by
        wide = max(map(cell_len, self._labels.values()), default=1)
        self._left = min(max(wide + 1, len(self._x_name)), max(0, width // 2)) + 2
        self._columns = max(2, width - self._left - 1)
        self._strokes = [self._strokes_of(curve.xs, curve.smooth) for curve in self.curves]
        smoothed = [curve for curve in self.curves if curve.smooth is not curve.ys]
        behind = (*replaced, *smoothed)
        self._behind = list(chain.from_iterable(self._strokes_of(points.xs, points.ys) for points in behind))

    def _strokes_of(self, xs: Sequence[float], ys: Sequence[float]) -> tuple[Stroke, ...]:
        return strokes(xs, ys, self.x, self._columns * DOTS_ACROSS, log=self._view.log)

    def lines(self, palette: Palette, cursor: float | None = None) -> list[Strip]:
        """Draw the chart as terminal lines, with the cursor at the x value `cursor`."""
        legend, body = self._legend(cursor), self._empty_body() if self.is_empty else self._body()
        lines = (*legend, *body, *self._x_axis())
        strips = [draw_line(line, self._width, palette, palette.background) for line in lines]
        at = -1 if cursor is None or self.is_empty else self._left + self._column(cursor)
        if self._left <= at < min(self._width, self._left + self._columns):
            for row in range(len(legend), len(legend) + self._rows):
                strips[row] = _with_cursor(strips[row], at, palette)
        return strips[: self._height]

    # --- The legend

    def _count_legend_lines(self) -> int:
        if self._height < 4:
            return 0
        if len(self.curves) < 2 or self._height < 10:
            return 1
        width = sum(cell_len(points.curve.label) + 14 for points in self.curves)
        return LEGEND_LINES if width + 20 > self._width else 1

    def _legend(self, cursor: float | None) -> list[list[Piece]]:
        if not self._legend_height:
            return []
        head = [Piece(f" {self._look.title}", bold=True)] if self._look.title else []
        if text := self._view_text(cursor):
            head.append(Piece(f"  {text}", "accent"))
        rows = [head]
        for index in range(len(self.curves)):
            entry = self._entry(index, cursor)
            is_last = len(rows) == self._legend_height
            if rows[-1] and width_of([*rows[-1], *entry]) > self._width - (8 if is_last else 0):
                if is_last:
                    rows[-1].append(Piece(f"  +{len(self.curves) - index} more", "muted"))
                    break
                rows.append([])
            rows[-1] += entry
        return rows + [[]] * (self._legend_height - len(rows))

    def _view_text(self, cursor: float | None) -> str:
        if cursor is None:
            words = [f"smoothed {self._view.smoothing:g}"] if self._view.smoothing else []
            return ", ".join([*words, "log"] if self._view.log else words)
        if self._look.x_name:
            return f"{self._look.x_name} {number(cursor)}"
        return span_label(cursor) if self._view.by == TIME else f"step {number(cursor)}"

    def _entry(self, index: int, cursor: float | None) -> list[Piece]:
        points, (role, mark) = self.curves[index], self._looks[index]
        value: float | None = None
        if cursor is None:
            value = points.ys[-1] if points.ys else None
        elif point := points.nearest(cursor):
            # On an axis of runs, only a point exactly at the cursor belongs to the run at the cursor.
            value = point[1] if not self._look.x_name or point[0] == cursor else None
        shown = "" if value is None else span_label(value) if self._look.durations else number(value)
        is_alone = len(self.curves) == 1 and self._look.title
        name = "" if is_alone else f" {truncate_middle(points.curve.label, 28)}"
        entry = [Piece("  "), Piece(mark, role), Piece(name, "muted"), Piece(f" {shown}")]
        if points.left_out:
            reason = "≤ 0" if self._view.log else "not finite"
            entry.append(Piece(f" ▲ {points.left_out:,} hidden ({reason})", "warning"))
        return entry

    # --- The curves

    def _body(self) -> Iterator[Sequence[Piece]]:
        canvas = Canvas(self._columns, self._rows)
        self._draw_attempts(canvas)
        for (role, _), edges in zip(self._looks, self._bands, strict=True):
            self._shade(canvas, edges, role)
        for stroke in self._behind:
            self._draw(canvas, stroke, "faint")
        for (role, _), of_curve in zip(self._looks, self._strokes, strict=True):
            for stroke in of_curve:
                self._draw(canvas, stroke, role)
        for index, (role, mark) in enumerate(self._looks):
            for bucket in self._marked(index):
                canvas.mark(bucket.column, self._dot_y(bucket.last), mark, role)
        for row in range(self._rows):
            label = self._labels.get(row, "")
            axis = (Piece(f"{label:>{self._left - 2}} ", "muted"), Piece("┤" if label else "│", "faint"))
            yield (*axis, *canvas.row(row))

    def _shade(self, canvas: Canvas, edges: Sequence[Points], role: str) -> None:
        for column in range(canvas.width if edges else 0):
            ends = [edge.between(self.x.value(column / (canvas.width - 1))) for edge in edges]
            heights = [
                self._dot_y(max(end, self._scale.low) if self._scale.log else end)
                for end in ends
                if end is not None and math.isfinite(end)
            ]
            if len(heights) == len(ends):
                canvas.shade(column, heights[0], heights[1], role)

    def _draw_attempts(self, canvas: Canvas) -> None:
        """Draw a line at the beginning of each attempt after the first, with the number of the attempt."""
        begins = {begin for points in self.curves for begin in attempt_begins(points.curve, self._view)}
        for attempt, x in sorted(begins):
            if self.x.low <= x <= self.x.high:
                column = self._column(x) * DOTS_ACROSS
                for y in range(DOTS_DOWN, canvas.height, 2):
                    canvas.upright(column, y, y, "faint")
                canvas.mark(column, 0, str(attempt) if attempt < 10 else "+", "muted")

    def _draw(self, canvas: Canvas, stroke: Stroke, role: str) -> None:
        """Draw the range of each column and, if points are joined, a line from each column to the next."""
        before: Bucket | None = None
        for bucket in stroke:
            canvas.upright(bucket.column, self._dot_y(bucket.low), self._dot_y(bucket.high), role)
            if before is not None and self._look.joined:
                start = before.column, self._dot_y(before.last)
                canvas.line(*start, bucket.column, self._dot_y(bucket.first), role)
            before = bucket

    def _marked(self, index: int) -> list[Bucket]:
        """Choose the buckets at which the mark of a curve is drawn.

        Points without neighbors are always marked. If there are several curves, each has at least one mark, and more
        at intervals, away from the marks of other curves. Without lines, all points are marked unless there are too
        many.
        """
        points = list(chain.from_iterable(self._strokes[index]))
        if not self._look.joined and len(points) <= MOST_MARKS * self._columns:
            return points
        several = len(self.curves) > 1
        marked, next_at = [], (index * 10) % MARK_EVERY
        for stroke in self._strokes[index]:
            for bucket in stroke:
                if len(stroke) == 1 or (several and bucket.column >= next_at):
                    marked.append(bucket)
                    next_at = bucket.column + MARK_EVERY
        return marked or (points[-1:] if several else [])

    def _dot_y(self, value: float) -> int:
        return round((1 - self._scale.position(value)) * (self._rows * DOTS_DOWN - 1))

    def _empty_body(self) -> Iterator[Sequence[Piece]]:
        text = "No values logged."
        if any(curve.left_out for curve in self.curves):
            linear = f"{shown_key('chart.log', 'l')} switches to a linear scale."
            text = f"All values are ≤ 0. {linear}" if self._view.log else "No finite values."
        elif self._view.window is not None:
            text = f"No values in this part. {shown_key('chart.all', '=')} shows the whole axis."
        elif any(curve.curve.values for curve in self.curves):
            text = f"The times of these values are unknown. {shown_key('chart.by', 'x')} shows the values by step."
        for row in range(self._rows):
            yield (Piece(f"  {text}" if row == self._rows // 2 else "", "muted"),)

    # --- The axes

    def _y_axis(self, y: Scale) -> tuple[Scale, dict[int, str]]:
        """Return a scale with round ends for the y axis, and the label of each row that has a tick."""
        if self.is_empty:
            return y, {}
        most, is_duration = max(2, min(8, (self._rows + 1) // 2)), self._look.durations
        scale, values = even_ticks(y, self._rows, most, DOTS_DOWN, durations=is_duration)
        if len(values) < 2:
            scale, values = y, time_ticks(y, most) if is_duration and not y.log else ticks(y, most)
        if len(values) < 2:
            # If the scale contains fewer than two round values, its ends are labeled.
            values = [y.low, y.high] if self._rows > 1 else [y.high]
        write = span_label if is_duration else number
        texts = labels(values) if not is_duration and not scale.log else [write(value) for value in values]
        rows = [round((1 - scale.position(value)) * (self._rows * DOTS_DOWN - 1)) // DOTS_DOWN for value in values]
        return scale, {min(self._rows - 1, max(0, row)): text for row, text in zip(rows, texts, strict=True)}

    def _column(self, x: float) -> int:
        """Return the column in which a point at `x` is drawn."""
        return math.floor(self.x.position(x) * (self._columns * DOTS_ACROSS - 1) + 0.5) // DOTS_ACROSS

    def _x_axis(self) -> list[Sequence[Piece]]:
        by_time = self._x_name == TIME and not self._look.x_name
        most = max(2, min(10, self._columns // 12))
        values = time_ticks(self.x, most) if by_time else ticks(self.x, most)
        if not by_time:
            values = [value for value in values if value == int(value)] or values
        texts = [span_label(value) for value in values] if by_time else labels(values)
        line, rule = [" "] * self._columns, ["─"] * self._columns
        end = -2
        for value, text in zip(values, texts, strict=True):
            column = self._column(value)
            start = max(0, min(column - len(text) // 2, self._columns - len(text)))
            if start > end + 1 and start + len(text) <= self._columns:
                line[start : start + len(text)] = text
                end = start + len(text)
                rule[column] = "┴"
        room = self._left - 1
        name = Piece(f"{truncate_middle(self._x_name, room):>{room}} ", "comment")
        below = (name, Piece("".join(line), "muted"))
        above = (Piece(" " * room), Piece(f"└{''.join(rule)}", "faint"))
        return [above, below] if self._height >= LEAST_AXIS_HEIGHT else [below]

    # --- The cursor

    def nearest(self, x: float) -> float | None:
        """Return the x value nearest to `x` among the points of the first curve; None without points."""
        after = bisect_left(self._xs, x)
        return min(self._xs[max(0, after - 1) : after + 1], key=lambda other: abs(other - x), default=None)

    def nearest_to_column(self, column: int) -> float | None:
        position = (column - self._left) / max(1, self._columns - 1)
        return self.nearest(self.x.value(min(1.0, max(0.0, position))))

    def moved(self, x: float, cells: int) -> float:
        """Return the x value of the point of the first curve that is about `cells` columns from `x`.

        The point is to the right of `x`, or to the left if `cells` is negative, and is at least the next point. At an
        end of the curve, return the x value of that end; without points, return `x`.
        """
        xs = self._xs
        if not xs:
            return x
        target = x + (self.x.high - self.x.low) * cells / max(1, self._columns - 1)
        if cells > 0:
            index = max(bisect_right(xs, x), bisect_right(xs, target) - 1)
        else:
            index = min(bisect_left(xs, x) - 1, bisect_left(xs, target))
        return xs[max(0, min(len(xs) - 1, index))]


def _with_cursor(strip: Strip, at: int, palette: Palette) -> Strip:
    """Highlight the cell under the cursor; if the cell is blank, draw a line in it."""
    cell = strip.crop(at, at + 1)
    color = palette.accent
    if cell.text != " " and (ink := next(iter(cell)).style) is not None and ink.color is not None:
        color = ink.color.name
    under = Segment("│" if cell.text == " " else cell.text, style(color, palette.marked))
    return Strip.join([strip.crop(0, at), Strip([under]), strip.crop(at + 1)])
