"""A request is refused if `config check` calls something in a file of the run an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.runs.support import write_configuration, write_files
from tui_workbench.config.changes import file_edits
from tui_workbench.config.checks.findings import ERROR
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.submission.planning import prepare

CONDA = "aml_config/conda_dependencies.yml"
SPARK = "aml_config/spark_dependencies.yml"
DOCKER = 'type: localdocker\nbaseDockerImage: "python:3.11"\nsharedVolumes: true\n'
REQUEST = RunRequest("local", "hello.py")


class Case(NamedTuple):
    """Files of a project; the file in which `config check` must find an error of the run."""

    files: dict[str, str]
    file: str = CONDA
    values: dict[str, Any] = {}  # noqa: RUF012 - never changed


BUILT = {"aml_config/local.compute": "type: local\nuserManagedEnvironment: false\n"}
CASES = {
    "packages are a text": Case({**BUILT, CONDA: "dependencies:\n  - pip: six\n"}),
    "packages are a folded text": Case({**BUILT, CONDA: "dependencies:\n  - pip:\n      -r x\n"}),
    "dependencies are a text": Case({**BUILT, CONDA: "dependencies: six\n"}),
    "dependencies are a map": Case({**BUILT, CONDA: "dependencies: {six: 1}\n"}),
    "the file is a list": Case({**BUILT, CONDA: "- six\n"}),
    "a key is repeated": Case({**BUILT, CONDA: "name: a\nname: b\n"}),
    "a tab": Case({**BUILT, CONDA: "dependencies:\n\t- six\n"}),
    "a second document": Case({**BUILT, CONDA: "name: a\n---\nname: b\n"}),
    "a module of Python": Case({**BUILT, CONDA: "dependencies:\n  - os\n"}),
    "requirements in a container": Case(
        {"aml_config/local.compute": DOCKER, CONDA: "dependencies:\n  - pip:\n    - -r requirements.txt\n"}
    ),
    "the project as a package": Case({**BUILT, CONDA: "dependencies:\n  - pip:\n    - -e .\n"}),
    "properties of Spark are a list": Case({SPARK: "configuration: [a]\n"}, SPARK, {"Framework": "PySpark"}),
    "a secret for Spark": Case(
        {SPARK: "configuration:\n  spark.hadoop.fs.s3a.secret.key: abc\n"}, SPARK, {"Framework": "PySpark"}
    ),
    "several nodes": Case({}, "aml_config/local.runconfig", {"Nodes": 2}),
    "torchrun with Spark": Case({}, "aml_config/local.runconfig", {"Framework": "PySpark", "ProcessesPerNode": 2}),
    "a notebook with torchrun": Case(
        {"a.ipynb": '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'},
        "aml_config/local.runconfig",
        {"ProcessesPerNode": 2, "ArgumentVector": ["a.ipynb"]},
    ),
}


def written(project: Project, case: Case) -> Path:
    root = Path(project.root)
    write_files(root, case.files)
    write_configuration(root, **case.values)
    return root


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_error_of_a_check_is_refused_with_its_place(project: Project, case: Case) -> None:
    root = written(project, case)
    findings = file_edits.check(file_edits.configuration_files(project.root))
    error = next(found for found in findings if found.severity == ERROR and found.file == str(root / case.file))
    request = REQUEST._replace(script="") if "ArgumentVector" in case.values else REQUEST
    with pytest.raises(WorkbenchError) as refused:
        prepare(project, request)
    assert (refused.value.file, refused.value.line) == (error.file, error.line) or error.message in str(refused.value)
    assert refused.value.exit_code == 3


def test_unused_file_of_packages_is_not_an_error(project: Project) -> None:
    write_files(Path(project.root), {CONDA: "dependencies:\n  - pip:\n    - -r requirements.txt\n"})
    (finding,) = (each for each in file_edits.check([f"{project.root}/{CONDA}"]) if each.code == "pip-option")
    assert finding.severity != ERROR
    assert prepare(project, REQUEST).spec.script == "hello.py"


def test_target_of_the_request_decides(project: Project) -> None:
    root = Path(project.root)
    write_files(root, {"aml_config/built.compute": BUILT["aml_config/local.compute"], CONDA: "dependencies: six\n"})
    assert prepare(project, REQUEST).spec.target.name == "local"
    with pytest.raises(WorkbenchError, match="expected a list"):
        prepare(project, REQUEST._replace(target="built"))


def test_missing_script_of_the_file_is_no_error_if_another_one_is_given(project: Project) -> None:
    write_configuration(Path(project.root), ArgumentVector=["gone.py"])
    assert prepare(project, REQUEST).spec.script == "hello.py"
