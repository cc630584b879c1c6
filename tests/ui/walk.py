"""Random keys in the whole program, with checks after each key.

The invariants:

- the screen equals a full repaint;
- the focus is on a visible widget, which shows that it has the focus;
- no file of the project or of the user's configuration changes, unless one of the last commands writes files;
- escape leads to the screen below and its focused widget, and pressed often enough to the main screen, to a widget in
  which letters are commands.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from textual import events
from textual.widgets import Input, TextArea

from tests.ui.painted import PaintedDisplay
from tests.ui.textual_internals import name_of_character
from tui_workbench.projects.project import Project
from tui_workbench.ui.app import WorkbenchApp
from tui_workbench.ui.commands.registry import COMMANDS
from tui_workbench.ui.editor.editor import EditorPane
from tui_workbench.ui.files.file_tree import FileTree, read_folder
from tui_workbench.ui.form.form_view import FormView
from tui_workbench.ui.machines.machine import AttachScreen
from tui_workbench.ui.machines.prepare_machine import PrepareMachineScreen
from tui_workbench.ui.main.main import MainScreen
from tui_workbench.ui.projects.start_screen import StartScreen
from tui_workbench.ui.session_state import load_session
from tui_workbench.ui.terminal.capabilities import Terminal
from tui_workbench.ui.terminal.textual_internals import is_in_layout
from tui_workbench.ui.themes.themes import load_theme
from tui_workbench.ui.widgets.question_row import QuestionRow
from tui_workbench.ui.widgets.row_list import RowList

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from textual.screen import Screen
    from textual.widget import Widget

    from tui_workbench.core.model import Run  # noqa: F401  the type of the result

SETTLED = 60.0  # seconds after which a screen that is still being painted is a failure
HEALED = 1.0  # seconds in which a late repaint is accepted
MOST_ESCAPES = 15  # maximum number of escapes to reach the main screen
REMEMBERED_KEYS = 60  # number of keys in the message of a failure
LATE = 6  # commands after which a file may still be written

MOVES = ("up", "down", "left", "right", "tab", "shift+tab", "home", "end", "pageup", "pagedown")
TYPED = (*"abcdefghijklmnopqrstuvwxyz0123456789./-# ", "backspace", "delete", "enter")

# Commands that may change files of the project or of the user's configuration.
WRITING = frozenset(
    (
        "change.apply", "changes.undo", "dashboard.run", "field_text.submit", "file.edit", "file.save", "files.edit",
        "history.undo", "machine.go", "machine.yes", "one_run.again", "plan.prepare", "plan.run", "question.answer",
        "restore.go", "restore.undo", "run.prepare", "run.start", "run_button.press", "run_edit.go",
        "search_field.take", "targets.edit",
    )
)  # fmt: skip


class WalkFailure(AssertionError):
    """Raised when an invariant is violated."""


class WalkedApp(PaintedDisplay["list[Run]"], WorkbenchApp, inherit_bindings=False):
    """The app, which draws into a frame."""


def make_app(root: str) -> WalkedApp:
    """Create the app on the project at `root` with its saved session."""
    project = Project.find(root)
    saved, _ = load_session(project.root)
    tree = FileTree(project.root)
    if folders := saved.part("files").texts("folders"):
        tree.open_folders = {"", *folders}
    for folder in tree.to_read():
        tree.accept(folder, read_folder(project.root, folder))
    return WalkedApp(project, tree, load_theme("slate"), None, Terminal(), saved)


class Opened(NamedTuple):
    """A screen that a key opened, and the focused widget below it."""

    screen: Screen[object]
    below: Screen[object]
    focused: Widget | None


class Walk:
    """A walk over a project with a seed. `run` raises WalkFailure with the last keys."""

    def __init__(self, root: str, home: str, seed: str, size: tuple[int, int]) -> None:
        self._root, self._home, self._size, self._seed = root, home, size, seed
        self._random = random.Random(seed)
        self._keys: deque[str] = deque(maxlen=REMEMBERED_KEYS)
        self._commands: deque[str] = deque(maxlen=LATE)
        self._files: dict[str, tuple[int, int, int]] = {}
        self._opened: list[Opened] = []
        self._seen_focus: set[tuple[str, str, str]] = set()
        self._every_key: list[str] = sorted(
            {key for command in COMMANDS.values() for key in command.keys.split(",") if key}
        )
        self.app = make_app(root)

    async def run(self, keys: int) -> None:
        """Press a number of keys; restart the app when one of them ends it."""
        try:
            while keys > 0:
                self.app = make_app(self._root)
                self._opened = []
                async with self.app.run_test(size=self._size, notifications=True):
                    await self._begun()
                    while keys > 0 and self._is_running:
                        keys -= 1
                        await self._step()
        except WalkFailure:
            raise
        except Exception as error:
            raise self._failure("the program ended with a mistake") from error

    async def leave_a_session(self) -> None:
        """Open files, edit one, and end as on SIGHUP with the cursor in its text."""
        async with self.app.run_test(size=self._size):
            await self._begun()
            editor = self.app.screen.query_one(EditorPane)
            for name in ("readme.md", "aml_config/local.compute", "hello.py"):
                await editor.open_file(os.path.join(self._root, name))
            for key in "# x":
                await self._press(key)
            await self._until(editor.dirty_paths)
            self.app.leave()

    async def _begun(self) -> None:
        await self._until(lambda: isinstance(self.app.screen, MainScreen) and self.app.screen.is_complete)
        await self._settle()
        self._files = dict(self._files_now())

    async def _step(self) -> None:
        if self._random.random() < 1 / 80:
            await self._go_home()
            return
        await self._press(self._choose())
        if self._is_running:
            await self._check_focus()

    @property
    def _is_running(self) -> bool:
        return self.app.is_running and self.app.return_code is None

    # --- Keys

    def _choose(self) -> str:
        number = self._random.random()
        if self._is_typing and number < 0.4:
            return str(self._random.choice(TYPED))
        if number < 0.08:
            return "escape"
        if number < 0.30:
            return self._random.choice(MOVES)
        if number < 0.36:
            return "enter"
        if number < 0.44:
            return str(self._random.choice(TYPED))
        if number < 0.50:
            return self._random.choice(self._every_key)
        offered = [key for key, active in self.app.screen.active_bindings.items() if active.enabled]
        key = self._random.choice(sorted(offered) or ["escape"])
        if key in ("q", "ctrl+q", "ctrl+r") and self._random.random() < 0.8:
            return "down"  # restarts and runs take time
        return key

    @property
    def _is_typing(self) -> bool:
        focused = self.app.focused
        return isinstance(focused, Input | TextArea) or (isinstance(focused, FormView) and focused.is_typing)

    async def _press(self, key: str) -> None:
        app = self.app
        if key == "enter" and isinstance(app.screen, AttachScreen | StartScreen):
            key = "down"  # it would resolve a random host name, or create or open another project
        if key == "y" and isinstance(app.screen, PrepareMachineScreen):
            key = "n"  # it would install packages on this machine
        self._keys.append(key)
        active = app.screen.active_bindings.get(_name_of(key))
        is_answer = isinstance(app.focused, QuestionRow)
        self._commands.append("question.answer" if is_answer else active.binding.id or "" if active is not None else "")
        stack = list(app.screen_stack)
        app.post_message(events.Key(_name_of(key), key if len(key) == 1 else None).set_sender(app))
        await self._settle()
        if self._is_running:
            await self._check_painted()
            self._check_files()
            self._follow_screens(stack, key)

    async def _go_home(self) -> None:
        """Press escape until the main screen is shown and letters are commands."""
        for _ in range(MOST_ESCAPES):
            await self._press("escape")
            if not self._is_running:
                return
            if isinstance(self.app.screen, MainScreen) and not self._is_typing:
                return
        raise self._failure(f"escape does not lead out of {self.app.focused!r} on {self.app.screen!r}")

    # --- Invariants

    async def _check_painted(self) -> None:
        torn = self.app.torn_rows()
        end = asyncio.get_running_loop().time() + HEALED
        while torn and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0.02)
            if not self._is_running:
                return
            if self.app.is_painted:
                torn = self.app.torn_rows()
        if torn:
            raise self._failure("\n".join(("the screen is torn:", *torn)))

    async def _check_focus(self) -> None:
        app, focused = self.app, self.app.focused
        if focused is None and not app.screen.focus_chain:
            return  # the help and jump mode have no widget that takes the focus
        if focused is None:
            raise self._failure(f"nothing has the focus on {app.screen!r}")
        if not await self._is_seen(focused):
            raise self._failure(f"the focus is on {focused!r}, which cannot be seen")
        if app.focused is not focused:
            return  # an action of an earlier key has moved it
        kind = (type(app.screen).__name__, type(focused).__name__, focused.id or "")
        if kind in self._seen_focus or len(app.screen.focus_chain) < 2:
            return
        self._seen_focus.add(kind)
        with_focus = list(app.painter.frame.rows)
        app.post_message(events.AppBlur())
        await self._until(lambda: app.focused is not focused)
        await self._settle()
        if app.focused is not None:
            return  # an action of an earlier key has moved it
        without = list(app.painter.frame.rows)
        app.post_message(events.AppFocus())
        await self._until(lambda: app.focused is not None or not self._is_running)
        await self._settle()
        if app.focused is not focused and focused.is_on_screen:
            raise self._failure(f"{focused!r} had the focus before the window lost it, and {app.focused!r} after it")
        is_empty = isinstance(focused, RowList) and not focused.rows
        if with_focus == without and not is_empty:
            raise self._failure(f"{focused!r} on {app.screen!r} does not show that it has the focus")

    async def _is_seen(self, focused: Widget) -> bool:
        """Return True if the widget becomes visible or loses the focus within `HEALED`."""
        app, end = self.app, asyncio.get_running_loop().time() + HEALED
        while app.focused is focused and not is_in_layout(focused):
            if asyncio.get_running_loop().time() > end:
                return False
            await asyncio.sleep(0.02)
        return True

    def _check_files(self) -> None:
        before, self._files = self._files, dict(self._files_now())
        changed = sorted(
            path for path in before.keys() | self._files.keys() if before.get(path) != self._files.get(path)
        )
        if changed and not WRITING & set(self._commands):
            raise self._failure(f"{', '.join(changed)} changed, and none of {list(self._commands)} is to write a file")

    def _files_now(self) -> Iterator[tuple[str, tuple[int, int, int]]]:
        """Return the files that only writing commands may change."""
        for folder in (self._root, os.path.join(self._home, ".config")):
            for path, folders, names in os.walk(folder):
                folders[:] = [name for name in folders if not name.startswith(".workbench")]
                for name in names:
                    file = os.path.join(path, name)
                    try:
                        status = os.lstat(file)
                    except OSError:
                        continue
                    yield file, (status.st_ino, status.st_size, status.st_mtime_ns)

    def _follow_screens(self, stack: list[Screen[object]], key: str) -> None:
        now = self.app.screen_stack
        if len(now) > len(stack):
            self._opened.append(Opened(now[-1], stack[-1], stack[-1].focused))
        while self._opened and self._opened[-1].screen not in now:
            opened = self._opened.pop()
            before = opened.focused
            is_back = key == "escape" and self.app.screen is opened.below and not WRITING & set(self._commands)
            if is_back and before is not None and before.is_on_screen and self.app.focused is not before:
                raise self._failure(f"escape led back to {self.app.focused!r}, and not to {before!r}")

    def _failure(self, what: str) -> WalkFailure:
        width, height = self._size
        return WalkFailure(f"{width}x{height}, seed {self._seed!r}: {what}\nafter {' '.join(self._keys)}")

    # --- Waiting

    async def _settle(self) -> None:
        """Wait until the last key was handled and the screen is painted."""
        quiet = 0

        def is_quiet() -> bool:
            nonlocal quiet
            app = self.app
            is_at_work = app.keys.is_at_work or app.message_queue_size
            quiet = 0 if is_at_work or not app.is_painted else quiet + 1
            return quiet > 1 or not self._is_running

        await self._until(is_quiet)

    async def _until(self, condition: Callable[[], object]) -> None:
        end = asyncio.get_running_loop().time() + SETTLED
        while not condition():
            if asyncio.get_running_loop().time() > end:
                raise self._failure(f"{self.app.screen!r} does not come to rest")
            await asyncio.sleep(0.002)


def _name_of(key: str) -> str:
    return name_of_character(key) if len(key) == 1 else key
