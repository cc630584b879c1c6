"""Requests about runs, the run bar and compute targets. The first frame needs none of them."""

from __future__ import annotations

from tui_workbench.core.model import Run, RunRequest
from tui_workbench.ui.messages import Request


class TargetChosen(Request):
    """Choose a run configuration of the compute target in the run bar."""

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
