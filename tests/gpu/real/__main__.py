"""Prepare the environment of the suite, and start it.

    python3 -m tests.gpu.real OUT [--wheels FOLDER]

This interpreter runs the scripts and needs a CUDA build of PyTorch. With `--wheels`, a folder with the wheels of the
workbench's packages (`make gpu-wheels`), the workbench runs in a separate environment, which is made without pip.
Otherwise this interpreter needs these packages, too. The exit code is 1 if a check failed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]


def main() -> int:
    """Run the suite and return its exit code."""
    parser = argparse.ArgumentParser(prog="python3 -m tests.gpu.real", description="check the workbench on a real GPU")
    parser.add_argument("out", type=Path, help="a new folder for the report and the project of the checks")
    parser.add_argument("--wheels", type=Path, help="a folder with the wheels of the workbench's packages")
    options = parser.parse_args()
    out = options.out.absolute()
    python = make_environment(out / "environment", options.wheels) if options.wheels else sys.executable
    return subprocess.run([python, "-m", "tests.gpu.real.suite", str(out), sys.executable], cwd=REPOSITORY).returncode


def make_environment(folder: Path, wheels: Path) -> str:
    """Make an environment from wheels without pip, and return its interpreter."""
    venv.EnvBuilder(symlinks=True).create(folder)
    site = next((folder / "lib").glob("python*/site-packages"))
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
    (site / "workbench.pth").write_text(f"{REPOSITORY}\n", encoding="utf-8")
    return str(folder / "bin" / "python")


if __name__ == "__main__":
    sys.exit(main())
