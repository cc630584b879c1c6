"""The commands and the target of docs/slurm.md work: they are typed in a shell, on a real cluster."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import REPOSITORY
from tests.gpu.test_tutorial import Shell
from tests.machines import USERS

if TYPE_CHECKING:
    from tests.slurm_cluster import SlurmCluster
    from tui_workbench.targets.ssh.ssh_host import SshHost

PAGE = REPOSITORY / "docs" / "slurm.md"
NAME, FOLDER = "login.example.org", "/scratch/research"


def blocks(language: str) -> list[str]:
    """Return the blocks of the page in a language."""
    return [part.partition("```")[0] for part in PAGE.read_text(encoding="utf-8").split(f"```{language}\n")[1:]]


@pytest.fixture
def shell(tmp_path: Path, home: Path, slurm_accounting: SlurmCluster, slurm_accounting_host: SshHost) -> Shell:
    """Return a shell in an empty project of a user who can log in to the cluster by the name of the page."""
    address, known = slurm_accounting.login.address, slurm_accounting.login.known_hosts_line
    (home / ".ssh" / "config").write_text(f"Host {NAME}\n    HostName {address}\n")
    with (home / ".ssh" / "known_hosts").open("a") as file:
        file.write(known.replace(address, NAME))
    programs = slurm_accounting.run_root.parent / "env" / "bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to("/usr/bin/python3")
    os.chown(programs.parent, USERS["research"], USERS["research"])
    folder = tmp_path / "research"
    (folder / "aml_config").mkdir(parents=True)
    (folder / "train.py").write_text("import os\nprint('trained with', os.environ['SLURM_JOB_PARTITION'])\n")
    return Shell(folder)


def typed(text: str, cluster: SlurmCluster) -> str:
    """Return a text of the page with the folder that this cluster's machines share in place of the page's."""
    return text.replace(FOLDER, str(cluster.run_root.parent))


def test_commands_of_the_page_work_as_typed(shell: Shell, slurm_accounting: SlurmCluster) -> None:
    attach, check, submit, overridden = (typed(block, slurm_accounting) for block in blocks("sh"))
    assert "attached" in shell.type(attach).lower()
    checked = shell.type(check)
    assert "it would start at once on node" in checked
    assert f"can use {slurm_accounting.run_root}" in checked
    assert "trained with gpu" in shell.type(submit)
    assert "trained with gpu" in shell.type(overridden)
    (newest, _) = json.loads(shell.type("workbench-tui history list"))
    assert newest["status"] == "Completed"
    plan = shell.type(overridden.replace("submit", "submit --dry-run"))
    assert "--time=2:00:00 --gpus=2" in plan
    assert "gpus: 1" in shell.type("workbench-tui config gpu-ready cluster")


def test_target_and_overrides_of_the_page_are_valid(shell: Shell, slurm_accounting: SlurmCluster) -> None:
    target, overrides, nodes, again = (typed(block, slurm_accounting) for block in blocks("yaml"))
    (shell.folder / "aml_config" / "cluster.compute").write_text(target)
    (shell.folder / "aml_config" / "cluster.runconfig").write_text(overrides)
    assert "0 errors" in shell.type("workbench-tui config check")
    plan = shell.type("workbench-tui experiment submit -c cluster --dry-run train.py")
    assert "--partition=gpu --account=lab --time=0:30:00 --gpus=1 --cpus-per-task=8 --mem=32G" in plan
    (shell.folder / "aml_config" / "cluster.runconfig").write_text(nodes)
    assert "0 errors" in shell.type("workbench-tui config check")
    plan = shell.type("workbench-tui experiment submit -c cluster --dry-run train.py")
    assert "--nodes=2" in plan
    assert "--gpus=8" in plan
    (shell.folder / "aml_config" / "cluster.runconfig").write_text(again)
    assert "0 errors" in shell.type("workbench-tui config check")
    assert "--signal=TERM@600" in shell.type("workbench-tui experiment submit -c cluster --dry-run train.py")
