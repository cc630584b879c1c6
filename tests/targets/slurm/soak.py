"""Kill parts of a cluster, and processes of the workbench, at random moments while runs execute on it.

    [SOAK_KEEP=FOLDER] [SOAK_REQUEUE=1] python -m tests.targets.slurm.soak KILLS [SEED]

The parts are slurmctld, slurmd, the login node's sshd, and the client: the watcher, the link and a command that
submits. Every script adds a line to one file when it starts, writes numbered lines, and ends with a code, all known in
advance. A controller that is killed forgets what it has not saved, and then Slurm itself kills or loses jobs. Such a
run must have failed or be unknown, with the reason, and its log must contain what the script had written until then.
It is counted separately, and only if Slurm says so: squeue shows the job with a state of LOST_STATES, or no
longer knows an accepted job, srun refuses the step of a job that is ending, or slurm.log says that Slurm has killed the
job. If sshd was killed, a run may also have failed because the first connection to the login node was refused: the
workbench then does not know whether the address is correct. SOAK_KEEP is a folder for the files of the runs and the
logs of the cluster. With SOAK_REQUEUE, jobs are also requeued; then the log must contain the output of each attempt.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from tests.conftest import open_folder
from tests.targets.conftest import link_processes
from tests.targets.slurm.project import SlurmProject, project_on_cluster
from tui_workbench.core.model import Run, RunRequest, RunState
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.store.rundir import ControllerLock, RunDirectory
from tui_workbench.targets.slurm.ends import read_info
from tui_workbench.targets.slurm.states import ENDED

KEEP = os.environ.get("SOAK_KEEP", "")
REQUEUES = bool(os.environ.get("SOAK_REQUEUE"))
ACTIVE_RUNS = 6
PATIENCE = 400.0
"""Seconds for the last runs to end."""

LONGEST_PAUSE = 3.0
"""Seconds between two kills."""

LONGEST_ABSENCE = 2.0
"""Seconds until a daemon is started again."""

LIMIT_MINUTES = 2
"""Time limit of the jobs, whose scripts take seconds. A restarted slurmctld may list a job as running that no node has
received: it is lost, and Slurm ends it as TIMEOUT."""

LOST_STATES = frozenset(("BOOT_FAIL", "CANCELLED", "NODE_FAIL", "TIMEOUT"))
"""States in which jobs end that Slurm has killed or lost, and that no user has canceled."""

REFUSED_STEP = "Job/step already completing or completed"
"""The error of srun if Slurm ends a job before its script has started, for example because of its time limit."""

KILLED_JOB = "error: *** "
"""The beginning of a message in slurm.log: Slurm has killed the job. A controller that was killed before it saved the
start of a job does so. Then it starts the job again, and this start does nothing if the script has begun."""

REFUSED_CONNECTION = "nothing listens on port"
"""A part of the reason of a run whose first connection to the login node was refused."""

SCRIPT = """\
import os, sys, time
lines, code, marks = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
with open(marks, "ab", buffering=0) as file:
    file.write(os.environb[b"AZUREML_RUN_ID"] + b"\\n")
for number in range(lines):
    print(number, "x" * (number % 90), flush=True)
    time.sleep(0.02)
