"""Runs of notebooks, with real kernels."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults.support import Workbench, is_running, until
from tests.notebooks import PIXEL, markdown, notebook
from tests.targets.remote_project import Remote
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.model import ComputeTarget, RunConfiguration, RunSpec
from tui_workbench.targets.base.run_environment import NOTEBOOK_LAUNCHER, describe_launcher, script_command
from tui_workbench.targets.values import SDK_FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.processes

TRAIN = f"""\
import base64, os, subprocess, sys
from IPython.display import Image
import workbench
print("arguments", sys.argv, flush=True)
print("folder", os.path.samefile(os.getcwd(), os.environ["WORKBENCH_RUN_DIRECTORY"] + "/work"), file=sys.stderr)
subprocess.run(["echo", "from a program"], stdout=sys.stdout)
workbench.log("loss", 0.25)
Image(data=base64.b64decode("{PIXEL}"))
"""


@pytest.fixture
def here(project_root: Path) -> Iterator[Workbench]:
    path = project_root / "aml_config" / "local.runconfig"
    path.write_text(path.read_text().replace("TrackedRun: false", "TrackedRun: true"))
    workbench = Workbench(project_root)
    yield workbench
    workbench.cancel_active()


def executed(run: Path) -> list[dict[str, Any]]:
    """Return the cells of the executed notebook."""
    cells: list[dict[str, Any]] = json.loads((run / "outputs" / "train.ipynb").read_text())["cells"]
    return cells


def test_notebook_runs_like_a_script_and_keeps_its_outputs(here: Workbench) -> None:
    # The notebook names a kernel that does not exist: the Python of the target is used.
    kernel = {"name": "other", "display_name": "Other", "language": "python"}
    text = notebook(markdown("# Training"), TRAIN, "6 * 7", kernelspec=kernel)
    here.write(text, "train.ipynb")
    result = here.submit("train.ipynb", "--epochs", "{connection_file}")
    assert result.code == 0, result
    run_id = result.out.split()[1]
    run = here.run_directory(run_id)
    log = (run / "output.log").read_text()
    for line in ("arguments ['train.ipynb', '--epochs', '{connection_file}']", "folder True", "from a program",
                 "image: outputs/train_files/01.png", "42"):  # fmt: skip
        assert f"{line}\n" in log
    assert '"loss"' in (run / "metrics.jsonl").read_text()
    assert (run / "outputs" / "train_files" / "01.png").read_bytes() == base64.b64decode(PIXEL)
    _, train, product = executed(run)
    assert [output["output_type"] for output in train["outputs"]][-1] == "execute_result"
    assert "".join(product["outputs"][0]["data"]["text/plain"]) == "42"
    assert (here.folder / "train.ipynb").read_text() == text


def test_error_in_a_cell_is_the_reason_of_the_run(here: Workbench) -> None:
    here.write(
        notebook("print('first')", "def f():\n    raise ValueError('bad shape')\nf()", "print('never')"), "train.ipynb"
    )
    result = here.submit("train.ipynb")
    assert result.code == 1
    run_id = result.out.split()[1]
    assert here.info(run_id)["reason"] == "ValueError: bad shape (exit code 1)"
    log = here.log(run_id)
    assert log.endswith("Traceback (most recent call last):\n  In cell [2] of train.ipynb\nValueError: bad shape\n")
    assert "first\n" in log
    assert "never" not in log
    first, bad, never = executed(here.run_directory(run_id))
    assert bad["outputs"][0]["ename"] == "ValueError"
    assert (first["execution_count"], never["execution_count"], never["outputs"]) == (1, None, [])


SLEEP = notebook("import os, time\nprint('kernel', os.getpid(), flush=True)\ntime.sleep(600)")


def test_cancel_ends_the_kernel(here: Workbench) -> None:
    here.write(SLEEP, "train.ipynb")
    run_id = here.detach("train.ipynb")
    until(lambda: "kernel " in here.log(run_id), "the kernel to start")
    kernel = int(here.log(run_id).split("kernel ")[1].split()[0])
    assert is_running(kernel)
    assert here.run("experiment", "cancel", "--run", run_id).code == 0
    assert here.status(run_id) == "Canceled"
    assert not is_running(kernel)


def test_signal_reaches_the_kernel_and_the_notebook_is_kept(tmp_path: Path) -> None:
    (tmp_path / "train.ipynb").write_text(SLEEP)
    launcher = [sys.executable, f"{SDK_FOLDER}/{NOTEBOOK_LAUNCHER}", "train.ipynb"]
    variables = {**os.environ, "WORKBENCH_OUTPUTS_DIRECTORY": str(tmp_path / "outputs")}
    with subprocess.Popen(launcher, cwd=tmp_path, env=variables, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        kernel = int(process.stdout.readline().split()[1])
        process.send_signal(signal.SIGTERM)
    assert process.returncode == 128 + signal.SIGTERM
    assert not is_running(kernel)
    assert len(executed(tmp_path)) == 1


def launched(folder: Path, *cells: str) -> subprocess.CompletedProcess[str]:
    """Run a notebook without the workbench."""
    (folder / "train.ipynb").write_text(notebook(*cells))
    command = [sys.executable, f"{SDK_FOLDER}/{NOTEBOOK_LAUNCHER}", "train.ipynb"]
    variables = {**os.environ, "WORKBENCH_OUTPUTS_DIRECTORY": str(folder / "outputs")}
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)


def test_invalid_notebook_fails_without_the_frames_of_the_launcher(tmp_path: Path) -> None:
    (tmp_path / "broken.ipynb").write_text("{")
    command = [sys.executable, f"{SDK_FOLDER}/{NOTEBOOK_LAUNCHER}", "broken.ipynb"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    head, place, problem = done.stderr.splitlines()
    assert (done.returncode, head, place) == (1, "Traceback (most recent call last):", "  In broken.ipynb")
    assert problem.startswith("ValueError: broken.ipynb is not a valid notebook: ")


def test_exit_handlers_of_the_kernel_finish(tmp_path: Path) -> None:
    # jupyter_client kills a kernel that takes longer than 5 seconds to end.
    done = launched(
        tmp_path, "import atexit, time\natexit.register(lambda: (time.sleep(6), open('done', 'w').close()))"
    )
    assert (done.returncode, (tmp_path / "done").exists()) == (0, True)


def test_exit_ends_the_notebook_without_an_error(tmp_path: Path) -> None:
    done = launched(tmp_path, "print('first')\nexit()", "print('never')")
    assert (done.returncode, done.stdout) == (0, "first\n")


def test_broken_output_does_not_end_the_notebook(tmp_path: Path) -> None:
    done = launched(
        tmp_path,
        "display({'image/png': 'abc', 'text/plain': 5}, raw=True)",
        "print('after')",
    )
    assert (done.returncode, done.stdout) == (0, "5\nafter\n")


def test_python_without_nbclient_names_the_command(box: Remote) -> None:
    # The other machine has Debian's Python, without packages.
    box.write(notebook("print('never')"), "train.ipynb")
    result = box.submit("train.ipynb", configuration="box")
    assert result.code == 1
    reason = box.info(result.out.split()[1])["reason"]
    assert reason.startswith("ImportError: running a notebook needs nbclient and ipykernel")
    assert "/usr/bin/python3 -m pip install nbclient ipykernel" in reason


def test_command_names_the_launcher_and_torchrun_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.runconfig"
    path.write_text("Target: t\nProcessesPerNode: 2\n")
    configuration = RunConfiguration("a", str(path), "t", framework="Python")
    spec = RunSpec("p_1", "/run", "/p", "p", "/p", "train.ipynb", ("--rate", "1"), configuration,
                   ComputeTarget("t", "t.compute", "local"))  # fmt: skip
    assert script_command(spec, "python", "/sdk", "/run") == (
        "python", "/sdk/workbench_notebook.py", "train.ipynb", "--rate", "1"
    )  # fmt: skip
    assert describe_launcher(spec) == " under nbclient"
    with pytest.raises(ConfigurationError) as raised:
        script_command(spec._replace(run_configuration=configuration._replace(processes_per_node="2")), "p", "/s", "/r")
    assert "cannot run the notebook train.ipynb" in raised.value.message
    assert raised.value.line == 2
