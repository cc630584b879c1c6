"""The state of a run's job in the scheduler: its file and its texts."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from tui_workbench.core.model import ClusterJob, Run, RunState
from tui_workbench.runs.store.cluster_job import (
    JOB,
    job_words,
    left_words,
    queue_words,
    read_job,
    warning_words,
    write_job,
)

if TYPE_CHECKING:
    from pathlib import Path

NOON = time.mktime((2026, 11, 23, 12, 0, 0, 0, 0, -1))


def run_of(job: ClusterJob, state: str = RunState.QUEUED) -> Run:
    return Run("run", 1, "", "train.py", (), "cluster", "cluster", "slurm", state, job=job)


def test_written_facts_are_read(tmp_path: Path) -> None:
    job = ClusterJob("17", 3, NOON, "node[1-2]", NOON + 60, NOON + 30)
    write_job(str(tmp_path), job)
    assert read_job(str(tmp_path)) == job


@pytest.mark.parametrize("text", ["", "[]", "{", '{"job_id": 3, "position": -1, "start": "x", "end": 1e999}'])
def test_damaged_facts_are_unknown(tmp_path: Path, text: str) -> None:
    (tmp_path / JOB).write_text(text)
    assert read_job(str(tmp_path)) == ClusterJob()


def test_texts_from_a_cluster_are_bounded_and_safe(tmp_path: Path) -> None:
    (tmp_path / JOB).write_text(json.dumps({"job_id": "1\x1b[2J\n2", "nodes": "n" * 10_000}))
    found = read_job(str(tmp_path))
    assert found.job_id == "1[2J2"
    assert len(found.nodes) == 200


def test_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text('{"job_id": "17"}')
    (tmp_path / JOB).symlink_to(tmp_path / "other")
    assert read_job(str(tmp_path)) == ClusterJob()


def test_waiting_job_has_position_and_start() -> None:
    run = run_of(ClusterJob("17", position=3, start=NOON + 9120))
    assert job_words(run, NOON) == "job 17, position 3, starts about 14:32"


def test_start_on_another_day_has_its_date() -> None:
    assert queue_words(run_of(ClusterJob(start=NOON + 86400)), NOON) == "starts about 24 Nov 12:00"


def test_running_job_has_nodes_and_time_left() -> None:
    run = run_of(ClusterJob("17", nodes="node[1-2]", end=NOON + 3780), RunState.RUNNING)
    assert job_words(run, NOON) == "job 17 on node[1-2], 1 h 3 min left"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-9, "0:00 left"), (119, "1:59 left"), (600, "10 min left"), (2 * 86400 + 7200, "2 d 2 h left")],
)
def test_time_left_is_formatted(seconds: float, words: str) -> None:
    assert left_words(run_of(ClusterJob("17", end=NOON + seconds), RunState.RUNNING), NOON) == words


def test_ended_job_has_no_time_left() -> None:
    assert job_words(run_of(ClusterJob("17", nodes="node1", end=NOON), RunState.FAILED), NOON) == "job 17 on node1"


def test_warning_is_shown_after_it_was_sent() -> None:
    run = run_of(ClusterJob("17", end=NOON + 120, warning=NOON), RunState.RUNNING)
    assert warning_words(run, NOON - 1) == ""
    assert "SIGTERM" in warning_words(run, NOON)
    assert "12:02" in warning_words(run, NOON)
