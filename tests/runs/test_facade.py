"""Runs from submit to end, for real: whatever is killed or asked at once, a run runs once and ends once."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.faults.support import is_running, until
from tests.runs.support import REQUEST, children, descriptors, make_run, write_configuration, write_files
from tui_workbench.errors import RunNotFound, StorageError, WorkbenchError
from tui_workbench.model import Run, RunRequest
from tui_workbench.project import Project
from tui_workbench.runs import Runs, controller
from tui_workbench.runs.launch import create_run
from tui_workbench.runs.rundir import ControllerLock, RunDirectory
from tui_workbench.targets.local import LocalTarget

GATED = """\
import os, sys
with open("ran", "a") as file:
    file.write("x")
print(os.getpid(), flush=True)
with open(sys.argv[1]) as gate:
    gate.read()
print("the end")
sys.exit(int(sys.argv[2]))
"""

STUBBORN = """\
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getpid(), flush=True)
while True:
    time.sleep(60)
"""


class Workshop:
    """A project, its runs, and a gate that its script waits at."""

    def __init__(self, project: Project, folder: Path) -> None:
        self.project = project
        self.root = Path(project.root)
        self.runs = Runs(project)
        self.gate = folder / "gate"
        self.children_before = children()
        os.mkfifo(self.gate)
        write_files(self.root, {"gated.py": GATED, "stubborn.py": STUBBORN})

    def request(self, code: int = 0) -> RunRequest:
        return RunRequest("local", "gated.py", (str(self.gate), str(code)))

    def submit(self, code: int = 0) -> Run:
        """A run that waits at the gate."""
        run = self.runs.submit(self.request(code))
        self.script(run)
        return run

    def script(self, run: Run) -> int:
        """The process id of a run's script, which is its first line."""
        log = Path(run.log_path)
        return int(until(lambda: log.exists() and log.read_text().partition("\n")[0], "the script"))

    def controller(self, run: Run) -> int:
        return int(until(lambda: max(0, ControllerLock.holder(RunDirectory(run.directory))), "a controller"))

    def open(self) -> None:
        """Let the script that waits go on."""
        self.gate.write_text("go")

    def ended(self, run: Run) -> Run:
        """The run when it has ended."""
        directory = RunDirectory(run.directory)
        until(lambda: not directory.run().is_active, "the end of the run")
        return directory.run()

    def times_run(self) -> int:
        return len((self.root / "ran").read_text())


@pytest.fixture
def shop(project: Project, tmp_path: Path) -> Iterator[Workshop]:
    shop = Workshop(project, tmp_path)
    yield shop
    for run in shop.runs.list():
        if run.is_active:
            shop.runs.cancel(run.run_id, grace=0)
    until(lambda: children() <= shop.children_before, "the end of all children")


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_running(pid))


