"""`experiment prepare`, `experiment clean` and `history sync`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.support import Workbench
from tests.package_index import PackageIndex, package_index
from tests.targets.docker_project import DockerProject

pytestmark = pytest.mark.processes


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_")):
            monkeypatch.delenv(name)
    with package_index(tmp_path / "index", "127.0.0.1") as made:
        monkeypatch.setenv("PIP_INDEX_URL", made.url)
        made.add("tinylib", "1.0")
        yield made


@pytest.fixture
def project(tmp_path: Path) -> DockerProject:
    made = DockerProject(tmp_path / "project")
    (made.configuration / "docker.compute").write_text(
        f"type: local\nuserManagedEnvironment: false\npythonLocation: {sys.executable}\n"
    )
    made.packages("tinylib")
    return made


@pytest.fixture
def workbench(project: DockerProject) -> Workbench:
    return Workbench(project.root)


def test_prepare_prints_progress_on_stderr(workbench: Workbench, index: PackageIndex) -> None:
    done = workbench.run("experiment", "prepare", "-c", "docker")
    assert done.code == 0, done
    assert Path(done.out.strip()).is_dir()
    assert "build the environment" in done.err
    assert "tinylib==1.0" in done.err
    again = workbench.run("experiment", "prepare", "-c", "docker", "-o", "json")
    assert (again.code, json.loads(again.out)["environment"], again.err) == (0, done.out.strip(), "")


def test_prepare_reports_failure_in_one_line(workbench: Workbench, index: PackageIndex, project: DockerProject) -> None:
    project.packages("tinylib", "tinynone")
    done = workbench.run("experiment", "prepare", "-c", "docker")
    assert (done.code, done.out) == (3, "")
    last = done.err.splitlines()[-1]
    assert last.startswith("workbench-tui: ")
    assert "conda_dependencies.yml:5" in last


def test_submit_prints_the_preparation_on_stderr(
    workbench: Workbench, index: PackageIndex, project: DockerProject
) -> None:
    project.script("import tinylib; print(tinylib.VERSION)")
    index.delay = 1.0
    done = workbench.run("experiment", "submit", "-c", "docker", "train.py")
    assert done.code == 0, done
    assert done.out.splitlines()[1:] == ["1.0"]
    assert "build the environment" in done.err


def test_clean_lists_asks_and_removes(workbench: Workbench, index: PackageIndex) -> None:
    folder = workbench.run("experiment", "prepare", "-c", "docker").out.strip()
    listed = workbench.run("experiment", "clean", "--dry-run")
    assert listed.code == 0, listed
    (found,) = json.loads(listed.out)
    assert (found["kind"], found["name"], found["removed"]) == ("environment", folder, False)
    workbench.run("experiment", "clean").error(2, "cannot ask for confirmation")
    assert Path(folder).is_dir()
    done = workbench.run("experiment", "clean", "--yes")
    assert [each["removed"] for each in json.loads(done.out)] == [True]
    assert not Path(folder).exists()
    assert json.loads(workbench.run("experiment", "clean", "--yes").out) == []


@pytest.mark.usefixtures("connections")
def test_clean_continues_after_an_unreachable_target(
    workbench: Workbench, index: PackageIndex, project: DockerProject
) -> None:
    workbench.run("experiment", "prepare", "-c", "docker")
    (project.configuration / "far.compute").write_text(
        "type: remotedocker\naddress: 127.0.0.1:9\nusername: me\nbaseDockerImage: python:3.11\n"
    )
    (skipped,) = (each for each in json.loads(workbench.run("experiment", "clean", "--dry-run").out) if each["note"])
    assert (skipped["target"], skipped["problem"]) == ("far", None)
    assert "has not been contacted" in skipped["note"]
    workbench.contact("far")
    done = workbench.run("experiment", "clean", "--yes")
    assert done.code == 1
    rows = {each["target"]: each for each in json.loads(done.out)}
    assert rows["far"]["problem"]
    assert rows["docker"]["removed"] is True


def test_sync_of_a_local_target_is_refused(workbench: Workbench, project: DockerProject) -> None:
    (project.configuration / "plain.compute").write_text("type: local\n")
    workbench.run("history", "sync", "-t", "plain").error(3, "has no runs from other machines", "of type local")
    workbench.run("history", "sync").error(2, "-t")
