"""The types of compute targets: what each one is, in one place.

Code that depends on the type of a target asks its `TargetType`, and never compares names. A package adds a type with an
entry point in the group `tui_workbench.targets`. It is named like the `type` in a `.compute` file and points at a
subclass of `tui_workbench.targets.base.protocol.Target`, whose attribute `type` is the TargetType.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

ENTRY_POINT_GROUP = "tui_workbench.targets"


class TargetType(NamedTuple):
    """What is the same for all targets of a type. The defaults are those of a type of which nothing is known."""

    name: str
    label: str = ""  # stands before the machine in lists, as in `Docker on gpubox`
    keys: tuple[str, ...] = ()  # of a `.compute` file: those that not every type reads, and this one does
    required: tuple[str, ...] = ()  # the keys that such a file must have
    is_remote: bool = False  # another machine, named by `address` and reached over SSH
    runs_in_container: bool = False
    uses_interpreter: bool = False  # scripts run with the Python that `pythonLocation` names
    builds_environments: bool = False  # always, from the conda dependencies file
    can_build_environments: bool = False  # where `userManagedEnvironment` is false
    has_gpus: bool = False  # the GPUs of its machine can be looked at
    can_run: bool = True  # False: its files are understood, and there is nothing that runs scripts on it

    @property
    def runs_here(self) -> bool:
        """Whether scripts are processes of this machine, outside of any container."""
        return self.uses_interpreter and not self.is_remote and not self.runs_in_container

    def reads(self, key: str) -> bool:
        """Whether a target of this type reads a key of a `.compute` file that not every type reads."""
        return key in self.keys


_LOGIN = ("address", "username", "password", "privateKey", "privateKeyPassphrase")
_DOCKER = ("baseDockerImage", "nvidiaDocker", "gpus", "sharedVolumes", "nativeSharedDirectory")

LOCAL = TargetType(
    "local",
    keys=("pythonLocation", "sparkSubmitLocation", "gpus", "nativeSharedDirectory", "userManagedEnvironment"),
    uses_interpreter=True,
    can_build_environments=True,
    has_gpus=True,
)
LOCAL_DOCKER = TargetType(
    "localdocker",
    "Docker",
    keys=_DOCKER,
    required=("baseDockerImage",),
    runs_in_container=True,
    builds_environments=True,
    has_gpus=True,
)
REMOTE_DOCKER = LOCAL_DOCKER._replace(
    name="remotedocker",
    label="Docker on",
    keys=(*_LOGIN, *_DOCKER),
    required=("address", "baseDockerImage"),
    is_remote=True,
)
REMOTE = TargetType(
    "remote",
    "SSH",
    keys=(*_LOGIN, "pythonLocation", "gpus", "userManagedEnvironment"),
    required=("address",),
    is_remote=True,
    uses_interpreter=True,
    has_gpus=True,
)
CLUSTER = TargetType(
    "cluster",
    "Spark on",
    keys=(*_LOGIN, "yarnDeployMode", "cluster", "native"),
    required=("address",),
    is_remote=True,
    builds_environments=True,
    can_run=False,
)

BUILT_IN = (LOCAL, LOCAL_DOCKER, REMOTE_DOCKER, REMOTE, CLUSTER)
SYNONYMS = {"docker": LOCAL_DOCKER.name}
"""Other spellings of types: (as written, as understood)."""

_BY_NAME = {each.name: each for each in BUILT_IN}


def find(name: str) -> TargetType:
    """The type of this name; one that nothing here knows has the defaults."""
    known = _BY_NAME.get(SYNONYMS.get(name, name))
    return known if known is not None else _installed_type(name)


def is_known(name: str) -> bool:
    """Whether targets can have a type of this name."""
    return name in _BY_NAME or name in SYNONYMS or name in installed()


@cache
def installed() -> frozenset[str]:
    """The types that other packages add, as they were when this process first asked: an editor asks with each key."""
    from importlib.metadata import entry_points

    return frozenset(entry_points(group=ENTRY_POINT_GROUP).names)


@cache
def load(name: str) -> Any:
    """What the entry point of a type points at; None when no package adds the type. Raises what its code raises."""
    if not name:
        return None
    from importlib.metadata import entry_points

    found = next(iter(entry_points(group=ENTRY_POINT_GROUP, name=name)), None)
    return found.load() if found is not None else None


@cache
def _installed_type(name: str) -> TargetType:
    try:
        described = getattr(load(name), "type", None)
    except Exception:  # the code of another package: whoever runs something on such a target is told
        described = None
    return described._replace(name=name) if isinstance(described, TargetType) else TargetType(name)


def built_in_names() -> tuple[str, ...]:
    """The names of the built-in types."""
    return tuple(_BY_NAME)


def names() -> tuple[str, ...]:
    """The names of all types, the built-in ones first."""
    return (*_BY_NAME, *sorted(installed().difference(_BY_NAME)))


def forget_installed() -> None:
    """Look for the types of other packages anew."""
    for each in (installed, load, _installed_type):
        each.cache_clear()
