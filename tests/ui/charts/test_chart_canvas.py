"""The surface of braille dots."""

from __future__ import annotations

from tui_workbench.ui.charts.chart_drawing import Canvas
from tui_workbench.ui.widgets.pieces import Piece


def text(canvas: Canvas) -> list[str]:
    return ["".join(piece.text for piece in canvas.row(row)) for row in range(canvas.rows)]


def test_dots_are_set_from_the_upper_left() -> None:
    canvas = Canvas(2, 1)
    canvas.upright(0, 0, 0, "0")
    canvas.upright(3, 3, 3, "0")
    assert text(canvas) == ["⠁⢀"]


def test_a_line_has_no_holes_however_steep_it_is() -> None:
    canvas = Canvas(2, 4)
    canvas.line(0, 0, 3, 15, "0")
    assert all(line.strip() for line in text(canvas))


def test_what_is_outside_is_cut_off() -> None:
    canvas = Canvas(1, 1)
    canvas.line(-10, -10, 10, 10, "0")
    canvas.upright(5, 0, 3, "0")
    canvas.upright(-1, 0, 0, "0")
    canvas.mark(9, 9, "x", "0")
    assert len(text(canvas)[0]) == 1


def test_a_cell_has_the_colour_of_the_last_line_and_the_dots_of_all() -> None:
    canvas = Canvas(1, 1)
    canvas.upright(0, 0, 0, "0")
    canvas.upright(1, 0, 0, "1")
    assert list(canvas.row(0)) == [Piece("⠉", "1")]


def test_a_mark_stands_in_place_of_dots_and_the_first_one_stays() -> None:
    canvas = Canvas(2, 1)
    canvas.upright(0, 0, 0, "0")
    canvas.mark(0, 0, "●", "0")
    canvas.mark(1, 3, "▲", "1")
    assert list(canvas.row(0)) == [Piece("●", "0"), Piece(" ", "faint")]
