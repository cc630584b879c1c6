"""`computetarget cloud-init`, checked with `cloud-init schema`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.cli.attaching import Terminal, workbench
from tests.conftest import require
from tests.machines import make_key
from tui_workbench.core.errors import UsageError
from tui_workbench.targets.preparing.cloud_init import cloud_init, read_public_key
from tui_workbench.targets.preparing.steps import all_steps


@pytest.mark.ssh
@pytest.mark.parametrize("user", ["", "research"])
def test_cloud_init_accepts_the_file(tmp_path: Path, user: str) -> None:
    key = read_public_key(str(make_key(tmp_path / "key").with_suffix(".pub")))
    path = tmp_path / "user-data"
    path.write_text(cloud_init(user, key))
    done = subprocess.run(
        [require("cloud-init"), "schema", "-c", str(path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, "Valid" in done.stdout) == (0, True), done.stdout + done.stderr
    values = yaml.safe_load(path.read_text())
    assert (values["users"][1] if user else values)["ssh_authorized_keys"] == [key]
    (script,) = values["runcmd"]
    assert subprocess.run(["sh", "-n"], input=script, text=True, check=False).returncode == 0
    for step in all_steps(user or '"$(id -nu 1000)"'):
        for command in step.commands:
            assert f"\n    {command}\n" in script


@pytest.mark.ssh
def test_key_is_read_through_a_link(tmp_path: Path) -> None:
    public = make_key(tmp_path / "key").with_suffix(".pub")
    public.write_text(" ".join((*public.read_text().split()[:2], "ada \U0001f600")))
    (tmp_path / "link.pub").symlink_to("key.pub")
    values = yaml.safe_load(cloud_init("ada", read_public_key(str(tmp_path / "link.pub"))))
    assert values["users"][1]["ssh_authorized_keys"] == [public.read_text()]


@pytest.mark.parametrize(("locked", "code"), [(2, 0), (1000, 100)])
def test_update_waits_for_automatic_updates(tmp_path: Path, locked: int, code: int) -> None:
    tools = {
        "apt-get": f"echo x >>{tmp_path}/tries; [ $(wc -l <{tmp_path}/tries) -gt {locked} ] || exit 100",
        "sleep": "",
    }
    for name, script in tools.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    update = all_steps("ada")[0].commands[0]
    done = subprocess.run(["sh", "-ec", update], check=False, env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert done.returncode == code
    assert len((tmp_path / "tries").read_text().splitlines()) == min(locked + 1, 31)


def test_script_runs_only_missing_steps(tmp_path: Path) -> None:
    (script,) = yaml.safe_load(cloud_init())["runcmd"]
    programs = ("python3", "dockerd", "id", "apt-get", "systemctl", "usermod", "curl", "install", "chmod")
    for name in programs:
        tool = tmp_path / name
        tool.write_text(f'#!/bin/sh\necho "{name} $*" >>{tmp_path}/log\n{"echo docker" if name == "id" else ""}\n')
        tool.chmod(0o755)
    # Without an engine's socket, only the service is missing; on a machine with one, nothing is.
    script = script.replace("/run/docker.sock", str(tmp_path / "none.sock"))
    subprocess.run(["sh"], input=script, text=True, check=True, env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    done = [line for line in (tmp_path / "log").read_text().splitlines() if not line.startswith(("id ", "python3 "))]
    assert done == ["systemctl enable --now docker"]


@pytest.mark.ssh
def test_private_key_is_refused_and_not_shown(tmp_path: Path) -> None:
    private = make_key(tmp_path / "key")
    done = workbench("cloud-init", "--key", str(private), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        f"is a private key, which must not leave this machine. Give the public key, which is usually {private}.pub."
        in done.stderr
    )
    assert private.read_text().splitlines()[1] not in done.stderr


@pytest.mark.parametrize(
    "text", ["", "hello", "ssh-ed25519 AAAA", "ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAA a", "a b\nc d", "ssh-ed25519 é"]
)
def test_other_files_are_no_public_keys(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key.pub"
    path.write_text(text)
    with pytest.raises(UsageError, match="is not a public key in the format of OpenSSH"):
        read_public_key(str(path))
    with pytest.raises(UsageError, match="cannot read the public key"):
        read_public_key(str(tmp_path / "missing"))


@pytest.mark.parametrize("user", ["Ada", "a b", "-x", "a:b", "a" * 33, "ada\n"])
def test_invalid_user_names_are_refused(user: str) -> None:
    with pytest.raises(UsageError, match="is not a valid user name"):
        cloud_init(user, "")


@pytest.mark.parametrize("user", ["root", "daemon", "sshd"])
def test_system_users_are_refused(user: str) -> None:
    with pytest.raises(UsageError, match=f"--username {user} is an account of the system"):
        cloud_init(user, "")


def test_file_is_replaced_only_after_a_question(tmp_path: Path) -> None:
    path = tmp_path / "user-data"
    assert workbench("cloud-init", "-f", str(path), cwd=tmp_path).returncode == 0
    assert path.read_text() == cloud_init() == workbench("cloud-init", cwd=tmp_path).stdout
    path.write_text("mine")
    done = workbench("cloud-init", "-f", str(path), cwd=tmp_path)
    assert (done.returncode, path.read_text()) == (2, "mine")
    assert "Add `--yes` to replace the file" in done.stderr
    terminal = Terminal("cloud-init", "-f", str(path), cwd=tmp_path)
    terminal.answer("exists. Replace it? [y/N] ", "n")
    assert (terminal.end()[0], path.read_text()) == (0, "mine")
    assert workbench("cloud-init", "-f", str(path), "--yes", cwd=tmp_path).returncode == 0
    assert path.read_text() == cloud_init()


def test_user_without_key_is_refused(tmp_path: Path) -> None:
    done = workbench("cloud-init", "--username", "ada", cwd=tmp_path)
    assert done.returncode == 2
    assert "without a key, this user could not log in" in done.stderr
