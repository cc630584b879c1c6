"""Where the framework of a run lies: an interpreter of a machine, or an image; and what it tells of itself there.

What a place has told is kept for as long as its packages, the driver and the GPUs are the same, and only if it cannot
come out otherwise the next time: a GPU that was busy, or a driver that stumbled, is asked again.
"""

from __future__ import annotations

import contextlib
import json
import os
import time

from tui_workbench.errors import WorkbenchError
from tui_workbench.model import RunConfiguration, RunSpec, is_secret_name
from tui_workbench.records import TYPE_CHECKING, Protocol
from tui_workbench.targets.gpu.choice import ORDER, VISIBLE
from tui_workbench.targets.gpu.frameworks import (
    ALL,
    ALONE,
    FORM,
    LAUNCH,
    ONE,
    PROGRAM,
    SECONDS,
    WATCHED,
    Told,
    from_json,
    to_json,
    told_by,
)
from tui_workbench.targets.host import READ_SIZE, ConnectionLost, wait_ready

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tui_workbench.model import ComputeTarget
    from tui_workbench.targets.engine import Engine, Image
    from tui_workbench.targets.gpus import Gpus
    from tui_workbench.targets.host import Host

ANSWER_SECONDS = SECONDS + 30.0
"""For all frameworks at once, and the interpreter's own start."""

# Of a run's variables those that decide what a framework finds.
_TELLING = ("CUDA", "NVIDIA", "LD_", "TF_", "XLA", "JAX", "TORCH", "PYTORCH", "PYTHON", "HIP", "ROCR", "HSA", "PATH")

_CHANGED = 'for path; do stat -L -c %Y -- "$path" 2>/dev/null || echo 0; done'


class NotThere(WorkbenchError):
    """The environment of the run is not there yet; `command` makes it."""

    def __init__(self, message: str, command: str) -> None:
        super().__init__(message, remedy="It is made before the first run that needs it, or now.")
        self.command = command


class Place(Protocol):
    """Somewhere frameworks lie."""

    name: str
    """For people: the interpreter, or the image."""

    variables: Mapping[str, str]
    """Of the run, those that matter here."""

    @property
    def identity(self) -> str:
        """What tells it from others; equal ones with unchanged paths hold the same."""

    def output(self, which: str) -> bytes:
        """What PROGRAM writes there. Raises WorkbenchError."""

    def is_unchanged(self, paths: Sequence[tuple[str, int]]) -> bool:
        """Whether its packages are what they were. Raises TargetUnreachable."""


class Interpreter:
    """A Python of a machine."""

    def __init__(self, host: Host, path: str, variables: Mapping[str, str]) -> None:
        self.name = path
        self.variables = variables
        self._host = host

    @property
    def identity(self) -> str:
        """The machine is part of the kept answer's name already."""
        inherited = _telling(os.environ) if self._host.is_local else {}
        return json.dumps([self.name, inherited])

    def output(self, which: str) -> bytes:
        """Outside of the project: a `torch.py` there is not what is asked for."""
        around = ["sh", "-c", 'cd / && exec "$@" 2>/dev/null', "sh", "env", "--"]
        settings = [f"{name}={value}" for name, value in self.variables.items()]
        words = [*around, *settings, self.name, "-c", LAUNCH, PROGRAM, str(SECONDS), which, WATCHED]
        process = self._host.open(words)
        try:
            return self._read(process.stdout)
        finally:
            process.close()

    def _read(self, descriptor: int) -> bytes:
        """Everything up to the end. Should this process end before, so does the program with its input."""
        deadline = time.monotonic() + ANSWER_SECONDS
        pieces: list[bytes] = []
        while wait_ready([descriptor], timeout=max(0.0, deadline - time.monotonic())):
            piece = os.read(descriptor, READ_SIZE)
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)
        raise ConnectionLost(
            f"{self.name} did not answer within {ANSWER_SECONDS:g} s",
            remedy="Try it there; a driver may keep it waiting.",
        )

    def is_unchanged(self, paths: Sequence[tuple[str, int]]) -> bool:
        """By the times of the folders that packages lie in."""
        if not paths:
            return False
        now = self._host.run(["sh", "-c", _CHANGED, "sh", *(path for path, _ in paths)]).text.split("\n")
        return now == [str(changed) for _, changed in paths]


class InImage:
    """The Python of an image, in a container that is given GPUs as a run's is, and removed."""

    def __init__(
        self, engine: Engine, image: Image, python: str, target: ComputeTarget, own: Mapping[str, str]
    ) -> None:
        self.name = image.tags[0] if image.tags else target.base_docker_image
        self.variables = own
        self._engine = engine
        self._image = image
        self._python = python
        self._target = target

    @property
    def identity(self) -> str:
        """An image's id names its content."""
        return f"{self._image.id} {self._target.gpus}"

    def output(self, which: str) -> bytes:
        """Raises EngineRefused, with the engine's words, when there can be no such container."""
        name = f"workbench-check-{os.urandom(6).hex()}"
        command = [self._python, "-c", LAUNCH, PROGRAM, str(SECONDS), which, ALONE]
        self._engine.create(name, gpu_container(self._image.id, command, self._target, self.variables))
        try:
            self._engine.start(name)
            self._engine.wait(name)
            return b"".join(record.partition(b" ")[2] for record in self._engine.records(name, follow=False))
        finally:
            self._engine.remove(name)

    def is_unchanged(self, paths: Sequence[tuple[str, int]]) -> bool:
        """Nothing in an image changes."""
        return True


