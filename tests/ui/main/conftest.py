"""SSH machines, and a project with a target on one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.targets.conftest import connections, gpubox, key, keyring, known, ssh_folder  # noqa: F401  (fixtures)
from tests.targets.docker_fixtures import gpubox_engine, session_gpubox_engine  # noqa: F401  (fixtures)

if TYPE_CHECKING:
    from pathlib import Path

BOX = "type: remotedocker\naddress: box\nbaseDockerImage: microsoft/mmlspark:plus-0.9.9\n"


@pytest.fixture
def folder(project_root: Path) -> Path:
    """Return the configuration folder of the project, with the target `box`."""
    folder = project_root / "aml_config"
    (folder / "box.compute").write_text(BOX)
    (folder / "box.runconfig").write_text("Target: box\n")
    return folder
