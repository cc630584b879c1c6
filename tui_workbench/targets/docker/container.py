"""The configuration of a run's container, and the meaning of its exit. Makes no calls to an engine.

The container's command is the supervising shell of local runs, with the same three files: `output.log` holds the
output of the script, `pid` marks the run as started and prevents a second start, and `exit` holds the exit code. The
script gets its arguments and variables unchanged.

Only the files and folders of the run directory that the container needs are mounted, each separately. The container can
therefore neither replace a mount with a link nor access the record of the run.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from tui_workbench.config.schema.retry import LOST
from tui_workbench.core.causes import (
    CHILD_OUT_OF_MEMORY,
    CONTAINER_ENDED,
    CONTAINER_KILLED,
    CONTAINER_REMOVED,
    ENGINE_RESTARTED,
    MACHINE_RESTARTED,
    OUT_OF_MEMORY,
    Cause,
    exit_causes,
)
from tui_workbench.core.errors import UsageError
from tui_workbench.core.model import RunSpec
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.projects.project import state_of_run
from tui_workbench.targets.base import run_environment
from tui_workbench.targets.base.spark import Spark
from tui_workbench.targets.base.spark import variables as spark_variables
from tui_workbench.targets.docker.create_command import device_option, mount_option
from tui_workbench.targets.docker.engine import EngineRefused, Refusal
from tui_workbench.targets.docker.engine_answers import Container
from tui_workbench.targets.docker.gpu_access import GpuAccess
from tui_workbench.targets.hosts import supervisor
from tui_workbench.targets.hosts.supervisor import METRICS, OUTPUTS, WORKING_COPY
from tui_workbench.targets.values import PROJECT_IN_CONTAINER, RUN_IN_CONTAINER, Outcome

SDK_DIRECTORY = "/workbench/sdk"
SHARE_DIRECTORY = "/azureml-share/"
SHELL = "/bin/sh"
SOCKETS = "/tmp"
"""The folder for the socket of a run that starts Jupyter. The run may not write to its directory in the container."""

PREFIX = "workbench-tui"
RUN_LABEL = f"{PREFIX}.run"
PROJECT_LABEL = f"{PREFIX}.project"
USER_LABEL = f"{PREFIX}.user"
KIND_LABEL = f"{PREFIX}.kind"
MODE_LABEL = f"{PREFIX}.output"
RUN_KIND = "run"

# Output goes to output.log in the run directory, or, if the image has no shell, to the engine's log.
FILE_MODE, ENGINE_MODE = "file", "engine"
LAUNCH_FILE = "launch"
USER_FILE = "passwd"
# Runs in any Python version.
_LAUNCH = """\
import os, sys
path = sys.argv[1]
with open(path, "r+b") as file:
    parts = file.read().split(b"\\0")
    file.truncate(0)
count = int(parts[0]) + 1
getattr(os, "environb", os.environ).update(part.split(b"=", 1) for part in parts[1:count])
os.execv(parts[count], parts[count:])
"""

_REACHABLE_SPARK = shell_script("targets/docker/scripts/reachable_spark.sh")

# The size limit of /dev/shm. With Docker's default of 64 MiB, data loaders fail with a bus error.
SHM_BYTES = 8 << 30
# The engine's default log driver may not be readable, or may drop lines.
LOG = {"Type": "json-file", "Config": {"max-size": "1000t"}}


class Mount(NamedTuple):
    """A bind mount of a folder or file of the host; without a source, an empty folder that hides `target`."""

    source: str
    target: str
    read_only: bool = False


class Placement(NamedTuple):
    """The settings of a container that depend on the host or the image: paths, user, interpreter and GPUs."""

    run_directory: str
    share: str
    user: str  # uid:gid
    project_root: str = ""  # mounted as the working directory (untracked runs on this machine), else ""
    data: tuple[str, ...] = ()  # paths of `DataReferences`, mounted read-only at the same path
    beside: Mapping[str, str] = {}  # `../NAME` in `DataReferences`, by name: mounted read-only beside the project
    copied: bool = False  # the working directory is copied into the container instead of mounted
    image: str = ""
    python: str = "python"
    mode: str = FILE_MODE
    sdk: str = ""  # folder of the logging modules
    python_path: str = ""  # PYTHONPATH of the image
    gpus: tuple[str, ...] = ()  # IDs of the chosen GPUs, or their numbers for HIP; () for the target's setting
    gpu_access: GpuAccess = GpuAccess()
    spark: Spark | None = None  # the Spark of the image; None if the run does not use Spark

    @property
    def user_file(self) -> bytes:
        """The content of /etc/passwd with the user of the run, whom Java looks up there; empty if not needed."""
        uid, _, gid = self.user.partition(":")
        if self.spark is None or not uid.isdecimal() or uid == "0":
            return b""
        return f"root:x:0:0:root:/root:/bin/sh\nuser{uid}:x:{uid}:{gid or uid}::/tmp:/bin/sh\n".encode()


def container_name(run_id: str) -> str:
    """Return the name of a run's container. No two containers of an engine can have the same name."""
    return f"workbench-{run_id}"


