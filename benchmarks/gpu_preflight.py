"""Time that the GPU checks add to the start of a run with a known environment.

The driver is the stand-in of the tests and the framework is a small module instead of PyTorch. A real `nvidia-smi`
takes additional time.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from benchmarks.harness import compare, finish
from tests.conftest import write_project
from tests.gpu import frameworks
from tests.gpu.standin import Standin, build, gpu
from tui_workbench.core.model import RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.gpu.gate import check_gpu
from tui_workbench.runs.submission import planning


def main() -> int:
    """Run the benchmark."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        standin = Standin(folder / "gpus", build(folder))
        os.environ.update(standin.variables)
        standin.write(gpu(0))
        frameworks.torch(folder / "packages")
        root = write_project(folder / "project")
        (root / "train.py").write_text("import torch\n")
        path = root / "aml_config" / "local.runconfig"
        path.write_text(path.read_text().replace("{}", f"{{PYTHONPATH: {folder / 'packages'}}}"))
        with (root / "aml_config" / "local.compute").open("a") as file:
            file.write("gpus: all\n")
        spec = planning.prepare(Project.find(str(root)), RunRequest("local", "train.py")).spec
        assert "a matrix product was correct" in check_gpu(spec).text

        def again() -> None:
            assert check_gpu(spec).refusal is None

        def only_the_driver() -> None:
            os.system("nvidia-smi --query-gpu=name,driver_version,memory.total,uuid --format=csv,noheader >/dev/null")

        compare("before a run that asks for a GPU", again, only_the_driver, 8.0, 20, baseline_name="one nvidia-smi")
        return finish()


if __name__ == "__main__":
    sys.exit(main())
