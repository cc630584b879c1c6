"""The test cluster itself, which the other Slurm tests use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.machines import wait_for
from tests.slurm_configuration import NODES

if TYPE_CHECKING:
    from tests.slurm_cluster import SlurmCluster
    from tui_workbench.targets.ssh.ssh_host import SshHost


@pytest.mark.parametrize("node", NODES)
def test_job_runs_on_node_and_sees_its_gpu(each_slurm: SlurmCluster, node: str) -> None:
    output = each_slurm.run_root / "job.txt"
    script = "hostname; id -un; echo $CUDA_VISIBLE_DEVICES; cat /proc/sys/kernel/random/boot_id"

    job = each_slurm.submit(script, "--gpus=1", f"--constraint={NODES[node]}", f"--output={output}")

    assert each_slurm.until_state(job, "COMPLETED", "FAILED") == "COMPLETED"
    boot_id = (each_slurm.nodes[node].folder / "boot_id").read_text()
    assert output.read_text() == f"{node}\nresearch\n0\n{boot_id}"


def test_jobs_share_home_with_login_but_not_its_disk(slurm: SlurmCluster) -> None:
    (slurm.login.home() / "note").write_text("from home")
    slurm.output(["touch", str(slurm.login_only / "note")])

    done = slurm.command("research", ["srun", "cat", "note"])
    local = slurm.command("research", ["srun", "ls", str(slurm.login_only)])

    assert (done.stdout, done.returncode) == ("from home", 0)
    assert "No such file or directory" in local.stderr


def test_gpus_are_given_to_one_job_at_a_time(slurm: SlurmCluster) -> None:
    first = slurm.submit("sleep 600", "--gpus=a100:2")
    slurm.until_state(first, "RUNNING")

    second = slurm.submit("sleep 600", "--gpus=a100:1")

    wait_for(lambda: slurm.output(["squeue", "-h", "-j", second, "-o", "%r"]) == "Resources", "the job to wait")
    slurm.output(["scancel", first])
    slurm.until_state(second, "RUNNING")


def test_time_limit_ends_job(slurm: SlurmCluster) -> None:
    job = slurm.submit("sleep 600", "--partition=short")
    slurm.until_state(job, "RUNNING")

    slurm.end_time_limit(job)

    assert slurm.until_state(job, "TIMEOUT", "FAILED", "CANCELLED") == "TIMEOUT"


def test_lost_node_fails_its_jobs(slurm: SlurmCluster) -> None:
    job = slurm.submit("sleep 600", "--nodelist=node2", "--no-requeue")
    slurm.until_state(job, "RUNNING")

    with slurm.configured(slurmd_timeout=5):
        slurm.lose("node2")

        assert slurm.until_state(job, "NODE_FAIL", "FAILED", "COMPLETED") == "NODE_FAIL"


def test_controller_restart_keeps_jobs(slurm: SlurmCluster) -> None:
    waiting = slurm.submit("true", "--hold")
    running = slurm.submit("sleep 600", "--job-name=wb-running")
    slurm.until_state(running, "RUNNING")
    slurm.until_saved("wb-running")

    slurm.restart(slurm.slurmctld)

    assert slurm.state(waiting) == "PENDING"
    slurm.until_state(running, "RUNNING")  # a killed controller may have forgotten that the job had started
    slurm.manage("release", waiting)
    slurm.until_state(waiting, "COMPLETED")


def test_job_ids_are_new_after_a_kill_of_the_controller(slurm: SlurmCluster) -> None:
    job = slurm.submit("true")
    slurm.until_state(job, "COMPLETED")

    slurm.restart(slurm.slurmctld)
    slurm.clear()

    assert int(slurm.submit("true")) > int(job) + 1


def test_job_survives_kill_of_slurmd(slurm: SlurmCluster) -> None:
    gate = slurm.run_root / "gate"
    script = f"until [ -e {gate} ]; do sleep 0.1; done; exit 3"
    job = slurm.submit(script, "--nodelist=node1")
    slurm.until_state(job, "RUNNING")

    slurm.restart(slurm.slurmd["node1"])
    gate.touch()

    slurm.until_state(job, "FAILED")
    assert "ExitCode=3:0" in slurm.manage("show", "job", job)


def test_stopped_controller_makes_commands_fail(slurm: SlurmCluster) -> None:
    with slurm.slurmctld.paused():
        done = slurm.command("research", ["squeue"])

    assert done.returncode == 1
    assert "Socket timed out" in done.stderr
    slurm.until_answers()


def test_preempted_job_is_requeued_only_if_allowed(slurm: SlurmCluster) -> None:
    options = ["--partition=scavenge", "--exclusive"]
    once = slurm.submit("sleep 600", *options, "--nodelist=node1", "--no-requeue")
    again = slurm.submit("sleep 600", *options, "--nodelist=node2", "--requeue")
    for job in (once, again):
        slurm.until_state(job, "RUNNING")

    slurm.submit("sleep 600", "--partition=urgent", "--exclusive", "--nodes=2")

    slurm.until_state(once, "PREEMPTED")
    slurm.until_state(again, "PENDING")
    assert "Restarts=1" in slurm.manage("show", "job", again)


def test_accounting_knows_ended_jobs(slurm_accounting: SlurmCluster) -> None:
    job = slurm_accounting.submit("exit 4", "--job-name=wb-sacct")
    words = ["sacct", "-n", "-X", "-P", "--name=wb-sacct", "--format=JobIDRaw,State,ExitCode,Account"]

    wait_for(lambda: slurm_accounting.output(words) == f"{job}|FAILED|4:0|lab", "the record of the job")


def test_accounting_refuses_account_and_qos(slurm_accounting: SlurmCluster) -> None:
    account = slurm_accounting.command("research", ["sbatch", "--account=closed", "--wrap=true"])
    qos = slurm_accounting.command("research", ["sbatch", "--qos=none", "--wrap=true"])

    assert (account.returncode, qos.returncode) == (1, 1)
    assert "Invalid account or account/partition combination specified" in account.stderr
    assert "Invalid qos specification" in qos.stderr


def test_job_over_its_memory_ends_as_out_of_memory(slurm_accounting: SlurmCluster) -> None:
    if not slurm_accounting.memory_limits:
        pytest.skip("the kernel has no memory cgroups of version 1")

    job = slurm_accounting.submit("exec /usr/bin/python3 -c 'bytearray(400_000_000)'", "--mem=50M")

    assert slurm_accounting.until_state(job, "OUT_OF_MEMORY", "FAILED", "COMPLETED") == "OUT_OF_MEMORY"


def test_sacct_fails_without_accounting(slurm: SlurmCluster) -> None:
    done = slurm.command("research", ["sacct"])

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Slurm accounting storage is disabled\n"


def test_newer_cluster_has_a_newer_slurm(slurm: SlurmCluster, slurm_newer: SlurmCluster) -> None:
    versions = [cluster.output(["sinfo", "--version"]) for cluster in (slurm, slurm_newer)]

    assert versions[0] != versions[1]


def test_login_node_has_sbatch_over_ssh(slurm: SlurmCluster, slurm_host: SshHost) -> None:
    assert slurm_host.check(["sbatch", "--version"]).stdout.startswith(b"slurm-wlm ")
