"""The start screen: recent projects, templates, folders, and repositories to clone.

A recent project may be on a disk that does not respond. Each is therefore looked up in its own thread, and is faint
until the answer comes. Projects whose folders are gone are not listed.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from functools import partial

from rich.cells import cell_len, set_cell_size
from textual import on, work
from textual.containers import Vertical

from tui_workbench.core.directories import CONFIG_DIRECTORY, abbreviate_home, project_above
from tui_workbench.core.errors import UsageError, WorkbenchError
from tui_workbench.core.progress import Progress, listening
from tui_workbench.projects.cloning import Stopped, check_url, clone_project, name_in
from tui_workbench.projects.project import Project
from tui_workbench.projects.templates import Template, add_folder, create_project, list_templates
from tui_workbench.ui.blocking import CallQueue, hold_exit, in_thread
from tui_workbench.ui.commands.command import bindings, shown_key
from tui_workbench.ui.commands.screen_commands import HISTORY, START, START_ALONE
from tui_workbench.ui.formatting import moment
from tui_workbench.ui.full_screen import FullScreen
from tui_workbench.ui.messages import ProjectRequested
from tui_workbench.ui.session_state import RecentProject, recent_projects
from tui_workbench.ui.terminal.safetext import safe_text, truncate_end
from tui_workbench.ui.terminal.textual_internals import set_bindings
from tui_workbench.ui.widgets.field_row import PromptRow
from tui_workbench.ui.widgets.pieces import Piece, Row
from tui_workbench.ui.widgets.question_row import Question, QuestionRow, yes_no
from tui_workbench.ui.widgets.row_list import RowList

LONGEST_NAME = 24  # cells
HOW_TO_OPEN = (
    f"{shown_key('start.folder', 'o')} opens a folder, and {shown_key('start.clone', 'c')} clones a repository."
)


class StartScreen(FullScreen, inherit_bindings=False):
    """The screen to open, create and clone projects. It covers the main screen, or is the only screen."""

    AUTO_FOCUS = "RowList"
    DEFAULT_CSS = """
    StartScreen > .pane { height: 1fr; }
    StartScreen > #templates { height: auto; }
    StartScreen > #templates > RowList { height: auto; max-height: 14; }
    """
    heading = "Projects"
    about = "Recent projects and templates. Other projects are opened from their folder, or cloned."

    def __init__(self, project: Project | None, error: WorkbenchError | None = None) -> None:
        """`project` is the open project, if any; `error` is shown."""
        super().__init__()
        self._project = project
        self._error = error
        commands = (
            (*START, *HISTORY)
            if project
            else (*START, *START_ALONE, *(command for command in HISTORY if command.id != "history.leave"))
        )
        self.DECLARED_COMMANDS = commands
        set_bindings(self, bindings(commands))
        self._exists: dict[str, bool] = {}
        self._recent_projects: Sequence[RecentProject] = ()
        self._calls = CallQueue(self)
        self._stop: threading.Event | None = None  # set to stop the clone
        self.recent, self.templates, self.prompt = RowList(has_filter=True), RowList(), PromptRow()
        panes = Vertical(self.recent, classes="pane"), Vertical(self.templates, classes="pane", id="templates")
        for pane, title in zip(panes, ("Recent projects", "New project from a template"), strict=True):
            pane.border_title = title
        self.content = (*panes, self.prompt)

    @property
    def subject(self) -> str:
        return f"{self._project.name} is open" if self._project else ""

    def on_mount(self) -> None:
        if self._error is not None:
            self.show_error(self._error)
        self.templates.show_rows(_template_rows(list_templates()))
        self.ask("recent", recent_projects, self._show_found)

    # --- Recent projects

    def _show_found(self, projects: Sequence[RecentProject]) -> None:
        is_open = os.path.realpath(self._project.root) if self._project else ""
        self._recent_projects = [recent for recent in projects if recent.root != is_open]
        for recent in self._recent_projects:
            self.run_worker(self._look_up(recent.root))
        self._show_recent()

    async def _look_up(self, root: str) -> None:
        self._exists[root] = await in_thread(partial(_is_project, root))
        self._show_recent()

    def _show_recent(self) -> None:
        shown = [recent for recent in self._recent_projects if self._exists.get(recent.root, True)]
        none = f"No {'other ' if self._project else ''}recent projects."
        self.recent.show_rows(_rows(shown, self._exists), empty=(none, HOW_TO_OPEN))
        if not shown and self.focused is self.recent:
            self.set_focus(self.templates)
        self.refresh_bindings()

    # --- Opening

    @on(RowList.Clicked)
    def _clicked(self, event: RowList.Clicked) -> None:
        if event.count == 2:
            self.action_open()

    def action_open(self) -> None:
        if self.focused is self.templates:
            name = self.templates.current
            label, create = f"Folder of the new {name} project", partial(self._create, name)
            self.say("")
            self.prompt.ask(label, self._suggested(name), create, is_suggestion=True)
        else:
            self._open(self.recent.current)

    def _open(self, root: str) -> None:
        if self._project is not None and root == self._project.root:
            self.dismiss()
        elif self.is_attached:
            self.say(f"Opening {abbreviate_home(root)}...")
            self.post_message(ProjectRequested(root))

    def _create(self, template: str, text: str) -> None:
        folder, name = os.path.split(_absolute(text))
        self._calls.add(partial(create_project, name, folder, template), self._open)

    def action_open_folder(self) -> None:
        self.say("")
        self.prompt.ask("Folder", self._suggested(""), self._look_for, is_suggestion=True)

    @work(group="folder")
    async def _look_for(self, text: str) -> None:
        try:
            folder = await in_thread(partial(_root_of, _absolute(text)))
        except UsageError as error:
            self.show_error(error)
            if not self.prompt.display:
                self.prompt.ask("Folder", text, self._look_for)
        else:
            self._enter(folder)

    def _enter(self, folder: tuple[str, bool]) -> None:
        """Open a project, or ask whether to turn the folder into one. `folder` is as returned by `_root_of`."""
        root, is_project = folder
        if is_project:
            self._open(root)
            return
        text = f"{safe_text(abbreviate_home(root))} is not a project. Add {CONFIG_DIRECTORY}/ to it?"
        self.query(QuestionRow).remove()
        question = QuestionRow(Question(text, yes_no(root)))
        self.mount(question, before=self.notice)
        if not self.prompt.display:  # the next key could be text for the prompt
            self.set_focus(question)

    @on(QuestionRow.Answered)
    async def _answered(self, event: QuestionRow.Answered) -> None:
        self.set_focus(self.recent if self.recent.current else self.templates)
        await event.row.remove()
        self.refresh_bindings()
        if root := event.answer:
            self._calls.add(partial(add_folder, root), lambda _: self._open(root))

    def _suggested(self, name: str) -> str:
        """Return the path of `name` beside the open project, or in the current folder if no project is open."""
        folder = os.path.dirname(self._project.root) if self._project else _current_folder()
        return os.path.join(abbreviate_home(folder), name)

    # --- Cloning

    def action_clone(self) -> None:
        self.say("")
        self._ask_url("")

    def _ask_url(self, text: str) -> None:
        self.prompt.ask("URL of the repository", text, self._url_given)

    def _url_given(self, text: str) -> None:
        url = text.strip()
        try:
            check_url(url)
            name = name_in(url)
        except UsageError as error:
            self.show_error(error)
            self._ask_url(url)
            return
        self.say("")
        self.prompt.ask("New folder", self._suggested(name), partial(self._start_clone, url), is_suggestion=True)

    def _start_clone(self, url: str, text: str) -> None:
        self.say(f"Cloning {url}...")
        self.run_worker(self._clone(url, _absolute(text)), group="clone")

    async def _clone(self, url: str, folder: str) -> None:
        self._stop = stop = threading.Event()
        self.refresh_bindings()

        def report(progress: Progress | None) -> None:
            self.call_later(self._show_progress, stop, progress)

        def clone() -> str:
            with hold_exit(), listening(report):
                return clone_project(url, folder, stop.is_set)

        try:
            root = await in_thread(clone)
        except Stopped:
            self.say("The clone was stopped.")
        except WorkbenchError as error:
            self.show_error(error)
        else:
            self.say(f"Cloned to {abbreviate_home(root)}.")
            self.ask("folder", lambda: (root, _is_project(root)), self._enter)
        finally:
            stop.set()  # the user may have left the screen
            self._stop = None
            self.refresh_bindings()

    def _show_progress(self, stop: threading.Event, progress: Progress | None) -> None:
        if progress is not None and self._stop is stop:
            self.say(progress.summary)

    def action_stop(self) -> None:
        if self._stop is not None:
            self._stop.set()

    def why_not(self, action: str) -> str:
        match action:
            case "open" if not isinstance(self.focused, RowList) or not self.focused.current:
                return "No project selected."
            case "leave" if self._project is None and self.open_question is None:
                return "No question is open."
            case "stop" if self._stop is None:
                return "No clone is running."
            case "clone" if self._stop is not None:
                return "A clone is running."
        return super().why_not(action)


def _rows(projects: Sequence[RecentProject], looked_up: dict[str, bool]) -> list[Row]:
    names = [truncate_end(safe_text(os.path.basename(project.root)), LONGEST_NAME) for project in projects]
    width = max(map(cell_len, names), default=0) + 2
    now = time.time()
    rows = []
    for project, name in zip(projects, names, strict=True):
        title = Piece(set_cell_size(name, width), "text" if project.root in looked_up else "faint")
        path = Piece(safe_text(abbreviate_home(project.root)), "muted" if project.root in looked_up else "faint")
        rows.append(Row(project.root, path, (title,), right=(Piece(moment(project.used, now), "muted"),)))
    return rows


def _template_rows(templates: Sequence[Template]) -> list[Row]:
    width = max(len(template.name) for template in templates) + 2
    return [
        Row(
            template.name,
            Piece(template.description, "muted"),
            (Piece(f"{template.name:{width}}", "function"),),
            cut_at_end=True,
        )
        for template in templates
    ]


def _is_project(root: str) -> bool:
    return os.path.isdir(os.path.join(root, CONFIG_DIRECTORY))


def _root_of(folder: str) -> tuple[str, bool]:
    """Return the project at or above a folder and True, or the folder and False. Raises UsageError."""
    if not os.path.isdir(folder):
        raise UsageError(f"{folder} is not a folder", remedy="Choose an existing folder.")
    root = project_above(folder)
    return root or folder, bool(root)


def _absolute(text: str) -> str:
    return os.path.abspath(os.path.expanduser(text.strip()))


def _current_folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # it has been removed
        return os.path.expanduser("~")
