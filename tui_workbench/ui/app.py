"""The application, which shows the main screen of a project or the start screen. Other logic is in screens and panes.

`show` reads a project, runs the application, and prints the closing lines after its end.

SIGHUP and SIGTERM end the program without questions: unsaved edits stay in recovery files.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import sys
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from textual import work
from textual.app import App
from textual.await_complete import AwaitComplete
from textual.filter import LineFilter
from textual.screen import Screen
from textual.theme import Theme
from textual.worker import active_worker

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import Run
from tui_workbench.core.plaintext import counted
from tui_workbench.projects.project import Project
from tui_workbench.ui import crash, screens
from tui_workbench.ui.blocking import QuickShutdownExecutor, in_thread, wait_for_exit_holds
from tui_workbench.ui.commands.available_commands import why_refused
from tui_workbench.ui.commands.jump import jump
from tui_workbench.ui.commands.main_commands import APP
from tui_workbench.ui.files.file_tree import FileTree, read_folder
from tui_workbench.ui.formatting import run_title
from tui_workbench.ui.main.main import MainScreen
from tui_workbench.ui.messages import BackendFailed, MonitorRequested, ProjectRequested
from tui_workbench.ui.session_state import Values, load_session
from tui_workbench.ui.terminal import clipboard
from tui_workbench.ui.terminal.capabilities import Terminal, prepare_for_browser
from tui_workbench.ui.terminal.colors import line_filters
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.terminal.terminal_app import TerminalApp
from tui_workbench.ui.terminal.textual_internals import replace_first_screen
from tui_workbench.ui.themes import themes
from tui_workbench.ui.undo import forget_steps

FULL = Terminal()
ENDING = (signal.SIGHUP, signal.SIGTERM)


class Opened(NamedTuple):
    """A project with its file tree and its saved session, and the error if the session cannot be read."""

    project: Project
    tree: FileTree
    saved: Values
    error: WorkbenchError | None


def open_project(root: str) -> Opened:
    """Read what the first frame shows of the project at or above the folder `root`.

    Blocks. Raises ProjectNotFound.
    """
    project = Project.find(root)
    saved, error = load_session(project.root)
    tree = FileTree(project.root)
    if folders := saved.part("files").texts("folders"):
        tree.open_folders = {"", *folders}
    for folder in tree.to_read():
        tree.accept(folder, read_folder(project.root, folder))
    return Opened(project, tree, saved, error)


class WorkbenchApp(TerminalApp["list[Run]"], inherit_bindings=False):
    """The app that shows a project or the start screen.

    Its result is the list of active runs when the user quits; None after a signal or a crash.
    """

    TITLE = "workbench-tui"
    ENABLE_COMMAND_PALETTE = False  # the workbench has its own palette, which lists the commands of the registry
    BINDINGS = APP.bindings
    CSS = """
    .pane { border: round $border-blurred; border-title-color: $text-muted; border-subtitle-color: $text-muted; }
    .pane:focus-within, .pane:focus {
        border: round $border; border-title-color: $border; border-title-style: bold;
    }
    #run-bar { background: $panel; }
    LogPane { padding: 0 0 0 1; }
    MonitorScreen .pane, MonitorScreen .pane:focus-within { border: none; }
    ToastRack { margin-bottom: 1; }
    Toast { width: auto; max-width: 90%; padding: 0 1; margin-top: 0; color: $background; background: $success; }
    Toast.-information, Toast.-warning, Toast.-error { border: none; }
    Toast.-warning { background: $warning; }
    Toast.-error { background: $error; }
    .-narrow .pane { border: none; }
    .-narrow #editor, .-narrow #log { border-top: solid $border-blurred; }
    .-narrow #log { border-bottom: solid $border-blurred; }
    .-narrow #editor:focus-within, .-narrow #editor:focus { border: none; border-top: solid $border; }
    .-narrow #log:focus-within, .-narrow #log:focus {
        border: none; border-top: solid $border; border-bottom: solid $border;
    }
    """

    def __init__(
        self,
        project: Project | None,
        tree: FileTree | None,
        theme: themes.WorkbenchTheme,
        startup_error: WorkbenchError | None = None,
        terminal: Terminal = FULL,
        saved: Values | None = None,
    ) -> None:
        """Show the start screen if `project` or `tree` is None.

        `startup_error` is shown after the first frame. If `saved` is None, no session is restored or saved.
        """
        # The theme is set first, because Textual's constructor parses the style sheet.
        self._themes: dict[str, Theme] = {theme.name: theme}
        self.set_reactive(App.theme, theme.name)
        self.terminal = terminal
        super().__init__()
        self._project = project
        self._tree = tree
        self._startup_error = startup_error
        self._saved = saved
        self.crash_report: str | None = None
        if project is None:
            gc.enable()  # disabled by `__main__`
        else:
            self.keys.hold()

    def on_load(self) -> None:
        loop = asyncio.get_running_loop()
        # Threads that hang must not delay the exit.
        loop.set_default_executor(QuickShutdownExecutor())
        for number in ENDING:
            with contextlib.suppress(ValueError, RuntimeError):  # not in the main thread, as in some tests
                loop.add_signal_handler(number, self.leave, 128 + number)

    async def on_main_screen_completed(self) -> None:
        gc.enable()  # disabled by `__main__`
        await self.keys.release()

    def on_monitor_requested(self, event: MonitorRequested) -> None:
        self.push_screen(screens.gpu_monitor(event.project, event.selected))

    @work(group="open project", exclusive=True)
    async def on_project_requested(self, event: ProjectRequested) -> None:
        start = self.screen
        try:
            opened = await in_thread(partial(open_project, event.root))
        except WorkbenchError as error:
            start.post_message(BackendFailed(error))
            return
        if self.screen is not start:
            return  # the user has left the start screen meanwhile
        main = self.screen_stack[0]
        while self.screen is not main:
            await self.pop_screen()
        if isinstance(main, MainScreen):
            if main.project.root == opened.project.root:
                return
            main.close(partial(self.call_later, self._show_project, opened))
        else:
            await self._show_project(opened)

    async def _show_project(self, opened: Opened) -> None:
        """Replace the only screen with the main screen of a project."""
        forget_steps(self)
        self.keys.hold()
        await replace_first_screen(self, MainScreen(opened.project, opened.tree, opened.error, opened.saved))

    @property
    def available_themes(self) -> dict[str, Theme]:
        return self._themes  # without Textual's own themes

    def get_default_screen(self) -> Screen[None]:
        if self._project is None or self._tree is None:
            return screens.start(None, self._startup_error)
        return MainScreen(self._project, self._tree, self._startup_error, self._saved)

    def get_line_filters(self) -> Sequence[LineFilter]:
        usual = super().get_line_filters()
        if self.terminal == FULL:
            return usual
        return line_filters(self.current_theme, self.terminal, usual)

    def pop_screen(self) -> AwaitComplete:
        # The workers of the screen are canceled first, because its widgets are removed before the screen.
        closing = self.screen
        for worker in list(self.workers):
            if worker is not active_worker.get(None) and closing in (worker.node, *worker.node.ancestors):
                worker.cancel()
        return super().pop_screen()

    def copy_to_clipboard(self, text: str) -> None:
        # Only Textual's widgets call this method; the workbench itself calls `clipboard.copy`.
        clipboard.copy(self, text)

    def show_theme(self, theme: themes.WorkbenchTheme) -> None:
        if theme is self.current_theme:
            return
        self._themes[theme.name] = theme
        if self.theme == theme.name:
            # The file of the current theme has changed.
            self.set_reactive(App.theme, "")
        self.theme = theme.name

    def why_refused(self, key: str) -> str:
        return why_refused(self.screen, key)

    def crashed(self, error: Exception) -> None:
        if self.crash_report is None:
            self.crash_report = crash.report_error(error)
            self._keep_edits()

    def end_with(self, report: str) -> None:
        """Exit after SIGQUIT; `report` is the path of the crash report. Do not call this in the event loop's thread."""
        self.crash_report = report
        self.call_later(self.leave, crash.QUIT_CODE)

    def leave(self, return_code: int = 0) -> None:
        """Leave the program without questions; the next start restores unsaved edits."""
        self._keep_edits()
        # The result contains no active runs, because the terminal may be gone and cannot show the closing lines.
        self.exit(None, return_code)

    def _keep_edits(self) -> None:
        # This may fail if the screens have crashed; edits older than a second are on disk already.
        with contextlib.suppress(Exception):
            screen = self.screen_stack[0]
            if isinstance(screen, MainScreen):
                screen.keep_edits()

    async def action_jump(self) -> None:
        if not await jump(self):
            self.show_refusal("Nothing else to jump to.")

    async def action_quit(self) -> None:
        while len(self.screen_stack) > 1:
            await self.pop_screen()
        if isinstance(self.screen, MainScreen):
            await self.screen.action_quit()  # asks about unsaved edits
        else:
            self.exit([])


