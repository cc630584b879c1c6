"""`has_no_metrics` never misses a source, and lists of runs read little."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runs.metrics.support import events, point, points, read, write
from tests.runs.metrics.test_progress import LINES
from tui_workbench.runs.metrics import summary_of
from tui_workbench.runs.metrics.run_metrics import SMALL, has_no_metrics


def test_run_with_plain_output_has_no_metrics(tmp_path: Path) -> None:
    assert has_no_metrics(str(tmp_path))
    write(tmp_path / "output.log", "hello\nhello 1\n")
    (tmp_path / "outputs").mkdir()
    write(tmp_path / "metrics.jsonl", "")
    assert has_no_metrics(str(tmp_path))
    assert summary_of(str(tmp_path)) == {}


@pytest.mark.parametrize("line", [line for line, _, _ in LINES], ids=lambda line: line[:40])
def test_progress_line_may_be_a_metric(tmp_path: Path, line: str) -> None:
    write(tmp_path / "output.log", f"hello\n{line}\n")
    assert read(tmp_path).summary()
    assert not has_no_metrics(str(tmp_path))


def test_every_other_source_may_hold_metrics(tmp_path: Path) -> None:
    (tmp_path / "logged").mkdir()
    points(tmp_path / "logged", point("loss", 1))
    write(tmp_path / "events" / "work" / "runs" / "events.out.tfevents.1.x", events("loss", [1]))
    write(tmp_path / "table" / "outputs" / "metrics.csv", "loss\n1\n")
    write(tmp_path / "long" / "output.log", "x" * SMALL + "\nloss: 1\n")
    for name in ("logged", "events", "table", "long"):
        assert not has_no_metrics(str(tmp_path / name))
        assert summary_of(str(tmp_path / name)) == {"loss": 1}


def test_active_run_is_listed_from_the_ends_of_its_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui_workbench.runs.metrics.AT_MOST", 1000)
    points(tmp_path, point("first", 7), *(point("loss", number) for number in range(5000)))
    write(tmp_path / "output.log", "rate: 0.1 accuracy 0.5\n" + "epoch 1 val_loss 3\n" * 500 + "epoch 2 val_loss 2\n")
    assert summary_of(str(tmp_path)) == {"first": 7, "loss": 4999, "accuracy": 0.5, "val_loss": 2}
