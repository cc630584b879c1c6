"""Submitting creates a complete run or none, as planned, with a unique number and ID."""

from __future__ import annotations

import fcntl
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.conftest import write_project
from tests.proc import PROC
from tests.runs.support import REQUEST, make_run, write_configuration, write_files
from tui_workbench.core.errors import ConfigurationError, StorageError, UsageError, WorkbenchError
from tui_workbench.core.model import RunRequest, RunSpec
from tui_workbench.projects.project import Project
from tui_workbench.runs.store import new_run, run_ids, secret_arguments
from tui_workbench.runs.store.new_run import remove_unfinished
from tui_workbench.runs.store.run_ids import identifier, next_run_number, reserve_run_id
from tui_workbench.runs.store.rundir import ControllerLock, RunDirectory
from tui_workbench.runs.submission.launch import create_run
from tui_workbench.runs.submission.planning import prepare


def root(project: Project) -> Path:
    return Path(project.root)


def asked(script: str = "", *arguments: str, configuration: str = "local", target: str = "") -> RunRequest:
    return RunRequest(configuration, script, arguments, target)


def command(project: Project, request: RunRequest) -> tuple[str, ...]:
    """Return the planned command without the interpreter."""
    step = prepare(project, request).plan.step("start")
    assert step is not None
    return step.command[1:]


def test_changes_during_the_snapshot_can_be_refused(project: Project) -> None:
    """Files can change between the first check and the snapshot."""
    write_configuration(root(project), TrackedRun=True)
    checked: list[str] = []

    def check(spec: RunSpec) -> None:
        checked.append(spec.script)
        if len(checked) == 2:
            raise UsageError("the project has changed")

    with pytest.raises(UsageError, match="has changed"):
        create_run(project, REQUEST, check)
    assert checked == ["hello.py", "hello.py"]
    assert os.listdir(project.runs_directory) == []


