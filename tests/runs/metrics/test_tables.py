"""Tables as written by Lightning, Keras, YOLO and people, appended to or rewritten."""

from __future__ import annotations

import math
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies

from tests.runs.metrics.support import curve, lasts, read, write
from tui_workbench.runs.metrics import RunMetrics
from tui_workbench.runs.metrics.tables import TableFile


def table(path: Path, text: str | bytes) -> TableFile:
    write(path, text)
    found = TableFile(str(path))
    found.refresh()
    return found


def curves(found: TableFile) -> dict[str, list[tuple[float, float]]]:
    return {name: list(zip(curve.steps, curve.values, strict=True)) for name, curve in found.columns.curves.items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("epoch,loss,acc\n1,0.5,\n2,0.4,0.9\n", {"loss": [(1, 0.5), (2, 0.4)], "acc": [(2, 0.9)]}),
        ("epoch,step,train_loss\n0,49,3\n0,99,2\n", {"train_loss": [(49, 3), (99, 2)]}),  # Lightning
        ("   epoch,   train/box_loss\n     1,    1.5\n", {"train/box_loss": [(1, 1.5)]}),  # YOLO
        ("loss;val\n1;2\n3;4\n", {"loss": [(0, 1), (1, 3)], "val": [(0, 2), (1, 4)]}),
        ("loss\tname\n1\tx\n", {"loss": [(0, 1)]}),
        ('"a ""b""",c\r\n1,nan\r\n', {'a "b"': [(0, 1)], "c": [(0, math.nan)]}),
        ("# a comment\nloss\n1\n\n2\nloss\n3\n", {"loss": [(0, 1), (1, 2), (2, 3)]}),
        ("loss,acc\n1\n2,3,\n", {"loss": [(0, 1), (1, 2)], "acc": [(0, 3)]}),
        ("step;loss\n1;0,31\n2;-1,5e-1\n3;1.5\n4;1.234,5\n", {"loss": [(1, 0.31), (2, -0.15), (3, 1.5)]}),
        ("step\tloss\n1\t0,31\n", {"loss": [(1, 0.31)]}),
        ("step,loss\n1,0,31\n2,0.5\n", {"loss": [(2, 0.5)]}), ("loss\n0,31\n", {}),
        ("epoch,train_loss,eval_loss,eval_top1\n0,6.9,6.5,1.5\n",  # timm
         {"train_loss": [(0, 6.9)], "eval_loss": [(0, 6.5)], "eval_top1": [(0, 1.5)]}),
        ("1,2\n3,4\n", {}), ("a,a\n1,2\n", {}), ("loss\nx\n1_0\n", {}), ("", {}), ("loss\n", {}),
    ],
    ids=lambda value: value.split("\n")[0] if isinstance(value, str) else "",
)  # fmt: skip
def test_columns_of_a_csv_file_are_metrics(
    tmp_path: Path, text: str, expected: dict[str, list[tuple[float, float]]]
) -> None:
    assert repr(curves(table(tmp_path / "metrics.csv", text))) == repr(
        {name: [(float(step), float(value)) for step, value in points] for name, points in expected.items()}
    )


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("name", ["metrics.csv", "metrics.jsonl"])
def test_table_in_another_encoding_is_noted(tmp_path: Path, encoding: str, name: str) -> None:
    text = "step,loss\n1,0.5\n2,0.4\n" if name.endswith("csv") else '{"step": 1, "loss": 0.5}\n'
    write(tmp_path / "outputs" / name, text.encode(encoding))
    metrics = read(tmp_path)
    assert not metrics.summary()
    assert metrics.notes() == [f"outputs/{name}: not UTF-8 text, and therefore not read; write the table as UTF-8"]


def test_row_with_more_cells_than_the_header_is_noted(tmp_path: Path) -> None:
    write(tmp_path / "outputs" / "metrics.csv", "step,loss\n1,0,31\n2,0.5\n")
    assert read(tmp_path).notes() == ["outputs/metrics.csv: 1 unreadable record"]


