"""Immutable value types that all layers use: targets, run configurations, requests, plans and runs.

They are named tuples, because importing `dataclasses` would cost every command 7 ms. The module does not import
`annotations` from `__future__`, because `NamedTuple` compiles each annotation that is a string.
"""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from tui_workbench.core import target_types
from tui_workbench.core.target_types import TargetType

MIN_POLL_SECONDS = 15
"""Minimum time between two queries to a Slurm controller, in seconds."""


class Problem(NamedTuple):
    """A problem in a file. Lines and columns count from 1; 0 means the whole file."""

    file: str
    line: int
    column: int
    severity: str  # error (a run would fail), warning or info
    code: str
    message: str
    remedy: str = ""


class ComputeTarget(NamedTuple):
    """A compute target, read from a `.compute` file. The comments name the keys of the file."""

    name: str
    path: str
    type: str  # local, localdocker, remotedocker, remote, slurm, cluster, group (docker is read as localdocker)
    python_location: str = "python"  # pythonLocation
    address: str = ""
    username: str = ""
    password: str = ""  # a reference, `AzureMlSecret=...`
    base_docker_image: str = ""  # baseDockerImage
    shared_volumes: bool | None = None  # sharedVolumes
    native_shared_directory: str = ""  # nativeSharedDirectory
    nvidia_docker: bool = False  # nvidiaDocker
    user_managed_environment: bool = True  # userManagedEnvironment
    private_key: str = ""  # privateKey: path of a key file
    private_key_passphrase: str = ""  # privateKeyPassphrase: a reference
    max_concurrent_runs: int = -1  # maxConcurrentRuns; 0 for no limit, -1 if unset
    values: Mapping[str, Any] = {}  # all keys of the file
    problem: Problem | None = None  # why the file is invalid; then only name and path are known
    gpus: str = ""  # gpus: all, free, a number, or [ids]
    run_root: str = ""  # runRoot: absolute, or below ~ of the login node; "" for the default
    slurm: Mapping[str, Any] = {}  # slurm: typed values by key, without unset keys
    setup: tuple[str, ...] = ()  # setup
    container: str = "none"  # container: none, pyxis, apptainer or oci
    poll_seconds: int = MIN_POLL_SECONDS  # pollSeconds
    spark_submit_location: str = "spark-submit"  # sparkSubmitLocation
    yarn_deploy_mode: str = "client"  # yarnDeployMode: client or cluster
    members: tuple[str, ...] = ()  # members: names of targets
    network_interface: str = ""  # networkInterface; "" for that of the SSH connection
    on_lost_member: str = "wait"  # onLostMember: wait or end
    gpu_reservations: str = ""  # gpuReservations: a folder that the users of the machine share
    parts: "tuple[ComputeTarget, ...]" = ()  # the members of a group, in the order of `members`

    @property
    def kind(self) -> TargetType:
        return target_types.find(self.type)

    @property
    def uses_ssh(self) -> bool:
        """True if the target is reached over SSH. A Slurm target without `address` is on this machine."""
        return self.kind.is_remote and bool(self.address)

    @property
    def gives_gpus(self) -> bool:
        """True if containers get GPUs."""
        return self.gpus != "0" if self.gpus else self.nvidia_docker

    @property
    def named_gpus(self) -> tuple[str, ...]:
        """The items of a list such as `gpus: [0, 1]`; empty for other values."""
        return tuple(word.strip() for word in self.gpus[1:-1].split(",")) if self.gpus.startswith("[") else ()

    @property
    def can_use_gpus(self) -> bool:
        return self.gives_gpus if self.kind.runs_in_container else self.gpus != "0"

    @property
    def builds_environment(self) -> bool:
        """True if the target, or a member of the group, builds environments from the conda dependencies file."""
        kind = self.kind
        is_built = kind.builds_environments or (kind.can_build_environments and not self.user_managed_environment)
        return is_built or any(part.builds_environment for part in self.parts)


