"""Measure runs on a real Slurm cluster, whose machines are namespaces, and the watcher of many runs.

    python -m benchmarks.slurm

Submission: the time until sbatch has accepted a run, compared with `ssh LOGIN sbatch`, over connections with delays.
Both use an open connection through a relay that delays each byte, because the kernels of build machines have no netem.
The project has not changed since the last run.

First line: the time from the call of print in the job until the line is in the local `output.log`, compared with
`ssh LOGIN tail -F`.

Queued runs on the cluster: processor time and memory of the watcher and the SSH connection together, and the number of
squeue calls. Running runs: processor time and memory of the watcher, with a target that executes nothing. The memory is
measured with two numbers of runs and extrapolated to 1,000 runs. The processor time of the larger number is multiplied.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

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
    processor_shares,
    proportional_memory,
    python,
    scratch_folder,
)
from benchmarks.queued_targets import ACTIVE, METADATA, TOGETHER
from benchmarks.ssh_machine import is_possible, relay
from tests.slurm_cluster import SlurmCluster
from tests.targets.conftest import end_links, link_processes
from tests.targets.slurm.project import SlurmProject, project_on_cluster
from tui_workbench.core import target_types
from tui_workbench.core.model import RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.store.rundir import ControllerLock, RunDirectory

ROUNDS, LINE_ROUNDS = 2, 1
SUBMIT_MARGIN = 0.200
ROUND_TRIPS = (0.0, 0.050, 0.200)
"""Round-trip times of the connection in seconds."""

FIRST_MARGIN = 1.0
CLUSTER_RUNS, WATCHER_RUNS = (40, 200), (40, 120)
"""Numbers of runs from which the values of MANY runs are extrapolated."""

MANY = 1_000
QUEUED_SHARE, QUEUED_MEMORY = 0.02, 70e6
ACTIVE_SHARE, ACTIVE_MEMORY = 0.02, 150e6
WINDOW, INTERVAL = 31.0, 15.0
"""Seconds of a measurement on the cluster, and between two calls of squeue."""

WATCHER_WINDOW = 6.0
PATIENCE = 600.0
PAUSE = 0.002

SCRIPT = "import time; time.sleep(600)\n"
CLOCK = "import time; print(time.clock_gettime_ns(time.CLOCK_MONOTONIC), flush=True); time.sleep(1)\n"


def main() -> int:
    if is_possible():
        with tempfile.TemporaryDirectory(prefix="wb-") as name:
            folder = Path(name)
            folder.chmod(0o755)
            with project_on_cluster(folder) as (project, connections):
                for round_trip in ROUND_TRIPS:
                    measure_submit(folder / f"{round_trip * 1000:.0f}", project.cluster, round_trip)
                measure_first_line(project, folder)
                measure_queued(project, connections)
    else:
        note("the cluster, because only root can create it")
    with scratch_folder() as name:
        measure_watcher(Path(name))
    return finish()


def measure_submit(folder: Path, cluster: SlurmCluster, round_trip: float) -> None:
    """Compare a submission over a connection with a delay with `sbatch`."""
    key = folder.parent / "id_ed25519"
    with relay(cluster.login.address, round_trip / 2) as port, _user(folder, cluster, key, port):
        project = _project(folder / "project", cluster, port)
        ssh = ["ssh", "-F", "none", "-p", str(port), "-o", f"UserKnownHostsFile={folder / 'home/.ssh/known_hosts'}"]
        ssh += ["-i", str(key), "-o", f"ControlPath={folder / 'control'}", "research@127.0.0.1"]
        subprocess.run([*ssh[:-1], "-M", "-N", "-f", ssh[-1]], check=True, stderr=subprocess.DEVNULL)
        try:
            compare(
                f"from the submission until sbatch has accepted the job, {round_trip * 1000:.0f} ms round trip",
                lambda: accepted(project),
                lambda: _plain(ssh, cluster),
                limit=1.0,
                rounds=ROUNDS,
                baseline_name="`ssh LOGIN sbatch`",
                margin=SUBMIT_MARGIN,
            )
        finally:
            subprocess.run([*ssh[:-1], "-O", "exit", ssh[-1]], check=False, stderr=subprocess.DEVNULL)
            _kill(_holders(Runs(Project.find(str(project)))))
            cluster.output(["scancel", "--user", "research"])


def accepted(project: Path) -> float:
    """Submit a run. Return the seconds until its record says that sbatch has accepted it."""
    begun = time.time()
    words = [python(), "-P", "-m", "tui_workbench", "experiment", "submit", "-c", "cluster", "--detach"]
    done = subprocess.run(
        [*words, "--project", str(project), "train.py"], check=True, capture_output=True, text=True, env=environment()
    )
    events = project / ".workbench" / "runs" / done.stdout.split()[-1] / "events.jsonl"
    while True:
        for line in events.read_text().splitlines():
            event = json.loads(line)
            if event.get("step") == "submit" and event.get("status") == "done":
                return float(event["time"]) - begun
            if event.get("final"):
                raise RuntimeError(f"the run has ended: {event}")
        time.sleep(0.01)


def _plain(ssh: list[str], cluster: SlurmCluster) -> float:
    begun = time.perf_counter()
    command = f"sbatch --parsable --partition=gpu --hold --output=/dev/null --chdir={cluster.run_root}"
    subprocess.run([*ssh, command], input=b"#!/bin/sh\nsleep 600\n", check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def _project(root: Path, cluster: SlurmCluster, port: int) -> Path:
    (root / "aml_config").mkdir(parents=True)
    compute = {
        "type": "slurm",
        "address": f"127.0.0.1:{port}",
        "username": "research",
        "pythonLocation": "/usr/bin/python3",
        "runRoot": str(cluster.run_root),
        "slurm": {"partition": "gpu", "extra": ["--hold"]},
    }
    (root / "aml_config" / "cluster.compute").write_text(json.dumps(compute))
    (root / "aml_config" / "cluster.runconfig").write_text(json.dumps({"Target": "cluster", "Framework": "Python"}))
    (root / "train.py").write_text(SCRIPT)
    return root


@contextlib.contextmanager
def _user(folder: Path, cluster: SlurmCluster, key: Path, port: int) -> Iterator[None]:
    """Use an empty HOME with a known host key and a private key while the context is active."""
    ssh_folder = folder / "home" / ".ssh"
    ssh_folder.mkdir(parents=True)
    for name in (key, key.with_suffix(".pub")):
        shutil.copy(name, ssh_folder)
    host_key = cluster.login.known_hosts_line.partition(" ")[2]
    (ssh_folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {host_key}")
    runtime = folder / "run"
    runtime.mkdir(mode=0o700)
    changes = {"HOME": str(folder / "home"), "XDG_RUNTIME_DIR": str(runtime)}
    with mock.patch.dict(os.environ, changes):
        try:
            yield
        finally:
            end_links(runtime)


def measure_first_line(project: SlurmProject, folder: Path) -> None:
    """Compare the time until the first line is in the local log with `tail -F`."""
    project.write(CLOCK)
    runs = Runs(Project.find(str(project.folder)))
    compare(
        "from the first line of the job to the local `output.log`",
        lambda: _ours(runs),
        lambda: _tail(project, folder),
        limit=1.0,
        rounds=LINE_ROUNDS,
        baseline_name="`ssh LOGIN tail -F`",
        margin=FIRST_MARGIN,
        warmup=0,
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
    """Submit the script with sbatch, and follow its output, beginning before its start."""
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


def measure_queued(project: SlurmProject, connections: Path) -> None:
    """Measure queued runs of the cluster."""
    project.configure({"slurm": {"partition": "gpu", "extra": ["--hold"]}})
    runs = Runs(Project.find(str(project.folder)))
    calls = project.cluster.scratch / "calls"
    calls.touch()
    calls.chmod(0o666)
    memory = []
    with project.cluster.login.replaced("/usr/bin/squeue", f'echo >>{calls}; exec "$ORIGINAL" "$@"'):
        for count in CLUSTER_RUNS:
            _submit(runs, "cluster", "train.py", count)
            processes = _holders(runs) + link_processes(connections)
            first = len(calls.read_bytes())
            while len(calls.read_bytes()) == first:  # the call that follows the last submission
                time.sleep(0.1)
            memory.append(proportional_memory(processes))
        first = len(calls.read_bytes())
        (share,) = processor_shares([processes], WINDOW)
        asked = len(calls.read_bytes()) - first
    name = f"{MANY:,} queued runs, watcher and connection"
    check(f"{name}, processes", len(processes), 2, COUNT)
    _check_use(name, CLUSTER_RUNS, share, memory, QUEUED_SHARE, QUEUED_MEMORY)
    check(f"{CLUSTER_RUNS[-1]} queued runs, squeue calls in {WINDOW:.0f} s", asked, WINDOW // INTERVAL + 1, COUNT)


def measure_watcher(folder: Path) -> None:
    """Measure the watcher of running runs, which execute nothing."""
    runs = Runs(_watched_project(folder))
    memory, holders = [], []
    try:
        for count in WATCHER_RUNS:
            _submit(runs, TOGETHER, ACTIVE, count)
            holders = _holders(runs)
            memory.append(proportional_memory(holders))
        (share,) = processor_shares([holders], WATCHER_WINDOW)
    finally:
        _kill(holders)
    _check_use(f"{MANY:,} running runs, watcher", WATCHER_RUNS, share, memory, ACTIVE_SHARE, ACTIVE_MEMORY)


def _submit(runs: Runs, configuration: str, script: str, count: int) -> None:
    """Submit runs until `count` runs are active, and wait until the target has received all of them."""
    active = sum(run.is_active for run in runs.list())
    submitted = [runs.submit(RunRequest(configuration, script)) for _ in range(count - active)]
    deadline = time.monotonic() + PATIENCE
    for directory in (RunDirectory(run.directory) for run in submitted):
        while "start" not in directory.status().done:
            if time.monotonic() > deadline:
                raise TimeoutError(directory.run_id)
            time.sleep(0.01)


def _holders(runs: Runs) -> list[int]:
    """Return the processes that drive the active runs."""
    return sorted({ControllerLock.holder(RunDirectory(run.directory)) for run in runs.list() if run.is_active})


def _kill(processes: list[int]) -> None:
    for pid in processes:
        os.kill(pid, signal.SIGKILL)


def _check_use(
    name: str, counts: tuple[int, int], share: float, memory: list[float], share_limit: float, memory_limit: float
) -> None:
    """Check the processor time and the memory of MANY runs."""
    few, more = memory
    each = max(0.0, more - few) / (counts[1] - counts[0])
    check(f"{name}, share of a core", share * MANY / counts[1], share_limit, PERCENT)
    check(f"{name}, memory", more + each * (MANY - counts[1]), memory_limit, MEGABYTES)


def _watched_project(folder: Path) -> Project:
    """Create a project with the target, and make its type known to this process and its children."""
    home, site, root = folder / "home", folder / "site", folder / "project"
    configuration = root / "aml_config"
    for path in (home, configuration, site / "queued-1.0.dist-info"):
        path.mkdir(parents=True)
    for name, text in METADATA.items():
        (site / name).write_text(text)
    (configuration / f"{TOGETHER}.compute").write_text(f"type: {TOGETHER}\npythonLocation: python\n")
    (configuration / f"{TOGETHER}.runconfig").write_text(f"Target: {TOGETHER}\nFramework: Python\nTrackedRun: false\n")
    (root / ACTIVE).write_text("print('hello')\n")
    place = str(Path(__file__).parent.parent)
    kept = environment({"HOME": str(home), "PYTHONPATH": f"{site}:{place}"})
    os.environ.clear()
    os.environ.update({name: value for name, value in kept.items() if not name.startswith("XDG_")})
    sys.path.insert(0, str(site))
    target_types.forget_installed()
    return Project.find(str(root))


if __name__ == "__main__":
    sys.exit(main())
