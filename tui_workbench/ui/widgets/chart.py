"""The chart widget: curves with axes, a legend and a read-out that keys move.

The invariant: curves of any length are worked on in a thread and the last that were handed down are what is shown;
keys change how they are looked at and never the curves.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tui_workbench.ui.blocking import Unbegun, in_thread
from tui_workbench.ui.commands import bindings
from tui_workbench.ui.history_commands import CHART
from tui_workbench.ui.themes import palette_of, style
from tui_workbench.ui.widgets.chart_canvas import DOTS_ACROSS
from tui_workbench.ui.widgets.chart_data import SMOOTHINGS, STEP, TIME, Curve, Picture, View, picture
from tui_workbench.ui.widgets.chart_drawing import Look, area_of, columns_for, draw, moved, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.binding import BindingType

AT_ONCE = 20_000
"""Points up to which a picture takes less than a frame to prepare, and no thread is asked."""


class Chart(Widget, can_focus=True, inherit_bindings=False):
    """Shows the curves that it was handed last."""

    DEFAULT_CSS = "Chart { height: 1fr; width: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = bindings(CHART)
    about = "Curves of what runs have logged. Each has a mark and a colour of its own; no extreme is left out."

    class Drawn(Message):
        """Other curves than before, or others views of them, stand on the screen."""

        def __init__(self, chart: Chart) -> None:
            super().__init__()
            self.chart = chart

    def __init__(self, look: Look | None = None, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.look = look or Look()
        self.view = View()
        self.picture: Picture | None = None
        self._curves: tuple[Curve, ...] = ()
        self._cursor: float | None = None
        self._message = ""
        self._number = 0
        self._lines: list[Strip] | None = None

    @property
    def curves(self) -> tuple[Curve, ...]:
        """The curves as they were handed down last."""
        return self._curves

    @property
    def cursor(self) -> float | None:
        """The x that is read out; None for none."""
        return self._cursor

    def show(self, curves: Sequence[Curve], look: Look | None = None) -> None:
        """Show these curves. What is looked at stays: scales, smoothing, the part of the axis, the read-out."""
        self._curves = tuple(curves)
        self._message = ""
        if look is not None:
            self.look = look
        self._prepare()

    def show_message(self, text: str) -> None:
        """Show a sentence, safe text, in place of curves."""
        self._curves, self.picture, self._message = (), None, text
        self._number += 1
        self._redraw()

    def reset(self) -> None:
        """Forget the read-out and the part of the axis: what comes next is about something else."""
        self._cursor = None
        self.view = self.view._replace(window=None)

    def point_at(self, x: float | None) -> None:
        """Read out what is at x; None for nothing."""
        if x != self._cursor:
            self._cursor = x
            self._redraw()

    # --- From curves to lines

    def _prepare(self) -> None:
        self._number += 1
        if not self.size.width or not self._curves:
            self.picture = None
            self._redraw()
            return
        call = partial(picture, self._curves, self.view, columns_for(self.size.width))
        if sum(len(curve.values) for curve in self._curves) <= AT_ONCE:
            self._accept(call(), self._number)
        else:
            self.run_worker(Unbegun(self._prepare_in_thread, call, self._number), group="chart", exclusive=True)

    async def _prepare_in_thread(self, call: partial[Picture], number: int) -> None:
        self._accept(await in_thread(call), number)

    def _accept(self, prepared: Picture, number: int) -> None:
        if number != self._number:
            return
        self.picture = prepared
        columns = area_of(prepared, self.size.width, self.size.height, self.look).columns * DOTS_ACROSS
        if columns != prepared.columns and sum(len(curve.ys) for curve in prepared.curves) <= AT_ONCE:
            # The labels took another width: what is cheap is prepared again, so that each dot has its column.
            self.picture = picture(self._curves, self.view, columns)
        self._redraw()
        self.post_message(self.Drawn(self))

    def _redraw(self) -> None:
        self._lines = None
        self.refresh()

    def on_resize(self, event: events.Resize) -> None:
        """Another width has other columns."""
        self._prepare()

    def on_focus(self) -> None:
        """The title is loud with the focus."""
        self._redraw()

    def on_blur(self) -> None:
        """The title is quiet without the focus."""
        self._redraw()

    def notify_style_update(self) -> None:
        """Another theme has other colours."""
        self._lines = None
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        """One line as it stands on the screen."""
        palette = palette_of(self)
        if self._lines is None:
            size = (self.size.width, self.size.height)
            if self.picture is not None:
                self._lines = draw(self.picture, size, self.look, palette, self._cursor)
            else:
                self._lines = self._empty_lines()
        if y < len(self._lines):
            return self._lines[y]
        return Strip.blank(self.size.width, style(palette.text, palette.background))

    def _empty_lines(self) -> list[Strip]:
        palette = palette_of(self)
        width, height = self.size
        text = self._message or ("Nothing logged yet." if self.look.title else "")
        ink = style(palette.muted, palette.background)
        title = Segment(
            f" {self.look.title}" if self.look.title else "", style(palette.text, palette.background, bold=True)
        )
        lines = [Strip([title if row == 0 else Segment("", ink)]) for row in range(height)]
        if height:
            lines[height // 2 if height > 2 else height - 1] = Strip([Segment(f"  {text}", ink)])
        return [line.adjust_cell_length(width, ink) for line in lines]

    # --- Commands

    def why_not(self, action: str) -> str:
        """Why a command is not available now."""
        if self.picture is None or not self._curves:
            return "There is no curve."
        if action == "toggle_by" and self.look.x_name:
            return "What is shown has no steps."
        if action == "show_all" and self._cursor is None and self.view.window is None:
            return "All is shown already."
        return ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Commands that would do nothing are not offered."""
        return not self.why_not(action)

    def _change(self, view: View) -> None:
        self.view = view
        self._prepare()
        self.refresh_bindings()

    def action_toggle_log(self) -> None:
        """Orders of magnitude, or values."""
        self._change(self.view._replace(log=not self.view.log))

    def action_smooth(self) -> None:
        """The next smoothing, around the end."""
        place = SMOOTHINGS.index(self.view.smoothing) if self.view.smoothing in SMOOTHINGS else 0
        self._change(self.view._replace(smoothing=SMOOTHINGS[(place + 1) % len(SMOOTHINGS)]))

    def action_toggle_by(self) -> None:
        """By step, or by time; what was read out has no meaning on the other axis."""
        self._cursor = None
        self._change(self.view._replace(by=STEP if self.view.by == TIME else TIME, window=None))

    def action_read_out(self, columns: int) -> None:
        """Move the read-out, at least to the next point; it begins at the last one."""
        shown = self.picture
        if shown is None or shown.is_empty:
            return
        if self._cursor is None:
            self._cursor = nearest(shown, shown.x.high)
        else:
            self._cursor = moved(shown, self._cursor, columns)
        self._follow_cursor()
        self._redraw()
        self.refresh_bindings()

    def _follow_cursor(self) -> None:
        window = self.view.window
        if window is None or self._cursor is None or window[0] <= self._cursor <= window[1]:
            return
        width = window[1] - window[0]
        low = self._cursor - width / 2
        self._change(self.view._replace(window=(low, low + width)))

    def action_zoom(self, factor: float) -> None:
        """Show more or less of the x axis, around the read-out."""
        shown = self.picture
        if shown is None:
            return
        width = (shown.x.high - shown.x.low) * factor
        middle = self._cursor if self._cursor is not None else (shown.x.low + shown.x.high) / 2
        low = middle - width / 2
        if width >= shown.whole.high - shown.whole.low:
            self._change(self.view._replace(window=None))
        elif width > abs(middle) * 1e-12:
            low = min(max(low, shown.whole.low), shown.whole.high - width)
            self._change(self.view._replace(window=(low, low + width)))

    def action_show_all(self) -> None:
        """The whole axis, nothing read out."""
        self._cursor = None
        self._change(self.view._replace(window=None))

    def on_click(self, event: events.Click) -> None:
        """A click reads out what is there."""
        if self.picture is None or self.picture.is_empty:
            return
        area = area_of(self.picture, self.size.width, self.size.height, self.look)
        place = (event.x - area.left) / max(1, area.columns - 1)
        self._cursor = nearest(self.picture, self.picture.x.value(min(1.0, max(0.0, place))))
        self._redraw()
        self.refresh_bindings()
