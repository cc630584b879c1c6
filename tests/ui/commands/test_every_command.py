"""Every command of the registry has a test that presses its key and checks the effect."""

from __future__ import annotations

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
import tests.ui.runs.test_restore
import tests.ui.runs.test_trash_screen
import tests.ui.starting.test_sweep_form
import tests.ui.test_every_command_widgets  # noqa: F401  (importing these modules fills PROOFS)
from tests.ui.command_driver import PROOFS
from tui_workbench.ui.commands.registry import COMMANDS

BESIDE_FIXTURES = [
    "approvals.approve",
    "approvals.deny",
    "approvals.read",
    "details.spark",
    "file.edit",
    "files.edit",
    "gpu_panel.next",
    "gpus.check",
    "gpus.clear",
    "gpus.copy",
    "gpus.filter",
    "gpus.open",
    "gpus.release",
    "gpus.reserve",
    "jobs.reconnect",
    "log.edit",
    "log.node",
    "log.node_back",
    "log.preparation",
    "log.rank",
    "log.rank_back",
    "one_run.cancel",
    "one_run.delete",
    "one_run.download",
    "one_run.export",
    "one_run.shell",
    "ports.close",
    "ports.copy",
    "ports.jupyter",
    "ports.port",
    "ports.tensorboard",
    "shell.open",
    "targets.edit",
    "view.approvals",
    "view.redraw",
]
"""Commands whose tests are beside their fixtures, such as a real terminal, stand-in GPUs and servers."""


def test_every_command_has_a_proof() -> None:
    assert sorted(COMMANDS.keys() - PROOFS.keys() - set(BESIDE_FIXTURES)) == []


def test_every_proof_names_a_known_command() -> None:
    assert sorted((PROOFS.keys() | set(BESIDE_FIXTURES)) - COMMANDS.keys()) == []
