"""The reason of a run that did not find a file of its project names cause and remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import write_project
from tests.faults.support import until
from tests.runs.support import make_run, write_configuration, write_files
from tui_workbench.core.model import ComputeTarget, RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.snapshots.project_files import missing_file_cause
from tui_workbench.runs.submission.planning import prepare


@pytest.fixture
def tracked(tmp_path: Path) -> Project:
    root = write_project(tmp_path / "project")
    write_configuration(root, TrackedRun=True)
    write_files(root, {".gitignore": "*.bin\n.env\n", ".amlignore": "raw/\n", "raw/set": "1", "read.py": READ})
    write_files(root, {"outputs/old.pt": "1", "venv/pyvenv.cfg": "", ".env": "1"})
    return Project.find(str(root))


READ = "import sys\nopen(sys.argv[1]).read()\n"


def reason(project: Project, path: str) -> str:
    runs = Runs(project)
    run_id = runs.submit(RunRequest("local", "read.py", (path,))).run_id
    until(lambda: not runs.get(run_id).is_active, "the end of the run")
    return runs.get(run_id).reason


@pytest.mark.slow
def test_amlignored_file_is_reported_with_both_remedies(tracked: Project) -> None:
    said = reason(tracked, "raw/set")
    assert said.startswith("FileNotFoundError: ")
    assert said.endswith(
        "; .amlignore excludes raw from runs: remove that pattern, or declare raw as data with `DataReferences: [raw]`"
    )


@pytest.mark.slow
def test_path_outside_the_project_is_reported(tracked: Project, tmp_path: Path) -> None:
    write_files(tmp_path, {"data/set": "1"})
    assert reason(tracked, "../data/set").endswith(
        "; ../data is outside the project: add `DataReferences: [../data]` in local.runconfig"
    )
    assert ";" not in reason(tracked, "../nowhere/set")
    write_configuration(Path(tracked.root), TrackedRun=True, DataReferences={"../data": str(tmp_path / "data")})
    assert reason(tracked, "../data/set") == ""
    assert ";" not in reason(tracked, "../data/nothing")


def test_line_for_data_fits_the_file_and_the_target(tracked: Project, tmp_path: Path) -> None:
    write_files(tmp_path, {"data/set": "1"})
    spec = prepare(tracked, RunRequest("local", "read.py", ("x",))).spec
    more = spec.run_configuration._replace(data_references={"/tmp": "/tmp"})
    assert "add `../data` to `DataReferences` in local.runconfig" in missing_file_cause(
        spec._replace(run_configuration=more), "../data/set"
    )
    elsewhere = spec._replace(target=ComputeTarget("box", "", "remote"))
    assert missing_file_cause(elsewhere, "../data/set") == (
        "../data is outside the project: add `DataReferences: {../data: PATH}` in local.runconfig, where PATH is the "
        "absolute path of ../data on box"
    )
    assert "`../data: PATH` to `DataReferences`" in missing_file_cause(
        elsewhere._replace(run_configuration=more), "../data/set"
    )
    deep = f"../../{tmp_path.name}/data/set"
    assert f"use the absolute path {tmp_path}/data/set" in missing_file_cause(spec, deep)


@pytest.mark.slow
def test_file_of_another_run_is_reported_with_that_run(tracked: Project) -> None:
    other = make_run(tracked, "project_1700000000001", state="completed", exit_code=0)
    write_files(Path(other.path), {"work/data/train.bin": "1"})
    said = reason(tracked, "data/train.bin")
    assert "the run project_1700000000001 wrote data/train.bin" in said
    assert "history download -r project_1700000000001 --into-project -a work/data/train.bin" in said


@pytest.mark.slow
def test_project_outputs_and_environments_are_reported(tracked: Project) -> None:
    assert "outputs/ of the project is never copied for runs" in reason(tracked, "outputs/old.pt")
    assert "venv is a virtual environment" in reason(tracked, "venv/pyvenv.cfg")


def test_unknown_file_adds_no_cause(tracked: Project) -> None:
    assert ";" not in reason(tracked, "nowhere.txt")


def test_other_failures_add_no_cause(tracked: Project) -> None:
    write_files(Path(tracked.root), {"read.py": "raise ValueError('raw/set')"})
    assert ";" not in reason(tracked, "raw/set")


@pytest.mark.parametrize(
    ("path", "cause"),
    [
        ("/home/research/.workbench-tui/runs/{run}/work/raw/set", "`DataReferences: {{raw: PATH}}`, where PATH is"),
        ("/workbench/run/work/raw/set", ".amlignore excludes raw from runs"),
        (".env", ".env has the name of a secrets file"),
        ("/etc/nowhere", ""),
    ],
)
def test_files_not_sent_to_another_machine_are_reported(tracked: Project, path: str, cause: str) -> None:
    spec = prepare(tracked, RunRequest("local", "read.py", ("x",))).spec
    spec = spec._replace(target=ComputeTarget("box", "", "remote"))
    found = missing_file_cause(spec, path.format(run=spec.run_id))
    assert cause.format() in found
    assert bool(cause) == bool(found)
