"""The lines of a large ended run are compressed, and readers see the same metrics in every state of the files."""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import subprocess
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pytest

from tests.faults.support import Workbench, until
from tests.proc import PROC
from tests.runs.metrics.support import curve, end, log, point, points, read
from tui_workbench.core import locks
from tui_workbench.core.errors import StorageError
from tui_workbench.core.files import replacing_below
from tui_workbench.runs.lifecycle.retrying import add_attempt
from tui_workbench.runs.metrics import RunMetrics, summary_of
from tui_workbench.runs.metrics.recording import MetricsRecorder
from tui_workbench.runs.store import logged
from tui_workbench.runs.store.annotations import script_tags
from tui_workbench.runs.store.logged import compress, logged_size, open_logged, restore
from tui_workbench.runs.store.rundir import Ending, RunDirectory
from tui_workbench.runs.transfer.downloads import attachments, download

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PLAIN, COMPRESSED = "metrics.jsonl", "metrics.jsonl.gz"


@pytest.fixture(autouse=True)
def small_files_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logged, "LARGE", 1000)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return an ended run with logged lines, whose metrics are not stored."""
    path = tmp_path / "run"
    path.mkdir()
    log_steps(path, range(1000))
    log(path, {"kind": "tag", "name": "best", "value": None}, {"kind": "list", "name": "roc", "value": [1, 2]})
    end(path)
    return path


def log_steps(run: Path, steps: range) -> None:
    points(run, *(point("loss", 1 / (step + 1), step, 1.7e9 + step) for step in steps))


def start_another_attempt(run: Path) -> None:
    directory = RunDirectory(str(run))
    add_attempt(directory, Ending("failed", (), 1, 1.0), anew=True)


def files(run: Path) -> list[str]:
    return sorted(path.name for path in run.iterdir() if path.name.startswith((PLAIN, ".workbench-")))


def lines_of(run: Path) -> bytes:
    with open_logged(str(run)) as lines:
        data = lines.file.read()
        assert len(data) == lines.size == logged_size(str(run))
        return data


def everything(run: Path) -> str:
    metrics, directory = read(run), str(run)
    curves = [metrics.series(name) for name in sorted(metrics.summary())]
    return repr([metrics.summary(), curves, metrics.items("list"), summary_of(directory), script_tags(directory)])


def test_lines_of_an_ended_run_are_compressed(run: Path, tmp_path: Path) -> None:
    data, expected = (run / PLAIN).read_bytes(), everything(run)
    compress(RunDirectory(str(run)))
    assert files(run) == [COMPRESSED]
    assert subprocess.run(["gzip", "-dc", run / COMPRESSED], stdout=subprocess.PIPE, check=True).stdout == data
    assert lines_of(run) == data
    assert everything(run) == expected
    assert COMPRESSED in attachments(str(run))
    (copy,) = download(str(run), str(tmp_path / "copy"), [COMPRESSED])
    assert gzip.decompress(Path(copy).read_bytes()) == data


def test_stored_metrics_stay_valid(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = MetricsRecorder(RunDirectory(str(run)))
    recorder.read()
    recorder.store()
    expected = everything(run)
    recorder.store_late()
    assert files(run) == [COMPRESSED]
    monkeypatch.setattr("tui_workbench.runs.metrics.RunMetrics", lambda *_, **__: pytest.fail("the lines were read"))
    assert summary_of(str(run))["loss"] == 1 / 1000
    monkeypatch.undo()
    assert everything(run) == expected
    (run / "metrics.json").unlink()
    assert everything(run) == expected


def test_lines_stay_as_they_are_while_they_may_grow(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = RunDirectory(str(run))
    monkeypatch.setattr(logged, "LARGE", (run / PLAIN).stat().st_size + 1)
    compress(directory)
    monkeypatch.setattr(logged, "LARGE", 1000)
    directory.append_event("step", step="prepare", status="done")
    directory.append_event("step", step="fetch", status="begun")  # its files are still on another machine
    compress(directory)
    directory.append_event("step", step="fetch", status="done")
    start_another_attempt(run)
    compress(directory)
    assert files(run) == [PLAIN]
    (run / PLAIN).unlink()
    compress(directory)
    assert files(run) == []


def test_lines_logged_while_they_are_compressed_are_kept(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process can survive its run."""

    @contextlib.contextmanager
    def grow(*arguments: Any, **options: Any) -> Iterator[BinaryIO]:
        with replacing_below(*arguments, **options) as file:
            yield file
        log_steps(run, range(1000, 1001))

    monkeypatch.setattr(logged, "replacing_below", grow)
    compress(RunDirectory(str(run)))
    assert files(run) == [PLAIN]
    assert len(curve(read(run), "loss")) == 1001


