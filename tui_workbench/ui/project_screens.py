"""The screens that the main screen opens with only the project."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tui_workbench.projects.project import Project
from tui_workbench.ui.full_screen import HistoryScreen
from tui_workbench.ui.machines.cloud_init_screen import CloudInitScreen
from tui_workbench.ui.runs.approvals_screen import ApprovalsScreen
from tui_workbench.ui.runs.notifications_screen import NotificationsScreen
from tui_workbench.ui.runs.trash_screen import TrashScreen

SCREENS: Mapping[str, Callable[[Project], HistoryScreen]] = {
    "approvals": ApprovalsScreen,
    "cloud_init": CloudInitScreen,
    "notifications": NotificationsScreen,
    "trash": TrashScreen,
}
