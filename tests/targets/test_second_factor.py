"""Logins to servers that ask for a second factor, with a real sshd and PAM."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.machines import PASSWORD, Machine
from tests.second_factor import KEY_AND_CODE, code
from tests.targets.conftest import link_processes
from tui_workbench.targets.hosts.host import LoginRefused, SecretNeeded
from tui_workbench.targets.ssh import questions, ssh_connection
from tui_workbench.targets.ssh import ssh_wire as wire
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
            if pool._attempt is not None:
                await asyncio.wait({pool._attempt})
        pool.end()

    with codes(KEY_AND_CODE):
        begun = log.stat().st_size
        asyncio.run(ask_without_a_user())
        assert log.read_bytes()[begun:].count(b"Postponed keyboard-interactive") == 1


def test_unanswered_question_fails_the_login(login: wire.Login, codes: Codes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "ANSWER_SECONDS", 0.2)
    with codes(KEY_AND_CODE), pytest.raises(SecretNeeded, match="the server asks for"):
        asyncio.run(ssh_connection.connect(login, Secrets(), lambda _error: None))
