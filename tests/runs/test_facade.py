"""Runs from submit to end with real processes: a run starts once and ends once."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.faults.support import is_running, until
from tests.runs.gated_project import GATED, GatedProject
from tests.runs.support import REQUEST, children, descriptors, make_run, write_configuration, write_files
from tui_workbench.core.errors import RunNotFound, StorageError, WorkbenchError
from tui_workbench.core.model import RunRequest
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.lifecycle.handover import FOLDER
from tui_workbench.runs.store.rundir import CONTROLLER_LOCK, RunDirectory


class TestLife:
    @pytest.mark.processes
    def test_submit_returns_while_it_runs(self, shop: GatedProject) -> None:
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
    def test_failing_script_fails_the_run(self, shop: GatedProject, code: int) -> None:
        run = shop.submit(code)
        shop.open()
        ended = shop.ended(run)
        assert (ended.state, ended.exit_code, ended.reason) == ("failed", code, f"exit code {code}")

    def test_last_list_and_get_agree(self, shop: GatedProject) -> None:
        for _ in range(3):
            shop.ended(shop.runs.submit(REQUEST))
        listed = shop.runs.list()
        assert [run.run_number for run in listed] == [3, 2, 1]
        assert shop.runs.last() == listed[0] == shop.runs.get(listed[0].run_id)
        assert json.loads(b"".join(shop.runs.history_json()))[0]["run_id"] == listed[0].run_id

    def test_runs_are_concurrent(self, shop: GatedProject) -> None:
        first = shop.submit()
        assert shop.ended(shop.runs.submit(REQUEST)).state == "completed"
        assert RunDirectory(first.directory).run().state == "running"

    @pytest.mark.processes
    def test_runs_can_be_submitted_from_many_threads(self, shop: GatedProject) -> None:
        before = descriptors()
        with ThreadPoolExecutor(6) as pool:
            runs = list(pool.map(lambda _: Runs(shop.project).submit(REQUEST), range(12)))
        assert [shop.ended(run).state for run in runs] == ["completed"] * 12
        assert {Path(run.log_path).read_text() for run in runs} == {"hello\n"}
        assert sorted(run.run_number for run in runs) == list(range(1, 13))
        until(lambda: children() <= shop.children_before)
        assert descriptors() == before

    def test_controller_is_detached(self, shop: GatedProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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

        (own,) = Path.home().glob(f".local/state/workbench-tui/{FOLDER}/*/{CONTROLLER_LOCK}")  # it is the watcher
        until(lambda: opened() == {"/dev/null", f"{run.directory}/controller.lock", str(own)}, "nothing but the locks")
        shop.open()
        shop.ended(run)
        # The script has inherited the pipe, as from a shell; when it ends, no process holds the pipe.
        assert os.read(reading, 1) == b""
        os.close(reading)


class TestNames:
    def test_run_is_found_by_id_and_number(self, shop: GatedProject) -> None:
        run = shop.ended(shop.runs.submit(REQUEST))
        assert shop.runs.get(run.run_id) == shop.runs.get("1") == shop.runs.get("01") == run

    @pytest.mark.parametrize(
        "name", ["", ".", "..", "../runs", "a/b", "/etc", "0", "2", "-1", "\u00b2", "1.0", "x" * 5000, "a\0b", "\udcff",
                 ".new-project_1", "*"],
    )  # fmt: skip
    def test_unknown_run_is_not_found(self, shop: GatedProject, name: str) -> None:
        make_run(shop.project, "project_1", 1)
        for ask in (shop.runs.get, shop.runs.cancel, shop.runs.directory):
            with pytest.raises(RunNotFound):
                ask(name)

    def test_number_in_digits_of_another_script_is_found(self, shop: GatedProject) -> None:
        make_run(shop.project, "project_1", 1)
        assert shop.runs.get("\u0661").run_number == 1


class TestTracked:
    @pytest.fixture(autouse=True)
    def tracked(self, shop: GatedProject) -> None:
        write_configuration(shop.root, TrackedRun=True)

    def test_edits_during_the_run_do_not_affect_it(self, shop: GatedProject) -> None:
        reads = (
            "import sys\nprint(1, flush=True)\nopen(sys.argv[1]).read()\nprint(open('data.txt').read())\nimport late\n"
        )
        write_files(shop.root, {"gated.py": reads, "data.txt": "before", "late.py": "print('before')"})
        run = shop.submit()
        write_files(shop.root, {"data.txt": "after", "late.py": "print('after')", "gated.py": "raise SystemExit(1)"})
        shop.open()
        assert shop.ended(run).state == "completed"
        assert Path(run.log_path).read_text() == "1\nbefore\nbefore\n"

    def test_files_of_the_run_are_kept_and_project_is_unchanged(self, shop: GatedProject) -> None:
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

    def test_script_can_remove_all_its_files(self, shop: GatedProject) -> None:
        text = "import os, shutil\nshutil.rmtree('outputs')\nfor n in os.listdir('.'):\n    shutil.rmtree(n, True)\n"
        write_files(shop.root, {"removes.py": text})
        run = shop.ended(shop.runs.submit(RunRequest("local", "removes.py")))
        assert run.state == "completed"
        assert list(Path(run.directory, "outputs").iterdir()) == []

    def test_run_without_git_looks_the_same(
        self, shop: GatedProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write_files(shop.root, {"makes.py": "open('outputs/m', 'w').write('w')\nopen('new', 'w')\n"})
        monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
        run = shop.ended(shop.runs.submit(RunRequest("local", "makes.py")))
        assert (run.state, run.commit_id) == ("completed", "")
        assert Path(run.directory, "outputs", "m").read_text() == "w"
        assert Path(run.directory, "work", "new").exists()
        assert Path(run.directory, "work", "makes.py").exists()  # the copy is the only snapshot there is

    def test_canceled_run_keeps_its_files(self, shop: GatedProject) -> None:
        text = GATED.replace("print(os", "open('outputs/half.bin', 'w').write('half')\nprint(os")
        write_files(shop.root, {"gated.py": text})
        run = shop.submit()
        shop.runs.cancel(run.run_id, grace=30)
        assert Path(run.directory, "outputs", "half.bin").read_text() == "half"


class TestFailures:
    def test_failed_controller_start_leaves_no_run(self, shop: GatedProject, monkeypatch: pytest.MonkeyPatch) -> None:
        started: list[int] = []
        real = os.posix_spawn

        def spawn(path: str, arguments: list[str], *rest: object, **options: object) -> int:
            if path == sys.executable:
                raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            started.append(real(path, arguments, *rest, **options))  # type: ignore[arg-type]
            return started[0]

        before = descriptors()
        monkeypatch.setattr(os, "posix_spawn", spawn)
        with pytest.raises(WorkbenchError, match="limit of processes"):
            shop.runs.submit(shop.request())
        assert not is_running(started[0])
        assert shop.runs.list() == []
        assert os.listdir(shop.project.runs_directory) == []
        assert descriptors() == before

    def test_failed_event_write_leaves_no_run(self, shop: GatedProject, monkeypatch: pytest.MonkeyPatch) -> None:
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

    @pytest.mark.processes
    def test_script_that_cannot_start_fails_the_run(self, shop: GatedProject) -> None:
        run = shop.ended(shop.runs.submit(RunRequest("local", "hello.py", tuple("x" * 100_000 for _ in range(100)))))
        assert run.state == "failed"
        assert "arguments" in run.reason

    @pytest.mark.processes
    def test_removed_run_directory_ends_its_controller(self, shop: GatedProject) -> None:
        run = shop.submit()
        holder = shop.controller(run)
        until(lambda: _remove(run.directory))  # the controller may write to it at the same time
        shop.open()
        until(lambda: not is_running(holder))
        assert shop.runs.list() == []


def _remove(folder: str) -> bool:
    """Remove a folder with its contents. Return False if a part is left."""
    shutil.rmtree(folder, ignore_errors=True)
    return not os.path.exists(folder)
