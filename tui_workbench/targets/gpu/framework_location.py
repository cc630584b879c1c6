"""Where the framework of a run lies: an interpreter of a machine, or an image; and what it tells of itself there.

What a place has told is kept for as long as its packages, the driver and the GPUs are the same, and only if it cannot
come out otherwise the next time: a GPU that was busy, or a driver that stumbled, is asked again.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import zlib
from collections.abc import Mapping, Sequence
from typing import Protocol

from tui_workbench.config.loading import load_run_configuration
from tui_workbench.core.directories import user_cache_directory
from tui_workbench.core.errors import StorageError, WorkbenchError
from tui_workbench.core.files import write_atomically
from tui_workbench.core.masking import is_secret_name
from tui_workbench.core.model import ComputeTarget, RunConfiguration, RunSpec
from tui_workbench.core.waiting import wait_ready
from tui_workbench.targets.gpu.choice import ORDER, VISIBLE
from tui_workbench.targets.gpu.frameworks import (
    ALL,
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
from tui_workbench.targets.gpu.gpus import Gpus, machine_key
from tui_workbench.targets.hosts.host import READ_SIZE, ConnectionLost, Host

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
        inherited = _telling(os.environ) if self._host.is_local else {}
        return json.dumps([self.name, inherited])

    def output(self, which: str) -> bytes:
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
        if not paths:
            return False
        now = self._host.run(["sh", "-c", _CHANGED, "sh", *(path for path, _ in paths)]).text.split("\n")
        return now == [str(changed) for _, changed in paths]


def variables_of(spec: RunSpec, others: Mapping[str, str] | None = None) -> dict[str, str]:
    """Of a run's variables and of `others` below them, those that decide what a framework finds."""
    return {**_shown(spec.target), **_telling(others or {}), **_telling(spec.run_configuration.environment_variables)}


def preparing_command(spec: RunSpec) -> str:
    """What makes the environment of a run beforehand."""
    return f"workbench-tui experiment prepare -c {spec.run_configuration.name}"


def spec_of(target: ComputeTarget, configuration: RunConfiguration | None = None) -> RunSpec:
    """What a run on a target would be by its files alone, without a script.

    Without a run configuration the one of the target's name is taken, where it is a good one for this target.
    """
    folder = os.path.dirname(target.path)
    root = os.path.dirname(folder)
    if configuration is None:
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
    having: list[object] = [gpus.driver, [gpu.uuid for gpu in gpus.found]]
    if which == ONE:
        for kind in (ONE, ALL):
            known = _kept(_name(place, target, kind), having)
            if known is not None and place.is_unchanged(known.paths):
                return known
    told = told_by(place.output(which))
    # It will be so until something is installed where it computes, or where it is a CPU build.
    if told is not None and all(each.computed > 0 or (not each.cuda and each.version) for each in told.frameworks):
        name = _name(place, target, which)
        # Where it cannot be kept it is asked for again.
        with contextlib.suppress(OSError, StorageError):
            os.makedirs(os.path.dirname(_path(name)), exist_ok=True)
            kept = {"name": name, "having": having, "told": to_json(told)}
            write_atomically(_path(name), json.dumps(kept).encode())
    return told


def _name(place: Place, target: ComputeTarget, which: str) -> str:
    return json.dumps([FORM, machine_key(target), place.identity, sorted(place.variables.items()), which])


def _path(name: str) -> str:
    return os.path.join(user_cache_directory(), "gpu", f"{zlib.crc32(name.encode()):08x}.json")


def _kept(name: str, having: list[object]) -> Told | None:
    try:
        with open(_path(name), encoding="utf-8") as file:
            stored = json.load(file)
        return from_json(stored["told"]) if [stored["name"], stored["having"]] == [name, having] else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
