"""The GPU policies of a run configuration, and the samples that trigger them."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from tests.runs.gpu.test_usage import T4, other, own
from tui_workbench.core.causes import GPU_MISSING, TIME_LIMIT, TIME_LIMIT_WARNED, Cause, text_of
from tui_workbench.core.model import RunConfiguration, RunState
from tui_workbench.runs.gpu.judging import conclude
from tui_workbench.runs.gpu.recording import REQUIRED_SECONDS, Policies
from tui_workbench.runs.gpu.usage import Usage, attempt_line
from tui_workbench.runs.store.rundir import ATTEMPT, GPU_SAMPLES, LIMIT, Ending, RunDirectory
from tui_workbench.targets.gpu.sample import Machine, Process, Reading, Sample, encode

if TYPE_CHECKING:
    from pathlib import Path


class Watched:
    """A run with policies and a simulated clock."""

    def __init__(self, folder: Path, machine: Machine = T4, **wanted: int | bool) -> None:
        self.directory = RunDirectory(str(folder))
        self.policies = Policies(RunConfiguration("local", "/x", "local", **wanted), self.directory)  # type: ignore[arg-type]
        self.usage = Usage()
        self.usage.machine = machine
        self.now = 1000.0

    def passes(self, seconds: int, reading: Reading, *processes: Process, is_quiet: bool = False) -> str:
        """Return the reason to end the run after this number of seconds, or "" if it may continue.

        With `is_quiet`, none of its files changes.
        """
        for second in range(seconds):
            self.now += 1
            sample = Sample(self.now, (reading,), processes, float(second) if is_quiet else None)
            self.usage.add(sample)
            self.policies.count(sample, self.usage, 1.0)
            if wanted := self.policies.by_use(self.usage):
                return text_of((wanted,))
        return ""


def test_without_policies_nothing_ends_a_run(tmp_path: Path) -> None:
    run = Watched(tmp_path)
    assert run.passes(2000, Reading(0, 0)) == ""
    assert (run.policies.by_time(), run.policies.without_gpu(), run.policies.has_limit) == (None, None, False)


def test_idle_run_is_ended_and_work_resets_the_time(tmp_path: Path) -> None:
    run = Watched(tmp_path, stop_if_idle_minutes=2)
    assert run.passes(119, Reading(0, 0, 900), own()) == ""
    assert run.passes(1, Reading(0, 80, 900), own()) == ""
    assert run.passes(119, Reading(0, 0, 900), own()) == ""
    reason = run.passes(1, Reading(0, 0, 900), own())
    assert reason == "StopIfIdleMinutes: none of its processes has computed on a GPU for 2 min"


def test_work_of_other_processes_does_not_count(tmp_path: Path) -> None:
    assert Watched(tmp_path, stop_if_idle_minutes=1).passes(60, Reading(0, 100), other()).startswith("StopIfIdle")


def test_stalled_run_is_ended(tmp_path: Path) -> None:
    run = Watched(tmp_path, stop_if_stalled_minutes=2)
    assert run.passes(120, Reading(0, 100, 900), own(), is_quiet=True) == ""
    assert run.passes(120, Reading(0, 100, 900), own(), is_quiet=True) == ""
    reason = run.passes(121, Reading(0, 100, 900), own(), is_quiet=True)
    assert reason == "StopIfStalledMinutes: no step, log line or file for 2 min"


def test_quiet_run_without_gpu_memory_is_not_stalled(tmp_path: Path) -> None:
    assert Watched(tmp_path, stop_if_stalled_minutes=1).passes(3600, Reading(0, 100), other(), is_quiet=True) == ""


def test_unknown_silence_ends_no_run(tmp_path: Path) -> None:
    assert Watched(tmp_path, stop_if_stalled_minutes=1).passes(3600, Reading(0, 100), own()) == ""


@pytest.mark.parametrize("machine", [T4, T4._replace(hides_processes=True)])
def test_missing_values_end_no_run(tmp_path: Path, machine: Machine) -> None:
    run = Watched(tmp_path, machine, stop_if_idle_minutes=1, require_gpu=True)
    assert run.passes(1000, Reading(0, None, 900), own()) == ""


def test_gap_between_samples_is_not_idle_time(tmp_path: Path) -> None:
    run = Watched(tmp_path, stop_if_idle_minutes=1)
    run.policies.count(Sample(1.0, (Reading(0, 0),), (own(),)), run.usage, 3600.0)
    assert run.passes(59, Reading(0, 0), own()) == ""


def test_required_gpu_may_be_used_late(tmp_path: Path) -> None:
    run = Watched(tmp_path, require_gpu=True)
    assert run.passes(int(REQUIRED_SECONDS) - 1, Reading(0, 0)) == ""
    assert run.passes(1, Reading(0, 0)) == "RequireGpu: none of its processes has used a GPU in 10 min"
    used = Watched(tmp_path, require_gpu=True)
    assert used.passes(1, Reading(0, 0), own()) == ""
    assert used.passes(2000, Reading(0, 0)) == ""


def test_framework_message_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "output.log").write_text("Torch not compiled with CUDA enabled\n")
    assert Watched(tmp_path, require_gpu=True).passes(20, Reading(0, 0)) == "RequireGpu: PyTorch is a CPU build"


def test_message_of_an_earlier_attempt_does_not_end_the_run(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    log.write_text("Torch not compiled with CUDA enabled\n")
    directory = RunDirectory(str(tmp_path))
    directory.append_event(ATTEMPT, number=2, start=log.stat().st_size, reason="exit code 1", due=1.0)
    assert Watched(tmp_path, require_gpu=True).passes(20, Reading(0, 0)) == ""


def test_each_attempt_must_use_the_required_gpu(tmp_path: Path) -> None:
    run = Watched(tmp_path, require_gpu=True)
    assert run.passes(10, Reading(0, 90), own()) == ""
    run.policies.begin_attempt(0)
    assert run.passes(int(REQUIRED_SECONDS), Reading(0, 0)).startswith("RequireGpu: none of its processes")


def test_silence_of_an_earlier_attempt_does_not_end_the_run(tmp_path: Path) -> None:
    run = Watched(tmp_path, stop_if_stalled_minutes=2)
    assert run.passes(130, Reading(0, 100, 900), own(), is_quiet=True)
    run.usage.begin_attempt(2)
    assert run.passes(1, Reading(0, 100, 900), own()) == ""


def test_last_attempt_must_have_used_the_required_gpu(tmp_path: Path) -> None:
    samples = [Sample(1000.0 + second, (Reading(0, 90),), (own(),)) for second in range(20)]
    later = [Sample(2000.0 + second, (Reading(0, 0),)) for second in range(20)]
    lines = [encode(T4), *map(encode, samples), attempt_line(2), *map(encode, later)]
    (tmp_path / GPU_SAMPLES).write_bytes(b"".join(lines))
    directory = RunDirectory(str(tmp_path))
    directory.append_event("state", state=RunState.RUNNING)
    directory.append_event(ATTEMPT, number=2, start=0, reason="exit code 1", due=1.0)
    ending = conclude(directory, RunConfiguration("local", "/x", "local", require_gpu=True), Ending(RunState.COMPLETED))
    assert (ending.state, ending.reason.partition(";")[0]) == (RunState.FAILED, "RequireGpu: it used no GPU")


def test_require_gpu_fails_without_a_gpu(tmp_path: Path) -> None:
    assert Watched(tmp_path, require_gpu=True).policies.without_gpu() == Cause(GPU_MISSING)


def test_duration_counts_from_the_start_of_the_script(tmp_path: Path) -> None:
    directory = RunDirectory(str(tmp_path))
    assert Watched(tmp_path, max_duration_minutes=1).policies.by_time() is None
    (tmp_path / "events.jsonl").write_text(
        f'{{"time": {time.time() - 61}, "event": "state", "state": "{RunState.RUNNING}"}}\n'
    )
    assert directory.status().start
    late = Watched(tmp_path, max_duration_minutes=1).policies
    assert (late.has_limit, late.by_time()) == (True, Cause(TIME_LIMIT, {"minutes": 1}))
    late.disable()
    assert late.by_time() is None


@pytest.mark.parametrize(("before", "minutes"), [(10, 20), (90, 0)])
def test_script_is_warned_before_the_limit(tmp_path: Path, before: int, minutes: int) -> None:
    def policies(seconds: float) -> Policies:
        """Return the policies of a run that started this many seconds ago."""
        event = {"time": time.time() - seconds, "event": "state", "state": RunState.RUNNING}
        (tmp_path / "events.jsonl").write_text(f"{json.dumps(event)}\n")
        return Watched(tmp_path, max_duration_minutes=30, signal_before_end_minutes=before).policies

    assert (
        policies(60 * minutes - 30 if minutes else 1).warning() is None
    )  # a new script may have no signal handler yet
    late = policies(60 * minutes + 6)
    ahead = min(before, 30)
    assert late.warning() == Cause(TIME_LIMIT_WARNED, {"before": ahead, "minutes": 30})
    assert late.by_time() is None
    late.is_warned = True
    assert late.warning() is None
    assert policies(60 * 30 + 1).by_time() == Cause(TIME_LIMIT, {"minutes": 30})


def test_limit_counts_from_the_start_of_the_attempt(tmp_path: Path) -> None:
    directory = RunDirectory(str(tmp_path))
    begun = {"time": time.time() - 3600, "event": "state", "state": RunState.RUNNING}
    (tmp_path / "events.jsonl").write_text(f"{json.dumps(begun)}\n")
    assert Watched(tmp_path, max_duration_minutes=30).policies.by_time()
    directory.append_event(LIMIT, reason="MaxDurationMinutes: ended after 30 min", reached=True)
    directory.append_event(ATTEMPT, number=2, start=0, reason="MaxDurationMinutes: ended after 30 min", due=1.0)
    directory.append_event("state", state=RunState.RUNNING)
    assert Watched(tmp_path, max_duration_minutes=30).policies.by_time() is None
    assert directory.status().limit == ()
