"""A failing system call during `submit` is reported, or the run is not affected."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import rings
from tests.conftest import REPOSITORY, write_project
from tests.faults import injecting
from tests.faults.support import Workbench, until
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.processes, pytest.mark.soak]

STEP = max(1, 12 // rings.REPEATS)
"""Interval between tested calls: each costs a run, and consecutive calls usually fail in the same way."""


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_submit_reports_the_result_of_its_run_if_a_call_fails(tmp_path: Path, error: int) -> None:
    root = write_project(tmp_path / "project", tracked=True)
    (root / "three.py").write_text("import sys; open('outputs/made', 'w').close(); print('three'); sys.exit(3)\n")
    workbench = Workbench(root)
    known: set[str] = set()
    number = calls = 0
    while number <= calls:
        number += STEP
        counter = tmp_path / f"calls-{number}"
        words = [sys.executable, injecting.__file__, str(counter), str(number), str(error)]
        result = subprocess.run(
            [*words, "experiment", "submit", "-c", "local", "three.py"],
            cwd=root, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False, timeout=PATIENCE,
        )  # fmt: skip
        calls = int(counter.read_text())
        until(lambda: all(run["end_time_utc"] for run in workbench.history()), "the end of every run")
        new = [run for run in workbench.history() if run["run_id"] not in known]
        known |= {run["run_id"] for run in new}
        assert "Traceback" not in result.stderr, result
        if new:
            assert (result.returncode, new[0]["exit_code"]) == (3, 3), (number, result, new)
            assert result.stdout == f"RunId: {new[0]['run_id']}\nthree\n", (number, result)
        else:
            assert result.returncode == 1, (number, result)
            assert result.stderr.startswith("workbench-tui: "), (number, result)
    assert len(known) > 3
