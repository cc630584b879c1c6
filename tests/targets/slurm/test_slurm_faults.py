"""Jobs of a real cluster whose connection, cluster or login node is lost at a chosen moment."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.support import kill_controller, until
from tests.targets.conftest import link_processes
from tests.targets.slurm.project import SlurmProject
from tests.waiting import PATIENCE

WAIT = "echo >>{folder}/held; until [ -e {folder}/release ]; do sleep 0.02; done"

BEFORE = WAIT + '; exec "$ORIGINAL" "$@"'
AFTER = 'out=$("$ORIGINAL" "$@"); code=$?; ' + WAIT + '; printf "%s\\n" "$out"; exit $code'

POINTS = {
    "while the request arrives": ("/usr/bin/head", BEFORE),
    "before the lock": ("/usr/bin/flock", BEFORE),
    "before sbatch": ("/usr/bin/sbatch", BEFORE),
    "after sbatch": ("/usr/bin/sbatch", AFTER),
}
"""Points of the exchange, by the program of the login node that waits there."""


def kill_links(project: SlurmProject, connections: Path) -> None:
    for pid in link_processes(connections):
        os.kill(pid, signal.SIGKILL)


def kill_sessions(project: SlurmProject, connections: Path) -> None:
    project.cluster.login.kill_connections()


def kill_helpers(project: SlurmProject, connections: Path) -> None:
    """Kill the script that submits, and what it waits for."""
    for name in ("sh", "sbatch", "flock", "head"):
        for pid in project.cluster.login.processes(name):
            with contextlib.suppress(OSError):
                if b"attempted" in Path(f"/proc/{pid}/cmdline").read_bytes() or name != "sh":
                    os.kill(pid, signal.SIGKILL)


TELLS = """\
import os, sys, time
name, began, gate = sys.argv[1:]
print(name, flush=True)
if name == "second":
    open(began, "w").close()
while not os.path.exists(began):
    time.sleep(0.05)
if name == "first":
    print("told", flush=True)
while not os.path.exists(gate):
    time.sleep(0.05)
