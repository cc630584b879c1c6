"""A readme as lines of text: tables and lists."""

from __future__ import annotations

from tui_workbench.ui.files.readme import rendered


def test_readme_table_is_drawn_as_a_table() -> None:
    text = "before\n\n| name | value |\n|:--|---|\n| **lr** | 0.1 |\n| a much longer name | 2 |\n\nafter\n"
    lines = ["".join(piece.text for piece in line) for line in rendered(text, 60)]
    assert lines == [
        "before",
        "",
        "name                value",
        "─" * 25,
        "lr                  0.1",
        "a much longer name  2",
        "",
        "after",
        "",
    ]


def test_no_cells_are_made_for_the_widest_row_of_a_readme_table() -> None:
    text = "|a" * 5000 + "\n" + "|a\n" * 2000
    lines = ["".join(piece.text for piece in line) for line in rendered(text, 60)]
    assert [len(lines), lines[1:-1]] == [2002, ["a"] * 2000]
    assert len(lines[0]) < 100


def test_cells_of_a_readme_table_are_wrapped_and_aligned() -> None:
    text = "| mid | n | what it does |\n|:-:|--:|:--|\n| a | 10 | a long text of several words |\n| bcd | 2 | short |\n"
    lines = ["".join(piece.text for piece in line) for line in rendered(text, 26)]
    assert lines[:-1] == [
        "mid   n  what it does",
        "─" * 26,
        " a   10  a long text of",
        "         several words",
        "bcd   2  short",
    ]


def test_wide_columns_of_a_readme_table_are_wrapped() -> None:
    first, *_ = rendered("|" + f"{'a' * 50}|" * 20, 60)
    assert 60 < len("".join(piece.text for piece in first)) <= 20 * 8


def test_list_items_of_a_readme_continue_in_indented_lines() -> None:
    lines = rendered("1. one\n   two\n   - three\n     four\n\n    code\n", 60)
    assert ["".join(piece.text for piece in line) for line in lines] == [
        "1. one two",
        "   • three four",
        "",
        "    code",
        "",
    ]
