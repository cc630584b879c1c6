"""Environments made on a real engine, from an index that containers can reach and from one that only we can."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.engines import PYTHON_IMAGE, wait_until
from tests.package_index import PackageIndex, make_wheel, package_index
from tests.targets.docker_project import DockerProject, controller_of, events, log
from tui_workbench.core.errors import ConfigurationError, UsageError
from tui_workbench.core.model import RunRequest
from tui_workbench.runs.submission.planning import prepare_environment
from tui_workbench.targets.base.values import Report

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
    """An index that only this machine can reach."""
    yield from serve(tmp_path / "index", "127.0.0.1", monkeypatch)


@pytest.fixture
def open_index(tmp_path: Path, engine: DockerEngine, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    """An index that containers can reach too."""
    yield from serve(tmp_path / "index", engine.gateway, monkeypatch)


@pytest.fixture
def project(tmp_path: Path, engine: DockerEngine) -> Iterator[DockerProject]:
    yield DockerProject(tmp_path / "project", nativeSharedDirectory=str(tmp_path / "share"))
    for image in engine.docker("images", "--quiet", "--filter", "label=workbench-tui.kind=environment").split():
        engine.docker("rmi", "--force", image)
    engine.docker("volume", "rm", "--force", "workbench-tui-cache")


def prepare(project: DockerProject) -> tuple[str, list[str]]:
    """Prepare the environment; its name and what was said meanwhile."""
    listener = Listener()
    return prepare_environment(project.runs.project, "docker", "", listener), listener.lines


def image_title(project: DockerProject) -> str:
    """What the plan says about the image."""
    project.script("print(1)")
    plan, unknown = project.runs.plan_details(RunRequest("docker", "train.py"))
    assert not unknown
    step = plan.step("image")
    assert step is not None
    return step.title


def test_packages_are_fetched_here_for_a_target_without_a_route(
    project: DockerProject, index: PackageIndex, engine: DockerEngine
) -> None:
    project.packages("tinylib", conda=("python=3",))
    run = project.run(SHOWS)
    assert log(run) == "1.0 1.0\n", (run, Path(run.directory, "preparation.log").read_text())
    said = Path(run.directory, "preparation.log").read_text()
    assert "no way to the package index" in said
    assert "step 1/1: install 1 package with uv" in said
    assert " s)" in said


def test_packages_are_fetched_there_when_there_is_a_route(project: DockerProject, open_index: PackageIndex) -> None:
    project.packages("tinylib")
    run = project.run(SHOWS)
    said = Path(run.directory, "preparation.log").read_text()
    assert log(run) == "1.0 1.0\n", said
    assert "no way" not in said


def test_an_environment_is_made_once_and_then_found_by_its_inputs(project: DockerProject, index: PackageIndex) -> None:
    path = project.packages("tinylib")
    first, _ = prepare(project)
    path.write_text(f"# a remark\n{path.read_text()}\n\n")
    again, said = prepare(project)
    assert again == first
    assert said == []
    run = project.run(SHOWS)
    assert not [event for event in events(run) if event.get("step") == "build"]


def test_the_plan_says_what_will_be_built_and_which_line_is_the_cause(
    project: DockerProject, index: PackageIndex
) -> None:
    index.add("tinyother", "1.0")
    project.packages("tinylib")
    assert image_title(project).endswith("no environment was built yet")
    name, _ = prepare(project)
    assert image_title(project) == f"use {name} (already on this machine)"
    project.packages("tinylib", "tinyother")
    assert image_title(project).endswith("conda_dependencies.yml:5: `tinyother` is new")
    project.packages()
    assert image_title(project) == f"use {PYTHON_IMAGE} (already on this machine)"


def test_a_removed_package_is_a_cause_too(project: DockerProject, index: PackageIndex) -> None:
    project.packages("tinylib", "tinydep")
    prepare(project)
    project.packages("tinylib")
    assert image_title(project).endswith("conda_dependencies.yml: `tinydep` was removed")


def test_only_a_python_that_fits_needs_no_environment(project: DockerProject) -> None:
    project.packages(conda=("python>=3.8",))
    assert prepare(project) == (PYTHON_IMAGE, [])


def test_what_is_not_prepared_is_refused_before_the_run_when_it_may_not_be_built(
    project: DockerProject, index: PackageIndex, engine: DockerEngine
) -> None:
    project.packages("tinylib")
    project.runconfig(PrepareEnvironment=False)
    with pytest.raises(ConfigurationError, match="is not prepared") as caught:
        image_title(project)
    assert caught.value.line == 4
    assert "experiment prepare -c docker" in caught.value.remedy
    run = project.run(SHOWS)
    assert run.state == "failed"
    assert "is not prepared" in run.reason
    assert engine.containers() == []
    prepare(project)
    assert log(project.run(SHOWS)) == "1.0 1.0\n"


def test_a_package_that_cannot_be_had_is_told_with_its_line(project: DockerProject, index: PackageIndex) -> None:
    project.packages("tinylib", "no-such-package")
    with pytest.raises(ConfigurationError, match="no-such-package") as caught:
        prepare(project)
    assert (Path(caught.value.file).name, caught.value.line) == ("conda_dependencies.yml", 5)


def test_so_is_one_that_cannot_be_had_over_there(project: DockerProject, open_index: PackageIndex) -> None:
    project.packages("tinylib", "no-such-package")
    with pytest.raises(ConfigurationError, match="no-such-package") as caught:
        prepare(project)
    assert caught.value.line == 5


@pytest.mark.parametrize("conda", [("numpy=1.13",), ("python=2.7",)])
def test_what_needs_conda_is_refused_where_the_image_has_none(project: DockerProject, conda: tuple[str, ...]) -> None:
    project.packages(conda=conda)
    with pytest.raises(ConfigurationError, match="needs conda") as caught:
        prepare(project)
    assert caught.value.line == 3
    assert "Move it under `pip:`" in caught.value.remedy


CONDA = """\
#!/usr/bin/python3
# Stands in for conda: notes how it was called and makes the prefix that was asked for, with a link to this Python.
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


