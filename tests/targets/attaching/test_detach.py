"""Detach a target, and move plain-text secrets to the keyring."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.machines import PASSWORD, Machine, secret_in_keyring
from tui_workbench.config.changes import lifecycle
from tui_workbench.config.changes.change_set import ChangeHistory, ChangeSet, FileChange
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.projects.project import Project
from tui_workbench.targets.attaching.attach import Attachment, AttachRequest
from tui_workbench.targets.attaching.detach import detach, forget_orphans, move_secrets, plan_detaching, remove_secrets
from tui_workbench.targets.hosts.host import SecretNeeded
from tui_workbench.targets.hosts.secrets import NO_BUS, is_reference
from tui_workbench.targets.ssh.host_for import host_of
from tui_workbench.targets.ssh.login_secrets import ssh_host_of


def password_request(gpubox: Machine) -> AttachRequest:
    return AttachRequest("remotedocker", "box", gpubox.address, "research", has_password=True)


@pytest.fixture
def attached(project: Project, gpubox: Machine, known: Path) -> str:
    """Return the target `box`, attached with a password; gives the password's reference."""
    attachment = Attachment(project.root, password_request(gpubox))
    attachment.give_password(PASSWORD)
    attachment.connect()
    attachment.write()
    return project.target("box").password


def names(project: Project) -> set[str]:
    return {path.name for path in Path(project.config_directory).glob("box*")}


def test_detach_moves_both_files_to_trash_and_can_be_undone(project: Project, attached: str) -> None:
    detachment = plan_detaching(project, "box")
    detach(detachment)
    assert names(project) == set()
    trash = [path.name.partition("-")[2] for path in Path(lifecycle.trash_directory(project.root)).iterdir()]
    assert sorted(trash) == ["box.compute", "box.runconfig"]
    detachment.change_set.inverse.apply()
    assert names(project) == {"box.compute", "box.runconfig"}


def test_detach_removes_the_secret_from_memory(project: Project, attached: str) -> None:
    host = ssh_host_of(project.target("box"))
    detach(plan_detaching(project, "box"))
    with pytest.raises(SecretNeeded):
        host.run(["true"])


def test_undo_of_detach_restores_a_secret_in_memory(project: Project, attached: str) -> None:
    host = ssh_host_of(project.target("box"))
    detachment = plan_detaching(project, "box")
    detachment.change_set.apply()
    removed = remove_secrets(detachment)
    assert removed.in_keyring == {}
    assert host.status()["state"] == "down"
    removed.restore()
    assert host.run(["id", "-un"]).text == "research"
    removed.forget()
    with pytest.raises(SecretNeeded):
        host.run(["true"])


@pytest.mark.usefixtures("keyring")
def test_detach_removes_the_secret_from_the_keyring(project: Project, request: pytest.FixtureRequest) -> None:
    reference = request.getfixturevalue("attached")
    assert secret_in_keyring(reference) == PASSWORD
    detach(plan_detaching(project, "box"))
    assert secret_in_keyring(reference) is None


@pytest.mark.usefixtures("keyring")
def test_shared_secret_is_kept(project: Project, request: pytest.FixtureRequest) -> None:
    reference = request.getfixturevalue("attached")
    path = Path(project.config_directory, "box.compute")
    path.with_name("twin.compute").write_bytes(path.read_bytes())
    detachment = plan_detaching(project, "box")
    assert detachment.references == ()
    detach(detachment)
    assert secret_in_keyring(reference) == PASSWORD
    assert host_of(project.target("twin")).run(["id", "-un"]).text == "research"


@pytest.mark.usefixtures("keyring")
def test_undoing_attach_removes_the_secret(project: Project, known: Path, gpubox: Machine) -> None:
    attachment = Attachment(project.root, password_request(gpubox))
    attachment.give_password(PASSWORD)
    attachment.connect()
    history = ChangeHistory()
    attachment.write(history.apply)
    reference = project.target("box").password
    host = ssh_host_of(project.target("box"))
    undone = history.undo()
    assert undone is not None
    forget_orphans(undone.inverse)
    assert secret_in_keyring(reference) is None
    with pytest.raises(SecretNeeded):
        host.run(["true"])


@pytest.mark.usefixtures("keyring")
def test_secret_is_kept_by_rename_and_trash(project: Project, request: pytest.FixtureRequest) -> None:
    reference = request.getfixturevalue("attached")
    path = os.path.join(project.config_directory, "box.compute")
    for change in (lifecycle.rename(path, "bigger"), lifecycle.delete(path)):
        change.apply()
        forget_orphans(change)
        change.inverse.apply()
        forget_orphans(change.inverse)
    assert secret_in_keyring(reference) == PASSWORD


def test_invalid_target_file_has_no_secrets(project: Project, connections: Path) -> None:
    path = os.path.join(project.config_directory, "odd.compute")
    forget_orphans(ChangeSet("", (FileChange(path, b"{ \xff AzureMlSecret=a#b#c", None),)))


def test_name_of_detached_target_can_be_reused(project: Project, attached: str, gpubox: Machine) -> None:
    detach(plan_detaching(project, "box"))
    Attachment(project.root, AttachRequest("remotedocker", "box", gpubox.address))


def test_other_run_configurations_stay_and_are_listed(project: Project, attached: str) -> None:
    path = Path(project.config_directory)
    (path / "box-long.runconfig").write_text((path / "box.runconfig").read_text())
    detachment = plan_detaching(project, "box")
    assert detachment.change_set.notes == ("Run configurations left without a target: box-long.",)
    detach(detachment)
    assert names(project) == {"box-long.runconfig"}


def test_run_configuration_for_another_target_stays(project: Project, attached: str) -> None:
    path = Path(project.config_directory, "box.runconfig")
    path.write_text(path.read_text().replace("Target: box", "Target: local"))
    detach(plan_detaching(project, "box"))
    assert names(project) == {"box.runconfig"}


def test_run_configuration_with_an_error_is_detached_too(project: Project) -> None:
    path = Path(project.config_directory)
    (path / "box.compute").write_text("type: local\n")
    (path / "box.runconfig").write_text("Target: box\nFramework: PyTorhc\n")
    (path / "box-long.runconfig").write_text("Target: box\nFramework: PyTorhc\n")
    change_set = plan_detaching(project, "box").change_set
    assert str(path / "box.runconfig") in {change.path for change in change_set.changes}
    assert change_set.notes == ("Run configurations left without a target: box-long.",)


def test_unreadable_target_can_be_detached(project: Project) -> None:
    Path(project.config_directory, "box.compute").write_text("type: [")
    detach(plan_detaching(project, "box"))
    assert names(project) == set()


@pytest.mark.parametrize("name", ["nothing", "../project/aml_config/local", ""])
def test_missing_target_cannot_be_detached(project: Project, name: str) -> None:
    with pytest.raises(ConfigurationError, match="unknown compute target"):
        plan_detaching(project, name)


# Secrets in plain text in a file.

PLAIN = """\
# the box in the corner
type: remotedocker
address: {address}
username: "research"   # me
password: {password}
baseDockerImage: 'python:3.12-slim'
"""


@pytest.fixture
def plain(project: Project, gpubox: Machine, home: Path, connections: Path) -> Path:
    """Return a target whose file holds the password itself."""
    (home / ".ssh").mkdir(mode=0o700)
    (home / ".ssh" / "known_hosts").write_text(gpubox.known_hosts_line)
    path = Path(project.config_directory, "box.compute")
    path.write_text(PLAIN.format(address=gpubox.address, password=PASSWORD))
    return path


def test_plain_text_secret_is_refused(project: Project, plain: Path) -> None:
    with pytest.raises(ConfigurationError, match="plain-text secret") as refused:
        host_of(project.target("box"))
    assert (refused.value.line, refused.value.file) == (5, str(plain))
    assert "computetarget login box --move-secrets" in refused.value.remedy
    assert PASSWORD not in str(refused.value)


def test_plain_text_secret_is_not_copied_to_other_files(project: Project, plain: Path) -> None:
    project.prepare_state()
    os.utime(plain, (1, 1))  # unchanged for a long time, so that its values would be cached
    assert Project.find(project.root).target("box").password == PASSWORD
    Project.find(project.root).target("local")
    for path in Path(project.root).rglob("*"):
        assert path == plain or not path.is_file() or PASSWORD.encode() not in path.read_bytes()


@pytest.mark.usefixtures("keyring")
def test_move_secrets_changes_only_the_secret(project: Project, plain: Path, gpubox: Machine) -> None:
    move_secrets(project.target("box"))
    reference = project.target("box").password
    assert is_reference(reference)
    assert secret_in_keyring(reference) == PASSWORD
    assert plain.read_text().replace(f'"{reference}"', PASSWORD).replace(reference, PASSWORD) == PLAIN.format(
        address=gpubox.address, password=PASSWORD
    )
    assert host_of(project.target("box")).run(["id", "-un"]).text == "research"


def test_move_secrets_without_keyring_changes_nothing(project: Project, plain: Path) -> None:
    before = plain.read_bytes()
    with pytest.raises(ConfigurationError, match=NO_BUS):
        move_secrets(project.target("box"))
    assert plain.read_bytes() == before
