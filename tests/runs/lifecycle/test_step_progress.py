"""Progress reports of a target in the run's files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tui_workbench.core.causes import NODE_FAILED, Cause
from tui_workbench.core.progress import Progress as LongProgress
from tui_workbench.runs.lifecycle.step_progress import PREPARATION_LOG, PROGRESS, Progress, read_progress
from tui_workbench.runs.store.rundir import Attempt, RunDirectory


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    (tmp_path / "p_1").mkdir()
    made = RunDirectory(str(tmp_path / "p_1"))
    made.append_event("state", state="queued")
    return made


@pytest.fixture
def wish() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe2(os.O_NONBLOCK)
    yield reading, writing
    os.close(reading)
    os.close(writing)


def states(directory: RunDirectory) -> list[str]:
    return [event["state"] for event in directory.events() if event["event"] == "state"]


def test_lost_connection_is_recorded_once_until_regained(directory: RunDirectory) -> None:
    progress = Progress(directory, -1)
    progress.enter("running")
    progress.lost("no answer")
    progress.lost("no answer")
    assert states(directory) == ["queued", "running", "unknown"]
    status = directory.status()
    assert status.reason.startswith("unreachable since ")
    assert status.reason.endswith(": no answer")
    assert not status.end
    progress.lost("host key changed")
    since = directory.status().reason.split(":")[:3]
    assert since == status.reason.split(":")[:3]
    progress.regained()
    progress.regained()
    assert states(directory) == ["queued", "running", "unknown", "unknown", "running"]
    assert directory.status().reason == ""


def test_next_controller_knows_the_lost_connection(directory: RunDirectory) -> None:
    first = Progress(directory, -1)
    first.enter("preparing")
    directory.append_event("step", step="start", status="done")
    first.enter("running")
    first.lost("no answer")
    Progress(directory, -1).regained()
    assert states(directory)[-1] == "running"


def test_connection_lost_before_the_start_returns_to_preparing(directory: RunDirectory) -> None:
    Progress(directory, -1).enter("preparing")
    Progress(directory, -1).lost("no answer")
    Progress(directory, -1).regained()
    assert states(directory)[-1] == "preparing"


def test_queue_of_the_target_is_recorded_when_it_changes(directory: RunDirectory) -> None:
    directory.append_event("step", step="start", status="done")
    progress = Progress(directory, -1, started="queued")
    for reason in ("Priority", "Priority", "Resources"):
        progress.queued(reason)
        assert (directory.status().state, directory.status().reason) == ("queued", reason)
    progress.running()
    progress.running()
    assert states(directory) == ["queued", "queued", "queued", "running"]
    progress.queued("put back")
    assert directory.status().reason == "put back"


def test_answer_of_a_queue_ends_a_lost_connection(directory: RunDirectory) -> None:
    directory.append_event("step", step="start", status="done")
    Progress(directory, -1, started="queued").queued("Priority")
    Progress(directory, -1, started="queued").lost("no answer")
    Progress(directory, -1, started="queued").regained()
    assert states(directory)[-2:] == ["unknown", "queued"]
    Progress(directory, -1, started="queued").lost("no answer")
    Progress(directory, -1, started="queued").running()
    assert states(directory)[-2:] == ["unknown", "running"]


def test_running_is_passed_on_once(directory: RunDirectory) -> None:
    progress, calls = Progress(directory, -1), []
    progress.on_running = lambda: calls.append("running")
    progress.running()
    progress.running()
    assert calls == ["running"]


def test_steps_are_recorded_with_duration_and_facts(directory: RunDirectory) -> None:
    progress = Progress(directory, -1)
    progress.begin("sync", "send it")
    assert directory.status().begun == {"sync"}
    progress.done("sync", changed=3)
    assert directory.status().done == {"sync"}
    (done,) = (event for event in directory.events() if event.get("status") == "done")
    assert done["changed"] == 3
    assert done["seconds"] >= 0


def test_another_attempt_is_recorded_once_with_its_reason(directory: RunDirectory) -> None:
    for _ in range(2):
        Progress(directory, -1).attempt(2, 120, Cause(NODE_FAILED, {"node": "node1"}))
    assert directory.attempts() == [Attempt(2, 120, (Cause(NODE_FAILED, {"node": "node1"}),))]
    assert states(directory) == ["queued", "running"]
    assert directory.status().reason == "attempt 2: node node1 failed"


def test_any_line_goes_into_the_preparation_log(directory: RunDirectory) -> None:
    progress = Progress(directory, -1)
    progress.begin("build", "build it")
    progress.line("\x1b[31m \udcff é")
    assert Path(directory.file(PREPARATION_LOG)).read_bytes() == b"build it\n\x1b[31m \xff \xc3\xa9\n"


def test_drain_clears_the_cancel_signal(directory: RunDirectory, wish: tuple[int, int]) -> None:
    reading, writing = wish
    progress = Progress(directory, reading)
    os.write(writing, b"cc")
    progress.drain()
    with pytest.raises(BlockingIOError):
        os.read(reading, 1)
    progress.drain()
    Progress(directory, -1).drain()


def test_progress_is_readable_until_the_step_ends(directory: RunDirectory) -> None:
    progress = Progress(directory, -1)
    assert read_progress(directory) is None
    half = LongProgress("sending", 5.0, 10.0, "files", 1.0, 2.0, 3.0)
    progress.show(half)
    assert read_progress(directory) == half
    assert sorted(os.listdir(directory.path)) == ["events.jsonl", PROGRESS]
    progress.show(None)
    progress.show(None)
    assert read_progress(directory) is None


@pytest.mark.parametrize("text", ["", "{}", "[1]", '"what"', "[[]]", '{"what": "x", "done": "y"}', '{"done": 1}'])
def test_malformed_progress_is_ignored(directory: RunDirectory, text: str) -> None:
    Path(directory.file(PROGRESS)).write_text(text)
    assert read_progress(directory) is None


def test_progress_is_written_rarely(directory: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui_workbench.runs.lifecycle.step_progress.time.monotonic", lambda: 100.0)
    progress = Progress(directory, -1)
    for done in (1.0, 2.0):
        progress.show(LongProgress("sending", done, 10.0, "files", 1.0))
    found = read_progress(directory)
    assert found is not None
    assert found.done == 1.0