"""
"""Two runs: the first writes its last line after that of the second."""

LOSSES = {"link": kill_links, "session": kill_sessions, "helper": kill_helpers}


@contextlib.contextmanager
def held(project: SlurmProject, program: str, script: str) -> Iterator[Callable[[], None]]:
    """Within the context, hold a program on the login node until the yielded function is called."""
    folder = project.cluster.scratch
    with project.cluster.login.replaced(program, script.format(folder=folder)):
        yield (folder / "release").touch


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("point", POINTS)
def test_job_is_submitted_once(project: SlurmProject, connections: Path, point: str, loss: str) -> None:
    count = project.cluster.scratch / "count"
    project.write(f"open({str(count)!r}, 'a').write('x'); print('ran')")
    with held(project, *POINTS[point]) as release:
        run = project.start("experiment", "submit", "-c", "cluster", "train.py")
        until((project.cluster.scratch / "held").exists, f"the moment {point}")
        LOSSES[loss](project, connections)
        release()
        out, err = run.communicate(timeout=PATIENCE)
    assert run.returncode == 0, err
    assert out.endswith(b"ran\n")
    assert count.read_text() == "x"
    names = project.cluster.output(["squeue", "-h", "-t", "all", "-o", "%j"]).split("\n")
    assert names.count(f"wb-{project.history()[0]['run_id']}") == 1


def test_output_continues_after_each_loss(project: SlurmProject, connections: Path) -> None:
    run_id = project.begin("print('went on')")
    for loss in LOSSES.values():
        loss(project, connections)
        assert project.status(run_id) in ("Running", "Unknown")
    project.gate.touch()
    assert project.run("logs", "-f", run_id).out == "began\nwent on\n"
    project.until_status(run_id, "Completed")


def test_silent_controller_does_not_end_the_run(project: SlurmProject) -> None:
    project.configure({"slurm": {"partition": "gpu", "extra": ["--hold"]}})
    project.write("print('ran')")
    run_id = project.detach("train.py", configuration="cluster")
    until(lambda: "JobHeldUser" in (project.info(run_id)["reason"] or ""))
    project.cluster.until_saved(f"wb-{run_id}")
    project.cluster.slurmctld.kill()
    project.until_status(run_id, "Unknown")
    assert "does not answer" in project.info(run_id)["reason"]
    project.cluster.restart(project.cluster.slurmctld)
    project.cluster.manage("release", f"jobname=wb-{run_id}")
    assert project.run("logs", "-f", run_id).out == "ran\n"


def test_run_continues_without_the_controller(project: SlurmProject) -> None:
    run_id = project.begin("print('went on')")
    project.cluster.until_saved(f"wb-{run_id}")
    project.cluster.slurmctld.kill()
    project.gate.touch()
    assert project.run("logs", "-f", run_id).out == "began\nwent on\n"
    project.cluster.restart(project.cluster.slurmctld)
    project.until_status(run_id, "Completed")


def test_lost_node_is_the_reason(each_project: SlurmProject) -> None:
    run_id = each_project.begin()
    each_project.cluster.mark_down(each_project.node)
    each_project.until_status(run_id, "Failed")
    assert "a node of the job failed (NODE_FAIL)" in each_project.info(run_id)["reason"]


def test_time_limit_is_the_reason(project: SlurmProject) -> None:
    run_id = project.begin()
    project.cluster.end_time_limit(project.job)
    project.until_status(run_id, "Failed")
    assert "it reached its time limit (TIMEOUT)" in project.info(run_id)["reason"]


def test_early_signal_of_a_time_limit_is_the_reason(project: SlurmProject) -> None:
    run_id = project.begin()
    # Slurm sends the signal at once to a job whose new limit is nearer than the warning.
    project.cluster.manage("update", f"job={project.job}", "timelimit=2")
    project.until_status(run_id, "Failed")
    reason = project.info(run_id)["reason"]
    assert reason.startswith("Slurm sent SIGTERM because the job was close to its time limit: increase `time`")
    assert reason.endswith("killed by signal 15 (SIGTERM)")


def test_job_canceled_in_slurm_has_failed(project: SlurmProject) -> None:
    run_id = project.begin()
    project.cluster.output(["scancel", "--user", "research"])
    project.until_status(run_id, "Failed")
    assert "it was canceled in Slurm (CANCELLED)" in project.info(run_id)["reason"]


def test_renamed_job_is_followed_by_its_id(project: SlurmProject) -> None:
    run_id = project.begin("print('went on')")
    project.cluster.manage("update", f"job={project.job}", "name=other")
    project.gate.touch()
    assert project.run("logs", "-f", run_id).out == "began\nwent on\n"


def test_run_that_starts_before_sbatch_answers_is_followed(project: SlurmProject) -> None:
    began = project.cluster.scratch / "began"
    project.write(TELLS)
    first = project.detach("train.py", "first", str(began), str(project.gate), configuration="cluster")
    until(lambda: "first" in project.log(first))
    with held(project, "/usr/bin/sbatch", AFTER) as release:
        second = project.detach("train.py", "second", str(began), str(project.gate), configuration="cluster")
        until(lambda: "told" in project.log(first), "a listing with the output of both runs")
        release()
        until(lambda: "second" in project.log(second), "its output, which no longer changes")
    project.gate.touch()
    for run_id in (first, second):
        project.until_status(run_id, "Completed")


@pytest.mark.parametrize("is_killed", [False, True], ids=["same watcher", "new watcher"])
def test_new_run_waits_for_a_login_that_has_answered(project: SlurmProject, is_killed: bool) -> None:
    first = project.begin("print('went on')")
    project.cluster.login.stop_sshd()
    if is_killed:
        kill_controller(project.run_directory(first))
    second = project.detach("train.py", str(project.gate), configuration="cluster")
    project.until_status(second, "Unknown")
    project.cluster.login.start_sshd()
    project.gate.touch()
    for run_id in (first, second):
        assert project.run("logs", "-f", run_id).out == "began\nwent on\n"
