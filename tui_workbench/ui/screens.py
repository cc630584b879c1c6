"""Screens and panes that are imported when they are opened: dashboard, run details, GPUs and others.

Together they take as long to import as everything else and need a third of the memory, and most sessions open few of
them. Only this module of `ui` imports screens inside functions. Screens over the main screen do not import this module
but post a message (`ui.messages`), so that no two screens import each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui_workbench.config.changes.change_set import ChangeHistory
    from tui_workbench.core.model import ComputeTarget, Run, RunRequest
    from tui_workbench.projects.project import Project
    from tui_workbench.runs.store.table import RunQuery
    from tui_workbench.ui.dashboard.dashboard import DashboardScreen
    from tui_workbench.ui.details.run_details import RunDetailsScreen
    from tui_workbench.ui.gpu.monitor_pane import MonitorPane
    from tui_workbench.ui.gpu.monitor_screen import MonitorScreen
    from tui_workbench.ui.machines.machine import AttachScreen, CheckScreen
    from tui_workbench.ui.runs.recent import RecentPane
    from tui_workbench.ui.session_state import Values
    from tui_workbench.ui.trace.trace import TraceScreen


def dashboard(project: Project, request: RunRequest | None, query: RunQuery | None) -> DashboardScreen:
    """Every run of the project."""
    from tui_workbench.ui.dashboard.dashboard import DashboardScreen

    return DashboardScreen(project, request, query)


def dashboard_query(saved: Values) -> RunQuery | None:
    """Return the saved query of the dashboard, or None if it was not opened."""
    from tui_workbench.ui.dashboard.dashboard_data import saved_query

    return saved_query(saved)


def run_details(project: Project, run: Run) -> RunDetailsScreen:
    """Everything about a run."""
    from tui_workbench.ui.details.run_details import RunDetailsScreen

    return RunDetailsScreen(project, run)


def gpu_monitor(project: Project, selected: str) -> MonitorScreen:
    """The GPUs of all targets; `selected` is the id of the current run."""
    from tui_workbench.ui.gpu.monitor_screen import MonitorScreen

    return MonitorScreen(project, selected)


def calls(project: Project, run: Run | None) -> TraceScreen:
    """The trace of external calls, of one run or of all."""
    from tui_workbench.ui.trace.trace import TraceScreen

    return TraceScreen(project, run)


def attach_machine(project: Project, history: ChangeHistory, written: Callable[[], None]) -> AttachScreen:
    """The form that attaches a machine."""
    from tui_workbench.ui.machines.machine import AttachScreen

    return AttachScreen(project, history, written)


def check_machine(target: ComputeTarget) -> CheckScreen:
    """The check of a target."""
    from tui_workbench.ui.machines.machine import CheckScreen

    return CheckScreen(target)


def recent_pane(project: Project, id: str) -> RecentPane:
    """All runs, as a pane for wide terminals."""
    from tui_workbench.ui.runs.recent import RecentPane

    return RecentPane(project, id=id)


def monitor_pane(id: str) -> MonitorPane:
    """The GPUs, as a pane for wide terminals."""
    from tui_workbench.ui.gpu.monitor_pane import MonitorPane

    return MonitorPane(id=id)
