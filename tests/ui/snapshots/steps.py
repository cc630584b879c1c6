"""The keys that open each screen, from the main screen of a project with ended runs."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, NamedTuple

from tests.ui.textual_internals import whole_strips
from tests.ui.waiting import until
from tui_workbench.runs.facade import Runs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from textual.pilot import Pilot

    from tui_workbench.core.model import Run
    from tui_workbench.projects.project import Project


POLL = 0.05  # seconds; drawing the whole screen takes much longer than most conditions of tests


class Steps(NamedTuple):
    """The way to a screen: keys, and patterns of lines to wait for, which begin with `=`.

    `prepare` changes the project before it is opened. The first key is pressed when a line matches `ready`, because
    palette and jump mode show the commands and places of the moment at which they are opened.
    """

    keys: tuple[str, ...]
    prepare: Callable[[Project], object] = lambda project: None
    ready: str = "✗.* ValueError"

    async def press(self, pilot: Pilot[list[Run]]) -> None:
        await _wait_for(pilot, self.ready)
        for key in self.keys:
            if key.startswith("=") and len(key) > 1:
                await _wait_for(pilot, key[1:])
            else:
                await pilot.press(key)


async def _wait_for(pilot: Pilot[list[Run]], pattern: str) -> None:
    # Not `seen`, which would draw a dialog without the screen below, also for the picture.
    await until(lambda: any(re.search(pattern, strip.text) for strip in whole_strips(pilot.app)), poll=POLL)


def keys(*names: str) -> Steps:
    return Steps(names)


def without_runs(project: Project) -> None:
    shutil.rmtree(project.runs_directory)


def with_deleted_runs(project: Project) -> None:
    Runs(project).delete("1")
    Runs(project).delete("6")


ALL_RUNS = ("6", "=duration +run 6|accuracy +started *$")  # charts, or the table of a small terminal without charts
OPEN = ("slash", *"gpu-box.run", "enter", "=Framework")

STEPS: Mapping[str, Steps] = {
    "main": keys(),
    "main-without-runs": Steps((), without_runs, "runs train.py on local"),
    "editor": keys("slash", *"train", "enter", "=Train a small network", "down", "down", "shift+down"),
    "form": keys("slash", *"local.run", "enter", "=OMP_NUM_THREADS"),
    "config-problem": keys(*OPEN, "f8", "ctrl+t"),
    "log-search": keys("4", "slash", *"lr", "=2 of 2"),
    "choices": keys("0", "enter"),
    "all-runs": keys(*ALL_RUNS),
    "curves": keys(*ALL_RUNS, "m"),
    "columns": keys(*ALL_RUNS, "o", "=Columns"),
    "details": keys(*ALL_RUNS, "down", "enter", "=Metrics"),
    "comparison": keys(*ALL_RUNS, "down", "space", "down", "c", "=Comparison"),
    "detach": keys("2", "home", "x", "=Detach"),
    "edit-run": keys(*ALL_RUNS, "down", "e"),
    "plan": keys("p", "=The plan is ready."),
    "sweep": keys("S", *"lr=0.1,0.2"),
    "attach": keys("2", "a"),
    "gpu-ready": keys("2", "home", "m"),
    "help": keys("question_mark"),
    "palette": keys("ctrl+p", *"run"),
    "jump": keys("ctrl+g"),
    "theme": keys("ctrl+p", *"theme", "enter", "=Slate"),
    "gpus": keys("7", "=Tesla T4"),
    "projects": keys("O"),
    "channel": keys("ctrl+p", *"notif", "enter", "=No channels.", "a", "=Add a channel"),
    "trash": Steps(("ctrl+p", *"trash", "enter", "=2 runs"), with_deleted_runs, "train.py"),
}
