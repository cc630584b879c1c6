"""The SSH library. Other modules import it from here, so that the import executes no programs."""

from __future__ import annotations

from tui_workbench.core.libraries import search_without_programs

search_without_programs()

import asyncssh  # noqa: E402
from asyncssh.config import SSHClientConfig  # noqa: E402
from asyncssh.encryption import get_encryption_algs  # noqa: E402
from asyncssh.kex import get_kex_algs  # noqa: E402
from asyncssh.mac import get_mac_algs  # noqa: E402
from asyncssh.public_key import get_certificate_algs, get_public_key_algs  # noqa: E402

__all__ = [
    "SSHClientConfig",
    "asyncssh",
    "get_certificate_algs",
    "get_encryption_algs",
    "get_kex_algs",
    "get_mac_algs",
    "get_public_key_algs",
]
