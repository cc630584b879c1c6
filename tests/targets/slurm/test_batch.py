"""The batch script and its step, executed by the shell with a stand-in for srun."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.support import until
from tui_workbench.targets.slurm.batch import batch_script, step_script

if TYPE_CHECKING:
    from collections.abc import Mapping

SRUN = 'while [ "$1" != -- ]; do echo "$1"; shift; done; shift; exec "$@"'


class Job:
    """A run's directory on a cluster, and its job."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.run = root / "runs" / "exp_1"
        (self.run / "work").mkdir(parents=True)
        (root / "bin").mkdir()
        self.command("srun", SRUN)

    def command(self, name: str, script: str) -> None:
        """Replace a command of Slurm."""
        path = self.root / "bin" / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def write(self, script: str, variables: Mapping[str, str] | None = None, python: str = sys.executable) -> None:
        """Write the step of a Python script."""
        (self.run / "work" / "train.py").write_text(script)
        command = (python, "train.py")
        share = str(self.root / "share")
        text = step_script(str(self.run), share, command, variables or {}, inherits_path="PYTHONPATH" in os.environ)
        (self.run / "step").write_bytes(text.encode("utf-8", "surrogateescape"))

    def start(self, *setup: str, requeues: bool = False, **environment: str) -> subprocess.CompletedProcess[str]:
        """Execute the batch script as Slurm does."""
        text = batch_script("exp_1", str(self.run), str(self.root), setup, requeues=requeues)
        return self.execute(text, "bash" if setup else "sh", **environment)

    def execute(self, text: str, shell: str = "sh", **environment: str) -> subprocess.CompletedProcess[str]:
        """Execute a batch script."""
        path = f"{self.root / 'bin'}:{os.environ['PATH']}"
        job = {"SLURM_JOB_ID": "12", "SLURM_PROCID": "0", "SLURMD_NODENAME": "node1", "PATH": path, **environment}
        return subprocess.run([shell], input=text, env={**os.environ, **job}, capture_output=True, text=True)

    def text(self, name: str) -> str:
        return (self.run / name).read_text()


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def test_exit_code_and_output_are_written(job: Job) -> None:
    job.write("import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)")
    assert job.start().returncode == 7
    assert job.text("exit").strip() == "7"
    assert sorted(job.text("output.log").split()) == ["err", "out"]
    assert job.text("pid") == "12\n"
    assert [path.name for path in (job.root / "started").iterdir()] == ["exp_1"]


def test_duplicate_job_does_nothing(job: Job) -> None:
    job.write("print('ran')")
    job.start()
    again = job.start(SLURM_JOB_ID="13", SLURM_RESTART_COUNT="1")
    assert (again.returncode, again.stdout) == (0, "")
    assert job.text("output.log") == "ran\n"
    assert job.text("pid") == "12\n"


def test_requeued_job_does_nothing_without_the_option(job: Job) -> None:
    job.write("print('ran')")
    job.start()
    assert job.start(SLURM_RESTART_COUNT="1").returncode == 0
    assert job.text("output.log") == "ran\n"


def test_each_requeue_is_an_attempt_in_the_same_log(job: Job) -> None:
    job.write("import os, sys; n = os.environ['SLURM_RESTART_COUNT']; print('attempt', n); sys.exit(3 - int(n))")
    for count in ("0", "1", "1"):
        job.start(requeues=True, SLURM_RESTART_COUNT=count)
    assert job.text("output.log") == "attempt 0\nattempt 1\n"
    assert (job.text("attempts/1/exit"), job.text("attempts/2/exit")) == ("3\n", "2\n")
    assert job.text("exit").strip() == "2"


ATTEMPT = "import os; print(os.environ.get('WORKBENCH_ATTEMPT'), os.environ.get('WORKBENCH_RESUME'))"


def test_script_can_read_its_attempt_if_slurm_may_requeue_it(job: Job) -> None:
    job.write(ATTEMPT)
    for count in ("0", "1", "2"):
        job.start(requeues=True, SLURM_RESTART_COUNT=count)
    assert job.text("output.log") == "1 None\n2 1\n3 1\n"


