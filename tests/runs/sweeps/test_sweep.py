"""Sweeps: each member runs once, from one snapshot, within the limit, even if processes are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.support import until
from tests.runs.support import write_configuration, write_files
from tui_workbench.core import trace
from tui_workbench.core.errors import RunNotFound, UsageError
from tui_workbench.core.model import Run, RunRequest, Seeds
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.store.rundir import ControllerLock, RunDirectory
from tui_workbench.runs.submission.launch import create_run
from tui_workbench.runs.sweeps import sweep
from tui_workbench.runs.sweeps.sweep_values import grid, parse_parameter

REQUEST = RunRequest("local", "say.py")
SAY = "import os, sys\nprint('first', *sys.argv[1:], os.environ.get('WORD'))\n"
GATED = "import sys\nprint('began', flush=True)\nopen(sys.argv[2]).read()\n"


class Bench:
    """A tracked project whose script prints its arguments."""

    def __init__(self, project: Project, folder: Path) -> None:
        self.project = project
        self.root = Path(project.root)
        self.runs = Runs(project)
        self.gate = folder / "gate"
        write_files(self.root, {"say.py": SAY, "gated.py": GATED})
        self.configure("then")

    def configure(self, word: str) -> None:
        write_configuration(self.root, TrackedRun=True, EnvironmentVariables={"WORD": word})

    def members(self, *words: str, arguments: tuple[str, ...] = ()) -> tuple[sweep.Member, ...]:
        return sweep.members_of(arguments, grid([parse_parameter(word) for word in words]))

    def gated(self, number: int) -> tuple[RunRequest, tuple[sweep.Member, ...]]:
        """Members that start and wait for a gate file."""
        os.mkfifo(self.gate)
        values = ",".join(map(str, range(number)))
        return RunRequest("local", "gated.py"), self.members(f"n={values}", arguments=("{n}", str(self.gate)))

    def of(self, group: str) -> list[Run]:
        return self.runs.group(group)[::-1]

    def ended(self, group: str, number: int) -> list[Run]:
        def all_ended() -> list[Run]:
            found = self.of(group)
            return found if len(found) == number and not any(run.is_active for run in found) else []

        found: list[Run] = until(all_ended, "the end")
        return found

    def said(self, group: str, number: int) -> list[str]:
        return [Path(run.log_path).read_text().strip() for run in self.ended(group, number)]


@pytest.fixture
def bench(project: Project, tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(project, tmp_path)
    yield bench
    for run in bench.runs.list():
        if run.is_active:
            bench.runs.cancel(run.run_id, grace=0.0)
    until(lambda: not any(ControllerLock.holder(RunDirectory(run.directory)) for run in bench.runs.list()), "quiet")


def test_values_replace_placeholders_or_are_appended() -> None:
    members = sweep.members_of(("--rate={lr}", "{x}"), grid([parse_parameter("lr=0.1"), parse_parameter("b=1,2")]))
    assert [member.arguments for member in members] == [
        ("--rate=0.1", "{x}", "--b=1"),
        ("--rate=0.1", "{x}", "--b=2"),
    ]
    assert members[1].values == {"lr": "0.1", "b": "2"}
    (swapped,) = sweep.members_of(("{a}{b}", "{}"), [{"a": "{b}", "b": "{a}"}])
    assert swapped.arguments == ("{b}{a}", "{}")


@pytest.mark.parametrize(
    ("arguments", "made"),
    [
        ((), "--lr 0.1"),
        (("data", "--epochs", "3"), "data --epochs 3 --lr 0.1"),
        (("--epochs=3",), "--epochs=3 --lr=0.1"),
        (("--lr=0.5", "data"), "--lr=0.1 data"),
        (("data", "--lr", "0.5"), "data --lr 0.1"),
        (("--lr", "--fast"), "--lr 0.1 --fast"),
        (("--lr", "-v"), "--lr 0.1 -v"),
        (("--lr", "-0.5", "-v"), "--lr 0.1 -v"),
        (("--", "data"), "--lr 0.1 -- data"),
        (("--lr", "--", "--lr"), "--lr 0.1 -- --lr"),
        (("-lr", "0.5"), "-lr 0.1"),
        (("epochs=3",), "epochs=3 lr=0.1"),
        (("lr=0.5", "epochs=3"), "lr=0.1 epochs=3"),
    ],
)
def test_value_takes_the_form_of_the_arguments(arguments: tuple[str, ...], made: str) -> None:
    (member,) = sweep.members_of(arguments, [{"lr": "0.1"}])
    assert " ".join(member.arguments) == made


def test_seeds_repeat_each_combination() -> None:
    members = sweep.members_of(("{seed}",), [{"lr": "1"}, {"lr": "2"}], Seeds(2))
    assert [(member.arguments, member.family) for member in members] == [
        (("1", "--lr", "1"), 1), (("2", "--lr", "1"), 1), (("1", "--lr", "2"), 2), (("2", "--lr", "2"), 2),
    ]  # fmt: skip
    with pytest.raises(UsageError, match="is both a parameter of the sweep and the name of the seed"):
        sweep.members_of((), [{"seed": "1"}], Seeds(2))
    with pytest.raises(UsageError, match="the sweep has 10000000 runs") as raised:
        sweep.members_of((), [{}], Seeds(10_000_000))
    assert raised.value.remedy == "Use a smaller `--repeat N`."


def test_seed_reaches_the_script_as_a_variable(bench: Bench) -> None:
    members = sweep.members_of((), [{}], Seeds(2, variable="WORD"))
    group = bench.runs.sweep(REQUEST, members, 2)
    assert bench.said(group, 2) == ["first 1", "first 2"]
    assert [run.family for run in bench.of(group)] == ["sweep-1.1", "sweep-1.1"]
    assert [record["arguments_by_name"] for record in bench.runs.history_records()] == [{"WORD": "2"}, {"WORD": "1"}]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--lr", "0.1", "--lr", "0.2"), "the script gets 'lr' more than once"),
        (("--lr", "64", "32", "-v"), "which words after --lr are values of this option"),
    ],
)
def test_unclear_place_of_a_value_is_refused(arguments: tuple[str, ...], part: str) -> None:
    with pytest.raises(UsageError, match=part) as raised:
        sweep.members_of(arguments, [{"lr": "0.1"}])
    assert "`{lr}`" in raised.value.remedy


def test_negative_value_is_not_taken_for_an_option() -> None:
    assert sweep.members_of(("lr=1",), [{"bias": "-1"}])[0].arguments == ("lr=1", "bias=-1")
    assert sweep.members_of((), [{"bias": "-1e-3"}])[0].arguments == ("--bias=-1e-3",)


def test_number_of_members_is_limited() -> None:
    with pytest.raises(UsageError, match="the sweep has 1001 runs"):
        sweep.members_of((), [{"n": str(n)} for n in range(1001)])
    with pytest.raises(UsageError, match="the sweep has 0 runs"):
        sweep.members_of((), [])


@pytest.mark.processes
def test_each_member_runs_once(bench: Bench) -> None:
    group = bench.runs.sweep(REQUEST, bench.members("lr=0.1,0.01", "b=1"), 2)
    assert group == "sweep-1"
    assert bench.said(group, 2) == ["first --lr 0.1 --b 1 then", "first --lr 0.01 --b 1 then"]
    assert len({run.commit_id for run in bench.of(group)}) == 1
    assert bench.runs.sweep(REQUEST, bench.members("lr=1"), 1) == "sweep-2"


@pytest.mark.processes
def test_parallel_runs_are_limited(bench: Bench) -> None:
    request, members = bench.gated(3)
    group = bench.runs.sweep(request, members, 2)
    until(lambda: [run.state for run in bench.of(group)] == ["running", "running", "queued"], "two")
    assert bench.of(group)[2].reason == "waits for gated.py [1] or gated.py [2] of its sweep"


@pytest.mark.processes
def test_members_ignore_later_project_changes(bench: Bench) -> None:
    def change(run: Run) -> None:
        if run.run_number == 1:
            write_files(bench.root, {"say.py": "raise SystemExit(9)"})
            bench.configure("now")

    group = bench.runs.sweep(REQUEST, bench.members("n=1,2,3"), 1, change)
    assert bench.said(group, 3) == [f"first --n {n} then" for n in (1, 2, 3)]


def test_untracked_sweep_runs_in_place(bench: Bench) -> None:
    write_configuration(bench.root, TrackedRun=False)
    group = bench.runs.sweep(REQUEST, bench.members("n=1,2"), 2)
    assert bench.said(group, 2) == ["first --n 1 None", "first --n 2 None"]


@pytest.mark.processes
def test_without_git_each_member_has_a_copy(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    group = bench.runs.sweep(REQUEST, bench.members("n=1,2"), 2)
    assert bench.said(group, 2) == ["first --n 1 then", "first --n 2 then"]


def test_invalid_request_is_refused(bench: Bench) -> None:
    with pytest.raises(UsageError, match=r"none\.py does not exist"):
        bench.runs.sweep(RunRequest("local", "none.py"), bench.members("n=1"))
    with pytest.raises(UsageError, match="parallel runs: 0"):
        bench.runs.sweep(REQUEST, bench.members("n=1"), 0)
    assert not (bench.root / ".workbench" / "sweeps").exists()
    assert bench.runs.list() == []


MAKE_AND_DIE = """
import os, signal, sys
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.sweeps import sweep
from tui_workbench.core.model import RunRequest
project = Project(sys.argv[1])
def die(run):
    if run.run_number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
