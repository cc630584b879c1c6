"""The shells that are installed on this machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

SHELLS = [path for name in ("sh", "dash", "bash", "busybox") if (path := shutil.which(name))]
"""The installed shells that are used as `sh` on some systems."""


@pytest.fixture(params=sorted({os.path.realpath(path) for path in SHELLS}), ids=os.path.basename)
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return a link to a shell with the name `sh`, which selects the shell's POSIX mode."""
    link = tmp_path / "bin" / "sh"
    link.parent.mkdir()
    link.symlink_to(request.param)
    return str(link)
