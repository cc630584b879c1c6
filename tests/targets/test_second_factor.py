"""Logins to servers that ask for a second factor, with a real sshd and PAM."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import missing
from tests.machines import PASSWORD, Machine
from tests.targets.conftest import link_processes
from tui_workbench.targets.hosts.host import LoginRefused, SecretNeeded
from tui_workbench.targets.ssh import questions, ssh_connection
from tui_workbench.targets.ssh import ssh_wire as wire
from tui_workbench.targets.ssh.ssh_host import SshHost
from tui_workbench.targets.ssh.ssh_secrets import Secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SEED = b"12345678901234567890"
REFERENCE = "AzureMlSecret=gpubox#research#0123456789abcdef0123456789abcdef"
KEY_AND_CODE = "AuthenticationMethods publickey,keyboard-interactive"


def code(counter: int) -> str:
    """Return the one-time password number `counter` (RFC 4226)."""
    digest = hmac.new(SEED, counter.to_bytes(8, "big"), hashlib.sha1).digest()
    start = digest[-1] & 15
    return f"{(int.from_bytes(digest[start : start + 4], 'big') & 0x7FFFFFFF) % 10**6:06}"


@pytest.fixture
def codes(gpubox: Machine) -> Iterator[Callable[..., contextlib.AbstractContextManager[None]]]:
    """Return a function that lets the server ask for codes: (lines of sshd_config, modules of PAM before the code)."""
    if not list(Path("/usr/lib").glob("*/security/pam_oath.so")):
        missing("pam_oath (the package libpam-oath)")
    users, service = gpubox.folder / "etc/users.oath", gpubox.folder / "etc/pam.d/sshd"
    before = service.read_bytes() if service.exists() else None

    @contextlib.contextmanager
    def ask(*lines: str, first: str = "") -> Iterator[None]:
        users.write_text(f"HOTP research - {SEED.hex()}\n")
        users.chmod(0o600)
        service.write_text(
            f"{first}auth required pam_oath.so usersfile=/etc/users.oath window=20 digits=6\n"
            "account required pam_permit.so\nsession required pam_permit.so\n"
        )
        with gpubox.configured("UsePAM yes", "KbdInteractiveAuthentication yes", *lines):
            yield

    yield ask
    users.unlink(missing_ok=True)
    if before is None:
        service.unlink(missing_ok=True)
    else:
        service.write_bytes(before)


def question_of(host: SshHost) -> SecretNeeded:
    """Return the question that a request to the host raises."""
    with pytest.raises(SecretNeeded) as needed:
        host.run(["true"])
    assert needed.value.is_question
    return needed.value


def test_code_is_asked_after_the_key_and_serves_all_processes(
    host: SshHost, login: wire.Login, codes: Callable[..., contextlib.AbstractContextManager[None]], connections: Path
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


def test_wrong_code_is_asked_again(
    host: SshHost, codes: Callable[..., contextlib.AbstractContextManager[None]]
) -> None:
    with codes(KEY_AND_CODE):
        host.give_secret(question_of(host).reference, "000000")
        host.give_secret(question_of(host).reference, code(0))
        assert host.run(["id", "-un"]).text == "research"
        host.disconnect()


def test_only_wrong_codes_are_the_reason(
    host: SshHost, codes: Callable[..., contextlib.AbstractContextManager[None]]
) -> None:
    with codes(KEY_AND_CODE):
        for _ in range(3):
            host.give_secret(question_of(host).reference, "000000")
        with pytest.raises(LoginRefused, match="refused the answers to its questions"):
            host.run(["true"])
        host.disconnect()


def test_stored_password_is_sent_and_only_the_code_is_asked(
    login: wire.Login, codes: Callable[..., contextlib.AbstractContextManager[None]]
) -> None:
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
    codes: Callable[..., contextlib.AbstractContextManager[None]],
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


def test_unanswered_question_fails_the_login(
    login: wire.Login, codes: Callable[..., contextlib.AbstractContextManager[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "ANSWER_SECONDS", 0.2)
    with codes(KEY_AND_CODE), pytest.raises(SecretNeeded, match="the server asks for"):
        asyncio.run(ssh_connection.connect(login, Secrets(), lambda _error: None))