class RunConfiguration(NamedTuple):
    """A run configuration, read from a `.runconfig` file. The comments name the keys of the file."""

    name: str
    path: str
    target: str  # Target
    argument_vector: tuple[str, ...] = ("$file",)  # ArgumentVector
    environment_variables: Mapping[str, str] = {}  # EnvironmentVariables
    framework: str = "PySpark"  # Framework
    conda_dependencies_file: str = ""  # CondaDependenciesFile
    spark_dependencies_file: str = ""  # SparkDependenciesFile
    prepare_environment: bool = False  # PrepareEnvironment
    tracked_run: bool = True  # TrackedRun
    values: Mapping[str, Any] = {}  # all keys of the file
    problem: Problem | None = None  # why the file is invalid; then only name and path are known
    require_gpu: bool = False  # RequireGpu
    stop_if_idle_minutes: int = 0  # StopIfIdleMinutes; 0 for never
    stop_if_stalled_minutes: int = 0  # StopIfStalledMinutes; 0 for never
    max_duration_minutes: int = 0  # MaxDurationMinutes; 0 for no limit
    signal_before_end_minutes: int = 0  # SignalBeforeEndMinutes; 0 for no early signal
    processes_per_node: str = ""  # ProcessesPerNode: a number or gpus; "" without torchrun
    data_references: Mapping[str, str] = {}  # DataReferences: paths of data, by the path that scripts open
    is_sdk_form: bool = False  # the file has the form of the Azure ML SDK of 2018
    slurm: Mapping[str, Any] = {}  # Slurm: typed values that override those of the target
    retry: Mapping[str, Any] = {}  # Retry: typed values
    nodes: int = 0  # Nodes; 0 if it is not set

    @property
    def conda_file(self) -> str:
        """The conda environment file, relative to the project."""
        return self.conda_dependencies_file or "aml_config/conda_dependencies.yml"

    @property
    def spark_file(self) -> str:
        """The Spark packages file, relative to the project."""
        return self.spark_dependencies_file or "aml_config/spark_dependencies.yml"

    @property
    def uses_spark(self) -> bool:
        """True if `spark-submit` starts the script."""
        return self.framework.lower() != "python"

    @property
    def script(self) -> str:
        """The script, or "" if the user selects it for each run."""
        first = self.argument_vector[0] if self.argument_vector else ""
        return "" if first == "$file" else first

    def key(self, name: str) -> str:
        """Return the name of a key in this file. In the SDK form, some keys have another name."""
        return SDK_KEYS.get(name, name) if self.is_sdk_form else name


def slurm_options(target: ComputeTarget, configuration: RunConfiguration) -> dict[str, Any]:
    """Return the options of a Slurm job, by key of `slurm`.

    The values of the run configuration take precedence; an empty string removes the value of the target.
    """
    nodes = {"nodes": configuration.nodes} if configuration.nodes else {}
    merged = {**target.slurm, **nodes, **configuration.slurm}
    return {key: value for key, value in merged.items() if value != ""}


SDK_KEYS = {
    "ArgumentVector": "script",
    "Target": "target",
    "Framework": "framework",
    "EnvironmentVariables": "environment.environmentVariables",
    "CondaDependenciesFile": "environment.python.condaDependenciesFile",
    "PrepareEnvironment": "prepareEnvironment",
    "TrackedRun": "history.enabled",
}
"""Names in the SDK form, by key of a run configuration."""


class RunState:
    """The states of a run. A run whose target is unreachable is `UNKNOWN`, not failed."""

    QUEUED = "queued"
    PREPARING = "preparing"
    RUNNING = "running"
    FINALIZING = "finalizing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    UNKNOWN = "unknown"

    TERMINAL = frozenset({COMPLETED, FAILED, CANCELED})
    """Final states. A run that is `UNKNOWN` and has an end time has also ended, with an unknown result."""


STATE_GLYPHS = {
    RunState.QUEUED: "○",
    RunState.PREPARING: "◌",
    RunState.RUNNING: "●",
    RunState.FINALIZING: "◍",
    RunState.COMPLETED: "✓",
    RunState.FAILED: "✗",
    RunState.CANCELED: "⊘",
    RunState.UNKNOWN: "?",
}


class SweepTask(NamedTuple):
    """The position of a run in its sweep, for schedulers that run the sweep as a job array."""

    name: str  # unique among the sweeps of the project, including removed ones
    number: int  # of the run in the sweep, from 1
    size: int  # number of runs
    limit: int  # maximum number of runs at the same time


class Seeds(NamedTuple):
    """The seeds of a sweep: 1 to `number` for each combination.

    Runs get their seed in the environment variable `variable`, or as the argument `name` if `variable` is "".
    """

    number: int
    name: str = "seed"
    variable: str = ""


JUPYTER = "jupyter"
"""The script, for titles and lists, of a run that starts Jupyter."""


class RunRequest(NamedTuple):
    """A request for a run. `script` replaces `$file`, and `arguments` replace the rest of the ArgumentVector."""

    run_configuration: str
    script: str = ""
    arguments: tuple[str, ...] = ()
    target: str = ""  # overrides the run configuration's Target
    exact_arguments: bool = False  # do not replace empty arguments with those of the ArgumentVector
    origin: str = ""  # ID of the run to repeat, whose snapshot and values are the defaults
    environment: tuple[tuple[str, str], ...] = ()  # in addition to EnvironmentVariables; no secrets
    group: str = ""  # name of the sweep of the run
    member: int = 0  # number in the group, from 1
    family: str = ""  # name of the family: runs of the group that differ only in the seed
    group_limit: int = 0  # maximum number of runs of the group at the same time; 0 for no limit
    allow_cpu: bool = False  # use the CPU even if the run configuration requires a GPU
    keep_outputs: tuple[str, ...] = ()  # patterns of files to copy into the project when the run completes
    slurm: str = ""  # KEY=VALUE,...: options that override `Slurm` of the run configuration
    after: str = ""  # RUN[:CONDITION]: start after another run of the project has ended
    sweep: SweepTask | None = None
    agent: str = ""  # the coding agent that submits the run; "" for that of the environment, if any
    max_minutes: int = 0  # end the run after this time, if its configuration sets no MaxDurationMinutes; 0 for no limit
    starts_jupyter: bool = False  # see RunSpec; then `script` and `arguments` are ignored