def gpu_container(
    image: str, command: Sequence[str], target: ComputeTarget, variables: Mapping[str, str]
) -> dict[str, object]:
    """A container that is given GPUs as those of the target's runs are, without a network."""
    from tui_workbench.targets.container import KIND_LABEL, LOG, SHM_BYTES
    from tui_workbench.targets.probe import PROBE_KIND

    named = [word.strip() for word in target.gpus[1:-1].split(",")] if target.gpus.startswith("[") else []
    which = {"DeviceIDs": named} if named else {"Count": -1}
    return {
        "Image": image,
        "Entrypoint": [],
        "Cmd": list(command),
        "Env": ["HOME=/tmp", *(f"{name}={value}" for name, value in variables.items())],
        "Labels": {KIND_LABEL: PROBE_KIND},
        "NetworkDisabled": True,
        "HostConfig": {
            "NetworkMode": "none",
            "ShmSize": SHM_BYTES,
            "LogConfig": LOG,
            "DeviceRequests": [{"Driver": "", **which, "Capabilities": [["gpu"]]}],
        },
    }


def place_of(spec: RunSpec, host: Host, engine: Engine | None) -> Place:
    """Where the run's framework lies; `engine` is that of a target with containers.

    Raises NotThere, ConfigurationError, TargetUnreachable.
    """
    target, own = spec.target, _telling(spec.run_configuration.environment_variables)
    make = f"workbench-tui experiment prepare -c {spec.run_configuration.name}"
    if engine is not None:
        from tui_workbench.targets.images import Images

        images = Images(host, engine, spec)
        choice = images.choose()
        if choice.image is None:
            raise NotThere(f"the image {choice.name} is not there yet: {choice.why}", make)
        image, facts = images.present()
        return InImage(engine, image, facts.python, target, own)
    if target.type == "remote":
        from tui_workbench.targets.remote import RemoteTarget

        return Interpreter(host, RemoteTarget(target, host).interpreter()[0], {**_shown(target), **own})
    from tui_workbench.targets.local import find_interpreter

    interpreter = find_interpreter(target)
    if not target.user_managed_environment:
        from tui_workbench.targets.managed import managed_environment

        managed = managed_environment(spec, interpreter)
        if not managed.recipe.is_met_by(managed.version):
            if not managed.is_whole:
                raise NotThere(f"the environment is not made yet: {managed.why()}", make)
            interpreter = managed.python
            own = {**_telling(managed.recipe.variables), **own}
    return Interpreter(host, interpreter, {**_shown(target), **own})


def spec_of(target: ComputeTarget, configuration: RunConfiguration | None = None) -> RunSpec:
    """What a run on a target would be by its files alone, without a script.

    Without a run configuration the one of the target's name is taken, where it is a good one for this target.
    """
    folder = os.path.dirname(target.path)
    root = os.path.dirname(folder)
    if configuration is None:
        from tui_workbench.config.loading import load_run_configuration

        path = os.path.join(folder, f"{target.name}.runconfig")
        configuration = RunConfiguration(target.name, path, target.name, framework="Python")
        with contextlib.suppress(WorkbenchError, OSError):
            written = load_run_configuration(path)
            configuration = written if written.target == target.name else configuration
    return RunSpec("", os.path.join(root, ".workbench", "runs", "none"), root, os.path.basename(root), root, "", (),
                   configuration, target)  # fmt: skip


def _telling(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name.startswith(_TELLING) and not is_secret_name(name)}


def _shown(target: ComputeTarget) -> dict[str, str]:
    """What a script on the machine itself will be told of certain GPUs; which free ones it gets is not known yet."""
    if not target.gpus.startswith("["):
        return {}
    named = ",".join(word.strip() for word in target.gpus[1:-1].split(","))
    return {VISIBLE: named, ORDER: "PCI_BUS_ID"}


# -- what was told before --------------------------------------------------------------------------------------------


def told_of(place: Place, target: ComputeTarget, gpus: Gpus, which: str) -> Told | None:
    """What the place tells of its frameworks; None when it gives no answer.

    With `which` ONE what it told before will do; who wants to know of ALL of the GPUs wants to know of this moment.
    Raises WorkbenchError.
    """
    names = [_name(place, target, kind) for kind in (which, *{ONE, ALL}.difference((which,)))]
    having: list[object] = [gpus.driver, [gpu.uuid for gpu in gpus.found]]
    for name in names if which == ONE else ():
        known = _kept(name, having)
        if known is not None and place.is_unchanged(known.paths):
            return known
    told = told_by(place.output(which))
    if told is not None and all(_is_lasting(each.cuda, each.computed, each.version) for each in told.frameworks):
        _keep(names[0], having, told)
    return told


def _is_lasting(cuda: str, computed: int, version: str) -> bool:
    """Whether it will be so until something is installed: it computes, or it is a CPU build."""
    return computed > 0 or (not cuda and bool(version))


def _name(place: Place, target: ComputeTarget, which: str) -> str:
    from tui_workbench.targets.gpu.feed import machine_key

    return json.dumps([FORM, machine_key(target), place.identity, sorted(place.variables.items()), which])


def _path(name: str) -> str:
    import zlib

    from tui_workbench.resources import user_cache_directory

    return os.path.join(user_cache_directory(), "gpu", f"{zlib.crc32(name.encode()):08x}.json")


def _kept(name: str, having: list[object]) -> Told | None:
    try:
        with open(_path(name), encoding="utf-8") as file:
            stored = json.load(file)
        return from_json(stored["told"]) if [stored["name"], stored["having"]] == [name, having] else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _keep(name: str, having: list[object], told: Told) -> None:
    """Remember an answer. Where that is not possible it is asked for again."""
    from tui_workbench.errors import StorageError
    from tui_workbench.files import write_atomically

    path = _path(name)
    with contextlib.suppress(OSError, StorageError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_atomically(path, json.dumps({"name": name, "having": having, "told": to_json(told)}).encode())
