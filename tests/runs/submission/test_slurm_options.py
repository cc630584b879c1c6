"""The options of Slurm in a request replace those of the target and of the run configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runs.support import write_configuration, write_files
from tui_workbench.core.errors import NoGpu, UsageError
from tui_workbench.core.model import RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.runs.submission.launch import create_run
from tui_workbench.runs.submission.planning import prepare


def asked(configuration: str) -> RunRequest:
    return RunRequest(configuration, "a.py")


@pytest.fixture
def cluster(project: Project) -> Project:
    write_configuration(Path(project.root), "hpc", suffix="compute", type="slurm", slurm={"gpus": 1, "qos": "low"})
    write_configuration(Path(project.root), "hpc", Target="hpc", Slurm={"time": "1:00:00"})
    write_files(Path(project.root), {"a.py": ""})
    return project


def test_options_of_a_request_are_recorded_and_repeated(cluster: Project) -> None:
    request = asked("hpc")._replace(slurm="gpus=2,qos=,extra=--exclusive")
    directory, lock, _ = create_run(cluster, request)
    lock.release()
    spec = RunDirectory(directory.path).read_record().spec
    assert spec.slurm == {"gpus": 2, "time": "1:00:00", "extra": ["--exclusive"]}
    again = prepare(cluster, RunRequest("", origin=spec.run_id, slurm="time=5"))
    assert again.spec.slurm == {"gpus": 2, "time": "5", "extra": ["--exclusive"]}
    submit = again.plan.step("submit")
    assert submit is not None
    assert {"--gpus=2", "--time=5", "--exclusive"} < {*submit.command}


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (asked("hpc")._replace(slurm="gpu=2"), "Did you mean 'gpus'?"),
        (asked("local")._replace(slurm="gpus=2"), "but local is of type local"),
    ],
)
def test_wrong_options_are_refused(cluster: Project, request_: RunRequest, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        prepare(cluster, request_)
    assert said in str(refused.value)


def test_required_gpu_must_be_requested(cluster: Project) -> None:
    write_configuration(Path(cluster.root), "hpc", Target="hpc", RequireGpu=True, Slurm={"gpus": 0})
    with pytest.raises(NoGpu, match="Slurm job requests none") as refused:
        create_run(cluster, asked("hpc"))
    assert refused.value.command.endswith("hpc.runconfig Slurm.gpus 1")
    _, lock, record = create_run(cluster, asked("hpc")._replace(slurm="gpus=1"))
    lock.release()
    assert record.spec.slurm["gpus"] == 1
