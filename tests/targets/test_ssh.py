"""The SSH connection: shared, kept, opened anew, and let in only by the right keys and secrets."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import require
from tests.machines import PASSWORD, Machine, fingerprint, make_key, wait_for
from tests.targets.conftest import link_processes
from tui_workbench.targets import ssh_link
from tui_workbench.targets import ssh_wire as wire
from tui_workbench.targets.host import (
    ConnectionLost,
    HostKeyRefused,
    LoginRefused,
    SecretNeeded,
    read_chunks,
    wait_ready,
)
from tui_workbench.targets.ssh import SshHost

if TYPE_CHECKING:
    from collections.abc import Iterator

REFERENCE = "AzureMlSecret=gpubox#research#0123456789abcdef0123456789abcdef"

_ANOTHER_PROCESS = (
    "import sys; from tui_workbench.targets.ssh import SshHost, wire; host = SshHost(wire.Login(*sys.argv[1:]))"
)


# Sharing.


def test_all_callers_share_one_connection(host: SshHost, login: wire.Login, connections: Path) -> None:
    assert _client_port(host) == _client_port(SshHost(login))
    code = f"{_ANOTHER_PROCESS}; sys.stdout.write(host.run(['sh', '-c', 'echo $SSH_CLIENT']).text)"
    done = subprocess.run([sys.executable, "-c", code, *login], check=True, capture_output=True, text=True)
    assert done.stdout.split()[1] == _client_port(host)
    assert len(link_processes(connections)) == 1


def test_callers_at_the_same_moment_start_one_link(login: wire.Login, connections: Path) -> None:
    ports: list[str] = []
    threads = [threading.Thread(target=lambda: ports.append(_client_port(SshHost(login)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ports) == 8
    assert len(set(ports)) == 1
    assert len(link_processes(connections)) == 1


def test_more_programs_at_once_than_a_server_allows_on_a_connection(host: SshHost) -> None:
    processes = [host.open(["cat"]) for _ in range(15)]  # sshd's MaxSessions is 10
    for number, process in enumerate(processes):
        os.write(process.stdin, b"%d" % number)
    assert [os.read(process.stdout, 10) for process in processes] == [b"%d" % number for number in range(15)]
    for process in processes:
        process.close()


def test_callers_that_hang_up_at_any_moment_leave_nothing(host: SshHost, connections: Path) -> None:
    host.run(["true"])
    (link,) = link_processes(connections)
    held = Path(f"/proc/{link}/fd")
    before = len(list(held.iterdir()))

    def hang_up() -> None:
        for number in range(60):
            pipes = [os.pipe() for _ in range(3)]
            theirs = [pipes[0][0], pipes[1][1], pipes[2][1]]
            with host._ask({"op": wire.EXEC, "command": "exec cat"}, 20.0, theirs) as connection:
                wait_ready([connection.fileno()], timeout=number / 10_000)
            for descriptor in (end for pipe in pipes for end in pipe):
                os.close(descriptor)

    threads = [threading.Thread(target=hang_up) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_for(lambda: len(list(held.iterdir())) <= before, "the link to have let go of everything")
    assert host.run(["cat"], stdin=b"still there").stdout == b"still there"


def test_callers_load_no_ssh_library(login: wire.Login) -> None:
    heavy = {"asyncssh", "asyncio", "cryptography", "subprocess"}
    code = f"{_ANOTHER_PROCESS}; host.run(['true']); sys.exit(' '.join({heavy} & sys.modules.keys()) or 0)"
    subprocess.run([sys.executable, "-c", code, *login], check=True)


def test_a_file_beside_the_user_is_not_taken_for_a_module(
    host: SshHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "asyncssh.py").write_text("raise SystemExit('not this one')")
    monkeypatch.chdir(tmp_path)
    assert host.run(["echo", "here"]).text == "here"


def test_status_tells_who_answers(host: SshHost, gpubox: Machine) -> None:
    assert host.status()["state"] == "down"
    host.run(["true"])
    status = host.status()
    assert (status["state"], status["peer"], status["username"]) == ("up", gpubox.address, "research")
    assert "OpenSSH" in status["server"]
    assert status["cipher"].startswith("aes256-gcm")


def test_disconnecting_ends_the_link(host: SshHost, connections: Path) -> None:
    host.run(["true"])
    host.disconnect()
    wait_for(lambda: not link_processes(connections), "the link to end")
    assert not list(connections.glob("workbench-tui/*.link"))
    assert host.run(["echo", "again"]).text == "again"


def test_disconnecting_nothing_is_fine(host: SshHost, connections: Path) -> None:
    host.disconnect()
    assert link_processes(connections) == []


def test_a_link_that_nobody_needs_ends_by_itself(login: wire.Login, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_link, "IDLE_SECONDS", 0.5)
    paths = wire.LinkPaths(login)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(paths.socket)
        listener.listen()
        thread = threading.Thread(
            target=asyncio.run, args=(ssh_link.Link(login, listener.dup(), paths).run(),)
        )  # fmt: skip
        thread.start()
    process = SshHost(login).open(["cat"])
    with pytest.raises(TimeoutError):
        process.wait(1.0)  # in use, however long nothing is said
    process.close()
    thread.join(20)
    assert not thread.is_alive()
    assert not os.path.exists(paths.socket)


def test_a_link_gives_up_its_connection_but_not_what_only_it_knows(
    login: wire.Login, gpubox: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_link, "IDLE_SECONDS", 0.3)
    paths = wire.LinkPaths(login)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(paths.socket)
        listener.listen()
        link = ssh_link.Link(login, listener.dup(), paths)
    thread = threading.Thread(target=asyncio.run, args=(link.run(),))
    thread.start()
    host = SshHost(login)
    host.run(["true"])
    host.give_secret(REFERENCE, PASSWORD)
    wait_for(lambda: len(gpubox.processes("sshd")) == 1, "the connection to be given up")
    assert thread.is_alive()
    assert host.run(["echo", "again"]).text == "again"
    host.disconnect()
    thread.join(20)
    assert not thread.is_alive()


def test_start_up_files_that_print_and_loiter_do_no_harm(host: SshHost, gpubox: Machine) -> None:
    startup = gpubox.home() / ".bashrc"
    startup.write_text("echo 'Welcome to gpubox!'; echo 'mind the gap' >&2; printf 'no line end'; sleep 0.1\n")
    try:
        done = host.run(["sh", "-c", "cat; echo out; echo err >&2"], stdin=b"in\n")
        assert done == (0, b"in\nout\n", b"err\n")
    finally:
        startup.unlink()


# Losing the connection.


def test_a_program_whose_connection_dies_says_so(host: SshHost, gpubox: Machine) -> None:
    process = host.open(["cat"])
    gpubox.kill_sshd(connections_only=True)
    assert list(read_chunks(process)) == []
    with pytest.raises(ConnectionLost, match="the connection was lost"):
        process.wait(20.0)
    process.close()
    assert host.run(["echo", "back"]).text == "back"


def test_a_log_is_whole_though_the_connection_dies_three_times(host: SshHost, gpubox: Machine) -> None:
    path = gpubox.home() / "output.log"
    path.touch()
    lines = [b"line %d\n" % number for number in range(100_000)]
    expected = b"".join(lines)
    mirrored = bytearray()

    def follow() -> None:
        while len(mirrored) < len(expected):
            host.wait_until_reachable()
            process = host.read("/home/research/output.log", len(mirrored))
            for data in read_chunks(process):
                mirrored.extend(data)
                if len(mirrored) >= len(expected):
                    break
            process.close()

    follower = threading.Thread(target=follow)
    follower.start()
    with path.open("ab", buffering=0) as file:
        for quarter in range(4):
            before = len(mirrored)
            for start in range(quarter * 25_000, (quarter + 1) * 25_000, 100):
                file.write(b"".join(lines[start : start + 100]))
            wait_for(functools.partial(_is_longer, mirrored, before), "the log to be followed")
            if quarter < 3:
                gpubox.kill_sshd(connections_only=True)
    follower.join(60)
    path.unlink()
    assert bytes(mirrored) == expected


def test_a_silent_server_is_noticed_and_found_again(host: SshHost, gpubox: Machine, ssh_folder: Path) -> None:
    (ssh_folder / "config").write_text("Host *\n  ServerAliveInterval 1\n  ServerAliveCountMax 1\n")
    process = host.open(["cat"])
    with gpubox.frozen_sshd():
        assert list(read_chunks(process)) == []
        with pytest.raises(ConnectionLost):
            process.wait(20.0)
    process.close()
    assert host.wait_until_reachable()
    assert host.run(["echo", "back"]).text == "back"


def test_waiting_ends_when_the_machine_is_back(host: SshHost, gpubox: Machine) -> None:
    gpubox.stop_sshd()
    try:
        with pytest.raises(ConnectionLost, match="nothing listens on port 22"):
            host.run(["true"])
        reachable: list[bool] = []
        waiting = threading.Thread(target=lambda: reachable.append(host.wait_until_reachable()))
        waiting.start()
        wait_for(lambda: host.status()["state"] in ("down", "connecting"))
        assert not reachable
    finally:
        gpubox.start_sshd()
    waiting.join(60)
    assert reachable == [True]


def test_waiting_can_be_interrupted(host: SshHost, gpubox: Machine) -> None:
    reading, writing = os.pipe()
    gpubox.stop_sshd()
    try:
        os.write(writing, b"!")
        assert host.wait_until_reachable(reading) is False
    finally:
        gpubox.start_sshd()
        os.close(reading)
        os.close(writing)


def test_waiting_is_of_no_use_without_a_login(login: wire.Login) -> None:
    with pytest.raises(LoginRefused):
        SshHost(login._replace(username="nobody-here")).wait_until_reachable()


def test_a_killed_link_is_replaced(host: SshHost, connections: Path) -> None:
    process = host.open(["cat"])
    for pid in link_processes(connections):
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(ConnectionLost, match="has ended"):
        process.wait(20.0)
    process.close()
    assert host.run(["echo", "back"]).text == "back"


def test_a_request_is_made_once_and_never_again(host: SshHost, login: wire.Login) -> None:
    """A link that dies with the request in its hands may have carried it out."""
    paths = wire.LinkPaths(login)
    calls = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(paths.socket)
        listener.listen()

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                calls.append(connection)
                wire.send(connection, {})

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ConnectionLost, match="has ended"):
            host.run(["true"])
        thread.join()
    os.unlink(paths.socket)
    assert len(calls) == 1


def test_a_machine_that_was_restarted_is_found_again(host: SshHost, gpubox: Machine) -> None:
    before = host.run(["cat", "/proc/sys/kernel/random/boot_id"]).text
    gpubox.reboot()
    host.wait_until_reachable()
    assert host.run(["cat", "/proc/sys/kernel/random/boot_id"]).text != before


# Not reaching it.


def test_a_name_that_does_not_resolve(login: wire.Login) -> None:
    with pytest.raises(ConnectionLost, match=r"the name no-such-host\.invalid is not known") as caught:
        SshHost(login._replace(address="no-such-host.invalid")).run(["true"])
    assert caught.value.rung == "name"
    assert caught.value.exit_code == 4


def test_a_port_where_nothing_listens(login: wire.Login) -> None:
    with pytest.raises(ConnectionLost, match="nothing listens on port 23") as caught:
        SshHost(login._replace(address=login.address + ":23")).run(["true"])
    assert caught.value.rung == "port"


def test_something_else_than_ssh_on_the_port(login: wire.Login) -> None:
    with Server(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port, pytest.raises(ConnectionLost):
        SshHost(login._replace(address=f"127.0.0.1:{port}")).run(["true"])


def test_a_slow_handshake_is_waited_for(login: wire.Login, ssh_folder: Path) -> None:
    with SlowProxy(login.address, seconds=5.0) as port:
        (ssh_folder / "known_hosts").write_text(
            (ssh_folder / "known_hosts").read_text().replace(login.address, f"[127.0.0.1]:{port}")
        )
        host = SshHost(login._replace(address=f"127.0.0.1:{port}"))
        assert host.run(["echo", "slow"], timeout=60).text == "slow"
        host.disconnect()


# Host keys.


@pytest.fixture
def shown(gpubox: Machine) -> str:
    """The fingerprint of gpubox's host key as its owner sees it."""
    return fingerprint(gpubox.folder / "host_key.pub")


