"""Notebooks are read without libraries of Jupyter."""

from __future__ import annotations

import json

import pytest

from tests.notebooks import PIXEL, code, display, markdown, notebook, stream
from tui_workbench.core.errors import UsageError
from tui_workbench.core.notebooks import Cell, CellOutput, code_of, is_notebook, parse_notebook


def test_notebooks_are_recognized_by_name() -> None:
    assert [is_notebook(name) for name in ("a/b.ipynb", "b.IPYNB", "ipynb", "a.ipynb.py")] == [True, True, False, False]


def test_cells_and_outputs_are_read() -> None:
    error = {"output_type": "error", "ename": "ValueError", "evalue": "x", "traceback": ["a", "b"]}
    outputs = (stream("1\n2\n"), display(text__plain="3"), display(image__png=PIXEL, text__plain="<Figure>"), error,
               display(text__html="<b>é</b>"), {"output_type": "error", "ename": "E", "evalue": "y"})  # fmt: skip
    assert parse_notebook(notebook(markdown("# One"), code("a = 1\nb\n", *outputs, number=4), code("c"))) == [
        Cell("markdown", "# One"),
        Cell("code", "a = 1\nb\n", 4, (
            CellOutput("text", "1\n2\n"), CellOutput("text", "3"), CellOutput("media", "<Figure>", "image/png", 72),
            CellOutput("error", "a\nb"), CellOutput("media", "", "text/html", 9), CellOutput("error", "E: y"),
        )),
        Cell("code", "c"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a valid notebook: line 1, column 1: expecting value"),
        ('{"nbformat": 4', "not a valid notebook: line 1"),
        ("[1,2]", "not a notebook: the file contains JSON, but a list; a notebook is a JSON object with `cells`"),
        ('{"nbformat": 4}', "not a notebook: the file contains a JSON object without `cells`"),
        ('{"nbformat": 4, "cells": [{"cell_type": "code", "source": 5}]}', "a value has the wrong type"),
        ('{"nbformat": 3, "worksheets": []}', "notebooks of format 3 cannot be shown"),
        ("[" * 100_000, "not a valid notebook"),
    ],
)
def test_other_text_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_notebook(text)
    assert said in raised.value.message


def test_code_of_a_notebook_has_no_magic_lines() -> None:
    text = notebook(markdown("import jax"), "%matplotlib inline\n!pip list\nimport torch", "if x:\n    y")
    assert code_of(text) == "import torch\nif x:\n    y"
    assert code_of(json.dumps(5)) == ""
