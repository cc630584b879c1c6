"""What a run's container is made of, and what its end means. Pure data: nothing here speaks to an engine.

The supervising shell of local runs is the container's command. So the same three files tell the same things:
`output.log` what the script wrote, `pid` that it was started (never twice), `exit` how it ended, whatever becomes of
the container. The script sees its arguments and variables exactly as they were given.

Of the run directory only what the container writes is mounted, each folder and each file by itself: a mount cannot be
replaced by a link from inside, and the record of the run is out of the container's reach.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from tui_workbench.core.errors import UsageError
from tui_workbench.core.model import RunSpec
from tui_workbench.targets.base import run_environment
from tui_workbench.targets.base.values import PROJECT_IN_CONTAINER, RUN_IN_CONTAINER, Outcome
from tui_workbench.targets.docker.engine import Container
from tui_workbench.targets.hosts import supervisor
from tui_workbench.targets.hosts.supervisor import METRICS, OUTPUTS, WORKING_COPY

SDK_DIRECTORY = "/workbench/sdk"
SHARE_DIRECTORY = "/azureml-share/"
SHELL = "/bin/sh"

PREFIX = "workbench-tui"
RUN_LABEL = f"{PREFIX}.run"
PROJECT_LABEL = f"{PREFIX}.project"
USER_LABEL = f"{PREFIX}.user"
KIND_LABEL = f"{PREFIX}.kind"
MODE_LABEL = f"{PREFIX}.output"
RUN_KIND = "run"

FILE_MODE, ENGINE_MODE = "file", "engine"
"""Where the output goes: into the mounted run directory, or, in an image without a shell, into the engine's own log."""

LAUNCH_FILE = "launch"
# For whatever Python an image has.
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

SHM_BYTES = 8 << 30
"""The limit of /dev/shm. Docker's 64 MiB end data loaders with a bus error; it is a limit, not an allocation."""

LOG = {"Type": "json-file", "Config": {"max-size": "1000t"}}
"""The log of a container whose output is read from there: the engine's default may not be readable, or drop lines."""

_OUT_OF_MEMORY = "killed for want of memory (out of memory)"
ONE_WAS = "; one of its processes was "
"""Stands before that in the reason of a run whose script had others work for it, and failed when they did."""


class Mount(NamedTuple):
    """A folder or file of the host that the container sees; without a source an empty folder hides what is there."""

    source: str
    target: str
    read_only: bool = False


class Placement(NamedTuple):
    """Where the run's parts lie on the host, and as whom it runs there."""

    run_directory: str
    share: str
    user: str  # uid:gid
    project_root: str = ""  # mounted as the working directory (an untracked run here), else ""
    data: tuple[str, ...] = ()  # what `DataReferences` names, mounted at its own path to be read
    copied: bool = False  # the working directory is copied into the container instead of mounted
    image: str = ""
    python: str = "python"
    mode: str = FILE_MODE
    sdk: str = ""  # what the script may import to log
    python_path: str = ""  # the image's own
    gpus: tuple[str, ...] = ()  # ids of the devices that were chosen for it; () for what the target says


def container_name(run_id: str) -> str:
    """The one name that a run's container can have; the engine gives no name twice."""
    return f"workbench-{run_id}"


def working_directory(place: Placement) -> str:
    """Where the script runs, as the container sees it."""
    return PROJECT_IN_CONTAINER if place.project_root or place.copied else f"{RUN_IN_CONTAINER}/{WORKING_COPY}"


def written_folders(spec: RunSpec, place: Placement) -> list[str]:
    """The folders of the run directory that the container writes, by their names."""
    ranks = [supervisor.RANKS] if spec.run_configuration.processes_per_node else []
    return [OUTPUTS if place.project_root else WORKING_COPY, *ranks] if not place.copied else ranks


def written_files(spec: RunSpec, place: Placement) -> list[str]:
    """The files of the run directory that the container writes, by their names; they are there before it is made."""
    launch = [LAUNCH_FILE] if launch_file(spec, place) is not None else []
    record = [supervisor.OUTPUT, supervisor.PID, supervisor.EXIT] if place.mode == FILE_MODE else []
    return [*record, METRICS, *launch]


