"""Runs as jobs of a real cluster, from the command line."""

from __future__ import annotations

import shutil

from tests.faults.support import until
from tests.runs.support import write_files
from tests.targets.slurm.project import SlurmProject


def test_submit_follows_a_job_to_its_end(project: SlurmProject) -> None:
    project.write("print('hello'); open('outputs/model', 'w').write('x')")
    ended = project.submit("train.py", configuration="cluster")
    assert ended.code == 0, ended
    run_id = ended.out.split("\n")[0].split()[-1]
    assert ended.out.endswith("hello\n")
    assert (project.run_directory(run_id) / "outputs" / "model").read_text() == "x"
    assert (project.run_directory(run_id) / "output.log").read_bytes() == b"hello\n"
    assert not (project.there(run_id) / "work").exists()


def test_data_on_the_cluster_is_linked(project: SlurmProject) -> None:
    sets = project.cluster.run_root.parent / "sets"
    write_files(sets, {"near/x": "near", "far/x": "far"})
    project.configure(DataReferences={"data": f"{sets}/near", "../far": f"{sets}/far"})
    project.write("print(open('data/x').read(), open('../far/x').read())")
    ended = project.submit("train.py", configuration="cluster")
    assert ended.out.endswith("near far\n"), ended
    run_id = ended.out.split("\n")[0].split()[-1]
    assert not [path for path in project.there(run_id).rglob("*") if path.is_symlink()]
    shutil.rmtree(sets / "far")
    missing = project.submit("train.py", configuration="cluster")
    assert f": {sets}/far." in missing.err
    assert "DataReferences: not found or not readable on " in missing.err
    assert (sets / "near/x").read_text() == "near"
    shutil.rmtree(sets)


def test_failed_script_has_its_exit_code(project: SlurmProject) -> None:
    project.write("raise SystemExit(3)")
    assert project.submit("train.py", configuration="cluster").code == 3


def test_waiting_job_is_queued_with_its_reason(project: SlurmProject) -> None:
    project.configure({"slurm": {"partition": "gpu", "extra": ["--hold"]}})
    project.write("print('released')")
    run_id = project.detach("train.py", configuration="cluster")
    until(lambda: "JobHeldUser" in (project.info(run_id)["reason"] or ""), "the reason")
    assert project.status(run_id) == "Queued"
    project.cluster.manage("release", f"jobname=wb-{run_id}")
    assert project.run("logs", "-f", run_id).out.endswith("released\n")


def test_cancel_ends_a_running_job(project: SlurmProject) -> None:
    run_id = project.begin()
    assert project.run("experiment", "cancel", "--run", run_id).code == 0
    assert project.status(run_id) == "Canceled"
    assert project.cluster.output(["squeue", "-h"]) == ""


def test_cancel_removes_a_waiting_job_from_the_queue(project: SlurmProject) -> None:
    project.configure({"slurm": {"partition": "gpu", "extra": ["--hold"]}})
    project.write("print('never')")
    run_id = project.detach("train.py", configuration="cluster")
    until(lambda: project.status(run_id) == "Queued" and project.cluster.output(["squeue", "-h"]))
    assert project.run("experiment", "cancel", "--run", run_id).code == 0
    assert project.status(run_id) == "Canceled"
    assert project.cluster.output(["squeue", "-h"]) == ""


def test_check_runs_a_job_on_request(project: SlurmProject) -> None:
    done = project.run("computetarget", "check", "cluster", "--job")
    assert done.code == 0, done
    assert "a job with the options of the target is accepted; it would start at once" in done.out
    assert "can use " in done.out.split("\n")[-2]


def test_check_finds_a_folder_that_nodes_do_not_share(project: SlurmProject) -> None:
    project.configure({"runRoot": str(project.cluster.login_only)})
    done = project.run("computetarget", "check", "cluster", "--job")
    assert done.code == 4
    assert "does not share runRoot /run/login-only" in done.out


def test_check_runs_a_job_in_a_folder_with_a_quote(project: SlurmProject) -> None:
    project.configure({"runRoot": f"{project.cluster.run_root}/it's"})
    done = project.run("computetarget", "check", "cluster", "--job")
    assert done.code == 0, done


def test_setup_runs_in_a_login_shell(project: SlurmProject) -> None:
    profile = project.cluster.login.home() / ".bash_profile"
    profile.write_text("module() { export LOADED=$2; }\n")
    try:
        project.configure({"setup": ["module load cuda"]})
        project.write("import os; print(os.environ['LOADED'])")
        assert project.submit("train.py", configuration="cluster").out.endswith("\ncuda\n")
    finally:
        profile.unlink()


def test_secrets_in_setup_are_masked_in_files(project: SlurmProject) -> None:
    project.configure({"setup": ["export WANDB_KEY=hunter2", "export MODE=fast"]})
    project.write("import os; print(len(os.environ['WANDB_KEY']), os.environ['MODE'])")
    assert project.submit("train.py", configuration="cluster").out.endswith("\n7 fast\n")
    directory = project.run_directory(project.history()[0]["run_id"])
    assert "export WANDB_KEY=***" in (directory / "run.json").read_text()
    assert not [path for path in directory.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]


def test_failed_setup_command_hides_its_secret(project: SlurmProject) -> None:
    project.configure({"setup": ["API_TOKEN=hunter2 false"]})
    project.write("print('never')")
    assert project.submit("train.py", configuration="cluster").code == 1
    record = project.history()[0]
    assert record["reason"] == "setup failed with exit code 1: API_TOKEN=*** false"
    assert "hunter2" not in project.log(record["run_id"])


def test_wrong_partition_is_reported_with_its_fix(project: SlurmProject) -> None:
    project.configure({"slurm": {"partition": "nope"}})
    project.write("print('never')")
    done = project.submit("train.py", configuration="cluster")
    assert done.code != 0
    assert "sbatch refused the job: invalid partition specified: nope" in done.err
    assert "Set `slurm.partition` (nope) to one that `sinfo -s` lists." in done.err


def test_dry_run_shows_when_the_job_would_start(project: SlurmProject) -> None:
    project.write("print('never')")
    project.contact("cluster")
    done = project.run("experiment", "submit", "-c", "cluster", "--dry-run", "train.py")
    assert "accepted; it would start at once on node" in done.out
    assert f"--output={project.cluster.run_root}/runs/" in done.out
