"""The index always agrees with the run directories, in any state of its file."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.runs.support import as_anybody, descriptors, let_everybody_in, make_run
from tui_workbench.core.model import RunState
from tui_workbench.projects.project import Project
from tui_workbench.runs.index import index as index_module
from tui_workbench.runs.index import index_file
from tui_workbench.runs.index.history_record import record_text
from tui_workbench.runs.index.index import RunIndex
from tui_workbench.runs.store.rundir import RunDirectory

PAGE = 16384

DONE: dict[str, Any] = {"state": "completed", "exit_code": 0}


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trust the mtime of folders at once, so that the cache is used on slow machines too."""
    monkeypatch.setattr(index_module, "STABLE_NS", -(10**12))
    monkeypatch.setattr(index_module, "SLOW_SECONDS", math.inf)


def run_id(number: int) -> str:
    return f"project_{1_700_000_000_000 + number}"


def ids(project: Project) -> list[str]:
    with RunIndex(project) as index:
        return [run.run_id for run in index.runs()]


def index_path(project: Project) -> Path:
    return Path(Project(project.root).cache_directory, "index.db")


def written(project: Project) -> tuple[bytes, int]:
    """Return a value that changes with every write of the index file: SQLite's change counter, and the inode."""
    return index_path(project).read_bytes()[24:28], index_path(project).stat().st_ino


def test_project_without_runs_has_no_index_file(project: Project) -> None:
    with RunIndex(project) as index:
        assert index.runs() == []
        assert index.newest() is None
        assert index.active() == []
        assert index.history_json() == b""
    assert not os.path.exists(project.state_directory)


def test_runs_are_sorted_newest_first(project: Project) -> None:
    for number in (2, 3, 1):
        make_run(project, run_id(number), number, state="failed", exit_code=number, reason=f"exit code {number}")
    for _ in range(2):  # created and cached
        with RunIndex(project) as index:
            runs = index.runs()
            assert [run.run_number for run in runs] == [3, 2, 1]
            assert runs == [RunDirectory(run.directory).run() for run in runs]
            assert index.newest() == runs[0]


def test_history_is_one_json_list_of_the_same_records(project: Project) -> None:
    for number in range(5):
        make_run(project, run_id(number), number, **DONE)
    with RunIndex(project) as index:
        text = index.history_json().decode()
        assert text == ",\n".join(record_text(run) for run in index.runs())
    assert [record["run_number"] for record in json.loads(f"[{text}]")] == [4, 3, 2, 1, 0]


@pytest.mark.parametrize("active", [(), (7,), (0,), (3, 7)])
def test_history_is_current(project: Project, active: tuple[int, ...]) -> None:
    def check() -> None:
        with RunIndex(project) as index:
            records = json.loads(b"[%b]" % index.history_json())
            assert [record["run_id"] for record in records] == [run.run_id for run in index.runs()]
            assert [record["status"].lower() for record in records] == [run.state for run in index.runs()]

    for number in range(8):
        make_run(project, run_id(number), number, **({} if number in active else DONE))
    check()
    check()
    for number in active:
        directory = RunDirectory(str(Path(project.runs_directory, run_id(number))))
        directory.append_event("state", state="failed", exit_code=1, final=True)
        check()
    shutil.rmtree(Path(project.runs_directory, run_id(2)))
    check()
    make_run(project, run_id(1_000), 1_000, **DONE)
    check()


def test_active_run_is_read_each_time(project: Project) -> None:
    directory = make_run(project, run_id(1))
    make_run(project, run_id(2), 2, **DONE)
    with RunIndex(project) as index:
        assert index.active() == [run_id(1)]
        assert [run.state for run in index.runs()] == ["completed", "running"]
    directory.append_event("state", state="failed", exit_code=1, final=True)
    with RunIndex(project) as index:
        assert index.active() == []
        assert [run.state for run in index.runs()] == ["completed", "failed"]


