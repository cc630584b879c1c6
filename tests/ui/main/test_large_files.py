"""The question about files that are too large for a snapshot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.runs.support import write_configuration
from tests.ui.main.test_main import NARROW, WIDE, opened, seen
from tests.ui.waiting import until
from tui_workbench.core.model import RunState
from tui_workbench.runs.facade import Runs

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tui_workbench.core.model import Run
    from tui_workbench.projects.project import Project

pytestmark = pytest.mark.slow

HELD = "# mine\r\nTarget: local\r\nFramework: Python\r\n"


@pytest.fixture
def large(project: Project, project_root: Path) -> Project:
    """Return a project with a file that is too large for a snapshot."""
    write_configuration(project_root, TrackedRun=True)
    (project_root / "aml_config/local.runconfig").write_bytes(HELD.encode())
    (project_root / "images").mkdir()
    with (project_root / "images/all.raw").open("wb") as file:
        file.truncate(2 << 30)
    return project


def words(pilot: Pilot[list[Run]]) -> str:
    """Return the text on the screen as one line."""
    return " ".join(seen(pilot).split())


def states(project: Project) -> list[str]:
    return [run.state for run in Runs(project).list()]


def bytes_of(project: Project, name: str) -> bytes:
    return Path(project.root, name).read_bytes()


@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["narrow", "wide"])
async def test_large_file_is_declared_as_data_and_undone(large: Project, size: tuple[int, int]) -> None:
    async with opened(large, size) as pilot:
        await pilot.press("ctrl+r")
        await until(lambda: "images/all.raw (2.1 GB)" in words(pilot))
        assert "link them as data" in words(pilot)
        assert "exclude them" in words(pilot)
        assert states(large) == []
        await pilot.press("l")
        await until(lambda: states(large) == [RunState.COMPLETED])
        declared = "DataReferences:\r\n  - images/all.raw\r\n"
        assert bytes_of(large, "aml_config/local.runconfig").decode() == HELD + declared
        await pilot.press("ctrl+z")
        await until(lambda: bytes_of(large, "aml_config/local.runconfig") == HELD.encode())


async def test_files_cannot_be_linked_on_another_machine(large: Project, project_root: Path) -> None:
    (project_root / "aml_config/box.compute").write_text("type: remote\naddress: box.invalid\n")
    (project_root / "aml_config/local.runconfig").write_text("Target: box\nFramework: Python\n")
    async with opened(large) as pilot:
        await pilot.press("ctrl+r")
        await until(lambda: "exclude them" in words(pilot))
        assert "link them as data" not in words(pilot)


async def test_large_file_is_excluded(large: Project) -> None:
    async with opened(large) as pilot:
        await pilot.press("ctrl+r")
        await until(lambda: "exclude them" in words(pilot))
        await pilot.press("s")
        await until(lambda: states(large) == [RunState.COMPLETED])
        assert bytes_of(large, ".amlignore") == b"/images/all.raw\n"


async def test_escape_runs_nothing(large: Project) -> None:
    async with opened(large) as pilot:
        await pilot.press("ctrl+r")
        await until(lambda: "exclude them" in words(pilot))
        await pilot.press("escape")
        await until(lambda: "Nothing was run." in words(pilot))
        assert states(large) == []
        assert bytes_of(large, "aml_config/local.runconfig") == HELD.encode()
