"""Facts from the other files of a project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.config.documents import document, in_project, project
from tui_workbench.config.checks.images import wants_gpu
from tui_workbench.config.checks.project_context import ProjectContext

FILES = {
    "gpu__compute": "type: remotedocker\naddress: h\nbaseDockerImage: microsoft/mmlspark:plus-gpu-0.9.9\n",
    "gpu__runconfig": "Target: gpu\nFramework: Python\nArgumentVector: [train.py]\n",
    "local__compute": "type: local\n",
    "local__runconfig": "Target: local\nCondaDependenciesFile: env.yml\n",
    "broken__compute": "type: 'x\n",
    "broken__runconfig": "Target: [",
}


@pytest.mark.parametrize("name", ["aml_config/a.compute", "environment.yml", "deep/down/environment.yml"])
def test_file_belongs_to_the_nearest_project_above(tmp_path: Path, name: str) -> None:
    root = project(tmp_path / "project", **FILES)
    found = ProjectContext.of(str(root / name))
    assert found is not None
    assert found.root == str(root)
    assert ProjectContext.of(str(tmp_path / name)) is None


def test_users_of_each_target_are_known(tmp_path: Path) -> None:
    context = ProjectContext(str(project(tmp_path, **FILES)))
    assert context.names(".compute") == ["broken", "gpu", "local"]
    assert [target.name for target in context.targets()] == ["gpu", "local"]
    gpu = context.target("gpu")
    assert gpu is not None
    assert (wants_gpu(gpu), gpu.nvidia_docker) == (True, False)
    assert context.target("broken") is None
    assert context.target("../x") is None
    assert [one.name for one in context.configurations_of("gpu")] == ["gpu"]
    assert [one.name for one in context.users_of(str(tmp_path / "env.yml"))] == ["local"]
    assert [one.name for one in context.users_of(str(tmp_path / "aml_config/conda_dependencies.yml"))] == ["gpu"]
    configuration = context.configuration("gpu")
    assert configuration is not None
    assert (configuration.framework, configuration.script) == ("Python", "train.py")


def test_change_on_disk_is_noticed(tmp_path: Path) -> None:
    context = ProjectContext(str(project(tmp_path, **FILES)))
    assert context.target("local") is not None
    path = tmp_path / "aml_config" / "local.compute"
    path.write_text("type: local\nnvidiaDocker: true\n")
    target = context.target("local")
    assert target is not None
    assert target.nvidia_docker
    path.unlink()
    assert context.target("local") is None


def test_unsaved_text_takes_precedence(tmp_path: Path) -> None:
    context = ProjectContext(str(project(tmp_path, **FILES)))
    path = os.path.join(tmp_path, "aml_config", "local.compute")
    context.show_unsaved(path, "type: remote\naddress: h\n")
    target = context.target("local")
    assert target is not None
    assert target.type == "remote"
    context.show_unsaved(path, "type: [")
    assert context.target("local") is None
    context.show_unsaved(path, None)
    target = context.target("local")
    assert target is not None
    assert target.type == "local"


def test_scripts_that_use_spark_are_recognized(tmp_path: Path) -> None:
    context = ProjectContext(str(project(tmp_path, **FILES)))
    assert context.uses_spark() is None
    (tmp_path / "plain.py").write_text("import torch  # no sparkle\n")
    assert context.uses_spark() is False
    (tmp_path / "spark.py").write_text("from pyspark.sql import SparkSession\n")
    assert context.uses_spark() is True
    assert context.uses_spark("plain.py") is False
    assert context.uses_spark("spark.py") is True
    assert context.uses_spark("none.py") is None
    assert context.uses_spark("script.sh") is None


def test_notebooks_and_folders_are_searched(tmp_path: Path) -> None:
    context = ProjectContext(str(project(tmp_path, **FILES, **{"jobs/plain.py": "import torch.nn, os"})))
    assert context.uses_spark() is False
    notebook = tmp_path / "jobs" / "spark.ipynb"
    notebook.write_text('{"cells": [{"source": ["from pyspark import SparkContext\\n", "import numpy"]}]}')
    assert context.uses_spark() is True
    assert context.imported_modules() == {"torch", "pyspark", "numpy"}


def test_missing_folder_is_empty(tmp_path: Path) -> None:
    context = ProjectContext(str(tmp_path / "none"))
    assert context.names(".compute") == []
    assert context.targets() == []
    assert context.configurations() == []
    assert context.uses_spark() is None
    assert not context.exists("x")


CONDA_TEXT = "name: project_environment\ndependencies:\n- python=3.5.2\n"


def test_run_configuration_decides_the_kind_of_dependency_file(tmp_path: Path) -> None:
    project(
        tmp_path,
        a__runconfig=(
            "Target: t\nCondaDependenciesFile: aml_config/myspark_conda_dependencies.yml\n"
            "SparkDependenciesFile: aml_config/conda_for_spark.yml\n"
        ),
        myspark_conda_dependencies__yml=CONDA_TEXT,
        conda_for_spark__yml="{}\n",
        spark_packages__yml=CONDA_TEXT,
    )
    kinds = {name: in_project(tmp_path, name).kind.name for name in os.listdir(tmp_path / "aml_config")}
    assert kinds["myspark_conda_dependencies.yml"] == "conda"
    assert kinds["conda_for_spark.yml"] == "spark"
    # Nothing refers to this file, so its content decides.
    assert kinds["spark_packages.yml"] == "conda"
    assert [one.code for one in in_project(tmp_path, "myspark_conda_dependencies.yml").problems()] == []


def test_kind_of_dependency_file_follows_content_then_name() -> None:
    assert document(CONDA_TEXT, "myspark_conda_dependencies.yml").kind.name == "conda"
    assert document("configuration: {}\n", "conda.yml").kind.name == "spark"
    assert document("", "myspark_conda_dependencies.yml").kind.name == "conda"
    assert document("", "spark.yml").kind.name == "spark"
