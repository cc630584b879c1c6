"""A file of a run that cannot be read is named, and the other files and runs are shown."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.faults.support import Workbench
from tests.runs.support import make_run
from tui_workbench.projects.project import Project
from tui_workbench.runs.comparing import MOST_ROWS
from tui_workbench.runs.index.damages import damaged_files

RUN = "project_1700000000001"
DONE: dict[str, Any] = {"state": "completed", "exit_code": 0}


@pytest.fixture
def workbench(project: Project) -> Workbench:
    """Return a project with two ended runs."""
    for number in (1, 2):
        make_run(project, f"project_170000000000{number}", number, **DONE)
    return Workbench(Path(project.root))


def change_record(workbench: Workbench, **changes: Any) -> None:
    path = workbench.run_directory(RUN) / "run.json"
    record = json.loads(path.read_text())
    for key, value in changes.items():
        *parents, last = key.split("__")
        parent = record
        for each in parents:
            parent = parent[each]
        parent[last] = value
    path.write_text(json.dumps(record))


@pytest.mark.parametrize("value", [None, True, 1e308, [], "text"])
def test_variables_of_a_wrong_type_are_named(workbench: Workbench, value: Any) -> None:
    change_record(workbench, run_configuration__environment_variables=value)
    for words in (("info", "-r", RUN), ("compare", "1", "2")):
        said = workbench.run("history", *words)
        assert (said.code, "Traceback" in said.err) == (2, False), said
    record = next(each for each in workbench.history() if each["run_id"] == RUN)
    assert record["status"] == "Unknown"
    assert "run.json" in record["reason"]
    assert "run_configuration.environment_variables" in record["reason"]


@pytest.mark.parametrize("value", [[], {}, None, 7])
def test_target_type_of_a_wrong_type_is_named(workbench: Workbench, value: Any) -> None:
    change_record(workbench, target__type=value)
    workbench.run("history", "info", "-r", RUN).error(2, "run.json", "`target.type` is")
    workbench.run("history", "compare", RUN, "2").error(2, "run.json", "`target.type` is")


@pytest.mark.parametrize("moment", [10**400, 10**30, 1e308, "soon", None])
def test_event_without_a_time_is_skipped_and_named(workbench: Workbench, moment: Any) -> None:
    path = workbench.run_directory(RUN) / "events.jsonl"
    path.write_text(path.read_text() + json.dumps({"event": "state", "state": "failed", "time": moment}) + "\n")
    information = workbench.info(RUN)
    assert information["status"] == "Completed"
    assert "line" in information["damaged_files"]["events.jsonl"]
    said = workbench.run("history", "compare", RUN, "2")
    assert said.code == 0
    assert "events.jsonl" in said.err


def test_folder_whose_name_is_not_utf8_is_one_row(workbench: Workbench) -> None:
    folder = os.fsencode(workbench.run_directory(RUN).parent) + b"/\xff\xfe"
    os.mkdir(folder)
    with open(folder + b"/run.json", "wb") as file:
        file.write(b'{"run_id": "\xff\xfe"}')
    rows = {record["run_id"]: record for record in workbench.history()}
    assert set(rows) == {RUN, "project_1700000000002", "\\xff\\xfe"}
    assert "not UTF-8" in rows["\\xff\\xfe"]["reason"]
    for command in ("status", "status --line", "history list -o table"):
        assert workbench.run(*command.split()).code == 0
    for words in (("history", "info", "-r"), ("history", "compare", RUN)):
        workbench.run(*words, b"\xff\xfe").error(2, "not UTF-8")
        workbench.run(*words, "\\xff\\xfe").error(2, "not UTF-8")
    assert workbench.run("logs", b"\xff\xfe").code == 0
    assert set(rows) == {record["run_id"] for record in workbench.history()}


DAMAGES = {
    "gpu.json": b"{",
    "metrics.json": b'{"schema": 1, "metrics": {"loss": 1}}',
    "provenance.json": b"[" * 100_000,
    "job.json": b'{"job_id": 5}',
    "stacks/20260101T000000-000.json": b"\xff",
    "attempts/1/attempt.json": b'{"number": "1"}',
    "attempts/1/gpu.json": b"[]",
    "notifications/me-end.json": b"null",
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_file_is_named_in_the_record(workbench: Workbench, name: str) -> None:
    directory = workbench.run_directory(RUN)
    assert damaged_files(str(directory)) == {}
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(DAMAGES[name])
    assert list(workbench.info(RUN)["damaged_files"]) == [name]
    assert len(workbench.history()) == 2


@pytest.mark.parametrize("name", ["output.log", "metrics.jsonl", "git.diff", "gpu.jsonl", "events.jsonl"])
def test_special_file_is_named_and_not_followed(workbench: Workbench, name: str) -> None:
    path = workbench.run_directory(RUN) / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    assert list(workbench.info(RUN)["damaged_files"]) == [name]
    path.unlink()
    path.symlink_to("/dev/zero")
    assert list(workbench.info(RUN)["damaged_files"]) == [name]


@pytest.mark.slow
def test_many_arguments_are_compared_up_to_a_limit(workbench: Workbench) -> None:
    change_record(workbench, arguments=["a"] * 200_000)
    said = workbench.run("history", "compare", RUN, "2", "--all", "-o", "json")
    assert said.code == 0
    found = json.loads(said.out)
    assert len([row for row in found["rows"] if row["section"] == "arguments"]) == MOST_ROWS
    assert any("arguments: 195," in note for note in found["notes"])
    assert len(workbench.info(RUN)["arguments"]) == 200_000
