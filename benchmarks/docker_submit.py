"""Compare the time from the submit command to the first output of a script in a container with that of `docker run`.

The image has been pulled and inspected, and the project contains only the script. For another machine, the baseline is
`ssh HOST docker run`, which opens a connection each time. The workbench is measured with and without an open
connection.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

from benchmarks.harness import compare, environment, finish, note, python
from benchmarks.ssh_machine import Remote, is_possible, remote
from tests.engines import PYTHON_IMAGE, DockerEngine, docker_engine, load_test_images
from tui_workbench.targets.ssh.ssh_host import SshHost

ROUNDS = 12
LOCAL_MARGIN, OPEN_MARGIN, COLD_MARGIN = 0.250, 0.300, 0.700
TARGET = "box"
TOKEN = b"first-output"

SCRIPT = f"print({TOKEN.decode()!r}, flush=True)\n"
RUNCONFIG = "Target: {name}\nFramework: Python\nArgumentVector: [$file]\n"


def main() -> int:
    if not is_possible():
        note("not measured: only root can start a separate Docker engine")
        return 0
    with tempfile.TemporaryDirectory(prefix="wb-") as folder, docker_engine() as engine:
        _measure_local(Path(folder), engine)
    with remote() as box, _engine_of(box) as engine:
        _measure_remote(box, engine)
    return finish()


def _measure_local(folder: Path, engine: DockerEngine) -> None:
    changes = {"DOCKER_HOST": f"unix://{engine.socket}", "HOME": str(folder / "home")}
    with mock.patch.dict(os.environ, changes):
        project = _project(folder / "project", f"type: localdocker\nbaseDockerImage: {PYTHON_IMAGE}\n")
        submit = _submit(project)
        mounts = ["--mount", f"type=bind,source={project},target=/work", "--workdir", "/work"]
        plain = ["docker", "run", "--rm", "--init", *mounts, PYTHON_IMAGE, "python3", "hello.py"]
        compare(
            "localdocker, submit to first output",
            lambda: first_output(submit),
            lambda: first_output(plain),
            limit=1.0,
            rounds=ROUNDS,
            baseline_name="docker run",
            margin=LOCAL_MARGIN,
        )


def _measure_remote(box: Remote, engine: DockerEngine) -> None:
    name = box.host.login
    compute = (
        f"type: remotedocker\naddress: {name.address}\nusername: {name.username}\nbaseDockerImage: {PYTHON_IMAGE}\n"
    )
    project = _project(box.folder / "project", compute)
    submit = _submit(project)
    there = box.home / "plain"
    there.mkdir()
    (there / "hello.py").write_text(SCRIPT)
    command = f"docker run --rm --init -v /home/research/plain:/work -w /work {PYTHON_IMAGE} python3 hello.py"
    plain = [*box.ssh, command]
    compare(
        "remotedocker, submit to first output, connection open",
        lambda: first_output(submit),
        lambda: first_output(plain),
        limit=1.0,
        rounds=ROUNDS,
        baseline_name="ssh HOST docker run",
        margin=OPEN_MARGIN,
    )

    # A connection is identified by the name of its target.
    connection = SshHost(name._replace(target=TARGET))

    def cold() -> float:
        connection.disconnect()
        return first_output(submit)

    compare(
        "remotedocker, submit to first output, no connection",
        cold,
        lambda: first_output(plain),
        limit=1.0,
        rounds=ROUNDS,
        baseline_name="ssh HOST docker run",
        margin=COLD_MARGIN,
    )


def first_output(command: Sequence[str]) -> float:
    """Run a command until it ends. Return the seconds from its start to the script's line in its output."""
    begun = time.perf_counter()
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as process:
        assert process.stdout is not None
        seen = b""
        while TOKEN not in seen:
            data = os.read(process.stdout.fileno(), 1 << 16)
            if not data:
                raise RuntimeError(f"{command} printed {seen!r} and {process.communicate()[1]!r}")
            seen += data
        elapsed = time.perf_counter() - begun
        process.communicate()
    return elapsed


def _submit(project: Path) -> list[str]:
    return [
        python(),
        "-P",
        "-m",
        "tui_workbench",
        "experiment",
        "submit",
        "-c",
        TARGET,
        "--project",
        str(project),
        "hello.py",
    ]


def _project(root: Path, compute: str) -> Path:
    """Create a project with the target and run configuration TARGET."""
    (root / "aml_config").mkdir(parents=True)
    (root / "aml_config" / f"{TARGET}.compute").write_text(compute)
    (root / "aml_config" / f"{TARGET}.runconfig").write_text(RUNCONFIG.format(name=TARGET))
    (root / "hello.py").write_text(SCRIPT)
    return root


@contextlib.contextmanager
def _engine_of(box: Remote) -> Iterator[DockerEngine]:
    engine = DockerEngine(box.machine.folder / "docker", machine=box.machine)
    engine.start()
    try:
        load_test_images(engine)
        yield engine
    finally:
        engine.destroy()


if __name__ == "__main__":
    sys.exit(main())
