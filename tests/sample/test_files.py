"""The sample project's files are consistent, name their sources, and have no findings."""

from __future__ import annotations

import hashlib
import tomllib

import yaml

from tests.conftest import REPOSITORY
from tui_workbench.config.changes import file_edits
from tui_workbench.config.checks.image_names import DEFAULT_GPU_IMAGE
from tui_workbench.config.loading import load_compute, load_run_configuration

SAMPLE = REPOSITORY / "sample_project"
CONFIGURATION = SAMPLE / "aml_config"


def test_each_run_configuration_uses_the_target_of_its_name() -> None:
    names = {path.stem for path in CONFIGURATION.glob("*.runconfig")}
    assert names == {path.stem for path in CONFIGURATION.glob("*.compute")} == {"local", "docker", "gpu-box"}
    for name in names:
        configuration = load_run_configuration(str(CONFIGURATION / f"{name}.runconfig"))
        assert configuration.target == name
        assert configuration.framework == "Python"
        assert configuration.tracked_run
        assert configuration.argument_vector[0] == "$file"
        if configuration.conda_dependencies_file:
            assert (SAMPLE / configuration.conda_dependencies_file).is_file()


def test_targets_are_of_three_types() -> None:
    local, docker, box = (
        load_compute(str(CONFIGURATION / f"{name}.compute")) for name in ("local", "docker", "gpu-box")
    )
    assert (local.type, local.python_location) == ("local", "python")
    assert (docker.type, docker.nvidia_docker) == ("localdocker", False)
    assert (box.type, box.nvidia_docker, box.address) == ("remotedocker", True, "gpu-box")
    assert box.base_docker_image == DEFAULT_GPU_IMAGE
    assert box.password == "", "an example must not teach to put a password here"


def test_checks_have_no_findings() -> None:
    files = file_edits.configuration_files(str(SAMPLE))
    assert len(files) == 7
    assert file_edits.check(files) == []


def test_packages_are_those_of_the_train_extra() -> None:
    dependencies = yaml.safe_load((CONFIGURATION / "conda_dependencies.yml").read_text())["dependencies"]
    (pip,) = (entry["pip"] for entry in dependencies if isinstance(entry, dict))
    extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert pip == extras["train"]
    assert set(extras["train"]) <= set(extras["test"])


def test_data_has_the_documented_checksum() -> None:
    readme = (SAMPLE / "data" / "readme.md").read_text()
    assert hashlib.sha256((SAMPLE / "data" / "digits.csv.gz").read_bytes()).hexdigest() in readme
    assert "creativecommons.org/licenses/by/4.0" in readme
    assert "UCI Machine Learning Repository" in readme
