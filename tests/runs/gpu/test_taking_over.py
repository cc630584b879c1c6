"""The watcher takes over runs whose GPUs are recorded, or whose duration is limited, from their controllers."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.faults.support import WAITS, Workbench, controller_of, is_running, until
from tests.gpu.standin import REST, Standin, gpu
from tests.runs.gated_project import kill, watchers
from tests.runs.gpu.test_recording import TRAIN, configure, ended, own_samples, samples, until_sampled
from tests.targets.remote_project import Remote
from tests.targets.remote_project import box as box
from tui_workbench.core.causes import Cause, text_of
from tui_workbench.core.model import RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.gpu.recording import Recorder
from tui_workbench.runs.store.rundir import ATTEMPT, LIMIT, Record, RunDirectory
from tui_workbench.runs.submission.launch import create_run
from tui_workbench.targets.gpu.feed import Feed
from tui_workbench.targets.gpu.sample import Sample

USES_GPU = TRAIN.replace("proc 0 %d", "proc %s %d").replace("% os.getpid()", "% (sys.argv[2], os.getpid())")
"""Uses the GPU whose number is in its second argument."""

WARNED = "MaxDurationMinutes: sent SIGTERM 1 min before its limit of 1 min"

GPUS = 3


def until_watched(directories: Sequence[Path]) -> int:
    """Wait until one watcher drives all runs, and return its process ID."""

    def holder() -> int:
        found = {controller_of(directory) for directory in directories}
        return found.pop() if len(found) == 1 and found <= set(watchers()) else 0

    return int(until(holder, "one watcher for all runs"))


class Trainings:
    """Runs that use one GPU each, on the machine `box`, until `end`."""

    def __init__(self, box: Remote, done: Path) -> None:
        self.box = box
        self._done = done

    def begin(self) -> list[str]:
        """Start a run on each GPU. Return their IDs when the GPUs of all runs have been sampled."""
        self.box.write(USES_GPU)
        runs = [self.box.detach("train.py", str(self._done), str(n), configuration="box") for n in range(GPUS)]
        for directory in self.directories(runs):
            until_sampled(directory, 1)
        return runs

    def directories(self, runs: Sequence[str]) -> list[Path]:
        return [self.box.run_directory(run_id) for run_id in runs]

    def until_more_samples(self, runs: Sequence[str]) -> None:
        for directory in self.directories(runs):
            until_sampled(directory, own_samples(directory) + 2)

    def end(self) -> None:
        self._done.touch()


@pytest.fixture
def trainings(box: Remote, standin: Standin) -> Iterator[Trainings]:
    standin.write(*(gpu(number) for number in range(GPUS)))
    standin.state.chmod(0o666)  # the scripts write to it
    box.configure({"maxConcurrentRuns": 0})
    variables = f"SetEnv PATH={standin.built.programs}:/usr/bin:/bin STANDIN_NVML_STATE={standin.state}"
    with box.machine.configured(variables):
        yield Trainings(box, standin.state.with_name("done"))


def assert_proven(box: Remote, run_id: str, number: int) -> None:
    """Check that a run has completed, and that it has used the GPU with this number."""
    box.until_status(run_id, "Completed")
    found = box.info(run_id)["gpu"]
    assert (found["verdict"], found["final"]) == ("proven", True)
    assert [each["number"] for each in found["devices"] if each["peak_memory"]] == [number]
    assert found["samples"] == len(samples(box.run_directory(run_id)))


def test_one_process_records_the_gpus_of_many_runs(box: Remote, trainings: Trainings) -> None:
    runs = trainings.begin()
    until_watched(trainings.directories(runs))
    trainings.until_more_samples(runs)
    trainings.end()
    for number, run_id in enumerate(runs):
        assert_proven(box, run_id, number)


def test_next_watcher_continues_the_samples(box: Remote, trainings: Trainings) -> None:
    runs = trainings.begin()
    killed = until_watched(trainings.directories(runs))
    kill(killed)
    assert box.run("experiment", "resume").code == 0
    assert until_watched(trainings.directories(runs)) != killed
    trainings.until_more_samples(runs)
    trainings.end()
    for number, run_id in enumerate(runs):
        assert_proven(box, run_id, number)


def test_watcher_warns_a_script_of_its_time_limit(box: Remote) -> None:
    box.configure(MaxDurationMinutes=1, SignalBeforeEndMinutes=1)
    watched, other = box.begin(), box.begin()
    until_watched([box.run_directory(watched), box.run_directory(other)])
    for run_id in (watched, other):
        box.until_status(run_id, "Canceled")
        assert box.info(run_id)["reason"] == WARNED


@pytest.fixture
def workbench(project_root: Path, standin: Standin) -> Workbench:
    """Return a project on this machine, which has two GPUs."""
    standin.write(gpu(0), gpu(1, REST))
    (project_root / "train.py").write_text(USES_GPU)
    return Workbench(project_root)


def test_watcher_enforces_policies(workbench: Workbench, tmp_path: Path) -> None:
    configure(workbench, "RequireGpu: true")
    workbench.write(f"{WAITS}print('PyTorch 2.13.0+cpu is a CPU build', flush=True)\ntime.sleep(60)\n")
    run_id = workbench.detach("train.py", str(tmp_path / "go"))
    until_watched([workbench.run_directory(run_id)])
    (tmp_path / "go").touch()
    assert ended(workbench, run_id)["reason"].startswith("RequireGpu: PyTorch is a CPU build")


def test_watcher_warns_each_attempt_of_its_time_limit(workbench: Workbench) -> None:
    configure(workbench, "Retry: {times: 1, on: [timeout], delay: 0}")
    configure(workbench, "MaxDurationMinutes: 1\nSignalBeforeEndMinutes: 1")
    workbench.write(WAITS)
    run_id = workbench.detach("train.py", "/nowhere")
    directory = RunDirectory(str(workbench.run_directory(run_id)))
    until_watched([workbench.run_directory(run_id)])
    until(directory.attempts, "the second attempt")
    until_watched([workbench.run_directory(run_id)])
    workbench.until_status(run_id, "Canceled")
    assert [event["reason"] for event in directory.events() if event["event"] == LIMIT] == [WARNED, WARNED]


def test_removed_run_is_no_longer_recorded(workbench: Workbench, tmp_path: Path) -> None:
    runs = [workbench.detach("train.py", str(tmp_path / "done"), str(number)) for number in range(2)]
    removed, other = (workbench.run_directory(run_id) for run_id in runs)
    watcher = until_watched([removed, other])
    until_sampled(removed, 1)
    script = int((removed / "pid").read_text().split()[0])
    os.rename(removed, tmp_path / "removed")

    def files() -> list[str]:
        return [os.readlink(each) for each in Path("/proc", str(watcher), "fd").iterdir() if each.is_symlink()]

    until(lambda: not any("removed/gpu.jsonl" in path for path in files()), "the end of the recording")
    assert is_running(script)
    os.kill(script, signal.SIGKILL)
    until_sampled(other, own_samples(other) + 2)
    (tmp_path / "done").touch()
    assert ended(workbench, runs[1])["gpu"]["verdict"] == "proven"


def _fail(cause: Cause) -> None:
    pytest.fail(text_of((cause,)))


class Recorded:
    """A run on this machine that is only recorded. The script is never started."""

    def __init__(self, folder: Path) -> None:
        self.directory, lock, self.record = create_run(Project.find(str(folder)), RunRequest("local", "train.py"))
        lock.release()

    def recorder(self, record: Record | None = None) -> Recorder:
        return Recorder(self.directory, record or self.record, _fail, _fail)

    def times(self) -> list[float]:
        return [each["t"] for each in samples(Path(self.directory.path))]


def wait_for_sample(feed: Feed, after: float = 0.0) -> float:
    """Wait until the machine has taken another sample, and return its time."""
    return float(
        until(lambda: next((each.time for each in feed.read() if isinstance(each, Sample) and each.time > after), 0.0))
    )


def ready(recorder: Recorder) -> Callable[[], bool]:
    return lambda: recorder.can_be_replaced


def test_next_recorder_stores_the_samples_that_were_taken_meanwhile(workbench: Workbench) -> None:
    """It does so even if the script ends at once."""
    run = Recorded(workbench.folder)
    with Feed(run.record.spec.target) as feed:
        first = run.recorder()
        assert not first.can_be_replaced
        until(ready(first), "a stored sample")
        first.stop()
        before = run.times()
        missed = wait_for_sample(feed, after=before[-1])
        run.recorder().stop()
    assert run.times()[: len(before)] == before
    assert missed in run.times()[len(before) :]
    assert run.times() == sorted(set(run.times()))


def test_samples_between_two_attempts_are_not_recorded(workbench: Workbench) -> None:
    run = Recorded(workbench.folder)
    with Feed(run.record.spec.target) as feed:
        first = run.recorder()
        until(ready(first), "a stored sample")
        first.stop()
        between = wait_for_sample(feed, after=run.times()[-1])
        run.directory.append_event(ATTEMPT, number=2, start=0, reason="exit code 1")
        second = run.recorder()
        until(lambda: run.times()[-1] > between, "a sample of the second attempt")
        second.stop()
    assert between not in run.times()


def test_recorder_without_gpu_can_be_replaced(workbench: Workbench, standin: Standin) -> None:
    standin.write()
    configure(workbench, "MaxDurationMinutes: 60")
    recorder = Recorded(workbench.folder).recorder()
    until(ready(recorder), "the answer of the driver")
    recorder.stop()