def test_an_unknown_host_key_is_refused_and_shown(host: SshHost, ssh_folder: Path, shown: str) -> None:
    known = ssh_folder / "known_hosts"
    known.unlink()
    with pytest.raises(HostKeyRefused, match="is not known yet") as caught:
        host.run(["true"])
    assert (caught.value.presented, caught.value.known) == (shown, ())
    assert f"--accept-host-key {shown}" in caught.value.remedy
    assert not known.exists()


def test_an_accepted_host_key_is_kept(host: SshHost, ssh_folder: Path, shown: str, gpubox: Machine) -> None:
    known = ssh_folder / "known_hosts"
    known.write_text("other-host ssh-ed25519 AAAA")  # no line end
    host.accept_host_key(shown)
    assert host.run(["echo", "in"]).text == "in"
    assert known.read_text() == "other-host ssh-ed25519 AAAA\n" + gpubox.known_hosts_line
    done = subprocess.run([require("ssh-keygen"), "-F", gpubox.address, "-f", str(known)], capture_output=True)
    assert done.returncode == 0


def test_another_fingerprint_accepts_nothing(host: SshHost, ssh_folder: Path) -> None:
    (ssh_folder / "known_hosts").unlink()
    host.accept_host_key("SHA256:" + "A" * 43)
    with pytest.raises(HostKeyRefused):
        host.run(["true"])
    assert not (ssh_folder / "known_hosts").exists()


