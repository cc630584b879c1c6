"""Checks of `DataReferences`, of paths out of the project, and of old data sources."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.config.documents import in_project, project
from tests.runs.support import write_files
from tui_workbench.config.changes.file_edits import check
from tui_workbench.config.checks.findings import ERROR, WARNING, Finding
from tui_workbench.config.checks.scripts import MOST_NAMES, MOST_SCRIPTS, old_data_files

LOCAL, REMOTE = "type: local\n", "type: remote\naddress: box\n"
CONFIGURATION = "Target: t\nFramework: Python\nTrackedRun: true\nArgumentVector: [train.py]\n"


def problems(
    root: Path, text: str = "", *, target: str = LOCAL, script: str = "", configuration: str = CONFIGURATION
) -> list[Finding]:
    """Return the findings about data in a run configuration with this additional text."""
    project(root / "project", a__runconfig=configuration + text, t__compute=target, train__py=script)
    codes = ("data-reference", "data-outside", "data-source", "data-source-file", "missing-file", "wrong-type")
    return [each for each in in_project(root / "project", "a.runconfig").problems() if each.code in codes]


def test_problems_are_reported_at_their_items(tmp_path: Path) -> None:
    write_files(tmp_path, {"project/data/x": ""})
    (finding,) = problems(tmp_path, "DataReferences:\n  - data\n  - ../../x\n")
    assert (finding.severity, finding.code, finding.line, finding.column) == (ERROR, "data-reference", 7, 5)
    (finding,) = problems(tmp_path, "DataReferences:\n  data: data\n  nowhere: /nowhere\n")
    assert (finding.severity, finding.code, finding.line, finding.column) == (ERROR, "missing-file", 7, 3)


def test_data_on_another_machine_needs_an_absolute_path(tmp_path: Path) -> None:
    write_files(tmp_path, {"project/data/x": ""})
    (finding,) = problems(tmp_path, "DataReferences: {data: data, ../b: /nowhere}\n", target=REMOTE)
    assert "'data' is a path on this machine, but t is another machine" in finding.message


def test_single_path_becomes_a_list(tmp_path: Path) -> None:
    (finding,) = problems(tmp_path, "DataReferences: /tmp\n")
    assert finding.fix is not None
    editing = in_project(tmp_path / "project", "a.runconfig")
    editing.apply(finding.fix)
    assert editing.get("DataReferences") == {"/tmp": "/tmp"}


SCRIPT = "a = open('../data/x')\nb = f\"../{name}/x\"\nc = '../nowhere'\n"


@pytest.mark.parametrize("present", ["", "DataReferences: [/tmp]\n"])
def test_path_beside_the_project_is_suggested_as_data(tmp_path: Path, present: str) -> None:
    write_files(tmp_path, {"data/x": ""})
    (finding,) = problems(tmp_path, present, script=SCRIPT)
    assert (finding.severity, finding.code, finding.key) == (WARNING, "data-outside", "DataReferences")
    assert finding.message.startswith("train.py names '../data', which tracked runs do not have")
    assert finding.fix is not None
    editing = in_project(tmp_path / "project", "a.runconfig")
    editing.apply(finding.fix)
    assert "../data" in editing.get("DataReferences")
    assert problems(tmp_path, editing.text.removeprefix(CONFIGURATION), script=SCRIPT) == []


def test_path_in_an_argument_is_found(tmp_path: Path) -> None:
    write_files(tmp_path, {"data/x": ""})
    arguments = CONFIGURATION.replace("[train.py]", "[train.py, --data=../data/x, --out, ../nowhere]")
    (finding,) = problems(tmp_path, configuration=arguments)
    assert finding.message.startswith("an argument names '../data'")


def test_path_on_another_machine_is_left_to_the_user(tmp_path: Path) -> None:
    write_files(tmp_path, {"data/x": ""})
    (finding,) = problems(tmp_path, target=REMOTE, script=SCRIPT)
    assert finding.fix is None
    assert "Add `../data: PATH` to `DataReferences`" in finding.remedy


def test_untracked_run_has_paths_beside_the_project(tmp_path: Path) -> None:
    write_files(tmp_path, {"data/x": ""})
    untracked = CONFIGURATION.replace("true", "false")
    assert problems(tmp_path, script=SCRIPT, configuration=untracked) == []
    (finding,) = problems(tmp_path, "DataReferences: {../data: /tmp}\n", configuration=untracked)
    assert "an untracked run uses the project itself" in finding.message


@pytest.mark.parametrize(
    "script", ["from azureml.dataprep import datasource\n", "df = load('iris.dsource')\n", 'run("a/b.dprep")\n']
)
def test_old_data_sources_have_a_replacement(tmp_path: Path, script: str) -> None:
    (finding,) = problems(tmp_path, script=script)
    assert (finding.severity, finding.code) == (WARNING, "data-source-file")
    assert finding.message.endswith("which these files of the project contain or use: train.py")
    assert "pandas.read_csv" in finding.remedy


def test_old_data_sources_in_subfolders_are_reported_once_for_a_project(tmp_path: Path) -> None:
    names = ("iris.dprep", "d/iris.DSOURCE", ".hidden/b.dsource", "site-packages/c.dprep")
    write_files(tmp_path, {f"project/{name}": "{}" for name in names})
    write_files(
        tmp_path, {"project/sub/deep/x.py": "import azureml.dataprep as dprep\n", "project/sub/y.py": "x = 1\n"}
    )
    os.symlink("iris.dprep", tmp_path / "project" / "link.dprep")
    assert len(problems(tmp_path)) == 1
    root = project(tmp_path / "project", b__runconfig=CONFIGURATION, c__runconfig=CONFIGURATION)
    found = check([str(root / "aml_config" / f"{name}.runconfig") for name in "abc"])
    (finding,) = [one for one in found if one.code.startswith("data-source")]
    assert finding.message.endswith(" use: iris.dprep, d/iris.DSOURCE, sub/deep/x.py")


def test_project_without_old_data_sources_has_no_finding(tmp_path: Path) -> None:
    write_files(tmp_path, {"project/sub/dsource.py": "x = 'dsource'  # azureml.dataprep\n", "project/a.csv": ""})
    assert problems(tmp_path, script="import azureml.core\n") == []


@pytest.mark.slow
def test_search_for_old_data_sources_is_limited(tmp_path: Path) -> None:
    """The names of 20,000 files and folders are read, and 500 Python files; those in upper folders come first."""
    write_files(tmp_path, {f"a{number:03}.py": "" for number in range(MOST_SCRIPTS)})
    write_files(tmp_path, {"sub/x.py": "import azureml.dataprep\n", "sub/iris.dsource": ""})
    (tmp_path / "many").mkdir()
    for number in range(MOST_NAMES):
        os.mkdir(tmp_path / "many" / str(number))
    assert old_data_files(str(tmp_path)) == []
    os.rename(tmp_path / "many", tmp_path / "z")
    assert old_data_files(str(tmp_path)) == ["sub/iris.dsource"]


def test_keys_of_old_data_sources_are_reported(tmp_path: Path) -> None:
    (finding,) = problems(tmp_path, "DataSourceSubstitutions: {a.dsource: b.dsource}\n", script="x = 'dsource'\n")
    assert (finding.code, finding.line) == ("data-source", 5)