def mounts(spec: RunSpec, place: Placement) -> list[Mount]:
    """What the container sees of the host."""
    found = [
        Mount(f"{place.run_directory}/{name}", f"{RUN_IN_CONTAINER}/{name}")
        for name in (*written_folders(spec, place), *written_files(spec, place))
    ]
    found.append(Mount(place.share, SHARE_DIRECTORY.rstrip("/")))
    if place.project_root and not place.copied:
        found.append(Mount(place.project_root, PROJECT_IN_CONTAINER))
        state = os.path.dirname(os.path.dirname(spec.run_directory))
        if state.startswith(f"{place.project_root}/"):
            found.append(Mount("", PROJECT_IN_CONTAINER + state[len(place.project_root) :], read_only=True))
    if place.sdk:
        found.append(Mount(place.sdk, SDK_DIRECTORY, read_only=True))
    found += [Mount(path, path, read_only=True) for path in place.data]
    return found


def variables(spec: RunSpec, place: Placement) -> dict[str, str]:
    """What the script sees on top of the image's variables; the run configuration's own win over ours."""
    user = place.user.partition(":")[0]
    # A user id that the image's /etc/passwd lacks has no home, and Python libraries ask for both.
    home = {} if user == "0" else {"HOME": "/tmp", "USER": f"user{user}", "LOGNAME": f"user{user}"}
    return run_environment.run_variables(
        spec,
        share=SHARE_DIRECTORY,
        run_directory=RUN_IN_CONTAINER,
        outputs=f"{RUN_IN_CONTAINER if place.project_root else working_directory(place)}/outputs",
        sdk=SDK_DIRECTORY if place.sdk else "",
        inherited_path=place.python_path,
        others=home,
    )


def command(spec: RunSpec, place: Placement) -> tuple[str, ...]:
    """The argument vector of the script itself."""
    return run_environment.script_command(spec, place.python, SDK_DIRECTORY, RUN_IN_CONTAINER)


def launch_file(spec: RunSpec, place: Placement) -> bytes | None:
    """What LAUNCH_FILE in the run directory must hold; None when it is not needed.

    The Engine API speaks JSON, which carries text only. Arguments and variables that are other bytes go another way: a
    line of Python takes them from this file, removes it and becomes the script.
    """
    environment, argv = variables(spec, place), command(spec, place)
    items = [f"{name}={value}" for name, value in environment.items()]
    if all(map(_is_text, (*items, *argv))):
        return None
    return b"\0".join([b"%d" % len(items), *map(os.fsencode, items), *map(os.fsencode, argv)])


def configuration(spec: RunSpec, place: Placement) -> dict[str, Any]:
    """The container in the Engine API's form. Raises UsageError for what that cannot carry."""
    environment, argv = variables(spec, place), command(spec, place)
    folder = working_directory(place)
    if launch_file(spec, place) is not None:
        environment, argv = {}, (place.python, "-c", _LAUNCH, f"{RUN_IN_CONTAINER}/{LAUNCH_FILE}")
    if place.mode == FILE_MODE:
        argv, environment = run_environment.prefix_env(argv, environment)
        argv = (SHELL, "-c", supervisor.CONTAINER_TEXT, "sh", RUN_IN_CONTAINER, folder, *argv)
    result = {
        "Image": place.image,
        # An image's own entry point would wrap the command in something that nobody here knows.
        "Entrypoint": [],
        "Cmd": list(argv),
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "User": place.user,
        "WorkingDir": folder,
        "Labels": {
            RUN_LABEL: spec.run_id,
            PROJECT_LABEL: spec.project_name,
            USER_LABEL: place.user,
            KIND_LABEL: RUN_KIND,
            MODE_LABEL: place.mode,
        },
        "HostConfig": _host_configuration(spec, place),
    }
    _refuse_bytes(result)
    return result


def _host_configuration(spec: RunSpec, place: Placement) -> dict[str, Any]:
    result: dict[str, Any] = {
        # Reaps what the script leaves behind, and lets a script that is process 1 be ended at all.
        "Init": True,
        "ShmSize": SHM_BYTES,
        "Mounts": [
            {"Type": "bind", "Source": mount.source, "Target": mount.target, "ReadOnly": mount.read_only}
            if mount.source
            else {"Type": "tmpfs", "Target": mount.target, "ReadOnly": mount.read_only}
            for mount in mounts(spec, place)
        ],
        "LogConfig": LOG,
    }
    if spec.target.gives_gpus:
        result["DeviceRequests"] = [gpu_request(place.gpus)]
    return result


def gpu_request(ids: Sequence[str]) -> dict[str, Any]:
    """What gives a container the GPUs of these ids, or all where there are none, in the Engine API's form."""
    which = {"DeviceIDs": list(ids)} if ids else {"Count": -1}
    return {"Driver": "", **which, "Capabilities": [["gpu"]]}


