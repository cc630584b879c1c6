"""Time until sbatch has accepted a run, compared with `ssh LOGIN sbatch`, over connections with delays.

    python -m benchmarks.slurm_submit

Both use a connection that is open, on a real cluster of machines of namespaces. The connection goes through a relay
that delays each byte, because the kernels of build machines have no netem. The project has not changed since the last
run.
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

from benchmarks.harness import compare, environment, finish, note, python
from benchmarks.ssh_machine import is_possible
from tests.machines import make_key
from tests.slurm_cluster import SlurmCluster, slurm_cluster
from tests.targets.conftest import end_links

ROUNDS = 8
PLUS = 0.150
ROUND_TRIPS = (0.0, 0.050, 0.200)
"""Delays of the connection in seconds, there and back."""

SCRIPT = "import time; time.sleep(600)\n"


def main() -> int:
    """Run the benchmark."""
    if not is_possible():
        note("not measured: a cluster can only be made by root")
        return 0
    with tempfile.TemporaryDirectory(prefix="wb-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        key = make_key(folder / "id_ed25519")
        cluster = stack.enter_context(slurm_cluster(key))
        for round_trip in ROUND_TRIPS:
            _measure(folder / f"{round_trip * 1000:.0f}", cluster, key, round_trip)
    return finish()


def _measure(folder: Path, cluster: SlurmCluster, key: Path, round_trip: float) -> None:
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
                plus=PLUS,
                warmup=2,
            )
        finally:
            subprocess.run([*ssh[:-1], "-O", "exit", ssh[-1]], check=False, stderr=subprocess.DEVNULL)
            cluster.output(["scancel", "--user", "research"])
            _until_ended(project)


def accepted(project: Path) -> float:
    """Submit a run; return the seconds until its record says that sbatch has accepted it."""
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


def _until_ended(project: Path) -> None:
    """Wait until the watcher has recorded the ends of all runs, and no longer writes."""
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
    """A user with an empty HOME who has logged in before."""
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
    """Within the context, forward a port of this machine to the SSH server; each byte takes `delay` seconds."""
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
    """Copy bytes with a delay, however many are on their way."""
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


if __name__ == "__main__":
    sys.exit(main())
