"""Wrong options, missing commands and disturbed jobs: the message, its fix, and that nothing is lost.

The tests with jobs run on a cluster of each version of Slurm.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults.support import until
from tests.targets.slurm.project import SlurmProject
from tests.targets.slurm_fixtures import login_of
from tui_workbench.runs.store.cluster_job import read_job
from tui_workbench.targets.slurm.batch import NOT_STARTED
from tui_workbench.targets.slurm.ends import outcome_with_code, outcome_without_code

if TYPE_CHECKING:
    from tests.slurm_cluster import SlurmCluster
    from tui_workbench.targets.ssh.ssh_host import SshHost


@pytest.fixture
def project(each_project: SlurmProject) -> SlurmProject:
    return each_project


@pytest.mark.slurm
@pytest.mark.parametrize("cluster", ["slurm_accounting", "slurm_newer"])
@pytest.mark.parametrize(
    ("options", "said", "fix"),
    [
        ({"account": "closed"}, "Invalid account", "Set `slurm.account` (closed) to one that `sacctmgr"),
        ({"qos": "nosuch"}, "Invalid qos", "Set `slurm.qos` (nosuch) to one that `sacctmgr"),
        ({"qos": "one", "gpus": 2}, "QOSMaxGRESPerUser", "request less: `sacctmgr show qos` shows the limits."),
        ({"cpus": 99}, "More processors", "Set `slurm.cpus` (99) to at most"),
    ],
)
def test_refused_option_is_quoted_with_its_fix(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    home: Path,
    connections: Path,
    key: Path,
    cluster: str,
    options: dict[str, Any],
    said: str,
    fix: str,
) -> None:
    accounting: SlurmCluster = request.getfixturevalue(cluster)
    login_of(accounting, home, key)
    project = SlurmProject(tmp_path / "project", accounting)
    project.configure({"slurm": {"partition": "gpu", **options}})
    project.write("print('never')")
    done = project.submit("train.py", configuration="cluster")
    assert done.code != 0
    assert f"sbatch refused the job: {said}" in done.err
    assert fix in done.err


def test_refused_run_leaves_no_files_and_variables(project: SlurmProject) -> None:
    project.configure({"slurm": {"partition": "nope"}}, EnvironmentVariables={"TOKEN": "of-the-run"})
    project.write("print('never')")
    done = project.submit("train.py", configuration="cluster")
    assert "outside outputs/" not in done.err
    run_id = project.history()[0]["run_id"]
    assert not (project.run_directory(run_id) / "work").exists()
    assert not (project.there(run_id) / "work").exists()
    assert not (project.there(run_id) / "step").exists()


def test_login_node_without_sbatch_is_reported(project: SlurmProject) -> None:
    empty = project.cluster.scratch / "empty"
    empty.touch()
    project.write("print('never')")
    project.cluster.login.run(["mount", "--bind", str(empty), "/usr/bin/sbatch"])
    try:
        done = project.submit("train.py", configuration="cluster")
        checked = project.run("computetarget", "check", "cluster")
    finally:
        project.cluster.login.run(["umount", "/usr/bin/sbatch"])
    for text in (done.err, checked.out):
        assert "has no sbatch" in text
        assert "Set `address` to a login node of the cluster" in text


def test_full_disk_is_reported_and_the_next_run_works(project: SlurmProject) -> None:
    root, login = str(project.cluster.run_root), project.cluster.login
    project.write(f"print('ran') # {'x' * 100_000}")
    owner = project.cluster.run_root.stat().st_uid
    login.run(["mount", "-t", "tmpfs", "-o", f"size=64k,uid={owner},gid={owner}", "tmpfs", root])
    try:
        done = project.submit("train.py", configuration="cluster")
    finally:
        login.run(["umount", root])
    assert done.code != 0
    assert "is full" in done.err
    assert "workbench-tui experiment clean" in done.err
    assert project.submit("train.py", configuration="cluster").out.endswith("ran\n")


@pytest.mark.parametrize(
    ("program", "script"),
    [
        ("/usr/bin/dd", "echo 'dd: error writing: Disk quota exceeded' >&2; exit 1"),
        (
            "/usr/bin/head",
            '[ "$2" != 65536 ] || { echo "head: error writing: No space left on device" >&2; exit 1; }\n'
            '"$ORIGINAL" "$@"',
        ),
    ],
    ids=["dd", "head"],
)
def test_full_disk_or_quota_is_named_if_a_script_fails(project: SlurmProject, program: str, script: str) -> None:
    project.write("raise SystemExit(1)")
    with project.cluster.login.replaced(program, script):
        done = project.submit("train.py", configuration="cluster")
    assert "exit code 1; the disk of" in done.err
    assert "is full, or your quota is used up" in done.err
    assert "`workbench-tui experiment clean -t cluster`" in done.err


def test_failure_with_free_space_does_not_name_the_disk(project: SlurmProject) -> None:
    project.write("raise SystemExit(1)")
    done = project.submit("train.py", configuration="cluster")
    assert "exit code 1" in done.err
    assert "quota" not in done.err
    assert not [*project.there().glob("*/space.*")]


def test_silent_controller_is_not_reported_as_wrong_option(project: SlurmProject) -> None:
    with project.cluster.slurmctld.paused():
        done = project.run("computetarget", "check", "cluster")
    assert done.code == 4
    assert "does not answer" in done.out
    assert "Try again later." in done.out
    project.cluster.until_answers()


def test_hold_by_an_administrator_is_the_reason(project: SlurmProject) -> None:
    project.configure({"slurm": {"partition": "gpu", "extra": ["--hold"]}})
    project.write("print('ran')")
    run_id = project.detach("train.py", configuration="cluster")
    until(lambda: project.cluster.output(["squeue", "-h"]), "the job")
    project.cluster.manage("hold", f"jobname=wb-{run_id}")
    until(lambda: "an administrator holds it (JobHeldAdmin)" in (project.info(run_id)["reason"] or ""))
    project.cluster.manage("release", f"jobname=wb-{run_id}")
    assert project.run("logs", "-f", run_id).out == "ran\n"


def test_requeue_without_the_option_is_the_reason(project: SlurmProject) -> None:
    run_id = project.begin()
    job = project.job
    project.cluster.manage("update", f"job={job}", "requeue=1")
    project.cluster.manage("requeue", job)
    project.until_status(run_id, "Failed")
    assert "the job was requeued; with `requeue: true` below `slurm`" in project.info(run_id)["reason"]
    assert project.log(run_id) == "began\n"


def test_suspended_job_continues(project: SlurmProject) -> None:
    run_id = project.begin("print('went on')")
    project.cluster.manage("suspend", project.job)
    project.cluster.until_state(project.job, "SUSPENDED")
    project.gate.touch()
    until(lambda: read_job(str(project.run_directory(run_id))).nodes, "an answer of squeue")
    assert project.status(run_id) == "Running"
    assert project.log(run_id) == "began\n"
    project.cluster.manage("resume", project.job)
    assert project.run("logs", "-f", run_id).out == "began\nwent on\n"
    project.until_status(run_id, "Completed")


def test_runs_on_two_clusters_end_independently(
    project: SlurmProject, slurm_accounting: SlurmCluster, slurm_accounting_host: SshHost
) -> None:
    other = SlurmProject(project.folder.parent / "other", slurm_accounting)
    for name in ("compute", "runconfig"):
        text = (other.folder / "aml_config" / f"cluster.{name}").read_text()
        changed = text.replace('"Target": "cluster"', '"Target": "second"')
        (project.folder / "aml_config" / f"second.{name}").write_text(changed)
    project.write("import os; print(os.getcwd())")
    runs = [project.detach("train.py", configuration=name) for name in ("cluster", "second")]
    for run_id, cluster in zip(runs, (project.cluster, slurm_accounting), strict=True):
        assert project.run("logs", "-f", run_id).out == f"{cluster.run_root}/runs/{run_id}/work\n"


def test_missing_slurm_log_suggests_an_unshared_folder(tmp_path: Path) -> None:
    reason = outcome_without_code("FAILED", None, str(tmp_path), has_started=False).reason
    assert "may not share `runRoot`" in reason
    assert "computetarget check NAME --job" in reason


def test_forgotten_job_is_explained_by_a_failed_controller(tmp_path: Path) -> None:
    outcome = outcome_without_code("", None, str(tmp_path), has_started=False)
    assert "slurmctld may have failed before it saved the job" in outcome.reason
    assert not outcome.has_failed


def test_forgotten_job_that_has_started_was_saved(tmp_path: Path) -> None:
    reason = outcome_without_code("", None, str(tmp_path), has_started=True).reason
    assert reason == "Slurm no longer knows the job; its exit code was not written"


def test_signal_is_explained_by_slurm_log(tmp_path: Path) -> None:
    line = "slurmstepd-n1: error: *** JOB 1 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO JOB REQUEUE ***\n"
    (tmp_path / "slurm.log").write_text(line)
    assert outcome_with_code(143, "", str(tmp_path)).reason.startswith("the job was requeued; ")


def test_step_that_never_began_has_no_exit_code(tmp_path: Path) -> None:
    error = "srun: error: Unable to confirm allocation for job 5: Invalid job id specified"
    (tmp_path / "slurm.log").write_text(f"{error}\n{NOT_STARTED}\n")
    outcome = outcome_with_code(1, "", str(tmp_path))
    assert outcome.exit_code is None
    assert outcome.has_failed
    assert outcome.reason == f"Slurm did not start the script; {error}"
