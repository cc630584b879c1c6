"""The GPU monitor with stand-in GPUs."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.support import until as until_now
from tests.gpu.standin import REST, gpu, process
from tests.targets.gpu.test_feed import samplers
from tests.ui.main.test_main import opened, screen_of, seen
from tests.ui.runs.past import past_run
from tests.ui.waiting import until
from tui_workbench.core.model import ComputeTarget
from tui_workbench.targets.gpu.feed import LISTENERS, folder_of
from tui_workbench.targets.hosts.processes import RUN_ID_VARIABLE
from tui_workbench.ui.details.run_details import RunDetailsScreen
from tui_workbench.ui.gpu.gpu_view import GpuDetails
from tui_workbench.ui.gpu.monitor_pane import MonitorPane
from tui_workbench.ui.gpu.monitor_screen import MonitorScreen
from tui_workbench.ui.machines.machine import CheckScreen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from textual.pilot import Pilot

    from tests.gpu.standin import Standin
    from tui_workbench.core.model import Run
    from tui_workbench.projects.project import Project

    Workbench = Pilot[list[Run]]

SIZES = [(80, 24), (120, 36), (200, 60)]


@pytest.fixture
def gpus(home: Path, standin: Standin) -> Iterator[Standin]:
    """Two GPUs, one of them busy. Ends all samplers afterwards."""
    standin.write(gpu(0, util=83), gpu(1, REST))
    yield standin
    for pid in samplers(home):
        os.kill(pid, signal.SIGKILL)
    until_now(lambda: not samplers(home), "the sampler's end")


@pytest.fixture
def worker(project: Project) -> Iterator[tuple[str, int]]:
    """Return a run of the project, and a process with its run ID."""
    run_id = past_run(project, 7)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE,
                          env={**os.environ, RUN_ID_VARIABLE: run_id}) as started:  # fmt: skip
        yield run_id, started.pid
        started.kill()


@asynccontextmanager
async def monitor(project: Project, size: tuple[int, int] = (120, 36)) -> AsyncIterator[Workbench]:
    """Open the monitor and wait for a GPU."""
    async with opened(project, size) as pilot:
        await pilot.press("7")
        await until(lambda: isinstance(pilot.app.screen, MonitorScreen))
        await until(lambda: "Tesla T4" in seen(pilot))
        yield pilot


def is_free(lock: Path) -> bool:
    """Return True if no process holds the lock; then the sampler ends after some seconds."""
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def pane(pilot: Workbench) -> MonitorPane:
    return next(screen for screen in pilot.app.screen_stack if isinstance(screen, MonitorScreen)).pane


@pytest.mark.parametrize("size", SIZES)
async def test_monitor_shows_all_gpus_and_a_summary(project: Project, gpus: Standin, size: tuple[int, int]) -> None:
    async with monitor(project, size) as pilot:
        await until(lambda: "83 %" in seen(pilot) and "2 GPUs, 1 busy, 71 W" in seen(pilot))
        await pilot.press("escape")
        await until(lambda: not isinstance(pilot.app.screen, MonitorScreen))


async def test_monitor_follows_new_values(project: Project, gpus: Standin) -> None:
    async with monitor(project) as pilot:
        gpus.write(gpu(0, util=12, temp=91, throttle=0x40), gpu(1, REST))
        await until(lambda: "12 %" in seen(pilot) and "91 °C" in seen(pilot))
        assert "▲ heat (hardware)" in seen(pilot)


async def test_closing_the_monitor_releases_its_only_sampler(project: Project, gpus: Standin, home: Path) -> None:
    async with monitor(project) as pilot:
        assert len(samplers(home)) == 1
        listeners = Path(folder_of(ComputeTarget("local", "", "local"))) / LISTENERS
        assert not is_free(listeners)
        await pilot.press("escape")
        await until(lambda: is_free(listeners))


async def test_enter_opens_the_run_on_the_gpu(project: Project, gpus: Standin, worker: tuple[str, int]) -> None:
    gpus.write(gpu(0, util=83), process(worker[1]))
    async with monitor(project, (80, 24)) as pilot:
        await until(lambda: "train.py [7]" in seen(pilot))
        await pilot.press("enter")
        await until(lambda: isinstance(pilot.app.screen, RunDetailsScreen))
        assert pilot.app.screen.view.run_shown.run_id == worker[0]  # type: ignore[attr-defined]


async def test_selected_run_is_marked(project: Project, gpus: Standin, worker: tuple[str, int]) -> None:
    gpus.write(gpu(0, util=83), process(worker[1]))
    async with opened(project) as pilot:
        await until(lambda: "train.py [7]" in seen(pilot))
        assert screen_of(pilot).is_complete
        await pilot.press("7")
        await until(lambda: "● train.py [7]" in seen(pilot))


async def test_monitor_marks_the_run_selected_in_the_dashboard(
    project: Project, gpus: Standin, worker: tuple[str, int]
) -> None:
    past_run(project, 8)
    gpus.write(gpu(0, util=83), process(worker[1]))
    async with opened(project) as pilot:
        await pilot.press("6")
        await until(lambda: "train.py" in seen(pilot) and "state" in seen(pilot))
        await pilot.press("down", "7")
        await until(lambda: "● train.py [7]" in seen(pilot))
        await pilot.press("escape")
        await until(lambda: "state" in seen(pilot))


async def test_y_copies_the_values(project: Project, gpus: Standin, worker: tuple[str, int]) -> None:
    gpus.write(gpu(0, util=83), process(worker[1]))
    async with monitor(project) as pilot:
        await until(lambda: "train.py [7]" in seen(pilot))
        await pilot.press("y")
        copied = pilot.app.clipboard
        assert copied.startswith("local GPU 0  Tesla T4  GPU-00000000-")
        assert "83 %  1.0/15.0 GiB  61/70 W  55 °C" in copied
        await pilot.press("down", "y")
        assert f"pid {worker[1]}" in pilot.app.clipboard
        assert worker[0] in pilot.app.clipboard


async def test_filter_applies_while_typing_until_escape(project: Project, gpus: Standin) -> None:
    async with monitor(project, (80, 24)) as pilot:
        await pilot.press("slash", *"idle", "enter")
        await until(lambda: "83 %" not in seen(pilot))
        await pilot.press("escape")
        await until(lambda: "83 %" in seen(pilot))
        assert isinstance(pilot.app.screen, MonitorScreen)


async def test_machine_without_gpus_can_be_checked_again(project: Project, gpus: Standin) -> None:
    gpus.write()
    async with opened(project) as pilot:
        await pilot.press("7")
        await until(lambda: "the NVIDIA driver lists no GPU" in seen(pilot))
        assert "t diagnoses the machine" in seen(pilot)
        assert not pane(pilot).query_one(GpuDetails).display
        assert "7 GPUs" not in seen(pilot)  # the title of the screen is enough
        await pilot.press("t")
        await until(lambda: isinstance(pilot.app.screen, CheckScreen))
        gpus.write(gpu(0, util=83))
        await pilot.press("escape")
        await until(lambda: "83 %" in seen(pilot))


async def test_keys_reserve_and_release_a_gpu(project: Project, gpus: Standin, tmp_path: Path) -> None:
    folder = tmp_path / "reservations"
    folder.mkdir()
    folder.chmod(0o1770)
    path = Path(project.root) / "aml_config" / "local.compute"
    path.write_text(f"{path.read_text()}\ngpuReservations: {folder}\n")
    gpus.write(gpu(0, REST))
    async with monitor(project) as pilot:
        await pilot.press("e", *"1h", "enter")
        await until(lambda: "reserved by you until" in seen(pilot))
        assert len(list(folder.iterdir())) == 1
        await pilot.press("x")
        await until(lambda: "reserved by you until" not in seen(pilot))
        assert list(folder.iterdir()) == []


async def test_unavailable_monitor_commands_give_a_reason(project: Project, gpus: Standin) -> None:
    async with monitor(project) as pilot:
        assert pane(pilot).why_not("open") == "No run of yours is selected."
        assert pane(pilot).why_not("retry") == "This machine has no problem."
        assert pane(pilot).why_not("clear_filter") == "No filter is set."
        assert pane(pilot).why_not("copy") == ""


async def test_help_explains_glyphs_and_keys(project: Project, gpus: Standin) -> None:
    async with monitor(project, (120, 60)) as pilot:
        await pilot.press("question_mark")
        await until(lambda: "◇ another user" in seen(pilot))
        assert "Find out why" in seen(pilot)
