"""The progress line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len
from textual.app import App

from tests.ui.runs.past import past_run
from tests.ui.seen import lines_of
from tests.ui.waiting import until
from tui_workbench.core.model import RunState
from tui_workbench.core.progress import BYTES, Progress
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.lifecycle.step_progress import PROGRESS
from tui_workbench.ui.widgets.progress_line import RunProgressLine, progress_pieces

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from tui_workbench.projects.project import Project


def sending(done: float, rate: float = 45e6, seconds: float = 9.0) -> Progress:
    return Progress("sending", done, 1.9e9, BYTES, 0.0, rate, seconds)


def text_of(progress: Progress | None, width: int) -> tuple[str, str]:
    left, right = progress_pieces(progress, width)
    return "".join(piece.text for piece in left), "".join(piece.text for piece in right)


def test_line_shows_step_amount_speed_and_time_left() -> None:
    left, right = text_of(sending(1.2e9), 120)
    assert left.startswith(" sending")
    assert "█" in left
    assert left.endswith(" 63 %")
    assert right.split("  ")[0].strip() == "1.2 of 1.9 GB"
    assert "45.0 MB/s" in right
    assert "20 s left" in right


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_parts_keep_their_places(width: int) -> None:
    shapes = set()
    for done, rate, seconds in ((0, 0, 0.5), (1e3, 10, 1), (1.2e9, 45e6, 9), (1.9e9, 9.9e9, 1e4)):
        left, right = text_of(sending(done, rate, seconds), width)
        assert cell_len(left) + cell_len(right) <= width
        shapes.add((cell_len(left), cell_len(right)))
    assert len(shapes) == 1


def test_no_bar_without_a_total() -> None:
    left, right = text_of(Progress("listing", 1200, 0, "files", 0.0, 100.0, 5.0), 100)
    assert "█" not in left
    assert "░" not in left
    assert "1,200 files" in right
    assert text_of(None, 100) == ("", "")


def test_untrusted_text_is_made_safe() -> None:
    left, _ = text_of(Progress("\x1b[31m", 1, 2, "files", 0.0), 100)
    assert "\x1b" not in left


def write_progress(path: Path, progress: Progress | None) -> None:
    if progress is None:
        path.unlink()
    else:
        path.write_text(json.dumps(progress._asdict()))


class OneLine(App[None]):
    """An app with the line only."""

    def __init__(self) -> None:
        super().__init__()
        self.line = RunProgressLine()

    def compose(self) -> ComposeResult:
        yield self.line


async def test_line_is_visible_while_there_is_progress(project: Project) -> None:
    past_run(project, 1)
    (run,) = Runs(project).list()
    run = run._replace(state=RunState.PREPARING)
    app = OneLine()
    async with app.run_test(size=(100, 5)) as pilot:
        app.line.show_run(run)
        await pilot.pause()
        assert not app.line.display

        app.line.post_message(RunProgressLine.Read(run.run_id, sending(1.2e9, seconds=0.1)))
        await pilot.pause()
        assert not app.line.display, "it may be over at once"
        path = Path(run.directory, PROGRESS)
        write_progress(path, sending(1.2e9))
        await until(lambda: app.line.display)
        await until(lambda: "63 %" in "".join(lines_of(app.line)))
        write_progress(path, None)
        await until(lambda: not app.line.display)
        app.line.show_run(run._replace(state=RunState.RUNNING))
        assert app.line.progress is None
