"""SSH logins: host keys, keys, passwords and configuration."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import require
from tests.machines import PASSWORD, Machine, fingerprint, make_key, wait_for
from tests.targets.conftest import link_processes
from tui_workbench.targets.hosts.host import ConnectionLost, HostKeyRefused, LoginRefused, SecretNeeded, StoredSecret
from tui_workbench.targets.ssh import ssh_wire as wire
from tui_workbench.targets.ssh.ssh_host import SshHost

if TYPE_CHECKING:
    from collections.abc import Iterator

REFERENCE = "AzureMlSecret=gpubox#research#0123456789abcdef0123456789abcdef"
RELAY = (
    "import os, socket, sys, threading; line = socket.create_connection((sys.argv[1], int(sys.argv[2]))); "
    "back = lambda: [os.write(1, data) for data in iter(lambda: line.recv(65536), bytes())]; "
    "threading.Thread(target=back, daemon=True).start(); "
    "[line.sendall(data) for data in iter(lambda: os.read(0, 65536), bytes())]"
)
"""A replacement for `nc HOST PORT`."""


# Host keys.


@pytest.fixture
def shown(gpubox: Machine) -> str:
    """Return the fingerprint of gpubox's host key as its owner sees it."""
    return fingerprint(gpubox.folder / "host_key.pub")


def test_unknown_host_key_is_refused_and_shown(host: SshHost, ssh_folder: Path, shown: str) -> None:
    known = ssh_folder / "known_hosts"
    known.unlink()
    with pytest.raises(HostKeyRefused, match="is unknown") as caught:
        host.run(["true"])
    assert (caught.value.presented, caught.value.known) == (shown, ())
    assert f"--accept-host-key {shown}" in caught.value.remedy
    assert not known.exists()


def test_accepted_host_key_is_stored(host: SshHost, ssh_folder: Path, shown: str, gpubox: Machine) -> None:
    known = ssh_folder / "known_hosts"
    known.write_text("other-host ssh-ed25519 AAAA")  # no line end
    host.accept_host_key(shown)
    assert host.run(["echo", "in"]).text == "in"
    assert known.read_text() == "other-host ssh-ed25519 AAAA\n" + gpubox.known_hosts_line
    done = subprocess.run([require("ssh-keygen"), "-F", gpubox.address, "-f", str(known)], capture_output=True)
    assert done.returncode == 0


def test_wrong_fingerprint_does_not_accept_the_host_key(host: SshHost, ssh_folder: Path) -> None:
    (ssh_folder / "known_hosts").unlink()
    host.accept_host_key("SHA256:" + "A" * 43)
    with pytest.raises(HostKeyRefused):
        host.run(["true"])
    assert not (ssh_folder / "known_hosts").exists()


def test_changed_host_key_is_refused_with_both_fingerprints(
    host: SshHost, ssh_folder: Path, shown: str, gpubox: Machine, tmp_path: Path
) -> None:
    old = make_key(tmp_path / "old")
    (ssh_folder / "known_hosts").write_text(f"{gpubox.address} {old.with_suffix('.pub').read_text()}")
    host.accept_host_key(shown)  # even then
    with pytest.raises(HostKeyRefused, match="THE HOST KEY CHANGED") as caught:
        host.run(["true"])
    assert caught.value.presented == shown
    assert fingerprint(old.with_suffix(".pub")) in str(caught.value)
    assert f"ssh-keygen -R '{gpubox.address}'" in caught.value.remedy
    assert gpubox.known_hosts_line not in (ssh_folder / "known_hosts").read_text()


def test_other_kind_of_host_key_counts_as_changed(
    host: SshHost, ssh_folder: Path, gpubox: Machine, tmp_path: Path
) -> None:
    command = [require("ssh-keygen"), "-q", "-t", "ecdsa", "-N", "", "-f", str(tmp_path / "old")]
    subprocess.run(command, check=True)
    (ssh_folder / "known_hosts").write_text(f"{gpubox.address} {(tmp_path / 'old.pub').read_text()}")
    with pytest.raises(HostKeyRefused, match="THE HOST KEY CHANGED"):
        host.run(["true"])


def test_revoked_host_key_is_refused(host: SshHost, ssh_folder: Path) -> None:
    known = ssh_folder / "known_hosts"
    known.write_text(known.read_text() + "@revoked " + known.read_text())
    with pytest.raises(HostKeyRefused, match="revoked"):
        host.run(["true"])


