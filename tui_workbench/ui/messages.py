"""What panes and threads tell the screen: facts, which have happened, and wishes, which it has carried out.

Messages that belong to one widget alone are declared in it; here are those that more than one module posts or handles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, dataclass_transform

from textual.message import Message

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import Run, RunRequest
from tui_workbench.core.progress import Progress
from tui_workbench.projects.project import Project


@dataclass_transform(eq_default=False)
class Request(Message):
    """A pane or a screen wants something done that is not its own business. Each class below is a dataclass."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        dataclass(eq=False)(cls)


@dataclass_transform(eq_default=False)
class Update(Message):
    """Something about the project is known, or has changed. Each class below is a dataclass."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        dataclass(eq=False)(cls)


class FileChosen(Request):
    """A file should be opened in the editor, at `line` (from 1) when that is not 0."""

    path: str
    line: int = 0


class EditorRequested(Request):
    """A file should be opened in the user's own editor, at `line` and `column` (from 1) when those are not 0.

    What is `read_only` is shown as a copy.
    """

    path: str
    line: int = 0
    column: int = 0
    read_only: bool = False


class ChangeRequested(Request):
    """Configuration files should be changed as a whole, after a look at the change.

    `kind` is `gpu-ready`, `duplicate`, `rename`, `delete`, `detach`, `new-target` or `new-configuration`; `path` is the
    `.compute` or `.runconfig` file that is meant, "" for none.
    """

    kind: str
    path: str = ""


class ScriptChosen(Request):
    """A file of the project should be the script of the run bar. `script` is relative to the project."""

    script: str


class TargetChosen(Request):
    """A compute target should be run on."""

    name: str


class AttachRequested(Request):
    """A machine should be attached."""


class CheckRequested(Request):
    """The compute target of this name should be checked."""

    name: str


class RunSelected(Request):
    """A run was put under the cursor; with `opened` its log should get the focus."""

    run_id: str
    opened: bool


class RunRequestReused(Request):
    """A run should be asked for again."""

    run_id: str


class RunDetailsRequested(Request):
    """Everything about a run should be shown."""

    run_id: str


class MonitorRequested(Request):
    """The GPUs of a project's targets should be shown; `selected` is the id of the current run, "" for none."""

    project: Project
    selected: str


class RerunRequested(Request):
    """A run should be run again: as it was, or as `request` says."""

    run: Run
    request: RunRequest | None


class ReconnectRequested(Request):
    """The target of a run that nothing is known of should be tried at once."""

    run_id: str


class CancelConfirmed(Request):
    """A run should end; it was asked about already."""

    run_id: str


class RunRequested(Request):
    """The Run button was pressed, or the key for it."""


class RunBarRequested(Request):
    """Somebody wants to change what the next run is asked for."""


class RequestChanged(Request):
    """The run bar holds another request than before; None while it is not one."""

    request: RunRequest | None


class ProgressReported(Update):
    """How far something is that takes long and that no run is about; None when it is over."""

    progress: Progress | None


class StatusPosted(Update):
    """A sentence, of any origin, should be shown in passing."""

    text: str


class BackendFailed(Update):
    """A call in a thread failed with something that a person should read."""

    error: WorkbenchError
