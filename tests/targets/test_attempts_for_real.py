"""Ends of attempts that really happen here: memory runs out, a machine restarts, and SSH is gone for a long time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.support import WAITS, Workbench, until
from tests.targets.remote_project import GO, Remote
from tests.targets.remote_project import box as box

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMITS = Path("/sys/fs/cgroup/memory")
"""The memory controller of cgroups v1, in which the superuser can make groups."""

GREEDY = """\
import os, pathlib, sys
attempt = os.environ["WORKBENCH_ATTEMPT"]
print("attempt", attempt, flush=True)
if attempt == "1":
    pathlib.Path(sys.argv[1], "cgroup.procs").write_text(str(os.getpid()))
    data = bytearray(1 << 30)
    for place in range(0, len(data), 4096):
        data[place] = 1
    print("survived", flush=True)
"""
"""Uses a gigabyte in its first attempt, in a group with less memory."""

ONCE = """\
import os, sys, time
attempt = os.environ["WORKBENCH_ATTEMPT"]
print("attempt", attempt, flush=True)
while attempt == "1" and not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
raise SystemExit(3 if attempt == "1" else 0)
"""
"""Waits in its first attempt for a file, and then fails."""


@pytest.fixture
def small_memory() -> Iterator[Path]:
    """Return a group of processes with 64 MiB of memory."""
    group = LIMITS / f"workbench-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(64 << 20))
    except OSError as error:
        pytest.skip(f"no group with limited memory can be made here: {error}")
    yield group
    until(lambda: not (group / "cgroup.procs").read_text(), "the end of its processes")
    group.rmdir()


def listed(workbench: Workbench, run_id: str) -> list[tuple[str, str | None, int | None]]:
    attempts = workbench.info(run_id)["attempts"]
    return [(each["status"], each["reason"], each["exit_code"]) for each in attempts]


def test_script_that_runs_out_of_memory_starts_again(project_root: Path, small_memory: Path) -> None:
    workbench = Workbench(project_root)
    path = project_root / "aml_config" / "local.runconfig"
    path.write_text(f"{path.read_text()}Retry: {{on: [oom], delay: 0}}\n")
    workbench.write(GREEDY)
    result = workbench.submit("train.py", str(small_memory))
    assert result.code == 0, result
    (record,) = workbench.history()
    assert workbench.log(record["run_id"]) == "attempt 1\nattempt 2\n"
    reason = "killed by signal 9 (SIGKILL): the machine may have run out of memory"
    assert listed(workbench, record["run_id"]) == [("Failed", reason, 137), ("Completed", None, 0)]


def test_run_starts_again_after_a_restart_of_its_machine(box: Remote) -> None:
    box.configure(Retry={"on": ["lost"], "delay": 0})
    box.write(ONCE)
    run_id = box.detach("train.py", "/nowhere", configuration="box")
    until(lambda: "attempt 1" in box.log(run_id))
    box.machine.reboot()
    box.until_status(run_id, "Completed")
    assert box.log(run_id) == "attempt 1\nattempt 2\n"
    (state, reason, code), second = listed(box, run_id)
    assert (state, code, second) == ("Unknown", None, ("Completed", None, 0))
    assert reason is not None
    assert "was restarted during the run" in reason


def test_run_starts_again_after_ssh_was_gone(box: Remote) -> None:
    """The script fails while the machine has no SSH server; the time without it does not matter."""
    box.configure(Retry={"on": ["failed"], "delay": 0})
    box.write(ONCE)
    run_id = box.detach("train.py", GO, configuration="box")
    until(lambda: "attempt 1" in box.log(run_id))
    box.machine.stop_sshd()
    try:
        box.go_on()
        until(lambda: not box.machine.processes("python3"), "the end of the script")
        box.until_status(run_id, "Unknown")
        assert "attempts" not in box.info(run_id)
    finally:
        box.machine.start_sshd()
    box.until_status(run_id, "Completed")
    assert box.log(run_id) == "attempt 1\nattempt 2\n"
    assert listed(box, run_id) == [("Failed", "exit code 3", 3), ("Completed", None, 0)]


def test_script_elsewhere_is_warned_and_its_log_continues(box: Remote) -> None:
    """The limit is an hour after the warning: the log must not wait for it, and neither must a cancel."""
    box.configure(MaxDurationMinutes=60, SignalBeforeEndMinutes=60)
    box.write(f"import signal\nsignal.signal(signal.SIGTERM, lambda *_: print('warned', flush=True))\n{WAITS}")
    run_id = box.detach("train.py", "/nowhere", configuration="box")
    until(lambda: "warned" in box.log(run_id))
    assert box.run("experiment", "cancel", "--run", run_id, "--grace", "0").code == 0
    assert box.status(run_id) == "Canceled"
