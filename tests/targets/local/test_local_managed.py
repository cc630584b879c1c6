"""Local runs in environments built from the conda dependencies file, without conda."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conda_channel import CondaChannel
from tests.package_index import PackageIndex, package_index
from tests.targets.docker_project import DockerProject, events, log
from tests.waiting import wait_until
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.model import RunRequest
from tui_workbench.runs.cleanup import Cleanup
from tui_workbench.runs.submission.planning import prepare_environment
from tui_workbench.targets.values import Report

pytestmark = pytest.mark.processes

VERSION = ".".join(map(str, sys.version_info[:3]))
SHOWS = "import sys, tinylib; print(tinylib.VERSION, sys.prefix)"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_")):
            monkeypatch.delenv(name)
    with package_index(tmp_path / "index", "127.0.0.1") as made:
        monkeypatch.setenv("PIP_INDEX_URL", made.url)
        made.add("tinylib", "1.0")
        made.add("tinydep", "1.0")
        yield made


@pytest.fixture
def channel(tmp_path: Path) -> CondaChannel:
    made = CondaChannel(tmp_path / "channel")
    made.add_python(VERSION)
    made.add("tinytool", "1.0", {"share/tool.txt": "made"}, depends=["tinybase >=2"])
    made.add("tinybase", "1.0", {"share/base.txt": "one"})
    made.add("tinybase", "2.0", {"share/base.txt": "two"})
    return made


@pytest.fixture
def project(tmp_path: Path) -> DockerProject:
    made = DockerProject(tmp_path / "project")
    (made.configuration / "docker.compute").write_text(
        f"type: local\nuserManagedEnvironment: false\npythonLocation: {sys.executable}\n"
    )
    return made


def test_pip_packages_are_added_to_the_interpreters_packages(project: DockerProject, index: PackageIndex) -> None:
    project.packages("tinylib", conda=("python>=3.8",))
    run = project.run(SHOWS)
    version, prefix = log(run).split(maxsplit=1)
    assert (run.state, version) == ("completed", "1.0"), run
    assert Path(prefix.strip()).parent.name == "environments"
    assert Path(run.interpreter).is_relative_to(prefix.strip())


def test_environment_is_built_once_and_is_first_on_path(project: DockerProject, index: PackageIndex) -> None:
    project.packages("tinylib")
    project.run(SHOWS)
    asked = len(index.asked)
    run = project.run("import shutil, sys, os; print(shutil.which('python'), sys.prefix, os.environ['VIRTUAL_ENV'])")
    program, prefix, variable = log(run).split()
    assert program == f"{prefix}/bin/python"
    assert variable == prefix
    assert len(index.asked) == asked
    assert not [event for event in events(run) if event.get("step") == "build"]


def test_conda_packages_are_installed_without_conda(
    project: DockerProject, index: PackageIndex, channel: CondaChannel
) -> None:
    project.packages("tinylib", conda=(f"python={VERSION}", "tinytool"), channels=(channel.url,))
    run = project.run(
        f"{SHOWS}; print(open(sys.prefix + '/share/tool.txt').read(), open(sys.prefix + '/share/base.txt').read())"
    )
    assert run.state == "completed", run.reason
    lines = log(run).splitlines()
    assert lines[0].startswith("1.0 ")
    assert lines[1] == "made two"


def test_missing_conda_package_is_reported_with_its_line(project: DockerProject, channel: CondaChannel) -> None:
    project.packages(conda=(f"python={VERSION}", "tinytool", "tinynone=3"), channels=(channel.url,))
    with pytest.raises(ConfigurationError, match="tinynone") as caught:
        prepare_environment(project.runs.project, "docker", "", Report())
    assert caught.value.line == 7


def test_missing_pip_package_is_reported_with_its_line(project: DockerProject, index: PackageIndex) -> None:
    project.packages("tinylib", "tinynone")
    with pytest.raises(ConfigurationError, match="tinynone") as caught:
        prepare_environment(project.runs.project, "docker", "", Report())
    assert caught.value.line == 5


def test_no_environment_if_the_interpreter_has_all_packages(project: DockerProject) -> None:
    project.packages(conda=("python>=3.8",))
    assert prepare_environment(project.runs.project, "docker", "", Report()) == sys.executable
    run = project.run("import sys; print(sys.prefix)")
    assert log(run) == f"{sys.prefix}\n"


def test_missing_environment_is_an_error_if_it_may_not_be_built(project: DockerProject, index: PackageIndex) -> None:
    project.packages("tinylib")
    project.runconfig(PrepareEnvironment=False)
    run = project.run(SHOWS)
    assert run.state == "failed"
    assert "is not prepared" in run.reason
    prepare_environment(project.runs.project, "docker", "", Report())
    assert project.run(SHOWS).state == "completed"


def test_plan_explains_why_the_environment_is_built(project: DockerProject, index: PackageIndex) -> None:
    def title() -> str:
        project.script("print(1)")
        step = project.runs.plan_details(RunRequest("docker", "train.py"))[0].step("environment")
        assert step is not None
        return step.title

    project.packages("tinylib")
    assert title().endswith("no environment has been built yet")
    prepare_environment(project.runs.project, "docker", "", Report())
    assert title().startswith("use ")
    project.packages("tinylib", "tinydep")
    assert title().endswith("conda_dependencies.yml:5: `tinydep` is new")


def test_run_can_be_canceled_while_building_its_environment(project: DockerProject, index: PackageIndex) -> None:
    project.packages("tinylib")
    index.hold()
    run = project.submit(SHOWS)
    wait_until(lambda: any(path.endswith(".whl") for path in index.asked))
    assert project.runs.cancel(run.run_id).state == "canceled"
    index.release()
    assert project.run(SHOWS).state == "completed"


def test_clean_removes_environments(project: DockerProject, index: PackageIndex) -> None:
    project.packages("tinylib")
    folder = prepare_environment(project.runs.project, "docker", "", Report())
    cleaning = Cleanup(project.runs)
    found = cleaning.find()
    assert [each.item.name for each in found if each.item] == [folder]
    assert all(not cleaning.remove(each).problem for each in found)
    assert not Path(folder).exists()
