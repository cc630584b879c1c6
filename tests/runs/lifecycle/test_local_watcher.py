"""One watcher drives all runs on this machine whose scripts have been running for some seconds."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.faults.support import Workbench, controller_of, is_running, until
from tests.runs.gated_project import GatedProject, kill, watchers
from tests.runs.lifecycle.test_retrying import CHECKPOINT, configure
from tests.runs.support import write_files
from tui_workbench.core.causes import EXIT_UNKNOWN, ORPHANED, Cause
from tui_workbench.core.model import Run, RunRequest
from tui_workbench.runs.lifecycle.starting import CANCEL_SIGNAL
from tui_workbench.runs.store.rundir import LIMIT, ControllerLock, RunDirectory
from tui_workbench.targets.hosts.supervisor import read_supervisor

pytestmark = pytest.mark.processes

MANY = 12

LEAVES_CHILD = """\
import subprocess
print(subprocess.Popen(["sleep", "1000"]).pid, flush=True)
"""


def holders(runs: list[Run]) -> set[int]:
    return {ControllerLock.holder(RunDirectory(run.directory)) for run in runs}


def until_watched(shop: GatedProject, runs: list[Run]) -> int:
    """Wait until one process drives all runs, and return its ID."""
    until(lambda: len(found := holders(runs)) == 1 and found <= set(watchers()), "one watcher for all runs")
    (watcher,) = holders(runs)
    return watcher


def test_one_process_drives_many_runs_to_their_ends(shop: GatedProject) -> None:
    runs = [shop.submit(number % 3) for number in range(MANY)]
    until_watched(shop, runs)
    for run in runs:
        os.kill(shop.script(run), signal.SIGKILL)
    for run in runs:
        ended = shop.ended(run)
        assert (ended.state, ended.exit_code) == ("failed", 137)
    assert shop.times_run() == MANY


def test_submit_commands_leave_long_runs_to_one_process(project_root: Path, tmp_path: Path) -> None:
    workbench = Workbench(project_root)
    workbench.write("import sys\nopen(sys.argv[1]).read()\nsys.exit(5)\n")
    gates = [tmp_path / "first", tmp_path / "second"]
    for gate in gates:
        os.mkfifo(gate)
    ids = [workbench.detach("train.py", str(gate)) for gate in gates]
    first, second = (workbench.run_directory(run_id) for run_id in ids)
    assert controller_of(first) != controller_of(second)
    until(lambda: controller_of(first) == controller_of(second) and controller_of(first) in watchers(), "the watcher")
    for gate, run_id in zip(gates, ids, strict=True):
        gate.write_text("go")
        workbench.until_status(run_id, "Failed")
        assert workbench.info(run_id)["exit_code"] == 5


def test_killed_watcher_is_replaced_by_a_reader(shop: GatedProject) -> None:
    runs = [shop.submit(3) for _ in range(4)]
    before = until_watched(shop, runs)
    kill(before)
    assert shop.runs.list(adopt=True)
    assert until_watched(shop, runs) != before
    assert shop.runs.cancel(runs[0].run_id).state == "canceled"
    os.kill(shop.script(runs[1]), signal.SIGTERM)
    assert shop.ended(runs[1]).exit_code == 143
    assert [RunDirectory(run.directory).run().state for run in runs[2:]] == ["running", "running"]
    assert shop.times_run() == 4


def test_run_that_ended_without_a_watcher_is_completed(shop: GatedProject) -> None:
    runs = [shop.submit(), shop.submit()]
    kill(until_watched(shop, runs))
    os.kill(shop.script(runs[0]), signal.SIGTERM)
    until(lambda: not is_running(shop.script(runs[0])))
    assert shop.runs.list(adopt=True)
    assert shop.ended(runs[0]).exit_code == 143
    assert RunDirectory(runs[1].directory).run().state == "running"


def test_slow_end_of_some_runs_does_not_delay_others(shop: GatedProject) -> None:
    stubborn = [shop.runs.submit(RunRequest("local", "stubborn.py")) for _ in range(6)]
    run = shop.submit(7)
    until_watched(shop, [*stubborn, run])
    for each in stubborn:
        shop.script(each)
        RunDirectory(each.directory).request_cancel(1000.0)
    os.kill(watchers()[0], CANCEL_SIGNAL)
    until(lambda: all("refused" in Path(each.log_path).read_text() for each in stubborn))
    shop.open()
    assert shop.ended(run).exit_code == 7
    for each in stubborn:
        assert RunDirectory(each.directory).run().state == "running"
        os.kill(shop.script(each), signal.SIGKILL)
        assert shop.ended(each).state == "canceled"


def test_processes_that_a_script_left_running_are_ended(shop: GatedProject) -> None:
    write_files(shop.root, {"leaves.py": LEAVES_CHILD})
    run = shop.runs.submit(RunRequest("local", "leaves.py"))
    ended = shop.ended(run)
    assert (ended.state, ended.exit_code) == ("completed", 0)
    assert "sleep" in ended.reason
    assert not is_running(shop.script(run))


def test_killed_shell_makes_the_exit_code_unknown(shop: GatedProject) -> None:
    run, other = shop.submit(), shop.submit(7)
    until_watched(shop, [run, other])
    directory = RunDirectory(run.directory)
    shell = read_supervisor(run.directory)
    assert shell is not None
    os.kill(shell.pid, signal.SIGKILL)
    until(lambda: directory.status().causes == (Cause(ORPHANED),), "the report of the killed shell")
    assert directory.status().state == "running"
    os.kill(shop.script(run), signal.SIGKILL)
    ended = shop.ended(run)
    assert (ended.state, ended.exit_code, ended.kinds) == ("unknown", None, (EXIT_UNKNOWN,))
    assert RunDirectory(other.directory).run().state == "running"


def test_failed_run_starts_again(shop: GatedProject) -> None:
    configure(Workbench(shop.root), "{times: 3, delay: 0}")
    write_files(shop.root, {"train.py": CHECKPOINT})
    run = shop.ended(shop.runs.submit(RunRequest("local", "train.py")))
    assert run.state == "completed"
    assert Path(run.log_path).read_text() == "attempt 1 fresh\nattempt 2 1\nattempt 3 1\n"


def test_attempt_ends_at_its_time_limit(shop: GatedProject) -> None:
    """A watcher that was killed after it had recorded the limit has not ended the script."""
    configure(Workbench(shop.root), "{times: 1, delay: 0, on: [timeout]}")
    run = shop.submit()
    script = shop.script(run)
    kill(until_watched(shop, [run]))
    RunDirectory(run.directory).append_event(LIMIT, reason="MaxDurationMinutes: ended after 1 min", reached=True)
    assert shop.runs.list(adopt=True)
    until(lambda: not is_running(script), "the end of the first attempt")
    until(lambda: shop.times_run() == 2, "the second attempt")
    assert shop.runs.cancel(run.run_id).state == "canceled"


def test_removed_run_does_not_affect_others(shop: GatedProject) -> None:
    removed, run = shop.submit(), shop.submit()
    script = shop.script(removed)
    until_watched(shop, [removed, run])
    os.rename(removed.directory, shop.root / "removed")
    os.kill(script, signal.SIGKILL)
    assert shop.runs.cancel(run.run_id).state == "canceled"