def working_directory(placement: Placement) -> str:
    """Return the script's working directory in the container."""
    return PROJECT_IN_CONTAINER if placement.project_root or placement.copied else f"{RUN_IN_CONTAINER}/{WORKING_COPY}"


def written_folders(spec: RunSpec, placement: Placement) -> list[str]:
    """Return the names of the folders in the run directory to which the container writes."""
    ranks = [supervisor.RANKS] if spec.run_configuration.processes_per_node else []
    events = [supervisor.SPARK] if placement.spark is not None else []
    scripts = [] if placement.copied else [OUTPUTS if placement.project_root else WORKING_COPY]
    return [*scripts, *ranks, *events]


def written_files(spec: RunSpec, placement: Placement) -> list[str]:
    """Return the names of the files in the run directory to which the container writes.

    They must exist before the start of the container.
    """
    launch = [LAUNCH_FILE] if launch_file(spec, placement) is not None else []
    record = [supervisor.OUTPUT, supervisor.PID, supervisor.EXIT] if placement.mode == FILE_MODE else []
    return [*record, METRICS, *launch]


def mounts(spec: RunSpec, placement: Placement) -> list[Mount]:
    """Return the mounts of the container."""
    binds = [
        Mount(f"{placement.run_directory}/{name}", f"{RUN_IN_CONTAINER}/{name}")
        for name in (*written_folders(spec, placement), *written_files(spec, placement))
    ]
    binds.append(Mount(placement.share, SHARE_DIRECTORY.rstrip("/")))
    if placement.project_root and not placement.copied:
        binds.append(Mount(placement.project_root, PROJECT_IN_CONTAINER))
        state = state_of_run(spec.run_directory)
        if state.startswith(f"{placement.project_root}/"):
            binds.append(Mount("", PROJECT_IN_CONTAINER + state[len(placement.project_root) :], read_only=True))
    if placement.sdk:
        binds.append(Mount(placement.sdk, SDK_DIRECTORY, read_only=True))
    if placement.user_file:
        binds.append(Mount(f"{placement.run_directory}/{USER_FILE}", "/etc/passwd", read_only=True))
    binds += [Mount(path, path, read_only=True) for path in placement.data]
    parent = posixpath.dirname(working_directory(placement))
    binds += [Mount(path, f"{parent}/{name}", read_only=True) for name, path in placement.beside.items()]
    return binds


def variables(spec: RunSpec, placement: Placement) -> dict[str, str]:
    """Return the script's variables, except those of the image.

    The run configuration takes precedence, except for the run ID.
    """
    user, spark = placement.user.partition(":")[0], placement.spark
    # Python libraries need a home and a user name, and the image's /etc/passwd may not have the user ID.
    home = {} if user == "0" else {"HOME": "/tmp", "USER": f"user{user}", "LOGNAME": f"user{user}"}
    own = spec.run_configuration.environment_variables
    visible = placement.gpu_access.variables(placement.gpus, own)
    return run_environment.run_variables(
        spec,
        share=SHARE_DIRECTORY,
        run_directory=RUN_IN_CONTAINER,
        outputs=f"{RUN_IN_CONTAINER if placement.project_root else working_directory(placement)}/outputs",
        sdk=SDK_DIRECTORY if placement.sdk else "",
        inherited_path=placement.python_path,
        others=home | visible | (spark_variables(placement.python, spark) if spark is not None else {}),
    )


def command(spec: RunSpec, placement: Placement) -> tuple[str, ...]:
    """Return the command line of the script."""
    python, spark = placement.python, placement.spark
    return run_environment.script_command(spec, python, SDK_DIRECTORY, RUN_IN_CONTAINER, spark, SOCKETS)


