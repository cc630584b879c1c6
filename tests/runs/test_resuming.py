"""A new controller continues where a killed controller stopped."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.faults.support import is_running
from tests.runs.gated_project import GatedProject, kill, step_by_step, watchers
from tests.runs.support import REQUEST, make_run, write_configuration, write_files
from tui_workbench.core.errors import StorageError
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.index.table import RunQuery
from tui_workbench.runs.resuming import take_over
from tui_workbench.runs.store import ownership
from tui_workbench.runs.store.rundir import ControllerLock, RunDirectory
from tui_workbench.runs.submission.launch import create_run

STEPS = ("queued", "started", "noted", "running", "ended", "moved", "collected", "concluded")


class TestResuming:
    @pytest.mark.parametrize("tracked", [False, True])
    @pytest.mark.parametrize("step", STEPS)
    def test_run_resumes_after_any_step(self, shop: GatedProject, step: str, tracked: bool) -> None:
        write_configuration(shop.root, TrackedRun=tracked)
        run = step_by_step(shop, step)
        shop.runs.resume()
        ended = shop.ended(run)
        assert (ended.state, ended.exit_code, ended.reason) == ("failed", 7, "exit code 7")
        assert Path(run.log_path).read_text().endswith("the end\n")
        ran = Path(run.directory, "work", "ran") if tracked else shop.root / "ran"
        assert ran.read_text() == "x"
        assert Path(run.directory, "outputs").is_dir() is tracked

    @pytest.mark.parametrize("ask", ["list", "get", "number", "resume", "take_over"])
    def test_adopting_ends_a_run_without_controller(self, shop: GatedProject, ask: str) -> None:
        run = step_by_step(shop, "ended")
        assert RunDirectory(run.directory).run().is_active
        questions: dict[str, Callable[[Runs], object]] = {
            "list": lambda runs: runs.list(adopt=True)[0].state,
            "get": lambda runs: runs.get(run.run_id, adopt=True).state,
            "number": lambda runs: runs.get("1", adopt=True).state,
            "resume": lambda runs: runs.resume() == [run.run_id] and "failed",
            "take_over": lambda _: take_over(RunDirectory(run.directory)) and "failed",
        }
        assert questions[ask](Runs(Project.find(shop.project.root))) == "failed"
        assert RunDirectory(run.directory).run().exit_code == 7

    def test_reading_ends_no_run(self, shop: GatedProject) -> None:
        run = step_by_step(shop, "ended")
        events = RunDirectory(run.directory).file("events.jsonl")
        before = Path(events).read_bytes()
        questions: dict[str, Callable[[Runs], object]] = {
            "list": lambda runs: runs.list()[0].state,
            "last": lambda runs: getattr(runs.last(), "state", None),
            "get": lambda runs: runs.get(run.run_id).state,
            "number": lambda runs: runs.get("1").state,
            "history_json": lambda runs: json.loads(b"".join(runs.history_json()))[0]["status"].lower(),
            "page": lambda runs: runs.page(RunQuery()).rows[0].run.state,
        }
        for name, ask in questions.items():
            assert ask(Runs(Project.find(shop.project.root))) == "running", name
            assert Path(events).read_bytes() == before, name

    def test_run_with_a_controller_is_left_alone(self, shop: GatedProject) -> None:
        run = shop.submit()
        controller = shop.controller(run)
        assert shop.runs.resume() == []
        assert take_over(RunDirectory(run.directory)) is False
        assert shop.controller(run) == controller

    @pytest.mark.processes
    def test_killed_controller_is_replaced(self, shop: GatedProject) -> None:
        run = shop.submit(3)
        script = shop.script(run)
        for _ in range(3):
            kill(shop.controller(run))
            assert shop.runs.list(adopt=True)[0].state == "running"
        assert is_running(script)
        shop.open()
        assert shop.ended(run).exit_code == 3
        assert shop.times_run() == 1

    def test_concurrent_adopters_start_one_controller(self, shop: GatedProject) -> None:
        run = shop.submit()
        kill(shop.controller(run))
        with ThreadPoolExecutor(8) as pool:
            resumed = list(pool.map(lambda _: Runs(shop.project).resume(), range(8)))
        # A run counts as resumed until the watcher, which another caller has started, holds its lock.
        assert {tuple(each) for each in resumed} <= {(), (run.run_id,)}
        assert [run.run_id] in resumed
        assert [shop.controller(run)] == watchers()

    def test_controllers_can_be_killed_at_any_moment(self, shop: GatedProject) -> None:
        run = shop.submit(5)
        for attempt in range(12):
            take_over(RunDirectory(run.directory))
            holder = ControllerLock.holder(RunDirectory(run.directory))
            for _ in range(attempt * 2000):  # a little later each time
                os.sched_yield()
            if holder > 0:
                kill(holder)
        shop.open()
        shop.runs.resume()
        ended = shop.ended(run)
        assert (ended.state, ended.exit_code) == ("failed", 5)
        assert shop.times_run() == 1

    def test_end_after_a_reboot_is_unknown(self, shop: GatedProject) -> None:
        run = shop.submit()
        kill(shop.controller(run))
        pid = Path(run.directory, "pid")
        number, _, stat = pid.read_text().split("\n")[:3]
        script = shop.script(run)
        kill(int(number))
        kill(script)
        pid.write_text(f"{number}\nanother-boot\n{stat}\n")
        ended = shop.runs.get(run.run_id, adopt=True)
        assert (ended.state, ended.exit_code, ended.is_active) == ("unknown", None, False)
        assert "restarted" in ended.reason

    def test_run_that_cannot_be_resumed_does_not_block_others(self, shop: GatedProject) -> None:
        whole = step_by_step(shop, "ended")
        make_run(shop.project, "project_2", 2)
        record = Path(shop.project.runs_directory, "project_2", "run.json")
        stored = json.loads(record.read_text())
        record.write_text(json.dumps({**stored, "target": {**stored["target"], "type": "unheard of"}}))
        ownership.register(str(record))
        states = {run.run_id: run.state for run in shop.runs.list(adopt=True)}
        assert states == {whole.run_id: "failed", "project_2": "running"}
        shutil.rmtree(record.parent)

    def test_new_controller_has_the_secrets(self, shop: GatedProject) -> None:
        write_files(shop.root, {"hello.py": "import os; print(os.environ['API_KEY'], os.environ['NAME'])"})
        write_configuration(shop.root, EnvironmentVariables={"API_KEY": "hunter2", "NAME": "***"})
        directory, lock, _ = create_run(shop.project, REQUEST)
        lock.release()
        shop.runs.resume()
        run = shop.ended(directory.run())
        assert (run.state, Path(run.log_path).read_text()) == ("completed", "hunter2 ***\n")

    def test_missing_secret_ends_the_run_with_the_reason(self, shop: GatedProject) -> None:
        write_configuration(shop.root, EnvironmentVariables={"API_KEY": "hunter2"})
        directory, lock, _ = create_run(shop.project, REQUEST)
        lock.release()
        write_configuration(shop.root)
        shop.runs.resume()
        run = shop.ended(directory.run())
        assert run.state == "failed"
        assert "API_KEY" in run.reason

    def test_failed_write_is_repeated_later(self, shop: GatedProject, monkeypatch: pytest.MonkeyPatch) -> None:
        run = step_by_step(shop, "ended")

        def full(*_: object, **__: object) -> None:
            raise StorageError("no space", remedy="Free some.")

        with monkeypatch.context() as patch:
            patch.setattr(RunDirectory, "append_event", full)
            assert shop.runs.list(adopt=True)[0].state == "running"
            with pytest.raises(StorageError):
                take_over(RunDirectory(run.directory))
        assert shop.runs.list(adopt=True)[0].state == "failed"