def test_lines_logged_after_the_end_are_kept_for_the_next_attempt(run: Path) -> None:
    compress(RunDirectory(str(run)))
    log_steps(run, range(1000, 1001))
    assert len(curve(read(run), "loss")) == 1000
    start_another_attempt(run)
    restore(RunDirectory(str(run)))
    assert files(run) == [PLAIN]
    assert len(curve(read(run), "loss")) == 1001


def test_open_reader_reads_each_line_once(run: Path) -> None:
    directory, metrics = RunDirectory(str(run)), RunMetrics(str(run), use_stored=False)
    metrics.refresh()
    compress(directory)
    assert not metrics.refresh()
    start_another_attempt(run)
    restore(directory)
    log_steps(run, range(1000, 1100))
    metrics.refresh()
    assert [step for step, _ in curve(metrics, "loss")] == list(range(1100))


def test_large_compressed_lines_are_read_at_their_ends_only(run: Path) -> None:
    compress(RunDirectory(str(run)))
    metrics = RunMetrics(str(run), at_most=10_000)
    metrics.refresh()
    found = curve(metrics, "loss")
    assert len(found) < 500
    assert (found[0], found[-1]) == ((0, 1), (999, 1 / 1000))


KILLED = """\
import os, sys
from tui_workbench.runs.store import logged
from tui_workbench.runs.store.rundir import RunDirectory
logged.LARGE, left = 1000, int(sys.argv[3])

def count(event, arguments):
    global left
    if event in ("open", "os.rename", "os.remove"):
        left -= 1
        if left < 0:
            os._exit(9)

sys.addaudithook(count)
getattr(logged, sys.argv[2])(RunDirectory(sys.argv[1]))
"""


@pytest.mark.processes
@pytest.mark.parametrize("action", ["compress", "restore"])
def test_kill_at_any_step_loses_nothing(run: Path, action: str) -> None:
    directory, data = RunDirectory(str(run)), (run / PLAIN).read_bytes()
    do, undo = (compress, restore) if action == "compress" else (restore, compress)
    final = COMPRESSED if action == "compress" else PLAIN
    seen = set()
    for steps in range(100):
        undo(directory)
        command = [sys.executable, "-c", KILLED, str(run), action, str(steps)]
        code = subprocess.run(command, check=False).returncode
        seen.add(tuple(name for name in files(run) if not name.endswith(".new")))
        assert lines_of(run) == data
        assert len(curve(read(run), "loss")) == 1000
        do(directory)
        assert files(run) == [final]
        assert lines_of(run) == data
        if code == 0:
            break
        assert code == 9
    assert seen == {(PLAIN,), (PLAIN, COMPRESSED), (COMPRESSED,)}


@pytest.mark.processes
def test_next_attempt_waits_for_the_compression(run: Path) -> None:
    start_another_attempt(run)
    program = f"from tests.runs.store.test_logged import *\nrestore(RunDirectory({str(run)!r}))"
    with locks.held(os.open(run / PLAIN, os.O_RDWR)):
        process = subprocess.Popen([sys.executable, "-c", program])
        until(lambda: re.search(rf"-> FLOCK .* {process.pid} ", (PROC / "locks").read_text()))
    assert process.wait() == 0


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_bytes(b"precious")
    return path


@pytest.mark.parametrize("name", [PLAIN, COMPRESSED])
def test_links_are_not_followed(run: Path, victim: Path, name: str) -> None:
    directory, data = RunDirectory(str(run)), (run / PLAIN).read_bytes()
    if name == PLAIN:
        (run / PLAIN).rename(victim)
        (run / PLAIN).symlink_to(victim)
        assert logged_size(str(run)) == -1
        with pytest.raises(OSError, match="symbolic links"):
            compress(directory)
        with pytest.raises(StorageError):
            restore(directory)
        assert victim.read_bytes() == data
        return
    (run / COMPRESSED).symlink_to(victim)
    assert lines_of(run) == data
    restore(directory)
    assert files(run) == [PLAIN]
    (run / COMPRESSED).symlink_to(victim)
    compress(directory)
    assert not (run / COMPRESSED).is_symlink()
    assert lines_of(run) == data
    assert victim.read_bytes() == b"precious"


