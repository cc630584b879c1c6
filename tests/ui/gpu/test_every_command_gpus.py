"""The retry command of the monitor, with stand-in GPUs. `test_monitor` tests its other commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.gpu.standin import gpu
from tests.ui.command_driver import CommandDriver, proves
from tests.ui.gpu.test_monitor import gpus  # noqa: F401  (a fixture)
from tests.ui.main.test_main import opened, seen
from tests.ui.waiting import until

if TYPE_CHECKING:
    from tests.gpu.standin import Standin
    from tui_workbench.projects.project import Project


@proves("gpus.retry")
async def test_retry_command(project: Project, gpus: Standin) -> None:  # noqa: F811
    gpus.write()
    async with opened(project) as pilot:
        await pilot.press("7")
        await until(lambda: "the NVIDIA driver lists no GPU" in seen(pilot))
        gpus.write(gpu(0, util=83))
        await CommandDriver(pilot).does("gpus.retry", lambda: "83 %" in seen(pilot))
