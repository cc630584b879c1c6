"""Machines for the tests of commands that reach one."""

from __future__ import annotations

from tests.targets.conftest import (  # noqa: F401  (fixtures)
    connections,
    gpubox,
    gpubox_engine,
    key,
    keyring,
    session_gpubox_engine,
    ssh_folder,
)
