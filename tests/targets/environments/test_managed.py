"""Managed environments on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tui_workbench.core.errors import StorageError
from tui_workbench.targets.environments.managed import Environments


def test_failed_removal_quotes_the_error_of_rm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rm = tmp_path / "rm"
    rm.write_text("#!/bin/sh\necho 'rm: cannot remove x: Device or resource busy' >&2\nexit 1\n")
    rm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(StorageError) as caught:
        Environments().remove(str(tmp_path / "environment"))
    assert caught.value.message == "cannot remove the environment: rm: cannot remove x: Device or resource busy"
