"""The chart widget: curves with axes, a legend, and a cursor that shows the values at its position.

Long curves are prepared in a thread, and only those of the latest call to `show` are drawn. Keys
change the view, not the curves.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from textual import events
from textual.strip import Strip
from textual.widget import Widget

from tui_workbench.ui.blocking import ask
from tui_workbench.ui.charts.chart_data import SMOOTHINGS, STEP, TIME, Curve, View
from tui_workbench.ui.charts.chart_drawing import Look, Picture
from tui_workbench.ui.commands.available_commands import ExplainsUnavailable
from tui_workbench.ui.commands.screen_commands import CHART
from tui_workbench.ui.themes.themes import palette_of, style
from tui_workbench.ui.widgets.pieces import Piece, draw_line

AT_ONCE = 20_000  # maximum number of points that are prepared without a thread, because this takes less than a frame


class Chart(ExplainsUnavailable, Widget, can_focus=True, inherit_bindings=False):
    """A widget that draws the curves of the latest call to `show`."""

    heading = "Chart"
    DEFAULT_CSS = "Chart { height: 1fr; width: 1fr; }"
    BINDINGS = CHART.bindings
    about = "Curves, each with a mark and a color. Minima and maxima are always drawn."

    def __init__(self, look: Look | None = None) -> None:
        super().__init__()
        self.look = look or Look()
        self.view = View()
        self.picture: Picture | None = None
        self.curves: tuple[Curve, ...] = ()
        self.cursor: float | None = None  # the x value of the cursor; None without a cursor
        self._message = ""
        self._lines: list[Strip] | None = None

    def show(self, curves: Sequence[Curve], look: Look | None = None) -> None:
        """Show these curves with the current view and cursor. If `look` is None, the title and the axes stay."""
        self.curves = tuple(curves)
        self._message = ""
        if look is not None:
            self.look = look
        self._prepare()

    def show_message(self, text: str) -> None:
        """Show a message (safe text) instead of curves."""
        self.curves, self._message = (), text
        self._prepare()

    def reset(self) -> None:
        """Clear the cursor and the zoom, before unrelated curves are shown."""
        self.cursor = None
        self.view = self.view._replace(window=None)

    def point_at(self, x: float | None) -> None:
        """Move the cursor to `x`, or remove the cursor if `x` is None."""
        if x != self.cursor:
            self.cursor = x
            self._redraw()
            self.refresh_bindings()

    def _prepare(self) -> None:
        self.workers.cancel_group(self, "ask chart")
        if not self.size.width or not self.curves:
            self._accept(None)
        elif sum(len(curve.values) for curve in self.curves) <= AT_ONCE:
            self._accept(self._new_picture())
        else:
            ask(self, "chart", self._new_picture, self._accept)

    def _new_picture(self) -> Picture:
        return Picture(self.curves, self.view, self.look, *self.size)

    def _accept(self, prepared: Picture | None) -> None:
        self.picture = prepared
        self._redraw()

    def _redraw(self) -> None:
        self._lines = None
        self.refresh()

    def on_resize(self, event: events.Resize) -> None:
        self._prepare()

    def on_unmount(self) -> None:
        # The garbage collector may find a removed widget much later, and its curves can be large.
        self.curves, self.picture = (), None

    def on_focus(self) -> None:
        self._redraw()

    on_blur = on_focus

    def notify_style_update(self) -> None:
        self._lines = None
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        palette = palette_of(self)
        if self._lines is None:
            self._lines = self.picture.lines(palette, self.cursor) if self.picture else self._empty_lines()
        if y >= len(self._lines):
            return Strip.blank(self.size.width, style(palette.text, palette.background))
        line = self._lines[y]
        if y == 0 and self.has_focus:
            return Strip.join([Strip([Segment("▌", style(palette.accent, palette.background))]), line.crop(1)])
        return line

    def _empty_lines(self) -> list[Strip]:
        palette, (width, height) = palette_of(self), self.size
        text = self._message or ("No values logged." if self.look.title else "")
        lines = [[Piece("")] for _ in range(height)]
        if height:
            lines[0] = [Piece(f" {self.look.title}" if self.look.title else "", bold=True)]
            lines[height // 2 if height > 2 else height - 1] = [Piece(f"  {text}", "muted")]
        return [draw_line(line, width, palette, palette.background) for line in lines]

    # --- Commands

    def why_not(self, action: str) -> str:
        if self.picture is None or not self.curves:
            return "No curves to show."
        if action == "toggle_by" and self.look.x_name:
            return "The x axis of this chart cannot be changed."
        if action == "show_all" and self.cursor is None and self.view.window is None:
            return "The whole axis is already shown."
        return ""

    def _change(self, view: View) -> None:
        self.view = view
        self._prepare()
        self.refresh_bindings()

    def action_toggle_log(self) -> None:
        self._change(self.view._replace(log=not self.view.log))

    def action_smooth(self) -> None:
        index = SMOOTHINGS.index(self.view.smoothing) if self.view.smoothing in SMOOTHINGS else 0
        self._change(self.view._replace(smoothing=SMOOTHINGS[(index + 1) % len(SMOOTHINGS)]))

    def action_toggle_by(self) -> None:
        self.cursor = None  # the x value of the cursor has no meaning on the other axis
        self._change(self.view._replace(by=STEP if self.view.by == TIME else TIME, window=None))

    def action_read_out(self, columns: int) -> None:
        # The cursor moves at least to the next point. A new cursor is on the last point.
        shown, cursor = self.picture, self.cursor
        if shown is not None and not shown.is_empty:
            self.point_at(shown.nearest(shown.x.high) if cursor is None else shown.moved(cursor, columns))
            # The window moves with a cursor that leaves it.
            window = self.view.window
            if window is not None and self.cursor is not None and not window[0] <= self.cursor <= window[1]:
                width = window[1] - window[0]
                low = self.cursor - width / 2
                self._change(self.view._replace(window=(low, low + width)))

    def action_zoom(self, factor: float) -> None:
        shown = self.picture
        if shown is None:
            return
        width = (shown.x.high - shown.x.low) * factor
        middle = self.cursor if self.cursor is not None else (shown.x.low + shown.x.high) / 2
        low = middle - width / 2
        if width >= shown.whole.high - shown.whole.low:
            self._change(self.view._replace(window=None))
        elif width > abs(middle) * 1e-12:
            low = min(max(low, shown.whole.low), shown.whole.high - width)
            self._change(self.view._replace(window=(low, low + width)))

    def action_show_all(self) -> None:
        self.cursor = None
        self._change(self.view._replace(window=None))

    def on_click(self, event: events.Click) -> None:
        if self.picture is not None and not self.picture.is_empty:
            self.point_at(self.picture.nearest_to_column(event.x))
