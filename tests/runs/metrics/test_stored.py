"""Stored metrics of ended runs equal the metrics in their files, and become invalid when these change."""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.runs.metrics.support import curve, end, log, point, points, read, write
from tui_workbench.runs.metrics import RunMetrics, recording, stored, summary_of
from tui_workbench.runs.metrics.curves_file import MAGIC
from tui_workbench.runs.metrics.recording import MetricsRecorder
from tui_workbench.runs.store.annotations import JOURNAL
from tui_workbench.runs.store.rundir import RunDirectory


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an ended run with all kinds of metrics, stored by its controller."""
    monkeypatch.setattr(stored, "CACHE_FROM", 1)
    path = tmp_path / "run"
    path.mkdir()
    points(path, *(point("loss", 1 / (step + 1), step) for step in range(100)), point("loss", "NaN", 100))
    points(path, point("odd", "Infinity", 0), point("phase", "done"), point("損失/\x1b", 3, 0))
    log(path, {"kind": "list", "name": "roc", "value": [1, 2]}, {"kind": "tag", "name": "best", "value": None})
    write(path / "output.log", "epoch 1 accuracy 0.5\nno json\n")
    write(path / "outputs" / "metrics.csv", "epoch,val\n1,2\n")
    write(path / "metrics.jsonl", "foreign\n", append=True)
    store(path)
    end(path)
    return path


def store(run: Path) -> None:
    recorder = MetricsRecorder(RunDirectory(str(run)))
    recorder.read()
    recorder.store()


def tags(run: Path) -> dict[str, str]:
    return stored.tags_of_script(str(run), stored.read_summary(str(run)))


def read_cache(run: Path) -> tuple[dict[str, Any], bytes]:
    """Return the header of the cache, and the bytes after it."""
    data = (run / "metrics.cache").read_bytes()
    start = len(MAGIC) + 8
    size = int.from_bytes(data[start - 8 : start], "little")
    return json.loads(data[start : start + size]), data[start + size :]


def write_cache(run: Path, head: dict[str, Any], rest: bytes) -> None:
    data = json.dumps(head).encode()
    (run / "metrics.cache").write_bytes(MAGIC + len(data).to_bytes(8, "little") + data + rest)


def everything(metrics: RunMetrics) -> str:
    """Everything that `RunMetrics` returns."""
    summary = metrics.summary()
    found = [
        sorted(map(repr, summary.values())),
        {name: metrics.series(name) for name in sorted(summary)},
        [metrics.items(kind) for kind in ("list", "tag", "image")],
        metrics.notes(),
    ]
    return repr(found)


def test_cache_equals_the_files(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui_workbench.runs.metrics.tail.Reader.refresh", lambda _: pytest.fail("it was read"))
    from_cache = read(run)
    told = everything(from_cache)
    monkeypatch.undo()
    anew = RunMetrics(str(run), use_stored=False)
    anew.refresh()
    assert told == everything(anew)
    assert not from_cache.refresh()


def test_summary_is_plain_json(run: Path) -> None:
    def refuse(name: str) -> None:
        pytest.fail(f"{name} is no JSON")

    found = json.loads((run / "metrics.json").read_text(), parse_constant=refuse)
    assert found["metrics"]["loss"] == {
        "kind": "scalar", "last": "NaN", "count": 101, "minimum": 0.01, "maximum": 1.0, "source": "sdk",
    }  # fmt: skip
    assert found["files"] == ["outputs/metrics.csv"]


def test_last_values_come_from_the_summary(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui_workbench.runs.metrics.RunMetrics", lambda _: pytest.fail("it was read"))
    found = summary_of(str(run))
    assert math.isnan(float(found.pop("loss")))
    assert found == {"odd": math.inf, "phase": "done", "損失/\x1b": 3, "accuracy": 0.5, "val": 2}


def test_tags_come_from_the_summary(tmp_path: Path) -> None:
    """Reading them from the lines of a large run takes seconds."""
    lines = tmp_path / "metrics.jsonl"
    write(lines, '{"kind":"tag","name":"best","value":null}\n')
    store(tmp_path)
    end(tmp_path)
    write(lines, "x" * (lines.stat().st_size - 1) + "\n")
    assert tags(tmp_path) == {"best": ""}
    write(lines, '{"kind":"tag","name":"late","value":"yes"}\n', append=True)
    assert tags(tmp_path) == {"late": "yes"}


@pytest.mark.parametrize("name", ["metrics.cache", "metrics.json"])
def test_stored_files_can_be_deleted(run: Path, name: str) -> None:
    before, summary = everything(read(run)), summary_of(str(run))
    (run / name).unlink()
    assert everything(read(run)) == before
    assert repr(summary_of(str(run))) == repr(summary)


def test_cache_can_be_deleted_while_open(run: Path) -> None:
    metrics = read(run)
    (run / "metrics.cache").unlink()
    assert len(curve(metrics, "loss")) == 101


def test_metrics_logged_after_the_end_are_read(run: Path) -> None:
    points(run, point("loss", 0.25, 101))
    assert curve(read(run), "loss")[-1] == (101, 0.25)
    assert summary_of(str(run))["loss"] == 0.25


def test_changed_rules_invalidate_the_cache(run: Path) -> None:
    assert stored.open_cache(str(run), b"") is not None
    assert stored.open_cache(str(run), b"ignore: [loss]") is None


@pytest.mark.parametrize("name", ["metrics.cache", "metrics.json"])
def test_damaged_stored_files_are_ignored(run: Path, name: str) -> None:
    before, summary = everything(read(run)), repr(summary_of(str(run)))
    data = (run / name).read_bytes()
    sizes = [0, 1, len(MAGIC), len(MAGIC) + 8, len(MAGIC) + 20, len(data) // 2, len(data) - 2]
    for damaged in (*(data[:size] for size in sizes), b"\xff" * len(data), b"[]", b"{}", b'{"schema":99,"metrics":{}}'):
        (run / name).write_bytes(damaged)
        assert everything(read(run)) == before
        assert repr(summary_of(str(run))) == summary


def test_numbers_in_the_other_byte_order_are_swapped(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = everything(read(run))
    ours, theirs = (sys.byteorder, "big") if sys.byteorder == "little" else ("big", "little")
    head, rest = read_cache(run)
    size = head["items"] + head["state"]
    texts, numbers = rest[:size], rest[size:]
    turned = b"".join(numbers[at : at + 8][::-1] for at in range(0, len(numbers), 8))
    write_cache(run, {**head, "order": theirs}, texts + turned)
    assert ours != theirs
    assert stored.open_cache(str(run), b"") is not None
    assert everything(read(run)) == before


def test_columns_of_metrics_that_are_logged_together_are_stored_once(tmp_path: Path) -> None:
    names = [f"metric{number}" for number in range(10)]
    lines = [
        {"step": step, "metrics": {name: step / (len(name) + index) for index, name in enumerate(names)}}
        for step in range(2000)
    ]
    log(tmp_path, *lines)
    store(tmp_path)
    end(tmp_path)
    assert (tmp_path / "metrics.cache").stat().st_size < 12 * 8 * 2000 + 1000  # ten columns of values, steps and times
    cached, anew = read(tmp_path), RunMetrics(str(tmp_path), use_stored=False)
    anew.refresh()
    assert everything(cached) == everything(anew)


@pytest.mark.parametrize(
    "curve",
    [[-1, 0, 0, 0], [10**9, 0, 0, 0], [5, -1, 0, 0], [5, 0, 10**9, 0], [5, 0, 0], [5, 0, 0, 0, 0], [5, 0, 0, "x"], 5],
)
def test_cache_with_an_invalid_header_is_ignored(run: Path, curve: object) -> None:
    before = everything(read(run))
    head, rest = read_cache(run)
    head["curves"]["loss"] = curve
    write_cache(run, head, rest)
    assert stored.open_cache(str(run), b"") is None
    assert everything(read(run)) == before


def test_active_run_has_no_cache(run: Path) -> None:
    (run / "events.jsonl").unlink()
    points(run, point("loss", 7, 7))
    metrics = read(run)
    points(run, point("loss", 8, 8))
    assert metrics.refresh()
    assert curve(metrics, "loss")[-2:] == [(7, 7), (8, 8)]


def test_small_run_has_a_summary_but_no_cache(tmp_path: Path) -> None:
    for name, text in (("small", "loss: 3\n"), ("none", "hello\n")):
        write(tmp_path / name / "output.log", text)
        store(tmp_path / name)
    assert sorted(os.listdir(tmp_path / "small")) == ["metrics.json", "output.log"]
    assert os.listdir(tmp_path / "none") == ["output.log"]


@pytest.mark.processes
def test_followed_log_is_stored_completely(tmp_path: Path) -> None:
    lines = [f"step {step} loss: {step}\n" + "x" * 6000 + "\n" for step in range(1500)]
    write(tmp_path / "output.log", "".join(lines))
    assert (tmp_path / "output.log").stat().st_size > 8_000_000
    recorder = MetricsRecorder(RunDirectory(str(tmp_path)))
    recorder.follow()
    assert recorder.caught_up.wait(60)
    write(tmp_path / "output.log", "step 1500 loss: 0.5\n", append=True)
    recorder.read()
    recorder.store()
    end(tmp_path)
    metrics = read(tmp_path)
    assert len(curve(metrics, "loss")) == 1501
    assert summary_of(str(tmp_path)) == {"loss": 0.5}
    assert metrics.notes() == []


def test_end_of_a_run_does_not_wait_for_many_values(tmp_path: Path) -> None:
    run = tmp_path / ".workbench" / "runs" / "project_1"
    run.mkdir(parents=True)
    points(run, *(point("loss", 1 / (step + 1), step) for step in range(20_000)))
    write(run / "outputs" / "metrics.csv", "epoch,val\n1,2\n")
    recorder = MetricsRecorder(RunDirectory(str(run)))
    recorder.read()
    recorder.store()
    end(run)
    assert not (run / "metrics.json").exists()
    assert summary_of(str(run))["loss"] == 1 / 20_000  # the end of the log is read

    recorder.store_late()
    assert json.loads((run / "metrics.json").read_text())["metrics"]["loss"]["count"] == 20_000
    assert len(curve(read(run), "loss")) == 20_000
    assert curve(read(run), "val") == [(1, 2)]
    assert (run.parent.parent / JOURNAL).read_text() == "project_1\n"  # the index reads the run again


def test_log_read_in_pieces_is_stored_completely(tmp_path: Path) -> None:
    lines = [f"step {step} loss: {step}\n" + "x" * 6000 + "\n" for step in range(500)]
    write(tmp_path / "output.log", lines[0])
    recorder = MetricsRecorder(RunDirectory(str(tmp_path)))
    assert not recorder.read_piece()  # a short log is read at the end
    write(tmp_path / "output.log", "".join(lines[1:]), append=True)
    pieces = 0
    while recorder.read_piece():
        pieces += 1
    assert pieces > 1
    recorder.read()
    assert not recorder.read_piece()
    recorder.store()
    end(tmp_path)
    assert len(curve(read(tmp_path), "loss")) == 500


@pytest.mark.slow
def test_rules_edited_during_a_run_apply_to_the_whole_log(tmp_path: Path) -> None:
    root = tmp_path / "project"
    run = root / ".workbench" / "runs" / "project_1"
    record = {"project_root": str(root), "working_directory": str(root), "snapshot": "none"}
    write(run / "run.json", json.dumps({**record, "run_configuration": {"tracked_run": False}}))
    write(run / "output.log", "accuracy: 1 loss: 2\n" * 10_000)
    recorder = MetricsRecorder(RunDirectory(str(run)))
    recorder.follow()
    assert recorder.caught_up.wait(60)
    write(root / "aml_config" / "metrics.yml", "ignore: [loss]\n")
    recorder.read()
    recorder.store()
    assert summary_of(str(run)) == {"accuracy": 1}


def test_linked_files_are_found_again_without_the_cache(tmp_path: Path) -> None:
    """Most projects exclude `runs/`: the working copy links to it, and the link is removed at the end."""
    root = tmp_path / "project"
    run = root / ".workbench" / "runs" / "project_1"
    record = {"project_root": str(root), "working_directory": str(run / "work"), "snapshot": "git"}
    write(run / "run.json", json.dumps({**record, "run_configuration": {"tracked_run": True}}))
    write(root / "runs" / "metrics.csv", "epoch,loss\n1,3\n")
    (run / "work").mkdir()
    (run / "work" / "runs").symlink_to(root / "runs")
    store(run)
    (run / "work" / "runs").unlink()
    end(run)
    assert curve(read(run), "loss") == [(1, 3)]
    assert summary_of(str(run)) == {"loss": 3}


def test_internal_error_is_recorded_and_does_not_fail_the_run(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (run / "metrics.json").unlink()

    def fail(*_: object) -> None:
        raise ValueError("a strange file")

    monkeypatch.setattr(recording, "write", fail)
    store(run)
    *_, event = RunDirectory(str(run)).events()
    assert (event["step"], event["reason"]) == ("metrics", "not stored: ValueError: a strange file")


def test_read_only_folder_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "output.log", "loss: 3\n")
    monkeypatch.setattr(os, "rename", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    store(tmp_path)
    *_, event = RunDirectory(str(tmp_path)).events()
    assert "No space left" in event["reason"]
    assert not list(tmp_path.glob("*.new"))
