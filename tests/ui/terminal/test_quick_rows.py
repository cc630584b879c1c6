"""A `QuickStrip` behaves like a `Strip`."""

from __future__ import annotations

import pytest
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tui_workbench.ui.terminal.quick_rows import QuickStrip

SEGMENTS = [
    Segment("epoch 1 ", Style(color="red")),
    Segment("漢字", Style(bold=True)),
    Segment("  ", Style()),
    Segment(" ", Style(bgcolor="blue")),
]
WIDTH = 15


def log_strip() -> QuickStrip:
    return QuickStrip(list(SEGMENTS), WIDTH, beside=1)


@pytest.mark.parametrize("cuts", [[14, 15], [15], [3, 9, 14, 15], [14], [1, 15]])
def test_divide_equals_strip(cuts: list[int]) -> None:
    expected = Strip(SEGMENTS, WIDTH).divide(cuts)
    parts = log_strip().divide(cuts)
    assert [list(part) for part in parts] == [list(part) for part in expected]
    assert [part.cell_length for part in parts] == [part.cell_length for part in expected]


def test_parts_can_be_divided() -> None:
    text, beside = log_strip().divide([14, 15])
    assert text.divide([3, 14])[1].text == "ch 1 漢字  "
    assert (beside.text, beside.cell_length) == (" ", 1)


def test_other_operations_equal_strip() -> None:
    expected = Strip(SEGMENTS, WIDTH)
    assert log_strip().crop(2, 9) == expected.crop(2, 9)
    assert log_strip().apply_style(Style(italic=True)) == expected.apply_style(Style(italic=True))
    assert log_strip().adjust_cell_length(20) == expected.adjust_cell_length(20)
    assert log_strip().text == expected.text


def test_unknown_attributes_are_errors() -> None:
    with pytest.raises(AttributeError, match="color"):
        _ = log_strip().color
