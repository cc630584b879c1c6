"""Measure submissions: in containers, over SSH, of large projects, in managed environments and on Spark.

    python -m benchmarks.submit

Containers: the time from the submit command to the first output of the script, compared with `docker run`. The image
has been pulled and inspected, and the project contains only the script. For another machine, the baseline is
`ssh HOST docker run`, which opens a connection each time; the workbench uses its open connection.

SSH: the time from the start of `experiment submit` until the first line of the script is in the local `output.log`,
compared with the time from the start of `ssh HOST python3 hello.py` until its first line is on its standard output. The
workbench also records the run and sends the project, which has not changed since the last run; for `ssh`, the script is
already on the machine. Both use a relay that delays each byte, because the kernels of build machines have no netem.
With a new connection, both log in. With an open connection, `ssh` uses a ControlMaster, and the workbench its own
connection.

Large projects: the time of `experiment submit --wait` of a tracked one-line script, from the command until the end of
the run is recorded, on this machine and on another machine over SSH. One of many files changes before each run. The
baseline is the least that finds a changed file: a walk of the project with `os.scandir` and `stat`. Each run gets the
spare working copy of the run before.

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

from benchmarks.harness import SECONDS, compare, environment, finish, note, python, scratch_folder
from benchmarks.ssh_machine import USER, Remote, is_possible, relay, remote
from tests.engines import PYTHON_IMAGE, DockerEngine, docker_engine, load_images
from tests.package_index import PackageIndex, package_index
from tests.spark import spark_home, spark_python
from tests.targets.conftest import end_links
from tui_workbench.core.model import RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs

TARGET = "box"
TOKEN = b"first-output"
PRINT_TOKEN = f"print({TOKEN.decode()!r}, flush=True)\n"
PRINT_ARGUMENT = "import sys\nprint(sys.argv[1], flush=True)\n"

DOCKER_ROUNDS, ENVIRONMENT_ROUNDS, SPARK_ROUNDS = 1, 1, 1
DOCKER_MARGIN, REMOTE_MARGIN, SPARK_MARGIN = 0.250, 0.300, 0.250

ROUND_TRIPS = (0.0, 0.050, 0.200)
"""Round-trip times of the connection in seconds."""

LAUNCH_ROUNDS = 1
OPEN_LIMIT, NEW_LIMIT = 4.0, 3.0
"""Limits of a launch as multiples of `ssh`: the workbench also compares and copies files, with a request for each."""

LAUNCH_MARGIN = 0.250
"""Seconds for recording the run, checking the files of the project and starting the script's supervising shell."""

FILES, FOLDER = 10_000, 100  # number of files of a large project, and of the files in each folder
LARGE_ROUNDS = 1
LOCAL_LIMIT, SSH_LIMIT = 5.0, 8.0
"""Limits as multiples of a walk of the project. For 100,000 files on a machine with two slow cores, about 2 and 3 s."""

LOCAL_MARGIN, SSH_MARGIN = 0.300, 0.700
"""Seconds of a run with few files."""

COLD_LIMIT, CACHED_LIMIT = 0.5, 1.0
"""Limits of an environment as multiples of venv and pip, and of pip that finds all packages installed."""

PACKAGES = tuple(f"tinypackage{number}" for number in range(10))
PAUSE, PATIENCE = 0.002, 120.0
"""Seconds between two looks for a change, and until the benchmark fails without it."""


def main() -> int:
    if is_possible():
        with tempfile.TemporaryDirectory(prefix="wb-") as folder, docker_engine() as engine:
            measure_docker(Path(folder), engine)
        with remote() as box:
            with _engine_of(box):
                measure_remote_docker(box)
            for round_trip in ROUND_TRIPS:
                measure_launch(box, round_trip)
            measure_large_there(box)
    else:
        note("containers and runs on another machine, because only root can start an engine or create a machine")
    with scratch_folder() as name:
        measure_large_here(Path(name))
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


def measure_launch(box: Remote, round_trip: float) -> None:
    """Compare launches over connections with a delay, with a new connection and with an open one."""
    (box.home / "hello.py").write_text(PRINT_TOKEN)
    with relay(box.machine.address, round_trip / 2) as port:
        known = box.folder / "home" / ".ssh" / "known_hosts"
        with known.open("a") as file:
            file.write(f"[127.0.0.1]:{port} {box.machine.known_hosts_line.partition(' ')[2]}")
        project = box.make_project("hello.py", PRINT_TOKEN, f"project{port}", port=port)
        ssh = [*box.ssh[:-1], "-p", str(port), "-o", f"ControlPath={box.folder / 'control'}", f"{USER}@127.0.0.1"]
        plain = [*ssh, "python3 hello.py"]

        def from_nothing() -> float:
            end_links(box.folder / "run")
            return launched(project)

        name = f"from the submission to the first line, {round_trip * 1000:.0f} ms round trip"
        subprocess.run([*ssh[:-1], "-M", "-N", "-f", ssh[-1]], check=True, stderr=subprocess.DEVNULL)
        compare(
            f"{name}, open connection",
            lambda: launched(project),
            lambda: first_output(plain),
            limit=OPEN_LIMIT,
            rounds=LAUNCH_ROUNDS,
            baseline_name="`ssh HOST python3`, ControlMaster",
            margin=LAUNCH_MARGIN,
        )
        subprocess.run([*ssh[:-1], "-O", "exit", ssh[-1]], check=True, stderr=subprocess.DEVNULL)
        compare(
            f"{name}, new connection",
            from_nothing,
            lambda: first_output(plain),
            limit=NEW_LIMIT,
            rounds=LAUNCH_ROUNDS,
            baseline_name="`ssh HOST python3`",
            margin=LAUNCH_MARGIN,
            warmup=0,
        )
        end_links(box.folder / "run")


