"""Stages and failed tasks from Spark's event logs, which may contain anything."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.runs.logs.spark_log import APPLICATION, PROPERTIES, STAGE_0, completed, event, failed_task, task, write_log
from tui_workbench.core.causes import text_of
from tui_workbench.runs.logs import spark_events
from tui_workbench.runs.logs.spark_events import SparkEvents, read_spark
from tui_workbench.runs.logs.spark_failure import spark_failure, stage_failure
from tui_workbench.targets.hosts.host import LocalHost
from tui_workbench.targets.hosts.mirror import LiveFiles


def test_application_and_stages_are_read(tmp_path: Path) -> None:
    write_log(
        tmp_path, APPLICATION, STAGE_0, task(0), task(0), completed(0, 5), event("ApplicationEnd", Timestamp=9000)
    )
    (found,) = read_spark(str(tmp_path))
    assert (found.name, found.version, found.master, found.executors, found.cores) == (
        "Iris",
        "4.3.0",
        "local[2]",
        1,
        2,
    )
    assert (found.start, found.end) == (1.0, 9.0)
    (stage,) = found.stages
    assert (stage.number, stage.name, stage.tasks, stage.done, stage.failed) == (0, "count at train.py:7", 2, 2, 0)
    assert (stage.start, stage.end, stage.failure) == (2.0, 5.0, "")


def test_stages_of_a_job_are_expected_until_its_end(tmp_path: Path) -> None:
    infos = [{"Stage ID": number, "Stage Name": "count at a.py:1", "Number of Tasks": 2} for number in range(3)]
    infos[1]["Parent IDs"] = [0]
    job = event("JobStart", **{"Job ID": 4, "Submission Time": 3000, "Stage Infos": infos})
    write_log(tmp_path, APPLICATION, job)
    assert [(stage.number, stage.start, stage.tasks) for stage in read_spark(str(tmp_path))[0].stages] == [
        (0, 3.0, 2), (1, 0.0, 2), (2, 3.0, 2)
    ]  # fmt: skip
    # Stages whose results are known already are skipped.
    write_log(tmp_path, APPLICATION, job, STAGE_0, completed(0, 5), event("JobEnd", **{"Job ID": 4}))
    assert [stage.number for stage in read_spark(str(tmp_path))[0].stages] == [0]


def test_failed_task_shows_the_exception_of_the_script(tmp_path: Path) -> None:
    traceback = (
        "[PYTHON] Thrown: Traceback (most recent call last):\n  File x\nValueError: row 7 has no label\n SQLSTATE: 3"
    )
    write_log(tmp_path, APPLICATION, STAGE_0, task(0), failed_task(0, traceback), completed(0, 5, traceback))
    (found,) = read_spark(str(tmp_path))
    (failed,) = found.failed_tasks
    assert (failed.stage, failed.task, failed.attempt, failed.host) == (0, 1, 3, "node-2")
    assert failed.reason == "ValueError: row 7 has no label"
    assert (found.stages[0].done, found.stages[0].failed) == (1, 1)
    assert found.stages[0].failure == "ValueError: row 7 has no label"


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ({"Reason": "ExecutorLostFailure", "Loss Reason": "killed by the kernel"}, "killed by the kernel"),
        ({"Reason": "FetchFailed", "Message": "connection refused"}, "FetchFailed: connection refused"),
        ({"Reason": "ExceptionFailure", "Class Name": "java.lang.OutOfMemoryError"}, "java.lang.OutOfMemoryError"),
        ({"Reason": "Resubmitted"}, "Resubmitted"),
    ],
)
def test_other_failures_are_named(tmp_path: Path, reason: dict[str, Any], text: str) -> None:
    write_log(tmp_path, STAGE_0, event("TaskEnd", **{"Stage ID": 0, "Stage Attempt ID": 0, "Task End Reason": reason}))
    assert text in read_spark(str(tmp_path))[0].failed_tasks[0].reason


def test_killed_tasks_are_not_failures(tmp_path: Path) -> None:
    reason = {"Reason": "TaskKilled", "Kill Reason": "Stage cancelled"}
    write_log(tmp_path, STAGE_0, event("TaskEnd", **{"Stage ID": 0, "Stage Attempt ID": 0, "Task End Reason": reason}))
    assert read_spark(str(tmp_path))[0].failed_tasks == ()


def test_reading_continues_at_the_last_byte(tmp_path: Path) -> None:
    path = write_log(tmp_path, APPLICATION, STAGE_0, name="local-1.inprogress")
    events = SparkEvents(str(tmp_path))
    events.refresh()
    with path.open("ab") as file:
        line = task(0).encode() + b"\n"
        file.write(line[:30])
        file.flush()
        events.refresh()
        assert events.applications[0].stages[0].done == 0
        file.write(line[30:])
    path.rename(path.with_name("local-1"))
    events.refresh()
    events.refresh()
    (found,) = events.applications
    assert (found.identifier, found.stages[0].done) == ("local-1", 1)


def test_damaged_and_hostile_lines_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_events, "LONGEST_LINE", 2_000_000)
    huge = event("StageSubmitted", **{"Stage Info": {"Stage ID": 1, "Stage Name": "x" * 5_000_000}})
    numbers = {"Stage ID": "1", "Stage Attempt ID": True, "Number of Tasks": -4, "Submission Time": 1e300}
    lines = [
        '{"Event":"SparkListenerStageSubmitted"', '{"Event":"SparkListenerTaskEnd"}', "\x1b[31m\x00", "[" * 100_000,
        '{"Event":"SparkListenerStageSubmitted","x":' + "[" * 100_000, huge, event("ApplicationStart", Timestamp="x"),
        event("StageSubmitted", **{"Stage Info": numbers}), event("EnvironmentUpdate", **{"Spark Properties": [1]}),
        event("ExecutorAdded", **{"Executor Info": {"Total Cores": 10**30}}),
    ]  # fmt: skip
    write_log(tmp_path, *lines, APPLICATION, STAGE_0)
    (found,) = read_spark(str(tmp_path))
    assert found.name == "Iris"
    assert found.is_cut
    assert [(stage.tasks, stage.start) for stage in found.stages] == [(2, 2.0)]


def test_numbers_of_entries_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_events, "MOST_STAGES", 3)
    monkeypatch.setattr(spark_events, "MOST_FAILED_TASKS", 2)
    monkeypatch.setattr(spark_events, "MOST_APPLICATIONS", 2)
    stages = [STAGE_0.replace('"Stage ID":0', f'"Stage ID":{number}') for number in range(5)]
    for name in ("a", "b", "c"):
        write_log(tmp_path, *stages, *[failed_task(0, "no")] * 5, name=name)
    found = read_spark(str(tmp_path))
    assert len(found) == 2
    assert (len(found[0].stages), found[0].more_stages) == (3, 2)
    assert (len(found[0].failed_tasks), found[0].more_failed) == (2, 3)


def test_large_log_is_read_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_events, "SPARK_BYTES", 4_000)
    write_log(tmp_path, APPLICATION, STAGE_0, *[task(0)] * 100)
    (found,) = read_spark(str(tmp_path))
    assert found.is_cut
    assert 0 < found.stages[0].done < 100


def test_log_that_was_fetched_in_part_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_log(tmp_path, APPLICATION, STAGE_0, *[task(0)] * 100)
    monkeypatch.setattr(spark_events, "SPARK_BYTES", path.stat().st_size)
    assert read_spark(str(tmp_path))[0].is_cut


def test_links_and_pipes_are_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(APPLICATION)
    (tmp_path / "spark").mkdir()
    (tmp_path / "spark/link").symlink_to(secret)
    os.mkfifo(tmp_path / "spark/pipe")
    assert [each.name for each in read_spark(str(tmp_path))] == ["", ""]


def test_run_without_spark_has_no_applications(tmp_path: Path) -> None:
    assert read_spark(str(tmp_path)) == []


def test_user_interface_can_be_off(tmp_path: Path) -> None:
    write_log(tmp_path, PROPERTIES)
    assert (read_spark(str(tmp_path))[0].ui_host, read_spark(str(tmp_path))[0].ui_port) == ("10.0.0.2", 4040)
    off = json.loads(PROPERTIES)
    off["Spark Properties"]["spark.ui.enabled"] = "false"
    write_log(tmp_path, json.dumps(off))
    assert read_spark(str(tmp_path))[0].ui_host == ""


@pytest.mark.parametrize(
    ("name", "local"),
    [
        ("spark/local-1.inprogress", "spark/local-1"),
        ("spark/local-1", "spark/local-1"),
        ("spark/../run.json", ""),
        ("spark/a/b", ""),
    ],
)
def test_event_log_keeps_its_name_here(tmp_path: Path, name: str, local: str) -> None:
    live = LiveFiles(LocalHost(), "/there", str(tmp_path))
    assert live.local_path(name) == (str(tmp_path / local) if local else "")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("java.lang.RuntimeException: [unresolved dependency: g.h#a_2.11;0.7: not found]", "download g.h:a_2.11:0.7"),
        (
            "Error: java.lang.UnsupportedClassVersionError: org/apache/spark/launcher/Main",
            "the Java of the run does not work with",
        ),
        ("IllegalArgumentException: Unsupported class file major version 61", "set JAVA_HOME to Java 17"),
        ("Caused by: java.lang.UnsupportedOperationException: getSubject is not supported", "set JAVA_HOME to Java 17"),
        ("Exception: Could not parse Master URL: 'sparky://x'", "invalid Spark master 'sparky://x'"),
        ("ERROR Application has been killed. Reason: All masters are unresponsive! Giving up.", "does not answer"),
        ("Traceback (most recent call last):", ""),
    ],
)
def test_failure_before_the_script_has_a_plain_reason(tmp_path: Path, line: str, reason: str) -> None:
    (tmp_path / "output.log").write_text(f"first\n{line}\nlast\n")
    found = spark_failure(str(tmp_path / "output.log"))
    assert (reason in text_of((found,))) if found is not None else not reason


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        ("java.lang.ArithmeticException: / by zero", "java.lang.ArithmeticException: / by zero"),
        (
            "Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent failure: Lost task 0.3 "
            "in stage 0.0 (TID 6) (node-2 executor 1): java.io.FileNotFoundException: File "
            "file:/home/ada/.workbench-tui/runs/p_1/work/data/alice.txt does not exist\n\tat X",
            "java.io.FileNotFoundException: File file:/home/ada/.workbench-tui/runs/p_1/work/data/alice.txt does not "
            "exist: executors on other machines cannot read the working copy of the run",
        ),
        ("", ""),
    ],
)
def test_failure_of_the_last_failed_stage_is_the_reason(tmp_path: Path, failure: str, reason: str) -> None:
    cluster = APPLICATION.replace("local[2]", "spark://head:7077")
    write_log(tmp_path, cluster, STAGE_0, completed(0, 3, failure))
    assert stage_failure(str(tmp_path), "p_1") == reason