class TestScriptAndArguments:
    @pytest.mark.parametrize(
        ("vector", "request_", "expected"),
        [
            (["$file"], asked("a.py"), ("a.py",)),
            (["$file"], asked("a.py", "1", "2"), ("a.py", "1", "2")),
            (["$file", "--epochs", "3"], asked("a.py"), ("a.py", "--epochs", "3")),
            (["$file", "--epochs", "3"], asked("a.py", "--epochs", "9"), ("a.py", "--epochs", "9")),
            (["a.py"], asked(), ("a.py",)),
            (["a.py", "--epochs", "3"], asked(), ("a.py", "--epochs", "3")),
            (["a.py", "--epochs", "3"], asked("", "--more"), ("a.py", "--epochs", "3", "--more")),
            (["a.py", "--epochs", "3"], asked("b.py"), ("b.py",)),
            (["a.py", "--epochs", "3"], asked("b.py", "1"), ("b.py", "1")),
            (None, asked("a.py"), ("a.py",)),
            (["$file", "$file"], asked("a.py"), ("a.py", "$file")),
        ],
    )
    def test_arguments_of_request_and_argument_vector(
        self, project: Project, vector: list[str] | None, request_: RunRequest, expected: tuple[str, ...]
    ) -> None:
        write_files(root(project), {"a.py": "", "b.py": ""})
        write_configuration(root(project), ArgumentVector=vector)
        assert command(project, request_) == expected

    @pytest.mark.parametrize("vector", [["$file"], ["$file", "x"], None])
    def test_missing_script_is_refused(self, project: Project, vector: list[str] | None) -> None:
        write_configuration(root(project), ArgumentVector=vector)
        with pytest.raises(UsageError, match=r"local\.runconfig"):
            prepare(project, asked())

    def test_script_path_is_relative_to_project_or_current_folder(
        self, project: Project, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write_files(root(project), {"src/train.py": "", "src/hello.py": "another"})
        assert command(project, asked("src/train.py")) == ("src/train.py",)
        assert command(project, asked("./src/../src/train.py")) == ("src/train.py",)
        assert command(project, asked(f"{project.root}/src/train.py")) == ("src/train.py",)
        monkeypatch.chdir(root(project) / "src")
        assert command(project, asked("train.py")) == ("src/train.py",)
        assert command(project, asked("../hello.py")) == ("hello.py",)
        assert command(project, asked("hello.py")) == ("hello.py",)  # the project's own comes first

    def test_project_can_be_reached_through_a_link(
        self, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "link").symlink_to(project.root)
        linked = Project.find(str(tmp_path / "link"))
        assert command(linked, asked(f"{project.root}/hello.py")) == ("hello.py",)
        assert command(project, asked(str(tmp_path / "link" / "hello.py"))) == ("hello.py",)
        monkeypatch.chdir(tmp_path / "link")
        assert command(linked, asked("hello.py")) == ("hello.py",)

    def test_script_can_be_a_link(self, project: Project, tmp_path: Path) -> None:
        write_files(tmp_path, {"elsewhere.py": ""})
        (root(project) / "linked.py").symlink_to(tmp_path / "elsewhere.py")
        assert command(project, asked("linked.py")) == ("linked.py",)

    @pytest.mark.parametrize("script", ["../outside.py", "{outside}", "a/../../outside.py", ".."])
    def test_script_outside_the_project_is_refused(self, project: Project, tmp_path: Path, script: str) -> None:
        (tmp_path / "outside.py").write_text("")
        with pytest.raises(UsageError, match="outside the project"):
            prepare(project, asked(script.format(outside=tmp_path / "outside.py")))

    @pytest.mark.parametrize(
        ("script", "said"),
        [("missing.py", "does not exist"), (".", "is a folder"), ("aml_config", "is a folder"), ("a\0b", "NUL"),
         ("broken.ipynb", "broken.ipynb is not a valid notebook: line 2, column 1"),
         ("only.dsource", "only.dsource is a data source of Azure ML Workbench, and not a script")],
    )  # fmt: skip
    def test_invalid_script_is_refused(self, project: Project, script: str, said: str) -> None:
        write_files(root(project), {"broken.ipynb": '{"cells": [],\n', "only.dsource": "print(1)\n"})
        with pytest.raises(UsageError, match=said):
            prepare(project, asked(script))

    @pytest.mark.parametrize("script", ["outputs/eval.py", ".workbench/x.py", "sub/__pycache__/x.py", ".git/x.py"])
    def test_never_copied_script_runs_only_in_place(self, project: Project, script: str) -> None:
        write_files(root(project), {script: ""})
        assert command(project, asked(script)) == (script,)
        write_configuration(root(project), TrackedRun=True)
        with pytest.raises(UsageError, match="TrackedRun: false"):
            prepare(project, asked(script))

    def test_script_name_can_look_like_an_option(self, project: Project) -> None:
        write_files(root(project), {"-c": "", "--help.py": ""})
        assert command(project, asked("-c", "x")) == ("./-c", "x")


class TestPrepare:
    def test_plan_changes_nothing(self, project: Project) -> None:
        write_configuration(root(project), TrackedRun=True)
        before = sorted(os.walk(project.root))
        prepare(project, REQUEST)
        assert sorted(os.walk(project.root)) == before

    def test_untracked_run_runs_in_place(self, project: Project) -> None:
        spec, plan, _ = prepare(project, REQUEST)
        assert spec.working_directory == project.root
        assert [step.name for step in plan.steps] == ["start", "follow"]

    def test_tracked_run_has_a_working_copy(self, project: Project) -> None:
        write_configuration(root(project), TrackedRun=True)
        spec, plan, _ = prepare(project, REQUEST)
        assert spec.working_directory == f"{spec.run_directory}/work"
        assert [step.name for step in plan.steps] == ["snapshot", "copy", "start", "follow", "collect"]
        assert all(step.title for step in plan.steps)
        start = plan.step("start")
        assert start is not None
        assert start.directory == spec.working_directory
        assert plan.steps[0].command == ("git", "update-index", "--add", "--stdin")
        assert plan.steps[1].command[-1] == f"--prefix={spec.working_directory}/"

    def test_plan_mentions_missing_git(self, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
        write_configuration(root(project), TrackedRun=True)
        monkeypatch.setenv("PATH", "/nowhere")
        _, plan, _ = prepare(project, REQUEST)
        snapshot = plan.step("snapshot")
        assert snapshot is not None
        assert "git is not installed" in snapshot.title
        assert snapshot.command == ()

    def test_request_can_override_the_target(self, project: Project) -> None:
        write_configuration(root(project), "other", suffix="compute", type="local", pythonLocation=sys.executable)
        assert prepare(project, asked("hello.py", target="other")).plan.target == "other"

    @pytest.mark.parametrize(
        "wrong",
        [
            asked("hello.py", configuration="none"),
            asked("hello.py", target="none"),
            asked("hello.py", configuration="../local"),
            asked("hello.py", configuration=""),
            asked("hello.py", target="../local"),
            asked("hello.py", target="a/b"),
        ],
    )
    def test_unknown_names_are_reported_with_suggestions(self, project: Project, wrong: RunRequest) -> None:
        with pytest.raises(ConfigurationError, match="local"):
            prepare(project, wrong)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("digits", "digits"),
        ("my project", "my-project"),
        ("a..b", "a.b"),
        ("a.....b", "a.b"),
        ("..", "project"),
        (".hidden", "hidden"),
        ("-x", "x"),
        ("\u4f60\u597d", "project"),
        ("na\u00efve", "na-ve"),
        ("a/b", "a-b"),
        ("a\nb", "a-b"),
        ("$(x)", "x"),
        ("~^:?*[\\", "project"),
        ("@{", "project"),
        ("x.lock", "x.lock"),
        ("x" * 300, "x" * 100),
    ],
)
def test_any_project_name_makes_a_valid_identifier(name: str, expected: str) -> None:
    assert identifier(name.strip("/")) == expected


