"""Completion of values."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.documents import project
from tui_workbench.config.checks.image_names import DEFAULT_GPU_IMAGE
from tui_workbench.config.checks.project_context import ProjectContext
from tui_workbench.config.checks.suggestions import suggestions
from tui_workbench.config.schema import fields
from tui_workbench.config.schema.field_types import FileKind


@pytest.fixture
def context(tmp_path: Path) -> ProjectContext:
    root = project(
        tmp_path,
        gpu__compute="type: localdocker\nbaseDockerImage: mine/train:3\n",
        local__compute="type: local\n",
        conda_dependencies__yml="",
        conda_gpu__yml="",
        spark_dependencies__yml="",
    )
    for path in ("data/raw", "train.py", ".venv/bin/python"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("")
    return ProjectContext(str(root))


def values(
    kind: FileKind, key: str, typed: str, context: ProjectContext | None, used: tuple[str, ...] = ()
) -> list[str]:
    field = kind.field(key)
    assert field is not None
    return [one.value for one in suggestions(field, typed, context, used)]


def test_choices_and_booleans_are_completed() -> None:
    assert values(fields.RUNCONFIG, "Framework", "", None) == ["Python", "PySpark"]
    assert values(fields.RUNCONFIG, "Framework", "pys", None) == ["PySpark"]
    assert values(fields.COMPUTE, "nvidiaDocker", "t", None) == ["true"]
    assert values(fields.COMPUTE, "username", "", None) == []
    assert values(fields.COMPUTE, "gpus", "f", None) == ["free"]
    assert values(fields.RUNCONFIG, "ProcessesPerNode", "", None) == ["gpus", "2", "4", "8"]


def test_options_of_slurm_are_completed_from_targets(tmp_path: Path) -> None:
    clusters = {
        "a__compute": "type: slurm\nslurm: {partition: gpu, time: 12:00:00, gpus: 4}\n",
        "b__compute": "type: slurm\nslurm: {partition: long}\n",
    }
    context = ProjectContext(str(project(tmp_path, **clusters)))
    assert values(fields.RUNCONFIG, "Slurm.partition", "", context) == ["gpu", "long"]
    assert values(fields.COMPUTE, "slurm.partition", "lo", context) == ["long"]
    assert values(fields.COMPUTE, "slurm.time", "", context) == ["12:00:00", "4:00:00"]
    assert values(fields.COMPUTE, "slurm.gpus", "", context) == ["4", "1"]
    assert values(fields.COMPUTE, "slurm.requeue", "", context) == ["true", "false"]
    assert values(fields.COMPUTE, "container", "", context) == ["none", "pyxis", "apptainer", "oci"]


def test_targets_of_the_project_are_completed(context: ProjectContext) -> None:
    assert values(fields.RUNCONFIG, "Target", "", context) == ["gpu", "local"]
    assert values(fields.RUNCONFIG, "Target", "lo", context) == ["local"]
    assert values(fields.RUNCONFIG, "Target", "", None) == []


def test_images_of_the_project_precede_images_used_before(context: ProjectContext) -> None:
    found = values(fields.COMPUTE, "baseDockerImage", "", context, ("old/run:1", "mine/train:3"))
    assert found[:3] == ["mine/train:3", "old/run:1", DEFAULT_GPU_IMAGE]
    assert len(found) == len(set(found))
    # Values that begin with the typed letters come before values that only contain them.
    assert values(fields.COMPUTE, "baseDockerImage", "mi", context)[0] == "mine/train:3"
    assert values(fields.COMPUTE, "baseDockerImage", "cuda", context)[0] == DEFAULT_GPU_IMAGE


def test_dependency_files_in_any_folder_are_completed(context: ProjectContext) -> None:
    assert values(fields.RUNCONFIG, "CondaDependenciesFile", "", context)[:2] == [
        "aml_config/conda_dependencies.yml",
        "aml_config/conda_gpu.yml",
    ]
    assert values(fields.RUNCONFIG, "SparkDependenciesFile", "aml_config/s", context) == [
        "aml_config/spark_dependencies.yml"
    ]


def test_paths_are_completed_folder_by_folder(context: ProjectContext) -> None:
    assert values(fields.COMPUTE, "nativeSharedDirectory", "da", context) == ["data/"]
    assert values(fields.SDK_RUNCONFIG, "script", "tr", context) == ["train.py"]
    assert values(fields.SDK_RUNCONFIG, "script", "none/", context) == []


def test_interpreters_are_completed(
    context: ProjectContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, home: Path
) -> None:
    folder = tmp_path / "path"
    folder.mkdir()
    (folder / "python3.11").write_text("")
    (folder / "python3.11").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{tmp_path / 'none'}")
    environment = tmp_path / "conda" / "train" / "bin"
    environment.mkdir(parents=True)
    (environment / "python").write_text("")
    (home / ".conda").mkdir()
    (home / ".conda" / "environments.txt").write_text(f"{environment.parent}\n/gone\n")
    found = values(fields.COMPUTE, "pythonLocation", "python", context)
    assert found[0] == "python"
    assert f"{context.root}/.venv/bin/python" in found
    assert str(folder / "python3.11") in found
    assert str(environment / "python") in found
