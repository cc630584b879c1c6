"""Messages that panes and threads post to the screen: updates about the project, and requests to do something.

Messages of a single widget are declared in it; this module declares those that several modules post or handle.
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
class _DataMessage(Message):
    """A message whose subclasses are dataclasses."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        dataclass(eq=False)(cls)


class Request(_DataMessage):
    """A request of a pane or a screen to the main screen."""


class Update(_DataMessage):
    """News about the project."""


class FileChosen(Request):
    """Open a file in the editor, at `line` (from 1) unless that is 0."""

    path: str
    line: int = 0


class EditorRequested(Request):
    """Open a file in the user's own editor, at `line` and `column` (from 1) unless they are 0.

    A `read_only` file is opened as a copy.
    """

    path: str
    line: int = 0
    column: int = 0
    read_only: bool = False


class ChangeRequested(Request):
    """Show a change of configuration files and apply it if the user agrees.

    `kind` is `gpu-ready`, `duplicate`, `rename`, `delete`, `detach`, `new-target` or `new-configuration`; `path` is a
    `.compute` or `.runconfig` file, or "".
    """

    kind: str
    path: str = ""


class ScriptChosen(Request):
    """Choose the script in the run bar. `script` is relative to the project."""

    script: str


class TargetChosen(Request):
    """Choose the compute target in the run bar."""

    name: str


class AttachRequested(Request):
    """Attach a machine."""


class CheckRequested(Request):
    """Check a compute target."""

    name: str


class RunSelected(Request):
    """Select a run; with `opened`, focus its log."""

    run_id: str
    opened: bool


class RunRequestReused(Request):
    """Fill the run bar with the request of a run."""

    run_id: str


class RunDetailsRequested(Request):
    """Show the details of a run."""

    run_id: str


class MonitorRequested(Request):
    """Show the GPUs of a project's targets; `selected` is the id of the current run, or ""."""

    project: Project
    selected: str


class RerunRequested(Request):
    """Rerun a run, unchanged or with another `request`."""

    run: Run
    request: RunRequest | None


class ReconnectRequested(Request):
    """Try now to reach the target of a run whose state is unknown."""

    run_id: str


class CancelConfirmed(Request):
    """Cancel a run; the user has confirmed it."""

    run_id: str


class RunRequested(Request):
    """Start a run: its button or key was pressed."""


class RunBarRequested(Request):
    """Focus the run bar."""


class RequestChanged(Request):
    """The request in the run bar has changed; None while it is incomplete."""

    request: RunRequest | None


class ProgressReported(Update):
    """The progress of a long task that belongs to no run; None at its end."""

    progress: Progress | None


class StatusPosted(Update):
    """Show a sentence (untrusted text) in the status line."""

    text: str


class BackendFailed(Update):
    """A call in a thread failed."""

    error: WorkbenchError
