"""Reading a growing `metrics.jsonl`: points, texts, items and invalid lines."""

from __future__ import annotations

import json
import math
from array import array
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from tests.runs.metrics.support import curve, lasts, log, point, points, read, write
from tests.sdk.support import load
from tui_workbench.runs.metrics import RunMetrics
from tui_workbench.runs.metrics.tables import inside
from tui_workbench.runs.metrics.values import MAX_NAME, MAX_NAMES


def test_run_without_metrics_has_none(tmp_path: Path) -> None:
    metrics = RunMetrics(str(tmp_path))
    assert not metrics.refresh()
    assert (metrics.summary(), metrics.items("list"), metrics.notes()) == ({}, [], [])
    assert metrics.series("loss") == (array("d"), array("d"), array("d"))


def test_points_make_a_curve_with_extremes(tmp_path: Path) -> None:
    points(tmp_path, point("loss", 0.5, 0), point("loss", 2, 10, 1_700_000_001.5), point("accuracy", True))
    metrics = read(tmp_path)
    assert curve(metrics, "loss") == [(0, 0.5), (10, 2)]
    assert list(metrics.series("loss").times) == [1_700_000_000.0, 1_700_000_001.5]
    assert metrics.summary()["loss"] == ("loss", "scalar", 2.0, 2, 0.5, 2.0, "sdk")
    assert lasts(metrics) == {"loss": 2.0, "accuracy": 1.0}


def test_missing_step_is_the_last_plus_one(tmp_path: Path) -> None:
    points(tmp_path, point("a", 1), point("a", 2), point("b", 1, 100), point("b", 2), point("b", 3, 2.5), point("b", 4))
    metrics = read(tmp_path)
    assert [step for step, _ in curve(metrics, "a")] == [0, 1]
    assert [step for step, _ in curve(metrics, "b")] == [100, 101, 2.5, 3.5]


def test_nan_infinities_and_texts_are_read(tmp_path: Path) -> None:
    points(tmp_path, *(point("loss", value, 0) for value in ("NaN", 1.0, "Infinity", "-Infinity", 10**400)))
    points(tmp_path, point("phase", "warm-up"), point("phase", "training"))
    metrics = read(tmp_path)
    values = metrics.series("loss").values
    assert math.isnan(values[0])
    assert list(values[1:]) == [1.0, math.inf, -math.inf, math.inf]
    summary = metrics.summary()
    assert (summary["loss"].minimum, summary["loss"].maximum) == (-math.inf, math.inf)
    assert summary["phase"][:4] == ("phase", "text", "training", 2)


def test_curve_of_only_nan_has_no_extremes(tmp_path: Path) -> None:
    points(tmp_path, point("loss", "NaN"))
    found = read(tmp_path).summary()["loss"]
    assert math.isnan(found.minimum)
    assert math.isnan(found.maximum)
    assert found.count == 1


def test_refresh_reads_only_new_lines(tmp_path: Path) -> None:
    metrics = RunMetrics(str(tmp_path))
    points(tmp_path, point("loss", 3, 0))
    assert metrics.refresh()
    assert not metrics.refresh()
    points(tmp_path, point("loss", 1, 1))
    assert metrics.refresh()
    assert curve(metrics, "loss") == [(0, 3), (1, 1)]
    assert metrics.summary()["loss"][2:6] == (1.0, 2, 1.0, 3.0)


def test_line_counts_once_it_is_complete(tmp_path: Path) -> None:
    line = json.dumps(point("loss", 0.5, 7), separators=(",", ":")) + "\n"
    metrics = RunMetrics(str(tmp_path))
    for letter in line[:-1]:
        write(tmp_path / "metrics.jsonl", letter, append=True)
        assert not metrics.refresh()
    write(tmp_path / "metrics.jsonl", line[-1], append=True)
    assert metrics.refresh()
    assert curve(metrics, "loss") == [(7, 0.5)]


