"""The systems of the benchmark of kills: how each starts a script, which processes it has, and what it says afterwards.

Each system is used as its documentation recommends, with default values except those that are named here. For the
workbench and MLflow, the script is a process of its own; submitit and Parsl call its function in a process of theirs.

Workbench: `experiment submit --detach` with a target of type `local`. Supervisors: the controller or the watcher,
whichever drives the run, and the supervising shell. The state is the one that `experiment status` shows, which starts
a new controller for a run without one.

submitit: `AutoExecutor(cluster="local")`. Supervisor: the controller process. The process that has submitted the job
goes on living, and asks `job.done()` and `job.result()`.

Parsl: a `python_app` on `HighThroughputExecutor` with `LocalProvider` and one worker. Heartbeats are sent every 3
seconds and missed after 15 seconds, instead of 30 and 120, so that Parsl notices lost managers in time. Supervisors:
the interchange and the manager (`process_worker_pool.py`). The process that has loaded Parsl goes on living, and asks
the future.

MLflow projects: `mlflow.projects.run` with the local backend and `env_manager="local"`. Supervisor: its process. MLflow
tracking: the script itself is executed within `mlflow.start_run`, without a supervisor. Both write to one SQLite
database, and the state is the run's status there.
"""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import environment, python
from tui_workbench import __version__
from tui_workbench.core.model import RunState
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.store.rundir import ControllerLock, RunDirectory
from tui_workbench.targets.hosts.supervisor import read_supervisor

PACKAGES = ("submitit", "parsl", "mlflow-skinny>=3", "sqlalchemy", "alembic", "pandas")
COMPLETED, FAILED, UNKNOWN = "completed", "failed", "unknown"
"""End states. UNKNOWN: the system has recorded that the run has ended, and that it does not know how."""

SCRIPT = "script"
MARK = "WORKBENCH_KILLED_RUN"
"""The variable that contains the folder of a trial, in all processes of a peer."""

TASK = """\
import os, sys, time

def work(folder, seconds, code):
    with open(folder + "/begin", "a") as file:
        file.write("%d\\n" % os.getpid())
    time.sleep(seconds)
    with open(folder + "/end", "w") as file:
        file.write(str(code))
    if code:
        raise RuntimeError("the script fails")

if __name__ == "__main__":
    work(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
"""

_TELL = """
def tell(state):
    with open(folder + "/state", "w") as file:
        file.write(state)
"""

_HEAD = "import sys, time\nfolder, seconds, code = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])\n"

SUBMITIT = f"""{_HEAD}
import submitit
from task import work
{_TELL}
executor = submitit.AutoExecutor(folder=folder + "/jobs", cluster="local")
executor.update_parameters(timeout_min=5)
job = executor.submit(work, folder, seconds, code)
while True:
    if job.done():
        try:
            job.result()
            tell("completed")
        except Exception:
            tell("failed")
    time.sleep(0.5)
"""

PARSL = f"""{_HEAD}
import parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.providers import LocalProvider
{_TELL}
executor = HighThroughputExecutor(label="htex", max_workers_per_node=1, heartbeat_period=3, heartbeat_threshold=15,
                                  address="127.0.0.1", provider=LocalProvider(init_blocks=1, max_blocks=1))
parsl.load(Config(executors=[executor], run_dir=folder + "/runinfo"))

@parsl.python_app
def app(folder, seconds, code):
    from task import work
    work(folder, seconds, code)

future = app(folder, seconds, code)
while True:
    if future.done():
        tell("failed" if future.exception() else "completed")
    time.sleep(0.5)
"""

PROJECTS = f"""{_HEAD}
import os, mlflow.projects
mlflow.projects.run(os.environ["TASK_PROJECT"], env_manager="local",
                    run_name=os.path.basename(folder),
                    parameters={{"folder": folder, "seconds": seconds, "code": code}})
"""

TRACKING = f"""{_HEAD}
import os, mlflow
from task import work
with mlflow.start_run(run_name=os.path.basename(folder)):
    work(folder, seconds, code)
"""

VERSIONS = """\
from importlib.metadata import version
print(version("submitit"), version("parsl"), version("mlflow-skinny"))
"""

ASK = """\
import sys, mlflow
client = mlflow.MlflowClient()
for line in sys.stdin:
    found = client.search_runs(["0"], filter_string="attributes.run_name = '%s'" % line.strip())
    print(found[0].info.status if found else "-", flush=True)
"""

ML_PROJECT = """\
name: task
entry_points:
  main:
    parameters: {folder: string, seconds: float, code: float}
    command: "python task.py {folder} {seconds} {code}"
"""


class Trial(NamedTuple):
    """A script that sleeps, and then fails if `code` is not 0."""

    folder: Path
    seconds: float
    code: int

    @property
    def starts(self) -> list[int]:
        """The processes that have begun to execute the script."""
        with contextlib.suppress(FileNotFoundError):
            return [int(line) for line in (self.folder / "begin").read_text().splitlines()]
        return []

    @property
    def has_finished(self) -> bool:
        """True if the script has reached its end."""
        return (self.folder / "end").exists()

    @property
    def arguments(self) -> list[str]:
        return [str(self.folder), f"{self.seconds:.3f}", str(self.code)]


Finder = Callable[[Trial], int]
"""Return the process to kill, or 0 if it does not exist (yet)."""