class TestLife:
    def test_submit_returns_while_it_runs(self, shop: Workshop) -> None:
        run = shop.submit()
        assert (run.state, run.is_active, run.run_number) == ("running", True, 1)
        assert run.start > 0
        assert shop.runs.list()[0].run_id == run.run_id
        shop.open()
        ended = shop.ended(run)
        assert (ended.state, ended.exit_code, ended.reason) == ("completed", 0, "")
        assert ended.duration > 0
        assert Path(run.log_path).read_text().endswith("the end\n")

    @pytest.mark.parametrize("code", [1, 3, 255])
    def test_a_script_that_fails_is_a_run_that_failed(self, shop: Workshop, code: int) -> None:
        run = shop.submit(code)
        shop.open()
        ended = shop.ended(run)
        assert (ended.state, ended.exit_code, ended.reason) == ("failed", code, f"exit code {code}")

    def test_the_last_one_and_the_list_and_the_run_itself_say_the_same(self, shop: Workshop) -> None:
        for _ in range(3):
            shop.ended(shop.runs.submit(REQUEST))
        listed = shop.runs.list()
        assert [run.run_number for run in listed] == [3, 2, 1]
        assert shop.runs.last() == listed[0] == shop.runs.get(listed[0].run_id)
        assert json.loads(b"".join(shop.runs.history_json()))[0]["run_id"] == listed[0].run_id

    def test_runs_do_not_wait_for_each_other(self, shop: Workshop) -> None:
        first = shop.submit()
        assert shop.ended(shop.runs.submit(REQUEST)).state == "completed"
        assert RunDirectory(first.directory).run().state == "running"

    def test_many_may_be_submitted_from_many_threads(self, shop: Workshop) -> None:
        before = descriptors()
        with ThreadPoolExecutor(6) as pool:
            runs = list(pool.map(lambda _: Runs(shop.project).submit(REQUEST), range(12)))
        assert [shop.ended(run).state for run in runs] == ["completed"] * 12
        assert {Path(run.log_path).read_text() for run in runs} == {"hello\n"}
        assert sorted(run.run_number for run in runs) == list(range(1, 13))
        until(lambda: children() <= shop.children_before)
        assert descriptors() == before

    def test_the_controller_stands_on_its_own(
        self, shop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stand = tmp_path / "stand"
        stand.mkdir()
        monkeypatch.chdir(stand)
        reading, writing = os.pipe()
        os.set_inheritable(writing, True)
        ours = os.readlink(f"/proc/self/fd/{writing}")
        run = shop.submit()
        os.close(writing)
        pid = shop.controller(run)
        assert os.getsid(pid) == pid
        until(lambda: os.readlink(f"/proc/{pid}/cwd") == "/")

        def opened() -> set[str]:
            places = {os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir() if os.path.lexists(entry)}
            return {place for place in places if place.startswith("/") or place == ours}

        until(lambda: opened() == {"/dev/null", f"{run.directory}/controller.lock"}, "nothing but the lock")
        shop.open()
        shop.ended(run)
        # The script has inherited the pipe, as from a shell; with its end nobody holds it any more.
        assert os.read(reading, 1) == b""
        os.close(reading)


class TestNames:
    def test_a_run_answers_to_its_id_and_its_number(self, shop: Workshop) -> None:
        run = shop.ended(shop.runs.submit(REQUEST))
        assert shop.runs.get(run.run_id) == shop.runs.get("1") == shop.runs.get("01") == run

    @pytest.mark.parametrize(
        "name", ["", ".", "..", "../runs", "a/b", "/etc", "0", "2", "-1", "\u00b2", "\u0661", "1.0", "x" * 5000, "a\0b",
                 "\udcff", ".new-project_1", "*"],
    )  # fmt: skip
    def test_what_is_no_run_is_not_found(self, shop: Workshop, name: str) -> None:
        shop.ended(shop.runs.submit(REQUEST))
        if name == "\u0661":  # a one, in another script
            assert shop.runs.get(name).run_number == 1
            return
        for ask in (shop.runs.get, shop.runs.cancel, shop.runs.directory):
            with pytest.raises(RunNotFound):
                ask(name)


def step_by_step(shop: Workshop, until_step: str) -> Run:
    """A run whose controller was killed after a certain step; the script goes through the gate at once."""
    directory, lock, record = create_run(shop.project, RunRequest("local", "gated.py", ("/dev/null", "7")))
    target = LocalTarget(record.spec.target)
    end: dict[str, Any] = {"exit_code": 7, "reason": "exit code 7"}
    steps: list[tuple[str, Callable[[], object]]] = [
        ("queued", lambda: None),
        ("started", lambda: target.start(record.spec, record.plan, os.environ)),
        ("noted", lambda: directory.append_event("step", step="start", status="done", seconds=0.1)),
        ("running", lambda: directory.append_event("state", state="running")),
        ("ended", lambda: target.wait(record.spec, -1)),
        ("moved", lambda: _move_outputs(directory)),
        ("collected", lambda: directory.append_event("step", step="collect", status="done", seconds=0.1)),
        ("concluded", lambda: directory.append_event("state", state="failed", final=True, **end)),
    ]
    try:
        for name, step in steps:
            step()
            if name == until_step:
                break
    finally:
        lock.release()
    return directory.run()


def _move_outputs(directory: RunDirectory) -> None:
    if os.path.isdir(directory.file("work/outputs")):
        os.rename(directory.file("work/outputs"), directory.file("outputs"))


STEPS = ("queued", "started", "noted", "running", "ended", "moved", "collected", "concluded")


class TestResuming:
    @pytest.mark.parametrize("tracked", [False, True])
    @pytest.mark.parametrize("step", STEPS)
    def test_a_run_goes_on_after_any_step(self, shop: Workshop, step: str, tracked: bool) -> None:
        write_configuration(shop.root, TrackedRun=tracked)
        run = step_by_step(shop, step)
        shop.runs.resume()
        ended = shop.ended(run)
        assert (ended.state, ended.exit_code, ended.reason) == ("failed", 7, "exit code 7")
        assert Path(run.log_path).read_text().endswith("the end\n")
        ran = Path(run.directory, "work", "ran") if tracked else shop.root / "ran"
        assert ran.read_text() == "x"
        assert Path(run.directory, "outputs").is_dir() is tracked

    @pytest.mark.parametrize("ask", ["list", "last", "get", "number", "history_json", "resume", "take_over"])
    def test_whoever_asks_about_a_run_without_controller_gets_the_truth(self, shop: Workshop, ask: str) -> None:
        run = step_by_step(shop, "ended")
        assert RunDirectory(run.directory).run().is_active
        questions: dict[str, Callable[[Runs], object]] = {
            "list": lambda runs: runs.list()[0].state,
            "last": lambda runs: getattr(runs.last(), "state", None),
            "get": lambda runs: runs.get(run.run_id).state,
            "number": lambda runs: runs.get("1").state,
            "history_json": lambda runs: json.loads(b"".join(runs.history_json()))[0]["status"].lower(),
            "resume": lambda runs: runs.resume() == [run.run_id] and "failed",
            "take_over": lambda runs: runs.take_over(run.run_id) and "failed",
        }
        assert questions[ask](Runs(Project.find(shop.project.root))) == "failed"
        assert RunDirectory(run.directory).run().exit_code == 7

    def test_a_run_that_has_a_controller_is_left_to_it(self, shop: Workshop) -> None:
        run = shop.submit()
        controller = shop.controller(run)
        assert shop.runs.resume() == []
        assert shop.runs.take_over(run.run_id) is False
        assert shop.controller(run) == controller

    def test_a_killed_controller_is_replaced_and_the_script_goes_on(self, shop: Workshop) -> None:
        run = shop.submit(3)
        script = shop.script(run)
        for _ in range(3):
            kill(shop.controller(run))
            assert shop.runs.list()[0].state == "running"
        assert is_running(script)
        shop.open()
        assert shop.ended(run).exit_code == 3
        assert shop.times_run() == 1

    def test_all_that_are_asked_at_once_start_one_controller(self, shop: Workshop) -> None:
        run = shop.submit()
        kill(shop.controller(run))
        with ThreadPoolExecutor(8) as pool:
            resumed = list(pool.map(lambda _: Runs(shop.project).resume(), range(8)))
        assert sorted(resumed) == [[]] * 7 + [[run.run_id]]

    def test_controllers_killed_at_any_moment_cost_nothing(self, shop: Workshop) -> None:
        run = shop.submit(5)
        for attempt in range(12):
            shop.runs.take_over(run.run_id)
            holder = ControllerLock.holder(RunDirectory(run.directory))
            for _ in range(attempt * 2000):  # a little later in its life each time
                os.sched_yield()
            if holder > 0:
                kill(holder)
        shop.open()
        shop.runs.resume()
        ended = shop.ended(run)
        assert (ended.state, ended.exit_code) == ("failed", 5)
        assert shop.times_run() == 1

    def test_of_a_machine_that_was_restarted_the_end_is_honestly_unknown(self, shop: Workshop) -> None:
        run = shop.submit()
        kill(shop.controller(run))
        pid = Path(run.directory, "pid")
        number, _, stat = pid.read_text().split("\n")[:3]
        script = shop.script(run)
        kill(int(number))
        kill(script)
        pid.write_text(f"{number}\nanother-boot\n{stat}\n")
        ended = shop.runs.get(run.run_id)
        assert (ended.state, ended.exit_code, ended.is_active) == ("unknown", None, False)
        assert "restarted" in ended.reason

    def test_a_run_that_cannot_be_taken_over_hides_no_other(self, shop: Workshop) -> None:
        whole = step_by_step(shop, "ended")
        make_run(shop.project, "project_2", 2)
        record = Path(shop.project.runs_directory, "project_2", "run.json")
        stored = json.loads(record.read_text())
        record.write_text(json.dumps({**stored, "target": {**stored["target"], "type": "unheard of"}}))
        states = {run.run_id: run.state for run in shop.runs.list()}
        assert states == {whole.run_id: "failed", "project_2": "running"}
        shutil.rmtree(record.parent)

    def test_a_secret_is_there_for_a_controller_that_begins_anew(self, shop: Workshop) -> None:
        write_files(shop.root, {"hello.py": "import os; print(os.environ['API_KEY'], os.environ['NAME'])"})
        write_configuration(shop.root, EnvironmentVariables={"API_KEY": "hunter2", "NAME": "***"})
        directory, lock, _ = create_run(shop.project, REQUEST)
        lock.release()
        shop.runs.resume()
        run = shop.ended(directory.run())
        assert (run.state, Path(run.log_path).read_text()) == ("completed", "hunter2 ***\n")

    def test_a_secret_that_is_gone_ends_the_run_with_the_reason(self, shop: Workshop) -> None:
        write_configuration(shop.root, EnvironmentVariables={"API_KEY": "hunter2"})
        directory, lock, _ = create_run(shop.project, REQUEST)
        lock.release()
        write_configuration(shop.root)
        shop.runs.resume()
        run = shop.ended(directory.run())
        assert run.state == "failed"
        assert "API_KEY" in run.reason

    def test_a_record_that_cannot_be_written_now_is_written_later(
        self, shop: Workshop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = step_by_step(shop, "ended")

        def full(*_: object, **__: object) -> None:
            raise StorageError("no space", remedy="Free some.")

        with monkeypatch.context() as patch:
            patch.setattr(RunDirectory, "append_event", full)
            assert shop.runs.list()[0].state == "running"
            with pytest.raises(StorageError):
                shop.runs.take_over(run.run_id)
        assert shop.runs.list()[0].state == "failed"


class TestCancel:
    def test_ends_the_script_politely_and_returns_when_nothing_is_left(self, shop: Workshop) -> None:
        run = shop.submit()
        script = shop.script(run)
        canceled = shop.runs.cancel(run.run_id, grace=30)
        assert (canceled.state, canceled.reason, canceled.is_active) == ("canceled", "canceled", False)
        assert not is_running(script)
        assert shop.runs.list()[0].state == "canceled"

    def test_of_a_stubborn_script_takes_as_long_as_was_granted(self, shop: Workshop) -> None:
        run = shop.runs.submit(RunRequest("local", "stubborn.py"))
        script = shop.script(run)
        canceled = shop.runs.cancel(run.run_id, grace=0.1)
        assert canceled.state == "canceled"
        assert "0.1 s" in canceled.reason
        assert not is_running(script)

    @pytest.mark.parametrize("stubborn", [False, True])
    def test_works_without_a_controller(self, shop: Workshop, stubborn: bool) -> None:
        request = RunRequest("local", "stubborn.py") if stubborn else shop.request()
        run = shop.runs.submit(request)
        script = shop.script(run)
        kill(shop.controller(run))
        assert shop.runs.cancel(run.run_id, grace=0.1).state == "canceled"
        assert not is_running(script)

    def test_works_from_any_thread_and_leaves_the_process_as_it_was(self, shop: Workshop) -> None:
        before = (signal.getsignal(signal.SIGURG), signal.getsignal(signal.SIGHUP), os.getcwd(), descriptors())
        for with_controller in (True, False):
            run = shop.submit()
            if not with_controller:
                kill(shop.controller(run))
            with ThreadPoolExecutor(1) as pool:
                assert pool.submit(shop.runs.cancel, run.run_id, grace=30).result(60).state == "canceled"
        until(lambda: children() <= shop.children_before)
        after = (signal.getsignal(signal.SIGURG), signal.getsignal(signal.SIGHUP), os.getcwd(), descriptors())
        assert after == before

    def test_of_a_run_that_has_not_begun_it_never_begins(self, shop: Workshop) -> None:
        directory, lock, _ = create_run(shop.project, shop.request())
        lock.release()
        canceled = shop.runs.cancel(directory.run_id)
        assert (canceled.state, canceled.start) == ("canceled", 0.0)
        assert not (shop.root / "ran").exists()
        assert shop.runs.resume() == []

    def test_of_a_run_that_is_just_being_handed_over(self, shop: Workshop) -> None:
        directory, lock, _ = create_run(shop.project, shop.request())
        with ThreadPoolExecutor(1) as pool:
            canceling = pool.submit(shop.runs.cancel, directory.run_id)
            until(lambda: directory.cancel_requested)
            controller.detach(directory, lock, fork=False)
            assert canceling.result(60).state == "canceled"
        assert not (shop.root / "ran").exists()

    def test_of_a_run_that_has_ended_changes_nothing(self, shop: Workshop) -> None:
        run = shop.ended(shop.runs.submit(REQUEST))
        before = sorted(os.listdir(run.directory))
        assert shop.runs.cancel(run.run_id) == run
        assert sorted(os.listdir(run.directory)) == before

    def test_of_a_run_whose_script_has_just_ended_tells_one_end(self, shop: Workshop) -> None:
        run = step_by_step(shop, "ended")
        canceled = shop.runs.cancel(run.run_id)
        assert canceled.state in ("canceled", "failed")
        finals = [event for event in RunDirectory(run.directory).events() if event.get("final")]
        assert len(finals) == 1

    def test_by_many_at_once_ends_it_once(self, shop: Workshop) -> None:
        run = shop.submit()
        with ThreadPoolExecutor(6) as pool:
            canceled = list(pool.map(lambda _: Runs(shop.project).cancel(run.run_id, grace=30), range(6)))
        assert {run.state for run in canceled} == {"canceled"}
        finals = [event for event in RunDirectory(run.directory).events() if event.get("final")]
        assert len(finals) == 1

    def test_goes_on_when_the_one_who_cancels_is_killed(self, shop: Workshop) -> None:
        run = shop.runs.submit(RunRequest("local", "stubborn.py"))
        script = shop.script(run)
        kill(shop.controller(run))
        directory = RunDirectory(run.directory)
        canceler = os.fork()
        if canceler == 0:
            shop.runs.cancel(run.run_id, grace=3600)
            os._exit(0)
        until(lambda: ControllerLock.holder(directory) == canceler)
        os.kill(canceler, signal.SIGKILL)
        os.waitpid(canceler, 0)
        assert is_running(script)
        directory.request_cancel(0)
        shop.runs.resume()
        assert shop.ended(run).state == "canceled"
        assert not is_running(script)

    def test_a_script_may_cancel_its_own_run(self, shop: Workshop) -> None:
        text = (
            "import os, sys\nprint(os.getpid(), flush=True)\n"
            "from tui_workbench.project import Project\nfrom tui_workbench.runs import Runs\n"
            "Runs(Project.find('.')).cancel(os.environ['AZUREML_RUN_ID'])\n"
        )
        write_files(shop.root, {"own.py": text})
        run = shop.runs.submit(RunRequest("local", "own.py"))
        assert shop.ended(run).state == "canceled"


class TestTracked:
    @pytest.fixture(autouse=True)
    def tracked(self, shop: Workshop) -> None:
        write_configuration(shop.root, TrackedRun=True)

    def test_edits_during_the_run_do_not_reach_it(self, shop: Workshop) -> None:
        reads = (
            "import sys\nprint(1, flush=True)\nopen(sys.argv[1]).read()\nprint(open('data.txt').read())\nimport late\n"
        )
        write_files(shop.root, {"gated.py": reads, "data.txt": "before", "late.py": "print('before')"})
        run = shop.submit()
        write_files(shop.root, {"data.txt": "after", "late.py": "print('after')", "gated.py": "raise SystemExit(1)"})
        shop.open()
        assert shop.ended(run).state == "completed"
        assert Path(run.log_path).read_text() == "1\nbefore\nbefore\n"

    def test_everything_that_it_made_is_kept_and_the_project_is_as_before(self, shop: Workshop) -> None:
        text = (
            "import os, shutil\nopen('outputs/model.bin', 'w').write('weights')\nopen('notes.txt', 'w').write('n')\n"
            "open('data.txt', 'w').write('changed')\nos.remove('stubborn.py')\nos.rename('gated.py', 'moved.py')\n"
        )
        write_files(shop.root, {"makes.py": text, "data.txt": "original"})
        before = sorted(path.name for path in shop.root.iterdir() if path.name != ".workbench")
        run = shop.ended(shop.runs.submit(RunRequest("local", "makes.py")))
        assert run.state == "completed", Path(run.log_path).read_text()
        directory = Path(run.directory)
        assert (directory / "outputs" / "model.bin").read_text() == "weights"
        assert sorted(path.name for path in (directory / "work").iterdir()) == ["data.txt", "moved.py", "notes.txt"]
        assert sorted(path.name for path in shop.root.iterdir() if path.name != ".workbench") == before
        assert (shop.root / "data.txt").read_text() == "original"
        (collect,) = [event for event in RunDirectory(run.directory).events() if event.get("step") == "collect"]
        assert collect["kept"] == ["data.txt", "moved.py", "notes.txt"]

    def test_a_script_may_remove_outputs_and_all_the_rest(self, shop: Workshop) -> None:
        text = "import os, shutil\nshutil.rmtree('outputs')\nfor n in os.listdir('.'):\n    shutil.rmtree(n, True)\n"
        write_files(shop.root, {"removes.py": text})
        run = shop.ended(shop.runs.submit(RunRequest("local", "removes.py")))
        assert run.state == "completed"
        assert list(Path(run.directory, "outputs").iterdir()) == []

    def test_without_git_a_run_looks_the_same(
        self, shop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write_files(shop.root, {"makes.py": "open('outputs/m', 'w').write('w')\nopen('new', 'w')\n"})
        monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
        run = shop.ended(shop.runs.submit(RunRequest("local", "makes.py")))
        assert (run.state, run.commit_id) == ("completed", "")
        assert Path(run.directory, "outputs", "m").read_text() == "w"
        assert Path(run.directory, "work", "new").exists()
        assert Path(run.directory, "work", "makes.py").exists()  # the copy is the only snapshot there is

    def test_canceled_it_keeps_what_it_had_made(self, shop: Workshop) -> None:
        text = GATED.replace("print(os", "open('outputs/half.bin', 'w').write('half')\nprint(os")
        write_files(shop.root, {"gated.py": text})
        run = shop.submit()
        shop.runs.cancel(run.run_id, grace=30)
        assert Path(run.directory, "outputs", "half.bin").read_text() == "half"


class TestFailures:
    def test_a_controller_that_cannot_be_started_leaves_no_run_and_no_process(
        self, shop: Workshop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        started: list[int] = []
        real = os.posix_spawn

        def spawn(path: str, arguments: list[str], *rest: object, **options: object) -> int:
            if path == sys.executable:
                raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            started.append(real(path, arguments, *rest, **options))  # type: ignore[arg-type]
            return started[0]

        before = descriptors()
        monkeypatch.setattr(os, "posix_spawn", spawn)
        with pytest.raises(WorkbenchError, match="process limit"):
            shop.runs.submit(shop.request())
        assert not is_running(started[0])
        assert shop.runs.list() == []
        assert os.listdir(shop.project.runs_directory) == []
        assert descriptors() == before

    def test_an_event_that_cannot_be_written_leaves_no_run_and_no_process(
        self, shop: Workshop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = RunDirectory.append_event

        def full(directory: RunDirectory, event: str, **fields: object) -> None:
            if event == "step":
                raise StorageError("no space", remedy="Free some.")
            real(directory, event, **fields)

        with monkeypatch.context() as patch:
            patch.setattr(RunDirectory, "append_event", full)
            with pytest.raises(StorageError):
                shop.runs.submit(shop.request())
        assert shop.runs.list() == []
        assert os.listdir(shop.project.runs_directory) == []
        assert not (shop.root / "ran").exists() or shop.times_run() <= 1

    def test_a_script_that_cannot_be_started_is_a_run_that_failed(self, shop: Workshop) -> None:
        run = shop.ended(shop.runs.submit(RunRequest("local", "hello.py", tuple("x" * 100_000 for _ in range(100)))))
        assert run.state == "failed"
        assert "arguments" in run.reason

    def test_a_run_directory_that_disappears_ends_its_controller(self, shop: Workshop) -> None:
        run = shop.submit()
        holder = shop.controller(run)
        shutil.rmtree(run.directory)
        shop.open()
        until(lambda: not is_running(holder))
        assert shop.runs.list() == []

    def test_a_controller_asked_by_hand_steps_back_from_a_run_that_has_one(self, shop: Workshop) -> None:
        run = shop.submit()
        assert controller.main([run.directory]) == 3