def test_line_of_several_metrics_has_a_point_of_each(tmp_path: Path) -> None:
    points(tmp_path, point("loss", 4, 0))
    log(
        tmp_path,
        {"step": 1, "metrics": {"loss": 3, "val/loss": "NaN", "phase": "warm-up", "bad": None}},
        {"metrics": {"loss": 2.5, "val/loss": 0.5}},
    )
    metrics = read(tmp_path)
    assert curve(metrics, "loss") == [(0, 4), (1, 3), (2, 2.5)]
    assert repr(curve(metrics, "val/loss")) == "[(1.0, nan), (2.0, 0.5)]"
    assert list(metrics.series("val/loss").times) == [1_700_000_000.0] * 2
    assert lasts(metrics)["phase"] == "warm-up"
    assert metrics.notes() == ["metrics.jsonl: 1 unreadable record"]


def test_torn_and_foreign_lines_are_counted_and_skipped(tmp_path: Path) -> None:
    good = json.dumps(point("loss", 0.5, 7), separators=(",", ":"))
    several = '{"step":8,"metrics":{"loss":0.25},"time":1700000000.0}'
    bad = [
        "no json",
        "[1,2]",
        '{"value":1}',
        '{"name":7,"value":1}',
        '{"name":"a","value":null}',
        '{"name":"a","kind":"x"}',
        '{"name":"a","kind":[]}',
        '{"step":1,"metrics":[1]}',
    ]
    torn = [f'{{"name":"lo{good}', f'{{"step":8,"metr{several}']
    write(tmp_path / "metrics.jsonl", "\n".join([good, *torn, "", *bad, "[" * 5000, good]) + "\n")
    metrics = read(tmp_path)
    assert curve(metrics, "loss") == [(7, 0.5), (7, 0.5), (8, 0.25), (7, 0.5)]
    assert metrics.notes() == ["metrics.jsonl: 11 unreadable records"]


@pytest.mark.parametrize(
    "data", [b"\xff\xfe\0\0\n", b'{"name":"\xff","step":1,"value":1,"time":1}\n', b"\0" * 5000 + b"\n"]
)
def test_invalid_bytes_are_counted(tmp_path: Path, data: bytes) -> None:
    write(tmp_path / "metrics.jsonl", data)
    metrics = read(tmp_path)
    assert not metrics.summary()
    assert len(metrics.notes()) == 1


def test_replaced_or_truncated_file_is_read_from_its_start(tmp_path: Path) -> None:
    points(tmp_path, point("loss", 1, 0), point("loss", 2, 1))
    metrics = read(tmp_path)
    (tmp_path / "metrics.jsonl").unlink()
    assert not metrics.refresh()
    assert len(curve(metrics, "loss")) == 2
    points(tmp_path, point("other", 3, 0))
    metrics.refresh()
    assert lasts(metrics) == {"other": 3}
    write(tmp_path / "metrics.jsonl", "")
    points(tmp_path, point("o", 4, 0))
    metrics.refresh()
    assert lasts(metrics) == {"o": 4}


def test_rewritten_larger_file_is_read_from_its_start(tmp_path: Path) -> None:
    """The inode stays the same, as when an editor or a restarted script writes it."""
    points(tmp_path, point("loss", 1, 0))
    metrics = read(tmp_path)
    write(tmp_path / "metrics.jsonl", "")
    points(tmp_path, *(point("other", number, number) for number in range(5)))
    metrics.refresh()
    assert lasts(metrics) == {"other": 4}


@pytest.mark.parametrize("name", ["train/loss", "a/b/../c", "損失", 'a "b" \\', "\x1b[2J", "\ud800", " ", "a" * 10_000])
def test_metric_name_can_be_any_text(tmp_path: Path, name: str) -> None:
    points(tmp_path, point(name, 1, 0), point(name, 2, 1))
    metrics = read(tmp_path)
    assert list(metrics.summary()) == [name[:MAX_NAME]]
    assert curve(metrics, name[:MAX_NAME]) == [(0, 1), (1, 2)]