def show(root: str, terminal: Terminal, startup_error: WorkbenchError | None = None) -> int:
    """Show the project at `root`, or the start screen if `root` is "", until the user quits. Return the exit code.

    `startup_error` is shown after the first frame.
    """
    opened = open_project(root) if root else None
    theme, theme_error = themes.saved_theme()
    in_browser = prepare_for_browser()
    error = theme_error or startup_error
    if opened is None:
        app = WorkbenchApp(None, None, theme, error, terminal)
    else:
        app = WorkbenchApp(opened.project, opened.tree, theme, error or opened.error, terminal, opened.saved)
    with crash.thread_errors_to(app.fail_later), crash.quit_signal_to(app.end_with, app.restore_terminal):
        active_runs = app.run() or []
    wait_for_exit_holds()
    if app.crash_report is not None:
        sys.stderr.write(f"{crash.closing_line(app.crash_report)}\n")
    for line in [] if in_browser else closing_lines(active_runs):
        sys.stdout.write(f"{line}\n")
    return app.return_code or 0


def closing_lines(active: list[Run]) -> list[str]:
    """Return the lines to print after the screens close: the active runs, and the command to follow the first.

    Return [] if no run is active.
    """
    if not active:
        return []
    names = ", ".join(safe_text(run_title(run)) for run in active)
    return [
        f"{counted(len(active), 'active run')}: {names}",
        f"Follow with: workbench-tui logs -f {active[0].run_number}",
    ]
