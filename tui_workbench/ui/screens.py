"""Screens and panes that are imported when they are opened: dashboard, run details, GPUs and others.

Together they take half of the import time and a third of the memory, and most sessions open few of them. Only this
module of `ui` imports screens inside functions. Screens over the main screen post a message (`ui.messages`) instead of
importing this module, so that screens do not import each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import App

    from tui_workbench.config.changes.change_set import ChangeHistory
    from tui_workbench.core.errors import WorkbenchError
    from tui_workbench.core.model import ComputeTarget, Run, RunRequest
    from tui_workbench.projects.project import Project
    from tui_workbench.runs.index.table import RunQuery
    from tui_workbench.ui.commands.available_commands import CommandState
    from tui_workbench.ui.dashboard.dashboard import DashboardScreen
    from tui_workbench.ui.dashboard.recent import RecentPane
    from tui_workbench.ui.details.run_details import RunDetailsScreen
    from tui_workbench.ui.full_screen import HistoryScreen
    from tui_workbench.ui.gpu.monitor_pane import MonitorPane
    from tui_workbench.ui.gpu.monitor_screen import MonitorScreen
    from tui_workbench.ui.machines.machine import AttachScreen, CheckScreen
    from tui_workbench.ui.machines.prepare_machine import PrepareMachineScreen
    from tui_workbench.ui.projects.start_screen import StartScreen
    from tui_workbench.ui.runs.ports_screen import PortsScreen
    from tui_workbench.ui.session_state import Values
    from tui_workbench.ui.trace.trace import TraceScreen


def dashboard(project: Project, request: RunRequest | None, query: RunQuery | None) -> DashboardScreen:
    """Return the screen with all runs of the project."""
    from tui_workbench.ui.dashboard.dashboard import DashboardScreen

    return DashboardScreen(project, request, query)


def dashboard_query(saved: Values) -> RunQuery | None:
    """Return the saved query of the dashboard, or None if none was saved."""
    from tui_workbench.ui.dashboard.dashboard_data import saved_query

    return saved_query(saved)


def run_details(project: Project, run: Run) -> RunDetailsScreen:
    """Return the screen with the details of a run."""
    from tui_workbench.ui.details.run_details import RunDetailsScreen

    return RunDetailsScreen(project, run)


def gpu_monitor(project: Project, selected: str) -> MonitorScreen:
    """Return the screen with the GPUs of all targets; `selected` is the ID of the current run."""
    from tui_workbench.ui.gpu.monitor_screen import MonitorScreen

    return MonitorScreen(project, selected)


def calls(project: Project, run: Run | None) -> TraceScreen:
    """Return the screen with the external calls of one run or of all runs."""
    from tui_workbench.ui.trace.trace import TraceScreen

    return TraceScreen(project, run)


def ports(project: Project, run: Run | None, configuration: str, *, opens_notebook: bool = False) -> PortsScreen:
    """Return the screen that opens ports of a run and lists the open ports; see `PortsScreen`."""
    from tui_workbench.ui.runs.ports_screen import PortsScreen

    return PortsScreen(project, run, configuration, opens_notebook=opens_notebook)


def project_screen(name: str, project: Project) -> HistoryScreen:
    """Return a screen that needs only the project, by its name in `SCREENS`."""
    from tui_workbench.ui.project_screens import SCREENS

    return SCREENS[name](project)


def start(project: Project | None, error: WorkbenchError | None = None) -> StartScreen:
    """Return the start screen. `project` is the open project, if any; `error` is shown."""
    from tui_workbench.ui.projects.start_screen import StartScreen

    return StartScreen(project, error)


def attach_machine(project: Project, history: ChangeHistory, written: Callable[[], None]) -> AttachScreen:
    """Return the screen that attaches a machine."""
    from tui_workbench.ui.machines.machine import AttachScreen

    return AttachScreen(project, history, written)


def check_machine(target: ComputeTarget) -> CheckScreen:
    """Return the screen that checks a target."""
    from tui_workbench.ui.machines.machine import CheckScreen

    return CheckScreen(target)


def prepare_machine(target: ComputeTarget) -> PrepareMachineScreen:
    """Return the screen that installs missing software on the machine of a target."""
    from tui_workbench.ui.machines.prepare_machine import PrepareMachineScreen

    return PrepareMachineScreen(target)


async def command_palette(app: App[object], states: Sequence[CommandState], say: Callable[[str], None]) -> None:
    """Let the user choose a command; see `choose_command`."""
    from tui_workbench.ui.dialogs.palette import choose_command

    await choose_command(app, states, say)


def recent_pane(project: Project, id: str) -> RecentPane:
    """Return the pane with all runs, for wide terminals."""
    from tui_workbench.ui.dashboard.recent import RecentPane

    return RecentPane(project, id=id)


def monitor_pane(id: str) -> MonitorPane:
    """Return the pane with the GPUs, for wide terminals."""
    from tui_workbench.ui.gpu.monitor_pane import MonitorPane

    return MonitorPane(id=id)
