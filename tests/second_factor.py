"""An SSH server that asks for one-time passwords (PAM, the package libpam-oath)."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.machines import Machine

Codes = Callable[..., AbstractContextManager[None]]

SEED = b"12345678901234567890"
KEY_AND_CODE = "AuthenticationMethods publickey,keyboard-interactive"


def code(counter: int) -> str:
    """Return the one-time password number `counter` (RFC 4226)."""
    digest = hmac.new(SEED, counter.to_bytes(8, "big"), hashlib.sha1).digest()
    start = digest[-1] & 15
    return f"{(int.from_bytes(digest[start : start + 4], 'big') & 0x7FFFFFFF) % 10**6:06}"


@pytest.fixture
def codes(gpubox: Machine) -> Iterator[Codes]:
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