def launched(project: Project) -> float:
    """Submit a run. Return the seconds until its first line is in the local log. The run has ended then."""
    folder = Path(project.runs_directory)
    before = set(os.listdir(folder)) if folder.is_dir() else set()
    submit = _command("submit", project.root, "--detach", "hello.py")
    begun = time.perf_counter()
    with subprocess.Popen(submit, stdout=subprocess.DEVNULL, env=environment()) as command:
        while not any(_has_line(path, TOKEN) for path in _new_logs(folder, before)):
            if command.poll():
                raise SystemExit("the submission failed")
            time.sleep(PAUSE)
        taken = time.perf_counter() - begun
    _wait(lambda: not any(run.is_active for run in Runs(project).list()))
    return taken


def _new_logs(folder: Path, before: set[str]) -> list[Path]:
    names = set(os.listdir(folder)) - before if folder.is_dir() else set()
    return [folder / name / "output.log" for name in names]


def measure_large_there(box: Remote) -> None:
    """Compare a run of a large project on another machine with a walk of the project."""
    login = box.host.login
    compute = {"type": "remote", "address": login.address, "username": login.username, "pythonLocation": "python3"}
    project = LargeProject(box.folder / "large", compute, box.home / ".workbench-tui" / "projects")
    compare(
        f"`remote`, tracked, one of {FILES:,} files changed",
        project.submit,
        project.walk,
        SSH_LIMIT,
        LARGE_ROUNDS,
        baseline_name="`os.scandir` and `stat` here",
        margin=SSH_MARGIN,
        unit=SECONDS,
    )


def measure_large_here(folder: Path) -> None:
    """Compare a run of a large project on this machine with a walk of the project."""
    with mock.patch.dict(os.environ, {"HOME": str(folder)}):
        project = LargeProject(folder / "project", {"type": "local", "pythonLocation": python()})
        compare(
            f"`local`, tracked, one of {FILES:,} files changed",
            project.submit,
            project.walk,
            LOCAL_LIMIT,
            LARGE_ROUNDS,
            baseline_name="`os.scandir` and `stat`",
            margin=LOCAL_MARGIN,
            unit=SECONDS,
        )


class LargeProject:
    """A project with many files. `there` is the folder of projects on another machine, if runs execute there."""

    def __init__(self, root: Path, compute: dict[str, str], there: Path | None = None) -> None:
        self._root = root
        self._there = there
        self._runs = 0
        _project(root, json.dumps(compute), "print('hello')\n", "Framework: Python\nTrackedRun: true\n")
        (root / ".gitignore").write_text("*.pyc\nbuild/\n")
        for number in range(FILES):
            path = self._file(number)
            if number % FOLDER == 0:
                path.parent.mkdir(parents=True)
            path.write_text(f"file {number}\n" * 10)
        self.submit()

    def _file(self, number: int) -> Path:
        return self._root / "data" / f"part{number // FOLDER}" / f"{number}.txt"

    def submit(self) -> float:
        """Change a file and submit a run when there is a spare. Return the seconds until the run has ended."""
        if self._runs:
            _wait(self._has_spare)
        self._runs += 1
        self._file(self._runs).write_text(f"changed before run {self._runs}\n")
        command = _command("submit", self._root, "--wait", "hello.py")
        begun = time.perf_counter()
        subprocess.run(command, env=environment(), check=True, capture_output=True)
        return time.perf_counter() - begun

    def walk(self) -> None:
        """Find the size and the times of every file."""
        folders = [os.fspath(self._root / "data")]
        while folders:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        entry.stat(follow_symlinks=False)

    def _has_spare(self) -> bool:
        spares = self._root / ".workbench" / "snapshots.git" / "spare"
        is_ready = spares.is_dir() and os.listdir(spares) == ["ready"]
        return is_ready and (self._there is None or any(self._there.glob("*/spare")))


def measure_environment(folder: Path, index: PackageIndex) -> None:
    """Compare building an environment, and finding it complete, with pip."""
    for package in PACKAGES:
        index.add(package, "1.0")
    dependencies = "".join(f"    - {package}\n" for package in PACKAGES)
    compute = f"type: local\nuserManagedEnvironment: false\npythonLocation: {python()}\n"
    project = _project(folder / "project", compute, "", "Framework: Python\nPrepareEnvironment: true\n")
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
    compute = f"type: local\npythonLocation: {json.dumps(interpreter)}\n"
    root = _project(folder, compute, PRINT_ARGUMENT, "Framework: PySpark\nTrackedRun: true\n")
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
    _wait(lambda: _has_line(Path(run.log_path), token.encode()))
    taken = time.perf_counter() - start
    _wait(lambda: not runs.get(run.run_id).is_active)
    return taken


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no change within {PATIENCE:g} s")
        time.sleep(PAUSE)


def _has_line(path: Path, line: bytes) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return line + b"\n" in path.read_bytes()
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


def _command(verb: str, project: str | Path, *words: str) -> list[str]:
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