@pytest.mark.parametrize("name", ["a b", "a..b", "-x", "\u4f60\u597d", "a\nb", "'\"$(x)", "x.lock", "@{u}", "n" * 250])
def test_project_of_any_name_has_runs(tmp_path: Path, name: str) -> None:
    project = Project.find(str(write_project(tmp_path / name, tracked=True)))
    directory, lock, record = create_run(project, REQUEST)
    lock.release()
    assert Path(directory.path, "work", "hello.py").exists()
    assert record.commit_id
    assert directory.read_record().plan == record.plan


class TestCreate:
    def test_new_run_is_queued_and_locked(self, project: Project) -> None:
        directory, lock, record = create_run(project, REQUEST)
        assert directory.run().state == "queued"
        assert ControllerLock.holder(directory) == os.getpid()
        assert record.run_number == 1
        assert os.listdir(project.runs_directory) == [record.run_id]
        assert (root(project) / ".workbench" / ".gitignore").read_text() == "*\n"
        lock.release()

    def test_run_id_is_project_and_time(self, project: Project) -> None:
        directory, lock, record = create_run(project, REQUEST)
        lock.release()
        name, _, milliseconds = directory.run_id.rpartition("_")
        assert name == project.name
        assert abs(int(milliseconds) / 1000 - record.created) < 60

    @pytest.mark.processes
    def test_run_numbers_and_ids_are_unique(self, project: Project) -> None:
        def create(_: int) -> tuple[int, str]:
            directory, lock, record = create_run(Project.find(project.root), REQUEST)
            lock.release()
            return record.run_number, directory.run_id

        with ThreadPoolExecutor(8) as pool:
            made = list(pool.map(create, range(60)))
        assert sorted(number for number, _ in made) == list(range(1, 61))
        assert len({run_id for _, run_id in made}) == 60
        assert len(os.listdir(project.runs_directory)) == 60

    def test_counters_are_locked(self, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
        looked = []

        def look() -> int:
            with open(f"{project.state_directory}/run_number") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    looked.append(file.name)
            return 1_000_000_000

        project.prepare_state()
        monkeypatch.setattr(time, "time_ns", look)
        assert reserve_run_id(project) == "project_1000"
        assert looked

    def test_run_ids_increase_after_a_clock_change(self, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
        ids = []
        for milliseconds in (2000, 1000, 1000, 2001):
            monkeypatch.setattr(time, "time_ns", lambda now=milliseconds: now * 1_000_000)
            directory, lock, _ = create_run(project, REQUEST)
            lock.release()
            ids.append(directory.run_id)
        assert ids == [f"project_{number}" for number in (2000, 2001, 2002, 2003)]

    @pytest.mark.parametrize("content", [None, b"", b"7", b"nonsense", b"\0" * 32, b"7 x\n"])
    def test_lost_counters_are_recovered(self, project: Project, content: bytes | None) -> None:
        far = 9_000_000_000_000
        make_run(project, f"project_{far}", 41, state="completed")
        Path(project.runs_directory, "no run").mkdir()
        make_run(project, "project_broken", 99)
        Path(project.runs_directory, "project_broken", "run.json").write_text("{")
        counters = Path(project.state_directory, "run_number")
        if content is not None:
            counters.write_bytes(content)
        directory, lock, record = create_run(project, REQUEST)
        lock.release()
        assert record.run_number == 42
        assert directory.run_id == f"project_{far + 1}"

    def test_removed_runs_folder_is_created_again(self, project: Project) -> None:
        import shutil

        for _ in range(2):
            create_run(project, REQUEST)[1].release()
            shutil.rmtree(project.runs_directory)
        assert create_run(project, REQUEST)[2].run_number == 3

    def test_submit_does_not_change_the_project(self, project: Project) -> None:
        write_configuration(root(project), TrackedRun=True)
        directory, lock, _ = create_run(project, REQUEST)
        lock.release()
        (root(project) / "hello.py").write_text("edited")
        copy = Path(directory.path, "work")
        assert (copy / "hello.py").read_text() == 'print("hello")\n'
        assert list((copy / "outputs").iterdir()) == []
        assert not (copy / ".workbench").exists()

    def test_file_times_distinguish_copy_and_run(self, project: Project) -> None:
        write_configuration(root(project), TrackedRun=True)
        directory, lock, _ = create_run(project, REQUEST)
        Path(directory.path, "work", "at once").write_text("")
        lock.release()
        complete = os.stat(directory.file("run.json")).st_mtime_ns
        assert os.stat(f"{directory.path}/work/hello.py").st_ctime_ns <= complete
        assert os.stat(f"{directory.path}/work/at once").st_ctime_ns > complete

    def test_slow_file_system_clock_is_waited_for(self, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
        write_configuration(root(project), TrackedRun=True)
        real = os.utime
        ticks: list[int] = []

        def same_tick(clock: Any, *times: Any, **options: Any) -> None:
            real(clock, *times, **options)
            if not isinstance(clock, int) or times or options:
                return
            record = os.path.join(os.path.dirname(os.readlink(f"/proc/self/fd/{clock}")), "run.json")
            if os.path.exists(record):
                ticks.append(clock)
                if len(ticks) < 4:
                    written = os.stat(record).st_mtime_ns
                    real(clock, ns=(written, written))

        monkeypatch.setattr(os, "utime", same_tick)
        create_run(project, REQUEST)[1].release()
        assert len(ticks) == 4

    def test_no_file_of_the_run_holds_a_secret(self, project: Project) -> None:
        write_configuration(root(project), EnvironmentVariables={"STORAGE_KEY": "hunter2", "NAME": "value"})
        _, lock, record = create_run(project, REQUEST)
        lock.release()
        for path in Path(project.state_directory).rglob("*"):
            if path.is_file() and path.parent.name != "cache":
                assert b"hunter2" not in path.read_bytes(), path
        assert record.spec.run_configuration.environment_variables["STORAGE_KEY"] == "hunter2"


def fail_at(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StorageError("no space", remedy="Free some.")

    monkeypatch.setattr(module, name, fail)


BREAKS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "the arguments": lambda patch: patch.setattr(secret_arguments, "save", _no_space),
    "the number": lambda patch: fail_at(patch, run_ids, "next_run_number"),
    "the record": lambda patch: patch.setattr(RunDirectory, "write_record", _no_space),
    "the first event": lambda patch: patch.setattr(RunDirectory, "append_event", _no_space),
    "the name": lambda patch: fail_at(patch, new_run, "publish"),
    "interrupted": lambda patch: patch.setattr(run_ids, "next_run_number", _interrupted),
}


def _no_space(*_: object, **__: object) -> None:
    raise StorageError("no space", remedy="Free some.")


def _interrupted(_: Project) -> int:
    raise KeyboardInterrupt


@pytest.mark.parametrize("tracked", [False, True])
def test_failed_submit_leaves_nothing(project: Project, monkeypatch: pytest.MonkeyPatch, tracked: bool) -> None:
    write_configuration(root(project), TrackedRun=tracked)
    create_run(project, REQUEST)[1].release()
    for broken, break_it in BREAKS.items():
        runs = sorted(os.listdir(project.runs_directory))
        before = len(os.listdir(PROC / "self/fd"))
        with monkeypatch.context() as patch:
            break_it(patch)
            with pytest.raises((WorkbenchError, KeyboardInterrupt)):
                create_run(project, REQUEST)
        assert sorted(os.listdir(project.runs_directory)) == runs, broken
        assert len(os.listdir(PROC / "self/fd")) == before, broken
        create_run(project, REQUEST)[1].release()


class TestUnfinished:
    @pytest.fixture(autouse=True)
    def at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(new_run, "BUILDING_SECONDS", -1.0)

    def test_remains_of_a_killed_submit_are_removed(self, project: Project) -> None:
        write_configuration(root(project), TrackedRun=True)
        child = os.fork()
        if child == 0:
            vars(new_run)["publish"] = lambda *_: os.kill(os.getpid(), 9)
            create_run(project, REQUEST)
        os.waitpid(child, 0)
        (left,) = os.listdir(project.runs_directory)
        assert left.startswith(".new-")
        assert json.loads(Path(project.runs_directory, left, "run.json").read_text())
        remove_unfinished(project)
        assert os.listdir(project.runs_directory) == []

    def test_run_being_created_is_left_alone(self, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
        making, go = threading.Event(), threading.Event()
        real = next_run_number

        def slowly(project: Project) -> int:
            making.set()
            go.wait(120)
            return real(project)

        monkeypatch.setattr(run_ids, "next_run_number", slowly)
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(create_run, project, REQUEST)
            making.wait(120)
            remove_unfinished(project)
            go.set()
            directory, lock, _ = future.result(30)
        lock.release()
        assert directory.run().state == "queued"

    def test_new_folder_without_a_lock_is_left_alone(self, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(new_run, "BUILDING_SECONDS", 3600.0)
        folder = Path(project.runs_directory, ".new-project_1")
        folder.mkdir(parents=True)
        remove_unfinished(project)
        assert folder.exists()

    def test_nothing_to_remove_is_fine(self, project: Project) -> None:
        remove_unfinished(project)
        assert not os.path.exists(project.state_directory)
