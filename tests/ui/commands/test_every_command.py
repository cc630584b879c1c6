"""Every command of the registry has a test that presses its key and checks the effect."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest

import tests.ui.commands.test_every_command_editor
import tests.ui.commands.test_every_command_main
import tests.ui.commands.test_every_command_runs
import tests.ui.gpu.test_every_command_gpus
import tests.ui.machines.test_cloud_init_screen
import tests.ui.machines.test_every_command_machines
import tests.ui.projects.test_start_screen
import tests.ui.runs.test_every_command_history
import tests.ui.runs.test_notifications_screen
import tests.ui.runs.test_ports
import tests.ui.runs.test_trash_screen
import tests.ui.starting.test_sweep_form
import tests.ui.test_every_command_widgets  # noqa: F401  (importing these modules fills PROOFS)
from tests.ui.command_driver import PROOFS
from tui_workbench.ui.commands.registry import COMMANDS

TERMINAL = "tests.terminal.test_keys"
"""Commands that start other programs are tested in a real terminal."""

ELSEWHERE = {
    "shell.open": (TERMINAL, "test_shell_opens_in_the_project"),
    "one_run.shell": (TERMINAL, "test_shell_opens_in_the_copy_of_a_run"),
    "view.redraw": (TERMINAL, "test_ctrl_l_redraws_over_foreign_output"),
    "files.edit": (TERMINAL, "test_e_in_files_opens_the_file_without_a_line"),
    "targets.edit": (TERMINAL, "test_e_on_a_target_opens_its_file"),
    "file.edit": (TERMINAL, "test_e_opens_the_external_editor_at_the_line"),
    "log.edit": (TERMINAL, "test_e_in_the_log_opens_a_read_only_copy"),
    "one_run.cancel": ("tests.ui.dashboard.test_marks", "test_active_run_is_canceled_after_a_question"),
    "one_run.delete": ("tests.ui.dashboard.test_marks", "test_marked_runs_are_moved_to_the_trash_and_back"),
    "one_run.download": ("tests.ui.dashboard.test_marks", "test_actions_apply_to_all_marked_runs"),
    "one_run.export": ("tests.ui.dashboard.test_marks", "test_actions_apply_to_all_marked_runs"),
    "log.rank": ("tests.ui.panes.test_log_ranks", "test_key_switches_between_all_ranks_and_each_rank"),
    "log.rank_back": ("tests.ui.panes.test_log_ranks", "test_key_switches_between_all_ranks_and_each_rank"),
    "log.node": ("tests.ui.panes.test_log_ranks", "test_keys_filter_by_node_and_by_its_ranks"),
    "log.node_back": ("tests.ui.panes.test_log_ranks", "test_keys_filter_by_node_and_by_its_ranks"),
    "details.spark": ("tests.ui.details.test_spark_panel", "test_key_shows_the_stages_of_a_spark_run"),
    "gpus.reserve": ("tests.ui.gpu.test_monitor", "test_keys_reserve_and_release_a_gpu"),
    "gpus.release": ("tests.ui.gpu.test_monitor", "test_keys_reserve_and_release_a_gpu"),
    "gpus.open": ("tests.ui.gpu.test_monitor", "test_enter_opens_the_run_on_the_gpu"),
    "gpus.copy": ("tests.ui.gpu.test_monitor", "test_y_copies_the_values"),
    "gpus.filter": ("tests.ui.gpu.test_monitor", "test_filter_applies_while_typing_until_escape"),
    "gpus.clear": ("tests.ui.gpu.test_monitor", "test_filter_applies_while_typing_until_escape"),
    "gpus.check": (
        "tests.ui.gpu.test_monitor",
        "test_machine_without_gpus_can_be_checked_again",
    ),
    "gpu_panel.next": (
        "tests.ui.details.test_gpu_verdict",
        "test_m_switches_between_charts_of_samples",
    ),
    "jobs.reconnect": (
        "tests.ui.starting.test_starting",
        "test_unreachable_run_shows_since_when_and_key_retries",
    ),
    "ports.tensorboard": ("tests.ui.runs.test_ports", "test_server_is_opened_and_closed"),
    "ports.close": ("tests.ui.runs.test_ports", "test_server_is_opened_and_closed"),
    "ports.copy": ("tests.ui.runs.test_ports", "test_server_is_opened_and_closed"),
    "ports.jupyter": ("tests.ui.runs.test_ports", "test_errors_are_shown"),
    "ports.port": ("tests.ui.runs.test_ports", "test_errors_are_shown"),
    "view.approvals": ("tests.ui.runs.test_approvals", "test_requests_are_approved_and_denied"),
    "approvals.approve": ("tests.ui.runs.test_approvals", "test_requests_are_approved_and_denied"),
    "approvals.deny": ("tests.ui.runs.test_approvals", "test_requests_are_approved_and_denied"),
    "approvals.read": ("tests.ui.runs.test_approvals", "test_enter_scrolls_the_plan"),
    "log.preparation": ("tests.ui.starting.test_starting", "test_plan_shows_files_and_sends_nothing"),
}
"""Commands that are tested beside their fixtures (a real terminal, stand-in GPUs, an unreachable machine)."""

TMUX_NAMES = {"exclamation_mark": "!", "alt+e": "M-e", "ctrl+l": "C-l"}


def test_every_command_has_a_proof() -> None:
    assert sorted(COMMANDS.keys() - PROOFS.keys() - ELSEWHERE.keys()) == []


def test_every_proof_names_a_known_command() -> None:
    assert sorted((PROOFS.keys() | ELSEWHERE.keys()) - COMMANDS.keys()) == []


@pytest.mark.parametrize("command_id", ELSEWHERE)
def test_proof_in_another_module_presses_the_key(command_id: str) -> None:
    module, name = ELSEWHERE[command_id]
    source = inspect.getsource(getattr(import_module(module), name))
    keys = COMMANDS[command_id].default_keys.split(",")
    assert any(f'"{TMUX_NAMES.get(key, key)}"' in source for key in keys)
