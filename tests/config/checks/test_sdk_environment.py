"""A run configuration in the SDK's form is followed, or refused with the conflicting key."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.documents import in_project, project
from tests.conftest import corpus
from tui_workbench.config.loading import load_run_configuration
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.model import RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.submission.planning import prepare

LOCAL = "type: local\n"
OWN = "type: local\nuserManagedEnvironment: false\n"
DOCKER = "type: localdocker\nbaseDockerImage: i:1\n"
GPU = f"{DOCKER}nvidiaDocker: true\n"
COPIED = f"{DOCKER}sharedVolumes: false\n"
CONDA = "dependencies:\n- numpy\n"


def conflicts(root: Path) -> list[str]:
    return [one.key for one in in_project(root, "a.runconfig").problems() if one.code == "target-conflict"]


def refusal(root: Path) -> str:
    """Return the error of a submit; "" if it accepts the configuration."""
    opened = Project(str(root))
    try:
        opened.target_of(opened.run_configuration("a"))
    except ConfigurationError as error:
        return f"{error.message} / {error.remedy}"
    return ""


def sdk(section: str, *lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"script: train.py\ntarget: box\nframework: Python\nenvironment:\n  {section}:\n{body}"


@pytest.mark.parametrize(
    ("compute", "section", "line", "said"),
    [
        (
            LOCAL,
            "docker",
            "enabled: true",
            "`environment.docker.enabled` is true, but the target box runs scripts without Docker / Set "
            "`environment.docker.enabled: false` or set `target` to a `localdocker` or `remotedocker` target.",
        ),
        (DOCKER, "docker", "enabled: true", ""),
        (DOCKER, "docker", "enabled: no", "`environment.docker.enabled` is false, but the target box runs scripts in"),
        (LOCAL, "docker", "enabled: false", ""),
        (LOCAL, "docker", "baseImage: other:2", ""),
        (DOCKER, "docker", "baseImage: i:1", ""),
        (DOCKER, "docker", "baseImage: other:2", "`environment.docker.baseImage` is other:2, but the target box uses"),
        (DOCKER, "docker", "sharedVolumes: true", ""),
        (COPIED, "docker", "sharedVolumes: true", "`environment.docker.sharedVolumes` is true, but the target box co"),
        (DOCKER, "docker", "sharedVolumes: false", "`environment.docker.sharedVolumes` is false, but the target box m"),
        (DOCKER, "docker", "gpuSupport: true", "`environment.docker.gpuSupport` is true, but the target box gives its"),
        (GPU, "docker", "gpuSupport: true", ""),
        (GPU, "docker", "gpuSupport: false", "`environment.docker.gpuSupport` is false, but the target box gives"),
        (DOCKER, "docker", "baseImageRegistry: {address: r.io}", "`environment.docker.baseImageRegistry.address` is r"),
        (LOCAL, "python", "userManagedDependencies: true", ""),
        (OWN, "python", "userManagedDependencies: false", ""),
        (LOCAL, "python", "userManagedDependencies: false", "`environment.python.userManagedDependencies` is false"),
        (OWN, "python", "userManagedDependencies: true", "`environment.python.userManagedDependencies` is true, but"),
        (DOCKER, "python", "userManagedDependencies: false", ""),
        (DOCKER, "python", "userManagedDependencies: true", "`environment.python.userManagedDependencies` is true, b"),
        (LOCAL, "python", "interpreterPath: python", ""),
    ],
)
def test_check_and_submit_refuse_keys_that_contradict_target(
    tmp_path: Path, compute: str, section: str, line: str, said: str
) -> None:
    project(tmp_path, box__compute=compute, a__runconfig=sdk(section, line), conda_dependencies__yml=CONDA)
    assert refusal(tmp_path).startswith(said)
    assert bool(refusal(tmp_path)) == bool(said)
    assert [f"`{key}`" for key in conflicts(tmp_path)] == ([said.partition(" ")[0]] if said else [])


def test_interpreter_must_be_that_of_the_target(tmp_path: Path) -> None:
    own = sdk("python", "userManagedDependencies: true", "interpreterPath: /opt/venv/bin/python")
    project(tmp_path, box__compute=LOCAL, a__runconfig=own)
    assert conflicts(tmp_path) == ["environment.python.interpreterPath"]
    project(tmp_path, box__compute=f"{LOCAL}pythonLocation: /opt/venv/bin/python\n")
    assert refusal(tmp_path) == ""
    assert conflicts(tmp_path) == []


def test_fix_is_suggested_but_not_applied_automatically(tmp_path: Path) -> None:
    project(tmp_path, box__compute=GPU, a__runconfig=sdk("docker", "enabled: false"))
    editing = in_project(tmp_path, "a.runconfig")
    (finding,) = (one for one in editing.problems() if one.code == "target-conflict")
    assert finding.fix is not None
    assert finding.fix.is_choice
    editing.apply(finding.fix)
    assert editing.text == sdk("docker", "enabled: true")


@pytest.mark.corpus
def test_docker_configurations_of_the_sdk_are_refused_on_local(tmp_path: Path) -> None:
    paths = sorted((corpus() / "mnist").glob("*-docker.runconfig"))
    assert len(paths) == 5
    for path in paths:
        project(tmp_path, local__compute=LOCAL, a__runconfig=path.read_text(), conda_dependencies__yml=CONDA)
        assert refusal(tmp_path).startswith("`environment.docker.enabled` is true, but the target local runs")
        compute = "type: localdocker\nbaseDockerImage: microsoft/mmlspark:plus-0.9.9\n"
        project(tmp_path, local__compute=compute)
        own = "userManagedDependencies: true" in path.read_text()
        assert ("userManagedDependencies` is true" in refusal(tmp_path)) == own
    local = next((corpus() / "mnist").glob("*-local.runconfig"))
    project(tmp_path, local__compute=LOCAL, a__runconfig=local.read_text())
    assert refusal(tmp_path) == ""


def test_refused_submit_creates_nothing(tmp_path: Path) -> None:
    project(
        tmp_path, local__compute=LOCAL, a__runconfig=sdk("docker", "enabled: true").replace("box", "local"),
        **{"train.py": ""},
    )  # fmt: skip
    with pytest.raises(ConfigurationError, match="runs scripts without Docker") as raised:
        prepare(Project(str(tmp_path)), RunRequest("a"))
    assert (raised.value.file, raised.value.line) == (str(tmp_path / "aml_config" / "a.runconfig"), 6)
    assert not (tmp_path / ".workbench").exists()


def test_errors_name_the_keys_of_the_sdk_form(tmp_path: Path) -> None:
    project(tmp_path, local__compute=LOCAL, a__runconfig="script: train.py\ntarget: local\n", **{"train.py": ""})
    with pytest.raises(ConfigurationError) as raised:
        prepare(Project(str(tmp_path)), RunRequest("a"))
    assert raised.value.message.startswith("framework is missing, which means PySpark, but ")
    assert raised.value.remedy.endswith("set `framework: Python`.")
    project(tmp_path, a__runconfig="script: train.py\ntarget: gone\nframework: Python\n")
    with pytest.raises(ConfigurationError, match="target is 'gone'") as raised:
        prepare(Project(str(tmp_path)), RunRequest("a"))
    assert raised.value.remedy == "Set target to one of: local."


def test_registry_password_is_reported_and_never_loaded(tmp_path: Path) -> None:
    text = sdk("docker", "baseImageRegistry:", "  password: hunter2hunter2")
    project(tmp_path, box__compute=DOCKER, a__runconfig=text)
    problems = in_project(tmp_path, "a.runconfig").problems()
    assert "plain-password" in [one.code for one in problems]
    assert "hunter2" not in repr(problems)
    assert "hunter2" not in repr(load_run_configuration(str(tmp_path / "aml_config" / "a.runconfig")))