def test_script_without_requeue_has_no_attempts(job: Job) -> None:
    job.write(ATTEMPT)
    job.start()
    assert job.text("output.log") == "None None\n"


def test_another_job_starts_no_attempt(job: Job) -> None:
    job.write("print('ran')")
    job.start(requeues=True)
    job.start(requeues=True, SLURM_JOB_ID="13", SLURM_RESTART_COUNT="1")
    assert job.text("output.log") == "ran\n"


def test_attempt_on_a_lost_node_does_not_end_the_next_one(job: Job) -> None:
    gate = job.root / "gate"
    job.write(f"import os, time; print('began', flush=True)\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.02)")
    with ThreadPoolExecutor() as pool:
        lost = pool.submit(job.start, requeues=True)
        until(lambda: (job.run / "output.log").exists() and job.text("output.log"))
        job.command("srun", "kill -KILL $PPID")
        job.start(requeues=True, SLURM_RESTART_COUNT="1")
        gate.touch()
        assert lost.result().returncode == 0
    assert job.text("exit").strip() == ""


def test_setup_changes_the_environment_of_the_script(job: Job) -> None:
    job.write("import os; print(os.environ['LOADED'])")
    assert job.start("export LOADED=cuda", "true").returncode == 0
    assert job.text("output.log") == "cuda\n"


def test_failed_setup_ends_the_run_and_names_the_command(job: Job) -> None:
    job.write("print('never')")
    done = job.start("true", "(exit 5) # it's missing")
    assert done.returncode == 5
    assert job.text("exit").strip() == "5"
    message = "workbench-tui: setup failed with exit code 5: (exit 5) # it's missing\n"
    assert job.text("output.log") == message
    assert message in done.stdout


@pytest.mark.parametrize(("command", "code"), [("export FOO=1; exit 0", 1), ("exit 7", 7), ("set -u; echo $NO", 1)])
def test_setup_that_ends_the_shell_is_named(job: Job, command: str, code: int) -> None:
    job.write("print('never')")
    done = job.start("true", command)
    message = f"workbench-tui: setup ended the job: {command}\n"
    assert done.stdout.endswith(message)
    assert (job.text("output.log"), job.text("exit").strip()) == (message, str(code))


def test_options_of_the_shell_in_setup_do_not_end_the_job(job: Job) -> None:
    job.write("print('ran')")
    assert job.start("set -eufC", "true").returncode == 0
    assert job.text("output.log") == "ran\n"


def test_setup_that_loses_srun_is_named(job: Job) -> None:
    job.write("print('never')")
    job.start("set -eu; PATH=/nonexistent")
    message = "workbench-tui: setup failed with exit code 127: srun is not on the PATH after `setup`\n"
    assert job.text("output.log") == message


def test_sigterm_to_the_script_is_noted_in_the_log_of_slurm(job: Job) -> None:
    job.write("import os, signal, sys; os.kill(os.getppid(), signal.SIGTERM); sys.exit(3)")
    done = job.start()
    assert done.returncode == 3
    assert "workbench-tui: the script got SIGTERM\n" in done.stdout
    assert job.text("output.log") == ""


def test_output_of_setup_is_not_in_the_script_log(job: Job) -> None:
    job.write("print('ran')")
    done = job.start("echo loading")
    assert "loading\n" in done.stdout
    assert job.text("output.log") == "ran\n"


def test_tasks_of_other_nodes_write_separate_files(job: Job) -> None:
    job.write("print('node')")
    (job.run / "unfinished").mkdir()
    subprocess.run(["sh", str(job.run / "step")], env={**os.environ, "SLURM_PROCID": "3"}, check=True)
    assert job.text("ranks/3.log") == "node\n"
    assert not (job.run / "output.log").exists()


def test_signal_that_ends_the_script_is_not_in_its_log(job: Job) -> None:
    job.write("import os, signal; os.kill(os.getpid(), signal.SIGTERM)")
    assert job.start().returncode == 143
    assert job.text("output.log") == ""


