"""Stand-in AMD GPUs: programs in place of amd-smi and rocm-smi, whose answers a test can change during a run.

The state is a JSON object: `gpus`, one object for each; `processes`, pairs of process ID and bytes by GPU number;
`old` for the format before ROCm 7; `without_e`, the commands that have no option `-e`; `say`, a text that is printed
instead of JSON; and `hang`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

MI300X: dict[str, Any] = {
    "name": "AMD Instinct MI300X", "driver": "6.8.5", "total": 196592, "mem": 4096, "util": 83, "power": 512,
    "limit": 750, "temp": 61, "sm": 2100, "memclk": 1300, "throttle": "UNTHROTTLED", "ecc": 0,
}  # fmt: skip


class AmdStandin:
    """The AMD GPUs of one test."""

    def __init__(self, folder: Path) -> None:
        self.programs = folder / "amd"
        self.state = folder / "amd.json"
        self.programs.mkdir()

    def install(self, tool: str = "amd-smi", python: str = sys.executable) -> None:
        """Put a tool, which runs with `python`, on the search path of `variables`."""
        text = Path(__file__).with_name("standin_amd_smi.py").read_text()
        path = self.programs / tool
        path.write_text(f"#!{python} -S\n{text}")
        path.chmod(0o755)

    @property
    def variables(self) -> Mapping[str, str]:
        path = f"{self.programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        return {"STANDIN_AMD_STATE": str(self.state), "PATH": path}

    def write(self, *gpus: Mapping[str, Any], **others: object) -> None:
        """Replace the state of the machine, atomically."""
        new = self.state.with_suffix(".new")
        new.write_text(json.dumps({"gpus": gpus, **others}))
        new.replace(self.state)


def gpu(number: int = 0, **changes: object) -> dict[str, Any]:
    """Return a device: `gpu(0, util=80)`; None for values that it does not report."""
    uuid = f"{number:02x}ff74a1-0000-1000-8000-000000000000"
    return {**MI300X, "uuid": uuid, "hip": number, **changes}


@pytest.fixture
def amd(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> AmdStandin:
    """Return stand-in AMD GPUs for amd-smi, seen by this test and its child processes."""
    found = AmdStandin(tmp_path_factory.mktemp("standin"))
    found.install()
    found.write(gpu())
    for name, value in found.variables.items():
        monkeypatch.setenv(name, value)
    return found
