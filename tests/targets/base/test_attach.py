"""Attaching a machine: first a login that works, then two files and a kept secret; nothing of it by halves."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import require
from tests.machines import PASSWORD, Machine, fingerprint, make_key, wait_for
from tests.targets.conftest import link_processes
from tui_workbench.config.changes import file_edits
from tui_workbench.config.checks.image_names import DEFAULT_GPU_IMAGE, OLDER_DRIVER_GPU_IMAGE
from tui_workbench.core.errors import ConfigurationError, UsageError
from tui_workbench.projects.project import Project
from tui_workbench.targets.base.attach import CPU_IMAGE, Attachment, AttachRequest
from tui_workbench.targets.base.secrets import SecretStore, is_reference
from tui_workbench.targets.checks.check import check
from tui_workbench.targets.gpu.gpus import gpus_of
from tui_workbench.targets.hosts.host import ConnectionLost, HostKeyRefused, LocalHost, LoginRefused, SecretNeeded
from tui_workbench.targets.hosts.host_for import host_of, ssh_host_of
from tui_workbench.targets.ssh.workbench_key import workbench_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


@pytest.fixture
def request_(gpubox: Machine) -> AttachRequest:
    """The user research's account on gpubox, by whatever lets us in."""
    return AttachRequest("remotedocker", "box", gpubox.address, "research")


@pytest.fixture
def known(home: Path, connections: Path, gpubox: Machine) -> Path:
    """`~/.ssh` of one who knows gpubox and has no key; gives known_hosts."""
    folder = home / ".ssh"
    folder.mkdir(mode=0o700)
    (folder / "known_hosts").write_text(gpubox.known_hosts_line)
    return folder / "known_hosts"


@pytest.fixture
def accounts(gpubox: Machine) -> Iterator[Path]:
    """authorized_keys of research, put back after the test."""
    path = gpubox.home() / ".ssh" / "authorized_keys"
    before = path.read_bytes()
    yield path
    path.write_bytes(before)


def attach(project: Project, request: AttachRequest) -> Attachment:
    attachment = Attachment(project.root, request)
    attachment.connect()
    attachment.write()
    return attachment


def compute(project: Project, name: str = "box") -> str:
    return Path(project.config_directory, f"{name}.compute").read_text()


def files_below(*folders: str | Path) -> list[Path]:
    return [path for folder in folders for path in Path(folder).rglob("*") if path.is_file()]


# The files.


@pytest.mark.usefixtures("ssh_folder")
def test_both_files_are_written_in_the_form_of_the_original(project: Project, request_: AttachRequest) -> None:
    attach(project, request_)
    assert compute(project) == (
        f"address: {request_.address}\n"
        f"baseDockerImage: {CPU_IMAGE}\n"
        "nativeSharedDirectory: ~/.azureml/share/\n"
        "nvidiaDocker: false\n"
        "sharedVolumes: true\n"
        "type: remotedocker\n"
        "username: research\n"
    )
    assert Path(project.config_directory, "box.runconfig").read_text() == (
        "ArgumentVector:\n"
        "- $file\n"
        "EnvironmentVariables: null\n"
        "Framework: Python\n"
        "PrepareEnvironment: true\n"
        "Target: box\n"
        "TrackedRun: true\n"
        "UseSampling: true\n"
    )


@pytest.mark.usefixtures("ssh_folder")
@pytest.mark.parametrize("kind", ["remotedocker", "remote", "localdocker"])
def test_what_is_written_has_nothing_to_complain_about(project: Project, request_: AttachRequest, kind: str) -> None:
    address: dict[str, Any] = {} if kind != "localdocker" else {"address": "", "username": ""}
    attach(project, request_._replace(type=kind, **address))
    assert project.target("box").type == kind
    assert project.target_of(project.run_configuration("box")).name == "box"
    paths = [str(Path(project.config_directory, f"box.{end}")) for end in ("compute", "runconfig")]
    assert file_edits.check(paths) == []


@pytest.mark.usefixtures("ssh_folder")
def test_dependency_files_are_named_where_the_project_has_them(project: Project, request_: AttachRequest) -> None:
    Path(project.config_directory, "conda_dependencies.yml").write_text("dependencies: []\n")
    attach(project, request_)
    configuration = project.run_configuration("box")
    assert configuration.conda_dependencies_file == "aml_config/conda_dependencies.yml"
    assert configuration.spark_dependencies_file == ""


