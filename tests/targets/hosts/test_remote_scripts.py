"""The scripts for other machines find every process, including a process that executes itself again and again.

During `exec`, a process has no environment for a moment, so a search can miss it. The scripts are executed on this
machine, with every shell that is installed as `sh`.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.support import until
from tests.waiting import PATIENCE
from tui_workbench.targets.hosts import supervisor
from tui_workbench.targets.hosts.processes import RUN_ID_VARIABLE, end_processes, processes_of_run
from tui_workbench.targets.hosts.supervisor import FOLLOW_RUNS, LEFT, STOP

pytestmark = [pytest.mark.linux("the scripts search in /proc"), pytest.mark.processes]

RUN = f"project_{os.getpid()}"
"""Unique across test processes, because processes are found by run ID."""

RESTARTING = """\
#!/bin/sh
echo >>"$1"
exec "$0" "$1"
"""

SEARCHES = 40
"""Number of searches in a test. Each misses such a process with a probability of several percent."""


class Run:
    """A run whose script executes itself again and again."""

    def __init__(self, folder: Path, shell: str) -> None:
        self.directory = folder / RUN
        self.directory.mkdir()
        self._shell = shell
        self._script = folder / "script"
        self._script.write_text(RESTARTING)
        self._script.chmod(0o700)
        self._executions = folder / "executions"

    def start(self) -> None:
        """Start the run, again if it has ended, and wait until its script executes itself."""
        supervisor.forget(str(self.directory))
        command = [self._shell, "-c", supervisor.TEXT, "sh", str(self.directory), "/"]
        self._supervisor = subprocess.Popen(
            [*command, str(self._script), str(self._executions)],
            env={**os.environ, RUN_ID_VARIABLE: RUN},
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.until_executed(1)

    def until_executed(self, times: int) -> None:
        """Wait until the script has executed itself so many times more."""
        end = times + self._size()
        until(lambda: self._size() >= end, "executions of the script")

    def _size(self) -> int:
        return self._executions.stat().st_size if self._executions.exists() else 0

    def kill_supervisor(self) -> None:
        self._supervisor.kill()
        self._supervisor.wait()

    def end(self) -> None:
        end_processes(lambda: processes_of_run(RUN), grace=0)
        self._supervisor.wait()

    def ask(self, script: str, *arguments: str) -> subprocess.Popen[str]:
        """Start a script of the workbench."""
        words = [self._shell, "-c", script, "sh", *arguments]
        return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def run(tmp_path: Path, shell: str) -> Iterator[Run]:
    run = Run(tmp_path, shell)
    run.start()
    yield run
    run.end()


def test_stop_ends_a_script_that_executes_itself(run: Run) -> None:
    for _ in range(SEARCHES // 2):
        with run.ask(STOP, str(run.directory), RUN, "600") as stop:
            assert stop.communicate(timeout=PATIENCE)[0] == "- 1\n"
        assert processes_of_run(RUN) == set()
        assert supervisor.read_exit_code(str(run.directory)) == 128 + signal.SIGTERM
        run.end()
        run.start()


def test_wait_continues_while_a_script_executes_itself(run: Run) -> None:
    run.kill_supervisor()
    waiting = [run.ask(LEFT, str(run.directory), RUN) for _ in range(SEARCHES // 4)]
    run.until_executed(2000)  # meanwhile, each of them searches several times
    assert [each.poll() for each in waiting] == [None] * len(waiting)
    run.end()
    for each in waiting:
        with each:
            assert each.wait(PATIENCE) == 0


def test_listing_says_that_a_script_continues_that_executes_itself(run: Run) -> None:
    run.kill_supervisor()
    with run.ask(FOLLOW_RUNS, str(run.directory.parent), "") as following:
        assert following.stdin is not None
        assert following.stdout is not None
        lines = iter(following.stdout.readline, "")
        for number in range(SEARCHES):
            print(number, RUN, file=following.stdin, flush=True)
            assert f": {number}\n" in lines  # consumes the lines up to this one
            assert next(lines) == f"= {RUN} left\n"
        run.end()
        assert f"= {RUN} over\n" in lines
