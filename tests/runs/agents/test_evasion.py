"""An agent that can write to the project cannot evade the limits by changing the files of its runs."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.support import Installed
from tests.runs.agents.test_agents import REQUEST, write_limits
from tests.runs.support import make_run, write_configuration, write_files
from tests.waiting import wait_until
from tui_workbench.core.errors import ImportedRun
from tui_workbench.core.system import process_stat
from tui_workbench.projects.project import Project
from tui_workbench.runs.agents import ledger, timekeeper
from tui_workbench.runs.agents.ledger import read_uses
from tui_workbench.runs.agents.submitting import plan_for_agent, submit_for_agent
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.lifecycle.agent_ends import end_run_of_agent
from tui_workbench.runs.store import agent_runs
from tui_workbench.runs.store.rundir import RunDirectory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tui_workbench.core.model import Run

SCRIPT = """\
import os, time
with open(os.environ["PID_FILE"] + ".new", "w") as file:
    file.write(str(os.getpid()))
os.rename(os.environ["PID_FILE"] + ".new", os.environ["PID_FILE"])
time.sleep(600)
"""
MINUTES = 30


class Active:
    """An active run of an agent."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.pid_file = Path(project.root).parent / "pid"
        write_files(Path(project.root), {"train.py": SCRIPT})
        write_configuration(
            Path(project.root), MaxDurationMinutes=MINUTES, EnvironmentVariables={"PID_FILE": str(self.pid_file)}
        )
        made = submit_for_agent(project, REQUEST._replace(script="train.py")).run
        assert made is not None
        self.run: Run = made
        wait_until(self.pid_file.exists)
        self.pid = int(self.pid_file.read_text())
        self.directory = Path(self.run.directory)

    @property
    def is_alive(self) -> bool:
        return process_stat(self.pid)[0] not in ("", "Z", "X")

    def reasons(self) -> list[str]:
        """Return why another run of the agent would need an approval."""
        project = Project(self.project.root)
        if not os.path.isdir(project.config_directory):
            return [f"{sum(use.is_active for use in read_uses())} run of agents is active, and the limit is 1"]
        return plan_for_agent(project, REQUEST._replace(script="train.py"))[1]


@pytest.fixture
def active(project: Project) -> Iterator[Active]:
    write_limits(targets=["local"], minutes_per_run=MINUTES, hours_per_day=1)
    one = Active(project)
    yield one
    end_run_of_agent(str(one.directory), 0.0)  # the timekeeper ends too


def rewrite(run: Path) -> None:
    (run / "run.json").write_bytes((run / "run.json").read_bytes())


def allow_more(run: Path) -> None:
    text = (run / "run.json").read_text().replace(f'"max_duration_minutes": {MINUTES}', '"max_duration_minutes": 99999')
    (run / "run.json").write_text(text)


def replace_by(make: Callable[[Path], object]) -> Callable[[Path], object]:
    def replace(run: Path) -> None:
        (run / "run.json").unlink()
        make(run / "run.json")

    return replace


def remove(run: Path) -> None:
    shutil.rmtree(run, ignore_errors=True)


def remove_workbench(run: Path) -> None:
    shutil.rmtree(run.parent.parent, ignore_errors=True)


def replace_workbench(run: Path) -> None:
    run.parent.parent.rename(run.parent.parent.with_name(".old"))
    make_run(Project(str(run.parents[2])), "p_1", state="completed", end=2.0)


def swap(run: Path) -> None:
    """Put a copy of an ended run in the place of the run."""
    run.rename(run.with_name("moved"))
    make_run(Project(str(run.parents[2])), run.name, state="completed", end=2.0)


def link(run: Path) -> None:
    run.rename(run.with_name("moved"))
    run.symlink_to("moved")


def append(*events: dict[str, object]) -> Callable[[Path], object]:
    def write(run: Path) -> None:
        with (run / "events.jsonl").open("a") as file:
            file.writelines(json.dumps(event) + "\n" for event in events)

    return write


def overwrite(*events: dict[str, object]) -> Callable[[Path], object]:
    def write(run: Path) -> None:
        (run / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))

    return write


END = {"time": 1.0, "event": "state", "state": "completed", "reason": "", "final": True, "end": 1.0}
ATTACKS: dict[str, Callable[[Path], object]] = {
    "rewritten record": rewrite,
    "longer limit in the record": allow_more,
    "record removed": lambda run: (run / "run.json").unlink(),
    "record is a link": replace_by(lambda path: path.symlink_to("/dev/zero")),
    "record is a pipe": replace_by(os.mkfifo),
    "record is a folder": replace_by(Path.mkdir),
    "record is another file": replace_by(lambda path: path.write_text("{}")),
    "record is empty": lambda run: (run / "run.json").write_text(""),
    "folder moved": lambda run: run.rename(run.with_name("moved")),
    "folder moved out": lambda run: run.rename(run.parents[2] / "moved"),
    "folder in the trash": lambda run: run.rename(run.with_name(f".deleted-{run.name}")),
    "folder removed": remove,
    "folder replaced": swap,
    "folder is a link": link,
    "all runs removed": remove_workbench,
    "workbench replaced": replace_workbench,
    "project renamed": lambda run: run.parents[2].rename(run.parents[2].with_name("other")),
    "forged end": append(END),
    "forged end in the future": append({**END, "time": 9e9, "end": 9e9}),
    "forged ending": append({"time": 1.0, "event": "ending", "state": "completed", "reason": "", "exit_code": 0}, END),
    "only an end": overwrite(END),
    "forged start": overwrite({"time": 9e9, "event": "state", "state": "running"}),
    "state is queued": overwrite({"time": 1.0, "event": "state", "state": "queued"}),
    "events removed": lambda run: (run / "events.jsonl").unlink(),
    "limit reached before": append({"time": 1.0, "event": "limit", "reason": "x"}),
    "new attempt": append({"time": 1.0, "event": "attempt", "number": 2, "start": 0, "reason": "x", "due": 9e9}),
}


