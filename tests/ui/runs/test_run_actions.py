"""Actions on several runs: an error with one of them does not stop the others, or the undo."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui_workbench.core.errors import RunNotFound
from tui_workbench.runs.facade import Runs
from tui_workbench.ui.runs import run_actions as actions

if TYPE_CHECKING:
    from tui_workbench.projects.project import Project


def test_missing_run_does_not_stop_a_change_or_its_undo(past: Project) -> None:
    runs = Runs(past)
    marked = [runs.get(number) for number in ("1", "2", "3")]
    first, missing, last = (run.run_id for run in marked)
    runs.delete(missing)
    done = actions.toggle_pinned(past, marked)
    assert list(done.before) == [first, last]
    assert [type(error) for error in done.problems] == [RunNotFound]
    runs.delete("4")
    problems = actions.set_annotations(past, {runs.deleted(["4"])[0].run_id: done.before[first], **done.before})
    assert [type(error) for error in problems] == [RunNotFound]
    assert not any(runs.facts(run_id).annotations.pinned for run_id in (first, last))


def test_run_that_left_the_trash_does_not_stop_the_others(past: Project) -> None:
    runs = Runs(past)
    deleted = actions.delete(past, [runs.get(number) for number in ("1", "2", "3", "4")])
    purged, taken, *others = deleted.run_ids
    runs.purge([purged])
    runs.undelete(taken)
    problems = actions.undelete(past, deleted.run_ids)
    assert [error.message for error in problems] == ["cannot restore 1 run: deleted permanently"]
    assert {run.run_id for run in runs.list()} >= {taken, *others}
    assert runs.deleted() == []
