"""Helpers that load the SDK as a script of a run does."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from tui_workbench.targets.values import SDK_FOLDER

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType


def load() -> ModuleType:
    """Load a new copy of the module `workbench`."""
    spec = importlib.util.spec_from_file_location("workbench_under_test", os.path.join(SDK_FOLDER, "workbench.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def logged(run: Path) -> list[dict[str, Any]]:
    """Return the logged lines without their times."""
    path = run / "metrics.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    records = [json.loads(line, parse_constant=lambda name: f"no JSON: {name}") for line in lines]
    for record in records:
        assert record.pop("time") > 1_700_000_000
    return records


def script(text: str, run: Path | None, *path: str, directory: Path | None = None) -> str:
    """Run a script with the SDK and then the folders of `path` on its path; return its output."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([SDK_FOLDER, *path]), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("WORKBENCH_RUN_DIRECTORY", None)
    if run is not None:
        environment["WORKBENCH_RUN_DIRECTORY"] = str(run)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", text],
        env=environment,
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout
