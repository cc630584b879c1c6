"""The number of nodes of a run: which key counts, and where several nodes are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import write_project
from tests.runs.support import write_files
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.model import RunRequest, RunSpec
from tui_workbench.projects.project import Project
from tui_workbench.runs.submission.planning import prepare

HEAD = "Target: hpc\nFramework: Python\n"


def spec(folder: Path, runconfig: str, slurm: str = "") -> RunSpec:
    """Plan a run on a cluster whose target has `nodes: 4`."""
    root = write_project(folder / "project")
    write_files(
        root,
        {
            "aml_config/hpc.compute": "type: slurm\nrunRoot: /scratch/me\nslurm: {nodes: 4}\n",
            "aml_config/hpc.runconfig": HEAD + runconfig,
        },
    )
    return prepare(Project(str(root)), RunRequest("hpc", "hello.py", slurm=slurm)).spec


@pytest.mark.parametrize(
    ("runconfig", "slurm", "expected"),
    [
        ("", "", 4),
        ("Nodes: 2\n", "", 2),
        ("Slurm: {nodes: 3}\n", "", 3),
        ("Nodes: 2\n", "nodes=3", 3),  # the options of one run have precedence
        ("Nodes: 2\nSlurm: {nodes: 2}\n", "", 2),
    ],
)
def test_most_specific_number_of_nodes_counts(tmp_path: Path, runconfig: str, slurm: str, expected: int) -> None:
    assert spec(tmp_path, runconfig, slurm).nodes == expected


def test_different_numbers_of_nodes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as raised:
        spec(tmp_path, "Nodes: 2\nSlurm: {nodes: 3}\n")
    assert (raised.value.message, raised.value.line) == ("`Nodes` is 2, but `Slurm.nodes` is 3", 3)


def test_several_nodes_are_refused_on_one_machine(tmp_path: Path) -> None:
    root = write_project(tmp_path / "project")
    with (root / "aml_config" / "local.runconfig").open("a") as file:
        file.write("Nodes: 2\nProcessesPerNode: 2\n")
    with pytest.raises(ConfigurationError) as raised:
        prepare(Project(str(root)), RunRequest("local", "hello.py"))
    assert (raised.value.message, raised.value.line) == ("`Nodes` is 2, but targets of type local do not support it", 7)
