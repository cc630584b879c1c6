"""Curves of a resumed training: a later attempt replaces the steps that it repeats, and nothing else is lost."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies

from tests.runs.metrics.support import curve, end, event, field, log, point, read, record, varint, write
from tui_workbench.runs.metrics import RunMetrics, Series
from tui_workbench.runs.metrics.recording import MetricsRecorder
from tui_workbench.runs.metrics.sessions import sessions_of
from tui_workbench.runs.metrics.values import Begin
from tui_workbench.runs.store.rundir import ATTEMPT, RunDirectory

NAME = "events.out.tfevents.{}.machine"
START = field(7, varint(1 << 3) + varint(1))  # SessionLog with the status START


def begin_attempt(run: Path, number: int = 2) -> None:
    """Record that another attempt begins at the end of the log."""
    path = run / "output.log"
    size = path.stat().st_size if path.exists() else 0
    RunDirectory(str(run)).append_event(ATTEMPT, number=number, start=size, reason="exit code 1")


def lines(steps: Iterable[int], value: float) -> str:
    return "".join(f"step {step} loss {value}\n" for step in steps)


def replaced(metrics: RunMetrics, name: str) -> list[list[tuple[float, float]]]:
    return [list(zip(each.steps, each.values, strict=True)) for each in metrics.replaced(name)]


def resumed_output(run: Path) -> None:
    write(run / "output.log", lines(range(0, 160, 10), 3))
    begin_attempt(run)
    write(run / "output.log", lines(range(100, 210, 10), 1), append=True)


def resumed_log(run: Path) -> None:
    log(run, *(point("loss", 3, step) for step in range(0, 160, 10)))
    log(run, {"kind": "attempt", "name": "attempt", "value": 2})
    log(run, *(point("loss", 1, step) for step in range(100, 210, 10)))


def resumed_events(run: Path, *, purge: int | None = None) -> None:
    first = b"".join(event("loss", 3, step, 1.7e9 + step) for step in range(0, 160, 10))
    second = b"".join(event("loss", 1, step, 1.7e9 + 100 + step) for step in range(100, 210, 10))
    if purge is not None:
        second = record(varint(2 << 3) + varint(purge) + START) + second
    write(run / "outputs" / NAME.format(1700000000), first)
    write(run / "outputs" / NAME.format(1700000500), second)


def resumed_table(run: Path) -> None:
    rows = "".join(f"{step},3\n" for step in range(0, 160, 10))
    write(run / "outputs" / "metrics.csv", f"step,loss\n{rows}")
    begin_attempt(run)
    write(run / "outputs" / "metrics.csv", "".join(f"{step},1\n" for step in range(100, 210, 10)), append=True)


def resumed_table_with_header(run: Path) -> None:
    for value, steps in ((3, range(0, 160, 10)), (1, range(100, 210, 10))):
        rows = "".join(f"{step},{value}\n" for step in steps)
        write(run / "outputs" / "metrics.csv", f"step,loss\n{rows}", append=True)


def resumed_json_lines(run: Path) -> None:
    resumed_table(run)
    text = (run / "outputs" / "metrics.csv").read_text().splitlines()[1:]
    (run / "outputs" / "metrics.csv").unlink()
    rows = (line.split(",") for line in text)
    write(run / "outputs" / "metrics.jsonl", "".join(f'{{"step":{step},"loss":{loss}}}\n' for step, loss in rows))


@pytest.mark.parametrize("is_stored", [False, True], ids=["read", "stored"])
@pytest.mark.parametrize(
    "write_run",
    [resumed_output, resumed_log, resumed_events, resumed_table, resumed_table_with_header, resumed_json_lines],
)
def test_resumed_training_is_one_curve(
    tmp_path: Path, write_run: object, is_stored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(write_run)
    write_run(tmp_path)
    end(tmp_path)
    if is_stored:
        monkeypatch.setattr("tui_workbench.runs.metrics.stored.CACHE_FROM", 1)
        recorder = MetricsRecorder(RunDirectory(str(tmp_path)))
        recorder.read()
        recorder.store()
        assert (tmp_path / "metrics.cache").exists()
    metrics = read(tmp_path)
    valid = [*((step, 3) for step in range(0, 100, 10)), *((step, 1) for step in range(100, 210, 10))]
    assert curve(metrics, "loss") == valid
    assert replaced(metrics, "loss") == [[(step, 3) for step in range(100, 160, 10)]]
    assert metrics.summary()["loss"][1:6] == ("scalar", 1, len(valid), 1, 3)


@pytest.mark.parametrize("write_run", [resumed_output, resumed_log])
def test_attempt_begins_at_its_first_step(tmp_path: Path, write_run: object) -> None:
    assert callable(write_run)
    write_run(tmp_path)
    assert read(tmp_path).attempt_steps("loss") == {2: 100}


def test_purge_step_replaces_the_points_of_every_metric(tmp_path: Path) -> None:
    resumed_events(tmp_path, purge=90)
    first = tmp_path / "outputs" / NAME.format(1700000000)
    write(first, b"".join(event("accuracy", 0.5, step, 1.7e9 + step) for step in (50, 90, 150)), append=True)
    metrics = read(tmp_path)
    assert curve(metrics, "loss")[8:11] == [(80, 3), (100, 1), (110, 1)]
    assert curve(metrics, "accuracy") == [(50, 0.5)]


def test_session_start_in_the_same_file_replaces_points(tmp_path: Path) -> None:
    data = [event("loss", 3, step) for step in range(5)]
    data += [record(varint(2 << 3) + varint(3) + START), *(event("loss", 1, step) for step in (3, 4, 5))]
    write(tmp_path / "outputs" / NAME.format(1700000000), b"".join(data))
    assert curve(read(tmp_path), "loss") == [(0, 3), (1, 3), (2, 3), (3, 1), (4, 1), (5, 1)]


def test_event_files_of_processes_that_write_together_lose_nothing(tmp_path: Path) -> None:
    for rank in (0, 1):
        data = b"".join(event("loss", rank, step, 1.7e9 + step + rank / 2) for step in range(5))
        write(tmp_path / "outputs" / NAME.format(1700000000 + rank), data)
    metrics = read(tmp_path)
    assert len(curve(metrics, "loss")) == 10
    assert replaced(metrics, "loss") == []


BACKWARD = [
    [8073, 0, 1, 2],
    [0, 0, 0, 1],
    [3, 3, 2, 1],
    [-1, -5, 0, -1],
    [0, 100, 200, 0, 100, 200, 0, 100, 200],
]


@pytest.mark.parametrize("steps", BACKWARD, ids=str)
def test_steps_that_go_back_within_an_attempt_lose_nothing(tmp_path: Path, steps: Sequence[int]) -> None:
    log(tmp_path, *(point("logged", step, step) for step in steps))
    write(tmp_path / "outputs" / "metrics.csv", "step,table\n" + "".join(f"{step},1\n" for step in steps))
    data = b"".join(event("event", 1, step, 1.7e9 + number) for number, step in enumerate(steps))
    write(tmp_path / "outputs" / NAME.format(1700000000), data)
    text = "".join(f"global_step {step} loss 0.5\n" for step in steps if step >= 0)
    write(tmp_path / "output.log", text)
    metrics = read(tmp_path)
    for name in ("logged", "table", "event"):
        assert [step for step, _ in curve(metrics, name)] == steps
        assert metrics.summary()[name].count == len(steps)
    assert [step for step, _ in curve(metrics, "loss")] == [step for step in steps if step >= 0]


def test_steps_that_go_back_in_a_later_attempt_are_kept(tmp_path: Path) -> None:
    log(tmp_path, *(point("loss", 3, step) for step in (10, 8073, 8074)))
    log(tmp_path, {"kind": "attempt", "name": "attempt", "value": 2})
    log(tmp_path, *(point("loss", 1, step) for step in (8073, 20, 21, 22)))
    assert curve(read(tmp_path), "loss") == [(10, 3), (8073, 1), (20, 1), (21, 1), (22, 1)]


def test_table_whose_steps_restart_more_often_than_the_script_keeps_all(tmp_path: Path) -> None:
    begin_attempt(tmp_path)
    steps = [0, 1, 2] * 4
    write(tmp_path / "outputs" / "metrics.csv", "step,loss\n" + "".join(f"{step},1\n" for step in steps))
    assert len(curve(read(tmp_path), "loss")) == 12


def test_metric_without_values_in_a_later_attempt_keeps_its_points(tmp_path: Path) -> None:
    write(tmp_path / "output.log", "step 1 loss 3 acc 0.5\nstep 2 loss 2 acc 0.6\n")
    begin_attempt(tmp_path)
    write(tmp_path / "output.log", "step 2 loss 1\n", append=True)
    metrics = read(tmp_path)
    assert curve(metrics, "acc") == [(1, 0.5), (2, 0.6)]
    assert metrics.attempt_steps("acc") == {}


def test_epochs_and_iterations_of_a_later_attempt_continue(tmp_path: Path) -> None:
    def epoch(number: int, value: float) -> str:
        return "".join(f"epoch {number} step {step} loss {value}\n" for step in (0, 50))

    write(tmp_path / "output.log", "".join(epoch(number, 3) for number in range(4)))
    begin_attempt(tmp_path)
    write(tmp_path / "output.log", epoch(3, 1) + epoch(4, 1), append=True)
    steps = [(0, 3), (50, 3), (100, 3), (150, 3), (200, 3), (250, 3), (300, 1), (350, 1), (400, 1), (450, 1)]
    assert curve(read(tmp_path), "loss") == steps


def test_bar_of_a_later_attempt_counts_epochs_as_before(tmp_path: Path) -> None:
    write(tmp_path / "output.log", "".join(f"Epoch {n}: 50%|██  | 5/10 [00:01<00:01, loss=3]\n" for n in range(4)))
    begin_attempt(tmp_path)
    write(tmp_path / "output.log", "Epoch 3: 50%|██  | 5/10 [00:01<00:01, loss=1]\n", append=True)
    assert curve(read(tmp_path), "loss") == [(0.5, 3), (1.5, 3), (2.5, 3), (3.5, 1)]


def test_line_that_was_cut_off_by_the_end_of_an_attempt_is_not_continued(tmp_path: Path) -> None:
    write(tmp_path / "output.log", "step 1 loss 3\nstep 2 loss 0.")
    begin_attempt(tmp_path)
    write(tmp_path / "output.log", "5 files\nstep 2 loss 1\n", append=True)
    assert curve(read(tmp_path), "loss") == [(1, 3), (2, 1)]


def test_attempt_that_is_known_late_is_a_session(tmp_path: Path) -> None:
    """Slurm can requeue a job before its controller notices."""
    metrics = RunMetrics(str(tmp_path))
    write(tmp_path / "output.log", lines(range(5), 3))
    size = (tmp_path / "output.log").stat().st_size
    write(tmp_path / "output.log", lines((3, 4), 1), append=True)
    metrics.refresh()
    assert len(curve(metrics, "loss")) == 7
    RunDirectory(str(tmp_path)).append_event(ATTEMPT, number=2, start=size, reason="requeued")
    metrics.refresh()
    assert curve(metrics, "loss") == [(0, 3), (1, 3), (2, 3), (3, 1), (4, 1)]


def test_sessions_in_parts_are_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui_workbench.runs.metrics.run_metrics.PART_POINTS", 5)
    monkeypatch.setattr("tui_workbench.runs.metrics.tables.PIECE", 1)
    resumed_log(tmp_path)
    controller = RunMetrics(str(tmp_path), use_stored=False)
    while controller.follow_logged():
        pass
    assert (tmp_path / "metrics.cache.1").exists()
    log(tmp_path, {"kind": "attempt", "name": "attempt", "value": 3}, point("loss", 0, 190))
    metrics = read(tmp_path)
    valid = [*((step, 3) for step in range(0, 100, 10)), *((step, 1) for step in range(100, 190, 10)), (190, 0)]
    assert curve(metrics, "loss") == valid
    assert metrics.attempt_steps("loss") == {2: 100, 3: 190}
    assert metrics.summary()["loss"].minimum == 0


def test_thinned_curve_keeps_its_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui_workbench.runs.metrics.output.MOST_POINTS", 500)
    write(tmp_path / "output.log", lines(range(400), 3))
    begin_attempt(tmp_path)
    write(tmp_path / "output.log", lines(range(300, 800), 1), append=True)
    found = curve(read(tmp_path), "loss")
    assert all(value == (3 if step < 300 else 1) for step, value in found)
    assert found[-1] == (799, 1)


@hypothesis.given(
    strategies.lists(
        strategies.lists(strategies.integers(-5, 20) | strategies.just(math.nan), max_size=8), min_size=1, max_size=5
    )
)
def test_points_are_valid_or_replaced_by_a_later_session(attempts: list[list[float]]) -> None:
    steps = array("d", [step for attempt in attempts for step in attempt])
    values = array("d", range(len(steps)))
    sizes = [sum(map(len, attempts[:number])) for number in range(1, len(attempts))]
    found = sessions_of(Series(steps, values, values), [Begin(size) for size in sizes])
    assert len(found) == len(attempts)
    assert sorted(value for pair in found for part in pair for value in part.values) == list(values)
    for earlier, later in pairwise(found):
        lowest = min((step for part in later for step in part.steps if step == step), default=math.inf)
        assert not any(step >= lowest for step in earlier[0].steps)
