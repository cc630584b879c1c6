"""The screen of runs of agents that wait for an approval."""

from __future__ import annotations

import pytest

from tests.runs.support import REQUEST
from tests.ui.main.test_main import opened, seen
from tests.ui.waiting import until
from tests.waiting import wait_until
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.projects.project import Project
from tui_workbench.runs.agents.approvals import find_approval
from tui_workbench.runs.agents.submitting import submit_for_agent
from tui_workbench.runs.facade import Runs
from tui_workbench.ui.runs.approvals_screen import ApprovalsScreen
from tui_workbench.ui.widgets.row_list import RowList
from tui_workbench.ui.widgets.text_view import TextView

pytestmark = pytest.mark.slow


async def test_requests_are_approved_and_denied(project: Project) -> None:
    for rate in ("1", "2"):
        submit_for_agent(project, REQUEST._replace(arguments=("--lr", rate), agent="tester"))
    async with opened(project) as pilot:
        await until(lambda: "2 to approve: A" in seen(pilot))
        await pilot.press("A")
        await until(lambda: "2 requests waiting" in seen(pilot))
        await until(lambda: "local is not in `targets` of the limits for agents." in " ".join(seen(pilot).split()))
        await pilot.press("d")
        await until(lambda: "Reason for the agent" in seen(pilot))
        await pilot.press("n", "o", "enter")
        await until(lambda: "1 request waiting" in seen(pilot))
        assert find_approval(2).answer == "no"
        await pilot.press("g")
        await until(lambda: "hello.py --lr 1 on local (local)" in seen(pilot) and "1. start" in seen(pilot))
        await pilot.press("a")
        await until(lambda: "0 requests waiting" in seen(pilot))
    (run,) = Runs(project).list()
    assert (run.run_id, run.arguments) == (find_approval(1).run_id, ("--lr", "1"))
    wait_until(lambda: not Runs(project).get(run.run_id).is_active)


async def test_enter_scrolls_the_plan(project: Project) -> None:
    submit_for_agent(project, REQUEST._replace(agent="tester"))
    async with opened(project) as pilot:
        await until(lambda: "1 to approve: A" in seen(pilot))
        await pilot.press("A")
        await until(lambda: "1. start" in seen(pilot))
        await pilot.press("enter")
        await until(lambda: isinstance(pilot.app.focused, TextView))
        await pilot.press("enter")
        await until(lambda: isinstance(pilot.app.focused, RowList))


async def test_long_error_is_shown_in_full(project: Project) -> None:
    async with opened(project, (80, 24)) as pilot:
        await pilot.press("A")
        await until(lambda: isinstance(pilot.app.screen, ApprovalsScreen))
        screen = pilot.app.screen
        assert isinstance(screen, ApprovalsScreen)
        screen.show_error(WorkbenchError("not a GPU build " * 20, remedy="Fix: pip install torch"))
        await until(lambda: "Fix: pip install torch" in " ".join(seen(pilot).split()))
