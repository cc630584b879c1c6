"""The question before a run that requires a GPU but would use the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.gpu import frameworks as standins
from tests.gpu.standin import Standin, gpu
from tests.gpu.standin import standin as standin
from tests.gpu.standin import standin_parts as standin_parts
from tests.ui.main.test_main import NARROW, WIDE, opened, screen_of, seen
from tests.ui.waiting import until
from tui_workbench.core.model import RunState
from tui_workbench.runs.facade import Runs

if TYPE_CHECKING:
    from pathlib import Path

    from textual.pilot import Pilot

    from tui_workbench.core.model import Run
    from tui_workbench.projects.project import Project


@pytest.fixture
def asking(project: Project, project_root: Path, tmp_path: Path, standin: Standin) -> Project:
    """Return a project whose runs require a GPU, and whose PyTorch is a CPU build."""
    standin.write(gpu(0))
    standins.torch(tmp_path / "packages", version="2.4.0+cpu", cuda=None, capabilities=())
    configuration = project_root / "aml_config"
    with (configuration / "local.compute").open("a") as file:
        file.write("gpus: all\n")
    path = configuration / "local.runconfig"
    path.write_text(path.read_text().replace("{}", f"{{PYTHONPATH: {tmp_path / 'packages'}}}"))
    (project_root / "hello.py").write_text("import torch\nprint('hello')\n")
    return project


def words(pilot: Pilot[list[Run]]) -> str:
    """Return the text on the screen as one line."""
    return " ".join(seen(pilot).split())


@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["narrow", "wide"])
async def test_key_runs_on_the_cpu(asking: Project, size: tuple[int, int]) -> None:
    async with opened(asking, size) as pilot:
        await pilot.press("ctrl+r")
        await until(lambda: "run on CPU" in words(pilot))
        assert "This run would not use a GPU, but gpus is all: PyTorch 2.4.0+cpu is a CPU build" in words(pilot)
        assert Runs(asking).list() == []
        await pilot.press("r")
        await until(lambda: [run.state for run in Runs(asking).list()] == [RunState.COMPLETED])
        assert "run on CPU" not in words(pilot)


async def test_fix_is_copied_and_nothing_is_run(asking: Project) -> None:
    async with opened(asking) as pilot:
        await pilot.press("ctrl+r")
        await until(lambda: "copy fix" in words(pilot))
        await pilot.press("c")
        await until(lambda: pilot.app.clipboard.endswith("pip install --force-reinstall torch"))
        await pilot.press("ctrl+r")
        await until(lambda: "copy fix" in words(pilot))
        await pilot.press("n")
        await until(lambda: "Nothing was run." in words(pilot))
        assert Runs(asking).list() == []
        assert screen_of(pilot).is_current
