"""An SSH server that asks for one-time passwords (PAM, the package libpam-oath)."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import asyncssh
import pytest

from tests.conftest import missing
from tests.machines import Machine
from tests.waiting import PATIENCE

KbdIntChallenge = tuple[str, str, str, Sequence[tuple[str, bool]]]
_Result = TypeVar("_Result")

Codes = Callable[..., AbstractContextManager[None]]

SEED = b"12345678901234567890"
KEY_AND_CODE = "AuthenticationMethods publickey,keyboard-interactive"


def code(counter: int) -> str:
    """Return the one-time password number `counter` (RFC 4226)."""
    digest = hmac.new(SEED, counter.to_bytes(8, "big"), hashlib.sha1).digest()
    start = digest[-1] & 15
    return f"{(int.from_bytes(digest[start : start + 4], 'big') & 0x7FFFFFFF) % 10**6:06}"


@contextlib.contextmanager
def asking(machine: Machine, *lines: str, first: str = "") -> Iterator[None]:
    """Let the server ask for codes within the context. `lines` of sshd_config, and modules of PAM before the code."""
    if not list(Path("/usr/lib").glob("*/security/pam_oath.so")):
        missing("pam_oath (the package libpam-oath)")
    users, service = machine.folder / "etc/users.oath", machine.folder / "etc/pam.d/sshd"
    before = service.read_bytes() if service.exists() else None
    users.write_text(f"HOTP research - {SEED.hex()}\n")
    users.chmod(0o600)
    service.write_text(
        f"{first}auth required pam_oath.so usersfile=/etc/users.oath window=20 digits=6\n"
        "account required pam_permit.so\nsession required pam_permit.so\n"
    )
    try:
        with machine.configured("UsePAM yes", "KbdInteractiveAuthentication yes", *lines):
            yield
    finally:
        users.unlink(missing_ok=True)
        if before is None:
            service.unlink(missing_ok=True)
        else:
            service.write_bytes(before)


@pytest.fixture
def codes(gpubox: Machine) -> Codes:
    """Return a function that lets gpubox ask for codes, as `asking`."""
    return partial(asking, gpubox)


class _Asking(asyncssh.SSHServer):
    """Asks the prompts in each round, and refuses the answers."""

    def __init__(self, prompts: Sequence[tuple[str, bool]], introduction: str) -> None:
        self._challenge = (introduction, introduction, "", list(prompts))

    def public_key_auth_supported(self) -> bool:
        return False

    def kbdint_auth_supported(self) -> bool:
        return True

    def get_kbdint_challenge(self, username: str, lang: str, submethods: str) -> KbdIntChallenge:
        return self._challenge

    def validate_kbdint_response(self, username: str, responses: Sequence[str]) -> KbdIntChallenge | bool:
        return self._challenge


class OwnServer:
    """An SSH server in a thread. `new` returns the object that decides about one connection."""

    def __init__(self, new: Callable[[], asyncssh.SSHServer]) -> None:
        self._key = asyncssh.generate_private_key("ssh-ed25519")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._call(self._listen(new))
        self._port = self._server.get_port()
        self.address = f"127.0.0.1:{self._port}"

    @property
    def known_hosts_line(self) -> str:
        """The line of the server in known_hosts."""
        return f"[127.0.0.1]:{self._port} {self._key.export_public_key().decode()}"

    def __enter__(self) -> OwnServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self, new: Callable[[], asyncssh.SSHServer]) -> asyncssh.SSHAcceptor:
        return await asyncssh.listen("127.0.0.1", 0, server_factory=new, server_host_keys=[self._key])

    async def _close(self) -> None:
        self._server.close()
        await self._server.wait_closed()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for each in others:
            each.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _call(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)


class AskingServer(OwnServer):
    """A server that asks the same prompts without end, whatever the answers are."""

    def __init__(self, prompts: Sequence[tuple[str, bool]], introduction: str = "") -> None:
        super().__init__(lambda: _Asking(prompts, introduction))