def test_a_changed_host_key_is_refused_with_both_fingerprints(
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


def test_a_host_known_by_another_kind_of_key_has_changed(
    host: SshHost, ssh_folder: Path, gpubox: Machine, tmp_path: Path
) -> None:
    command = [require("ssh-keygen"), "-q", "-t", "ecdsa", "-N", "", "-f", str(tmp_path / "old")]
    subprocess.run(command, check=True)
    (ssh_folder / "known_hosts").write_text(f"{gpubox.address} {(tmp_path / 'old.pub').read_text()}")
    with pytest.raises(HostKeyRefused, match="THE HOST KEY CHANGED"):
        host.run(["true"])


def test_a_revoked_host_key_is_refused(host: SshHost, ssh_folder: Path) -> None:
    known = ssh_folder / "known_hosts"
    known.write_text(known.read_text() + "@revoked " + known.read_text())
    with pytest.raises(HostKeyRefused, match="revoked"):
        host.run(["true"])


@pytest.mark.parametrize(
    "line", ["UserKnownHostsFile none", "UserKnownHostsFile /dev/null", "StrictHostKeyChecking no"]
)
def test_no_configuration_lets_an_unknown_key_pass(host: SshHost, ssh_folder: Path, line: str) -> None:
    (ssh_folder / "known_hosts").unlink()
    (ssh_folder / "config").write_text(f"Host *\n  {line}\n")
    with pytest.raises(HostKeyRefused, match="is not known yet"):
        host.run(["true"])


def test_hashed_names_in_known_hosts_are_found(host: SshHost, ssh_folder: Path) -> None:
    command = [require("ssh-keygen"), "-q", "-H", "-f", str(ssh_folder / "known_hosts")]
    subprocess.run(command, check=True, capture_output=True)
    assert "|1|" in (ssh_folder / "known_hosts").read_text()
    assert host.run(["echo", "in"]).text == "in"


def test_a_host_key_changed_while_connected_is_noticed_at_the_next_login(
    host: SshHost, gpubox: Machine, ssh_folder: Path
) -> None:
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
    """A login by password, on an account whose keys are not here."""
    for path in ssh_folder.glob("id_*"):
        path.unlink()
    return login._replace(password=REFERENCE)


def test_a_password_from_the_store_logs_in(with_password: wire.Login) -> None:
    asked: list[str] = []

    def secrets(reference: str) -> str:
        asked.append(reference)
        return PASSWORD

    host = SshHost(with_password, secrets)
    assert host.run(["id", "-un"]).text == "research"
    assert host.run(["id", "-un"]).text == "research"
    assert asked == [REFERENCE]


def test_a_password_that_was_given_serves_everybody(with_password: wire.Login) -> None:
    SshHost(with_password).give_secret(REFERENCE, PASSWORD)
    assert SshHost(with_password).run(["id", "-un"]).text == "research"


def test_a_missing_password_is_asked_for(with_password: wire.Login) -> None:
    with pytest.raises(SecretNeeded, match="none is stored") as caught:
        SshHost(with_password).run(["true"])
    assert caught.value.reference == REFERENCE
    assert caught.value.prompt == f"Password of research on {with_password.address}"


def test_a_wrong_password_is_told_and_can_be_corrected(with_password: wire.Login) -> None:
    host = SshHost(with_password, lambda _reference: "wrong")
    with pytest.raises(SecretNeeded, match="the password is wrong"):
        host.run(["true"])
    host.give_secret(REFERENCE, PASSWORD)
    assert host.run(["id", "-un"]).text == "research"


def test_a_password_is_not_asked_for_before_the_machine_has_shown_the_right_key(
    with_password: wire.Login, ssh_folder: Path, gpubox: Machine
) -> None:
    host = SshHost(with_password)
    with pytest.raises(SecretNeeded) as needed:
        host.run(["true"])
    assert needed.value.is_all
    (ssh_folder / "known_hosts").write_text("")
    host.disconnect()
    with pytest.raises(HostKeyRefused):
        host.run(["true"])
    with pytest.raises(ConnectionLost, match="nothing listens on port 23"):
        SshHost(with_password._replace(address=f"{with_password.address}:23")).run(["true"])
    with pytest.raises(HostKeyRefused):
        SshHost(with_password._replace(password="", private_key="~/no-such-key")).run(["true"])


def test_a_wrong_password_is_tried_once_however_often_it_is_waited_for(
    with_password: wire.Login, gpubox: Machine
) -> None:
    log = gpubox.folder / "sshd.log"
    begun = log.stat().st_size
    host = SshHost(with_password, lambda _reference: "wrong")
    for _ in range(3):
        with pytest.raises(SecretNeeded, match="the password is wrong"):
            host.wait_until_reachable()
    wait_for(lambda: _count_failures(log, begun), "sshd to tell of it")
    assert _count_failures(log, begun) == 1
    host.give_secret(REFERENCE, "wrong")  # a person insists
    with pytest.raises(SecretNeeded, match="the password is wrong"):
        host.run(["true"])
    wait_for(lambda: _count_failures(log, begun) == 2, "sshd to tell of it")


def _count_failures(log: Path, begun: int) -> int:
    return log.read_bytes()[begun:].count(b"Failed password for research")


def test_a_password_shows_up_nowhere(with_password: wire.Login, home: Path, connections: Path) -> None:
    SshHost(with_password, lambda _reference: PASSWORD).run(["true"])
    secret = PASSWORD.encode()
    for folder in (home, connections):
        for path in folder.rglob("*"):
            assert not path.is_file() or secret not in path.read_bytes()
    for pid in link_processes(connections):
        assert secret not in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert secret not in Path(f"/proc/{pid}/environ").read_bytes()


def test_a_key_file_named_by_the_target(login: wire.Login, ssh_folder: Path, home: Path) -> None:
    (ssh_folder / "id_ed25519").rename(home / "my key")
    assert SshHost(login._replace(private_key="~/my key")).run(["id", "-un"]).text == "research"


def test_a_key_file_that_is_not_there(login: wire.Login) -> None:
    with pytest.raises(LoginRefused, match="cannot be read: No such file"):
        SshHost(login._replace(private_key="~/nowhere")).run(["true"])


def test_a_file_that_is_no_key(login: wire.Login, home: Path) -> None:
    (home / "text").write_text("hello\n")
    with pytest.raises(LoginRefused, match="is no private key"):
        SshHost(login._replace(private_key="~/text")).run(["true"])


def test_a_key_that_the_host_does_not_know(login: wire.Login, home: Path) -> None:
    make_key(home / "stranger")
    with pytest.raises(LoginRefused, match="the key ~/stranger was refused") as caught:
        SshHost(login._replace(private_key="~/stranger")).run(["true"])
    assert "ssh-copy-id" in caught.value.remedy


def test_a_key_that_has_expired(login: wire.Login, gpubox: Machine, home: Path) -> None:
    key = make_key(home / "old")
    authorized = gpubox.home() / ".ssh" / "authorized_keys"
    before = authorized.read_text()
    authorized.write_text(f'{before}expiry-time="20200101" {key.with_suffix(".pub").read_text()}')
    with pytest.raises(LoginRefused, match="the key ~/old was refused"):
        SshHost(login._replace(private_key="~/old")).run(["true"])
    authorized.write_text(before)


def test_no_key_at_all(login: wire.Login, ssh_folder: Path) -> None:
    for path in ssh_folder.glob("id_*"):
        path.unlink()
    with pytest.raises(LoginRefused, match="none of your SSH keys was accepted"):
        SshHost(login).run(["true"])


@pytest.fixture
def protected(login: wire.Login, gpubox: Machine, home: Path, ssh_folder: Path) -> Iterator[wire.Login]:
    """A login with a key that a passphrase protects."""
    for path in ssh_folder.glob("id_*"):
        path.unlink()
    key = make_key(home / "protected", passphrase=PASSWORD)
    authorized = gpubox.home() / ".ssh" / "authorized_keys"
    before = authorized.read_text()
    authorized.write_text(before + key.with_suffix(".pub").read_text())
    yield login._replace(private_key="~/protected", passphrase=REFERENCE)
    authorized.write_text(before)


def test_a_passphrase_from_the_store_opens_the_key(protected: wire.Login) -> None:
    assert SshHost(protected, lambda _reference: PASSWORD).run(["id", "-un"]).text == "research"


def test_a_missing_passphrase_is_asked_for(protected: wire.Login) -> None:
    with pytest.raises(SecretNeeded, match="is protected by a passphrase") as caught:
        SshHost(protected).run(["true"])
    assert caught.value.reference == REFERENCE


def test_a_wrong_passphrase_is_told(protected: wire.Login) -> None:
    with pytest.raises(SecretNeeded, match="does not open with the passphrase"):
        SshHost(protected, lambda _reference: "wrong").run(["true"])


def test_a_key_without_a_stored_passphrase_can_be_opened_too(protected: wire.Login) -> None:
    host = SshHost(protected._replace(passphrase=""))
    with pytest.raises(SecretNeeded) as caught:
        host.run(["true"])
    host.give_secret(caught.value.reference, PASSWORD)
    assert host.run(["id", "-un"]).text == "research"


def test_a_protected_key_in_the_agent_needs_no_passphrase(
    protected: wire.Login, home: Path, connections: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = subprocess.Popen([require("ssh-agent"), "-D", "-a", str(connections / "agent")], stdout=subprocess.DEVNULL)
    try:
        wait_for((connections / "agent").exists, "the agent")
        with pytest.raises(SecretNeeded):
            SshHost(protected).run(["true"])  # the link runs now, and knows of no agent
        monkeypatch.setenv("SSH_AUTH_SOCK", str(connections / "agent"))
        ask = connections / "ask"
        ask.write_text(f"#!/bin/sh\necho '{PASSWORD}'\n")
        ask.chmod(0o700)
        environment = {**os.environ, "SSH_ASKPASS": str(ask), "SSH_ASKPASS_REQUIRE": "force"}
        subprocess.run([require("ssh-add"), "-q", str(home / "protected")], check=True, env=environment)
        assert SshHost(protected).run(["id", "-un"]).text == "research"
        assert SshHost(protected._replace(private_key="", passphrase="")).run(["id", "-un"]).text == "research"
    finally:
        agent.kill()
        agent.wait()


def test_an_agent_with_more_keys_than_the_machine_lets_try(
    login: wire.Login, ssh_folder: Path, gpubox: Machine, tmp_path: Path
) -> None:
    """Not to be tried again and again: a machine that is waited for would be asked all night."""
    for path in ssh_folder.glob("id_*"):
        path.unlink()
    names = [make_key(tmp_path / f"key{number}") for number in range(7)]  # sshd's MaxAuthTries is 6
    (ssh_folder / "config").write_text("Host *\n" + "".join(f"  IdentityFile {name}\n" for name in names))
    with pytest.raises(LoginRefused, match="gave up before the right key was tried") as caught:
        SshHost(login).run(["true"])
    assert "IdentitiesOnly" in caught.value.remedy


# ~/.ssh/config.


def test_an_alias_with_port_user_and_key(gpubox: Machine, ssh_folder: Path, home: Path, login: wire.Login) -> None:
    (ssh_folder / "id_ed25519").rename(home / "elsewhere")
    (ssh_folder / "config").write_text(
        f"Host big-box\n  HostName {gpubox.address}\n  User research\n  Port 22\n  IdentityFile ~/elsewhere\n"
    )
    assert SshHost(wire.Login("t", "big-box")).run(["id", "-un"]).text == "research"
    assert SshHost(wire.Login("t", "big-box", "nobody-here")).status()["state"] == "down"


def test_commands_and_terminals_of_the_configuration_are_not_ours(host: SshHost, ssh_folder: Path) -> None:
    (ssh_folder / "config").write_text(
        "Host *\n  RemoteCommand tmux attach\n  RequestTTY yes\n  ForwardAgent yes\n  SetEnv A=b\n  Compression yes\n"
    )
    assert host.run(["sh", "-c", "tty; echo $SSH_TTY$SSH_AUTH_SOCK"]).text == "not a tty\n"


def test_a_configuration_that_cannot_be_read_names_its_line(host: SshHost, ssh_folder: Path) -> None:
    (ssh_folder / "config").write_text("Host *\n  Port many\n")
    with pytest.raises(LoginRefused, match=r"config line 2: Invalid Port integer value: many"):
        host.run(["true"])


def test_a_jump_host_leads_there(bastion: Machine, gpubox: Machine) -> None:
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


def test_jump_hosts_in_a_circle_end(ssh_folder: Path) -> None:
    (ssh_folder / "config").write_text("Host a\n  ProxyJump b\nHost b\n  ProxyJump a\n")
    with pytest.raises(LoginRefused, match="in a circle"):
        SshHost(wire.Login("t", "a")).run(["true"])


# Addresses.


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("box", ("box", 0)),
        ("box:2222", ("box", 2222)),
        ("10.0.0.1:22", ("10.0.0.1", 22)),
        ("::1", ("::1", 0)),
        ("[::1]", ("::1", 0)),
        ("[fe80::1%eth0]:2222", ("fe80::1%eth0", 2222)),
        ("box:", ("box:", 0)),
        ("box:ssh", ("box:ssh", 0)),
    ],
)
def test_an_address_has_a_host_and_perhaps_a_port(address: str, expected: tuple[str, int]) -> None:
    assert wire.Login("t", address).host_and_port == expected