@pytest.mark.parametrize(
    "line", ["UserKnownHostsFile none", "UserKnownHostsFile /dev/null", "StrictHostKeyChecking no"]
)
def test_no_configuration_accepts_an_unknown_host_key(host: SshHost, ssh_folder: Path, line: str) -> None:
    (ssh_folder / "known_hosts").unlink()
    (ssh_folder / "config").write_text(f"Host *\n  {line}\n")
    with pytest.raises(HostKeyRefused, match="is unknown"):
        host.run(["true"])


def test_hashed_names_in_known_hosts_are_found(host: SshHost, ssh_folder: Path) -> None:
    command = [require("ssh-keygen"), "-q", "-H", "-f", str(ssh_folder / "known_hosts")]
    subprocess.run(command, check=True, capture_output=True)
    assert "|1|" in (ssh_folder / "known_hosts").read_text()
    assert host.run(["echo", "in"]).text == "in"


def test_host_key_change_is_noticed_at_the_next_login(host: SshHost, gpubox: Machine, ssh_folder: Path) -> None:
    host.run(["true"])
    kept = {name: (gpubox.folder / name).read_bytes() for name in ("host_key", "host_key.pub")}
    gpubox.stop_sshd()
    try:
        gpubox.new_host_key()
        gpubox.start_sshd()
        with pytest.raises(HostKeyRefused, match="THE HOST KEY CHANGED"):
            host.wait_until_reachable()
    finally:
        gpubox.stop_sshd()
        for name, data in kept.items():
            (gpubox.folder / name).write_bytes(data)
        gpubox.start_sshd()


# Keys and passwords.


@pytest.fixture
def with_password(login: wire.Login, ssh_folder: Path) -> wire.Login:
    """Return a login by password to an account without a key on this machine."""
    for path in ssh_folder.glob("id_*"):
        path.unlink()
    return login._replace(password=REFERENCE)


def test_password_from_the_store_logs_in(with_password: wire.Login) -> None:
    asked: list[str] = []

    def secrets(reference: str) -> StoredSecret:
        asked.append(reference)
        return StoredSecret(PASSWORD)

    host = SshHost(with_password, secrets)
    assert host.run(["id", "-un"]).text == "research"
    assert host.run(["id", "-un"]).text == "research"
    assert asked == [REFERENCE]


def test_given_password_serves_all_processes(with_password: wire.Login) -> None:
    SshHost(with_password).give_secret(REFERENCE, PASSWORD)
    assert SshHost(with_password).run(["id", "-un"]).text == "research"


def test_missing_password_is_requested(with_password: wire.Login) -> None:
    with pytest.raises(SecretNeeded, match="none is stored") as caught:
        SshHost(with_password).run(["true"])
    assert caught.value.reference == REFERENCE
    assert caught.value.prompt == f"Password of research on {with_password.address}"


def test_wrong_password_is_reported_and_can_be_corrected(with_password: wire.Login) -> None:
    host = SshHost(with_password, lambda _reference: StoredSecret("wrong"))
    with pytest.raises(SecretNeeded, match="the password is wrong"):
        host.run(["true"])
    host.give_secret(REFERENCE, PASSWORD)
    assert host.run(["id", "-un"]).text == "research"


def test_password_is_requested_after_the_host_key_is_verified(
    with_password: wire.Login, ssh_folder: Path, gpubox: Machine
) -> None:
    host = SshHost(with_password)
    with pytest.raises(SecretNeeded) as needed:
        host.run(["true"])
    assert needed.value.host_verified
    (ssh_folder / "known_hosts").write_text("")
    host.disconnect()
    with pytest.raises(HostKeyRefused):
        host.run(["true"])
    with pytest.raises(ConnectionLost, match="nothing listens on port 23"):
        SshHost(with_password._replace(address=f"{with_password.address}:23")).run(["true"])
    with pytest.raises(HostKeyRefused):
        SshHost(with_password._replace(password="", private_key="~/no-such-key")).run(["true"])


def test_wrong_password_is_tried_once(with_password: wire.Login, gpubox: Machine) -> None:
    log = gpubox.folder / "sshd.log"
    begun = log.stat().st_size
    host = SshHost(with_password, lambda _reference: StoredSecret("wrong"))
    for _ in range(3):
        with pytest.raises(SecretNeeded, match="the password is wrong"):
            host.wait_until_reachable()
    wait_for(lambda: _count_failures(log, begun), "sshd to tell of it")
    assert _count_failures(log, begun) == 1
    host.give_secret(REFERENCE, "wrong")  # the user enters the same password again
    with pytest.raises(SecretNeeded, match="the password is wrong"):
        host.run(["true"])
    wait_for(lambda: _count_failures(log, begun) == 2, "sshd to tell of it")


