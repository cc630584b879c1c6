"""Passwords, passphrases and keys while attaching a machine."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import require
from tests.machines import PASSWORD, Machine, make_key, secret_in_keyring, wait_for
from tests.targets.attaching.requests import attach, compute
from tests.targets.conftest import link_processes
from tui_workbench.projects.project import Project
from tui_workbench.targets.attaching.attach import Attachment, AttachRequest
from tui_workbench.targets.hosts.host import ConnectionLost, LoginRefused, SecretNeeded
from tui_workbench.targets.hosts.secrets import is_reference
from tui_workbench.targets.ssh.host_for import host_of
from tui_workbench.targets.ssh.login_secrets import ssh_host_of
from tui_workbench.targets.ssh.workbench_key import workbench_key

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def accounts(gpubox: Machine) -> Iterator[Path]:
    """The authorized_keys of research, restored after the test."""
    path = gpubox.home() / ".ssh" / "authorized_keys"
    before = path.read_bytes()
    yield path
    path.write_bytes(before)


def files_below(*folders: str | Path) -> list[Path]:
    return [path for folder in folders for path in Path(folder).rglob("*") if path.is_file()]


# Passwords.


@pytest.mark.usefixtures("known")
def test_password_is_stored_only_in_the_keyring(
    project: Project, request_: AttachRequest, keyring: Path, connections: Path, home: Path
) -> None:
    attachment = Attachment(project.root, request_._replace(has_password=True))
    attachment.give_password(PASSWORD)
    attachment.connect()
    (kept,) = attachment.write().kept
    assert kept.in_keyring
    target = project.target("box")
    assert is_reference(target.password)
    assert target.password.startswith("AzureMlSecret=box#research#")
    assert secret_in_keyring(target.password) == PASSWORD
    calls = (home / ".local" / "state" / "workbench-tui" / "trace.jsonl").read_text()
    assert "connected" in calls, "the trace of calls is among the files that are looked through"
    for path in files_below(project.root, home, connections):
        assert PASSWORD.encode() not in path.read_bytes(), path
    for pid in link_processes(connections):
        for name in ("cmdline", "environ"):
            assert PASSWORD.encode() not in Path(f"/proc/{pid}/{name}").read_bytes()


@pytest.mark.usefixtures("known", "keyring")
def test_stored_password_is_used_for_later_logins(project: Project, request_: AttachRequest) -> None:
    attachment = Attachment(project.root, request_._replace(has_password=True))
    attachment.give_password(PASSWORD)
    attachment.connect()
    attachment.write()
    ssh_host_of(project.target("box")).disconnect()  # which also removes the password that the link held in memory
    assert host_of(project.target("box")).run(["id", "-un"]).text == "research"


@pytest.mark.usefixtures("known")
def test_password_without_keyring_stays_in_memory(project: Project, request_: AttachRequest) -> None:
    attachment = Attachment(project.root, request_._replace(has_password=True))
    attachment.give_password(PASSWORD)
    attachment.connect()
    (kept,) = attachment.write().kept
    assert not kept.in_keyring
    host = ssh_host_of(project.target("box"))
    assert host.run(["id", "-un"]).text == "research"
    host.disconnect()
    with pytest.raises(SecretNeeded):
        host.run(["true"])


@pytest.mark.usefixtures("known")
def test_untried_password_without_keyring_stays_in_memory(project: Project, request_: AttachRequest) -> None:
    attachment = Attachment(project.root, request_._replace(has_password=True))
    attachment.give_password(PASSWORD)
    attachment.write()
    assert host_of(project.target("box")).run(["id", "-un"]).text == "research"


@pytest.mark.usefixtures("known")
def test_wrong_password_can_be_corrected(project: Project, request_: AttachRequest) -> None:
    attachment = Attachment(project.root, request_._replace(has_password=True))
    with pytest.raises(SecretNeeded) as needed:
        attachment.connect()
    attachment.give(needed.value, "wrong")
    with pytest.raises(SecretNeeded, match="the password is wrong") as needed:
        attachment.connect()
    assert not Path(project.config_directory, "box.compute").exists()
    attachment.give(needed.value, PASSWORD)
    attachment.connect()


@pytest.mark.usefixtures("known")
def test_abandon_forgets_the_password(project: Project, request_: AttachRequest, connections: Path) -> None:
    attachment = Attachment(project.root, request_._replace(has_password=True))
    attachment.give_password(PASSWORD)
    attachment.connect()
    attachment.abandon()
    with pytest.raises(ConnectionLost, match="canceled"):
        attachment.connect()
    with pytest.raises(SecretNeeded):
        Attachment(project.root, attachment.request).connect()


# Keys.


@pytest.mark.usefixtures("known", "keyring")
def test_passphrase_is_requested_and_stored(
    project: Project, request_: AttachRequest, accounts: Path, home: Path
) -> None:
    locked = make_key(home / ".ssh" / "locked", passphrase="open sesame")
    accounts.write_text(accounts.read_text() + locked.with_suffix(".pub").read_text())
    attachment = Attachment(project.root, request_._replace(private_key=str(locked)))
    with pytest.raises(SecretNeeded) as needed:
        attachment.connect()
    attachment.give(needed.value, "open sesame")
    attachment.connect()
    attachment.write()
    target = project.target("box")
    assert target.private_key == "~/.ssh/locked"
    assert secret_in_keyring(target.private_key_passphrase) == "open sesame"
    assert target.password == ""
    ssh_host_of(target).disconnect()
    assert host_of(target).run(["true"]).code == 0


@pytest.mark.usefixtures("known")
def test_key_without_a_passphrase_needs_no_secret(project: Project, request_: AttachRequest, key: Path) -> None:
    attach(project, request_._replace(private_key=str(key)))
    assert f"privateKey: {key}\n" in compute(project)
    assert "AzureMlSecret" not in compute(project)


@pytest.mark.usefixtures("known")
def test_key_of_the_ssh_agent_is_used(
    project: Project, request_: AttachRequest, key: Path, connections: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    socket = connections / "agent"
    agent = subprocess.Popen([require("ssh-agent"), "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    try:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        # Its socket exists before it accepts connections.
        add = [require("ssh-add"), "-q", str(key)]
        wait_for(lambda: subprocess.run(add, stderr=subprocess.DEVNULL, check=False).returncode == 0, "the agent")
        attach(project, request_)
        assert "privateKey" not in compute(project)
    finally:
        agent.terminate()
        agent.wait()


@pytest.mark.usefixtures("known", "keyring")
def test_workbench_key_is_installed_with_a_password(
    project: Project, request_: AttachRequest, accounts: Path, home: Path
) -> None:
    request = request_._replace(workbench_key=True, has_password=True)
    attachment = Attachment(project.root, request)
    attachment.give_password(PASSWORD)
    attachment.connect()
    assert attachment.write().kept == ()
    target = project.target("box")
    assert (target.private_key, target.password) == ("~/.local/share/workbench-tui/ssh/id_ed25519", "")
    assert host_of(target).run(["id", "-un"]).text == "research"
    assert accounts.read_text().splitlines()[-1] == workbench_key().public
    assert accounts.stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("known")
def test_workbench_key_is_installed_once(project: Project, request_: AttachRequest, accounts: Path) -> None:
    before = accounts.read_text()
    accounts.write_text(before.removesuffix("\n"))  # the previous line must stay complete
    for name in ("one", "two"):
        attachment = Attachment(project.root, request_._replace(name=name, workbench_key=True, has_password=True))
        attachment.give_password(PASSWORD)
        attachment.connect()
        attachment.write()
    assert accounts.read_text() == f"{before}{workbench_key().public}\n"


def test_workbench_key_is_installed_with_another_key(
    project: Project, known: Path, request_: AttachRequest, accounts: Path, key: Path
) -> None:
    attach(project, request_._replace(workbench_key=True, private_key=str(key)))
    assert workbench_key().public in accounts.read_text()
    assert str(key) not in compute(project)


@pytest.mark.usefixtures("known")
def test_user_installs_workbench_key_if_no_login_works(
    project: Project, request_: AttachRequest, accounts: Path
) -> None:
    attachment = attach(project, request_._replace(workbench_key=True))
    key = attachment.install_by_hand
    assert key is not None
    with pytest.raises(LoginRefused):
        host_of(project.target("box")).run(["true"])
    subprocess.run(
        ["sh", "-c", key.install_command], env={**os.environ, "HOME": str(accounts.parent.parent)}, check=True
    )
    assert host_of(project.target("box")).run(["id", "-un"]).text == "research"


@pytest.mark.usefixtures("known")
def test_wrong_password_does_not_install_workbench_key(
    project: Project, request_: AttachRequest, accounts: Path
) -> None:
    attachment = Attachment(project.root, request_._replace(workbench_key=True, has_password=True))
    attachment.give_password("wrong")
    with pytest.raises(SecretNeeded):
        attachment.connect()
    assert workbench_key().public not in accounts.read_text()


def test_workbench_key_is_private_to_the_user(home: Path) -> None:
    path = Path(workbench_key().path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.is_relative_to(home)


@pytest.mark.processes
def test_concurrent_processes_generate_one_workbench_key() -> None:
    code = "from tui_workbench.targets.ssh.workbench_key import workbench_key; print(workbench_key().public)"
    started = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert len({process.communicate()[0] for process in started}) == 1
    assert workbench_key().public