@pytest.mark.slow
def test_number_of_names_is_limited_and_reported(tmp_path: Path) -> None:
    count = MAX_NAMES + 500
    write(
        tmp_path / "metrics.jsonl",
        "".join(f'{{"name":"loss/{number}","step":0,"value":1.0,"time":1.0}}\n' for number in range(count)),
    )
    points(tmp_path, point("loss/7", 2, 1))
    metrics = read(tmp_path)
    assert len(metrics.summary()) == MAX_NAMES
    assert curve(metrics, "loss/7") == [(0, 1), (1, 2)]
    assert metrics.notes() == ["metrics.jsonl: more than 10,000 metric names; 500 values left out"]


# Other things


def test_items_keep_order_steps_and_paths(tmp_path: Path) -> None:
    write(tmp_path / "outputs" / "images" / "a.png", b"png")
    write(tmp_path / "work" / "outputs" / "b.png", b"png")
    log(
        tmp_path,
        {"kind": "list", "name": "roc", "value": [1, "NaN", 3]},
        {"kind": "list", "name": "roc", "value": [4, 5]},
        {"kind": "table", "name": "t", "value": {"a": [1]}, "step": 3},
        {"kind": "image", "name": "plot", "path": "outputs/images/a.png"},
        {"kind": "image", "name": "plot", "path": "outputs/b.png"},
        {"kind": "tag", "name": "best", "value": None},
    )
    metrics = read(tmp_path)
    assert [item.value for item in metrics.items("list")] == [[1, "NaN", 3], [4, 5]]
    assert metrics.items("table")[0] == ("table", "t", {"a": [1]}, 3.0, 1_700_000_000.0, "")
    assert [item.path for item in metrics.items("image")] == ["outputs/images/a.png", "work/outputs/b.png"]
    assert curve(metrics, "roc") == [(0, 4), (1, 5)]
    summary = metrics.summary()
    assert {name: (found.kind, found.count, found.last) for name, found in summary.items()} == {
        "roc": ("list", 2, None), "t": ("table", 1, None), "plot": ("image", 2, None),
    }  # fmt: skip
    assert (summary["roc"].minimum, summary["roc"].maximum) == (4, 5)


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd", "a/../../b", "..", "", None, 7, "a\0b"])
def test_path_out_of_the_run_is_dropped(tmp_path: Path, path: Any) -> None:
    log(tmp_path, {"kind": "image", "name": "plot", "path": path})
    assert [item.path for item in read(tmp_path).items("image")] == [""]


def test_inside_normalizes_paths() -> None:
    assert inside("outputs/./a/../b.png") == "outputs/b.png"


@hypothesis.given(
    strategies.lists(
        strategies.tuples(
            strategies.text(min_size=1, max_size=20),
            strategies.one_of(strategies.floats(), strategies.integers(), strategies.booleans()),
            strategies.one_of(strategies.none(), strategies.integers(-(2**40), 2**40)),
        ),
        max_size=20,
    )
)
@hypothesis.settings(max_examples=60)
@pytest.mark.slow
def test_everything_logged_is_read_back(logged: list[tuple[str, Any, int | None]]) -> None:
    import contextlib
    import os
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        os.environ["WORKBENCH_RUN_DIRECTORY"] = folder
        try:
            sdk = load()
            for name, value, step in logged:
                sdk.log(name, value, step)
                sdk.log_metrics({name: value}, step)
            # The SDK keeps its file open until the process ends.
            for entry in os.listdir("/proc/self/fd"):
                with contextlib.suppress(OSError):
                    if os.readlink(f"/proc/self/fd/{entry}").startswith(f"{folder}/"):
                        os.close(int(entry))
        finally:
            del os.environ["WORKBENCH_RUN_DIRECTORY"]
        metrics = read(Path(folder))
        assert not metrics.notes()
        for name in {name for name, _, _ in logged}:
            wanted = [_float(value) for other, value, _ in logged if other == name for _ in range(2)]
            found = list(metrics.series(name).values)
            assert list(map(repr, found)) == list(map(repr, wanted))


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