members = sweep.members_of((), [{"n": str(n)} for n in range(4)])
Runs(project).sweep(RunRequest("local", "say.py"), members, 1, die)
"""


@pytest.mark.processes
def test_missing_members_are_created_once_after_a_kill(bench: Bench) -> None:
    environment = {**os.environ, "WORD": "of the maker"}
    write_configuration(bench.root, TrackedRun=True)
    done = subprocess.run([sys.executable, "-c", MAKE_AND_DIE, str(bench.root)], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    write_files(bench.root, {"say.py": "raise SystemExit(9)"})
    bench.runs.resume()
    assert bench.said("sweep-1", 4) == [f"first --n {n} of the maker" for n in range(4)]
    until((bench.root / ".workbench/sweeps/sweep-1.made").exists, "the mark")
    bench.runs.resume()
    assert len(bench.of("sweep-1")) == 4


@pytest.mark.processes
def test_failing_sweep_is_stopped_with_its_reason(bench: Bench) -> None:
    made = sweep.create(bench.project, REQUEST, bench.members("n=1,2"), 1)
    (bench.root / "say.py").unlink()
    bench.runs.resume()
    stopped = bench.root / ".workbench" / "sweeps" / f"{made.group}.stopped"
    until(lambda: stopped.exists() and "say.py does not exist" in stopped.read_text(), "the reason")
    assert bench.of(made.group) == []


@pytest.mark.processes
def test_stop_cancels_queued_members(bench: Bench) -> None:
    request, members = bench.gated(3)
    group = bench.runs.sweep(request, members, 1)
    until(lambda: bench.of(group)[0].state == "running", "the first")
    canceled = bench.runs.stop_group(group)
    assert sorted(run.arguments[0] for run in canceled) == ["1", "2"]
    assert [run.state for run in bench.of(group)] == ["running", "canceled", "canceled"]
    assert [run.state for run in bench.runs.stop_group(group, all_of_it=True, grace=0.0)] == ["canceled"]
    assert [run.state for run in bench.ended(group, 3)] == ["canceled"] * 3


@pytest.mark.processes
def test_runs_made_by_another_process_have_the_agent_of_the_sweep(bench: Bench) -> None:
    with trace.for_agent("coder"):
        made = sweep.create(bench.project, REQUEST, bench.members("n=1,2"), 1)
    with trace.for_agent("another"):
        assert sweep.make_members(bench.project, made.group)
    assert [run.agent for run in bench.ended(made.group, 2)] == ["coder", "coder"]


def test_stop_ends_the_creation_of_members(bench: Bench) -> None:
    made = sweep.create(bench.project, REQUEST, bench.members("n=1,2,3"), 1)

    def stop(run: Run) -> None:
        (bench.root / ".workbench" / "sweeps" / f"{made.group}.stopped").touch()

    assert sweep.make_members(bench.project, made.group, stop)
    assert len(bench.ended(made.group, 1)) == 1
    bench.runs.resume()
    assert len(bench.of(made.group)) == 1


@pytest.mark.processes
def test_only_one_process_creates_members(bench: Bench) -> None:
    made = sweep.create(bench.project, REQUEST, bench.members("n=1,2"), 1)
    answers: list[bool] = []
    sweep.make_members(
        bench.project, made.group, lambda _: answers.append(sweep.make_members(bench.project, made.group))
    )
    assert answers == [False, False]
    assert len(bench.ended(made.group, 2)) == 2


def test_created_but_unqueued_run_is_queued(bench: Bench) -> None:
    request = REQUEST._replace(group="sweep-1", member=1, group_limit=1)
    directory, lock, _ = create_run(bench.project, request)
    lock.release()
    bench.runs.resume()
    assert bench.said("sweep-1", 1)
    assert json.loads(Path(directory.path, "run.json").read_text())["group"] == "sweep-1"


def test_unreadable_sweep_is_not_called_missing(bench: Bench) -> None:
    (bench.root / ".workbench" / "sweeps" / "sweep-1.json").mkdir(parents=True)
    with pytest.raises(RunNotFound, match="cannot read this sweep"):
        sweep.make_members(bench.project, "sweep-1")


@pytest.mark.parametrize("group", ["", "sweep-", "sweep-7", "../sweep-1", "sweep-1/../x"])
def test_unknown_sweep_is_not_found(bench: Bench, group: str) -> None:
    with pytest.raises(RunNotFound, match="no sweep"):
        bench.runs.stop_group(group)
