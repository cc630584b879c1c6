"""Compare the time to build an environment of ten packages with that of `python -m venv` and `pip install`.

The packages come from an index on this machine, so that the network is not measured. Each round starts with empty
caches. A second measurement uses the existing environment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

from benchmarks.harness import SECONDS, check, compare, environment, finish, measure, percentile, python
from tests.package_index import PackageIndex, package_index

ROUNDS = 4
COLD_LIMIT, CACHED_LIMIT = 0.5, 0.2
"""Limits with empty caches and with the existing environment, as multiples of venv and pip."""
PACKAGES = tuple(f"tinypackage{number}" for number in range(10))


def main() -> int:
    with tempfile.TemporaryDirectory() as name, package_index(Path(name) / "index", "127.0.0.1") as index:
        for package in PACKAGES:
            index.add(package, "1.0")
        plain = {key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "UV_"))}
        with mock.patch.dict(os.environ, plain, clear=True):
            _measure(Path(name), index)
    return finish()


def _measure(folder: Path, index: PackageIndex) -> None:
    project = _project(folder / "project")
    home = folder / "home"
    changes = environment({"HOME": str(home), "PIP_INDEX_URL": index.url, "UV_CACHE_DIR": str(home / "uv")})
    prepare = [python(), "-P", "-m", "tui_workbench", "experiment", "prepare", "-c", "local", "--project", str(project)]

    def run(command: list[str]) -> None:
        subprocess.run(command, env=changes, check=True, capture_output=True)

    def ours() -> None:
        shutil.rmtree(home, ignore_errors=True)
        run(prepare)

    def theirs() -> None:
        shutil.rmtree(home, ignore_errors=True)
        shutil.rmtree(folder / "venv", ignore_errors=True)
        run([python(), "-m", "venv", str(folder / "venv")])
        run([str(folder / "venv/bin/pip"), "install", "--disable-pip-version-check", *PACKAGES])

    cold = compare(
        "environment of ten packages, cold",
        ours,
        theirs,
        limit=COLD_LIMIT,
        rounds=ROUNDS,
        baseline_name="venv + pip",
        unit=SECONDS,
    )
    run(prepare)
    times = [measure(lambda: run(prepare)) for _ in range(2 * ROUNDS)]
    baseline = percentile(cold.baseline, 50)
    check("the same, already built", percentile(times, 50), CACHED_LIMIT * baseline, SECONDS, note="venv + pip above")


def _project(root: Path) -> Path:
    configuration = root / "aml_config"
    configuration.mkdir(parents=True)
    (configuration / "local.compute").write_text(
        f"type: local\nuserManagedEnvironment: false\npythonLocation: {python()}\n"
    )
    (configuration / "local.runconfig").write_text("Target: local\nFramework: Python\nPrepareEnvironment: true\n")
    lines = ["dependencies:", "  - pip:", *(f"    - {package}" for package in PACKAGES)]
    (configuration / "conda_dependencies.yml").write_text("\n".join(lines) + "\n")
    return root


if __name__ == "__main__":
    sys.exit(main())
