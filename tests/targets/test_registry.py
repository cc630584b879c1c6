"""Target types from other packages, from the file to the end of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.support import Installed
from tests.runs.support import write_configuration, write_files
from tests.targets.fake_package import installed as installed
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.model import ComputeTarget, Problem
from tui_workbench.projects.project import Project
from tui_workbench.targets.local.local_target import LocalTarget
from tui_workbench.targets.registry import target_for

TARGET = ComputeTarget(name="box", path="/p/aml_config/box.compute", type="local")


def test_built_in_types_need_no_entry_point() -> None:
    assert isinstance(target_for(TARGET), LocalTarget)


@pytest.mark.usefixtures("installed")
def test_installed_type_is_found_by_name() -> None:
    assert type(target_for(TARGET._replace(type="quantum"))).__name__ == "FakeTarget"


@pytest.mark.parametrize("kind", ["quantum", "", "Local"])
def test_unsupported_type_is_reported_with_its_file(kind: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        target_for(TARGET._replace(type=kind))
    assert raised.value.file == TARGET.path
    assert raised.value.remedy


def test_target_with_a_problem_cannot_run() -> None:
    problem = Problem(TARGET.path, 3, 7, "error", "unusable", "it is broken", "Mend it.")
    with pytest.raises(ConfigurationError) as raised:
        target_for(TARGET._replace(problem=problem))
    assert str(raised.value) == f"{TARGET.path}:3:7: it is broken. Mend it."


def test_type_is_valid_only_while_installed(project_root: Path, installed: Path) -> None:
    write_configuration(project_root, "q", suffix="compute", type="quantum", qubits=3)
    assert Project.find(str(project_root)).target("q").values["qubits"] == 3
    elsewhere = Installed(project_root)
    (row,) = json.loads(elsewhere.run("computetarget", "list", "--query", "[?name=='q']").out)
    assert "'quantum'" in row["problem"]


def test_run_on_an_installed_type_completes(project_root: Path, installed: Path) -> None:
    write_configuration(project_root, "q", suffix="compute", type="quantum")
    write_configuration(project_root, "q", Target="q")
    write_files(project_root, {"script": json.dumps({"output": "from a fake\n", "exit_code": 5})})
    workbench = Installed(project_root, {"PYTHONPATH": str(installed)})
    result = workbench.submit("script", configuration="q")
    assert result.out.endswith("\nfrom a fake\n"), result
    assert result.code == 5
    (record,) = workbench.history()
    assert (record["status"], record["target"]) == ("Failed", "q")


@pytest.mark.processes
def test_run_on_an_installed_type_can_be_canceled(project_root: Path, installed: Path) -> None:
    write_configuration(project_root, "q", suffix="compute", type="quantum")
    write_configuration(project_root, "q", Target="q")
    write_files(project_root, {"script": json.dumps({"output": "begun\n", "waits": True})})
    workbench = Installed(project_root, {"PYTHONPATH": str(installed)})
    follower = workbench.start("experiment", "submit", "-c", "q", "script")
    assert follower.stdout is not None
    run_id = follower.stdout.readline().split()[1].decode()
    assert follower.stdout.readline() == b"begun\n"
    assert workbench.run("experiment", "cancel", "--run", run_id).code == 0
    follower.communicate(timeout=120)
    assert follower.returncode == 130
    assert workbench.info(run_id)["status"] == "Canceled"
