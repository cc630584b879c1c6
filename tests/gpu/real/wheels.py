"""Download wheels for the suite on a machine without network: `python -m tests.gpu.real.wheels FOLDER VERSION`.

VERSION is the version of Python there. The programs that only build environments are left out.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
LEFT_OUT = ("uv", "py-rattler")
OF_THE_TESTS = ("pyte>", "jsonschema>")
"""What the suite imports from the packages of the tests."""

PLATFORMS = ("manylinux1", "manylinux2014", *(f"manylinux_2_{number}" for number in range(17, 40)))


def main(folder: str, version: str) -> int:
    """Download the wheels for Linux on x86-64, and return the exit code of pip."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needs = [need for need in project["dependencies"] if not need.startswith(LEFT_OUT)]
    needs += [need for need in project["optional-dependencies"]["test"] if need.startswith(OF_THE_TESTS)]
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--implementation", "cp"]
    words += ["--python-version", version, "--dest", folder]
    words += [f"--platform={name}_x86_64" for name in PLATFORMS]
    return subprocess.run([*words, *needs]).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
