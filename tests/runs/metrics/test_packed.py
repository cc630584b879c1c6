"""The logged values of an ended run with many values are compressed, and read as before."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults.support import Workbench, until
from tests.runs.metrics.support import curve, point, points, read, write
from tests.runs.support import make_run
from tui_workbench.runs.metrics import summary_of
from tui_workbench.runs.metrics.recording import MetricsRecorder
from tui_workbench.runs.store import metrics_file
from tui_workbench.runs.store.annotations import script_tags
from tui_workbench.runs.store.metrics_file import pack, unpack
from tui_workbench.runs.store.rundir import ControllerLock, RunDirectory
from tui_workbench.runs.transfer.downloads import attachments

if TYPE_CHECKING:
    from tui_workbench.projects.project import Project

CURVE = [(step, 1 / (step + 1)) for step in range(100)]


@pytest.fixture
def run(project: Project, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an ended run of this user with a curve and a tag, which is large enough to be compressed."""
    monkeypatch.setattr(metrics_file, "COMPRESS_FROM", 1)
    return logged_run(project, state="completed")


def logged_run(project: Project, **final: Any) -> Path:
    path = Path(make_run(project, "project_1700000000001", **final).path)
    points(path, *(point("loss", value, step) for step, value in CURVE))
    write(path / "metrics.jsonl", '{"kind":"tag","name":"best","step":null,"value":null,"time":1}\n', append=True)
    return path


def packed(run: Path) -> bool:
    return pack(RunDirectory(str(run)))


def files(run: Path) -> list[str]:
    return [name for name in sorted(os.listdir(run)) if name.startswith(("metrics", ".workbench"))]


def test_compressed_values_are_read_like_plain_ones(run: Path) -> None:
    plain = (run / "metrics.jsonl").read_bytes()
    recorder = MetricsRecorder(RunDirectory(str(run)))
    recorder.read()
    recorder.store()
    recorder.store_late()
    recorder.pack()
    assert files(run) == ["metrics.json", "metrics.jsonl.gz"]
    assert gzip.decompress((run / "metrics.jsonl.gz").read_bytes()) == plain
    for _ in ("with the summary", "without it"):
        assert curve(read(run), "loss") == CURVE
        assert summary_of(str(run)) == {"loss": 0.01}
        (run / "metrics.json").unlink(missing_ok=True)
    assert script_tags(str(run)) == {"best": ""}
    assert "metrics.jsonl.gz" in attachments(str(run))


def test_summary_of_many_compressed_values_reads_their_ends(run: Path) -> None:
    with (run / "metrics.jsonl").open("ab") as file:
        file.write(b"\n" * 3_000_000)
    points(run, point("loss", 0.125, 100))
    assert packed(run)
    assert summary_of(str(run)) == {"loss": 0.125}


def test_small_files_stay_plain(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert not packed(run)
    assert files(run) == ["metrics.jsonl"]


def test_file_that_a_process_can_write_to_stays_plain(run: Path) -> None:
    with (run / "metrics.jsonl").open("a"):
        assert not packed(run)
    assert files(run) == ["metrics.jsonl"]
    assert packed(run)


def test_values_of_an_active_run_stay_plain(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_file, "COMPRESS_FROM", 1)
    run = logged_run(project)
    assert not packed(run)
    assert files(run) == ["metrics.jsonl"]


def test_values_stay_plain_while_a_process_works_on_the_run(run: Path) -> None:
    lock = ControllerLock.acquire(RunDirectory(str(run)))
    assert lock is not None
    with lock:
        assert not packed(run)
    assert files(run) == ["metrics.jsonl"]


def test_full_disk_leaves_the_plain_file(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    MetricsRecorder(RunDirectory(str(run))).pack()
    assert files(run) == ["metrics.jsonl"]
    assert curve(read(run), "loss") == CURVE


def test_interrupted_compression_counts_no_value_twice(run: Path) -> None:
    plain = (run / "metrics.jsonl").read_bytes()
    assert packed(run)
    (run / "metrics.jsonl").write_bytes(plain)  # the process was killed before it removed the file
    assert curve(read(run), "loss") == CURVE
    unpack(str(run))
    assert files(run) == ["metrics.jsonl"]
    assert (run / "metrics.jsonl").read_bytes() == plain


def test_damaged_file_is_read_up_to_the_damage(run: Path) -> None:
    with (run / "metrics.jsonl").open("ab") as file:
        file.write(os.urandom(3 << 20).replace(b"\n", b" ") + b"\n")
    assert packed(run)
    data = (run / "metrics.jsonl.gz").read_bytes()
    (run / "metrics.jsonl.gz").write_bytes(data[: len(data) // 2])
    assert curve(read(run), "loss") == CURVE
    (run / "metrics.jsonl.gz").write_bytes(b"no gzip")
    assert not read(run).summary()


def test_open_details_show_values_that_are_compressed_meanwhile(project: Project, run: Path) -> None:
    metrics = read(run)
    points(run, point("loss", 0.125, 100))
    assert packed(run)
    assert metrics.refresh()
    assert curve(metrics, "loss") == [*CURVE, (100, 0.125)]
    assert not metrics.refresh()


SCRIPT = """\
import os, sys, workbench
if os.environ.get("WORKBENCH_ATTEMPT", "1") == "1":
    with open(os.environ["WORKBENCH_RUN_DIRECTORY"] + "/metrics.jsonl", "ab") as file:
        file.write(b"\\n" * 10_000_000)
    workbench.log("loss", 0.5, 1)
    sys.exit(3)
workbench.log("loss", 0.25, 2)
"""


def test_another_attempt_continues_compressed_values(project_root: Path) -> None:
    workbench = Workbench(project_root)
    workbench.write(SCRIPT)
    assert workbench.submit("train.py").code == 3
    (record,) = workbench.history()
    run = workbench.folder / ".workbench" / "runs" / record["run_id"]
    until((run / "metrics.jsonl.gz").exists)
    until(lambda: not (run / "metrics.jsonl").exists())
    assert workbench.run("experiment", "resume", "--run", record["run_id"]).code == 0
    until(lambda: workbench.info(record["run_id"])["status"] == "completed")
    assert curve(read(run), "loss") == [(1, 0.5), (2, 0.25)]