def launch_file(spec: RunSpec, placement: Placement) -> bytes | None:
    """Return the content of LAUNCH_FILE; None if it is not needed.

    The Engine API uses JSON, which can represent only text. If an argument or a variable is not UTF-8, this file
    contains all arguments and variables. A short Python program reads and truncates the file, and executes the script.
    """
    environment, argv = variables(spec, placement), command(spec, placement)
    items = [f"{name}={value}" for name, value in environment.items()]
    if all(map(_is_text, (*items, *argv))):
        return None
    return b"\0".join([b"%d" % len(items), *map(os.fsencode, items), *map(os.fsencode, argv)])


def configuration(spec: RunSpec, placement: Placement) -> dict[str, Any]:
    """Return the container's configuration for the Engine API. Raises UsageError for paths that are not UTF-8."""
    environment, argv = variables(spec, placement), command(spec, placement)
    folder = working_directory(placement)
    if launch_file(spec, placement) is not None:
        environment, argv = {}, (placement.python, "-c", _LAUNCH, f"{RUN_IN_CONTAINER}/{LAUNCH_FILE}")
    if placement.mode == FILE_MODE:
        argv, environment = run_environment.prefix_env(argv, environment)
        if placement.spark is not None:
            argv = (SHELL, "-c", _REACHABLE_SPARK, "sh", *argv)
        argv = (SHELL, "-c", supervisor.CONTAINER_TEXT, "sh", RUN_IN_CONTAINER, folder, *argv)
        # `docker stop` and the end of the engine must reach the script, and not only its shell, which ignores SIGTERM.
        environment = {**environment, "TINI_KILL_PROCESS_GROUP": "1"}
    result = {
        "Image": placement.image,
        # The entry point of an image could change the command.
        "Entrypoint": [],
        "Cmd": list(argv),
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "User": placement.user,
        "WorkingDir": folder,
        "Labels": {
            RUN_LABEL: spec.run_id,
            PROJECT_LABEL: spec.project_name,
            USER_LABEL: placement.user,
            KIND_LABEL: RUN_KIND,
            MODE_LABEL: placement.mode,
        },
        "HostConfig": _host_configuration(spec, placement),
    }
    _refuse_bytes(result)
    return result


def _host_configuration(spec: RunSpec, placement: Placement) -> dict[str, Any]:
    result: dict[str, Any] = {
        # An init process reaps orphaned processes, and signals work, because the script is not process 1.
        "Init": True,
        "ShmSize": SHM_BYTES,
        "Mounts": _api_mounts(spec, placement),
        "LogConfig": LOG,
    }
    if spec.members:
        # The ranks of all members connect to each other, on ports that only they know.
        result["NetworkMode"] = "host"
    if spec.target.gives_gpus:
        result |= placement.gpu_access.host_config(placement.gpus)
    return result


def _api_mounts(spec: RunSpec, placement: Placement) -> list[dict[str, Any]]:
    return [
        {
            **({"Type": "bind", "Source": mount.source} if mount.source else {"Type": "tmpfs"}),
            "Target": mount.target,
            "ReadOnly": mount.read_only,
        }
        for mount in mounts(spec, placement)
    ]


def docker_command(spec: RunSpec, placement: Placement) -> tuple[str, ...]:
    """Return a `docker run` command for the plan, with the script in place of the supervising shell."""
    argv = ["docker", "run", "--name", container_name(spec.run_id), "--init", "--user", placement.user]
    argv += ["--shm-size", f"{SHM_BYTES >> 30}g", *(("--network", "host") if spec.members else ())]
    if spec.target.gives_gpus:
        argv += placement.gpu_access.options(_gpus_option(spec, placement))
    for mount in _api_mounts(spec, placement):
        argv += ["--mount", mount_option(mount)]
    for label, value in ((RUN_LABEL, spec.run_id), (PROJECT_LABEL, spec.project_name)):
        argv += ["--label", f"{label}={value}"]
    return (*argv, "--workdir", working_directory(placement), placement.image, *command(spec, placement))


def _gpus_option(spec: RunSpec, placement: Placement) -> str:
    """Return the value of `docker run --gpus`. Free GPUs are chosen only when the run starts."""
    words = spec.target.gpus or "all"
    ids = placement.gpus or spec.target.named_gpus
    return device_option(ids) if ids else "1" if words == "free" else words


_TERMINATED = 143  # 128 + SIGTERM, which a stop of the engine sends