def test_duration_of_an_active_run_grows(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(project, run_id(1))

    def shown() -> str:
        with RunIndex(project) as index:
            duration: str = json.loads(index.history_json())["duration"]
            return duration

    first = shown()
    assert shown() > first


@pytest.mark.usefixtures("settled")
def test_unchanged_runs_cause_no_writes(project: Project) -> None:
    make_run(project, run_id(1))
    make_run(project, run_id(2), 2, **DONE)
    Path(project.runs_directory, "no run").mkdir()
    Path(project.runs_directory, "a file").write_text("")
    assert len(ids(project)) == 3
    before = written(project)
    for _ in range(3):
        assert len(ids(project)) == 3
    assert written(project) == before


@pytest.mark.usefixtures("settled")
def test_new_and_removed_runs_are_noticed(project: Project) -> None:
    for number in range(4):
        make_run(project, run_id(number), number, **DONE)
    assert ids(project) == [run_id(number) for number in (3, 2, 1, 0)]
    shutil.rmtree(Path(project.runs_directory, run_id(1)))
    assert ids(project) == [run_id(number) for number in (3, 2, 0)]
    make_run(project, run_id(7), 7, **DONE)
    assert ids(project) == [run_id(number) for number in (7, 3, 2, 0)]
    shutil.rmtree(project.runs_directory)
    assert ids(project) == []
    make_run(project, run_id(8), 8, **DONE)
    assert ids(project) == [run_id(8)]


def test_run_created_in_the_same_clock_tick_is_noticed(project: Project) -> None:
    now = time.time_ns()
    for number in range(5):
        make_run(project, run_id(number), number, **DONE)
        os.utime(project.runs_directory, ns=(now, now))
        assert len(ids(project)) == number + 1


def test_removed_active_run_is_dropped(project: Project) -> None:
    make_run(project, run_id(1))
    assert ids(project) == [run_id(1)]
    shutil.rmtree(Path(project.runs_directory, run_id(1)))
    assert ids(project) == []


def test_unfinished_run_directory_is_not_listed(project: Project) -> None:
    make_run(project, run_id(1), **DONE)
    Path(project.runs_directory, f".new-{run_id(2)}").mkdir()
    assert ids(project) == [run_id(1)]


@pytest.mark.usefixtures("settled")
def test_unreadable_directory_is_listed_with_the_reason(project: Project) -> None:
    make_run(project, run_id(1), **DONE)
    newer = Path(make_run(project, run_id(2), 2, **DONE).path, "run.json")
    whole = newer.read_text()
    newer.write_text(json.dumps({**json.loads(whole), "schema": 99}))
    for _ in range(2):
        with RunIndex(project) as index:
            shown = {run.run_id: run for run in index.runs()}
            assert index.active() == []
        assert shown[run_id(2)].state == RunState.UNKNOWN
        assert "run.json" in shown[run_id(2)].reason
        assert shown[run_id(1)].state == "completed"
    newer.write_text(whole)
    with RunIndex(project) as index:
        assert {run.state for run in index.runs()} == {"completed"}


def test_runs_of_another_user_are_listed(project: Project) -> None:
    shared = Path(make_run(project, run_id(1), **DONE).path)
    for file in shared.iterdir():
        file.chmod(0o644)
    private = Path(make_run(project, run_id(2), 2, **DONE).path)
    private.chmod(0)
    let_everybody_in(Path(project.root))

    def check() -> None:
        with RunIndex(project) as index:
            assert {run.run_id: run.state for run in index.runs()} == {run_id(1): "completed", run_id(2): "unknown"}

    try:
        as_anybody(check)
    finally:
        private.chmod(0o755)


class TestFile:
    @pytest.fixture(autouse=True)
    def runs(self, project: Project, settled: None) -> None:
        for number in range(30):
            make_run(project, run_id(number), number, **DONE)
        assert len(ids(project)) == 30

    def test_deleted_index_is_rebuilt(self, project: Project) -> None:
        index_path(project).unlink()
        assert len(ids(project)) == 30
        assert index_path(project).exists()

    def test_damaged_index_is_rebuilt(self, project: Project) -> None:
        magic = b"SQLite format 3\0"
        for damage in (b"", b"not a database", magic + bytes(100), magic + b"\xff" * 9000):
            index_path(project).write_bytes(damage)
            assert len(ids(project)) == 30
            before = written(project)
            assert len(ids(project)) == 30
            assert written(project) == before

    def test_index_damaged_on_any_page_gives_right_answers(self, project: Project) -> None:
        whole = index_path(project).read_bytes()
        right = ids(project)
        for page in range(len(whole) // PAGE):
            index_path(project).write_bytes(
                whole[: page * PAGE + 8] + b"\xa5" * (PAGE - 8) + whole[(page + 1) * PAGE :]
            )
            with RunIndex(project) as index:
                assert json.loads(b"[%b]" % index.history_json())
                assert index.active() == []
                assert [run.run_id for run in index.runs()] == right

    @pytest.mark.slow
    def test_truncated_index_is_rebuilt(self, project: Project) -> None:
        whole = index_path(project).read_bytes()
        for size in range(0, len(whole), 3000):
            index_path(project).write_bytes(whole[:size])
            assert len(ids(project)) == 30

    def test_journal_of_a_killed_process_is_rolled_back(self, project: Project) -> None:
        child = os.fork()
        if child == 0:
            connection = sqlite3.connect(index_path(project), isolation_level=None)
            connection.execute("PRAGMA cache_size = 1")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("DELETE FROM runs")
            connection.execute("UPDATE seen SET folder_mtime = 0")
            os.kill(os.getpid(), 9)
        os.waitpid(child, 0)
        assert len(ids(project)) == 30

    def test_index_of_another_version_is_rebuilt(self, project: Project) -> None:
        whole = index_path(project).read_bytes()
        for statement in (
            "UPDATE seen SET form = 'older'", "DELETE FROM seen", "DROP TABLE seen", "DROP TABLE runs",
            "UPDATE runs SET run = 'no json'", "UPDATE runs SET run = '[]'", "UPDATE runs SET run = '[1]'",
        ):  # fmt: skip
            index_path(project).write_bytes(whole)
            with contextlib.closing(sqlite3.connect(index_path(project))) as connection, connection:
                connection.execute(statement)
            with RunIndex(project) as index:
                assert [run.run_number for run in index.runs()] == list(range(29, -1, -1)), statement
            with contextlib.closing(sqlite3.connect(index_path(project))) as connection:
                counts = connection.execute("SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM seen)")
                assert counts.fetchone() == (30, 1), statement

    def test_blocked_index_path_is_answered_from_memory(self, project: Project) -> None:
        index_path(project).unlink()
        index_path(project).mkdir()
        (index_path(project) / "file").write_text("")
        assert len(ids(project)) == 30

    def test_read_only_index_answers_are_current(self, project: Project) -> None:
        let_everybody_in(Path(project.root))
        make_run(project, run_id(50), 50, **DONE)
        before = written(project)
        index_path(project).chmod(0o444)
        index_path(project).parent.chmod(0o555)

        def check() -> None:
            assert len(ids(project)) == 31

        as_anybody(check)
        index_path(project).parent.chmod(0o755)
        assert written(project) == before

    def test_locked_index_is_answered_from_memory(self, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(index_file, "BUSY_SECONDS", 0.05)
        make_run(project, run_id(50), 50, **DONE)
        for lock in ("BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"):
            other = sqlite3.connect(index_path(project), isolation_level=None)
            other.execute(lock)
            assert len(ids(project)) == 31
            other.execute("ROLLBACK")
            other.close()
        assert len(ids(project)) == 31

    def test_no_descriptors_stay_open(self, project: Project) -> None:
        before = descriptors()
        for _ in range(5):
            ids(project)
        assert descriptors() == before


def test_concurrent_readers_agree(project: Project) -> None:
    for number in range(20):
        make_run(project, run_id(number), number, **DONE)
    started = threading.Barrier(8)

    def ask(number: int) -> list[str]:
        started.wait(120)
        make_run(project, run_id(100 + number), 100 + number, **DONE)
        found = ids(project)
        assert run_id(100 + number) in found
        assert len(found) == len(set(found))
        return found

    with ThreadPoolExecutor(8) as pool:
        assert all(len(found) > 20 for found in pool.map(ask, range(8)))
    found = ids(project)
    assert len(found) == 28
    assert found == sorted(found, reverse=True)


@pytest.mark.slow
def test_two_processes_can_create_the_index(project: Project) -> None:
    for number in range(200):
        make_run(project, run_id(number), number, **DONE)
    reading, writing = os.pipe()
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.close(writing)
                os.read(reading, 1)
                code = 0 if len(ids(project)) == 200 else 2
            finally:
                os._exit(code)
        children.append(child)
    os.close(writing)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0, 0]
    os.close(reading)
    assert len(ids(project)) == 200
