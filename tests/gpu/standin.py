"""Stand-in GPUs: a library in place of NVIDIA's, and a program in place of nvidia-smi, both compiled from C here.

Both read their answers from a text file at each query (standin_state.h describes its format), so a test can change the
state of a GPU during a run. They test how the workbench reads the answers, not that real drivers give them.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.conftest import open_folder, require

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SOURCES = Path(__file__).parent
T4 = "util=37 mem=1024 total=15360 power=61200 limit=70000 temp=55 sm=1590 memclk=5000 throttle=0 ecc=0 name=Tesla_T4"
"""A busy device."""

REST = "util=0 mem=3 total=15360 power=9800 limit=70000 temp=31 sm=300 memclk=405 throttle=1 ecc=0 name=Tesla_T4"
"""An idle device."""


class Built(NamedTuple):
    """Folders of the compiled parts: `libraries` for LD_LIBRARY_PATH, `programs` for PATH."""

    libraries: Path
    programs: Path


class Standin:
    """The GPUs of one test. Values that a test does not set are taken from `T4`."""

    def __init__(self, state: Path, built: Built) -> None:
        self.state = state
        self.built = built
        self._lines: list[str] = []
        self.write()

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment variables with which a process sees the GPUs."""
        libraries, path = os.environ.get("LD_LIBRARY_PATH", ""), os.environ.get("PATH", os.defpath)
        return {
            "STANDIN_NVML_STATE": str(self.state),
            "LD_LIBRARY_PATH": f"{self.built.libraries}{os.pathsep}{libraries}" if libraries else
                               str(self.built.libraries),
            "PATH": f"{self.built.programs}{os.pathsep}{path}",
        }  # fmt: skip

    def write(self, *lines: str, driver: str = "driver 550.54\ncuda 12040") -> None:
        """Replace the state of the machine by these lines, atomically."""
        self._lines = [driver, *lines]
        self._write()

    def add(self, *lines: str) -> None:
        """Add lines to the state."""
        self._lines += lines
        self._write()

    def remove(self) -> None:
        """Remove the driver."""
        self.state.unlink()

    def _write(self) -> None:
        new = self.state.with_suffix(".new")
        new.write_text("".join(f"{line}\n" for line in self._lines))
        new.replace(self.state)


def gpu(index: int = 0, words: str = T4, **changes: object) -> str:
    """Return the line of a device: `gpu(0, util=80)`; None for values that it does not report."""
    values = dict(word.split("=", 1) for word in words.split())
    values |= {key: str(value) for key, value in changes.items()}
    told = " ".join(f"{key}={value}" for key, value in values.items() if value != "None")
    return f"gpu {index} GPU-{index:08d}-0000-0000-0000-000000000000 {told}"


def process(pid: int, index: int = 0, memory: object = 900, share: object = "-", kind: str = "C") -> str:
    """Return the line of a process."""
    return f"proc {index} {pid} {memory} {share} {kind}"


def build(folder: Path) -> Built:
    """Compile both stand-ins."""
    compiler = require("gcc")
    built = Built(folder / "lib", folder / "bin")
    for each in built:
        each.mkdir()
    for source, target, options in (
        (
            "standin_nvml.c",
            built.libraries / "libnvidia-ml.so.1",
            ("-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1"),
        ),
        ("standin_smi.c", built.programs / "nvidia-smi", ("-D_GNU_SOURCE",)),
    ):
        subprocess.run([compiler, "-O1", *options, "-o", str(target), str(SOURCES / source)], check=True)
    return built


@pytest.fixture(scope="session")
def standin_parts() -> Iterator[Built]:
    """Return the stand-ins, compiled once. Users of other machines can execute them."""
    with open_folder() as folder:
        yield build(folder)


@pytest.fixture
def standin(standin_parts: Built, monkeypatch: pytest.MonkeyPatch) -> Iterator[Standin]:
    """Stand-in GPUs for this test and its child processes; none at first. Users of other machines can read their state.

    The folder of the state is also for other files of the test that these users read.
    """
    with open_folder() as folder:
        found = Standin(folder / "gpus", standin_parts)
        for name, value in found.variables.items():
            monkeypatch.setenv(name, value)
        yield found
