"""Processes killed at any moment: a run is complete or missing, and its script runs at most once."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests import rings
from tests.conftest import write_project
from tests.faults.support import Workbench, is_running, until

pytestmark = [pytest.mark.processes, pytest.mark.soak]

SCRIPT = """\
import os, sys
with open(sys.argv[1], "ab", buffering=0) as file:
    file.write((os.environ["AZUREML_RUN_ID"] + "\\n").encode())
print("done")
"""

MOMENTS = 8 * rings.REPEATS


def moments(longest: float) -> list[float]:
    """Return times in seconds after the start of a command, evenly distributed over its duration."""
    return [longest * number / MOMENTS for number in range(MOMENTS)]


@pytest.mark.parametrize("tracked", [False, True], ids=["in place", "in a copy"])
def test_submit_killed_at_any_moment(tmp_path: Path, tracked: bool) -> None:
    root = write_project(tmp_path / "project", tracked=tracked)
    (root / "note.py").write_text(SCRIPT)
    notes = tmp_path / "notes"
    workbench = Workbench(root)
    begun = time.monotonic()
    assert workbench.submit("note.py", str(notes)).code == 0
    for moment in moments(time.monotonic() - begun):
        submit = workbench.start("experiment", "submit", "-c", "local", "note.py", str(notes))
        time.sleep(moment)  # not a wait: the test is about this moment
        submit.kill()
        submit.communicate()

    def unfinished() -> list[str]:
        assert workbench.run("experiment", "resume").code == 0
        return [run["run_id"] for run in workbench.history() if run["status"] in ("Queued", "Preparing", "Running")]

    until(lambda: not unfinished(), "the end of every run")
    history = workbench.history()
    told = notes.read_text().split()
    assert len(set(told)) == len(told), "a script ran twice"
    assert {run["run_id"] for run in history if run["status"] == "Completed"} == set(told)
    for run in history:
        assert run["status"] == "Completed", run
        assert workbench.log(run["run_id"]) == "done\n"
    # An incomplete run has a hidden name, and is removed once it is old enough to be abandoned.
    folders = sorted(name for name in os.listdir(root / ".workbench" / "runs") if not name.startswith("."))
    assert folders == sorted(run["run_id"] for run in history)
    assert workbench.submit("note.py", str(notes)).code == 0


def test_controllers_killed_at_any_moment(tmp_path: Path) -> None:
    root = write_project(tmp_path / "project", tracked=True)
    (root / "note.py").write_text(SCRIPT)
    notes = tmp_path / "notes"
    workbench = Workbench(root)
    ids = []
    for moment in moments(0.06):
        run_id = workbench.detach("note.py", str(notes))
        ids.append(run_id)
        time.sleep(moment)  # not a wait: the test is about this moment
        holder = (root / ".workbench" / "runs" / run_id / "controller.lock").read_text().strip()
        if holder.isdigit() and is_running(int(holder)):
            os.kill(int(holder), signal.SIGKILL)
    for run_id in ids:
        assert workbench.run("logs", "-f", run_id).out == "done\n"
        assert workbench.info(run_id)["status"] == "Completed"
        outputs = root / ".workbench" / "runs" / run_id / "outputs"
        assert outputs.is_dir()
    assert sorted(notes.read_text().split()) == sorted(ids), "a script ran twice or not at all"