def _count_failures(log: Path, begun: int) -> int:
    return log.read_bytes()[begun:].count(b"Failed password for research")


def test_password_is_not_in_files_or_arguments(with_password: wire.Login, home: Path, connections: Path) -> None:
    SshHost(with_password, lambda _reference: StoredSecret(PASSWORD)).run(["true"])
    secret = PASSWORD.encode()
    for folder in (home, connections):
        for path in folder.rglob("*"):
            assert not path.is_file() or secret not in path.read_bytes()
    for pid in link_processes(connections):
        assert secret not in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert secret not in Path(f"/proc/{pid}/environ").read_bytes()


def test_key_file_of_the_target_is_used(login: wire.Login, ssh_folder: Path, home: Path) -> None:
    (ssh_folder / "id_ed25519").rename(home / "my key")
    assert SshHost(login._replace(private_key="~/my key")).run(["id", "-un"]).text == "research"


def test_missing_key_file_is_reported(login: wire.Login) -> None:
    with pytest.raises(LoginRefused, match="cannot be read: No such file"):
        SshHost(login._replace(private_key="~/nowhere")).run(["true"])


def test_invalid_key_file_is_reported(login: wire.Login, home: Path) -> None:
    (home / "text").write_text("hello\n")
    with pytest.raises(LoginRefused, match="is not a private key"):
        SshHost(login._replace(private_key="~/text")).run(["true"])


def test_unknown_key_is_refused(login: wire.Login, home: Path) -> None:
    make_key(home / "stranger")
    with pytest.raises(LoginRefused, match="the key ~/stranger was refused") as caught:
        SshHost(login._replace(private_key="~/stranger")).run(["true"])
    assert "ssh-copy-id" in caught.value.remedy


def test_expired_key_is_refused(login: wire.Login, gpubox: Machine, home: Path) -> None:
    key = make_key(home / "old")
    authorized = gpubox.home() / ".ssh" / "authorized_keys"
    before = authorized.read_text()
    authorized.write_text(f'{before}expiry-time="20200101" {key.with_suffix(".pub").read_text()}')
    with pytest.raises(LoginRefused, match="the key ~/old was refused"):
        SshHost(login._replace(private_key="~/old")).run(["true"])
    authorized.write_text(before)


def test_login_without_keys_is_refused(login: wire.Login, ssh_folder: Path) -> None:
    for path in ssh_folder.glob("id_*"):
        path.unlink()
    with pytest.raises(LoginRefused, match="none of your SSH keys was accepted"):
        SshHost(login).run(["true"])


@pytest.fixture
def protected(login: wire.Login, gpubox: Machine, home: Path, ssh_folder: Path) -> Iterator[wire.Login]:
    """Return a login with a key that a passphrase protects."""
    for path in ssh_folder.glob("id_*"):
        path.unlink()
    key = make_key(home / "protected", passphrase=PASSWORD)
    authorized = gpubox.home() / ".ssh" / "authorized_keys"
    before = authorized.read_text()
    authorized.write_text(before + key.with_suffix(".pub").read_text())
    yield login._replace(private_key="~/protected", passphrase=REFERENCE)
    authorized.write_text(before)


def test_passphrase_from_the_store_opens_the_key(protected: wire.Login) -> None:
    assert SshHost(protected, lambda _reference: StoredSecret(PASSWORD)).run(["id", "-un"]).text == "research"


def test_missing_passphrase_is_requested(protected: wire.Login) -> None:
    with pytest.raises(SecretNeeded, match="needs a passphrase") as caught:
        SshHost(protected).run(["true"])
    assert caught.value.reference == REFERENCE


def test_wrong_passphrase_is_reported(protected: wire.Login) -> None:
    with pytest.raises(SecretNeeded, match="cannot be decrypted with this passphrase"):
        SshHost(protected, lambda _reference: StoredSecret("wrong")).run(["true"])


def test_passphrase_without_reference_is_held_in_memory(protected: wire.Login) -> None:
    host = SshHost(protected._replace(passphrase=""))
    with pytest.raises(SecretNeeded) as caught:
        host.run(["true"])
    host.give_secret(caught.value.reference, PASSWORD)
    assert host.run(["id", "-un"]).text == "research"