def test_conda_packages_are_installed_by_the_image_s_conda_and_pip_s_beside_them(
    project: DockerProject, index: PackageIndex, engine: DockerEngine, tmp_path: Path
) -> None:
    """With a stand-in for conda, of which there is none to be had: it proves the call, and no solving."""
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


def test_a_wheel_of_the_project_is_installed_and_its_content_counts(
    project: DockerProject, index: PackageIndex
) -> None:
    wheels = project.root / "wheels"
    wheels.mkdir()
    make_wheel(wheels, "ours", "1.0", ["tinydep"])
    project.packages("wheels/ours-1.0-py3-none-any.whl")
    first, _ = prepare(project)
    run = project.run("import ours, tinydep; print(ours.VERSION)")
    assert log(run) == "1.0\n", run
    make_wheel(wheels, "ours", "1.0")
    assert prepare(project)[0] != first


def test_a_missing_wheel_and_options_that_name_other_files_are_refused_with_their_line(project: DockerProject) -> None:
    for text in ("wheels/none-1.0-py3-none-any.whl", "-r requirements.txt", "-e ."):
        project.packages(text)
        with pytest.raises(ConfigurationError) as caught:
            prepare(project)
        assert caught.value.line == 4


def test_the_image_is_the_base_image_with_packages_and_no_secret(
    project: DockerProject, open_index: PackageIndex, engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", open_index.url.replace("http://", "http://user:hunter2@"))
    path = project.packages("tinylib")
    path.write_text(path.read_text() + "variables:\n  GREETING: 'a \"b\" $c \\d'\n")
    name, said = prepare(project)
    found = json.loads(engine.docker("image", "inspect", name))[0]
    base = json.loads(engine.docker("image", "inspect", PYTHON_IMAGE))[0]
    assert found["Config"]["Cmd"] == base["Config"]["Cmd"]
    assert not found["Config"]["Entrypoint"]
    assert found["RootFS"]["Layers"][:-1] == base["RootFS"]["Layers"]
    assert "hunter2" not in json.dumps(found) + engine.docker("history", "--no-trunc", name) + "\n".join(said)
    run = project.run('import os; print(os.environ["GREETING"])')
    assert log(run) == 'a "b" $c \\d\n'
    layer = engine.docker("run", "--rm", name, "sh", "-c", "ls -a /workbench 2>/dev/null || echo none")
    assert layer == "none" or "uv" not in layer


def test_a_run_can_be_canceled_while_its_environment_is_made(
    project: DockerProject, open_index: PackageIndex, engine: DockerEngine
) -> None:
    project.packages("tinylib")
    open_index.hold()
    run = project.submit(SHOWS)
    wait_until(lambda: any(path.endswith(".whl") for path in open_index.asked))
    assert "step 1/1: install 1 package with uv" in Path(run.directory, "preparation.log").read_text()
    assert project.runs.cancel(run.run_id).state == "canceled"
    assert engine.containers() == []


def test_what_a_killed_build_has_left_is_removed_by_the_next(
    project: DockerProject, open_index: PackageIndex, engine: DockerEngine
) -> None:
    project.packages("tinylib")
    open_index.hold()
    run = project.submit(SHOWS)
    wait_until(lambda: any(path.endswith(".whl") for path in open_index.asked))
    os.kill(controller_of(run), signal.SIGKILL)
    wait_until(lambda: controller_of(run) == 0)
    assert len(engine.containers()) == 1
    open_index.is_held = False
    project.runs.resume()
    ended = project.ended(run)
    assert (ended.state, log(run)) == ("completed", "1.0 1.0\n"), ended
    assert engine.containers() == []


def test_two_runs_that_need_the_same_environment_build_it_once(project: DockerProject, index: PackageIndex) -> None:
    project.packages("tinylib")
    runs = [project.submit(SHOWS), project.submit(SHOWS)]
    assert [log(project.ended(run)) for run in runs] == ["1.0 1.0\n"] * 2
    said = "".join(Path(run.directory, "preparation.log").read_text() for run in runs)
    assert said.count("created the image") == 1


def test_local_targets_have_nothing_to_prepare(project: DockerProject) -> None:
    (project.configuration / "here.compute").write_text("type: local\n")
    with pytest.raises(UsageError, match="nothing to prepare"):
        prepare_environment(project.runs.project, "docker", "here", Report())


def test_a_clean_removes_environments_and_what_the_installer_keeps(
    project: DockerProject, index: PackageIndex, engine: DockerEngine
) -> None:
    from tui_workbench.runs.lifecycle.cleanup import Cleanup

    project.packages("tinylib")
    name, _ = prepare(project)
    cleaning = Cleanup(project.runs)
    found = cleaning.find()
    assert {(each.item.kind, each.item.name) for each in found if each.item} == {
        ("environment", name), ("cache", "workbench-tui-cache"),
    }  # fmt: skip
    assert all(not cleaning.remove(each).problem for each in found)
    assert cleaning.find() == []
    assert PYTHON_IMAGE in engine.docker("images", "--format", "{{.Repository}}:{{.Tag}}").split()
