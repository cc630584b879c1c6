"""Environments built on a real engine, with package indexes that containers can and cannot reach."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.engines import PYTHON_IMAGE
from tests.faults.support import kill_controller
from tests.package_index import PackageIndex, make_wheel, package_index
from tests.targets.docker_project import DockerProject, controller_of, log
from tests.waiting import wait_until
from tui_workbench.core.errors import ConfigurationError, UsageError
from tui_workbench.core.model import RunRequest
from tui_workbench.runs.cleanup import Cleanup
from tui_workbench.runs.submission.planning import prepare_environment
from tui_workbench.targets.values import Report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.engines import DockerEngine

SHOWS = "import tinylib, tinydep; print(tinylib.VERSION, tinydep.VERSION)"


class Listener(Report):
    """Keeps the lines of a preparation."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def line(self, text: str) -> None:
        self.lines.append(text)


def serve(folder: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    with package_index(folder, address) as index:
        for name in list(os.environ):
            if name.startswith(("PIP_", "UV_")):
                monkeypatch.delenv(name)
        monkeypatch.setenv("PIP_INDEX_URL", index.url)
        index.add("tinydep", "1.0")
        index.add("tinylib", "1.0", ["tinydep"])
        yield index


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    """Return an index that only this machine can reach."""
    yield from serve(tmp_path / "index", "127.0.0.1", monkeypatch)


@pytest.fixture
def open_index(tmp_path: Path, engine: DockerEngine, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    """Return an index that containers can reach too."""
    yield from serve(tmp_path / "index", engine.gateway, monkeypatch)


@pytest.fixture
def project(tmp_path: Path, engine: DockerEngine) -> Iterator[DockerProject]:
    yield DockerProject(tmp_path / "project", nativeSharedDirectory=str(tmp_path / "share"))
    for image in engine.docker("images", "--quiet", "--filter", "label=workbench-tui.kind=environment").split():
        engine.docker("rmi", "--force", image)
    engine.docker("volume", "rm", "--force", "workbench-tui-cache")


def prepare(project: DockerProject) -> tuple[str, list[str]]:
    """Prepare the environment; return its name and the reported lines."""
    listener = Listener()
    return prepare_environment(project.runs.project, "docker", "", listener), listener.lines


def image_title(project: DockerProject) -> str:
    """Return the title of the plan's step for the image."""
    project.script("print(1)")
    plan, unknown = project.runs.plan_details(RunRequest("docker", "train.py"))
    assert not unknown
    step = plan.step("image")
    assert step is not None
    return step.title


def test_plan_names_the_cause_of_a_build(project: DockerProject, index: PackageIndex) -> None:
    index.add("tinyother", "1.0")
    project.packages("tinylib")
    assert image_title(project).endswith("no environment has been built yet")
    name, _ = prepare(project)
    assert image_title(project) == f"use {name} (already on this machine)"
    project.packages("tinylib", "tinyother")
    assert image_title(project).endswith("conda_dependencies.yml:5: `tinyother` is new")
    project.packages()
    assert image_title(project) == f"use {PYTHON_IMAGE} (already on this machine)"


def test_matching_python_needs_no_environment(project: DockerProject) -> None:
    project.packages(conda=("python>=3.8",))
    assert prepare(project) == (PYTHON_IMAGE, [])


def test_environment_is_built_only_if_allowed(
    project: DockerProject, index: PackageIndex, engine: DockerEngine
) -> None:
    path = project.packages("tinylib")
    project.runconfig(PrepareEnvironment=False)
    with pytest.raises(ConfigurationError, match="is not prepared") as caught:
        image_title(project)
    assert caught.value.line == 4
    assert "experiment prepare -c docker" in caught.value.remedy
    run = project.run(SHOWS)
    assert run.state == "failed"
    assert "is not prepared" in run.reason
    assert engine.containers() == []
    name, _ = prepare(project)
    path.write_text(f"# a comment\n{path.read_text()}\n\n")
    assert prepare(project) == (name, [])
    assert log(project.run(SHOWS)) == "1.0 1.0\n"


def test_missing_package_is_reported_with_its_line(project: DockerProject, index: PackageIndex) -> None:
    project.packages("tinylib", "no-such-package")
    with pytest.raises(ConfigurationError, match="no-such-package") as caught:
        prepare(project)
    assert (Path(caught.value.file).name, caught.value.line) == ("conda_dependencies.yml", 5)


def test_missing_package_in_a_container_is_reported(project: DockerProject, open_index: PackageIndex) -> None:
    project.packages("tinylib", "no-such-package")
    with pytest.raises(ConfigurationError, match="no-such-package") as caught:
        prepare(project)
    assert caught.value.line == 5


@pytest.mark.parametrize("conda", [("numpy=1.13",), ("python=2.7",)])
def test_conda_packages_need_conda_in_the_image(project: DockerProject, conda: tuple[str, ...]) -> None:
    project.packages(conda=conda)
    with pytest.raises(ConfigurationError, match="needs conda") as caught:
        prepare(project)
    assert caught.value.line == 3
    assert ("List the package under `pip:`" in caught.value.remedy) == conda[0].startswith("numpy")
    assert "an image with conda" in caught.value.remedy


CONDA = """\
#!/usr/bin/python3
# Stands in for conda: records its arguments and creates the prefix, with a link to this Python.
import os, sys
prefix = sys.argv[sys.argv.index("--prefix") + 1]
os.makedirs(prefix + "/bin")
with open(prefix + "/called", "w") as file:
    file.write("\\n".join(sys.argv[1:]))
with open(prefix + "/pyvenv.cfg", "w") as file:
    file.write("home = /usr/bin\\ninclude-system-site-packages = false\\n")
os.symlink("/usr/bin/python3", prefix + "/bin/python")
print("stand-in for conda: done")
"""


def test_conda_and_pip_packages_are_installed(
    project: DockerProject, index: PackageIndex, engine: DockerEngine, tmp_path: Path
) -> None:
    """With a stand-in for conda, which records the call and solves nothing."""
    (tmp_path / "conda").write_text(CONDA)
    (tmp_path / "conda").chmod(0o755)
    engine.docker("create", "--name", "base", PYTHON_IMAGE, "sh")
    engine.docker("cp", str(tmp_path / "conda"), "base:/usr/bin/conda")
    engine.docker("commit", "base", "tests/conda:1")
    project.compute(baseDockerImage="tests/conda:1")
    project.packages("tinylib", conda=("python=3.9", "numpy=1.13"), channels=("conda-forge", "pytorch"))
    run = project.run(f"{SHOWS}; import sys; print(sys.prefix); print(open(sys.prefix + '/called').read())")
    lines = log(run).split("\n")
    assert lines[:2] == ["1.0 1.0", "/opt/workbench/env"], (run, Path(run.directory, "preparation.log").read_text())
    assert lines[2:-1] == [
        *("create", "--yes", "--quiet", "--prefix", "/opt/workbench/env"),
        *("--channel", "conda-forge", "--channel", "pytorch", "python=3.9", "numpy=1.13", "pip"),
    ]
    engine.docker("rmi", "--force", "tests/conda:1")


def test_changed_wheel_of_the_project_changes_the_environment(project: DockerProject, index: PackageIndex) -> None:
    wheels = project.root / "wheels"
    wheels.mkdir()
    make_wheel(wheels, "ours", "1.0", ["tinydep"])
    project.packages("wheels/ours-1.0-py3-none-any.whl")
    first, _ = prepare(project)
    run = project.run("import ours, tinydep; print(ours.VERSION)")
    assert log(run) == "1.0\n", run
    make_wheel(wheels, "ours", "1.0")
    assert prepare(project)[0] != first


def test_missing_wheel_and_file_options_are_refused(project: DockerProject) -> None:
    for text in ("wheels/none-1.0-py3-none-any.whl", "-r requirements.txt", "-e ."):
        project.packages(text)
        with pytest.raises(ConfigurationError) as caught:
            prepare(project)
        assert caught.value.line == 4


def test_image_has_packages_and_no_secret(
    project: DockerProject, open_index: PackageIndex, engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", open_index.url.replace("http://", "http://user:hunter2@"))
    path = project.packages("tinylib")
    path.write_text(path.read_text() + "variables:\n  GREETING: 'a \"b\" $c \\d'\n")
    name, said = prepare(project)
    assert not any("cannot reach the package index" in line for line in said)
    found = json.loads(engine.docker("image", "inspect", name))[0]
    base = json.loads(engine.docker("image", "inspect", PYTHON_IMAGE))[0]
    assert found["Config"]["Cmd"] == base["Config"]["Cmd"]
    assert not found["Config"]["Entrypoint"]
    assert found["RootFS"]["Layers"][:-1] == base["RootFS"]["Layers"]
    assert "hunter2" not in json.dumps(found) + engine.docker("history", "--no-trunc", name) + "\n".join(said)
    run = project.run(f'{SHOWS}; import os; print(os.environ["GREETING"])')
    assert log(run) == '1.0 1.0\na "b" $c \\d\n'
    layer = engine.docker("run", "--rm", name, "sh", "-c", "ls -a /workbench 2>/dev/null || echo none")
    assert layer == "none" or "uv" not in layer


def test_run_can_be_canceled_during_the_build(
    project: DockerProject, open_index: PackageIndex, engine: DockerEngine
) -> None:
    project.packages("tinylib")
    open_index.hold()
    run = project.submit(SHOWS)
    wait_until(lambda: any(path.endswith(".whl") for path in open_index.asked))
    assert "step 1/1: install 1 package with uv" in Path(run.directory, "preparation.log").read_text()
    assert "container" not in [each.item.kind for each in Cleanup(project.runs).find() if each.item]
    assert project.runs.cancel(run.run_id).state == "canceled"
    assert engine.containers() == []


def test_next_build_removes_containers_of_a_killed_one(
    project: DockerProject, open_index: PackageIndex, engine: DockerEngine
) -> None:
    project.packages("tinylib")
    open_index.hold()
    run = project.submit(SHOWS)
    wait_until(lambda: any(path.endswith(".whl") for path in open_index.asked))
    kill_controller(Path(run.directory))
    wait_until(lambda: controller_of(run) == 0)
    (container,) = engine.containers()
    assert container in [each.item.name for each in Cleanup(project.runs).find() if each.item]
    open_index.release()
    project.runs.resume()
    ended = project.ended(run)
    assert (ended.state, log(run)) == ("completed", "1.0 1.0\n"), ended
    assert engine.containers() == []


def test_runs_without_route_share_one_build(project: DockerProject, index: PackageIndex) -> None:
    project.packages("tinylib", conda=("python=3",))
    runs = [project.submit(SHOWS), project.submit(SHOWS)]
    assert [log(project.ended(run)) for run in runs] == ["1.0 1.0\n"] * 2
    said = "".join(Path(run.directory, "preparation.log").read_text() for run in runs)
    assert said.count("created the image") == 1
    assert "cannot reach the package index" in said
    assert "step 1/1: install 1 package with uv" in said
    assert " s)" in said


def test_local_target_has_nothing_to_prepare(project: DockerProject) -> None:
    (project.configuration / "here.compute").write_text("type: local\n")
    with pytest.raises(UsageError, match="nothing to prepare"):
        prepare_environment(project.runs.project, "docker", "here", Report())


def test_clean_removes_only_ended_probes(project: DockerProject, engine: DockerEngine) -> None:
    label = "workbench-tui.kind=probe"
    engine.docker("run", "--detach", "--name", "probe", "--label", label, PYTHON_IMAGE, "sleep", "600")
    engine.docker("run", "--detach", "--name", "ended", "--label", label, PYTHON_IMAGE, "true")
    engine.docker("wait", "ended")
    assert [each.item.name for each in Cleanup(project.runs).find() if each.item] == ["ended"]
    engine.docker("kill", "probe")


def test_clean_removes_environments_and_the_cache(
    project: DockerProject, index: PackageIndex, engine: DockerEngine
) -> None:
    project.packages("tinylib")
    name, _ = prepare(project)
    cleanup = Cleanup(project.runs)
    found = cleanup.find()
    assert {(each.item.kind, each.item.name) for each in found if each.item} == {
        ("environment", name), ("cache", "workbench-tui-cache"),
    }  # fmt: skip
    assert all(not cleanup.remove(each).problem for each in found)
    assert cleanup.find() == []
    assert PYTHON_IMAGE in engine.docker("images", "--format", "{{.Repository}}:{{.Tag}}").split()
