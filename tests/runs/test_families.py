"""Families of runs: which runs count, and which are left out."""

from __future__ import annotations

import math

import pytest

from tests.runs.index.test_table import add
from tui_workbench.core.errors import RunNotFound, UsageError
from tui_workbench.projects.project import Project
from tui_workbench.runs.families import compare_families, family_record, left_out_notes
from tui_workbench.runs.history import History


def test_family_leaves_out_runs_without_a_number(project: Project) -> None:
    losses = (0.1, 0.3, math.nan, None, 0.9, 0.8)
    for number, loss in enumerate(losses, 1):
        add(
            project,
            number,
            state={5: "failed", 6: "running"}.get(number, "completed"),
            arguments=["--lr", "0.1", "--seed", str(number)],
            group="sweep-1",
            family="sweep-1.1",
            metrics={} if loss is None else {"loss": loss},
        )
    add(project, 7, group="sweep-1", family="sweep-1.2", arguments=["--lr", "1"], metrics={"loss": 5.0})
    add(project, 8, metrics={"loss": 7.0})
    history = History(project)
    alone, family = history.families()
    assert [run.run_number for run in family.runs] == [1, 2, 3, 4, 5, 6]
    assert family.arguments == {"--lr": "0.1"}
    assert family_record(family)["metrics"] == {
        "loss": {
            "n": 2,
            "mean": 0.2,
            "sd": pytest.approx(0.02**0.5),
            "left_out": {"3": "loss is not a finite number", "4": "no loss", "5": "failed", "6": "unknown"},
        }
    }
    assert "sweep-1.1: left out run 5: failed" in left_out_notes(family)
    (compared,) = compare_families(history.families(["sweep-1.1", "sweep-1.2"]))
    assert compared.verdict == "not distinguishable yet: sweep-1.2 has only 1 value of loss, but 2 are needed"
    assert compared.difference is None
    with pytest.raises(UsageError, match="expected two families, not 1"):
        compare_families([alone])
    with pytest.raises(RunNotFound, match=r"no family 'sweep-9\.1'"):
        history.families(["sweep-1.1", "sweep-9.1"])