def test_compression_does_not_write_into_a_hard_link(run: Path, victim: Path) -> None:
    (run / COMPRESSED).hardlink_to(victim)
    compress(RunDirectory(str(run)))
    assert files(run) == [COMPRESSED]
    assert victim.read_bytes() == b"precious"


@pytest.mark.parametrize("name", [PLAIN, COMPRESSED])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_special_files_are_ignored(run: Path, name: str, make: Callable[[Path], None]) -> None:
    data = (run / PLAIN).read_bytes()
    if name == PLAIN:
        compress(RunDirectory(str(run)))
    make(run / name)
    assert lines_of(run) == data
    recorder = MetricsRecorder(RunDirectory(str(run)))
    recorder.store_late()
    assert lines_of(run) == data


@pytest.mark.parametrize("damage", ["cut", "changed", "header", "empty"])
def test_damaged_file_causes_no_error_in_readers(run: Path, damage: str) -> None:
    compress(RunDirectory(str(run)))
    data = (run / COMPRESSED).read_bytes()
    middle = len(data) // 2
    changed = {
        "cut": data[:middle],
        "changed": data[:middle] + bytes(100) + data[middle + 100 :],
        "header": data.replace(b"\xff", b"\xffx", 1),
        "empty": b"",
    }
    (run / COMPRESSED).write_bytes(changed[damage])
    assert len(curve(read(run), "loss")) < 1000
    everything(run)
    if damage in ("cut", "changed"):
        with pytest.raises(StorageError):
            restore(RunDirectory(str(run)))
        assert files(run) == [COMPRESSED]


TAG = b'{"kind":"tag","name":"best","value":null}\n'


@pytest.mark.parametrize(("size", "tags"), [(47_000_000, {}), (len(TAG), {"best": ""})])
def test_small_file_does_not_block_readers(run: Path, size: int, tags: dict[str, str]) -> None:
    (run / PLAIN).unlink()
    deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    data = deflate.compress(TAG + b" " * 47_000_000) + deflate.flush()
    (run / COMPRESSED).write_bytes(b"\x1f\x8b\x08\x10\0\0\0\0\0\xff%d\0" % size + data)
    assert script_tags(str(run)) == tags
    assert read(run).summary() == {}


def test_very_uniform_lines_stay_as_they_are(run: Path) -> None:
    with (run / PLAIN).open("ab") as file:
        file.write(b" " * 10_000_000)
    compress(RunDirectory(str(run)))
    assert files(run) == [PLAIN]


GROWS = """\
import os, workbench
attempt = int(os.environ.get("WORKBENCH_ATTEMPT", "1"))
workbench.log("attempt", attempt, attempt)
with open(os.environ["WORKBENCH_RUN_DIRECTORY"] + "/metrics.jsonl", "a") as file:
    for step in range(100):
        file.write('{"name":"loss","step":%d,"value":1,"time":1.0}\\n' % step + "#" + os.urandom(100_000).hex() + "\\n")
raise SystemExit(3)
"""


@pytest.mark.processes
def test_another_attempt_appends_to_the_lines(project_root: Path) -> None:
    workbench = Workbench(project_root)
    workbench.write(GROWS)
    workbench.submit("train.py")
    (record,) = workbench.history()
    run = workbench.run_directory(record["run_id"])
    until(lambda: files(run) == [COMPRESSED])
    assert workbench.run("experiment", "resume", "--run", record["run_id"]).code == 0
    until(lambda: workbench.info(record["run_id"])["end_time_utc"] and files(run) == [COMPRESSED])
    metrics = read(run)
    assert curve(metrics, "attempt") == [(1, 1), (2, 2)]
    assert len(curve(metrics, "loss")) == 100  # the second attempt has replaced the values of all steps
    assert len(gzip.decompress((run / COMPRESSED).read_bytes()).split(b'"loss"')) == 201


def test_lines_around_a_hole_of_a_terabyte_are_read(run: Path) -> None:
    (run / PLAIN).unlink()
    with (run / PLAIN).open("wb") as file:
        file.write(TAG)
        file.seek(1 << 40)
        file.write(b"\n" + TAG.replace(b"best", b"last") + b'{"name":"loss","step":1,"value":0.5}\n')
    assert script_tags(str(run)) == {"best": "", "last": ""}
    assert [value for _, value in curve(read(run), "loss")] == [0.5]
    compress(RunDirectory(str(run)))
    assert files(run) == [PLAIN]
