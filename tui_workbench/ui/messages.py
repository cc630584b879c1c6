"""What panes and threads tell the screen, in the past tense: facts go up, and the screen decides what follows.

Messages that belong to one widget alone are declared in it; here are those that more than one module posts or handles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui_workbench.errors import WorkbenchError
    from tui_workbench.model import ComputeTarget, Plan, Run, RunConfiguration, RunRequest
    from tui_workbench.progress import Progress


class FileChosen(Message):
    """A file should be opened in the editor, at `line` (from 1) when that is not 0."""

    def __init__(self, path: str, line: int = 0) -> None:
        super().__init__()
        self.path = path
        self.line = line


class EditorWanted(Message):
    """A file should be opened in the user's own editor, at `line` and `column` (from 1) when those are not 0.

    What is `read_only` is shown as a copy.
    """

    def __init__(self, path: str, line: int = 0, column: int = 0, *, read_only: bool = False) -> None:
        super().__init__()
        self.path = path
        self.line = line
        self.column = column
        self.read_only = read_only


class ChangeWanted(Message):
    """Configuration files should be changed as a whole, after a look at the change.

    `kind` is `gpu-ready`, `duplicate`, `rename`, `delete`, `detach`, `new-target` or `new-configuration`; `path` is the
    `.compute` or `.runconfig` file that is meant, "" for none.
    """

    def __init__(self, kind: str, path: str = "") -> None:
        super().__init__()
        self.kind = kind
        self.path = path


class ScriptChosen(Message):
    """A file of the project should be the script of the run bar. `script` is relative to the project."""

    def __init__(self, script: str) -> None:
        super().__init__()
        self.script = script


class TargetChosen(Message):
    """A compute target should be run on."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


class AttachWanted(Message):
    """A machine should be attached."""


class CheckWanted(Message):
    """The compute target of this name should be checked."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name


class RunSelected(Message):
    """A run was put under the cursor; with `opened` its log should get the focus."""

    def __init__(self, run_id: str, *, opened: bool) -> None:
        super().__init__()
        self.run_id = run_id
        self.opened = opened


class RunRepeated(Message):
    """A run should be asked for again."""

    def __init__(self, run_id: str) -> None:
        super().__init__()
        self.run_id = run_id


class RunDetailsWanted(Message):
    """Everything about a run should be shown."""

    def __init__(self, run_id: str) -> None:
        super().__init__()
        self.run_id = run_id


class RunAgainWanted(Message):
    """A run should be run again: as it was, or as `request` says."""

    def __init__(self, run: Run, request: RunRequest | None) -> None:
        super().__init__()
        self.run = run
        self.request = request


class ReconnectWanted(Message):
    """The target of a run that nothing is known of should be tried at once."""

    def __init__(self, run_id: str) -> None:
        super().__init__()
        self.run_id = run_id


class CancelConfirmed(Message):
    """A run should end; it was asked about already."""

    def __init__(self, run_id: str) -> None:
        super().__init__()
        self.run_id = run_id


class RunRequested(Message):
    """The Run button was pressed, or the key for it."""


class RunBarWanted(Message):
    """Somebody wants to change what the next run is asked for."""


class RequestChanged(Message):
    """The run bar holds another request than before; None while it is not one."""

    def __init__(self, request: RunRequest | None) -> None:
        super().__init__()
        self.request = request


class RunSubmitted(Message):
    """A run of ours has started."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run


class RunPlanned(Message):
    """A request was looked at and would work; `version` is that of a local interpreter, else empty."""

    def __init__(self, request: RunRequest, plan: Plan, version: str) -> None:
        super().__init__()
        self.request = request
        self.plan = plan
        self.version = version


class RunRefused(Message):
    """A run could not be started, or not even planned."""

    def __init__(self, request: RunRequest, error: WorkbenchError) -> None:
        super().__init__()
        self.request = request
        self.error = error


class CancelFailed(Message):
    """A run could not be canceled."""

    def __init__(self, run_id: str, error: WorkbenchError) -> None:
        super().__init__()
        self.run_id = run_id
        self.error = error


class FoldersChanged(Message):
    """Something came, went or was renamed in these folders."""

    def __init__(self, folders: list[str]) -> None:
        super().__init__()
        self.folders = folders


class ConfigurationRead(Message):
    """The `.compute` and `.runconfig` files, as they are on the disk now."""

    def __init__(self, targets: list[ComputeTarget], configurations: list[RunConfiguration]) -> None:
        super().__init__()
        self.targets = targets
        self.configurations = configurations


class InterpretersFound(Message):
    """What local targets would run with: by target name, a version (`3.11.7`), or an error."""

    def __init__(self, versions: dict[str, str], errors: dict[str, WorkbenchError]) -> None:
        super().__init__()
        self.versions = versions
        self.errors = errors


class RunsRead(Message):
    """Every run of the project, newest first, as the run directories tell it now.

    `steps` holds, by run id, the step that an active run is at, where it has steps.
    """

    def __init__(self, runs: list[Run], steps: Mapping[str, str]) -> None:
        super().__init__()
        self.runs = runs
        self.steps = steps


class WorkTold(Message):
    """How far something is that takes long and that no run is about; None when it is over."""

    def __init__(self, progress: Progress | None) -> None:
        super().__init__()
        self.progress = progress


class BackendFailed(Message):
    """A call in a thread failed with something that a person should read."""

    def __init__(self, error: WorkbenchError) -> None:
        super().__init__()
        self.error = error


class ChangesCounted(Message):
    """Another number of files than before differs from the last commit."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class BranchRead(Message):
    """The project's git branch, or an empty string."""

    def __init__(self, branch: str) -> None:
        super().__init__()
        self.branch = branch