def test_missing_interpreter_is_named(job: Job) -> None:
    job.write("print('never')", python="/no/such/python")
    assert job.start().returncode == 127
    assert job.text("output.log") == "workbench-tui: pythonLocation /no/such/python does not exist on node node1\n"


def test_python_lookup_ignores_the_path_of_the_run(job: Job) -> None:
    python = job.root / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    job.write("print('found')", {"PATH": "/only/here", "HOME": "/nobody"}, python="python")
    assert job.start().returncode == 0
    assert job.text("output.log") == "found\n"


def test_srun_starts_the_step_with_its_options(job: Job) -> None:
    job.write("")
    words = job.start(SLURM_CPUS_PER_TASK="8").stdout.split()
    assert words == ["--input=none", "--unbuffered", "--export=ALL", "--kill-on-bad-exit=1", "--cpus-per-task=8"]


def test_signal_adds_nothing_to_the_log(job: Job) -> None:
    job.write("import os, signal; print('began', flush=True); os.kill(os.getpid(), signal.SIGTERM)")
    assert job.start().returncode == 143
    assert job.text("output.log") == "began\n"


@pytest.mark.parametrize("killed", ["os.getpid()", "os.getppid()"])
def test_failed_node_is_not_a_success(job: Job, killed: str) -> None:
    """Slurm kills the step on a failed node, and srun exits with 0; the step's shell may outlive the script."""
    job.write(f"import os, signal; os.kill({killed}, signal.SIGKILL)")
    job.command("srun", f"({SRUN})\nexit 0")
    assert job.start().returncode == 1
    assert job.text("exit").strip() == ""


@pytest.mark.parametrize("requeues", [False, True])
def test_job_that_is_pending_again_starts_later(job: Job, requeues: bool) -> None:
    """After a crash, a controller may not know that it has started the job, and starts it again."""
    job.write("print('ran')")
    job.command("srun", "echo 'Job is pending execution' >&2\nexit 1")
    job.command("squeue", "echo PENDING")
    assert job.start(requeues=requeues).returncode == 0
    assert not (job.run / "exit").exists()
    job.command("srun", SRUN)
    assert job.start(requeues=requeues).returncode == 0
    assert job.text("exit").strip() == "0"
    assert job.text("output.log") == "ran\n"


@pytest.mark.parametrize("requeues", [False, True])
def test_start_that_slurm_has_killed_is_repeated(job: Job, requeues: bool) -> None:
    """A controller kills a job if it has no record that it has started it, and starts it again."""
    job.write("print('ran')")
    job.command("srun", "kill -KILL $PPID")
    assert job.start(requeues=requeues).returncode != 0
    job.command("srun", SRUN)
    for _ in range(2):
        assert job.start(requeues=requeues).returncode == 0
    assert job.text("exit").strip() == "0"
    assert job.text("output.log") == "ran\n"


def test_job_that_runs_on_another_node_is_left_to_it(job: Job) -> None:
    job.write("print('never')")
    job.command("srun", "exit 1")
    job.command("squeue", "echo RUNNINGnode2")
    assert job.start().returncode == 0
    assert job.text("exit").strip() == ""
    assert job.text("output.log") == ""


def test_array_task_starts_after_a_restart_of_the_controller(job: Job) -> None:
    job.write("print('ran')")
    job.command("srun", f'[ -e "{job.root}/failed" ] || {{ touch "{job.root}/failed"; exit 1; }}\n{SRUN}')
    job.command("squeue", "case $* in *12_3*) echo RUNNINGnode1 ;; *) echo RUNNINGnode1; echo PENDING ;; esac")
    assert job.start(SLURM_ARRAY_JOB_ID="12", SLURM_ARRAY_TASK_ID="3").returncode == 0
    assert job.text("output.log") == "ran\n"


def test_full_disk_starts_nothing(job: Job) -> None:
    job.write("print('never')")
    (job.run / "exit").mkdir()
    assert job.start().returncode != 0
    assert job.text("output.log") == ""
