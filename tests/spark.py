"""Spark for tests: an environment with pyspark, shared by all test processes, and a standalone cluster of machines."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests import engines
from tests.conftest import missing, require
from tests.machines import ip, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.engines import DockerEngine
    from tests.machines import Machine

VERSION = "4.3.0"
PACKAGES = (f"pyspark=={VERSION}", "numpy>=2")
_BASE_PYTHON = "/usr/bin/python3"

# Programs that run for seconds: the compiler for programs that run for hours would take half of the processor time.
JAVA_OPTIONS = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}
"""Environment variables of each Java of a test."""

# Not below a home: the users of other machines start its Python too. They share /usr and /tmp.
_FOLDER = Path(tempfile.gettempdir(), f"workbench-tests-spark-{os.getuid()}-{VERSION}")


def spark_python() -> str:
    """Return the Python of the environment, which is made once on this machine (a download of 460 MB)."""
    require("java")
    if shutil.which(_BASE_PYTHON) is None:
        missing(f"{_BASE_PYTHON} is not installed")
    python, complete = _FOLDER / "bin/python", _FOLDER / "complete"
    with open(f"{_FOLDER}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            shutil.rmtree(_FOLDER, ignore_errors=True)
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python), "install", "-q"]
            for words in ([_BASE_PYTHON, "-m", "venv", "--without-pip", str(_FOLDER)], [*pip, "setuptools", *PACKAGES]):
                done = subprocess.run(words, capture_output=True, text=True)
                if done.returncode:
                    missing(f"Spark cannot be installed: {done.stderr.strip()[-500:]}")
            complete.touch()
    return str(python)


def spark_home(python: str) -> Path:
    """Return the folder of Spark in the environment of a Python."""
    return next(Path(python).parent.parent.glob("lib/python*/site-packages/pyspark"))


IMAGE = "tests/spark:1"
"""Debian's Python and Java with Spark: 700 MB."""


def load_spark_image(engine: DockerEngine, python: str) -> None:
    """Load IMAGE into an engine, with the Spark of the environment of `python`."""
    packages = Path(python).parent.parent / "lib"
    java = Path("/usr/bin/java").resolve().parent.parent
    owner = subprocess.run(["dpkg", "-S", f"{java}/bin/java"], capture_output=True, text=True, check=True).stdout
    debian = (*engines.TOOLS, *engines.python_packages(), "bash", "procps", owner.partition(":")[0])
    command = [require("docker"), "--host", f"unix://{engine.socket}", "import", "--change", f"ENV JAVA_HOME={java}"]
    for name, value in JAVA_OPTIONS.items():
        command += ["--change", f"ENV {name}={value}"]
    with subprocess.Popen([*command, "-", IMAGE], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as importing:
        assert importing.stdin is not None
        with tarfile.open(fileobj=importing.stdin, mode="w|") as archive:
            engines.add_packages(archive, debian)
            # Other images have this file too: Java looks up the home folder of root there.
            archive.add("/usr/share/base-passwd/passwd.master", "etc/passwd")
            for name in ("py4j", "pyspark"):
                (folder,) = packages.glob(f"python*/site-packages/{name}")
                archive.add(folder, f"usr/local/lib/{folder.parent.parent.name}/dist-packages/{name}")
    assert importing.returncode == 0


@contextlib.contextmanager
def standalone_cluster(python: str, head: Machine, workers: Sequence[Machine], folder: Path) -> Iterator[str]:
    """Run a standalone cluster within the context: a master on `head`, and a worker with one core on each of `workers`.

    Return the URL of the master.
    """
    url = f"spark://{head.address}:7077"
    head.run(["sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"])
    with contextlib.ExitStack() as stack:
        words = ["master.Master", "--host", head.address, "--port", "7077", "--webui-port", "8080"]
        stack.enter_context(_daemon(python, head, head.address, words, folder, "I have been elected leader"))
        for number, machine in enumerate(workers, 1):
            address = _wire(head, machine, number)
            words = ["worker.Worker", "--host", address, "--cores", "1", "--memory", "1g", url]
            ready = "Successfully registered with master"
            stack.enter_context(_daemon(python, machine, address, words, folder, ready))
        yield url


def _wire(head: Machine, worker: Machine, number: int) -> str:
    """Connect a worker with the head node, which routes to the others; return the worker's address."""
    name, near, far = f"spark{number}", f"10.9.{number}.1", f"10.9.{number}.2"
    pids = str(head.pid), str(worker.pid)
    ip("link", "add", name, "netns", pids[0], "type", "veth", "peer", "name", "spark", "netns", pids[1])
    for machine, address, device in ((head, near, name), (worker, far, "spark")):
        machine.run(["ip", "addr", "add", f"{address}/30", "dev", device])
        machine.run(["ip", "link", "set", device, "up"])
    # No default route: lookups of names would wait for a name server that does not answer, instead of failing at once.
    for destination in (head.address, "10.9.0.0/16"):
        worker.run(["ip", "route", "add", destination, "via", near])
    return far


@contextlib.contextmanager
def _daemon(
    python: str, machine: Machine, address: str, words: Sequence[str], folder: Path, ready: str
) -> Iterator[None]:
    """Run a daemon of Spark on a machine within the context, from the moment when its log says that it is ready."""
    log, home = folder / f"{machine.name}.log", spark_home(python)
    # Names of machines do not resolve.
    variables = {"SPARK_LOCAL_IP": address, "SPARK_WORKER_DIR": str(folder / machine.name), "SPARK_HOME": str(home)}
    variables |= JAVA_OPTIONS
    command = ["env", *(f"{name}={value}" for name, value in variables.items()), str(home / "bin/spark-class")]
    with log.open("wb") as output:
        process = machine.enter(
            [*command, f"org.apache.spark.deploy.{words[0]}", *words[1:]], stdout=output, stderr=output
        )
    try:
        wait_for(lambda: ready in log.read_text(), f"{words[0]} to be ready: {log}")
        yield
    finally:
        for pid in machine.processes("java"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
        machine.leave(process)