def docker_command(spec: RunSpec, place: Placement) -> tuple[str, ...]:
    """The same container as a `docker run` command: for people, who may paste it. The script stands in it as it is."""
    argv = ["docker", "run", "--name", container_name(spec.run_id), "--init", "--user", place.user]
    argv += ["--shm-size", f"{SHM_BYTES >> 30}g"]
    if spec.target.gives_gpus:
        argv += ["--gpus", _gpus_option(spec, place)]
    for mount in mounts(spec, place):
        only = ",readonly" if mount.read_only else ""
        what = f"type=bind,source={mount.source}" if mount.source else "type=tmpfs"
        argv += ["--mount", f"{what},target={mount.target}{only}"]
    for label, value in ((RUN_LABEL, spec.run_id), (PROJECT_LABEL, spec.project_name)):
        argv += ["--label", f"{label}={value}"]
    return (*argv, "--workdir", working_directory(place), place.image, *command(spec, place))


def _gpus_option(spec: RunSpec, place: Placement) -> str:
    """What `docker run --gpus` takes; free ones are known when they are taken."""
    words = spec.target.gpus or "all"
    ids = place.gpus or ([word.strip() for word in words.strip("[]").split(",")] if words[0] == "[" else ())
    # The option is read as CSV: a list of ids is one of its cells.
    return f'"device={",".join(ids)}"' if ids else "1" if words == "free" else words


def outcome(
    container: Container | None, exit_code: int | None, *, host: str, restarted: bool, engine_started: str
) -> Outcome:
    """How a run ended.

    `exit_code` is what the supervising shell wrote down, `restarted` tells that the machine was started anew since,
    `engine_started` when the engine was (a time like the container's).
    """
    memory = container is not None and container.out_of_memory
    starved = f"{_OUT_OF_MEMORY} on {host}; smaller batches or fewer workers need less"
    if exit_code is not None:
        if memory and exit_code == 137:
            return Outcome(exit_code, starved)
        reason = supervisor.describe_exit(exit_code)
        return Outcome(exit_code, f"{reason}{ONE_WAS}{starved}" if memory and exit_code else reason)
    if restarted:
        return Outcome(None, f"{host} was restarted during the run; submit it again")
    # One that is just being removed has no end of its own any more.
    if container is None or container.exit_code is None:
        return Outcome(None, f"its container is gone from {host}: somebody removed it")
    code = container.exit_code
    if memory:
        return Outcome(code, starved)
    if _is_later(engine_started, container.started_at):
        reason = f"the Docker engine on {host} was restarted, which ended the run; submit it again"
        return Outcome(code or None, reason)
    if container.labels.get(MODE_LABEL) == ENGINE_MODE:
        return Outcome(code, supervisor.describe_exit(code))
    if code == 137:
        return Outcome(code, f"somebody killed its container on {host}, or the machine ran out of memory")
    said = f": {container.error}" if container.error else ""
    return Outcome(code or None, f"its container ended and its exit code was not written down{said}")


def _is_later(first: str, second: str) -> bool:
    """Whether one moment of an engine's record is after another; both may be unknown, and in different time zones."""
    if not first or not second:
        return False
    return datetime.fromisoformat(first) > datetime.fromisoformat(second)


def start_failure(said: str, *, host: str, image: str) -> tuple[str, str]:
    """Message and remedy for a container that the engine could not start, from the engine's words."""
    if "could not select device driver" in said or "nvidia-container-cli: initialization error" in said:
        return (
            f"the Docker engine on {host} cannot give a container its GPUs: the NVIDIA runtime is missing",
            "Install the NVIDIA Container Toolkit there and restart Docker, or set `nvidiaDocker: false`.",
        )
    if "nvidia-container-cli" in said:
        return (f"the NVIDIA runtime on {host} refused: {said}", "`nvidia-smi` there says whether the driver works.")
    if "executable file not found" in said or "no such file or directory" in said:
        return (f"the image {image} cannot start it: {said}", "Choose a baseDockerImage that holds Python.")
    if "bind source path does not exist" in said:
        return (f"a folder that the container needs is gone from {host}: {said}", "Submit it again.")
    return (f"the Docker engine on {host} cannot start the container: {said}", "")


def _is_text(value: str) -> bool:
    return value == value.encode("utf-8", "replace").decode()


def _refuse_bytes(values: object) -> None:
    """Raise UsageError for the names of folders that JSON cannot carry."""
    match values:
        case str():
            if not _is_text(values):
                shown = os.fsencode(values).decode("utf-8", "backslashreplace")
                raise UsageError(
                    f"Docker can only be given names in UTF-8, and this is none: {shown}", remedy="Rename it."
                )
        case dict():
            _refuse_bytes([*values, *values.values()])
        case list() | tuple():
            for value in values:
                _refuse_bytes(value)
