"""Measure submissions of runs in containers, in managed environments and on Spark.

    python -m benchmarks.submit

Containers: the time from the submit command to the first output of the script, compared with `docker run`. The image
has been pulled and inspected, and the project contains only the script. For another machine, the baseline is
`ssh HOST docker run`, which opens a connection each time; the workbench uses its open connection.

Environments: the time to build an environment of ten packages, compared with `python -m venv` and `pip install`, with
empty caches and again with the existing environment. The packages come from an index on this machine, so that the
network is not measured.

Spark: the time from the submission to the first line of the script, compared with `spark-submit`. The script prints
before it starts a session, so that both programs only start the driver.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from unittest import mock

from benchmarks.harness import SECONDS, compare, environment, finish, note, python
from benchmarks.ssh_machine import Remote, is_possible, remote
from tests.engines import PYTHON_IMAGE, DockerEngine, docker_engine, load_images
from tests.package_index import PackageIndex, package_index
from tests.spark import spark_home, spark_python
from tui_workbench.core.model import RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs

TARGET = "box"
TOKEN = b"first-output"
PRINT_TOKEN = f"print({TOKEN.decode()!r}, flush=True)\n"
PRINT_ARGUMENT = "import sys\nprint(sys.argv[1], flush=True)\n"

DOCKER_ROUNDS, ENVIRONMENT_ROUNDS, SPARK_ROUNDS = 1, 1, 1
DOCKER_MARGIN, REMOTE_MARGIN, SPARK_MARGIN = 0.250, 0.300, 0.250
COLD_LIMIT, CACHED_LIMIT = 0.5, 1.0
"""Limits of an environment as multiples of venv and pip, and of pip that finds all packages installed."""

PACKAGES = tuple(f"tinypackage{number}" for number in range(10))
PAUSE = 0.002


def main() -> int:
    if is_possible():
        with tempfile.TemporaryDirectory(prefix="wb-") as folder, docker_engine() as engine:
            measure_docker(Path(folder), engine)
        with remote() as box, _engine_of(box) as engine:
            measure_remote_docker(box)
    else:
        note("containers, because only root can start a separate Docker engine")
    with tempfile.TemporaryDirectory() as name, package_index(Path(name) / "index", "127.0.0.1") as index:
        measure_environment(Path(name), index)
    with tempfile.TemporaryDirectory() as name:
        measure_spark(Path(name))
    return finish()


def measure_docker(folder: Path, engine: DockerEngine) -> None:
    """Compare a container on this machine with `docker run`."""
    changes = {"DOCKER_HOST": f"unix://{engine.socket}", "HOME": str(folder / "home")}
    with mock.patch.dict(os.environ, changes):
        project = _project(folder / "project", f"type: localdocker\nbaseDockerImage: {PYTHON_IMAGE}\n", PRINT_TOKEN)
        submit = _command("submit", project, "hello.py")
        mounts = ["--mount", f"type=bind,source={project},target=/work", "--workdir", "/work"]
        plain = ["docker", "run", "--rm", "--init", *mounts, PYTHON_IMAGE, "python3", "hello.py"]
        compare(
            "`localdocker`, from the submission to the first output",
            lambda: first_output(submit),
            lambda: first_output(plain),
            limit=1.0,
            rounds=DOCKER_ROUNDS,
            baseline_name="`docker run`",
            margin=DOCKER_MARGIN,
        )


def measure_remote_docker(box: Remote) -> None:
    """Compare a container on another machine with `ssh HOST docker run`."""
    login = box.host.login
    compute = f"type: remotedocker\naddress: {login.address}\nusername: {login.username}\n"
    project = _project(box.folder / "project", f"{compute}baseDockerImage: {PYTHON_IMAGE}\n", PRINT_TOKEN)
    submit = _command("submit", project, "hello.py")
    there = box.home / "plain"
    there.mkdir()
    (there / "hello.py").write_text(PRINT_TOKEN)
    run = f"docker run --rm --init -v /home/research/plain:/work -w /work {PYTHON_IMAGE} python3 hello.py"
    compare(
        "`remotedocker`, from the submission to the first output",
        lambda: first_output(submit),
        lambda: first_output([*box.ssh, run]),
        limit=1.0,
        rounds=DOCKER_ROUNDS,
        baseline_name="`ssh HOST docker run`",
        margin=REMOTE_MARGIN,
    )


@contextlib.contextmanager
def _engine_of(box: Remote) -> Iterator[DockerEngine]:
    engine = DockerEngine(box.machine.folder / "docker", machine=box.machine)
    engine.start()
    try:
        load_images(engine)
        yield engine
    finally:
        engine.destroy()


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


def measure_environment(folder: Path, index: PackageIndex) -> None:
    """Compare building an environment, and finding it complete, with pip."""
    for package in PACKAGES:
        index.add(package, "1.0")
    dependencies = "".join(f"    - {package}\n" for package in PACKAGES)
    compute = f"type: local\nuserManagedEnvironment: false\npythonLocation: {python()}\n"
    project = _project(folder / "project", compute, "", "Framework: Python\nPrepareEnvironment: true\n")
    (project / "aml_config" / f"{TARGET}.runconfig").write_text(
        f"Target: {TARGET}\nFramework: Python\nPrepareEnvironment: true\n"
    )
    (project / "aml_config" / "conda_dependencies.yml").write_text(f"dependencies:\n  - pip:\n{dependencies}")
    home, venv = folder / "home", folder / "venv"
    plain = {key: value for key, value in environment().items() if not key.startswith(("PIP_", "UV_"))}
    changes = {**plain, "HOME": str(home), "PIP_INDEX_URL": index.url, "UV_CACHE_DIR": str(home / "uv")}
    install = [str(venv / "bin" / "pip"), "install", "--disable-pip-version-check", *PACKAGES]

    def run(command: list[str]) -> None:
        subprocess.run(command, env=changes, check=True, capture_output=True)

    def ours() -> None:
        shutil.rmtree(home, ignore_errors=True)
        run(prepare)

    def theirs() -> None:
        shutil.rmtree(home, ignore_errors=True)
        shutil.rmtree(venv, ignore_errors=True)
        run([python(), "-m", "venv", str(venv)])
        run(install)

    prepare = _command("prepare", project)
    compare("environment of ten packages, built", ours, theirs, COLD_LIMIT, ENVIRONMENT_ROUNDS,
            baseline_name="venv and pip", unit=SECONDS, warmup=0)  # fmt: skip
    run(prepare)
    compare("environment of ten packages, found complete", lambda: run(prepare), lambda: run(install), CACHED_LIMIT,
            2 * ENVIRONMENT_ROUNDS, baseline_name="pip in the complete environment", unit=SECONDS)  # fmt: skip


def measure_spark(folder: Path) -> None:
    """Compare a Spark run with `spark-submit`."""
    interpreter = spark_python()
    root = _project(folder, f"type: local\npythonLocation: {json.dumps(interpreter)}\n", PRINT_ARGUMENT)
    (root / "aml_config" / f"{TARGET}.runconfig").write_text(
        f"Target: {TARGET}\nFramework: PySpark\nTrackedRun: true\n"
    )
    runs = Runs(Project.find(str(root)))
    tokens = (f"token-{number}-end" for number in itertools.count())
    compare(
        "Spark script, from the submission to the first line",
        lambda: _submitted(runs, next(tokens)),
        lambda: _spark_submit(interpreter, root, next(tokens)),
        limit=1.0,
        rounds=SPARK_ROUNDS,
        baseline_name="`spark-submit`",
        margin=SPARK_MARGIN,
    )


def _submitted(runs: Runs, token: str) -> float:
    start = time.perf_counter()
    run = runs.submit(RunRequest(TARGET, "hello.py", (token,)))
    _wait(lambda: _has_line(run.log_path, token))
    taken = time.perf_counter() - start
    _wait(lambda: not runs.get(run.run_id).is_active)
    return taken


def _wait(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(PAUSE)


def _has_line(path: str, token: str) -> bool:
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        return f"{token}\n".encode() in file.read()
    return False


def _spark_submit(interpreter: str, folder: Path, token: str) -> float:
    command = [str(spark_home(interpreter) / "bin/spark-submit"), "--master", "local[*]", "hello.py", token]
    start = time.perf_counter()
    variables = environment({"PYSPARK_PYTHON": interpreter})
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=variables
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        taken = time.perf_counter() - start
        process.stdout.read()
        return taken


def _command(verb: str, project: Path, *words: str) -> list[str]:
    options = ["-c", TARGET, "--project", str(project)]
    return [python(), "-P", "-m", "tui_workbench", "experiment", verb, *options, *words]


def _project(root: Path, compute: str, script: str = "", configuration: str = "Framework: Python\n") -> Path:
    """Create a project with the target and run configuration TARGET."""
    (root / "aml_config").mkdir(parents=True)
    (root / "aml_config" / f"{TARGET}.compute").write_text(compute)
    (root / "aml_config" / f"{TARGET}.runconfig").write_text(f"Target: {TARGET}\n{configuration}")
    (root / "hello.py").write_text(script)
    return root


if __name__ == "__main__":
    sys.exit(main())
