"""Metrics and rank output of a remote run during the run; logging from scripts on any target."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.faults.support import until
from tests.machines import Machine
from tests.runs.metrics.support import curve, event, events, read
from tests.targets.remote_project import Remote
from tui_workbench.runs.metrics import RunMetrics
from tui_workbench.targets.hosts import mirror as live
from tui_workbench.targets.hosts.host import Completed, LocalHost
from tui_workbench.targets.hosts.mirror import LiveFiles
from tui_workbench.targets.hosts.sdk import sdk_version

EVENTS = "work/runs/events.out.tfevents.1.machine"


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """Return the run's directory on its machine."""
    path = tmp_path / "there"
    (path / "work" / "runs").mkdir(parents=True)
    (path / "placed").touch()
    return path


@pytest.fixture
def here(tmp_path: Path) -> Path:
    path = tmp_path / "here"
    path.mkdir()
    return path


class Clock:
    """The clock of the module, which stands still unless a test moves `now`."""

    def __init__(self) -> None:
        self.now = 1.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(live, "time", made)
    return made


@pytest.fixture
def files(there: Path, here: Path) -> LiveFiles:
    return LiveFiles(LocalHost(), str(there), str(here))


def append(path: Path, data: bytes) -> None:
    """Append, and set a modification time that is later than that of the working copy."""
    with path.open("ab") as file:
        file.write(data)
    moment = (path.parent.parent.parent if "work" in path.parts else path.parent).joinpath("placed").stat().st_mtime + 1
    os.utime(path, (moment, moment))


def test_new_bytes_are_fetched(files: LiveFiles, there: Path, here: Path) -> None:
    assert not files.fetch_all()
    assert os.listdir(here) == []
    for data in (b'{"name":"a"', b"}\n", b"\xff\0\n" * 1000):
        append(there / "metrics.jsonl", data)
        append(there / EVENTS, data)
        assert files.fetch_all()
        assert (here / "metrics.jsonl").read_bytes() == (there / "metrics.jsonl").read_bytes()
        assert (here / "live" / EVENTS).read_bytes() == (there / EVENTS).read_bytes()
        assert not files.fetch_all()