def test_protected_key_in_the_agent_needs_no_passphrase(
    protected: wire.Login, home: Path, connections: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = subprocess.Popen([require("ssh-agent"), "-D", "-a", str(connections / "agent")], stdout=subprocess.DEVNULL)
    try:
        wait_for((connections / "agent").exists, "the agent")
        with pytest.raises(SecretNeeded):
            SshHost(protected).run(["true"])  # the link is running now, without an agent
        monkeypatch.setenv("SSH_AUTH_SOCK", str(connections / "agent"))
        ask = connections / "ask"
        ask.write_text(f"#!/bin/sh\necho '{PASSWORD}'\n")
        ask.chmod(0o700)
        environment = {**os.environ, "SSH_ASKPASS": str(ask), "SSH_ASKPASS_REQUIRE": "force"}
        # The socket of the agent exists before it accepts connections.
        add = [require("ssh-add"), "-q", str(home / "protected")]
        wait_for(lambda: subprocess.run(add, check=False, env=environment).returncode == 0, "the agent")
        assert SshHost(protected).run(["id", "-un"]).text == "research"
        assert SshHost(protected._replace(private_key="", passphrase="")).run(["id", "-un"]).text == "research"
    finally:
        agent.kill()
        agent.wait()


def test_agent_with_too_many_keys(login: wire.Login, ssh_folder: Path, gpubox: Machine, tmp_path: Path) -> None:
    """The login is not repeated; otherwise, waiting for a machine would repeat it endlessly."""
    for path in ssh_folder.glob("id_*"):
        path.unlink()
    names = [make_key(tmp_path / f"key{number}") for number in range(7)]  # sshd's MaxAuthTries is 6
    (ssh_folder / "config").write_text("Host *\n" + "".join(f"  IdentityFile {name}\n" for name in names))
    with pytest.raises(LoginRefused, match="disconnected after too many wrong keys") as caught:
        SshHost(login).run(["true"])
    assert "IdentitiesOnly" in caught.value.remedy


# ~/.ssh/config.


def test_alias_sets_port_user_and_key(gpubox: Machine, ssh_folder: Path, home: Path, login: wire.Login) -> None:
    (ssh_folder / "id_ed25519").rename(home / "elsewhere")
    (ssh_folder / "config").write_text(
        f"Host big-box\n  HostName {gpubox.address}\n  User research\n  Port 22\n  IdentityFile ~/elsewhere\n"
    )
    assert SshHost(wire.Login("t", "big-box")).run(["id", "-un"]).text == "research"
    assert SshHost(wire.Login("t", "big-box", "nobody-here")).status()["state"] == "down"


def test_configured_commands_and_terminals_are_ignored(host: SshHost, ssh_folder: Path) -> None:
    (ssh_folder / "config").write_text(
        "Host *\n  RemoteCommand tmux attach\n  RequestTTY yes\n  ForwardAgent yes\n  SetEnv A=b\n  Compression yes\n"
    )
    assert host.run(["sh", "-c", "tty; echo $SSH_TTY$SSH_AUTH_SOCK"]).text == "not a tty\n"


def test_missing_configured_files_are_ignored(host: SshHost, ssh_folder: Path) -> None:
    (ssh_folder / "id_ed25519").rename(ssh_folder / "work")
    (ssh_folder / "config").write_text(
        "Host *\n  IdentityFile ~/.ssh/nothing\n  IdentityFile ~/.ssh/work\n  CertificateFile ~/.ssh/no-cert\n"
    )
    assert host.run(["id", "-un"]).text == "research"


def test_locked_key_that_is_not_tried_is_named(login: wire.Login, ssh_folder: Path) -> None:
    for path in ssh_folder.glob("id_*"):
        path.unlink()
    make_key(ssh_folder / "id_ed25519", passphrase=PASSWORD)
    with pytest.raises(LoginRefused, match=r"keys with a passphrase were not tried: ~/\.ssh/id_ed25519") as caught:
        SshHost(login).run(["true"])
    assert "ssh-add ~/.ssh/id_ed25519" in caught.value.remedy


@pytest.mark.parametrize("line", ["ProxyCommand {python} -c '{relay}' %h %p", "Include more", 'Match exec "true"'])
def test_proxy_command_include_and_match_are_applied(gpubox: Machine, ssh_folder: Path, line: str) -> None:
    place = f"  HostName {gpubox.address}\n  User research\n"
    (ssh_folder / "more").write_text(f"Host box\n{place}")
    line = line.format(python=sys.executable, relay=RELAY)
    (ssh_folder / "config").write_text(f"Host box\n{place}  {line}\n" if "Proxy" in line else f"{line}\n{place}")
    assert SshHost(wire.Login("t", "box")).run(["id", "-un"]).text == "research"


HOSTILE_NAMES = [
    "x:1 -oProxyCommand={run} y", "-oProxyCommand={run}", "x;{run}", "x`{run}`", "x$({run})", "x|{run}", "x\n{run}",
    "x'{run}", "x&{run}", "$IFS-oProxyCommand={run}",
]  # fmt: skip


@pytest.mark.parametrize("hostile", HOSTILE_NAMES)
def test_hostile_names_reach_no_program(ssh_folder: Path, home: Path, hostile: str) -> None:
    program, marker = home / "evil.sh", home / "marker"
    program.write_text(f"#!/bin/sh\necho $0 > {marker}\n")
    program.chmod(0o755)
    name = hostile.format(run=program)
    (ssh_folder / "config").write_text("Host *\n  ProxyCommand ssh -W %h:%p -l %r bastion.invalid\n")
    for login in (wire.Login("t", name), wire.Login("t", "box", name)):
        with pytest.raises(LoginRefused, match=r"(address|username|port) .*(contains|begins with|is not a number)"):
            SshHost(login).run(["true"])
    (ssh_folder / "config").write_text(f"Host box\n  ProxyJump {name.splitlines()[0]}\n")
    with pytest.raises((LoginRefused, ConnectionLost)):
        SshHost(wire.Login("t", "box")).run(["true"])
    assert not marker.exists()


def test_wrong_port_is_named(ssh_folder: Path) -> None:
    with pytest.raises(LoginRefused, match="the port '22751falsch'"):
        SshHost(wire.Login("t", "127.0.0.1:22751falsch")).run(["true"])


@pytest.fixture
def without_ssh(connections: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the link run on a machine without the program `ssh`."""
    (connections / "programs").mkdir()
    monkeypatch.setenv("PATH", str(connections / "programs"))


@pytest.mark.usefixtures("without_ssh")
def test_configuration_is_read_without_ssh(gpubox: Machine, ssh_folder: Path) -> None:
    relay = f"{sys.executable} -c '{RELAY}'"
    (ssh_folder / "config").write_text(
        f"Host box\n  HostName {gpubox.address}\n  User research\n  ProxyCommand {relay} %h %p 2>/dev/null\n"
    )
    assert SshHost(wire.Login("t", "box")).run(["id", "-un"]).text == "research"


@pytest.mark.usefixtures("without_ssh")
def test_binary_configuration_is_reported_without_ssh(host: SshHost, ssh_folder: Path) -> None:
    (ssh_folder / "config").write_bytes(b"# \xff\n")
    with pytest.raises(LoginRefused, match="the SSH configuration is invalid: 'utf-8' codec"):
        host.run(["true"])


def test_invalid_configuration_line_is_named(host: SshHost, ssh_folder: Path) -> None:
    (ssh_folder / "config").write_text("Host *\n  Port many\n")
    with pytest.raises(LoginRefused, match=r"config line 2: Bad \w+ 'many'"):
        host.run(["true"])


def test_jump_host_and_target_need_accepted_keys(bastion: Machine, gpubox: Machine) -> None:
    host = SshHost(wire.Login("t", "inner"))
    for machine, place in (
        (bastion, f"jump host {bastion.address}: the host key"),
        (gpubox, "t .inner.: the host key"),
    ):
        with pytest.raises(HostKeyRefused, match=place) as refused:
            host.run(["true"])
        assert refused.value.presented == fingerprint(machine.folder / "host_key.pub")
        host.accept_host_key(refused.value.presented)
    assert host.run(["hostname"]).text == "gpubox"
    assert host.run(["sh", "-c", "echo $SSH_CLIENT"]).text.split()[0] != gpubox.gateway


def test_circular_jump_hosts_are_refused(ssh_folder: Path) -> None:
    (ssh_folder / "config").write_text("Host a\n  ProxyJump b\nHost b\n  ProxyJump a\n")
    with pytest.raises(LoginRefused, match="form a loop"):
        SshHost(wire.Login("t", "a")).run(["true"])
