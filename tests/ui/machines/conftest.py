"""Fixtures with machines and engines."""

from __future__ import annotations

from tests.second_factor import codes  # noqa: F401  (fixture)
from tests.targets.conftest import bastion, connections, gpubox, key, keyring, known, ssh_folder  # noqa: F401  (fixtures)
from tests.targets.docker_fixtures import gpubox_engine, session_gpubox_engine  # noqa: F401  (fixtures)
from tests.ui.main.conftest import folder  # noqa: F401  (fixture)
