"""Messages that panes and threads post to the screen: updates about the project, and requests to do something.

A message of a single widget is declared in the class of the widget. This module and `run_messages` declare the messages
that several modules post or handle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, dataclass_transform

from textual.message import Message

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.progress import Progress
from tui_workbench.projects.project import Project


@dataclass_transform(eq_default=False)
class _DataMessage(Message):
    """The base class of messages. It makes each subclass a dataclass."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        dataclass(eq=False, repr=False)(cls)  # fewer generated methods, because each is compiled at import


class Request(_DataMessage):
    """A request from a pane or a screen to the main screen."""


class Update(_DataMessage):
    """An update about the project."""


class FileChosen(Request):
    """A request to open a file in the editor, at `line` (from 1) unless `line` is 0."""

    path: str
    line: int = 0


class EditorRequested(Request):
    """A request to open a file in the user's own editor, at `line` and `column` (from 1) unless they are 0.

    A `read_only` file is opened as a copy.
    """

    path: str
    line: int = 0
    column: int = 0
    read_only: bool = False


class ChangeRequested(Request):
    """A request to show a change to configuration files, and to apply it if the user agrees.

    `kind` is `gpu-ready`, `duplicate`, `rename`, `delete`, `detach`, `new-target` or `new-configuration`; `path` is a
    `.compute` or `.runconfig` file, or "".
    """

    kind: str
    path: str = ""


class ScriptChosen(Request):
    """A request to choose the script in the run bar. `script` is relative to the project."""

    script: str


class MonitorRequested(Request):
    """A request to show the GPUs of a project's targets. `selected` is the ID of the current run, or ""."""

    project: Project
    selected: str


class ProjectRequested(Request):
    """A request to open the project in the folder `root` in place of the current project."""

    root: str


class ProgressReported(Update):
    """The progress of a long task that is not part of a run; None at the end of the task."""

    progress: Progress | None


class StatusPosted(Update):
    """A request to show a sentence (untrusted text) in the status line."""

    text: str


class BackendFailed(Update):
    """Posted when a call in a thread has failed."""

    error: WorkbenchError