@pytest.mark.usefixtures("ssh_folder")
def test_both_files_are_taken_back_in_one_step(project: Project, request_: AttachRequest) -> None:
    before = sorted(os.listdir(project.config_directory))
    attachment = Attachment(project.root, request_)
    attachment.connect()
    attachment.write().change_set.inverse.apply()
    assert sorted(os.listdir(project.config_directory)) == before


@pytest.mark.parametrize("end", ["compute", "runconfig"])
def test_no_file_is_replaced(project: Project, request_: AttachRequest, end: str) -> None:
    path = Path(project.config_directory, f"box.{end}")
    path.write_text("mine")
    with pytest.raises(ConfigurationError, match="already") as refused:
        Attachment(project.root, request_)
    assert "computetarget detach box" in refused.value.remedy
    assert path.read_text() == "mine"
    assert len(list(path.parent.glob("box.*"))) == 1


@pytest.mark.usefixtures("ssh_folder")
def test_a_file_that_came_meanwhile_is_not_replaced(project: Project, request_: AttachRequest) -> None:
    attachment = Attachment(project.root, request_)
    attachment.connect()
    path = Path(project.config_directory, "box.runconfig")
    path.write_text("mine")
    with pytest.raises(ConfigurationError):
        attachment.write()
    assert path.read_text() == "mine"
    assert not Path(project.config_directory, "box.compute").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"type": "cluster"}, "cluster"),
        ({"name": "../box"}, "name"),
        ({"name": ""}, "name"),
        ({"address": ""}, "address"),
        ({"address": "-oProxyCommand=x"}, "address"),
        ({"address": "a b"}, "address"),
        ({"address": "box:99999"}, "port"),
        ({"address": "me@box"}, "--username me --address box"),
        ({"username": "-l root"}, "username"),
        ({"image": "No Image"}, "image"),
        ({"private_key": "/nowhere/key"}, "private key"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_happens(
    project: Project, request_: AttachRequest, change: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError) as refused:
        Attachment(project.root, request_._replace(**change))
    assert said in str(refused.value)


# Where the machine cannot be reached, or does not let us in.


@pytest.mark.usefixtures("known")
def test_nothing_is_written_when_the_machine_does_not_answer(project: Project, request_: AttachRequest) -> None:
    attachment = Attachment(project.root, request_._replace(address=f"{request_.address}:2222"))
    with pytest.raises(ConnectionLost, match="2222"):
        attachment.connect()
    assert not Path(project.config_directory, "box.compute").exists()


@pytest.mark.usefixtures("known")
def test_without_a_key_the_login_is_refused(project: Project, request_: AttachRequest) -> None:
    with pytest.raises(LoginRefused, match="none of your SSH keys"):
        Attachment(project.root, request_).connect()


def test_aliases_of_the_ssh_configuration_are_honoured(
    project: Project, ssh_folder: Path, gpubox: Machine, key: Path
) -> None:
    (ssh_folder / "id_ed25519").rename(ssh_folder / "other")
    (ssh_folder / "config").write_text(
        f"Host big\n  HostName {gpubox.address}\n  User research\n  Port 22\n  IdentityFile ~/.ssh/other\n"
    )
    attach(project, AttachRequest("remotedocker", "box", "big"))
    assert "address: big\n" in compute(project)
    assert "username" not in compute(project)
    assert host_of(project.target("box")).run(["id", "-un"]).text == "research"


def test_a_machine_behind_a_jump_host_is_attached_and_checked(
    project: Project, bastion: Machine, gpubox: Machine
) -> None:
    attachment = Attachment(project.root, AttachRequest("remote", "box", "inner"))
    for machine in (bastion, gpubox):
        with pytest.raises(HostKeyRefused) as refused:
            attachment.connect()
        assert refused.value.presented == fingerprint(machine.folder / "host_key.pub")
        attachment.accept_host_key(refused.value.presented)
    attachment.connect()
    attachment.write()
    assert "address: inner\n" in compute(project)
    name, *others = check(project, "box")
    assert name.message == "inner is reached through a jump host"
    assert [rung.state for rung in others if rung.name in ("port", "host key", "login", "python")] == ["ok"] * 4
    assert host_of(project.target("box")).run(["hostname"]).text == "gpubox"


def test_a_jump_host_that_lets_nobody_in_is_named(project: Project, bastion: Machine, gpubox: Machine) -> None:
    attachment = Attachment(project.root, AttachRequest("remote", "box", "inner"))
    attachment.accept_host_key(fingerprint(bastion.folder / "host_key.pub"))
    (bastion.home() / ".ssh" / "authorized_keys").write_text("")
    with pytest.raises(LoginRefused, match=f"jump host {bastion.address}: the login was refused") as refused:
        attachment.connect()
    assert refused.value.remedy == f"Make `ssh {bastion.address}` work first."


# Host keys.


def test_an_unknown_host_key_is_shown_and_accepted_once(
    project: Project, known: Path, gpubox: Machine, request_: AttachRequest, key: Path
) -> None:
    known.write_text("")
    attachment = Attachment(project.root, request_._replace(private_key=str(key)))
    with pytest.raises(HostKeyRefused) as refused:
        attachment.connect()
    assert refused.value.presented == fingerprint(gpubox.folder / "host_key.pub")
    assert refused.value.known == ()
    assert known.read_text() == ""
    attachment.accept_host_key(refused.value.presented)
    attachment.connect()
    assert known.read_text().split() == gpubox.known_hosts_line.split()


def test_another_fingerprint_accepts_nothing(project: Project, known: Path, request_: AttachRequest, key: Path) -> None:
    known.write_text("")
    attachment = Attachment(project.root, request_._replace(private_key=str(key)))
    attachment.accept_host_key("SHA256:" + "A" * 43)
    with pytest.raises(HostKeyRefused):
        attachment.connect()
    assert known.read_text() == ""


def test_a_changed_host_key_is_not_accepted_by_its_fingerprint(
    project: Project, known: Path, gpubox: Machine, request_: AttachRequest, key: Path, tmp_path: Path
) -> None:
    old = make_key(tmp_path / "old").with_suffix(".pub")
    known.write_text(f"{gpubox.address} {old.read_text()}")
    attachment = Attachment(project.root, request_._replace(private_key=str(key)))
    new = fingerprint(gpubox.folder / "host_key.pub")
    attachment.accept_host_key(new)
    with pytest.raises(HostKeyRefused) as refused:
        attachment.connect()
    assert refused.value.presented == new
    assert fingerprint(old) in refused.value.known[0]
    assert f"ssh-keygen -R '{gpubox.address}'" in refused.value.remedy


# Passwords.


@pytest.mark.usefixtures("known")
def test_a_password_goes_to_the_keyring_and_nowhere_else(
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
    assert SecretStore().get(target.password) == PASSWORD
    calls = (home / ".local" / "state" / "workbench-tui" / "trace.jsonl").read_text()
    assert "connected" in calls, "the trace of calls is among the files that are looked through"
    for path in files_below(project.root, home, connections):
        assert PASSWORD.encode() not in path.read_bytes(), path
    for pid in link_processes(connections):
        for name in ("cmdline", "environ"):
            assert PASSWORD.encode() not in Path(f"/proc/{pid}/{name}").read_bytes()


@pytest.mark.usefixtures("known", "keyring")
def test_a_kept_password_lets_us_in_later(project: Project, request_: AttachRequest) -> None:
    attachment = Attachment(project.root, request_._replace(has_password=True))
    attachment.give_password(PASSWORD)
    attachment.connect()
    attachment.write()
    ssh_host_of(project.target("box")).disconnect()  # and with it the link's memory of the password
    assert host_of(project.target("box")).run(["id", "-un"]).text == "research"


@pytest.mark.usefixtures("known")
def test_without_a_keyring_a_password_is_held_in_memory(project: Project, request_: AttachRequest) -> None:
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
def test_without_a_keyring_a_password_that_was_not_tried_is_held_as_well(
    project: Project, request_: AttachRequest
) -> None:
    attachment = Attachment(project.root, request_._replace(has_password=True))
    attachment.give_password(PASSWORD)
    attachment.write()
    assert host_of(project.target("box")).run(["id", "-un"]).text == "research"


@pytest.mark.usefixtures("known")
def test_after_a_wrong_password_the_right_one_can_be_given(project: Project, request_: AttachRequest) -> None:
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
def test_what_is_abandoned_is_forgotten(project: Project, request_: AttachRequest, connections: Path) -> None:
    attachment = Attachment(project.root, request_._replace(has_password=True))
    attachment.give_password(PASSWORD)
    attachment.connect()
    attachment.abandon()
    with pytest.raises(ConnectionLost, match="given up"):
        attachment.connect()
    with pytest.raises(SecretNeeded):
        Attachment(project.root, attachment.request).connect()


# Keys.


@pytest.mark.usefixtures("known", "keyring")
def test_a_passphrase_is_asked_for_and_kept(
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
    assert SecretStore().get(target.private_key_passphrase) == "open sesame"
    assert target.password == ""
    ssh_host_of(target).disconnect()
    assert host_of(target).run(["true"]).code == 0


@pytest.mark.usefixtures("known")
def test_a_key_without_a_passphrase_needs_no_secret(project: Project, request_: AttachRequest, key: Path) -> None:
    attach(project, request_._replace(private_key=str(key)))
    assert f"privateKey: {key}\n" in compute(project)
    assert "AzureMlSecret" not in compute(project)


@pytest.mark.usefixtures("known")
def test_a_key_of_the_agent_is_used(
    project: Project, request_: AttachRequest, key: Path, connections: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    socket = connections / "agent"
    agent = subprocess.Popen([require("ssh-agent"), "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    try:
        wait_for(socket.exists, "the agent")
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        subprocess.run([require("ssh-add"), "-q", str(key)], check=True)
        attach(project, request_)
        assert "privateKey" not in compute(project)
    finally:
        agent.terminate()
        agent.wait()


@pytest.mark.usefixtures("known", "keyring")
def test_the_workbenchs_key_is_installed_by_password(
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
def test_the_workbenchs_key_is_installed_once(project: Project, request_: AttachRequest, accounts: Path) -> None:
    before = accounts.read_text()
    accounts.write_text(before.removesuffix("\n"))  # the line before must not be torn
    for name in ("one", "two"):
        attachment = Attachment(project.root, request_._replace(name=name, workbench_key=True, has_password=True))
        attachment.give_password(PASSWORD)
        attachment.connect()
        attachment.write()
    assert accounts.read_text() == f"{before}{workbench_key().public}\n"


def test_the_workbenchs_key_is_installed_by_another_key(
    project: Project, known: Path, request_: AttachRequest, accounts: Path, key: Path
) -> None:
    attach(project, request_._replace(workbench_key=True, private_key=str(key)))
    assert workbench_key().public in accounts.read_text()
    assert str(key) not in compute(project)


@pytest.mark.usefixtures("known")
def test_a_key_that_nothing_can_install_is_left_to_the_user(
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
def test_a_wrong_password_for_the_installation_is_an_error(
    project: Project, request_: AttachRequest, accounts: Path
) -> None:
    attachment = Attachment(project.root, request_._replace(workbench_key=True, has_password=True))
    attachment.give_password("wrong")
    with pytest.raises(SecretNeeded):
        attachment.connect()
    assert workbench_key().public not in accounts.read_text()


def test_the_workbenchs_key_is_the_users_alone(home: Path) -> None:
    path = Path(workbench_key().path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.is_relative_to(home)


def test_two_who_make_the_workbenchs_key_at_once_get_one() -> None:
    code = "from tui_workbench.targets.ssh.workbench_key import workbench_key; print(workbench_key().public)"
    started = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert len({process.communicate()[0] for process in started}) == 1
    assert workbench_key().public


# GPUs. What nvidia-smi would print is played by a script, on the PATH of this machine.


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder at the head of the PATH, for stand-ins."""
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def stand_in(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(("driver", "image"), [("580.65.06", DEFAULT_GPU_IMAGE), ("550.54.15", OLDER_DRIVER_GPU_IMAGE)])
def test_a_machine_with_a_gpu_gets_it_and_an_image_for_its_driver(
    project: Project, tools: Path, driver: str, image: str
) -> None:
    stand_in(tools, "nvidia-smi", f"echo 'Tesla T4, {driver}, 15360 MiB'; echo 'Tesla T4, {driver}, 15360 MiB'")
    attach(project, AttachRequest("localdocker", "box"))
    target = project.target("box")
    assert (target.nvidia_docker, target.base_docker_image) == (True, image)
    assert gpus_of(LocalHost()).text == f"2 x Tesla T4 (15360 MiB), driver {driver}"


def test_a_driver_that_does_not_work_is_no_gpu(project: Project, tools: Path) -> None:
    stand_in(tools, "nvidia-smi", "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18")
    attach(project, AttachRequest("localdocker", "box"))
    assert not project.target("box").nvidia_docker
    assert "version mismatch" in gpus_of(LocalHost()).complaint


def test_what_was_asked_for_comes_before_what_was_found(project: Project) -> None:
    attach(project, AttachRequest("localdocker", "box", gpu=True, image="mine:1"))
    assert (project.target("box").nvidia_docker, project.target("box").base_docker_image) == (True, "mine:1")


def test_a_key_elsewhere_is_named_by_its_whole_path(
    project: Project, known: Path, request_: AttachRequest, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(key, tmp_path / "relative")
    monkeypatch.chdir(tmp_path)
    attach(project, request_._replace(private_key="relative"))
    assert project.target("box").private_key == str(tmp_path / "relative")
