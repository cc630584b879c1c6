"""Notebooks in the editor: their cells, and their text."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.notebooks import PIXEL, code, display, markdown, notebook, stream
from tests.ui.dashboard.conftest import write
from tests.ui.main.test_main import opened, screen_of, seen
from tests.ui.panes.editor_driver import editor_app
from tests.ui.waiting import until
from tui_workbench.core.notebooks import Cell, CellOutput, parse_notebook
from tui_workbench.ui.editor.notebook_view import NotebookView, notebook_lines

if TYPE_CHECKING:
    from tui_workbench.projects.project import Project


def shown(cells: list[Cell]) -> list[str]:
    return ["".join(piece.text for piece in line) for line in notebook_lines(cells, 60)]


def test_cells_are_shown_with_their_outputs() -> None:
    outputs = (
        stream("1 %\r2 %\n\x1b[31mred\x1b[0m \x1b]0;title\x07\n"),
        display(image__png=PIXEL, text__plain="<Figure>"),
    )
    text = notebook(markdown("# Training\n\nA **short** text."), code("def f():\n\treturn 'é'", *outputs, number=3))
    assert shown(parse_notebook(text)) == [
        "Training", "", "A short text.", "",
        "[3]", "│ def f():", "│     return 'é'", "  2 %", "  red ␛]0;title␇", "  image/png, 72 B  <Figure>",
    ]  # fmt: skip


def test_code_is_highlighted() -> None:
    line = notebook_lines([Cell("code", "é = 'é'  # x")], 60)[1]
    assert [(piece.text, piece.role) for piece in line if piece.role in ("string", "comment")] == [
        ("'é'", "string"), ("# x", "comment")
    ]  # fmt: skip


def test_long_output_is_shortened() -> None:
    lines = shown([Cell("code", "", 1, (CellOutput("text", "\n".join(map(str, range(5_000)))),))])
    assert len(lines) == 1 + 1 + 200 + 1 + 100
    assert lines[201:204] == ["  199", "  … 4,700 lines not shown", "  4900"]


def test_long_source_is_shortened() -> None:
    lines = shown([Cell("code", "(" * 100_000 + "\nx" * 3_000)])
    assert len(lines[1]) == len("│ ") + 2_000
    assert lines[-1] == "  … 1,001 lines not shown"


def test_half_of_a_surrogate_pair_is_a_question_mark() -> None:
    output = {"output_type": "error", "ename": "E", "evalue": "\ud800", "traceback": ["\ud800"]}
    text = notebook(code("x = '\ud800'", output, display(text__html="\udc00")))
    assert shown(parse_notebook(text)) == ["[ ]", "│ x = '?'", "  ?", "  text/html, 1 B  "]


async def test_notebook_opens_as_cells_and_a_key_shows_the_text(tmp_path: Path) -> None:
    (tmp_path / "a.ipynb").write_text(notebook("print(1)"))
    async with editor_app(tmp_path) as it:
        await it.pane.open_file(it.path("a.ipynb"))
        await it.settled()
        presenter = it.view.presenter
        assert isinstance(presenter, NotebookView)
        assert "│ print(1)" in ["".join(piece.text for piece in line) for line in presenter.cells.lines]
        assert presenter.cells.has_focus
        assert "The cells are read-only. ctrl+t shows the text." in it.status.replace("Ctrl", "ctrl")
        assert "1 cell" in it.status
        await it.press("enter")
        assert it.text.has_focus
        assert "JSON" in it.status
        it.text.replace_source(notebook("print(2)"))
        await it.press("ctrl+t")
        assert "│ print(2)" in ["".join(piece.text for piece in line) for line in presenter.cells.lines]


async def test_narrow_footer_has_the_key_for_the_other_view_and_the_way_back(project: Project) -> None:
    path = os.path.join(project.root, "a.ipynb")
    write(path, notebook("print(1)"))
    async with opened(project, (80, 24)) as pilot:
        await screen_of(pilot).panes.editor.open_file(path)
        await until(lambda: "│ print(1)" in seen(pilot))
        assert all(text in seen(pilot).splitlines()[-1] for text in ("ctrl+t View", "esc Back"))
        await pilot.press("ctrl+t")
        await until(lambda: "ctrl+t shows the cells" in seen(pilot))
        assert all(text in seen(pilot).splitlines()[-1] for text in ("ctrl+t View", "esc Back"))
        await pilot.press("x")
        await until(lambda: "ctrl+s Save" in seen(pilot))
        assert "ctrl+t shows the cells" in seen(pilot)


async def test_large_notebook_is_shown_whole(tmp_path: Path) -> None:
    large = display(image__png=PIXEL * 40_000)
    (tmp_path / "a.ipynb").write_text(notebook(code("x", large), "last"))
    async with editor_app(tmp_path) as it:
        await it.pane.open_file(it.path("a.ipynb"))
        await it.settled()
        presenter = it.view.presenter
        assert isinstance(presenter, NotebookView)
        assert "".join(piece.text for piece in presenter.cells.lines[-1]) == "│ last"
        assert "2 cells" in it.status


async def test_notebook_that_is_too_large_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.ipynb").write_text(" \n" * (17 << 20))
    async with editor_app(tmp_path) as it:
        await it.pane.open_file(it.path("a.ipynb"))
        await it.settled()
        assert "the notebook is larger than 32 MiB" in it.status


@pytest.mark.parametrize("text", ["{", '{"nbformat": 3}'])
async def test_broken_notebook_opens_as_text_with_the_reason(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.ipynb").write_text(text)
    async with editor_app(tmp_path) as it:
        await it.pane.open_file(it.path("a.ipynb"))
        await it.settled()
        assert it.text.has_focus
        assert it.text.source == text
        assert "notebook" in it.status
        await it.press("ctrl+t")
        assert it.text.has_focus