sys.exit(code)
"""


def expected_output(lines: int) -> bytes:
    """Return the output of SCRIPT."""
    return "".join(f"{number} {'x' * (number % 90)}\n" for number in range(lines)).encode()


class Verdict(NamedTuple):
    """The runs by their outcome. Only the first three fields may have members."""

    right: list[str]
    lost_by_slurm: list[str]
    refused: list[str]
    wrong_ends: list[str]
    lost_bytes: list[str]
    double_starts: list[str]
    unfinished: list[str]

    @property
    def failures(self) -> list[str]:
        """The runs with outcomes that are errors."""
        return self.wrong_ends + self.lost_bytes + self.double_starts + self.unfinished


class Soak:
    """A test that runs scripts on a cluster and kills processes. `connections` is the folder of the links' sockets."""

    def __init__(self, project: SlurmProject, connections: Path, seed: int, *, requeues: bool) -> None:
        self.project = project
        self.cluster = project.cluster
        self.kills: Counter[str] = Counter()
        self._states: dict[str, str] = {}  # the last state of each run's job that squeue has shown
        self._forgotten: set[str] = set()  # runs with an accepted job that squeue does not show, or no longer
        self._connections = connections
        self._random = random.Random(seed)
        self._marks = self.cluster.run_root / "marks"
        self._submits: list[subprocess.Popen[bytes]] = []
        self._victims: dict[str, Callable[[], bool]] = {
            "slurmctld": self._kill_controller,
            "slurmd": self._kill_node_daemon,
            "sshd": self._kill_sshd,
            "sessions": self._kill_sessions,
            "watcher": self._kill_watcher,
            "link": self._kill_link,
            "submit": self._kill_submit,
            **({"attempt": self._requeue} if requeues else {}),
        }
        project.configure({"slurm": {"partition": "gpu", "time": str(LIMIT_MINUTES), "requeue": requeues}})
        project.write(SCRIPT)
        self.runs = Runs(Project.find(str(project.folder)))

    def kill(self, count: int) -> None:
        """Keep runs active and kill something at random moments, `count` times."""
        while self.kills.total() < count:
            self._submit_missing()
            time.sleep(self._random.uniform(0, LONGEST_PAUSE))  # not a wait: the test is about this moment
            victim = self._random.choice(list(self._victims))
            if self._victims[victim]():
                self.kills[victim] += 1
                print(f"{self.kills.total()}: {victim}", flush=True)
            self._repair()
            self._ask_slurm()
            self.runs.resume()

    def finish(self, patience: float) -> None:
        """Wait until all runs have ended, for at most `patience` seconds.

        One more run shows that the cluster starts jobs again: the kills may have lost all others before they started.
        """
        for submit in self._submits:
            submit.communicate()
        self.runs.submit(RunRequest("cluster", "train.py", self._arguments()))
        deadline = time.monotonic() + patience
        while any(run.is_active for run in self.runs.list(adopt=True)) and time.monotonic() < deadline:
            time.sleep(0.5)
            self._repair()
            self._ask_slurm()

    def verdict(self) -> Verdict:
        """Compare every run with the expected result of its script."""
        found = Verdict([], [], [], [], [], [], [])
        starts = Counter(content(self._marks).decode().split())
        for run in self.runs.list():
            self._judge(run, starts[run.run_id], found)
        return found

    def _judge(self, run: Run, starts: int, found: Verdict) -> None:
        lines, code = map(int, run.arguments[:2])
        wanted, written = expected_output(lines), content(Path(run.log_path))
        slurm = "forgotten" if run.run_id in self._forgotten else self._states.get(run.run_id, "never seen")
        text = f"{run.run_id}: {run.state}, exit code {run.exit_code} of {code}, {starts} starts, Slurm: {slurm}, "
        text += run.reason
        has_ended = run.exit_code == code and run.state == (RunState.FAILED if code else RunState.COMPLETED)
        kept = content(self.project.there(run.run_id) / "output.log")
        begins = [0, *(attempt.start for attempt in RunDirectory(run.directory).attempts())]
        parts = [written[begin:end] for begin, end in zip(begins, [*begins[1:], len(written)], strict=True)]
        if starts > len(begins):
            found.double_starts.append(text)
        if run.is_active:
            found.unfinished.append(text)
        elif written != kept or (has_ended and parts[-1] != wanted) or not all(map(wanted.startswith, parts)):
            found.lost_bytes.append(f"{text}; {len(written)} of {len(wanted)} bytes, {len(kept)} there")
        elif has_ended and starts:
            found.right.append(text)
        elif run.state in (RunState.FAILED, RunState.UNKNOWN) and run.exit_code != 0 and self._is_lost(run):
            found.lost_by_slurm.append(text)
        elif run.state == RunState.FAILED and REFUSED_CONNECTION in run.reason and self._was_never_sent(run, starts):
            found.refused.append(text)
        else:
            found.wrong_ends.append(text)

    def _is_lost(self, run: Run) -> bool:
        if REFUSED_STEP in run.reason and run.state == RunState.FAILED:
            return True
        is_named = run.run_id in self._forgotten or self._states.get(run.run_id) in LOST_STATES
        return bool(run.reason) and (is_named or KILLED_JOB in run.reason)

    def _was_never_sent(self, run: Run, starts: int) -> bool:
        return self.kills["sshd"] > 0 and not starts and not read_info(run.directory).get("job")

    def _ask_slurm(self) -> None:
        """Record the state of each job, and the accepted jobs that Slurm no longer knows."""
        accepted = {run.run_id for run in self.runs.list() if read_info(run.directory).get("job")}
        done = self.cluster.command("root", ["squeue", "-h", "-t", "all", "-o", "%j %T"])
        if done.returncode != 0:
            return
        shown = dict(line.removeprefix("wb-").split(" ", 1) for line in done.stdout.splitlines())
        # It shows an ended job for minutes (MinJobAge), so its last state is seen before it disappears.
        missing = accepted - shown.keys()
        self._forgotten |= {run_id for run_id in missing if self._states.get(run_id, "") not in ENDED}
        self._states |= shown

    def _repair(self) -> None:
        """Resume drained nodes and release held jobs, as administrators do.

        Slurm drains a node if a controller has used a job ID twice, and holds a requeued job that it could not start.
        """
        names = ",".join(self.cluster.nodes)
        self.cluster.command("root", ["scontrol", "update", f"nodename={names}", "state=resume"])
        for job in self._jobs("PENDING"):
            self.cluster.command("root", ["scontrol", "release", job])

    def _jobs(self, state: str) -> list[str]:
        return self.cluster.command("root", ["squeue", "-h", "-t", state, "-o", "%A"]).stdout.split()

    def _submit_missing(self) -> None:
        active = sum(run.is_active for run in self.runs.list())
        for _ in range(ACTIVE_RUNS - active):
            self.runs.submit(RunRequest("cluster", "train.py", self._arguments()))

    def _arguments(self) -> tuple[str, ...]:
        return str(self._random.randrange(300)), str(self._random.choice((0, 0, 3, 9))), str(self._marks)

    # -- victims; False if there is none ------------------------------------------------------------------------------

    def _pause(self) -> None:
        time.sleep(self._random.uniform(0, LONGEST_ABSENCE))

    def _kill_controller(self) -> bool:
        self.cluster.slurmctld.kill()
        self._pause()
        self.cluster.slurmctld.start()
        return True

    def _kill_node_daemon(self) -> bool:
        daemon = self._random.choice(list(self.cluster.slurmd.values()))
        daemon.kill()
        self._pause()
        daemon.start()
        return True

    def _kill_sshd(self) -> bool:
        self.cluster.login.stop_sshd()
        self._pause()
        self.cluster.login.start_sshd()
        return True

    def _kill_sessions(self) -> bool:
        self.cluster.login.kill_connections()
        return True

    def _kill_watcher(self) -> bool:
        holders = {ControllerLock.holder(RunDirectory(run.directory)) for run in self.runs.list() if run.is_active}
        return kill_all(pid for pid in holders if pid > 0 and pid != os.getpid())

    def _kill_link(self) -> bool:
        return kill_all(link_processes(self._connections))

    def _requeue(self) -> bool:
        jobs = self._jobs("RUNNING")
        return bool(jobs) and self.cluster.command("root", ["scontrol", "requeue", jobs[0]]).returncode == 0

    def _kill_submit(self) -> bool:
        submit = self.project.start("experiment", "submit", "-c", "cluster", "--detach", "train.py", *self._arguments())
        self._submits.append(submit)
        time.sleep(self._random.uniform(0, 1.0))
        submit.kill()
        return True


