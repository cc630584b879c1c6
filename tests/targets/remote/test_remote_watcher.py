"""One watcher drives all runs on a machine over SSH whose scripts have been running for some seconds."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path

from tests.faults.support import controller_of, until
from tests.runs.gated_project import kill, watchers
from tests.targets.group_support import PRINTS, WRITTEN
from tests.targets.remote_project import Remote
from tui_workbench.core.causes import EXIT_UNKNOWN, ORPHANED, Cause, text_of
from tui_workbench.runs.store.rundir import RunDirectory

MANY = 6


def until_watched(box: Remote, run_ids: Sequence[str]) -> int:
    """Wait until one watcher drives all runs, and return its process ID."""

    def holder() -> int:
        found = {controller_of(box.run_directory(run_id)) for run_id in run_ids}
        return found.pop() if len(found) == 1 and found <= set(watchers()) else 0

    return int(until(holder, "one watcher for all runs"))


def has_ended(box: Remote, run_id: str) -> bool:
    return bool(box.info(run_id)["end_time_utc"])


def has_lines(log: Path, lines: int) -> bool:
    return log.read_bytes().count(b"\n") >= lines


def test_one_process_drives_many_runs_to_their_ends(box: Remote) -> None:
    runs = {box.begin(f"print({code}); sys.exit({code})\n"): code for code in range(MANY)}
    until_watched(box, list(runs))
    box.go_on()
    for run_id, code in runs.items():
        box.until_status(run_id, "Failed" if code else "Completed")
        assert box.info(run_id)["exit_code"] == code
        assert box.log(run_id) == f"began\n{code}\n"


def test_output_and_metrics_arrive_while_the_script_runs(box: Remote) -> None:
    run_id = box.begin(
        "import workbench; workbench.log('loss', 0.5); print('between')\n"
        "while not os.path.exists(sys.argv[1] + '2'): time.sleep(0.05)\n"
    )
    until_watched(box, [run_id])
    box.go_on()
    until(lambda: box.log(run_id) == "began\nbetween\n", "the output")
    metrics = box.run_directory(run_id) / "metrics.jsonl"
    until(lambda: metrics.exists() and json.loads(metrics.read_text().partition("\n")[0]), "the metrics")
    assert RunDirectory(str(box.run_directory(run_id))).run().state == "running"
    (box.machine.home() / "go2").touch()
    box.until_status(run_id, "Completed")
    (box.machine.home() / "go2").unlink()


def test_log_is_complete_after_lost_connections_and_a_killed_watcher(box: Remote) -> None:
    run_id, other = box.begin(PRINTS), box.begin(PRINTS)
    watcher = until_watched(box, [run_id, other])
    box.go_on()
    log = box.run_directory(run_id) / "output.log"
    until(functools.partial(has_lines, log, 1000), "the log to grow")
    box.machine.kill_connections()
    until(functools.partial(has_lines, log, 15_000), "the log to grow")
    kill(watcher)
    box.machine.kill_connections()
    assert box.follow(run_id).code == 0
    box.follow(other)
    for each in (run_id, other):
        assert box.log(each) == WRITTEN
        assert box.status(each) == "Completed"


def test_killed_watcher_is_replaced(box: Remote) -> None:
    runs = [box.begin("print('went on')\n") for _ in range(3)]
    before = until_watched(box, runs)
    kill(before)
    assert box.run("experiment", "status", "-r", runs[0]).code == 0
    assert box.status(runs[0]) == "Running"
    assert until_watched(box, runs) != before
    box.go_on()
    for run_id in runs:
        box.until_status(run_id, "Completed")
        assert box.log(run_id) == "began\nwent on\n"


def test_cancel_ends_all_processes_of_a_watched_run(box: Remote) -> None:
    canceled = box.begin(
        after="import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'])\n"
    )
    other = box.begin("print('went on')\n")
    until_watched(box, [canceled, other])
    assert box.run("experiment", "cancel", "-r", canceled).code == 0
    assert box.status(canceled) == "Canceled"
    until(lambda: len(box.machine.processes("python3")) == 1, "the end of all other processes")
    assert box.status(other) == "Running"
    box.go_on()
    box.until_status(other, "Completed")


def test_watched_runs_on_a_lost_machine_are_unknown(box: Remote) -> None:
    runs = [box.begin("print('went on')\n") for _ in range(2)]
    until_watched(box, runs)
    box.machine.stop_sshd()
    try:
        for run_id in runs:
            box.until_status(run_id, "Unknown")
            assert "box" in box.info(run_id)["reason"]
        box.go_on()
    finally:
        box.machine.start_sshd()
    for run_id in runs:
        box.until_status(run_id, "Completed")
        assert box.log(run_id) == "began\nwent on\n"


def test_killed_shell_of_a_watched_run_makes_the_exit_code_unknown(box: Remote) -> None:
    run_id, other = box.begin("print('went on')\n"), box.begin("sys.exit(3)\n")
    until_watched(box, [run_id, other])
    box.machine.run(["kill", "-KILL", (box.there(run_id) / "pid").read_text().split()[0]])
    directory = RunDirectory(str(box.run_directory(run_id)))
    until(lambda: directory.status().causes == (Cause(ORPHANED),), "the report of the killed shell")
    assert directory.status().state == "running"
    box.go_on()
    box.until_status(run_id, "Unknown")
    assert text_of((Cause(EXIT_UNKNOWN),)) in box.info(run_id)["reason"]
    assert box.log(run_id) == "began\nwent on\n"
    box.until_status(other, "Failed")
    assert box.info(other)["exit_code"] == 3


def test_restart_of_the_machine_ends_watched_runs(box: Remote) -> None:
    runs = [box.begin() for _ in range(2)]
    until_watched(box, runs)
    box.machine.reboot()
    for run_id in runs:
        box.until_status(run_id, "Unknown")
        until(functools.partial(has_ended, box, run_id), "the run to end")
        assert "was restarted during the run" in box.info(run_id)["reason"]
        assert box.log(run_id) == "began\n"


def test_removed_folder_of_all_runs_ends_watched_runs(box: Remote) -> None:
    run_id = box.begin()
    until_watched(box, [run_id])
    box.machine.run(["rm", "-r", "/home/research/.workbench-tui/runs"])
    until(lambda: box.info(run_id)["end_time_utc"], "the run to end")
    assert box.info(run_id)["reason"]
    box.go_on()
    until(lambda: not box.machine.processes("python3"), "the end of the script, which only its files identify")
