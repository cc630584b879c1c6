"""The canvas of braille dots."""

from __future__ import annotations

from tui_workbench.ui.charts.chart_drawing import Canvas
from tui_workbench.ui.widgets.pieces import Piece


def text(canvas: Canvas) -> list[str]:
    return ["".join(piece.text for piece in canvas.row(row)) for row in range(canvas.rows)]


def test_origin_is_the_upper_left_dot() -> None:
    canvas = Canvas(2, 1)
    canvas.upright(0, 0, 0, "0")
    canvas.upright(3, 3, 3, "0")
    assert text(canvas) == ["⠁⢀"]


def test_steep_line_has_no_holes() -> None:
    canvas = Canvas(2, 4)
    canvas.line(0, 0, 3, 15, "0")
    assert all(line.strip() for line in text(canvas))


def test_dots_outside_are_clipped() -> None:
    canvas = Canvas(1, 1)
    canvas.line(-10, -10, 10, 10, "0")
    canvas.upright(5, 0, 3, "0")
    canvas.upright(-1, 0, 0, "0")
    canvas.mark(9, 9, "x", "0")
    assert len(text(canvas)[0]) == 1


def test_cell_joins_dots_in_the_color_of_the_last_line() -> None:
    canvas = Canvas(1, 1)
    canvas.upright(0, 0, 0, "0")
    canvas.upright(1, 0, 0, "1")
    assert list(canvas.row(0)) == [Piece("⠉", "1")]


def test_first_mark_replaces_dots_and_later_marks() -> None:
    canvas = Canvas(2, 1)
    canvas.upright(0, 0, 0, "0")
    canvas.mark(0, 0, "●", "0")
    canvas.mark(1, 3, "▲", "1")
    assert list(canvas.row(0)) == [Piece("●", "0"), Piece(" ", "faint")]
