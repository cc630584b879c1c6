"""The types of compute targets and their capabilities.

Code that depends on the type of a target reads its `TargetType` and never compares names. Another package can add a
type with an entry point in the group `tui_workbench.targets`. The name of the entry point is the type in `.compute`
files. Its object is a subclass of `tui_workbench.targets.base.protocol.Target`, whose attribute `type` is a TargetType.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

ENTRY_POINT_GROUP = "tui_workbench.targets"


class TargetType(NamedTuple):
    """The capabilities of a target type. The defaults describe an unknown type."""

    name: str
    label: str = ""  # text before the name of the machine in lists, as in `Docker on gpubox`
    keys: tuple[str, ...] = ()  # keys and sections that this type reads and some other types ignore
    required: tuple[str, ...] = ()  # keys that a `.compute` file must have
    is_remote: bool = False  # runs execute in a copy of the project on another machine; see `ComputeTarget.uses_ssh`
    runs_in_container: bool = False
    uses_interpreter: bool = False  # scripts run with the Python at `pythonLocation`
    builds_environments: bool = False  # always builds environments from the conda dependencies file
    can_build_environments: bool = False  # builds environments if `userManagedEnvironment` is false
    has_gpus: bool = False  # the workbench can read the GPUs of its machine
    has_scheduler: bool = False  # a scheduler chooses nodes and GPUs, so they cannot be checked at submission
    can_join: bool = False  # can be a member of a group
    can_prepare: bool = False  # `computetarget prepare` can install software on its machine
    can_start_jupyter: bool = False  # a run can start Jupyter in its working copy
    spark_master: str = ""  # default master of runs with Spark; "" to use the cores of the machine

    @property
    def runs_here(self) -> bool:
        """True if scripts run as processes on this machine, outside containers."""
        return self.uses_interpreter and not self.is_remote and not self.runs_in_container

    def reads(self, key: str) -> bool:
        """Return True if targets of this type read a key or its section (`slurm` for `slurm.gpus`)."""
        return key.partition(".")[0] in self.keys


_LOGIN = ("address", "username", "password", "privateKey", "privateKeyPassphrase")
_PYTHON = ("pythonLocation", "sparkSubmitLocation", "gpus", "gpuReservations", "userManagedEnvironment", "Retry")
_DOCKER = (
    "baseDockerImage",
    "nvidiaDocker",
    "gpus",
    "gpuReservations",
    "sharedVolumes",
    "nativeSharedDirectory",
    "Retry",
)

LOCAL = TargetType(
    "local",
    keys=(*_PYTHON, "nativeSharedDirectory"),
    uses_interpreter=True,
    can_build_environments=True,
    has_gpus=True,
    can_prepare=True,
)
LOCAL_DOCKER = TargetType(
    "localdocker",
    "Docker",
    keys=_DOCKER,
    required=("baseDockerImage",),
    runs_in_container=True,
    builds_environments=True,
    has_gpus=True,
    can_prepare=True,
    can_start_jupyter=True,
)
REMOTE_DOCKER = LOCAL_DOCKER._replace(
    name="remotedocker",
    label="Docker on",
    keys=(*_LOGIN, *_DOCKER),
    required=("address", "baseDockerImage"),
    is_remote=True,
    can_join=True,
)
REMOTE = TargetType(
    "remote",
    "SSH",
    keys=(*_LOGIN, *_PYTHON),
    required=("address",),
    is_remote=True,
    uses_interpreter=True,
    has_gpus=True,
    can_join=True,
    can_prepare=True,
    can_start_jupyter=True,
)
SLURM = TargetType(
    "slurm",
    "Slurm on",
    keys=(
        *_LOGIN,
        "pythonLocation",
        "baseDockerImage",
        "runRoot",
        "slurm",
        "Slurm",
        "Nodes",
        "setup",
        "container",
        "pollSeconds",
        "Retry",
    ),
    is_remote=True,
    uses_interpreter=True,
    has_scheduler=True,
)
CLUSTER = TargetType(
    "cluster",
    "Spark on",
    keys=(
        *_LOGIN,
        "pythonLocation",
        "sparkSubmitLocation",
        "userManagedEnvironment",
        "yarnDeployMode",
        "cluster",
        "native",
    ),
    required=("address",),
    is_remote=True,
    uses_interpreter=True,
    spark_master="yarn",
)

GROUP = TargetType(
    "group",
    "Group of",
    keys=("members", "networkInterface", "onLostMember", "Retry"),
    required=("members",),
    is_remote=True,
)

BUILT_IN = (LOCAL, LOCAL_DOCKER, REMOTE_DOCKER, REMOTE, SLURM, CLUSTER, GROUP)
SYNONYMS = {"docker": LOCAL_DOCKER.name}
"""Names of target types, by an alternative name."""

_BY_NAME = {target_type.name: target_type for target_type in BUILT_IN}


def find(name: str) -> TargetType:
    """Return the type of this name; for an unknown name, a type with the defaults."""
    built_in = _BY_NAME.get(SYNONYMS.get(name, name))
    return built_in if built_in is not None else _installed_type(name)


def is_known(name: str) -> bool:
    """Return True if a type of this name exists."""
    return name in _BY_NAME or name in SYNONYMS or name in installed()


@cache
def installed() -> frozenset[str]:
    """Return the names of types from other packages. Cached, because the editor reads them on every key press."""
    from importlib.metadata import entry_points

    return frozenset(entry_points(group=ENTRY_POINT_GROUP).names)


@cache
def load(name: str) -> Any:
    """Return the object of a type's entry point; None without an entry point. The package may raise any exception."""
    if not name:
        return None
    from importlib.metadata import entry_points

    entry_point = next(iter(entry_points(group=ENTRY_POINT_GROUP, name=name)), None)
    return entry_point.load() if entry_point is not None else None


@cache
def _installed_type(name: str) -> TargetType:
    try:
        described = getattr(load(name), "type", None)
    except Exception:  # raised by another package; the registry reports it when a run needs the target
        described = None
    return described._replace(name=name) if isinstance(described, TargetType) else TargetType(name)


def built_in_names() -> tuple[str, ...]:
    """Return the names of the built-in types."""
    return tuple(_BY_NAME)


def names() -> tuple[str, ...]:
    """Return the names of all types; the built-in types are first."""
    return (*_BY_NAME, *sorted(installed().difference(_BY_NAME)))


def forget_installed() -> None:
    """Clear the caches of types from other packages."""
    for cached in (installed, load, _installed_type):
        cached.cache_clear()