@pytest.mark.processes
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_changed_files_free_nothing_and_stop_no_time_limit(active: Active, attack: Callable[[Path], object]) -> None:
    attack(active.directory)
    (use,) = read_uses()
    assert (use.is_active, use.hours) == (True, MINUTES / 60)
    assert "1 run of agents is active, and the limit is 1" in active.reasons()
    wait_until(timekeeper.is_running)
    begun = time.time()
    keeper = timekeeper.Timekeeper()
    keeper.look(begun + 60 * MINUTES)
    keeper.wait()
    assert active.is_alive
    keeper.look(begun + 60 * MINUTES + 2 * timekeeper.MARGIN_SECONDS)
    keeper.wait()
    wait_until(lambda: not active.is_alive)
    (use,) = read_uses()
    assert (use.is_active, use.hours < MINUTES / 60) == (False, True)


@pytest.mark.processes
@pytest.mark.parametrize("name", ["exit", "cancel"])
def test_forged_end_of_the_script_ends_its_processes(active: Active, name: str) -> None:
    shell = int((active.directory / "pid").read_text().split("\n")[0])
    (active.directory / name).write_text({"exit": "0\n", "cancel": "0.1\n"}[name])
    assert read_uses()[0].is_active
    # The controller looks at the file when the supervising shell has ended, or when it is woken.
    os.kill(shell, 9)
    wait_until(lambda: not read_uses()[0].is_active)
    assert not active.is_alive


@pytest.mark.processes
@pytest.mark.parametrize("attack", ["rewritten record", "folder removed", "record is a pipe", "record removed"])
def test_user_can_cancel_a_changed_run(active: Active, attack: str) -> None:
    ATTACKS[attack](active.directory)
    done = Installed(Path(active.project.root)).run("experiment", "cancel", "--run", active.run.run_id)
    assert done.code == 0, done
    wait_until(lambda: not active.is_alive)
    assert not read_uses()[0].is_active


def test_imported_run_of_another_user_is_not_canceled(project: Project) -> None:
    run = make_run(project, "p_1")
    rewrite(Path(run.path))
    with pytest.raises(ImportedRun):
        Runs(project).cancel("p_1")


def test_ended_run_counts_with_its_own_duration(active: Active) -> None:
    Runs(active.project).cancel(active.run.run_id, grace=0.1)
    append({**END, "end": 9e9})(active.directory)
    (use,) = read_uses()
    assert not use.is_active
    assert use.hours < 0.1
    remove(active.directory)
    assert read_uses() == [use]


@pytest.mark.processes
def test_run_that_is_started_again_counts_again(active: Active) -> None:
    Runs(active.project).cancel(active.run.run_id, grace=0.1)
    before = read_uses()[0].hours
    active.pid_file.unlink()
    Runs(active.project).start_again(active.run.run_id)
    wait_until(active.pid_file.exists)
    active.pid = int(active.pid_file.read_text())
    wait_until(lambda: read_uses()[0].is_active)
    assert read_uses()[0].started > active.run.start
    Runs(active.project).cancel(active.run.run_id, grace=0.1)
    assert read_uses()[0].hours > before


@pytest.mark.processes
def test_timekeeper_is_started_again(active: Active) -> None:
    wait_until(timekeeper.is_running)
    keeper = next(
        int(pid)
        for pid in os.listdir("/proc")
        if pid.isdigit() and command_of(pid)[-1:] == [timekeeper.MODULE] and ledger_of(pid) == os.environ["HOME"]
    )
    os.kill(keeper, 9)
    wait_until(lambda: not timekeeper.is_running())
    Runs(active.project).resume()
    wait_until(timekeeper.is_running)


def command_of(pid: str) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]
    except OSError:
        return []


def ledger_of(pid: str) -> str:
    variables = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return next((each.removeprefix("HOME=") for each in variables if each.startswith("HOME=")), "")


def test_entries_of_the_registry_are_private_and_have_no_secrets(project: Project) -> None:
    write_limits(targets=["local"], minutes_per_run=MINUTES)
    write_configuration(Path(project.root), EnvironmentVariables={"API_TOKEN": "abcdefgh-secret"})
    made = submit_for_agent(project, REQUEST).run
    assert made is not None
    folder = Path(ledger.agents_directory(), "runs")
    assert folder.stat().st_mode & 0o777 == 0o700
    for file in folder.iterdir():
        assert file.stat().st_mode & 0o777 == 0o600
        assert "abcdefgh-secret" not in file.read_text()
    spec = agent_runs.find(made.directory)
    assert spec is not None
    assert (spec.run_id, spec.target.name) == (made.run_id, "local")
    wait_until(lambda: bool(RunDirectory(made.directory).status().end))


def test_failed_submission_leaves_no_entry(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    write_limits(targets=["local"], minutes_per_run=MINUTES)

    def fail(*_: object, **_others: object) -> int:
        raise OSError(11, "no more processes")

    monkeypatch.setattr(timekeeper, "start_detached", fail)
    with pytest.raises(Exception, match="cannot start the process that enforces the time limits"):
        submit_for_agent(project, REQUEST)
    assert (read_uses(), list(Path(ledger.agents_directory(), "runs").iterdir())) == ([], [])
    assert Runs(project).list() == []
