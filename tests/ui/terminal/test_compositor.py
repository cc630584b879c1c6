"""A new layout is repainted in full even if a region was read before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.geometry import NULL_OFFSET, NULL_SPACING, Region
from textual.layout import Layout, WidgetPlacement
from textual.screen import Screen
from textual.widgets import Static

from tests.ui.painted import PaintedDisplay
from tests.ui.textual_internals import forget_arrangement, outdate_regions
from tests.ui.waiting import until
from tui_workbench.ui.terminal.textual_internals import install_compositor

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.geometry import Size
    from textual.widget import Widget


class Sized(Static):
    """A widget that counts its resize events."""

    DEFAULT_CSS = "Sized { border: round white; }"
    resized = 0

    def on_resize(self) -> None:
        self.resized += 1


class TwoRows(Layout):
    """A layout that shows the first widget on some lines, the second on the rest, and no other."""

    name = "two rows"
    lines = 1

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> list[WidgetPlacement]:
        regions = [Region(0, 0, size.width, self.lines), Region(0, self.lines, size.width, size.height - self.lines)]
        return [
            WidgetPlacement(region, NULL_OFFSET, NULL_SPACING, child)
            for region, child in zip(regions, children, strict=False)
        ]


class Rows(Screen[None]):
    def __init__(self) -> None:
        super().__init__()
        install_compositor(self)
        self.rows = TwoRows()

    @property
    def layout(self) -> Layout:
        return self.rows

    def compose(self) -> ComposeResult:
        yield Static("head")
        yield Sized("body")
        yield Static("nowhere", id="nowhere")

    def make_room(self, lines: int) -> None:
        self.rows.lines = lines
        forget_arrangement(self)
        self.refresh(layout=True)


class RowsApp(PaintedDisplay[None]):
    def get_default_screen(self) -> Screen[None]:
        return Rows()


async def test_region_read_before_the_layout_tears_no_rows() -> None:
    app = RowsApp()
    async with app.run_test(size=(40, 12)) as pilot:
        await pilot.pause()
        screen = app.screen
        assert isinstance(screen, Rows)
        body = screen.query_one(Sized)
        resized = body.resized
        outdate_regions(screen, screen.query_one("#nowhere"))
        screen.make_room(4)
        assert body.region.height == 8
        await pilot.pause()
        assert app.is_painted
        assert app.torn_rows() == []
        await until(lambda: body.resized == resized + 1)
