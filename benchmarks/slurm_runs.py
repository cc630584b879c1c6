"""Follow runs on a real Slurm cluster: the first line of output, and what 1,000 queued runs cost.

First line: from print in the job to `output.log` here, compared with `ssh LOGIN tail -F`. Queued runs: processor and
memory of the watcher and the link together, and the number of squeue calls; the baseline is `squeue` by `ssh` for each
run in the same interval.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.harness import (
    COUNT,
    MEGABYTES,
    PERCENT,
    SECONDS,
    check,
    compare,
    environment,
    finish,
    note,
    processor_seconds,
    proportional_memory,
)
from benchmarks.ssh_machine import is_possible
from tests.targets.conftest import link_processes
from tests.targets.slurm.project import SlurmProject, project_on_cluster
from tui_workbench.core.model import Run, RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.store.rundir import ControllerLock, RunDirectory

FIRST_ROUNDS = 8
FIRST_PLUS = 1.0
RUNS = 1000
WINDOW = 120.0
INTERVAL = 15.0
PATIENCE = 1200.0
PAUSE = 0.002

CLOCK = "import time; print(time.clock_gettime_ns(time.CLOCK_MONOTONIC), flush=True); time.sleep(3)\n"


def main() -> int:
    """Run the benchmark."""
    if not is_possible():
        note("not measured: a cluster can only be made by root")
        return 0
    with tempfile.TemporaryDirectory(prefix="wb-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with project_on_cluster(folder) as (project, connections):
            _measure_first_line(project, folder)
            _measure_queued(project, connections, folder)
    return finish()


def _measure_first_line(project: SlurmProject, folder: Path) -> None:
    project.write(CLOCK)
    runs = Runs(Project.find(str(project.folder)))
    compare(
        "first line of the job to output.log here",
        lambda: _ours(runs),
        lambda: _tail(project, folder),
        limit=1.0,
        rounds=FIRST_ROUNDS,
        baseline_name="ssh LOGIN tail -F",
        plus=FIRST_PLUS,
        unit=SECONDS,
    )


def _ours(runs: Runs) -> float:
    run = runs.submit(RunRequest("cluster", "train.py"))
    log = Path(run.log_path)
    while not log.exists() or b"\n" not in log.read_bytes():
        time.sleep(PAUSE)
    arrived = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    taken = (arrived - int(log.read_bytes())) / 1e9
    _until_ended(runs)
    return taken


def _until_ended(runs: Runs) -> None:
    while any(run.is_active for run in runs.list()):
        time.sleep(0.1)


def _tail(project: SlurmProject, folder: Path) -> float:
    """Submit the script with sbatch, and follow its output from before its start."""
    output = project.cluster.run_root / "tail.log"
    output.write_bytes(b"")
    os.chown(output, *_owner(project))
    words = ["ssh", "-F", "none", "-i", str(folder / "id_ed25519"), "-o", f"UserKnownHostsFile={_known(folder)}"]
    command = [*words, f"research@{project.cluster.login.address}", f"tail -n +1 -F {output}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment()) as tail:
        assert tail.stdout is not None
        script = f"exec /usr/bin/python3 {project.cluster.run_root}/clock.py"
        (project.cluster.run_root / "clock.py").write_text(CLOCK)
        project.cluster.submit(script, f"--output={output}", "--open-mode=append")
        line = tail.stdout.readline()
        taken = (time.clock_gettime_ns(time.CLOCK_MONOTONIC) - int(line)) / 1e9
        tail.terminate()
    return taken


def _owner(project: SlurmProject) -> tuple[int, int]:
    found = project.cluster.run_root.stat()
    return found.st_uid, found.st_gid


def _known(folder: Path) -> Path:
    return folder / "home" / ".ssh" / "known_hosts"


def _measure_queued(project: SlurmProject, connections: Path, folder: Path) -> None:
    project.configure({"slurm": {"partition": "gpu", "extra": ["--hold"]}})
    runs = Runs(Project.find(str(project.folder)))
    calls = project.cluster.scratch / "calls"
    calls.touch()
    calls.chmod(0o666)
    submitted = [runs.submit(RunRequest("cluster", "train.py")) for _ in range(RUNS)]
    processes = _until_submitted(submitted) + link_processes(connections)
    check(f"{RUNS} queued runs, processes", len(processes), 2, COUNT)
    with project.cluster.login.replaced("/usr/bin/squeue", f'echo >>{calls}; exec "$ORIGINAL" "$@"'):
        before = sum(map(processor_seconds, processes))
        first, begun = len(calls.read_bytes()), time.perf_counter()
        time.sleep(WINDOW)
        elapsed = time.perf_counter() - begun
        asked = len(calls.read_bytes()) - first
        used = sum(map(processor_seconds, processes)) - before
    check(f"{RUNS} queued runs, processor of watcher and link", used / elapsed, 0.01, PERCENT)
    check(f"{RUNS} queued runs, memory of watcher and link", sum(map(proportional_memory, processes)), 60e6, MEGABYTES)
    check(f"{RUNS} queued runs, squeue calls in {WINDOW:.0f} s", asked, WINDOW // INTERVAL + 1, COUNT)
    states = {run.state for run in runs.list() if run.is_active}
    note(f"states: {', '.join(sorted(states))}; ssh LOGIN squeue would be {RUNS} calls per interval")


def _until_submitted(runs: list[Run]) -> list[int]:
    """Wait until Slurm has all jobs, and return the processes that drive the runs."""
    directories = [RunDirectory(run.directory) for run in runs]
    deadline = time.monotonic() + PATIENCE
    for directory in directories:
        while "start" not in directory.status().done:
            if time.monotonic() > deadline:
                raise TimeoutError(directory.run_id)
            time.sleep(0.01)
    return sorted({ControllerLock.holder(directory) for directory in directories})


if __name__ == "__main__":
    sys.exit(main())
