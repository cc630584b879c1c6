"""The table of runs: filters, order and pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runs.support import make_run
from tui_workbench.core.errors import UsageError
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.index.index import RunIndex
from tui_workbench.runs.index.table import COLUMNS, RunQuery, condition_of
from tui_workbench.runs.store.annotations import with_tags


def add(
    project: Project,
    number: int,
    *,
    state: str = "completed",
    metrics: dict[str, float | str] | None = None,
    seconds: float = 10.0,
    **changed: Any,
) -> str:
    """Return a run with these metrics and duration in seconds; `changed` are keys of its run.json."""
    run_id = f"project_{1_700_000_000_000 + number}"
    code = {"completed": 0, "failed": 1}.get(state)
    directory = Path(make_run(project, run_id, number).path)
    record = json.loads((directory / "run.json").read_text())
    (directory / "run.json").write_text(json.dumps({**record, **changed}))
    start = 1_700_000_000.0 + number
    events: list[dict[str, Any]] = [{"time": start, "event": "state", "state": "running"}]
    if state != "running":
        final = {"state": state, "exit_code": code, "reason": "", "final": True, "end": start + seconds}
        events.append({"time": start + seconds, "event": "state", **final})
    (directory / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    lines = [
        json.dumps({"name": name, "value": value, "step": 1, "time": start}) for name, value in (metrics or {}).items()
    ]
    (directory / "metrics.jsonl").write_text("".join(line + "\n" for line in lines))
    return run_id


@pytest.fixture
def runs(project: Project) -> Runs:
    """Six runs of two scripts on two targets; the last run is active."""
    record = {"name": "gpu", "path": "", "type": "local"}
    add(project, 1, script="train.py", arguments=["--lr", "0.1"], metrics={"loss": 0.5, "Accuracy": 0.7}, seconds=5)
    add(project, 2, script="train.py", arguments=["lr=0.2"], metrics={"loss": 0.3, "Accuracy": 0.8}, seconds=700)
    add(project, 3, script="eval.py", arguments=["a b"], state="failed", metrics={"loss": float("nan")})
    add(project, 4, script="train.py", arguments=["--lr", "0.1"], target=record, metrics={"loss": 0.1}, seconds=70)
    add(project, 5, script="eval.py", state="canceled", metrics={"verdict": "good", "loss": float("inf")})
    add(project, 6, script="train.py", state="running")
    return Runs(project)


def numbers(runs: Runs, text: str = "", **query: Any) -> list[int]:
    """Return the numbers of the runs that a query finds, in order."""
    # Only the index, because the active run has no process that could be adopted.
    with RunIndex(runs.project) as index:
        page = index.page(RunQuery(text, **query))
    assert page.total == len(page.rows)
    return [row.run.run_number for row in page.rows]


MATCHES = {
    "": [6, 5, 4, 3, 2, 1],
    "train": [6, 4, 2, 1],
    "TRAIN": [6, 4, 2, 1],
    "train 0.1": [4, 1],
    "0.1 train": [4, 1],
    "-train": [5, 3],
    '"a b"': [3],
    '-"a b"': [6, 5, 4, 2, 1],
    "nothing-like-it": [],
    "script:ev": [5, 3],
    "script=eval.py": [5, 3],
    "script=EVAL.py": [5, 3],
    "script=eval": [],
    "script!=eval.py": [6, 4, 2, 1],
    "target:gpu": [4],
    "state:failed": [3],
    "status=completed": [4, 2, 1],
    "-state:completed": [6, 5, 3],
    "is:active": [6],
    "is:ended loss<0.2": [4],
    "is:failed": [3],
    "#3": [3],
    "number>=5": [6, 5],
    "number=2": [2],
    "exit=1": [3],
    "loss<0.4": [4, 2],
    "loss<=0.3": [4, 2],
    "loss>0.4": [5, 1],
    "loss!=0.1": [5, 2, 1],
    "loss=0.1": [4],
    "accuracy>0": [],
    "Accuracy>0.75": [2],
    "verdict=good": [5],
    "verdict>good": [6, 5, 4, 3, 2, 1],
    "has:verdict": [5],
    "-has:loss": [6],
    "lr=0.2": [2],
    "lr=0.1": [4, 1],
    "lr==0.1": [4, 1],
    "lr=0.10": [4, 1],
    "lr=1e-1": [4, 1],
    "lr:0.1": [4, 1],
    "lr>0.04": [4, 2, 1],
    "lr<0.15": [4, 1],
    "lr!=0.1": [2],
    "--lr=0.1": [4, 1],
    "--lr:0.1": [4, 1],
    "--lr>0.04": [4, 1],
    "--lr<0.1": [],
    "--lr": [4, 1],
    "has:--lr": [4, 1],
    "-lr=0.1": [6, 5, 3, 2],
    "---lr=0.1": [6, 5, 3, 2],
    "-lr>0.15": [6, 5, 4, 3, 1],
    "-loss<0.4": [6, 5, 3, 1],
    "unknown>3": [],
    "-unknown>3": [],
    "--unknown=3": [],
    "-Loss<0.4": [],
    "duration>1m is:ended": [4, 2],
    "duration<6s": [1],
    "duration>=11:40 is:ended": [2],
    "started<2001-01-01": [],
    "started>2001-01-01": [6, 5, 4, 3, 2, 1],
    "user:some": [6, 5, 4, 3, 2, 1],
    "config=local": [6, 5, 4, 3, 2, 1],
}
"""The numbers of the runs of the fixture `runs` that match a filter."""


def test_filter_matches(runs: Runs) -> None:
    assert {text: numbers(runs, text) for text in MATCHES} == MATCHES


def test_value_of_an_argument_is_compared_as_a_whole(runs: Runs) -> None:
    add(runs.project, 7, arguments=["--lr", "0.15", "--opt", "Adam"])
    add(runs.project, 8, arguments=["lr=0.11"], metrics={"lr": 0.3})
    assert numbers(runs, "lr=0.1") == [4, 1]
    assert numbers(runs, "lr=0.3") == [8], "a metric comes before an argument"
    assert numbers(runs, "--opt=adam") == numbers(runs, "opt:ad") == numbers(runs, "opt!=sgd") == [7]


@pytest.mark.parametrize("text", ["Loss<0.4", "--rate=0.1", "-Loss<0.4", "train rate>3"])
def test_unknown_name_in_a_condition_is_refused(runs: Runs, text: str) -> None:
    with pytest.raises(UsageError, match=r"no column, metric or argument is named '(Loss|--rate|rate)'"):
        runs.page(RunQuery(text))


@pytest.mark.parametrize("text", ["loss<0.01", "--lr=9", "nothing", "state:lost", "has:rate"])
def test_known_name_without_a_matching_run_is_not_refused(runs: Runs, text: str) -> None:
    assert runs.page(RunQuery(text)).rows == []


def test_filter_finds_the_runs_of_agents(runs: Runs) -> None:
    add(runs.project, 7, agent="Coder 2")
    add(runs.project, 8, agent="evil\x1b[2J\n" + "x" * 1000)
    add(runs.project, 9, agent=["no text"])
    assert numbers(runs, "has:agent") == [8, 7]
    assert numbers(runs, "agent:coder") == numbers(runs, 'agent="coder 2"') == numbers(runs, "coder") == [7]
    with RunIndex(runs.project) as index:
        groups = {group.value: group.total for group in index.groups(RunQuery("number>5", group="agent"))}
    assert (groups[""], groups["Coder 2"]) == (2, 1)
    evil = runs.get("8").agent
    assert (evil[:12], len(evil)) == ("evil [2J xxx", 64)


@pytest.mark.parametrize("text", ["AUSWÄRTS", "script:AUSWÄRTS", "script=auswärts.PY", "note:PRÜFEN"])
def test_filter_ignores_the_case_of_all_letters(runs: Runs, text: str) -> None:
    add(runs.project, 7, script="AusWÄrts.py")
    runs.annotate("7", lambda found: found._replace(note="Prüfen"))
    assert numbers(runs, text) == [7]


def test_incomplete_conditions_are_ignored(runs: Runs) -> None:
    for text in ("loss<", "loss<x", "number>", "script:", "duration>1x", "started>soon", '"', "is:"):
        assert numbers(runs, text) == [6, 5, 4, 3, 2, 1], text
    assert numbers(runs, "-") == [6, 5, 4, 1], "a lone hyphen is an ordinary word"


def test_filter_text_is_not_part_of_the_sql(runs: Runs) -> None:
    for text in ("'; DROP TABLE runs; --", "%", "_", "\\", "a' OR '1'='1", "?", "is:'", 'x"y', "\0"):
        assert numbers(runs, text) in ([], [6, 5, 4, 3, 2, 1]), text
        assert len(numbers(runs)) == 6, text


@settings(max_examples=200)
@given(st.text(st.sampled_from("ab:=<>!-\"' .0#is?éß\0"), max_size=12))
def test_any_text_is_a_valid_filter(text: str) -> None:
    import sqlite3

    from tui_workbench.runs.index import index_file

    connection = index_file.connect(":memory:")
    condition = condition_of(text)
    try:
        assert connection.execute(
            f"SELECT count(*) FROM listed WHERE {condition.sql}", condition.values
        ).fetchone() == (0,)
    except sqlite3.Error as error:  # pragma: no cover
        raise AssertionError(condition) from error
    finally:
        connection.close()


def test_annotations_are_found(runs: Runs, project: Project) -> None:
    for number, tags, note in ((1, {"best": "", "model": "ResNet"}, "Überraschend gut"), (2, {"bestest": ""}, "")):
        runs.annotate(str(number), lambda found, t=tags, n=note: with_tags(found._replace(note=n), t))  # type: ignore[misc]
    assert numbers(runs, "tag:best") == [2, 1]
    assert numbers(runs, "tag=best") == [1]
    assert numbers(runs, "tag=model") == numbers(runs, "tag=model=resnet") == numbers(runs, "resnet") == [1]
    assert numbers(runs, "überraschend") == numbers(runs, "note:ÜBER") == numbers(runs, "has:note") == [1]
    assert numbers(runs, "-has:tag is:ended") == [5, 4, 3]


class TestOrder:
    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ({"descending": False}, [1, 2, 3, 4, 5, 6]),
            ({"sort": "number"}, [6, 5, 4, 3, 2, 1]),
            ({"sort": "script", "descending": False}, [5, 3, 6, 4, 2, 1]),
            (
                {"sort": "loss", "descending": False},
                [4, 2, 1, 5, 6, 3],
            ),  # values that are not numbers, and missing values, are last
            ({"sort": "loss"}, [5, 1, 2, 4, 6, 3]),
            ({"sort": "Accuracy"}, [2, 1, 6, 5, 4, 3]),
            ({"sort": "no such metric"}, [6, 5, 4, 3, 2, 1]),
            ({"group": "script"}, [6, 4, 2, 1, 5, 3]),
            ({"group": "target", "sort": "loss", "descending": False}, [2, 1, 5, 6, 3, 4]),
            ({"group": "no such column"}, [6, 5, 4, 3, 2, 1]),
        ],
    )
    def test_order_is_as_requested(self, runs: Runs, query: dict[str, Any], found: list[int]) -> None:
        assert numbers(runs, **query) == found

    @pytest.mark.parametrize("descending", [True, False])
    def test_sorting_by_any_column_lists_every_run_once(self, runs: Runs, descending: bool) -> None:
        listed = {column: sorted(numbers(runs, sort=column, descending=descending)) for column in COLUMNS}
        assert listed == {column: [1, 2, 3, 4, 5, 6] for column in COLUMNS}

    def test_pinned_runs_come_first_in_any_order(self, runs: Runs) -> None:
        runs.annotate("2", lambda found: found._replace(pinned=True))
        assert numbers(runs) == [2, 6, 5, 4, 3, 1]
        assert numbers(runs, descending=False) == [2, 1, 3, 4, 5, 6]
        assert numbers(runs, sort="loss", descending=False)[0] == 2

    def test_pages_together_are_the_whole_table(self, project: Project) -> None:
        for number in range(1, 60):
            add(project, number, script=f"s{number % 3}.py", metrics={"loss": float(number % 7)})
        with RunIndex(project) as index:
            for query in (
                RunQuery(),
                RunQuery("s1"),
                RunQuery(sort="loss"),
                RunQuery("s2", sort="loss", group="script"),
            ):
                whole = index.page(query, 0, 1000)
                parts = [row for offset in range(0, 60, 7) for row in index.page(query, offset, 7).rows]
                assert parts == whole.rows
                assert len(parts) == whole.total
                assert index.page(query, 1000, 7) == (whole.total, [])


class TestRest:
    def test_groups(self, runs: Runs) -> None:
        with RunIndex(runs.project) as index:
            found = index.groups(RunQuery(group="script"))
            assert [(group.value, group.total, group.active) for group in found] == [
                ("train.py", 4, 1),
                ("eval.py", 2, 0),
            ]
            assert [group.value for group in index.groups(RunQuery("is:failed", group="target"))] == ["local"]

    def test_column_returns_values_for_a_chart(self, runs: Runs) -> None:
        with RunIndex(runs.project) as index:
            assert [(n, v) for _, n, v in index.column(RunQuery("train"), "loss")] == [(1, 0.5), (2, 0.3), (4, 0.1)]
            assert [n for _, n, _ in index.column(RunQuery(), "loss", 2)] == [4, 5]
            durations = index.column(RunQuery("is:ended"), "duration")
            assert [round(value) for *_, value in durations] == [5, 700, 10, 70, 10]
            assert index.column(RunQuery(), "no such metric") == []

    def test_metric_names_are_counted(self, runs: Runs, project: Project) -> None:
        import shutil

        with RunIndex(project) as index:
            assert index.metric_names() == [("loss", 5), ("Accuracy", 2), ("verdict", 1)]
            assert index.metric_names(1) == [("loss", 5)]
        shutil.rmtree(Path(project.runs_directory, "project_1700000000005"))
        with RunIndex(project) as index:
            assert index.metric_names() == [("loss", 4), ("Accuracy", 2)]

    def test_row_holds_the_run_and_its_metrics(self, runs: Runs) -> None:
        with RunIndex(runs.project) as index:
            (row,) = index.page(RunQuery("#2")).rows
            assert row.run in index.runs()
        assert row.facts.metrics == {"loss": 0.3, "Accuracy": 0.8}

    def test_metrics_of_an_active_run_are_current(self, project: Project) -> None:
        run_id = add(project, 1, state="running", metrics={"loss": 0.5})
        with RunIndex(project) as index:
            assert index.page(RunQuery("loss=0.5")).total == 1
        with Path(project.runs_directory, run_id, "metrics.jsonl").open("a") as file:
            file.write('{"name": "loss", "value": 0.25, "step": 2, "time": 1}\n')
        with RunIndex(project) as index:
            assert index.page(RunQuery("loss=0.25")).total == 1
            assert index.metric_names() == [("loss", 1)]

    def test_number_of_metrics_in_the_index_is_limited(self, project: Project) -> None:
        add(project, 1, metrics={f"m{number}": 1.0 for number in range(1_200)})
        with RunIndex(project) as index:
            (row,) = index.page(RunQuery()).rows
        assert (len(row.facts.metrics), row.facts.more_metrics) == (1_000, 200)
        (record,) = Runs(project).history_records()
        assert record["metrics_left_out"] == 200


def test_long_text_metric_is_cut_with_an_ellipsis(project: Project) -> None:
    add(project, 1, metrics={"story": "x" * 5_000})
    with RunIndex(project) as index:
        (row,) = index.page(RunQuery()).rows
    assert row.facts.metrics == {"story": "x" * 1_000 + "…"}


@pytest.mark.parametrize(
    "record",
    [
        {"run_number": "7"}, {"run_number": 1 << 70}, {"run_number": None}, {"script": None}, {"created": "x"},
        {"created": 1e300}, {"arguments": [1]}, {"user_id": {}}, {"run_id": "another"}, {"commit_id": []},
    ],
)  # fmt: skip
def test_record_with_any_values_is_listed(project: Project, record: dict[str, Any]) -> None:
    add(project, 1)
    strange = add(project, 2, **record)
    with RunIndex(project) as index:
        rows = {row.run.run_id: row.run for row in index.page(RunQuery()).rows}
    assert set(rows) == {"project_1700000000001", strange}
    assert rows[strange].state == "unknown"
    assert "run.json" in rows[strange].reason


def test_arguments_that_differ_among_shown_runs_are_found(runs: Runs) -> None:
    with RunIndex(runs.project) as index:
        every = {name: (count, differs) for name, count, differs in index.arguments(RunQuery())}
        alike = [name for name, _, differs in index.arguments(RunQuery("#1 or")) if differs]
        some = index.arguments(RunQuery("loss=0.5"))
    assert every == {"--lr": (2, True), "lr": (1, True), "argument 1": (1, True), "--epochs": (2, True)}
    assert (alike, some) == ([], [("--lr", 1, False)])


def test_runs_are_sorted_by_an_argument_as_numbers(project: Project) -> None:
    for number, rate in enumerate(("10", "9", "1e-3", "auto"), 1):
        add(project, number, arguments=["--lr", rate])
    add(project, 5, arguments=[])
    assert numbers(Runs(project), sort="argument --lr", descending=False) == [3, 2, 1, 4, 5]


def test_best_value_is_finite_and_of_completed_shown_runs(runs: Runs) -> None:
    add(runs.project, 7, state="failed", metrics={"loss": 0.01})
    with RunIndex(runs.project) as index:
        assert index.best(RunQuery(), "loss", "min") == 0.1
        assert index.best(RunQuery(), "loss", "max") == 0.5
        assert index.best(RunQuery("loss>0.1"), "loss", "min") == 0.3
        assert index.best(RunQuery(), "verdict", "max") is None
