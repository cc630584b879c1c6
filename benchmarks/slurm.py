"""Measure runs on a real Slurm cluster, whose machines are namespaces: submission, first line of output, queued runs.

    python -m benchmarks.slurm [RUNS]

Submission: the time until sbatch has accepted a run, compared with `ssh LOGIN sbatch`, over connections with delays.
Both use an open connection through a relay that delays each byte, because the kernels of build machines have no netem.
The project has not changed since the last run.

First line: the time from print in the job to the local `output.log`, compared with `ssh LOGIN tail -F`. Queued runs
(RUNS of them): processor time and memory of the watcher and the SSH connection together, and the number of squeue
calls. `ssh LOGIN squeue` for each run would take RUNS calls in each interval.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
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
    processor_seconds,
    proportional_memory,
    python,
)
from benchmarks.ssh_machine import is_possible
from tests.machines import make_key
from tests.slurm_cluster import SlurmCluster, slurm_cluster
from tests.targets.conftest import end_links, link_processes
from tests.targets.slurm.project import SlurmProject, project_on_cluster
from tui_workbench.core.model import Run, RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.store.rundir import ControllerLock, RunDirectory

ROUNDS = 8
SUBMIT_MARGIN = 0.150
ROUND_TRIPS = (0.0, 0.050, 0.200)
"""Round-trip times of the connection in seconds."""

FIRST_MARGIN = 1.0
RUNS = 100
WINDOW = 45.0
INTERVAL = 15.0
PATIENCE = 1200.0
PAUSE = 0.002

SCRIPT = "import time; time.sleep(600)\n"
CLOCK = "import time; print(time.clock_gettime_ns(time.CLOCK_MONOTONIC), flush=True); time.sleep(3)\n"


def main(count: int) -> int:
    if not is_possible():
        note("not measured: only root can create a cluster")
        return 0
    with tempfile.TemporaryDirectory(prefix="wb-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        key = make_key(folder / "id_ed25519")
        with slurm_cluster(key) as cluster:
            for round_trip in ROUND_TRIPS:
                _measure_submit(folder / f"{round_trip * 1000:.0f}", cluster, key, round_trip)
    with tempfile.TemporaryDirectory(prefix="wb-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with project_on_cluster(folder) as (project, connections):
            _measure_first_line(project, folder)
            _measure_queued(project, connections, count)
    return finish()


def _measure_submit(folder: Path, cluster: SlurmCluster, key: Path, round_trip: float) -> None:
    with relay(cluster.login.address, round_trip / 2) as port, _user(folder, cluster, key, port):
        project = _project(folder / "project", cluster, port)
        ssh = ["ssh", "-F", "none", "-p", str(port), "-o", f"UserKnownHostsFile={folder / 'home/.ssh/known_hosts'}"]
        ssh += ["-i", str(key), "-o", f"ControlPath={folder / 'control'}", "research@127.0.0.1"]
        subprocess.run([*ssh[:-1], "-M", "-N", "-f", ssh[-1]], check=True, stderr=subprocess.DEVNULL)
        try:
            compare(
                f"submit to sbatch accepted, {round_trip * 1000:.0f} ms round trip",
                lambda: accepted(project),
                lambda: _plain(ssh, cluster),
                limit=1.0,
                rounds=ROUNDS,
                baseline_name="ssh LOGIN sbatch",
                margin=SUBMIT_MARGIN,
                warmup=2,
            )
        finally:
            subprocess.run([*ssh[:-1], "-O", "exit", ssh[-1]], check=False, stderr=subprocess.DEVNULL)
            cluster.output(["scancel", "--user", "research"])
            _until_recorded(project)


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


def _until_recorded(project: Path) -> None:
    """Wait until the watcher has recorded the end of all runs and has stopped writing."""
    for run in (project / ".workbench" / "runs").iterdir():
        while '"final"' not in (run / "events.jsonl").read_text():
            time.sleep(0.1)


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


@contextlib.contextmanager
def relay(address: str, delay: float) -> Iterator[int]:
    """Forward a port of this machine to the SSH server with a delay in seconds. Yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    near, _ = server.accept()
                    far = socket.create_connection((address, 22))
                    for ends in ((near, far), (far, near)):
                        ends[0].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                        threading.Thread(target=_forward, args=(*ends, delay), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


def _forward(source: socket.socket, sink: socket.socket, delay: float) -> None:
    """Copy bytes with a delay, which does not limit the throughput."""
    waiting: deque[tuple[float, bytes]] = deque()
    arrived = threading.Condition()

    def send() -> None:
        with contextlib.suppress(OSError):
            while True:
                with arrived:
                    arrived.wait_for(lambda: waiting)
                    due, data = waiting.popleft()
                time.sleep(max(0.0, due - time.monotonic()))
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                    return
                sink.sendall(data)

    threading.Thread(target=send, daemon=True).start()
    data = b"-"
    while data:
        try:
            data = source.recv(1 << 16)
        except OSError:
            data = b""
        with arrived:
            waiting.append((time.monotonic() + delay, data))
            arrived.notify()


def _measure_first_line(project: SlurmProject, folder: Path) -> None:
    project.write(CLOCK)
    runs = Runs(Project.find(str(project.folder)))
    compare(
        "first line of the job to the local output.log",
        lambda: _ours(runs),
        lambda: _tail(project, folder),
        limit=1.0,
        rounds=ROUNDS,
        baseline_name="ssh LOGIN tail -F",
        margin=FIRST_MARGIN,
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


def _measure_queued(project: SlurmProject, connections: Path, count: int) -> None:
    project.configure({"slurm": {"partition": "gpu", "extra": ["--hold"]}})
    runs = Runs(Project.find(str(project.folder)))
    calls = project.cluster.scratch / "calls"
    calls.touch()
    calls.chmod(0o666)
    submitted = [runs.submit(RunRequest("cluster", "train.py")) for _ in range(count)]
    processes = _until_submitted(submitted) + link_processes(connections)
    check(f"{count} queued runs, processes", len(processes), 2, COUNT)
    with project.cluster.login.replaced("/usr/bin/squeue", f'echo >>{calls}; exec "$ORIGINAL" "$@"'):
        before = sum(map(processor_seconds, processes))
        first, begun = len(calls.read_bytes()), time.perf_counter()
        time.sleep(WINDOW)
        elapsed = time.perf_counter() - begun
        asked = len(calls.read_bytes()) - first
        used = sum(map(processor_seconds, processes)) - before
    check(f"{count} queued runs, processor of watcher and connection", used / elapsed, 0.01, PERCENT)
    check(f"{count} queued runs, memory of both", sum(map(proportional_memory, processes)), 60e6, MEGABYTES)
    check(f"{count} queued runs, squeue calls in {WINDOW:.0f} s", asked, WINDOW // INTERVAL + 1, COUNT)
    states = {run.state for run in runs.list() if run.is_active}
    note(f"states: {', '.join(sorted(states))}; ssh LOGIN squeue would need {count} calls per interval")


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
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS))
