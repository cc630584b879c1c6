"""Open each screen and dialog on a project, as the program of a process that strace watches.

`python -m tests.trust.open_screens ROOT` prints the name of the class of each screen that was shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import pkgutil
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from textual.screen import Screen

from tests.ui.waiting import until
from tests.ui.walk import make_app
from tui_workbench import ui
from tui_workbench.core.model import Run, RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.ui import screens
from tui_workbench.ui.commands.jump import jump
from tui_workbench.ui.dashboard.dashboard_columns import ColumnsScreen
from tui_workbench.ui.files.readme_view import ReadmeScreen
from tui_workbench.ui.main.main import MainScreen
from tui_workbench.ui.project_screens import SCREENS
from tui_workbench.ui.runs.channel_form import ChannelScreen
from tui_workbench.ui.runs.compare import CompareScreen
from tui_workbench.ui.runs.compare_families import FamiliesScreen
from tui_workbench.ui.runs.preparation import PlanScreen
from tui_workbench.ui.runs.restore_screen import RestoreScreen
from tui_workbench.ui.runs.run_commands import RunEditScreen
from tui_workbench.ui.starting.sweep_form import SweepScreen

if TYPE_CHECKING:
    from textual.pilot import Pilot
    from textual.worker import Worker

WORK = 5.0  # seconds that the work of a screen is waited for; some screens work for as long as they are open

CONFIGURATIONS = ("local", "beside", "outside", "venv", "linked", "bare", "box0", "linked-managed", "bare-managed")


class Shown(NamedTuple):
    """The project whose screens are shown, and a run of it."""

    project: Project
    runs: list[Run]

    @property
    def run(self) -> Run:
        return self.runs[0]


async def _logged_in() -> bool:
    return False


def _plan(configuration: str) -> Callable[[Shown], Screen[Any]]:
    return lambda shown: PlanScreen(shown.project, RunRequest(configuration, "hello.py"), _logged_in)


BUILT: tuple[Callable[[Shown], Screen[Any]], ...] = (
    lambda shown: screens.start(shown.project),
    lambda shown: screens.calls(shown.project, None),
    lambda shown: screens.calls(shown.project, shown.run),
    *(lambda shown, name=name: SCREENS[name](shown.project) for name in SCREENS),
    lambda shown: ReadmeScreen(shown.project),
    lambda _shown: SweepScreen(RunRequest("local", "hello.py")),
    lambda shown: screens.gpu_monitor(shown.project, shown.run.run_id),
    lambda shown: FamiliesScreen(shown.project, ["a", "b"]),
    lambda shown: screens.ports(shown.project, shown.run, "local"),
    *(lambda shown, run=run: RunEditScreen(shown.project, shown.runs[run]) for run in range(2)),
    *(lambda shown, run=run: RestoreScreen(shown.project, shown.runs[run]) for run in range(4)),
    *(lambda shown, run=run: screens.run_details(shown.project, shown.runs[run]) for run in range(4)),
    *map(_plan, CONFIGURATIONS),
    lambda _shown: ChannelScreen(lambda _channel: None),
    lambda _shown: ColumnsScreen([], []),
    lambda shown: screens.dashboard(shown.project, None, None),
)  # fmt: skip
"""Screens that are opened as objects."""

PRESSED = (("f1",), ("ctrl+p",), ("2", "a"), ("2", "m"), ("2", "n"), ("p",), ("S",))
"""The keys, from the main screen, of dialogs that other screens open."""

NOT_OPENED = {
    "CheckScreen": "the user asks for a check of the target, which contacts it and starts its interpreter",
    "PrepareMachineScreen": "the user asks for the installation of software on the machine of a target",
    "PrepareScreen": "the user asks for the build of an environment",
    "FullScreen": "a base class",
    "HistoryScreen": "a base class",
    "DialogScreen": "a base class",
}
"""The classes that this program does not open, and why."""


def all_screens() -> set[str]:
    """Return the names of all classes of screens of the package."""
    for module in pkgutil.walk_packages(ui.__path__, f"{ui.__name__}."):
        importlib.import_module(module.name)
    return {each.__name__ for each in _subclasses(Screen) if each.__module__.startswith(f"{ui.__name__}.")}


def _subclasses(kind: type[Screen[Any]]) -> set[type[Screen[Any]]]:
    return {kind}.union(*(_subclasses(each) for each in kind.__subclasses__()))


class Opening:
    """Opens screens over the main screen and remembers the classes of all that were shown."""

    def __init__(self, root: str) -> None:
        self.app = make_app(root)
        project = Project(root)
        self.shown = Shown(project, Runs(project).list())
        self.classes: set[str] = set()

    async def open_all(self) -> None:
        async with self.app.run_test(size=(160, 45)) as pilot:
            await until(lambda: isinstance(self.app.screen, MainScreen) and self.app.screen.is_complete)
            for build in BUILT:
                await self._open(pilot, partial(self._push, build))
            for keys in PRESSED:
                await self._open(pilot, partial(pilot.press, *keys))
            await self._open(pilot, partial(jump, self.app))
            await self._open(pilot, partial(self._compare, pilot))

    async def _open(self, pilot: Pilot[Any], opening: Callable[[], Awaitable[object]]) -> None:
        before = set(self.app.workers)
        await opening()
        self._note()
        await self._worked(before)
        await pilot.press("tab", "down", "right")
        await self._worked(before)
        self._note()
        while len(self.app.screen_stack) > 1 and not isinstance(self.app.screen, MainScreen):
            self.app.pop_screen()
        await until(lambda: isinstance(self.app.screen, MainScreen))

    async def _push(self, build: Callable[[Shown], Screen[Any]]) -> None:
        await self.app.push_screen(build(self.shown))

    async def _compare(self, pilot: Pilot[Any]) -> None:
        """Open the comparison of two runs, and the differences of a row of it."""
        await self._push(lambda shown: CompareScreen(shown.project, shown.runs[:2]))
        await self._worked(set())
        self._note()
        await pilot.press("enter")

    async def _worked(self, before: set[Worker[Any]]) -> None:
        """Wait until the workers that were started since then have ended, for at most WORK."""
        started = set(self.app.workers) - before
        with contextlib.suppress(AssertionError):
            await until(lambda: all(worker.is_finished for worker in started), WORK)

    def _note(self) -> None:
        self.classes.update(type(screen).__name__ for screen in self.app.screen_stack)


def main() -> None:
    opening = Opening(sys.argv[1])
    asyncio.run(opening.open_all())
    print("\n".join(sorted(opening.classes)))


if __name__ == "__main__":
    main()
