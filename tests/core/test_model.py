"""Properties of runs and plans."""

from __future__ import annotations

import pytest

from tui_workbench.core.model import Plan, Run, RunState, Step

RUN = Run(
    run_id="project_1",
    run_number=1,
    directory="/p/.workbench/runs/project_1",
    script_name="train.py",
    arguments=(),
    run_configuration="local",
    target="local",
    target_type="local",
    state=RunState.QUEUED,
)


@pytest.mark.parametrize(
    ("state", "end", "active"),
    [
        (RunState.QUEUED, 0.0, True),
        (RunState.PREPARING, 0.0, True),
        (RunState.RUNNING, 0.0, True),
        (RunState.FINALIZING, 0.0, True),
        (RunState.UNKNOWN, 0.0, True),  # the link is down
        (RunState.UNKNOWN, 5.0, False),  # it ended with an unknown result
        (RunState.COMPLETED, 5.0, False),
        (RunState.FAILED, 5.0, False),
        (RunState.CANCELED, 5.0, False),
    ],
)
def test_run_is_active_until_it_ends(state: str, end: float, active: bool) -> None:
    assert RUN._replace(state=state, end=end).is_active is active


def test_duration_needs_start_and_end() -> None:
    assert RUN.duration == 0.0
    assert RUN._replace(start=10.0).duration == 0.0
    assert RUN._replace(end=10.0).duration == 0.0
    assert RUN._replace(start=10.0, end=12.5).duration == 2.5
    assert RUN._replace(start=10.0, end=9.0).duration == 0.0  # the clock was set back


def test_log_is_in_the_run_directory() -> None:
    assert RUN.log_path == "/p/.workbench/runs/project_1/output.log"


def test_step_is_found_by_name() -> None:
    plan = Plan("local", "local", "python", (Step("start", "s"), Step("follow", "f")))
    assert plan.step("follow") == Step("follow", "f")
    assert plan.step("collect") is None