class System(NamedTuple):
    """A system that executes scripts."""

    name: str
    version: str
    start: Callable[[Trial], object]
    state: Callable[[Trial], str]
    supervisors: Mapping[str, Finder]


def _script(trial: Trial) -> int:
    return trial.starts[0] if trial.starts else 0


def victims(system: System) -> dict[str, Finder]:
    """Return the processes of a system that are killed."""
    return {**system.supervisors, SCRIPT: _script}


def workbench(folder: Path) -> System:
    """Return the workbench with a project in this folder."""
    root, home = folder / "project", folder / "home"
    configuration = root / "aml_config"
    for path in (home, configuration):
        path.mkdir(parents=True)
    (configuration / "local.compute").write_text(f"type: local\npythonLocation: {python()}\n")
    (configuration / "local.runconfig").write_text("Target: local\nFramework: Python\n")
    (root / "task.py").write_text(TASK)
    os.environ["HOME"] = str(home)
    words = [python(), "-P", "-m", "tui_workbench", "experiment", "submit", "-c", "local", "--detach"]
    runs, names = Runs(Project.find(str(root))), dict[Path, str]()

    def start(trial: Trial) -> None:
        command = [*words, "--project", str(root), "task.py", *trial.arguments]
        done = subprocess.run(command, env=environment(), check=True, capture_output=True, text=True)
        names[trial.folder] = done.stdout.split()[-1]

    def state(trial: Trial) -> str:
        run = runs.get(names[trial.folder], adopt=True)
        ends = {RunState.COMPLETED: COMPLETED, RunState.FAILED: FAILED, RunState.UNKNOWN: UNKNOWN}
        return ends.get(run.state, "") if run.end else ""

    def controller(trial: Trial) -> int:
        return max(0, ControllerLock.holder(RunDirectory(runs.get(names[trial.folder]).directory)))

    def shell(trial: Trial) -> int:
        supervisor = read_supervisor(runs.get(names[trial.folder]).directory)
        return supervisor.pid if supervisor else 0

    return System("workbench", __version__, start, state, {"controller": controller, "supervising shell": shell})


def peers(interpreter: str, folder: Path) -> list[System]:
    """Return the other systems, which are installed for this interpreter."""
    (folder / "mlproject").mkdir(parents=True)
    (folder / "mlproject" / "MLproject").write_text(ML_PROJECT)
    for path in (folder, folder / "mlproject"):
        (path / "task.py").write_text(TASK)
    changes = _variables(interpreter, folder)

    status = _mlflow_status(interpreter, environment(changes))
    command = [interpreter, "-c", VERSIONS]
    submitit, parsl, mlflow = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    def starting(program: str) -> Callable[[Trial], object]:
        def start(trial: Trial) -> object:
            if "mlflow" in program:
                status(trial)  # creates the database
            with (trial.folder / "driver.log").open("wb") as log:
                return subprocess.Popen(
                    [interpreter, "-c", program, *trial.arguments],
                    cwd=trial.folder,
                    env=environment({**changes, MARK: str(trial.folder)}),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )

        return start

    return [
        System("submitit", submitit, starting(SUBMITIT), _told, {"controller": _parent}),
        System("Parsl", parsl, starting(PARSL), _told, {"interchange": _interchange, "manager": _parent}),
        System("MLflow projects", mlflow, starting(PROJECTS), status, {"`projects.run`": _parent}),
        System("MLflow tracking", mlflow, starting(TRACKING), status, {}),
    ]


def _variables(interpreter: str, folder: Path) -> dict[str, str]:
    return {
        "PATH": f"{os.path.dirname(interpreter)}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(folder),
        "TASK_PROJECT": str(folder / "mlproject"),
        "MLFLOW_TRACKING_URI": f"sqlite:///{folder}/mlflow.db",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "GIT_PYTHON_REFRESH": "quiet",
    }


def _told(trial: Trial) -> str:
    with contextlib.suppress(FileNotFoundError):
        return (trial.folder / "state").read_text()
    return ""


def _parent(trial: Trial) -> int:
    with contextlib.suppress(OSError, IndexError):
        return int(Path(f"/proc/{trial.starts[0]}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def _interchange(trial: Trial) -> int:
    return min((pid for pid in processes(trial) if b"interchange" in _words(pid)), default=0)


def processes(trial: Trial) -> list[int]:
    """Return the processes of a peer that belong to the trial.

    Parsl overwrites the environment of its interchange with a title; MLflow executes the script in another folder.
    """
    mark = f"{MARK}={trial.folder}\0".encode()
    found = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with contextlib.suppress(OSError):
            if (
                os.readlink(f"/proc/{pid}/cwd") == str(trial.folder)
                or mark in Path(f"/proc/{pid}/environ").read_bytes()
            ):
                found.append(pid)
    return found


def _words(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _mlflow_status(interpreter: str, variables: Mapping[str, str]) -> Callable[[Trial], str]:
    """Return a function that asks MLflow for the status of a run. Its process ends with this process."""
    lock = threading.Lock()

    @functools.cache
    def asked() -> subprocess.Popen[str]:
        command = [interpreter, "-c", ASK]
        return subprocess.Popen(command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def status(trial: Trial) -> str:
        with lock:
            process = asked()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{trial.folder.name}\n")
            process.stdin.flush()
            answer = process.stdout.readline().strip()
        return {"FINISHED": COMPLETED, "FAILED": FAILED, "KILLED": FAILED}.get(answer, "")

    return status
