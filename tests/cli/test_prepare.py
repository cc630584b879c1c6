"""`computetarget prepare` on a new machine over SSH."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cli.attaching import Terminal, result, workbench
from tests.machines import PASSWORD
from tests.targets.preparing.fresh import Fresh
from tests.targets.preparing.fresh import fresh as fresh
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.model import ComputeTarget
from tui_workbench.targets.preparing.preparation import Machine

if TYPE_CHECKING:
    from pathlib import Path


def states(text: str) -> dict[str, str]:
    return {step["step"]: step["state"] for step in json.loads(text)}


def test_new_machine_is_prepared_after_a_question(fresh: Fresh, project_root: Path) -> None:
    listed = workbench("prepare", "box", cwd=project_root)  # without a terminal, nothing is run
    assert (listed.returncode, fresh.log) == (2, [])
    assert "missing   docker          Docker Engine is not installed" in listed.stdout
    assert "usermod -aG docker outsider" in listed.stdout
    assert "ends all running containers" in listed.stdout
    assert "Nothing was run. Add `--yes`" in listed.stderr

    terminal = Terminal("prepare", "box", cwd=project_root)
    terminal.answer("as root on", "n")
    assert (terminal.end()[0], fresh.log) == (0, [])

    terminal = Terminal("prepare", "box", cwd=project_root)
    terminal.answer("as root on", "y")
    code, shown = terminal.end()
    assert code == 0, shown
    installed = [line.partition("install -y --no-remove ")[2] for line in fresh.log if line.startswith("apt-get -o")]
    assert "nvidia-driver-cuda nvidia-kernel-open-dkms" in installed
    assert installed[-1] == "nvidia-container-toolkit"
    assert fresh.log[-1] == "systemctl restart docker"
    assert "docker:x:2375:research,outsider" in (fresh.machine.folder / "etc" / "group").read_text()
    assert "the next login gets the new group" in shown
    assert "Restart the machine. Then run: workbench-tui computetarget check box" in shown

    again = result(workbench("prepare", "box", "-o", "json", cwd=project_root))
    found = {step["step"]: step["state"] for step in again}
    assert found.pop("nvidia driver") == "restart"
    assert set(found.values()) == {"ok"}


def test_sudo_with_a_password_changes_nothing(fresh: Fresh, project_root: Path) -> None:
    fresh.allow_sudo(allowed=False)
    done = workbench("prepare", "box", "--yes", cwd=project_root)
    assert (done.returncode, fresh.log) == (1, [])
    assert "commands cannot be run as root: sudo: " in done.stderr
    assert "in a shell that `sudo -i` opens" in done.stderr
    assert "              usermod -aG docker outsider\n" in done.stdout  # for an administrator


def test_failed_command_ends_the_preparation(fresh: Fresh, project_root: Path) -> None:
    fresh.set_tool("curl", "echo 'curl: (6) Could not resolve host' >&2; exit 6")
    done = workbench("prepare", "box", "--yes", "-o", "json", cwd=project_root)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "failed with exit code 6: curl: (6) Could not resolve host" in done.stderr
    assert not any("docker-ce" in line for line in fresh.log)


def test_password_is_asked_for_again_after_the_group_step(fresh: Fresh, project_root: Path) -> None:
    fresh.ask_for_password(project_root / "aml_config" / "box.compute")
    terminal = Terminal("prepare", "box", "--yes", cwd=project_root)
    terminal.answer("Password of outsider", PASSWORD)
    terminal.answer("The connection was closed", "")
    terminal.answer("Password of outsider", PASSWORD)
    code, shown = terminal.end()
    assert code == 0, shown
    assert "Restart the machine." in shown


def test_failed_restart_of_the_engine_is_repeated(fresh: Fresh, project_root: Path) -> None:
    restart = "[ -e once ] || { touch once; exit 5; }; touch /run/docker.pid"
    fresh.set_tool("systemctl", f"case $1 in enable) python3 bind.py ;; restart) {restart} ;; esac")
    done = workbench("prepare", "box", "--yes", cwd=project_root)
    assert "`systemctl restart docker` failed with exit code 5" in done.stderr
    again = workbench("prepare", "box", "--yes", cwd=project_root)
    assert again.returncode == 0, again.stderr
    assert [line for line in fresh.log if "restart" in line] == ["systemctl restart docker"] * 2
    assert "docker:x:2375:research,outsider" in (fresh.machine.folder / "etc" / "group").read_text()


def test_conflicting_packages_are_not_removed(fresh: Fresh, project_root: Path) -> None:
    error = "E: Packages need to be removed but remove is disabled."
    fresh.set_tool("apt-get", f'case "$LC_ALL $*" in C*--no-remove*docker-ce*) echo "{error}" >&2; exit 100 ;; esac')
    done = workbench("prepare", "box", "--yes", cwd=project_root)
    assert done.returncode == 1
    assert "containerd.io docker-buildx-plugin docker-compose-plugin` would remove installed packages" in done.stderr


def test_commands_without_effect_are_reported(fresh: Fresh, project_root: Path) -> None:
    fresh.set_tool("apt-get", "")
    fresh.set_tool("nvidia-ctk", "")
    done = workbench("prepare", "box", "--yes", cwd=project_root)
    assert done.returncode == 1
    assert "these steps are incomplete: nvidia driver, docker, nvidia runtime\n" in done.stderr.replace(".", "\n")


def test_other_system_is_refused(fresh: Fresh, project_root: Path) -> None:
    fresh.system.write_text('ID=fedora\nVERSION_ID=42\nPRETTY_NAME="Fedora Linux 42"\n')
    done = workbench("prepare", "box", "--yes", cwd=project_root)
    assert (done.returncode, fresh.log) == (3, [])
    assert "runs Fedora Linux 42, but only Ubuntu 22.04, Debian 12 and newer versions" in done.stderr


def test_dry_run_lists_the_commands_of_the_system(fresh: Fresh, project_root: Path) -> None:
    fresh.system.write_text('ID=ubuntu\nVERSION_ID="24.04"\nVERSION_CODENAME=noble\n')
    done = workbench("prepare", "box", "--dry-run", "-o", "json", cwd=project_root)
    assert states(done.stdout)["docker group"] == "missing"
    plain = workbench("prepare", "box", "--dry-run", "--plain", cwd=project_root).stdout
    assert "apt-get update) && apt-get -o" in plain
    assert " ubuntu-drivers install --gpgpu &&" in plain
    assert fresh.log == []


def test_rootless_engine_is_left_to_its_user(fresh: Fresh, project_root: Path) -> None:
    fresh.add_rootless_engine()
    fresh.set_tool("nvidia-smi", "")
    fresh.set_tool("nvidia-ctk", "")
    done = workbench("prepare", "box", "--dry-run", "-o", "json", cwd=project_root)
    steps = {step["step"]: step for step in json.loads(done.stdout)}
    assert steps["docker"]["state"] == "ok"
    assert (steps["nvidia runtime"]["state"], steps["nvidia runtime"]["commands"]) == ("missing", [])
    assert "rootless-mode" in steps["nvidia runtime"]["message"]


def test_groups_and_clusters_are_refused(project_root: Path) -> None:
    group = ComputeTarget("both", "both.compute", "group", members=("box1", "box 2"))
    with pytest.raises(ConfigurationError) as refused:
        Machine(group)
    assert "`workbench-tui computetarget prepare box1`. `workbench-tui computetarget prepare 'box 2'`." in (
        refused.value.remedy
    )
    (project_root / "aml_config" / "slurm.compute").write_text("type: slurm\n")
    done = workbench("prepare", "slurm", cwd=project_root)
    assert done.returncode == 3
    assert "cannot prepare machines of targets of type slurm" in done.stderr
