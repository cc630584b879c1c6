"""GPUs of another machine over SSH, with a stand-in for `nvidia-smi`."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.support import until as until_now
from tests.gpu.standin import REST, gpu
from tests.machines import PASSWORD
from tests.targets.gpu.test_feed import samplers
from tests.ui.main.test_main import opened, seen
from tests.ui.waiting import until
from tui_workbench.ui.gpu.monitor_screen import MonitorScreen
from tui_workbench.ui.machines.machine import CheckScreen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.gpu.standin import Standin
    from tests.machines import Machine
    from tui_workbench.projects.project import Project

REFERENCE = "AzureMlSecret=box#research#0123456789abcdef0123456789abcdef"


@pytest.fixture
def box(project: Project, standin: Standin, gpubox: Machine, connections: Path, home: Path) -> Iterator[Standin]:
    """Return a machine with two GPUs and a login whose password is not stored."""
    (home / ".ssh").mkdir(mode=0o700)
    (home / ".ssh" / "known_hosts").write_text(gpubox.known_hosts_line)
    Path(project.config_directory, "box.compute").write_text(
        f'type: remote\naddress: {gpubox.address}\nusername: research\npassword: "{REFERENCE}"\n'
    )
    standin.write(gpu(0, util=83), gpu(1, REST))
    variables = f"SetEnv PATH={standin.built.programs}:/usr/bin:/bin STANDIN_NVML_STATE={standin.state}"
    with gpubox.configured(variables):
        yield standin
        for pid in samplers(home):
            os.kill(pid, signal.SIGKILL)
        until_now(lambda: not samplers(home), "the sampler's end")


@pytest.mark.usefixtures("keyring")
async def test_machine_that_needs_a_login_names_the_key_for_it(project: Project, box: Standin) -> None:
    async with opened(project) as pilot:
        await pilot.press("7")
        await until(lambda: "not contacted yet" in seen(pilot) and "r connects to the machine" in seen(pilot))
        await pilot.press("g", "r")
        await until(lambda: "needs a password, but none is stored" in seen(pilot))
        assert isinstance(pilot.app.screen, MonitorScreen)
        assert "t diagnoses the machine, r retries" in seen(pilot)
        await until(lambda: seen(pilot).count("Tesla T4") == 2)  # the GPUs of this machine
        await pilot.press("g", "t")
        await until(lambda: isinstance(pilot.app.screen, CheckScreen) and "Password of research" in seen(pilot))
        await pilot.press(*PASSWORD, "enter")
        await until(lambda: "logged in as research" in seen(pilot))
        await pilot.press("escape")
        await until(lambda: isinstance(pilot.app.screen, MonitorScreen))
        await until(lambda: seen(pilot).count("Tesla T4") == 4 and seen(pilot).count("83 %") == 2)
        assert "nvidia-smi" in seen(pilot)
        assert PASSWORD not in seen(pilot)
        box.write(gpu(0, util=12), gpu(1, REST))
        await until(lambda: seen(pilot).count("12 %") == 2)
