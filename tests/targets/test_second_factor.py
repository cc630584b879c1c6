"""Logins to servers that ask for a second factor, with a real sshd and PAM."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.machines import PASSWORD, Machine, fingerprint
from tests.second_factor import KEY_AND_CODE, asking, code
from tests.targets.conftest import link_processes
from tests.waiting import wait_until
from tui_workbench.targets.hosts.host import LoginRefused, SecretNeeded
from tui_workbench.targets.ssh import questions, ssh_connection
from tui_workbench.targets.ssh import ssh_wire as wire
from tui_workbench.targets.ssh.ssh_client import MOST_ROUNDS
from tui_workbench.targets.ssh.ssh_host import SshHost
from tui_workbench.targets.ssh.ssh_secrets import Secrets

if TYPE_CHECKING:
    from tests.second_factor import Codes

REFERENCE = "AzureMlSecret=gpubox#research#0123456789abcdef0123456789abcdef"


def question_of(host: SshHost) -> SecretNeeded:
    """Return the question that a request to the host raises."""
    with pytest.raises(SecretNeeded) as needed:
        host.run(["true"])
    assert needed.value.is_question
    return needed.value


def test_code_is_asked_after_the_key_and_serves_all_processes(
    host: SshHost, login: wire.Login, codes: Codes, connections: Path
) -> None:
    with codes(KEY_AND_CODE):
        needed = question_of(host)
        assert "the server asks for: One-time password (OATH) for `research'" in needed.message
        assert "computetarget login gpubox" in needed.remedy
        assert not needed.is_visible
        assert question_of(SshHost(login)).reference == needed.reference  # the same login waits
        host.give_secret(needed.reference, code(0))
        assert host.run(["id", "-un"]).text == "research"
        assert SshHost(login).run(["echo", "me too"]).text == "me too"
        for pid in link_processes(connections):
            assert code(0).encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
        host.disconnect()


def test_wrong_code_is_asked_again(host: SshHost, codes: Codes) -> None:
    with codes(KEY_AND_CODE):
        host.give_secret(question_of(host).reference, "000000")
        host.give_secret(question_of(host).reference, code(0))
        assert host.run(["id", "-un"]).text == "research"
        host.disconnect()


def test_only_wrong_codes_are_the_reason(host: SshHost, codes: Codes) -> None:
    with codes(KEY_AND_CODE):
        with pytest.raises(LoginRefused, match="refused the answers to its questions"):  # noqa: PT012
            while True:  # a login may end between two requests; the next request then starts another one
                try:
                    host.run(["true"])
                except SecretNeeded as needed:
                    host.give_secret(needed.reference, "000000")
        host.disconnect()


def test_reason_stays_until_a_user_is_present(host: SshHost, login: wire.Login, codes: Codes, gpubox: Machine) -> None:
    """No request waits for the third answer, and further attempts could lock the account."""
    log = gpubox.folder / "sshd.log"
    with codes(KEY_AND_CODE):
        for _ in range(MOST_ROUNDS):
            host.give_secret(question_of(host).reference, "000000")
        wait_until(lambda: host.status()["state"] == "down", "the end of the login")
        begun = log.stat().st_size
        for each in (host, SshHost(login)):
            with pytest.raises(LoginRefused, match="refused the answers to its questions") as refused:
                each.run(["true"])
            assert "computetarget login gpubox" in refused.value.remedy
        assert log.stat().st_size == begun
        host.attend()
        host.give_secret(question_of(host).reference, code(0))
        assert host.run(["id", "-un"]).text == "research"
        host.disconnect()


def test_server_that_ends_a_login_during_a_question_is_the_reason(host: SshHost, codes: Codes) -> None:
    with codes(KEY_AND_CODE, "LoginGraceTime 1"):
        question_of(host)
        wait_until(lambda: host.status()["state"] == "down", "the end of the login")
        with pytest.raises(LoginRefused) as refused:
            host.run(["true"])
        assert not isinstance(refused.value, SecretNeeded)
        assert "Log in again: `workbench-tui computetarget login gpubox`" in refused.value.remedy
        host.disconnect()


def test_jump_host_and_target_each_ask(bastion: Machine, gpubox: Machine, codes: Codes) -> None:
    host = SshHost(wire.Login("t", "inner"))
    for machine in (bastion, gpubox):
        host.accept_host_key(fingerprint(machine.folder / "host_key.pub"))
    with codes(KEY_AND_CODE), asking(bastion, KEY_AND_CODE):
        needed = question_of(host)
        assert needed.prompt.startswith(f"research on jump host {bastion.address}: One-time password")
        assert needed.message.startswith(f"t (inner), jump host {bastion.address}: the server asks for: One-time")
        host.give_secret(needed.reference, code(0))
        needed = question_of(host)
        assert needed.prompt.startswith("research on inner: One-time password")
        assert needed.message.startswith("t (inner): the server asks for: One-time")
        host.give_secret(needed.reference, code(0))
        assert host.run(["hostname"]).text == "gpubox"
        host.disconnect()


def test_wrong_answers_to_a_jump_host_name_it(bastion: Machine) -> None:
    host = SshHost(wire.Login("t", "inner"))
    host.accept_host_key(fingerprint(bastion.folder / "host_key.pub"))
    with asking(bastion, KEY_AND_CODE):
        for _ in range(MOST_ROUNDS):
            host.give_secret(question_of(host).reference, "000000")
        wait_until(lambda: host.status()["state"] == "down", "the end of the login")
        with pytest.raises(LoginRefused, match=f"jump host {bastion.address}: the server refused the answers"):
            host.run(["true"])
        host.disconnect()


def test_stored_password_is_sent_and_only_the_code_is_asked(login: wire.Login, codes: Codes) -> None:
    host = SshHost(login._replace(password=REFERENCE))
    host.give_secret(REFERENCE, PASSWORD)
    with codes("AuthenticationMethods keyboard-interactive", first="auth required pam_unix.so\n"):
        needed = question_of(host)
        assert "One-time password" in needed.prompt
        host.give_secret(needed.reference, code(0))
        assert host.run(["id", "-un"]).text == "research"
        host.disconnect()


def test_password_after_the_key_is_asked(host: SshHost, gpubox: Machine) -> None:
    with gpubox.configured("AuthenticationMethods publickey,password"):
        needed = question_of(host)
        assert "Password" in needed.prompt
        host.give_secret(needed.reference, PASSWORD)
        assert host.run(["id", "-un"]).text == "research"
        host.disconnect()


def test_machine_that_only_accepts_passwords_offers_one(host: SshHost, gpubox: Machine, ssh_folder: Path) -> None:
    for path in ssh_folder.glob("id_*"):
        path.unlink()
    with pytest.raises(LoginRefused, match="none of your SSH keys was accepted") as refused:
        host.run(["true"])
    assert refused.value.offers_password
    with gpubox.configured("PasswordAuthentication no"):
        host.disconnect()
        with pytest.raises(LoginRefused) as refused:
            host.run(["true"])
        assert not refused.value.offers_password


def test_question_without_an_answer_is_asked_once(
    login: wire.Login,
    codes: Codes,
    monkeypatch: pytest.MonkeyPatch,
    gpubox: Machine,
) -> None:
    """Each attempt could send a message to a phone, or lock the account."""
    from tui_workbench.targets.ssh.connection_pool import ConnectionPool

    monkeypatch.setattr(questions, "ANSWER_SECONDS", 0.5)
    log = gpubox.folder / "sshd.log"

    async def ask_without_a_user() -> None:
        pool = ConnectionPool(login, wire.LinkPaths())
        for _ in range(3):
            with pytest.raises(SecretNeeded, match="the server asks for"):
                await pool.first()
            await asyncio.to_thread(wait_until, lambda: pool.state != "connecting", "the end of the attempt")
        pool.end()

    with codes(KEY_AND_CODE):
        begun = log.stat().st_size
        asyncio.run(ask_without_a_user())
        assert log.read_bytes()[begun:].count(b"Postponed keyboard-interactive") == 1


def test_unanswered_question_fails_the_login(login: wire.Login, codes: Codes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "ANSWER_SECONDS", 0.2)
    with codes(KEY_AND_CODE), pytest.raises(SecretNeeded, match="the server asks for"):
        asyncio.run(ssh_connection.connect(login, Secrets(), lambda _error: None))