def outcome(
    container: Container | None,
    exit_code: int | None,
    *,
    host: str,
    restarted: bool,
    engine_started: str,
    has_supervisor: bool,
) -> Outcome:
    """Return the outcome of a run.

    `container` is None if the container no longer exists. `exit_code` is the code that the supervising shell wrote, or
    None. `restarted` is True if the machine was restarted during the run. `engine_started` is the time of the engine's
    start. `has_supervisor` is True if a supervising shell was started, which writes the exit code of every script that
    ends by itself.
    """
    is_out_of_memory = container is not None and container.out_of_memory
    here = {"host": host}
    if exit_code is not None:
        if is_out_of_memory and exit_code == 137:
            return Outcome(exit_code, (Cause(OUT_OF_MEMORY, here),))
        if exit_code == _TERMINATED and container is not None and _is_later(engine_started, container.started_at):
            return Outcome(exit_code, (Cause(ENGINE_RESTARTED, here),))
        starved = (Cause(CHILD_OUT_OF_MEMORY, here),) if is_out_of_memory and exit_code else ()
        return Outcome(exit_code, exit_causes(exit_code) + starved)
    if restarted:
        return Outcome(None, (Cause(MACHINE_RESTARTED, here),))
    # A container that is being removed has no exit code.
    if container is None or container.exit_code is None:
        return Outcome(None, (Cause(CONTAINER_REMOVED, here),), has_failed=has_supervisor, retry=LOST)
    code = container.exit_code
    if is_out_of_memory:
        return Outcome(code, (Cause(OUT_OF_MEMORY, here),))
    if _is_later(engine_started, container.started_at):
        return Outcome(code or None, (Cause(ENGINE_RESTARTED, here),))
    if container.labels.get(MODE_LABEL) == ENGINE_MODE:
        return Outcome(code, exit_causes(code))
    if code == 137:
        return Outcome(code, (Cause(CONTAINER_KILLED, here),))
    facts = {"error": container.error} if container.error else {}
    return Outcome(code or None, (Cause(CONTAINER_ENDED, facts),))


def _is_later(first: str, second: str) -> bool:
    return bool(first and second) and datetime.fromisoformat(first) > datetime.fromisoformat(second)


def start_failure(error: EngineRefused, *, host: str, image: str) -> tuple[str, str]:
    """Return a message and a remedy for the engine's error at the start of a container."""
    reason, kind = error.reason, error.kind
    if kind == Refusal.NO_NVIDIA_RUNTIME:
        return (
            f"the Docker engine on {host} cannot give GPUs to a container: the NVIDIA runtime is missing",
            "Install the NVIDIA Container Toolkit there and restart Docker. To run without GPUs, set `gpus: 0` in the "
            ".compute file.",
        )
    if kind == Refusal.NO_AMD_DEVICES:
        return (
            f"the Docker engine on {host} cannot give the GPUs to a container: {reason}",
            "Load the driver there: `sudo modprobe amdgpu`. To run without GPUs, set `gpus: 0` in the .compute file.",
        )
    if kind == Refusal.NVIDIA_RUNTIME:
        return (
            f"the NVIDIA runtime on {host} cannot start the container: {reason}",
            "Run `nvidia-smi` there to check the driver. To run without GPUs, set `gpus: 0` in the .compute file.",
        )
    if kind in (Refusal.NO_PROGRAM, Refusal.NO_FILE):
        return (
            f"the image {image} cannot start the script: {reason}",
            "Choose a baseDockerImage with Python, such as python:3.11-slim.",
        )
    if kind == Refusal.NO_SOURCE:
        return (
            f"a folder for the container does not exist on {host}: {reason}",
            "If `DataReferences` lists the path, correct it there. Otherwise, submit the run again.",
        )
    return error.message, error.remedy


def _is_text(value: str) -> bool:
    return value == value.encode("utf-8", "replace").decode()


def _refuse_bytes(values: object) -> None:
    """Raise UsageError for text that JSON cannot represent."""
    match values:
        case str():
            if not _is_text(values):
                shown = os.fsencode(values).decode("utf-8", "backslashreplace")
                raise UsageError(
                    f"Docker accepts only names in UTF-8, not '{shown}'", remedy="Rename the file or folder."
                )
        case dict():
            _refuse_bytes([*values, *values.values()])
        case list() | tuple():
            for value in values:
                _refuse_bytes(value)
