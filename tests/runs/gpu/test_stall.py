"""Which runs count as stalled: a table over kinds of scripts, in simulated time."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

import pytest

from tests.runs.gpu.scripts import HOUR, KINDS, MINUTE, Kind, every, simulate, until
from tui_workbench.runs.gpu.judging import judge
from tui_workbench.runs.gpu.recording import FileWatch
from tui_workbench.runs.gpu.stall import Progress
from tui_workbench.runs.gpu.usage import Usage, read_usage, sum_line
from tui_workbench.runs.gpu.verdict import IDLE, PROVEN, STALLED, time_text
from tui_workbench.targets.gpu.sample import Machine, Process, Reading, Sample, encode
from tui_workbench.targets.hosts.host import ConnectionLost

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.processes
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_only_hanging_scripts_stall(kind: Kind, tmp_path: Path) -> None:
    first = simulate(kind, tmp_path).first
    assert (time_text(first) if first else "") == kind.stalls


def test_three_weeks_of_steps_never_stall() -> None:
    progress = Progress()
    for minute in range(3 * 7 * 24 * 60):
        progress.add(0.0 if minute % 3 else 40.0, 60.0, 95.0, is_held=True)
        assert not progress.is_stalled()
    assert progress.has_rhythm


HANG = Kind("hang", 70 * MINUTE, until(30 * MINUTE, every(12)), load=lambda second: 100.0)


@pytest.fixture(scope="module")
def simulated_hang(tmp_path_factory: pytest.TempPathFactory) -> Usage:
    return simulate(HANG, tmp_path_factory.mktemp("hang")).usage


@pytest.fixture
def usage(simulated_hang: Usage) -> Usage:
    """Return the totals of a run that hangs, to which a test may add samples."""
    return deepcopy(simulated_hang)


def test_stalled_verdict_names_silence_load_and_mean_interval(usage: Usage) -> None:
    found = judge(usage, (), {}, final=False)
    assert found.word == STALLED
    assert found.text.startswith("no step, log line or file for 40 min, GPU at 100 %; mean interval 12 s: GPU 0 T4")
    assert found.cause == "a rank may be waiting for other ranks in a collective operation"


def test_deadlocked_run_is_stalled_rather_than_idle(tmp_path: Path) -> None:
    usage = simulate(HANG._replace(load=lambda second: 0.0), tmp_path).usage
    found = judge(usage, (), {}, final=False)
    assert (found.word, "GPU at 0 %" in found.text) == (STALLED, True)
    assert found.cause == "a process may be waiting for a data loader, a lock or another process"
    assert judge(usage, (), {}, final=True, stop_minutes=None).word == IDLE


def test_recovered_run_is_not_stalled(usage: Usage) -> None:
    last = usage.last
    usage.add(Sample(last + 1, (Reading(0, 90.0),), (Process(7, 0, 900.0, user="own"),), 0.0))
    assert judge(usage, (), {}, final=False).word == PROVEN


def test_configured_minutes_need_no_mean_interval(tmp_path: Path) -> None:
    usage = simulate(Kind("silent", 20 * MINUTE), tmp_path).usage
    assert judge(usage, (), {}, final=True).word == PROVEN
    found = judge(usage, (), {}, final=True, stop_minutes=10)
    assert (found.word, "mean interval unknown" in found.text) == (STALLED, True)


def test_canceled_run_stays_stalled_while_its_processes_end(usage: Usage) -> None:
    for _ in range(60):  # the recorder does not look at the files of a canceled run
        usage.add(Sample(usage.last + 1, (Reading(0, 0.0),), ()))
    assert judge(usage, (), {}, final=True).word == STALLED


def test_time_without_a_controller_is_not_silence(usage: Usage) -> None:
    for quiet in (None, 0.0, 1.0):  # the next controller does not know when the files changed
        usage.add(Sample(usage.last + 1, (Reading(0, 100.0),), (Process(7, 0, 900.0, user="own"),), quiet))
    assert not usage.progress.is_stalled()
    assert usage.progress.longest < MINUTE


def test_process_missing_from_a_few_samples_changes_nothing(tmp_path: Path) -> None:
    flickering = HANG._replace(holds=lambda second: second % 60 > 5)
    assert simulate(flickering, tmp_path).usage.progress.is_stalled()


def test_any_process_counts_where_owners_are_hidden() -> None:
    usage = Usage()
    usage.machine = Machine(hides_processes=True)
    for second in range(HOUR):
        usage.add(Sample(1000.0 + second, (Reading(0, 100.0),), (Process(1, 0),), float(second)))
    assert usage.progress.quiet == HOUR - 1


def test_totals_in_the_file_continue_the_silence(usage: Usage, tmp_path: Path) -> None:
    last = Sample(usage.last + 1, (Reading(0, 100.0),), (Process(7, 0, 900.0, user="own"),), usage.progress.quiet + 1)
    (tmp_path / "gpu.jsonl").write_bytes(sum_line(usage) + encode(last))
    found = read_usage(str(tmp_path / "gpu.jsonl"))
    assert found is not None
    assert found.progress.is_stalled()
    assert found.progress.quiet == pytest.approx(usage.progress.quiet + 1, abs=0.1)


# The files of a run.


def test_other_files_are_listed_only_while_logs_are_quiet(tmp_path: Path) -> None:
    listed: list[str] = []

    def files() -> str:
        listed.append("mark")
        return "mark"

    watch = FileWatch(str(tmp_path), files)
    for second in range(600):
        (tmp_path / "output.log").write_text("x" * second)
        watch.quiet(float(second))
    assert not listed
    for second in range(600, 700):
        watch.quiet(float(second))
    assert len(listed) == 3


def test_silence_is_unknown_while_files_cannot_be_listed(tmp_path: Path) -> None:
    def refuse() -> str:
        raise ConnectionLost("no route to host")

    watch = FileWatch(str(tmp_path), refuse)
    assert max(watch.quiet(float(second)) or 0.0 for second in range(3600)) < 30
