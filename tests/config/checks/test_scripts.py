"""Files that cannot be the script of a run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.config.documents import in_project, project
from tests.notebooks import notebook
from tui_workbench.config.checks.scripts import script_problem

CONFIGURATION = "Target: t\nFramework: Python\nArgumentVector: [%s]\n"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.ipynb", '{"cells": [\n  1,\n}', "a.ipynb is not a valid notebook: line 3, column 1: "),
        ("a.ipynb", "", "a.ipynb is not a valid notebook: line 1, column 1: expecting value"),
        ("a.ipynb", "[1,2]", "a.ipynb is not a notebook: the file contains JSON, but a list; a notebook is a JSON"),
        ("only.dsource", "print(1)", "only.dsource is a data source of Azure ML Workbench, and not a script"),
        ("a.DPREP", "{}", "a.DPREP is a data source of Azure ML Workbench"),
    ],
)
def test_file_that_cannot_be_a_script_is_refused(tmp_path: Path, name: str, text: str, said: str) -> None:
    project(tmp_path, a__runconfig=CONFIGURATION % name, t__compute="type: local\n")
    (tmp_path / name).write_text(text)
    problem = script_problem(str(tmp_path / name), name)
    assert problem is not None
    assert problem.message.startswith(said)
    assert problem.remedy
    found = in_project(tmp_path, "a.runconfig").problems()
    (finding,) = [one for one in found if one.code == "wrong-script"]
    assert (finding.message, finding.line) == (problem.message, 3)


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.py", "{"), ("a.ipynb", notebook("x")), ("b.ipynb", '{"nbformat": 3, "worksheets": []}')],
)
def test_scripts_and_notebooks_are_allowed(tmp_path: Path, name: str, text: str) -> None:
    """Runs convert notebooks of older versions."""
    (tmp_path / name).write_text(text)
    assert script_problem(str(tmp_path / name), name) is None


def test_notebook_that_cannot_be_read_here_is_left_to_the_run(tmp_path: Path) -> None:
    assert script_problem(str(tmp_path / "a.ipynb"), "a.ipynb") is None
    os.mkfifo(tmp_path / "pipe.ipynb")
    assert script_problem(str(tmp_path / "pipe.ipynb"), "pipe.ipynb") is None
    (tmp_path / "large.ipynb").write_text(" \n" * (17 << 20))
    assert script_problem(str(tmp_path / "large.ipynb"), "large.ipynb") is None
