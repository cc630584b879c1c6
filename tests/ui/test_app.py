"""The application: imports, start, end and workers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from benchmarks.terminal import Terminal
from tests.ui.main.test_main import opened
from tests.ui.waiting import until
from tui_workbench.core.errors import ProjectNotFound
from tui_workbench.ui.files.readme_view import ReadmeScreen
from tui_workbench.ui.start import run

if TYPE_CHECKING:
    from pathlib import Path

    from tui_workbench.projects.project import Project


def imported_by(statement: str) -> set[str]:
    """Return the modules that are loaded after a statement in a new interpreter."""
    code = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_first_frame_imports_no_heavy_modules() -> None:
    loaded = imported_by(
        "import tui_workbench.ui.app, tui_workbench.projects.project, tui_workbench.ui.files.file_tree"
    )
    heavy = {"yaml", "sqlite3", "tree_sitter", "textual.widgets._text_area", "tui_workbench.ui.editor.editor"}
    assert not loaded & heavy
    assert "tui_workbench.ui.logs.log" not in loaded


def test_ui_package_does_not_import_textual() -> None:
    assert not {name for name in imported_by("import tui_workbench.ui") if name.split(".")[0] in ("textual", "rich")}


def test_folder_without_project_is_refused_before_any_screen(tmp_path: Path) -> None:
    with pytest.raises(ProjectNotFound, match="no project found"):
        run(str(tmp_path))


@pytest.mark.slow
def test_leaving_prints_the_active_runs(project_root: Path) -> None:
    (project_root / "hello.py").write_text("import time\ntime.sleep(600)\n")
    with Terminal([sys.executable, "-m", "tui_workbench", str(project_root)], columns=100, rows=40) as terminal:
        terminal.until_text("hello.py ▾")
        terminal.send("\x12")
        terminal.until_text("1 running")
        terminal.send("q")
        terminal.until_text("1 active run: hello.py [1]")
        terminal.until_text("workbench-tui logs -f 1")
    subprocess.run(
        [sys.executable, "-m", "tui_workbench", "experiment", "cancel", "--project", str(project_root), "--run", "1"],
        check=True,
        capture_output=True,
    )


async def test_closing_a_screen_cancels_its_workers(project: Project) -> None:
    started: list[str] = []

    async def wait(name: str) -> None:
        started.append(name)
        await asyncio.Event().wait()

    async with opened(project) as pilot:
        screen = ReadmeScreen(project)
        await pilot.app.push_screen(screen)
        on_the_screen, on_the_app = screen.run_worker(wait("screen")), pilot.app.run_worker(wait("app"))
        await until(lambda: len(started) == 2)
        pilot.app.pop_screen()
        assert (on_the_screen.is_cancelled, on_the_app.is_cancelled) == (True, False)
        on_the_app.cancel()
