"""Notebooks that cannot be run are refused before a kernel starts."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from tests.notebooks import notebook
from tui_workbench.targets.base.run_environment import NOTEBOOK_LAUNCHER
from tui_workbench.targets.values import SDK_FOLDER

_spec = importlib.util.spec_from_file_location("notebook_under_test", os.path.join(SDK_FOLDER, NOTEBOOK_LAUNCHER))
assert _spec is not None
assert _spec.loader is not None
launcher = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(launcher)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not a valid notebook"),
        ("5", "is not a valid notebook"),
        (notebook("x", kernelspec={"name": "ir", "language": "R"}), "is a notebook for R"),
        (notebook("x", language_info={"name": "julia"}), "is a notebook for julia"),
    ],
)
def test_other_files_and_languages_are_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "train.ipynb"
    path.write_text(text)
    with pytest.raises(ValueError, match=said):
        launcher.Execution(str(path), []).run()


@pytest.mark.processes
def test_executed_notebook_is_written_while_a_cell_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "SAVE_SECONDS", 0.05)
    monkeypatch.setenv("WORKBENCH_OUTPUTS_DIRECTORY", str(tmp_path))
    executed = tmp_path / "train.ipynb"
    has_output = f"os.path.exists({str(executed)!r}) and json.load(open({str(executed)!r}))['cells'][0]['outputs']"
    wait = f"import json, os, time\nwhile not ({has_output}): time.sleep(0.01)"
    path = tmp_path / "in" / "train.ipynb"
    path.parent.mkdir()
    path.write_text(notebook("print('first')", wait))
    assert launcher.Execution(str(path), []).run() == 0


@pytest.mark.parametrize(("value", "code"), [("", 0), ("0", 0), ("None", 0), ("3", 3), ("-1", 255), ("no data", 1)])
def test_exit_in_a_cell_sets_the_exit_code(value: str, code: int) -> None:
    assert launcher.exit_code("cell [1]", "SystemExit", value) == code