def test_the_folder_of_the_sockets_must_be_the_users_alone(login: wire.Login, connections: Path) -> None:
    from tui_workbench.errors import StorageError

    (connections / "workbench-tui").mkdir(mode=0o755, exist_ok=True)
    (connections / "workbench-tui").chmod(0o755)
    with pytest.raises(StorageError, match="not yours alone"):
        SshHost(login).run(["true"])


def _is_longer(data: bytearray, size: int) -> bool:
    return len(data) > size


def _client_port(host: SshHost) -> str:
    return host.run(["sh", "-c", "echo $SSH_CLIENT"]).text.split()[1]


class Server:
    """Something that answers each connection with the same bytes."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                connection.sendall(self._answer)

    def __enter__(self) -> int:
        self._thread.start()
        port: int = self._listener.getsockname()[1]
        return port

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


class SlowProxy(Server):
    """Leads to an SSH server, and lets its first words wait."""

    def __init__(self, address: str, seconds: float) -> None:
        super().__init__(b"")
        self._address = address
        self._seconds = seconds

    def _serve(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        with connection, socket.create_connection((self._address, 22)) as server:
            import time

            time.sleep(self._seconds)  # the delay is the subject of the test
            back = threading.Thread(target=_copy, args=(server, connection))
            back.start()
            _copy(connection, server)
            back.join()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass
