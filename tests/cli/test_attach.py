"""`computetarget attach`, with secrets and host keys."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.attaching import Terminal, files, result, workbench
from tests.machines import PASSWORD, Machine, fingerprint, make_key, secret_in_keyring
from tui_workbench.projects.project import Project

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.mark.usefixtures("ssh_folder", "gpubox_engine")
def test_attach_checks_the_machine(project_root: Path, box: Sequence[str]) -> None:
    done = workbench("attach", "remotedocker", *box, "--image", "tests/python:1", cwd=project_root)
    assert done.returncode == 0
    assert done.stdout.startswith("wrote aml_config/box.compute\nwrote aml_config/box.runconfig\nok        name ")
    assert done.stdout.endswith("box is attached. Run a script: workbench-tui experiment submit -c box SCRIPT\n")
    assert done.stderr == ""
    assert files(project_root) == ["box.compute", "box.runconfig"]


@pytest.mark.usefixtures("ssh_folder")
def test_type_can_be_an_option(project_root: Path, box: Sequence[str]) -> None:
    done = workbench("attach", *box, "--type", "remote", cwd=project_root)
    assert done.returncode == 0
    assert done.stderr == ""
    assert files(project_root) == ["box.compute", "box.runconfig"]


@pytest.mark.usefixtures("ssh_folder")
def test_attach_prints_json(project_root: Path, box: Sequence[str]) -> None:
    attached = result(workbench("attach", "remote", *box, "-o", "json", cwd=project_root))
    assert (attached["name"], attached["type"], attached["secrets"]) == ("box", "remote", [])
    assert attached["compute"] == str(project_root / "aml_config" / "box.compute")
    assert {rung["state"] for rung in attached["check"]} <= {"ok", "unneeded", "warning"}


@pytest.mark.usefixtures("ssh_folder", "gpubox_engine")
def test_attach_of_an_unready_machine_shows_the_fix(project_root: Path, gpubox: Machine) -> None:
    words = ["--name", "box", "--address", gpubox.address, "--username", "outsider"]
    done = workbench("attach", "remotedocker", *words, cwd=project_root)
    assert done.returncode == 4
    assert f"Run on {gpubox.address}:\n              sudo usermod -aG docker outsider\n" in done.stdout
    assert done.stdout.endswith("Apply the fix, then run: workbench-tui computetarget check box\n")
    assert files(project_root) == ["box.compute", "box.runconfig"]


def test_no_check_does_not_contact_the_machine(project_root: Path, connections: Path) -> None:
    done = workbench(
        "attach", "remotedocker", "--name", "box", "--address", "nowhere.invalid", "--no-check", cwd=project_root
    )
    assert done.returncode == 0
    assert Project.find(str(project_root)).target("box").nvidia_docker
    assert not list(connections.glob("workbench-tui/*"))


@pytest.mark.usefixtures("known", "keyring")
def test_password_from_stdin_is_stored_in_the_keyring(project_root: Path, box: Sequence[str]) -> None:
    done = workbench("attach", "remote", *box, "--password-stdin", cwd=project_root, stdin=f"{PASSWORD}\n")
    assert done.returncode == 0
    assert "the secret is in the keyring\n" in done.stdout
    assert done.stderr == ""
    assert secret_in_keyring(Project.find(str(project_root)).target("box").password) == PASSWORD


@pytest.mark.usefixtures("known")
def test_password_on_the_command_line_prints_a_warning(project_root: Path, box: Sequence[str]) -> None:
    done = workbench("attach", "remote", *box, "--password", PASSWORD, cwd=project_root)
    assert done.returncode == 0
    assert "other users of this machine can see" in done.stderr
    assert PASSWORD not in done.stdout + done.stderr
    assert "kept in memory only (this session has no D-Bus message bus for a keyring)" in done.stdout


@pytest.mark.usefixtures("known")
def test_password_prompt_has_no_echo_and_repeats(project_root: Path, box: Sequence[str]) -> None:
    terminal = Terminal("attach", "remote", *box, "--password", cwd=project_root)
    terminal.answer("Password of research on ", "not this one")
    terminal.answer("Password of research on ", PASSWORD)
    code, shown = terminal.end()
    assert code == 0
    assert "box is attached" in shown
    assert PASSWORD not in shown


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    ("typed", "code", "said"), [("\x03", 130, ""), ("\x04", 2, "workbench-tui: no secret was entered")]
)
def test_refused_password_prompt_writes_no_files(
    project_root: Path, box: Sequence[str], typed: str, code: int, said: str
) -> None:
    terminal = Terminal("attach", "remote", *box, "--password", cwd=project_root)
    terminal.answer("Password of research on ", typed)
    ended, shown = terminal.end()
    assert ended == code
    assert shown.partition(": ")[2].startswith(f"\n{said}")
    assert files(project_root) == []


def test_password_prompt_follows_the_host_key(project_root: Path, box: Sequence[str], known: Path) -> None:
    known.write_text("")
    terminal = Terminal("attach", "remote", *box, "--password", cwd=project_root)
    terminal.answer("Type yes or the fingerprint: ", "yes")
    terminal.answer("Password of research on ", PASSWORD)
    assert terminal.end()[0] == 0


def test_no_check_still_asks_for_the_password(project_root: Path, known: Path, gpubox: Machine) -> None:
    words = ["attach", "remote", "--name", "box", "--address", gpubox.address, "--username", "research"]
    terminal = Terminal(*words, "--password", "--no-check", cwd=project_root)
    terminal.answer(f"Password of research@{gpubox.address}", PASSWORD)
    assert terminal.end()[0] == 0
    assert workbench("check", "box", cwd=project_root).returncode == 0


@pytest.mark.usefixtures("known")
def test_missing_password_without_terminal_is_an_error(project_root: Path, box: Sequence[str]) -> None:
    done = workbench("attach", "remote", *box, "--password", cwd=project_root)
    assert done.returncode == 2
    assert "--password-stdin" in done.stderr
    done = workbench("attach", "remote", *box, "--password-stdin", cwd=project_root, stdin="wrong\n")
    assert done.returncode == 4
    assert "the password is wrong" in done.stderr
    assert files(project_root) == []


@pytest.mark.usefixtures("known")
def test_encrypted_key_asks_for_its_passphrase(
    project_root: Path,
    box: Sequence[str],
    gpubox: Machine,
    home: Path,
) -> None:
    locked = make_key(home / ".ssh" / "locked", passphrase="open sesame")
    accounts = gpubox.home() / ".ssh" / "authorized_keys"
    before = accounts.read_text()
    accounts.write_text(before + locked.with_suffix(".pub").read_text())
    try:
        terminal = Terminal("attach", "remote", *box, "--private-key-file", "~/.ssh/locked", cwd=project_root)
        terminal.answer("Passphrase of ", "open sesame")
        code, shown = terminal.end()
    finally:
        accounts.write_text(before)
    assert code == 0, shown
    assert Project.find(str(project_root)).target("box").private_key_passphrase.startswith("AzureMlSecret=box#")


@pytest.mark.usefixtures("ssh_folder")
def test_unknown_host_key_needs_its_fingerprint(
    project_root: Path,
    box: Sequence[str],
    home: Path,
    gpubox: Machine,
) -> None:
    known_hosts = home / ".ssh" / "known_hosts"
    known_hosts.write_text("")
    shown = fingerprint(gpubox.folder / "host_key.pub")
    done = workbench("attach", "remote", *box, cwd=project_root)
    assert (done.returncode, done.stdout, files(project_root)) == (4, "", [])
    assert f"--accept-host-key {shown}" in done.stderr
    done = workbench("attach", "remote", *box, "--accept-host-key", "SHA256:" + "A" * 43, cwd=project_root)
    assert (done.returncode, known_hosts.read_text()) == (4, "")
    assert workbench("attach", "remote", *box, "--accept-host-key", shown, cwd=project_root).returncode == 0
    assert known_hosts.read_text().split() == gpubox.known_hosts_line.split()


def test_machine_behind_jump_host_needs_two_fingerprints(project_root: Path, bastion: Machine, gpubox: Machine) -> None:
    words = ["attach", "remote", "--name", "box", "--address", "inner"]
    for machine in (bastion, gpubox):
        shown = fingerprint(machine.folder / "host_key.pub")
        done = workbench(*words, cwd=project_root)
        assert done.returncode == 4
        assert f"--accept-host-key {shown}" in done.stderr
        words += ["--accept-host-key", shown]
    done = workbench(*words, cwd=project_root)
    assert done.returncode == 0, done.stderr
    assert "inner is reached through a jump host" in done.stdout
    done = workbench("experiment", "submit", "-c", "box", "hello.py", cwd=project_root)
    assert done.stdout.endswith("\nhello\n")


@pytest.mark.usefixtures("known")
def test_workbench_key_is_installed_with_a_password(project_root: Path, box: Sequence[str], gpubox: Machine) -> None:
    accounts = gpubox.home() / ".ssh" / "authorized_keys"
    before = accounts.read_text()
    try:
        words = ["attach", "remote", *box, "--use-azureml-ssh-key", "--password-stdin"]
        done = workbench(*words, cwd=project_root, stdin=f"{PASSWORD}\n")
        assert (done.returncode, done.stderr) == (0, "")
        assert "secret" not in done.stdout  # no secret is stored, because the installed key needs none
        workbench("disconnect", "box", cwd=project_root)
        assert workbench("check", "box", cwd=project_root).returncode == 0
    finally:
        accounts.write_text(before)


@pytest.mark.usefixtures("ssh_folder")
@pytest.mark.parametrize(("answer", "code"), [("yes", 0), ("no", 4), ("", 4), ("y", 4)])
def test_unknown_host_key_is_confirmed_on_a_terminal(
    project_root: Path, box: Sequence[str], home: Path, answer: str, code: int
) -> None:
    (home / ".ssh" / "known_hosts").write_text("")
    terminal = Terminal("attach", "remote", *box, cwd=project_root)
    terminal.answer("Type yes or the fingerprint: ", answer)
    assert terminal.end()[0] == code
    assert files(project_root) == ([] if code else ["box.compute", "box.runconfig"])


@pytest.mark.usefixtures("ssh_folder")
def test_changed_host_key_is_refused_without_asking(
    project_root: Path,
    box: Sequence[str],
    home: Path,
    gpubox: Machine,
    tmp_path: Path,
) -> None:
    old = make_key(tmp_path / "old").with_suffix(".pub")
    (home / ".ssh" / "known_hosts").write_text(f"{gpubox.address} {old.read_text()}")
    new = fingerprint(gpubox.folder / "host_key.pub")
    code, shown = Terminal("attach", "remote", *box, "--accept-host-key", new, cwd=project_root).end()
    assert code == 4
    assert "HOST KEY CHANGED" in shown
    assert new in shown
    assert fingerprint(old) in shown
    assert files(project_root) == []


@pytest.mark.usefixtures("known")
def test_workbench_key_that_cannot_be_installed_is_printed(project_root: Path, box: Sequence[str]) -> None:
    done = workbench("attach", "remote", *box, "-k", cwd=project_root)
    assert done.returncode == 0
    assert re.search(
        r"Run this command there:\n    mkdir .* 'ssh-ed25519 \S+ workbench-tui .*' >> ~/.ssh/auth", done.stderr
    )
    assert done.stdout.endswith("Install the key, then run: workbench-tui computetarget check box\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--name"),
        (["--name", "box"], "one of: remotedocker, remote, slurm, cluster, localdocker"),
        (["cluster", "--name", "box"], "--address"),
        (["cluster", "--name", "box", "--address", "h", "--gpu"], "--gpu"),
        (["remote", "--name", "box"], "--address"),
        (["remote", "--name", "box", "--type", "localdocker"], "remote and localdocker"),
        (["remote", "--name", "box", "--address", "h", "--image", "i"], "--image"),
        (["remotedocker", "--name", "box", "--address", "h", "--python", "p"], "--python"),
        (["localdocker", "--name", "box", "--address", "h"], "localdocker"),
        (["slurm", "--name", "box", "--image", "i"], "--image"),
        (["slurm", "--name", "box", "--username", "u"], "--address"),
        (["slurm", "--name", "box", "--run-root", "x"], "runRoot"),
        (["remote", "--name", "box", "--address", "h", "--partition", "p"], "--partition"),
        (["remote", "--name", "box", "--address", "h", "--password", "x", "--password-stdin"], "--password-stdin"),
        (["remote", "--name", "box", "--address", "h", "--private-key-passphrase", "x"], "--private-key-file"),
        (
            ["remote", "--name", "box", "--address", "h", "--private-key-file", "/no", "--password", "x"],
            "--private-key-file cannot be used with",
        ),
        (["remotedocker", "--name", "box", "--address", "h", "--gpu", "--no-gpu"], "--no-gpu"),
    ],
)
def test_contradicting_options_are_one_line(project_root: Path, words: Sequence[str], said: str) -> None:
    done = workbench("attach", *words, cwd=project_root)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert said in done.stderr
    assert files(project_root) == []


def test_existing_name_is_refused(project_root: Path) -> None:
    done = workbench("attach", "localdocker", "--name", "local", cwd=project_root)
    assert done.returncode == 3
    assert "computetarget detach local" in done.stderr
