"""Shared libraries are found without executing programs."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.conftest import require
from tui_workbench.core.libraries import find_library

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.linux
def test_found_library_can_be_loaded() -> None:
    found = find_library("c")
    assert found is not None
    assert ctypes.CDLL(found).getpid


def test_missing_library_is_none() -> None:
    assert find_library("no-such-library") is None


PROGRAMS = {
    "asyncssh": "import tui_workbench.targets.ssh.library",
    "link": "import tui_workbench.targets.ssh.ssh_link",
    "key": "from tui_workbench.targets.ssh import workbench_key; workbench_key.workbench_key()",
    "keyring": "from tui_workbench.targets.hosts import secrets; secrets.keyring_helper('look', '', '')",
    "docker": "import docker",
    "screens": "import tui_workbench.ui.main.main, tui_workbench.ui.main.coordinator",
    "nvml": "import pynvml",
    "apprise": "import apprise",
    "mcp": "import mcp.server",
    "serve": "import aiohttp, textual_serve",
}


@pytest.mark.system
@pytest.mark.linux
@pytest.mark.parametrize("code", PROGRAMS.values(), ids=PROGRAMS)
def test_imports_execute_no_program(tmp_path: Path, code: str) -> None:
    for name in ("gcc", "cc", "ld", "objdump", "ldconfig", "uname", "file"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\necho $0 >>canary\n")
        program.chmod(0o755)
    log = tmp_path / "strace.log"
    command = [require("strace"), "-f", "-qq", "-e", "trace=execve,execveat", "-e", "signal=none", "-o", str(log)]
    done = subprocess.run(
        [*command, sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "canary").exists()
    assert len(log.read_text().splitlines()) == 1, log.read_text()
