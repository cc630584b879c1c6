"""Machines for tests of commands that connect to a machine."""

from __future__ import annotations

from tests.cli.attaching import box  # noqa: F401  (fixture)
from tests.second_factor import codes  # noqa: F401  (fixture)
from tests.targets.conftest import bastion, connections, gpubox, key, keyring, known, ssh_folder  # noqa: F401  (fixtures)
from tests.targets.docker_fixtures import gpubox_engine, session_gpubox_engine  # noqa: F401  (fixtures)
