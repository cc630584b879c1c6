"""Checks of `ProcessesPerNode`: a valid number, enough GPUs, and PyTorch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.documents import document, in_project, project
from tests.notebooks import notebook
from tui_workbench.config.checks.findings import ERROR, WARNING
from tui_workbench.config.loading import load_run_configuration
from tui_workbench.core.errors import ConfigurationError

LOCAL = "type: local\npythonLocation: python3\n"
DOCKER = "type: localdocker\nbaseDockerImage: python:3.12.1\n"
CONDA = "name: x\ndependencies:\n  - python=3.12\n  - pip:\n      - {}\n"


def runconfig(processes: str, target: str = "box") -> str:
    return f"Target: {target}\nFramework: Python\nPrepareEnvironment: true\nProcessesPerNode: {processes}\n"


def codes(root: Path) -> list[str]:
    return [finding.code for finding in in_project(root, "box.runconfig").problems()]


@pytest.mark.parametrize(
    ("written", "read"), [("2", "2"), ("gpus", "gpus"), ("GPUS", "gpus"), ('"8"', "8"), ("1", "1"), ("~", "")]
)
def test_value_is_a_number_or_gpus(tmp_path: Path, written: str, read: str) -> None:
    root = project(tmp_path, box__runconfig=runconfig(written))
    assert load_run_configuration(str(root / "aml_config" / "box.runconfig")).processes_per_node == read


@pytest.mark.parametrize("written", ["0", "-1", "1.5", "two", "[2]", "1000", "02", "''"])
def test_other_values_are_errors(tmp_path: Path, written: str) -> None:
    root = project(tmp_path, box__runconfig=runconfig(written))
    with pytest.raises(ConfigurationError) as raised:
        load_run_configuration(str(root / "aml_config" / "box.runconfig"))
    assert (raised.value.line, "ProcessesPerNode" in raised.value.message) == (4, True)
    (finding,) = document(runconfig(written)).problems()
    assert (finding.code, finding.severity, finding.line) == ("wrong-type", ERROR, 4)


@pytest.mark.parametrize(
    ("gpus", "processes", "found"),
    [
        ("gpus: 2", "4", ["more-processes-than-gpus"]),
        ("gpus: free", "2", ["more-processes-than-gpus"]),
        ("gpus: [0, 3]", "3", ["more-processes-than-gpus"]),
        ("gpus: [0, 3]", "2", []),
        ("gpus: all", "8", []),
        ("", "8", []),
        ("gpus: 0", "gpus", ["processes-without-gpu"]),
        ("gpus: 0", "2", []),  # gloo trains on a CPU
    ],
)
def test_processes_are_compared_with_gpus(tmp_path: Path, gpus: str, processes: str, found: list[str]) -> None:
    assert codes(project(tmp_path, box__compute=f"{LOCAL}{gpus}\n", box__runconfig=runconfig(processes))) == found


def test_container_without_gpus_has_no_gpu_processes(tmp_path: Path) -> None:
    files = {"box__runconfig": runconfig("gpus"), "conda_dependencies__yml": CONDA.format("torch==2.13.0")}
    assert codes(project(tmp_path / "without", box__compute=DOCKER, **files)) == ["processes-without-gpu"]
    asks = f"{DOCKER.replace('python:3.12.1', 'pytorch/pytorch:2.9-cuda13-runtime')}nvidiaDocker: true\n"
    assert codes(project(tmp_path / "with", box__compute=asks, **files)) == []


def test_members_of_a_group_are_checked(tmp_path: Path) -> None:
    text = runconfig("gpus").replace("PrepareEnvironment: true\n", "")
    docker = f"{DOCKER.replace('localdocker', 'remotedocker')}address: b\n"
    both = "type: group\nmembers: [a, b]\n"
    files = {"both__compute": both, "a__compute": "type: remote\naddress: a\ngpus: 2\n", "b__compute": docker}
    files["conda_dependencies__yml"] = CONDA.format("torch==2.13.0")
    root = project(tmp_path, box__runconfig=text.replace("box", "both"), **files)
    found = {each.code: each.message for each in in_project(root, "box.runconfig").problems()}
    assert found == {
        "not-prepared": "`PrepareEnvironment` is missing, which means false: a run on both fails unless its "
        "environment is already built",
        "processes-without-gpu": "`ProcessesPerNode` is gpus, but b gives its runs no GPU, so they fail",
    }


def test_more_processes_than_gpus_has_a_fix(tmp_path: Path) -> None:
    editing = in_project(
        project(tmp_path, box__compute=f"{LOCAL}gpus: 2\n", box__runconfig=runconfig("4")), "box.runconfig"
    )
    (finding,) = editing.problems()
    assert finding.fix is not None
    editing.apply(finding.fix)
    assert (editing.text, editing.problems()) == (runconfig("gpus"), [])


@pytest.mark.parametrize(("package", "found"), [("torch==2.13.0", []), ("numpy", ["no-torch"])])
def test_prepared_environment_needs_pytorch(tmp_path: Path, package: str, found: list[str]) -> None:
    files = {"box__runconfig": runconfig("2"), "conda_dependencies__yml": CONDA.format(package)}
    assert codes(project(tmp_path, box__compute=DOCKER, **files)) == found


@pytest.mark.parametrize(("system", "held", "found"), [("false", False, ["no-torch"]), ("false", True, []),
                                                       ("true", False, [])])  # fmt: skip
def test_virtual_environment_is_checked_for_torch(tmp_path: Path, system: str, held: bool, found: list[str]) -> None:
    root = project(
        tmp_path, box__compute="type: local\npythonLocation: env/bin/python\n", box__runconfig=runconfig("2")
    )
    packages = root / "env" / "lib" / "python3.12" / "site-packages"
    (packages / "torch" if held else packages).mkdir(parents=True)
    (root / "env" / "pyvenv.cfg").write_text(f"home = /usr/bin\ninclude-system-site-packages = {system}\n")
    problems = in_project(root, "box.runconfig").problems()
    assert [finding.code for finding in problems] == found
    assert all(finding.severity == WARNING and finding.line == 4 for finding in problems)


@pytest.mark.parametrize(
    ("setting", "fixed"),
    [("ProcessesPerNode: 2\n", "Framework: Python\n"), ("Framework: PySpark\n", "Framework: Python\n")],
)
def test_notebook_cannot_have_torchrun_or_spark(tmp_path: Path, setting: str, fixed: str) -> None:
    text = f"Target: box\nArgumentVector: [a.ipynb]\n{setting}"
    text += "" if "Framework" in setting else "Framework: Python\n"
    editing = in_project(
        project(tmp_path, box__compute=LOCAL, box__runconfig=text, **{"a.ipynb": notebook("x")}), "box.runconfig"
    )
    (finding,) = editing.problems()
    assert (finding.code, finding.line) == ("notebook-launcher", 3)
    assert finding.fix is not None
    editing.apply(finding.fix)
    assert (editing.text, editing.problems()) == (f"Target: box\nArgumentVector: [a.ipynb]\n{fixed}", [])


@pytest.mark.parametrize(("package", "found"), [("nbclient", []), ("jupyterlab", []), ("numpy", ["no-nbclient"])])
def test_environment_of_a_notebook_needs_nbclient(tmp_path: Path, package: str, found: list[str]) -> None:
    text = "Target: box\nFramework: Python\nPrepareEnvironment: true\nArgumentVector: [a.ipynb]\n"
    files = {"conda_dependencies__yml": CONDA.format(package), "a.ipynb": notebook("x")}
    assert codes(project(tmp_path, box__compute=DOCKER, box__runconfig=text, **files)) == found
