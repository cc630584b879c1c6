"""Canceling ends a run with all its processes, from any process and any number of times."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.faults.support import is_running, until
from tests.runs.gated_project import GatedProject, kill, step_by_step
from tests.runs.support import REQUEST, children, descriptors, write_files
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import RunRequest
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.lifecycle.starting import detach
from tui_workbench.runs.resuming import cancel
from tui_workbench.runs.store.rundir import ControllerLock, RunDirectory
from tui_workbench.runs.submission.launch import create_run


class TestCancel:
    def test_script_is_asked_to_end_and_all_processes_are_gone(self, shop: GatedProject) -> None:
        run = shop.submit()
        script = shop.script(run)
        canceled = shop.runs.cancel(run.run_id, grace=30)
        assert (canceled.state, canceled.reason, canceled.is_active) == ("canceled", "canceled", False)
        assert not is_running(script)
        assert shop.runs.list()[0].state == "canceled"

    def test_stubborn_script_is_killed_after_the_grace(self, shop: GatedProject) -> None:
        run = shop.runs.submit(RunRequest("local", "stubborn.py"))
        script = shop.script(run)
        canceled = shop.runs.cancel(run.run_id, grace=0.1)
        assert canceled.state == "canceled"
        assert "0.1 s" in canceled.reason
        assert not is_running(script)

    @pytest.mark.parametrize("stubborn", [False, True])
    def test_works_without_a_controller(self, shop: GatedProject, stubborn: bool) -> None:
        request = RunRequest("local", "stubborn.py") if stubborn else shop.request()
        run = shop.runs.submit(request)
        script = shop.script(run)
        kill(shop.controller(run))
        assert shop.runs.cancel(run.run_id, grace=0.1).state == "canceled"
        assert not is_running(script)

    def test_works_from_any_thread(self, shop: GatedProject) -> None:
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

    def test_queued_run_never_starts(self, shop: GatedProject) -> None:
        directory, lock, _ = create_run(shop.project, shop.request())
        lock.release()
        canceled = shop.runs.cancel(directory.run_id)
        assert (canceled.state, canceled.start) == ("canceled", 0.0)
        assert not (shop.root / "ran").exists()
        assert shop.runs.resume() == []

    def test_run_during_handover(self, shop: GatedProject) -> None:
        directory, lock, _ = create_run(shop.project, shop.request())
        with ThreadPoolExecutor(1) as pool:
            canceling = pool.submit(shop.runs.cancel, directory.run_id)
            until(lambda: directory.cancel_requested)
            detach(directory, lock)
            assert canceling.result(60).state == "canceled"
        assert not (shop.root / "ran").exists()

    def test_gives_up_if_the_controller_does_not_answer(self, shop: GatedProject) -> None:
        directory, lock, _ = create_run(shop.project, shop.request())
        with pytest.raises(WorkbenchError, match=r"has not ended yet \(queued"):
            cancel(directory, grace=0.0, patience=0.1)
        lock.release()
        assert shop.runs.cancel(directory.run_id).state == "canceled"

    def test_ended_run_is_unchanged(self, shop: GatedProject) -> None:
        run = shop.ended(shop.runs.submit(REQUEST))
        before = sorted(os.listdir(run.directory))
        assert shop.runs.cancel(run.run_id) == run
        assert sorted(os.listdir(run.directory)) == before

    def test_script_that_has_just_ended_has_one_end(self, shop: GatedProject) -> None:
        run = step_by_step(shop, "ended")
        canceled = shop.runs.cancel(run.run_id)
        assert canceled.state in ("canceled", "failed")
        finals = [event for event in RunDirectory(run.directory).events() if event.get("final")]
        assert len(finals) == 1

    def test_concurrent_cancels_end_the_run_once(self, shop: GatedProject) -> None:
        run = shop.submit()
        with ThreadPoolExecutor(6) as pool:
            canceled = list(pool.map(lambda _: Runs(shop.project).cancel(run.run_id, grace=30), range(6)))
        assert {run.state for run in canceled} == {"canceled"}
        finals = [event for event in RunDirectory(run.directory).events() if event.get("final")]
        assert len(finals) == 1

    @pytest.mark.processes
    def test_continues_when_the_canceling_process_is_killed(self, shop: GatedProject) -> None:
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

    def test_script_can_cancel_its_own_run(self, shop: GatedProject) -> None:
        text = (
            "import os, sys\nprint(os.getpid(), flush=True)\n"
            "from tui_workbench.projects.project import Project\nfrom tui_workbench.runs.facade import Runs\n"
            "Runs(Project.find('.')).cancel(os.environ['AZUREML_RUN_ID'])\n"
        )
        write_files(shop.root, {"own.py": text})
        run = shop.runs.submit(RunRequest("local", "own.py"))
        assert shop.ended(run).state == "canceled"


LEAVES = """
import subprocess, sys
subprocess.Popen(["sleep", "600"])
print("done")
"""

HELPERS = """
import multiprocessing

if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    lock = multiprocessing.Lock()  # starts a helper that outlives the script by a moment
    print("done")
"""


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        pytest.param(LEAVES, "the workbench ended 1 background process that the script left running: sleep", id="left"),
        pytest.param(HELPERS, "", id="helpers", marks=pytest.mark.linux("locks of multiprocessing need /dev/shm")),
    ],
)
def test_reason_names_ended_background_processes(shop: GatedProject, script: str, reason: str) -> None:
    write_files(shop.root, {"leaves.py": script})
    run = shop.ended(shop.runs.submit(RunRequest("local", "leaves.py")))
    assert (run.state, run.exit_code, run.reason) == ("completed", 0, reason)