def kill_all(pids: Iterable[int]) -> bool:
    """Kill processes; return False if none of them exists."""
    killed = False
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            killed = True
    return killed


def content(path: Path) -> bytes:
    """Return the content of a file, which need not exist."""
    return path.read_bytes() if path.exists() else b""


def main(count: int, seed: int) -> int:
    """Kill `count` times, print the outcomes of the runs, and return 1 if one is an error."""
    print(f"seed {seed}", flush=True)
    with open_folder() as folder, project_on_cluster(folder) as (project, connections):
        soak = Soak(project, connections, seed, requeues=REQUEUES)
        soak.kill(count)
        soak.finish(PATIENCE)
        verdict = soak.verdict()
        if KEEP:
            shutil.copytree(folder / "project", f"{KEEP}/project", dirs_exist_ok=True)
            shutil.copytree(project.cluster.folder / "log", f"{KEEP}/log", dirs_exist_ok=True)
            shutil.copytree(project.cluster.run_root, f"{KEEP}/there", dirs_exist_ok=True)
    print(f"{soak.kills.total()} kills: {dict(soak.kills)}")
    for name, runs in verdict._asdict().items():
        print(f"{name}: {len(runs)}", *(() if name == "right" else runs), sep="\n  ")
    return 1 if verdict.failures else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 32)))
