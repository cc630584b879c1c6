"""The nouns of the workbench, as immutable values.

Nothing here reads a file or knows a screen. They are named tuples and not dataclasses because every command of the
command line pays for this import: `dataclasses` pulls `inspect` and costs 7 ms, a third of a whole `history list`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tui_workbench.core import target_types
from tui_workbench.core.target_types import TargetType


class Problem(NamedTuple):
    """Something wrong or unwise in a file, with its place and its remedy.

    Lines and columns count from 1; 0 means the whole file.
    """

    file: str
    line: int
    column: int
    severity: str  # error (a run would fail), warning (unwise) or info
    code: str
    message: str
    remedy: str = ""


class ComputeTarget(NamedTuple):
    """A machine or engine that runs scripts: one `.compute` file. Names in comments are the keys of the file."""

    name: str
    path: str
    type: str  # local, localdocker, remotedocker, remote, cluster (docker is read as localdocker)
    python_location: str = "python"  # pythonLocation
    address: str = ""
    username: str = ""
    password: str = ""  # a reference `AzureMlSecret=...`, never the secret
    base_docker_image: str = ""  # baseDockerImage
    shared_volumes: bool | None = None  # sharedVolumes
    native_shared_directory: str = ""  # nativeSharedDirectory; "" when the file does not set one
    nvidia_docker: bool = False  # nvidiaDocker
    user_managed_environment: bool = True  # userManagedEnvironment
    private_key: str = ""  # privateKey: a key file; never the key
    private_key_passphrase: str = ""  # privateKeyPassphrase: a reference, as `password`
    max_concurrent_runs: int = -1  # maxConcurrentRuns; 0 for no limit, -1 when the file does not set it
    values: Mapping[str, Any] = {}  # every key of the file as read, known or not
    problem: Problem | None = None  # why the file cannot be used; everything but name and path is then a guess
    gpus: str = ""  # gpus: all, free, a number, or [ids]; "" when the file does not say

    @property
    def kind(self) -> TargetType:
        """What is the same for all targets of its type."""
        return target_types.find(self.type)

    @property
    def gives_gpus(self) -> bool:
        """True for a target that gives its containers GPUs."""
        return self.gpus != "0" if self.gpus else self.nvidia_docker

    @property
    def can_use_gpus(self) -> bool:
        """Whether its runs can use a GPU at all: a container only when it is given some."""
        return self.gives_gpus if self.kind.runs_in_container else self.gpus != "0"

    @property
    def builds_environment(self) -> bool:
        """Whether environments of its runs are made from the conda dependencies file."""
        kind = self.kind
        return kind.builds_environments or (kind.can_build_environments and not self.user_managed_environment)


class RunConfiguration(NamedTuple):
    """How to run a script: one `.runconfig` file."""

    name: str
    path: str
    target: str  # Target
    argument_vector: tuple[str, ...] = ("$file",)  # ArgumentVector
    environment_variables: Mapping[str, str] = {}  # EnvironmentVariables
    framework: str = "PySpark"  # Framework; missing means PySpark, as in the original
    conda_dependencies_file: str = ""  # CondaDependenciesFile
    spark_dependencies_file: str = ""  # SparkDependenciesFile
    prepare_environment: bool = False  # PrepareEnvironment
    tracked_run: bool = True  # TrackedRun
    values: Mapping[str, Any] = {}  # every key of the file as read, known or not
    problem: Problem | None = None  # why the file cannot be used; everything but name and path is then a guess
    require_gpu: bool = False  # RequireGpu
    stop_if_idle_minutes: int = 0  # StopIfIdleMinutes; 0 for never
    max_duration_minutes: int = 0  # MaxDurationMinutes; 0 for no limit
    processes_per_node: str = ""  # ProcessesPerNode: a number or gpus; "" for no torchrun
    data_references: tuple[str, ...] = ()  # DataReferences: relative to the project, or absolute
    is_sdk_form: bool = False  # written in the form of the SDK of 2018

    @property
    def conda_file(self) -> str:
        """The conda environment file, relative to the project; the usual one where none is named."""
        return self.conda_dependencies_file or "aml_config/conda_dependencies.yml"

    @property
    def spark_file(self) -> str:
        """The same for the Spark packages file."""
        return self.spark_dependencies_file or "aml_config/spark_dependencies.yml"

    @property
    def script(self) -> str:
        """The script that it names, "" for the one that is chosen at each run."""
        first = self.argument_vector[0] if self.argument_vector else ""
        return "" if first == "$file" else first

    def key(self, name: str) -> str:
        """The key of the file that means the same as `name` does in a run configuration of the usual form."""
        return SDK_KEYS.get(name, name) if self.is_sdk_form else name


SDK_KEYS = {
    "ArgumentVector": "script",
    "Target": "target",
    "Framework": "framework",
    "EnvironmentVariables": "environment.environmentVariables",
    "CondaDependenciesFile": "environment.python.condaDependenciesFile",
    "PrepareEnvironment": "prepareEnvironment",
    "TrackedRun": "history.enabled",
}
"""Keys of a run configuration, and those that mean the same in the form of the SDK."""


class RunState:
    """The words for what a run is doing. A lost link to the target is `UNKNOWN`, not a failed run."""

    QUEUED = "queued"
    PREPARING = "preparing"
    RUNNING = "running"
    FINALIZING = "finalizing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    UNKNOWN = "unknown"

    TERMINAL = frozenset({COMPLETED, FAILED, CANCELED})
    """No event follows one of these.

    `UNKNOWN` ends a run only together with an end time: it ended, how is not known.
    """


class RunRequest(NamedTuple):
    """What a person asked for.

    `script` and `arguments` replace `$file` and what follows in the run configuration's ArgumentVector.
    """

    run_configuration: str
    script: str = ""
    arguments: tuple[str, ...] = ()
    target: str = ""  # overrides the run configuration's Target
    exact_arguments: bool = False  # no arguments means none, and not those of the ArgumentVector
    origin: str = ""
    """The id of a run to run again: its snapshot, and what is empty here is as it was there."""
    environment: tuple[tuple[str, str], ...] = ()  # on top of EnvironmentVariables; no secrets
    group: str = ""  # the sweep that it belongs to
    member: int = 0  # its place in the group, from 1
    group_limit: int = 0  # how many of the group may run at a time; 0 for all
    allow_cpu: bool = False  # a run that asks for a GPU may train on the CPU
    keep_outputs: tuple[str, ...] = ()  # patterns of files that are copied into the project when the run completes


class RunSpec(NamedTuple):
    """A request made concrete: everything a target needs to plan and start the run."""

    run_id: str
    run_directory: str
    project_root: str
    project_name: str
    working_directory: str  # where the script runs: the run's own copy, or the project itself when untracked
    script: str  # relative to the working directory
    arguments: tuple[str, ...]
    run_configuration: RunConfiguration
    target: ComputeTarget
    keep_outputs: tuple[str, ...] = ()  # patterns of files that are copied into the project when the run completes
    gpu_check_due: bool = False  # whether it would use the GPU that it asks for could not be told at its submission

    @property
    def tracked(self) -> bool:
        """True when the run executes in its own copy of the snapshot; on another machine it can do nothing else."""
        return self.run_configuration.tracked_run or self.target.kind.is_remote


class Step(NamedTuple):
    """One step of a plan.

    What will be done, with the exact command, folder and variables where a process is started.
    """

    name: str  # snapshot, copy, start, follow, collect, ...
    title: str
    command: tuple[str, ...] = ()
    directory: str = ""
    environment: Mapping[str, str] = {}


class Plan(NamedTuple):
    """Everything a run will do, in order, before it does it. Pure data: `--dry-run` prints it and run.json keeps it."""

    target: str
    target_type: str
    interpreter: str
    steps: tuple[Step, ...]

    def step(self, name: str) -> Step | None:
        """The step of this name, or None."""
        return next((step for step in self.steps if step.name == name), None)

    def with_step(self, name: str, **changes: Any) -> Plan:
        """The plan with these fields of the step of this name changed; as it is when there is none."""
        return self._replace(
            steps=tuple(step._replace(**changes) if step.name == name else step for step in self.steps)
        )


NOT_ALL_HERE = "not all of its files are here: `workbench-tui experiment collect` fetches the rest"
"""Reason of a run that has ended, or a part of it, while `lacks_outputs` holds."""


class Run(NamedTuple):
    """One run as its directory tells it. Times are seconds since the epoch, UTC; 0.0 when not (yet) known."""

    run_id: str
    run_number: int
    directory: str
    script_name: str
    arguments: tuple[str, ...]
    run_configuration: str
    target: str
    target_type: str
    state: str
    reason: str = ""
    exit_code: int | None = None
    created: float = 0.0
    start: float = 0.0
    end: float = 0.0
    interpreter: str = ""
    tracked: bool = False
    commit_id: str = ""
    user_id: str = ""
    group: str = ""
    lacks_outputs: bool = False  # it has ended on another machine, and what it made is not all here
    imported: bool = False
    """It has not ended by its record, but this user did not submit it on this machine: nothing acts on it."""

    @property
    def is_active(self) -> bool:
        """True until the run has ended for good.

        A run whose end is known but not its exit code has state `unknown` and an end time. An imported run is never
        active here.
        """
        return self.state not in RunState.TERMINAL and not self.end and not self.imported

    @property
    def log_path(self) -> str:
        """The file that holds every byte the run wrote to stdout and stderr."""
        return f"{self.directory}/output.log"

    @property
    def duration(self) -> float:
        """Seconds from start to end; 0.0 while running or when it never started."""
        return max(0.0, self.end - self.start) if self.end and self.start else 0.0
