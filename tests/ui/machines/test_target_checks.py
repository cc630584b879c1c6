"""The state of targets from checks and from the GPU monitor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.ui.gpu.states import machine, reading
from tests.ui.main.test_main import opened, screen_of
from tests.ui.seen import content_of
from tests.ui.waiting import until
from tui_workbench.core.model import ComputeTarget
from tui_workbench.targets.checks.result import OK, CheckResult
from tui_workbench.targets.gpu.fleet import MachineState
from tui_workbench.ui.gpu.monitor_pane import MonitorPane
from tui_workbench.ui.machines.target_checks import Checked, TargetChecks

if TYPE_CHECKING:
    from pathlib import Path

    from tui_workbench.projects.project import Project

BOX = ComputeTarget(name="box", path="/p/aml_config/box.compute", type="remote", address="box", username="me")
LOST = MachineState("box", ("box",), "me@box", problem="out of reach: unknown host name box", remedy="Check it.")


def test_unreachable_machine_is_an_error_until_it_answers() -> None:
    checks = TargetChecks()
    assert checks.see([LOST])
    assert "out of reach" in str(checks.errors([BOX])["box"])
    assert not checks.see([LOST])
    assert checks.see([machine(reading(0), reading(1), name="box")])
    assert checks.errors([BOX]) == {}
    assert checks.gpus == {"box": 2}


def test_successful_check_overrides_the_gpu_monitor() -> None:
    checks = TargetChecks()
    checks.see([LOST])
    checks.add(Checked(BOX, [CheckResult("name", OK, "found")]))
    assert checks.errors([BOX]) == {}


def test_local_machine_without_gpu_is_not_an_error() -> None:
    checks = TargetChecks()
    assert not checks.see([LOST._replace(address="", problem="nvidia-smi not found")])


async def test_targets_pane_shows_an_unreachable_machine(project: Project, project_root: Path) -> None:
    (project_root / "aml_config" / "box.compute").write_text("type: remote\naddress: box\nusername: me\n")
    async with opened(project) as pilot:
        screen = screen_of(pilot)
        await until(lambda: any("box" in line for line in content_of(screen.panes.targets)))
        screen.post_message(MonitorPane.Updated("", frozenset(), [LOST]))
        await until(lambda: any("✗ box" in line and "problem" in line for line in content_of(screen.panes.targets)))
