"""The check that runs a job. The commands of Slurm are scripts, and `sleep` does not wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from tui_workbench.core.model import ComputeTarget
from tui_workbench.targets.checks.result import WARNING, CheckFailed
from tui_workbench.targets.hosts.host import LocalHost
from tui_workbench.targets.slurm.checks import ClusterChecks


def checks_with(folder: Path, squeue: str, monkeypatch: pytest.MonkeyPatch) -> ClusterChecks:
    """Return the checks of a cluster whose jobs write nothing."""
    for name, script in {"sbatch": "echo 7", "squeue": squeue, "scancel": "", "sleep": ""}.items():
        command = folder / "bin" / name
        command.parent.mkdir(exist_ok=True)
        command.write_text(f"#!/bin/sh\n{script}\n")
        command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}/bin:/usr/bin:/bin")
    target = ComputeTarget("cluster", "cluster.compute", "slurm", run_root=str(folder / "root"))
    return ClusterChecks(target, LocalHost())


def test_folder_without_the_file_of_an_ended_job_is_not_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = checks_with(tmp_path, "echo COMPLETED None node1", monkeypatch)
    with pytest.raises(CheckFailed, match="the compute node node1 does not share runRoot"):
        checks.job()


@pytest.mark.parametrize(
    ("squeue", "reason"),
    [("echo PENDING Resources", "PENDING Resources"), ("exit 1", "squeue does not answer")],
    ids=["busy cluster", "silent controller"],
)
def test_job_that_does_not_end_is_a_warning(
    squeue: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = checks_with(tmp_path, squeue, monkeypatch).job()
    assert (found.state, found.message) == (
        WARNING,
        f"the job did not end within 120 s ({reason}), so runRoot was not checked",
    )


def test_canceled_job_is_an_error_although_its_exit_code_is_0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = checks_with(tmp_path, "echo CANCELLED None node1", monkeypatch)
    (tmp_path / "bin" / "scontrol").write_text("#!/bin/sh\necho '   DerivedExitCode=0:0 ExitCode=0:0'\n")
    (tmp_path / "bin" / "scontrol").chmod(0o755)
    with pytest.raises(CheckFailed, match="the job failed: CANCELLED node1"):
        checks.job()
