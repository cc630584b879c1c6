"""PyTorch for machines and containers of the tests, copied from the environment that runs the tests.

Nothing is downloaded. Debian's Python must have the same version as the Python that runs the tests.
"""

from __future__ import annotations

import contextlib
import ctypes.util
import functools
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tarfile
from importlib.util import cache_from_source
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import engines
from tests.conftest import require

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.engines import DockerEngine

TORCH_IMAGE = "tests/torch:1"
"""The Python image with PyTorch: 550 MB, built in seconds."""

_NOT_NEEDED = ("torch/include/", "torch/test/", "torch/share/")
_NEEDED_PROGRAM = "torch/bin/torch_shm_manager"


@functools.cache
def torch_files() -> Sequence[tuple[str, str]]:
    """Yield the files of PyTorch and its dependencies: the path on the Python path, and the path here.

    This includes the compiled modules that exist here: compiling them in each process takes many seconds.
    """
    names: list[str] = ["torch"]
    for name in names:
        for requirement in importlib.metadata.requires(name) or ():
            other = re.split(r"[ ;<>=!~\[(]", requirement)[0]
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                if "extra ==" not in requirement and importlib.metadata.distribution(other) and other not in names:
                    names.append(other)
    found: list[tuple[str, str]] = []
    for name in names:
        distribution = importlib.metadata.distribution(name)
        for file in distribution.files or ():
            path = str(file)
            is_needed = not path.startswith((*_NOT_NEEDED, "..")) and "__pycache__" not in path
            if is_needed and (not path.startswith("torch/bin/") or path == _NEEDED_PROGRAM):
                found += _with_compiled(path, str(distribution.locate_file(file)))
    return found


def _with_compiled(path: str, source: str) -> Iterator[tuple[str, str]]:
    yield path, source
    if path.endswith(".py") and os.path.exists(compiled := cache_from_source(source)):
        yield cache_from_source(path), compiled


def require_same_python() -> None:
    """Skip the test if Debian's Python has another version than this one."""
    done = subprocess.run([require("/usr/bin/python3"), "--version"], capture_output=True, text=True, check=True)
    here = f"{sys.version_info.major}.{sys.version_info.minor}."
    if not done.stdout.removeprefix("Python ").startswith(here):
        pytest.skip(f"/usr/bin/python3 is {done.stdout.strip()}, and PyTorch is here for {here}x only")


def lay_out(folder: Path) -> None:
    """Copy PyTorch to a folder for PYTHONPATH that all users can read, with the C++ library, which images may lack."""
    for path, source in torch_files():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, place)
        except OSError:
            shutil.copy2(source, place)  # compiled modules are valid only for this modification time
    shutil.copy(_library("stdc++"), folder / "torch" / "lib")


def _library(name: str) -> str:
    """Return the path of a shared library of this machine."""
    file = ctypes.util.find_library(name)
    listing = subprocess.run([require("/sbin/ldconfig"), "-p"], capture_output=True, text=True, check=True).stdout
    found = re.search(rf"^\t{re.escape(file or name)} .*=> (\S+)$", listing, re.MULTILINE)
    assert found, f"no library {name}"
    return found[1]


def load_torch_image(engine: DockerEngine) -> None:
    """Load TORCH_IMAGE into an engine."""
    packages = (*engines.TOOLS, *engines.python_packages(), "libstdc++6")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    command = [require("docker"), "--host", f"unix://{engine.socket}", "import", "-", TORCH_IMAGE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as importing:
        assert importing.stdin is not None
        with tarfile.open(fileobj=importing.stdin, mode="w|") as archive:
            engines.add_packages(archive, packages)
            for path, source in torch_files():
                archive.add(source, f"usr/local/lib/python{version}/dist-packages/{path}", recursive=False)
    assert importing.returncode == 0