def test_large_files_are_fetched_in_parts(
    files: LiveFiles, there: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MOST_BYTES", 1000)
    append(there / "metrics.jsonl", bytes(range(256)) * 10)
    append(there / EVENTS, b"x" * 1500)
    assert files.fetch_all()
    assert (here / "metrics.jsonl").read_bytes() == bytes(range(256)) * 10
    assert (here / "live" / EVENTS).stat().st_size == 1500


def test_files_not_written_by_the_run_are_not_fetched(files: LiveFiles, there: Path, here: Path) -> None:
    (there / EVENTS).write_bytes(b"old")
    moment = (there / "placed").stat().st_mtime - 1
    os.utime(there / EVENTS, (moment, moment))
    assert not files.fetch_all()


def test_two_processes_fetch_each_byte_once(files: LiveFiles, there: Path, here: Path) -> None:
    append(there / "metrics.jsonl", b"one\n")
    files.fetch_all()
    append(there / "metrics.jsonl", b"two\n")
    assert LiveFiles(LocalHost(), str(there), str(here)).fetch_all()
    files.fetch_all()
    assert (here / "metrics.jsonl").read_bytes() == b"one\ntwo\n"


def test_bytes_fetched_by_another_process_are_dropped(there: Path, here: Path) -> None:
    append(there / "metrics.jsonl", b"one\n")
    other = LiveFiles(LocalHost(), str(there), str(here))

    class SlowHost(LocalHost):
        """A host on which another process fetches everything after each command."""

        def run(self, argv: Sequence[str], **options: Any) -> Completed:
            done = super().run(argv, **options)
            other.fetch_all()
            return done

    LiveFiles(SlowHost(), str(there), str(here)).fetch_all()
    assert (here / "metrics.jsonl").read_bytes() == b"one\n"


def test_long_log_of_a_rank_does_not_delay_other_files(
    clock: Clock, files: LiveFiles, there: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MOST_BYTES", 8000)
    (there / "ranks").mkdir()
    (there / "ranks" / "0.log").write_bytes(bytes(range(256)) * 20)
    (there / "ranks" / "1.log").write_bytes(b"few\n")
    append(there / "metrics.jsonl", b"one\n")
    clock.now += files.timeout
    files.poll()
    assert (here / "ranks" / "1.log").read_bytes() == b"few\n"
    assert (here / "metrics.jsonl").read_bytes() == b"one\n"
    assert (here / "ranks" / "0.log").stat().st_size == 1000
    assert files.timeout == 0.0  # more bytes are left
    files.finish()
    assert (here / "ranks" / "0.log").read_bytes() == bytes(range(256)) * 20


def test_output_makes_the_next_poll_earlier(clock: Clock, files: LiveFiles) -> None:
    for _ in range(12):
        clock.now += files.timeout
        files.poll()
    assert files.timeout > live.SHORTEST
    files.poll_soon()
    assert files.timeout <= live.SHORTEST


def test_logs_of_nodes_are_fetched(clock: Clock, files: LiveFiles, here: Path, there: Path) -> None:
    (there / "ranks" / "node2").mkdir(parents=True)
    (there / "ranks" / "node2" / "3.log").write_bytes(b"of rank 3\n")
    clock.now += files.timeout
    files.poll()
    assert (here / "ranks" / "node2" / "3.log").read_bytes() == b"of rank 3\n"


@pytest.mark.parametrize(
    "path",
    [
        "../x", "work/../../x", "/etc/x", "", "run.json", "output.log", "ranks", "ranks/..", "ranks/../x", "gpu/a/b",
        "ranks/a/b/c",
    ],
)  # fmt: skip
def test_other_paths_are_refused(files: LiveFiles, path: str) -> None:
    assert files.local_path(path) == ""


def test_missing_folder_has_no_files(here: Path) -> None:
    assert not LiveFiles(LocalHost(), "/nowhere", str(here)).fetch_all()


def test_polls_become_less_frequent_without_new_bytes(clock: Clock, files: LiveFiles, there: Path) -> None:
    pauses = []
    for _ in range(12):
        clock.now += files.timeout
        files.poll()
        pauses.append(files.timeout)
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (live.SHORTEST * live.GROWTH, live.LONGEST)
    append(there / "metrics.jsonl", b"new\n")
    clock.now += files.timeout
    files.poll()
    assert files.timeout == live.SHORTEST


def test_event_files_are_fetched_once_during_and_after_the_run(
    files: LiveFiles, there: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui_workbench.runs.metrics.discovery.SHARE_OF_TIME", float("inf"))
    append(there / EVENTS, events("loss", [3, 2]))
    files.fetch_all()
    metrics = read(here)
    assert curve(metrics, "loss") == [(0, 3), (1, 2)]
    append(there / EVENTS, event("loss", 1, 2))
    shutil.copytree(there / "work", here / "work")
    files.finish()
    assert not (here / "live").exists()
    metrics.refresh()
    assert curve(metrics, "loss") == [(0, 3), (1, 2), (2, 1)]


# A real machine


SCRIPT = """\
import os, sys, time
import workbench
from azureml.logging import get_azureml_logger
assert os.environ["PYTHONPATH"].endswith(":/of/the/user"), os.environ["PYTHONPATH"]
for step in range(3):
    workbench.log("loss", 1 / (step + 1), step)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
os.chdir("/")
get_azureml_logger().log("Accuracy", 0.5)
workbench.upload_content("made.txt", "made")
"""


def test_remote_script_logs_metrics(box: Remote, gpubox: Machine) -> None:
    box.write(SCRIPT)
    box.configure(EnvironmentVariables={"PYTHONPATH": "/of/the/user"})
    go = gpubox.home() / "go"
    go.unlink(missing_ok=True)
    seen_from_there = f"/home/{go.parent.name}/go"
    run_id = box.submit("--detach", "train.py", seen_from_there, configuration="box").out.split()[1]
    metrics = RunMetrics(str(box.run_directory(run_id)))

    def has_come() -> bool:
        metrics.refresh()
        return len(metrics.series("loss").values) == 3

    until(has_come, "the first values to be here")
    assert box.status(run_id) == "Running"
    go.touch()
    box.until_status(run_id, "Completed", "Failed")
    metrics.refresh()
    assert {name: found.last for name, found in metrics.summary().items()} == {"loss": 1 / 3, "Accuracy": 0.5}
    assert (box.run_directory(run_id) / "outputs" / "made.txt").read_text() == "made"
    assert box.info(run_id)["Accuracy"] == 0.5
    sent = gpubox.home() / ".workbench-tui" / "sdk"
    assert [path.name for path in sent.iterdir()] == [sdk_version()]
