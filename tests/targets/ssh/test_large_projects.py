"""Runs of a project with many files over SSH: the machine keeps the copy of an ended run for the next run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.faults.support import until
from tests.runs.lifecycle.test_large_copies import CHANGES, FILES, SHOWS
from tests.targets.remote_project import GO, Remote

LINKS = f"{CHANGES}os.remove('data/5')\nos.symlink('6', 'data/5')\nprint('changed', flush=True)\n"


@pytest.fixture
def large(box: Remote) -> Remote:
    """Return a project that is large enough for a spare."""
    (box.folder / "data").mkdir()
    for number in range(FILES):
        (box.folder / "data" / str(number)).write_text(str(number % 10))
    (box.folder / "pkg").mkdir()
    (box.folder / "pkg" / "code.py").write_text("code = 1\n")
    waits = f"import time\nwhile not os.path.exists({GO!r}):\n    time.sleep(0.01)\n"
    for name, script in (("changes.py", LINKS), ("shows.py", SHOWS), ("waits.py", LINKS + waits)):
        (box.folder / name).write_text(script)
    return box


def finish(large: Remote, run_id: str, state: str = "Completed") -> Path:
    """Wait for the end of a run, and return its directory here."""
    large.until_status(run_id, state)
    assert sorted(set(os.listdir(large.there(run_id))) & {"work", "removed", "placed.copy", "placed.tree"}) == []
    assert not list(large.there(run_id).glob("copy.*"))
    return large.run_directory(run_id)


def submit(large: Remote, script: str) -> Path:
    return finish(large, large.detach(script, configuration="box"))


def shown(run: Path) -> object:
    return json.loads((run / "outputs" / "found.json").read_text())


def spare(large: Remote) -> Path:
    (found,) = large.there().parent.glob("projects/*/spare")
    return found / "work"


def test_next_run_sees_the_snapshot_and_nothing_else(large: Remote) -> None:
    expected = shown(submit(large, "shows.py"))
    kept = (spare(large) / "data" / "9").stat().st_ino
    changed = submit(large, "changes.py")
    assert sorted(os.listdir(changed / "work")) == ["data", "new", "pkg", "renamed"]
    assert sorted(os.listdir(changed / "work" / "data")) == ["0", "3", "4", "5"]
    assert sorted(os.listdir(changed / "outputs")) == ["linked", "model", "pkg"]
    assert shown(submit(large, "shows.py")) == expected
    assert (spare(large) / "data" / "9").stat().st_ino == kept


def test_run_after_a_change_of_the_project_sees_the_change(large: Remote) -> None:
    submit(large, "changes.py")
    (large.folder / "data" / "7").write_text("other")
    (large.folder / "data" / "8").unlink()
    (large.folder / "added").write_text("new")
    found = shown(submit(large, "shows.py"))
    assert isinstance(found, dict)
    assert found["data/7"][1] == "other"
    assert found["added"][1] == "new"
    assert "data/8" not in found
    assert len([path for path in found if path.startswith("data/")]) == FILES - 1


def test_run_after_a_canceled_run_sees_the_snapshot(large: Remote) -> None:
    expected = shown(submit(large, "shows.py"))
    run_id = large.detach("waits.py", configuration="box")
    until(lambda: "changed" in large.log(run_id), "the changes of the script")
    assert large.run("experiment", "cancel", "--run", run_id).code == 0
    finish(large, run_id, "Canceled")
    assert shown(submit(large, "shows.py")) == expected


def test_two_runs_at_once_have_their_own_files(large: Remote) -> None:
    expected = shown(submit(large, "shows.py"))
    run_id = large.detach("waits.py", configuration="box")
    until(lambda: "changed" in large.log(run_id), "the changes of the script")
    assert shown(submit(large, "shows.py")) == expected
    large.go_on()
    finish(large, run_id)
    assert shown(submit(large, "shows.py")) == expected