class RunSpec(NamedTuple):
    """The input that a target needs to plan and start a run."""

    run_id: str
    run_directory: str
    project_root: str
    project_name: str
    working_directory: str  # the working copy, or the project of an untracked run
    script: str  # relative to the working directory
    arguments: tuple[str, ...]
    run_configuration: RunConfiguration
    target: ComputeTarget
    keep_outputs: tuple[str, ...] = ()  # patterns of files to copy into the project when the run completes
    gpu_check_due: bool = False  # the GPU check must be made, or repeated, before the script starts
    sweep: SweepTask | None = None
    attempt: int = 1  # the number of the execution of the script; more than 1 after `Retry` or `resume --run`
    members: int = 0  # number of members, if this is the part of a run on one member of a group
    starts_jupyter: bool = False  # instead of a script, the run starts Jupyter; `script` is then JUPYTER

    @property
    def slurm(self) -> dict[str, Any]:
        return slurm_options(self.target, self.run_configuration)

    @property
    def nodes(self) -> int:
        """The number of machines on which the script starts."""
        if self.members or self.target.parts:
            return self.members or len(self.target.parts)
        return int(self.slurm.get("nodes") or 1) if self.target.kind.reads("Nodes") else 1

    @property
    def parts(self) -> "tuple[RunSpec, ...]":
        """The parts of the run on the members of a group, in their order; on other targets, only the run itself."""
        members = self.target.parts
        folder = f"{self.run_directory}/ranks"
        parts = (
            self._replace(target=member, run_directory=f"{folder}/{member.name}", members=len(members))
            for member in members
        )
        return tuple(parts) or (self,)

    @property
    def whole_directory(self) -> str:
        """The directory of the whole run, even if this is a part with another `run_directory`."""
        return os.path.dirname(os.path.dirname(self.run_directory)) if self.members else self.run_directory

    @property
    def tracked(self) -> bool:
        """True if the run executes in a working copy of its snapshot; always true for remote types of targets."""
        return self.run_configuration.tracked_run or self.target.kind.is_remote


class Step(NamedTuple):
    """A step of a plan. If it starts a process, it has the exact command, folder and variables."""

    name: str  # snapshot, copy, start, follow, collect, ...
    title: str
    command: tuple[str, ...] = ()
    directory: str = ""
    environment: Mapping[str, str] = {}


class Plan(NamedTuple):
    """All steps of a run. `--dry-run` prints the plan, and run.json stores it."""

    target: str
    target_type: str
    interpreter: str
    steps: tuple[Step, ...]

    def step(self, name: str) -> Step | None:
        return next((step for step in self.steps if step.name == name), None)

    def with_step(self, name: str, **changes: Any) -> Self:
        """Return a copy of the plan in which the fields `changes` of a step are replaced."""
        return self._replace(
            steps=tuple(step._replace(**changes) if step.name == name else step for step in self.steps)
        )


class ClusterJob(NamedTuple):
    """The state of a run's job in the scheduler of a cluster. A default value means unknown.

    The texts come from the cluster and are not trusted. Times are converted to the clock of this machine.
    """

    job_id: str = ""
    position: int = 0  # in the queue of the partition, from 1; only while the job waits
    start: float = 0.0  # estimated start; only while the job waits
    nodes: str = ""
    end: float = 0.0  # end of the time limit
    warning: float = 0.0  # time of the SIGTERM that announces the time limit


class Run(NamedTuple):
    """A run, as read from its directory. Times are seconds since the epoch; 0.0 if unknown."""

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
    kinds: tuple[str, ...] = ()  # of the causes that `reason` describes; see core/causes.py
    unreachable_since: str = ""  # time of the day; only while the target is unreachable
    exit_code: int | None = None
    created: float = 0.0
    start: float = 0.0
    end: float = 0.0
    interpreter: str = ""
    tracked: bool = False
    commit_id: str = ""
    user_id: str = ""
    group: str = ""
    family: str = ""  # runs of the group that differ only in the seed
    lacks_outputs: bool = False  # the run has ended on another machine, and some outputs have not been fetched
    imported: bool = False  # the run has not ended, but this user did not submit it on this machine
    job: ClusterJob = ClusterJob()  # on targets with a scheduler
    variables: tuple[str, ...] = ()  # NAME=VALUE, in addition to EnvironmentVariables
    agent: str = ""  # the coding agent that submitted the run; "" if the user did

    @property
    def words(self) -> tuple[str, ...]:
        """The additional environment variables of the run, such as `SEED=2`, and the arguments."""
        return (*self.variables, *self.arguments)

    @property
    def is_active(self) -> bool:
        """True until the run has ended. Imported runs are never active."""
        return self.state not in RunState.TERMINAL and not self.end and not self.imported

    @property
    def log_path(self) -> str:
        """The file with stdout and stderr of the run."""
        return f"{self.directory}/output.log"

    @property
    def duration(self) -> float:
        """Seconds from start to end; 0.0 before the end, or if the run never started."""
        return max(0.0, self.end - self.start) if self.end and self.start else 0.0