def test_summary_of_timm_is_a_table(tmp_path: Path) -> None:
    write(tmp_path / "outputs" / "train" / "20240131-resnet18-224" / "summary.csv", "epoch,eval_top1\n0,1.5\n")
    assert lasts(read(tmp_path)) == {"eval_top1": 1.5}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"epoch": 1, "loss": 0.5, "ok": true, "note": "x"}\n', {"loss": [(1, 0.5)]}),
        ('{"step": 7, "val": {"loss": 1, "deep": {"er": 2, "too": {"deep": 3}}}}\n',
         {"val/loss": [(7, 1)], "val/deep/er": [(7, 2)]}),
        ('{"name": "loss", "value": 3, "step": 5}\n{"metric": "acc", "value": 1}\n',
         {"loss": [(5, 3)], "acc": [(0, 1)]}),
        ('{"loss": NaN}\n{"loss": "Infinity"}\n', {"loss": [(0, math.nan), (1, math.inf)]}),
        ('[1]\n"x"\nno json\n{"loss": 1}\n', {"loss": [(0, 1)]}),
    ],
)  # fmt: skip
def test_numbers_of_json_lines_are_metrics(
    tmp_path: Path, text: str, expected: dict[str, list[tuple[float, float]]]
) -> None:
    assert repr(curves(table(tmp_path / "log.jsonl", text))) == repr(
        {name: [(float(step), float(value)) for step, value in points] for name, points in expected.items()}
    )


def test_time_column_holds_times_but_not_durations(tmp_path: Path) -> None:
    found = table(tmp_path / "m.csv", "timestamp,loss\n1700000000,1\n")
    assert list(found.columns.curves["loss"].times) == [1_700_000_000]
    assert set(found.columns.curves) == {"loss"}
    found = table(tmp_path / "d.csv", "time,loss\n12.5,1\n")
    assert math.isnan(found.columns.curves["loss"].times[0])


def test_growing_and_rewritten_table_is_read(tmp_path: Path) -> None:
    """Lightning rewrites the whole table to add a column."""
    path = tmp_path / "outputs" / "metrics.csv"
    write(path, "step,loss\n1,3\n2,")
    metrics = read(tmp_path)
    assert curve(metrics, "loss") == [(1, 3)]
    write(path, "2\n", append=True)
    assert metrics.refresh()
    assert curve(metrics, "loss") == [(1, 3), (2, 2)]
    write(path, "step,loss,val_loss\n1,3,\n2,2,\n2,,5\n3,1,\n")
    assert metrics.refresh()
    assert curve(metrics, "loss") == [(1, 3), (2, 2), (3, 1)]
    assert curve(metrics, "val_loss") == [(2, 5)]


def test_equal_columns_of_two_tables_get_prefixes(tmp_path: Path) -> None:
    write(tmp_path / "outputs" / "a" / "metrics.csv", "epoch,loss\n1,1\n")
    write(tmp_path / "outputs" / "b" / "metrics.csv", "epoch,loss\n1,2\n")
    write(tmp_path / "outputs" / "history.csv", "epoch,val\n1,3\n")
    assert lasts(read(tmp_path)) == {"a/metrics/loss": 1, "b/metrics/loss": 2, "val": 3}


def test_table_moved_at_the_end_is_not_read_twice(tmp_path: Path) -> None:
    write(tmp_path / "work" / "outputs" / "metrics.csv", "epoch,loss\n1,1\n")
    metrics = RunMetrics(str(tmp_path))
    metrics.refresh()
    (tmp_path / "work" / "outputs").rename(tmp_path / "outputs")
    write(tmp_path / "outputs" / "metrics.csv", "2,0.5\n", append=True)
    again = RunMetrics(str(tmp_path))
    again.refresh()
    while not metrics.refresh():
        pass
    assert curve(metrics, "loss") == curve(again, "loss") == [(1, 1), (2, 0.5)]


@pytest.mark.parametrize("name", ["metrics.csv", "log.jsonl"])
@hypothesis.given(data=strategies.binary(max_size=120))
@hypothesis.settings(max_examples=60, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
def test_any_bytes_are_parsed_or_counted(tmp_path: Path, name: str, data: bytes) -> None:
    table(tmp_path / name, data + b"\n")
