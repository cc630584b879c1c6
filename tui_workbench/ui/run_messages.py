"""Messages about runs, the run bar and compute targets.

They are not in `messages`, because the first frame does not need them.
"""

from __future__ import annotations

from tui_workbench.core.model import Run, RunRequest
from tui_workbench.ui.messages import Request, Update


class TargetChosen(Request):
    """A request to select a run configuration of the compute target `name` in the run bar."""

    name: str


class AttachRequested(Request):
    """A request to attach a machine."""


class CheckRequested(Request):
    """A request to check a compute target."""

    name: str


class PreparationRequested(Request):
    """A request to install missing software on the machine of a compute target."""

    name: str


class RunSelected(Request):
    """A request to select a run and, if `opened`, to focus its log."""

    run_id: str
    opened: bool


class RunRequestReused(Request):
    """A request to fill the run bar with the request of a run."""

    run_id: str


class RunDetailsRequested(Request):
    """A request to show the details of a run."""

    run_id: str


class RerunRequested(Request):
    """A request to rerun a run, unchanged or with another `request`."""

    run: Run
    request: RunRequest | None


class StacksRequested(Request):
    """A request to show the Python stacks of a run."""

    run_id: str


class StartAgainRequested(Request):
    """A request to start another attempt of an ended run, after a confirmation."""

    run: Run


class ReconnectRequested(Request):
    """A request to connect now to the target of a run whose state is unknown or whose files are missing."""

    run_id: str


class CancelConfirmed(Request):
    """A request to cancel a run, which the user has confirmed."""

    run_id: str


class RunRequested(Request):
    """A request to start a run, made with the Run button or key."""


class RunBarRequested(Request):
    """A request to focus the run bar."""


class RequestChanged(Request):
    """Posted when the request in the run bar changes. `request` is None if the run bar is incomplete."""

    request: RunRequest | None


class RunStalled(Update):
    """Posted when an active run has stalled. `text` is the GPU verdict of the run, as untrusted text."""

    run: Run
    text: str
