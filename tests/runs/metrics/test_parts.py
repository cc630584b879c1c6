"""The points of a large run are moved to parts while the run goes on, and are read from them."""

from __future__ import annotations

import json
import weakref
from pathlib import Path

import pytest

from tests.runs.metrics.support import curve, end, log, point, points, write
from tui_workbench.runs.metrics import LoggedItem, RunMetrics, run_metrics, tables
from tui_workbench.runs.metrics.recording import MetricsRecorder
from tui_workbench.runs.store.rundir import RunDirectory

PARTS = ("metrics.cache.1", "metrics.cache.2", "metrics.cache.3")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_metrics, "PART_POINTS", 50)
    monkeypatch.setattr(tables, "PIECE", 4096)


def log_steps(run: Path, steps: range) -> None:
    """Append points of three metrics, of which one has no steps, and an item, a text and an invalid line."""
    for step in steps:
        log(run, {"step": step, "metrics": {"loss": 1 / (step + 1), "odd": "NaN" if step % 7 else step}})
        points(run, point("counted", step % 10))
    log(run, {"kind": "list", "name": "roc", "value": [steps[0], 1]}, {"name": "phase", "value": f"to {steps[-1]}"})
    write(run / "metrics.jsonl", "no json\n", append=True)


def follow(run: Path) -> MetricsRecorder:
    """Read all metrics in pieces, as the controller does during a run."""
    recorder = MetricsRecorder(RunDirectory(str(run)))
    recorder.on_metrics = lambda _: True  # reads short logs in pieces, too
    while recorder.read_piece():
        pass
    return recorder


def parts_of(run: Path) -> list[str]:
    return sorted(path.name for path in run.glob("metrics.cache.*"))


def everything(metrics: RunMetrics) -> str:
    summary = metrics.summary()
    items: list[LoggedItem] = metrics.items("list")
    return repr([sorted(summary.items()), [metrics.series(name) for name in sorted(summary)], items, metrics.notes()])


def from_the_log(run: Path) -> str:
    metrics = RunMetrics(str(run), use_stored=False)
    metrics.refresh()
    return everything(metrics)


def opened(run: Path) -> str:
    metrics = RunMetrics(str(run))
    metrics.refresh()
    return everything(metrics)


def store(recorder: MetricsRecorder, directory: Path) -> None:
    """Store the metrics as at the end of the run, and end the run."""
    recorder.read()
    recorder.store()
    recorder.store_late()
    end(directory)


def test_active_run_is_read_from_its_parts_and_the_rest_of_the_log(tmp_path: Path) -> None:
    log_steps(tmp_path, range(200))
    follow(tmp_path)
    assert len(parts_of(tmp_path)) > 1
    log_steps(tmp_path, range(200, 250))
    log = (tmp_path / "metrics.jsonl").read_text()
    expected = from_the_log(tmp_path)
    assert opened(tmp_path) == expected

    # Only the rest of the log is parsed.
    begin = log.index("\n")
    (tmp_path / "metrics.jsonl").write_text("x" * begin + log[begin:])
    assert opened(tmp_path) == expected


def test_ended_run_is_read_from_its_parts_and_the_cache(tmp_path: Path) -> None:
    log_steps(tmp_path, range(200))
    recorder = follow(tmp_path)
    log_steps(tmp_path, range(200, 250))
    write(tmp_path / "outputs" / "metrics.csv", "epoch,val\n1,2\n")
    store(recorder, tmp_path)
    expected = from_the_log(tmp_path)
    assert opened(tmp_path) == expected
    assert json.loads((tmp_path / "metrics.json").read_text())["metrics"]["loss"]["count"] == 250
    log = (tmp_path / "metrics.jsonl").read_bytes()
    (tmp_path / "metrics.jsonl").write_bytes(b"x" * 100 + log[100:])
    assert opened(tmp_path) == expected


def test_parts_are_stored_for_a_log_that_was_not_followed(tmp_path: Path) -> None:
    log_steps(tmp_path, range(300))
    recorder = MetricsRecorder(RunDirectory(str(tmp_path)))
    store(recorder, tmp_path)
    assert opened(tmp_path) == from_the_log(tmp_path)


def test_new_controller_continues_after_the_parts(tmp_path: Path) -> None:
    log_steps(tmp_path, range(200))
    follow(tmp_path)
    before = {name: (tmp_path / name).stat().st_mtime_ns for name in parts_of(tmp_path)}
    log_steps(tmp_path, range(200, 400))
    recorder = follow(tmp_path)
    assert len(parts_of(tmp_path)) > len(before)
    assert {name: (tmp_path / name).stat().st_mtime_ns for name in before} == before
    store(recorder, tmp_path)
    assert opened(tmp_path) == from_the_log(tmp_path)


def test_new_attempt_continues_after_the_parts(tmp_path: Path) -> None:
    for attempt in range(3):
        log_steps(tmp_path, range(attempt * 100, attempt * 100 + 150))
        recorder = follow(tmp_path)
        store(recorder, tmp_path)
        assert opened(tmp_path) == from_the_log(tmp_path)


def test_replaced_log_invalidates_the_parts(tmp_path: Path) -> None:
    log_steps(tmp_path, range(200))
    recorder = follow(tmp_path)
    (tmp_path / "metrics.jsonl").unlink()
    log_steps(tmp_path, range(1000, 1300))
    assert opened(tmp_path) == from_the_log(tmp_path)
    while recorder.read_piece():
        pass
    assert opened(tmp_path) == from_the_log(tmp_path)
    store(recorder, tmp_path)
    assert opened(tmp_path) == from_the_log(tmp_path)


@pytest.mark.parametrize("is_ended", [False, True], ids=["active", "ended"])
def test_missing_and_damaged_parts_are_ignored(tmp_path: Path, is_ended: bool) -> None:
    log_steps(tmp_path, range(200))
    recorder = follow(tmp_path)
    if is_ended:
        store(recorder, tmp_path)
    expected, elsewhere = from_the_log(tmp_path), tmp_path / "elsewhere"
    for path in (tmp_path / name for name in PARTS):
        whole = path.read_bytes()
        for data in (None, b"", b"damaged", whole[:-8], elsewhere):
            path.unlink()
            if isinstance(data, Path):
                data.write_bytes(whole)
                path.symlink_to(data)
            elif data is not None:
                path.write_bytes(data)
            assert opened(tmp_path) == expected, (path.name, data)
            path.unlink(missing_ok=True)
            path.write_bytes(whole)


def test_parts_can_be_deleted_while_open(tmp_path: Path) -> None:
    log_steps(tmp_path, range(200))
    follow(tmp_path)
    metrics = RunMetrics(str(tmp_path))
    metrics.refresh()
    (tmp_path / PARTS[1]).unlink()
    assert len(curve(metrics, "loss")) == 200
    assert everything(metrics) == from_the_log(tmp_path)


def test_points_stay_in_memory_if_a_part_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / PARTS[0]).mkdir(parents=True)
    log_steps(tmp_path, range(200))
    recorder = follow(tmp_path)
    store(recorder, tmp_path)
    assert opened(tmp_path) == from_the_log(tmp_path)


def test_reader_is_freed_without_garbage_collection(tmp_path: Path) -> None:
    log_steps(tmp_path, range(200))
    follow(tmp_path)
    metrics = RunMetrics(str(tmp_path))
    metrics.refresh()
    assert len(curve(metrics, "loss")) == 200
    reader = weakref.ref(metrics)
    del metrics
    assert reader() is None
