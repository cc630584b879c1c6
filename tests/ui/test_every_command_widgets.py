"""The keys of lists, texts, fields and charts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from textual.app import App, ComposeResult
from textual.widget import Widget
from textual.widgets.text_area import Selection

from tests.ui.command_driver import CommandDriver, proves
from tests.ui.seen import lines_of
from tests.ui.waiting import until
from tui_workbench.ui.charts.chart import Chart
from tui_workbench.ui.charts.chart_data import Curve
from tui_workbench.ui.charts.chart_drawing import Look
from tui_workbench.ui.commands.registry import SCOPES
from tui_workbench.ui.editor.difference_view import DifferenceLine, DifferenceView
from tui_workbench.ui.editor.find_row import FindRow
from tui_workbench.ui.editor.text_editor import TextEditor
from tui_workbench.ui.runs.run_table import RunTable, TableColumn, TableRow
from tui_workbench.ui.themes.themes import load_theme
from tui_workbench.ui.widgets.pieces import Piece, Row
from tui_workbench.ui.widgets.row_list import RowList
from tui_workbench.ui.widgets.text_field import TextField
from tui_workbench.ui.widgets.text_view import TextView

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from textual.message import Message

SIZE = (60, 12)
PAGE = 11  # the rows of SIZE, less the row that stays in view


class OneWidget(App[None]):
    """An app with one focused widget, which records its messages."""

    def __init__(self, *widgets: Widget) -> None:
        super().__init__()
        self.widgets = widgets
        self.told: list[Message] = []

    def compose(self) -> ComposeResult:
        yield from self.widgets

    def on_mount(self) -> None:
        theme = load_theme("slate")
        self.register_theme(theme)
        self.theme = theme.name

    def on_find_row_closed(self, event: FindRow.Closed) -> None:
        self.told.append(event)

    def on_difference_view_closed(self, event: DifferenceView.Closed) -> None:
        self.told.append(event)

    def on_text_editor_left(self, event: TextEditor.Left) -> None:
        self.told.append(event)


@proves("list.up list.down list.page_up list.page_down list.first list.last")
async def test_list_movement_keys() -> None:
    rows = RowList(has_filter=True)
    app = OneWidget(rows)
    async with app.run_test(size=SIZE) as pilot:
        rows.show_rows([Row(str(number), Piece(f"row {number}")) for number in range(100)])
        rows.focus()
        await pilot.pause()
        driver = CommandDriver(pilot)
        await driver.becomes("list.down", lambda: rows.current, "1")
        await driver.becomes("list.up", lambda: rows.current, "0")
        await driver.becomes("list.page_down", lambda: rows.current, str(PAGE))
        await driver.becomes("list.page_up", lambda: rows.current, "0")
        await driver.becomes("list.last", lambda: rows.current, "99")
        await driver.becomes("list.first", lambda: rows.current, "0")


@proves("list.filter list.keep_filter list.clear_filter")
async def test_list_filter_keys() -> None:
    rows = RowList(has_filter=True)
    app = OneWidget(rows)
    async with app.run_test(size=SIZE) as pilot:
        rows.show_rows([Row(str(number), Piece(f"row {number}")) for number in range(20)])
        rows.focus()
        await pilot.pause()
        driver = CommandDriver(pilot)
        await driver.does("list.filter", lambda: "20 of 20" in lines_of(rows)[-1])
        await pilot.press("1", "5")
        assert [row.key for row in rows.rows] == ["15"]
        await driver.becomes("list.keep_filter", lambda: bool(rows.why_not("keep_filter")), True)
        await driver.becomes("list.clear_filter", lambda: len(rows.rows), 20)


@proves("table.left table.right")
async def test_table_column_keys() -> None:
    table = RunTable()
    app = OneWidget(table)
    async with app.run_test(size=SIZE) as pilot:
        table.show_columns([TableColumn(name, name, 10) for name in ("a", "b", "c")], "a", descending=False)
        table.set_rows(1, 0, [TableRow("1", tuple((Piece(name),) for name in "xyz"))], replace=True)
        table.focus()
        await pilot.pause()
        driver = CommandDriver(pilot)

        def column() -> str:
            return table.column.key if table.column is not None else ""

        await driver.becomes("table.right", column, "b")
        await driver.becomes("table.left", column, "a")


async def scrolls(driver: CommandDriver, scope: str, view: Widget, page: int, last: int) -> None:
    """Press the keys that scroll a text."""

    def top() -> int:
        return view.scroll_offset.y

    await driver.becomes(f"{scope}.down", top, 1)
    await driver.becomes(f"{scope}.up", top, 0)
    await driver.becomes(f"{scope}.page_down", top, page)
    await driver.becomes(f"{scope}.page_up", top, 0)
    await driver.becomes(f"{scope}.last", top, last)
    await driver.becomes(f"{scope}.first", top, 0)


@proves("reader.up reader.down reader.page_up reader.page_down reader.first reader.last")
async def test_text_view_keys() -> None:
    view = TextView()
    async with OneWidget(view).run_test(size=SIZE) as pilot:
        view.show([(Piece(f"line {number}"),) for number in range(100)])
        view.focus()
        await pilot.pause()
        await scrolls(CommandDriver(pilot), "reader", view, PAGE, 100 - SIZE[1])


@proves("lines.up lines.down lines.page_up lines.page_down lines.first lines.last")
async def test_line_view_keys() -> None:
    view = TextView(make=lambda width: [(Piece(f"line {number}"),) for number in range(100)])
    view.styles.max_height = SIZE[1]
    async with OneWidget(view).run_test(size=SIZE) as pilot:
        view.focus()
        await until(lambda: view.allow_vertical_scroll)
        await scrolls(CommandDriver(pilot), "lines", view, PAGE, 100 - SIZE[1])


@pytest.mark.slow
@proves(
    "difference.up difference.down difference.page_up difference.page_down difference.first difference.last "
    "difference.left difference.right difference.close"
)
async def test_difference_view_keys() -> None:
    view = DifferenceView([DifferenceLine("+", "x" * 200, number) for number in range(97)], removed="old", added="new")
    app = OneWidget(view)
    async with app.run_test(size=SIZE) as pilot:
        view.focus()
        await until(lambda: view.max_scroll_y)
        driver = CommandDriver(pilot)
        await driver.does("difference.right", lambda: view.scroll_offset.x > 0)
        await driver.does("difference.left", lambda: view.scroll_offset.x == 0)
        await driver.becomes("difference.down", lambda: view.scroll_offset.y, 1)
        await driver.becomes("difference.up", lambda: view.scroll_offset.y, 0)
        await driver.does("difference.page_down", lambda: view.scroll_offset.y >= PAGE)
        await driver.becomes("difference.page_up", lambda: view.scroll_offset.y, 0)
        await driver.becomes("difference.last", lambda: view.scroll_offset.y, view.max_scroll_y)
        await driver.becomes("difference.first", lambda: view.scroll_offset.y, 0)
        await driver.does("difference.close", lambda: app.told)


TEXT = "def one(two):\n    return two\n\nlast line\n"


class EditCase:
    """A command of the text editor: the state before it and after it."""

    def __init__(self, start: Any, *, cursor: Any = None, selected: str | None = None, line: str | None = None) -> None:
        self.start, self.cursor, self.selected, self.line = start, cursor, selected, line


MOVES = {
    "up": EditCase((1, 4), cursor=(0, 4)),
    "down": EditCase((0, 2), cursor=(1, 2)),
    "left": EditCase((0, 2), cursor=(0, 1)),
    "right": EditCase((0, 2), cursor=(0, 3)),
    "word_left": EditCase((0, 7), cursor=(0, 4)),
    "word_right": EditCase((0, 0), cursor=(0, 3)),
    "line_start": EditCase((0, 5), cursor=(0, 0)),
    "line_end": EditCase((0, 5), cursor=(0, 13)),
    "page_down": EditCase((0, 0), cursor=(4, 0)),
    "page_up": EditCase((3, 0), cursor=(0, 0)),
    "first": EditCase((3, 2), cursor=(0, 0)),
    "last": EditCase((0, 2), cursor=(4, 0)),
    "select_up": EditCase((1, 0), selected="def one(two):\n"),
    "select_down": EditCase((0, 0), selected="def one(two):\n"),
    "select_left": EditCase((0, 3), selected="f"),
    "select_right": EditCase((0, 0), selected="d"),
    "select_word_left": EditCase((0, 3), selected="def"),
    "select_word_right": EditCase((0, 0), selected="def"),
    "select_line_start": EditCase((0, 3), selected="def"),
    "select_line_end": EditCase((0, 8), selected="two):"),
    "select_line": EditCase((3, 2), selected="last line"),
    "select_all": EditCase((0, 0), selected=TEXT),
    "delete_left": EditCase((0, 3), line="de one(two):"),
    "delete_right": EditCase((0, 0), line="ef one(two):"),
    "delete_word_left": EditCase((0, 7), line="def (two):"),
    "delete_word_right": EditCase((0, 4), line="def (two):"),
    "delete_line_start": EditCase((0, 4), line="one(two):"),
    "delete_line_end": EditCase((0, 3), line="def"),
    "delete_line": EditCase((0, 3), line="    return two"),
    "comment": EditCase((0, 3), line="# def one(two):"),
    "cut": EditCase(((0, 0), (0, 4)), line="one(two):"),
}
OTHERS = ("dedent", "copy", "paste", "undo", "redo", "leave")


@proves(" ".join(f"text_editor.{name}" for name in (*MOVES, *OTHERS)))
async def test_text_editor_keys() -> None:
    editor = TextEditor()
    app = OneWidget(editor)
    async with app.run_test(size=SIZE) as pilot:
        driver = CommandDriver(pilot)
        for name, case in MOVES.items():
            editor.load_source(TEXT, "python")
            editor.focus()
            start, end = case.start if isinstance(case.start[0], tuple) else (case.start, case.start)
            editor.selection = Selection(start, end)
            await pilot.pause()
            command = f"text_editor.{name}"
            if case.cursor is not None:
                await driver.becomes(command, lambda: editor.cursor_location, case.cursor)
            if case.selected is not None:
                await driver.becomes(command, lambda: editor.selected_text, case.selected)
            if case.line is not None:
                await driver.becomes(command, lambda: editor.source.split("\n")[0], case.line)
        assert app.clipboard == "def "
        editor.load_source("    one\n", "python")
        editor.move_cursor((0, 4))
        await driver.becomes("text_editor.dedent", lambda: editor.source, "one\n")
        await driver.becomes("text_editor.undo", lambda: editor.source, "    one\n")
        await driver.becomes("text_editor.redo", lambda: editor.source, "one\n")
        editor.selection = Selection((0, 0), (0, 3))
        await driver.becomes("text_editor.copy", lambda: app.clipboard, "one")
        editor.move_cursor((0, 0))
        await driver.becomes("text_editor.paste", lambda: editor.source, "oneone\n")
        await driver.does("text_editor.leave", lambda: app.told)


FIELD = "one two three"
FIELD_CASES = {
    "left": EditCase((5, 5), cursor=4),
    "right": EditCase((5, 5), cursor=6),
    "word_left": EditCase((7, 7), cursor=4),
    "word_right": EditCase((0, 0), cursor=4),
    "start": EditCase((5, 5), cursor=0),
    "end": EditCase((5, 5), cursor=13),
    "select_left": EditCase((3, 3), selected="e"),
    "select_right": EditCase((0, 0), selected="o"),
    "select_word_left": EditCase((7, 7), selected="two"),
    "select_word_right": EditCase((0, 0), selected="one "),
    "select_start": EditCase((3, 3), selected="one"),
    "select_end": EditCase((8, 8), selected="three"),
    "select_all": EditCase((0, 0), selected=FIELD),
    "delete_left": EditCase((3, 3), line="on two three"),
    "delete_right": EditCase((0, 0), line="ne two three"),
    "delete_word_left": EditCase((7, 7), line="one  three"),
    "delete_word_right": EditCase((4, 4), line="one three"),
    "delete_start": EditCase((4, 4), line="two three"),
    "delete_end": EditCase((3, 3), line="one"),
    "cut": EditCase((0, 4), line="two three"),
}


class FieldApp(OneWidget):
    def on_input_submitted(self, event: TextField.Submitted) -> None:
        self.told.append(event)


@proves(" ".join(f"field_text.{name}" for name in (*FIELD_CASES, "copy", "paste", "submit")))
async def test_text_field_keys() -> None:
    from textual.widgets.input import Selection as FieldSelection

    field = TextField()
    app = FieldApp(field)
    async with app.run_test(size=SIZE) as pilot:
        driver = CommandDriver(pilot)
        field.focus()
        for name, case in FIELD_CASES.items():
            field.value = FIELD
            field.selection = FieldSelection(*case.start)
            await pilot.pause()
            command = f"field_text.{name}"
            if case.cursor is not None:
                await driver.becomes(command, lambda: field.cursor_position, case.cursor)
            if case.selected is not None:
                await driver.becomes(command, lambda: field.selected_text, case.selected)
            if case.line is not None:
                await driver.becomes(command, lambda: field.value, case.line)
        assert app.clipboard == "one "
        field.value = FIELD
        field.selection = FieldSelection(4, 7)
        await driver.becomes("field_text.copy", lambda: app.clipboard, "two")
        field.selection = FieldSelection(0, 0)
        await driver.becomes("field_text.paste", lambda: field.value, f"two{FIELD}")
        await driver.does("field_text.submit", lambda: app.told)


@proves("find.next find.previous find.close")
async def test_find_row_keys() -> None:
    editor = TextEditor()
    row = FindRow(editor)
    app = OneWidget(editor, row)
    async with app.run_test(size=SIZE) as pilot:
        editor.load_source("x\n\nx\n")
        editor.selection = Selection((0, 0), (0, 1))
        row.start()
        await pilot.pause()
        driver = CommandDriver(pilot)
        await driver.becomes("find.next", lambda: editor.selection.start, (2, 0))
        await driver.becomes("find.previous", lambda: editor.selection.start, (0, 0))
        await driver.does("find.close", lambda: any(isinstance(told, FindRow.Closed) for told in app.told))


def chart_values(chart: Chart) -> Callable[[str], Callable[[], Any]]:
    return lambda name: lambda: getattr(chart.look, name)


@proves(" ".join(command.id for command in SCOPES["chart"]))
async def test_chart_keys() -> None:
    chart = Chart()
    app = OneWidget(chart)
    async with app.run_test(size=(80, 24)) as pilot:
        steps = [float(step) for step in range(200)]
        chart.show([Curve("loss", steps, steps, [100.0 - step / 2 for step in steps])], Look("loss"))
        chart.focus()
        await until(lambda: chart.picture is not None)
        driver = CommandDriver(pilot)

        def seen() -> list[str]:
            return lines_of(chart)

        for command in ("right", "far_left", "left", "far_right", "in", "out", "all", "log", "smooth", "by"):
            await until(lambda: chart.picture is not None)
            before = seen()
            await driver.does(f"chart.{command}", lambda before=before: seen() != before)  # type: ignore[misc]
            await pilot.pause()
