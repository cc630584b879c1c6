"""The location of a run's frameworks (an interpreter on a machine or in an image), and the report of these frameworks.

A report is cached until the packages, the driver or the GPUs change. Results that may change without an
installation, such as those of a busy GPU, are not cached.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import time
import zlib
from collections.abc import Mapping, Sequence
from typing import Protocol

from tui_workbench.config.loading import load_run_configuration
from tui_workbench.core.directories import user_cache_directory
from tui_workbench.core.errors import StorageError, WorkbenchError
from tui_workbench.core.files import load_json, write_atomically
from tui_workbench.core.model import ComputeTarget, RunConfiguration, RunSpec
from tui_workbench.core.secret_names import is_secret_name
from tui_workbench.core.waiting import wait_ready
from tui_workbench.targets.gpu.frameworks import (
    ALL,
    FORM,
    LAUNCH,
    ONE,
    PROGRAM,
    SECONDS,
    WATCHED,
    FrameworkReport,
    from_json,
    parse_report,
    to_json,
)
from tui_workbench.targets.gpu.gpus import Gpus, machine_key
from tui_workbench.targets.hosts.host import READ_SIZE, ConnectionLost, Host

# Timeout in seconds for all frameworks, which run at the same time, and for the start of the interpreter.
ANSWER_SECONDS = SECONDS + 30.0
# Prefixes of the variables that affect which GPUs a framework finds.
_RELEVANT = ("CUDA", "NVIDIA", "LD_", "TF_", "XLA", "JAX", "TORCH", "PYTORCH", "PYTHON", "HIP", "ROCR", "HSA", "PATH")

# `stat -f` is for macOS.
_CHANGED = 'for path; do stat -L -c %Y -- "$path" 2>/dev/null || stat -L -f %m -- "$path" 2>/dev/null || echo 0; done'


class EnvironmentMissing(WorkbenchError):
    """The environment of the run is not built yet; `command` builds it."""

    def __init__(self, message: str, command: str) -> None:
        remedy = "Build or pull it with the command. The first run also does this if PrepareEnvironment is true."
        super().__init__(message, remedy=remedy)
        self.command = command


class FrameworkLocation(Protocol):
    """A Python interpreter whose frameworks are checked."""

    name: str
    """The interpreter or the image, for messages."""

    variables: Mapping[str, str]
    """Variables of the run that affect the framework."""

    @property
    def identity(self) -> str:
        """A string that identifies this Python in the cache of reports."""

    def output(self, which: str) -> bytes:
        """Run PROGRAM with this Python and return its output. Raises WorkbenchError."""

    def is_unchanged(self, paths: Sequence[tuple[str, int]]) -> bool:
        """Return True if the folders still have the modification times in `paths`. Raises TargetUnreachable."""


class Interpreter:
    """A Python interpreter of a machine."""

    def __init__(self, host: Host, path: str, variables: Mapping[str, str]) -> None:
        self.name = path
        self.variables = variables
        self._host = host

    @property
    def identity(self) -> str:
        inherited = _relevant(os.environ) if self._host.is_local else {}
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
        """Read the whole output. Raises ConnectionLost if the program hangs.

        If this process ends first, the program ends too, because its input is closed.
        """
        deadline = time.monotonic() + ANSWER_SECONDS
        pieces: list[bytes] = []
        while wait_ready([descriptor], timeout=max(0.0, deadline - time.monotonic())):
            piece = os.read(descriptor, READ_SIZE)
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)
        raise ConnectionLost(
            f"{self.name} did not answer within {ANSWER_SECONDS:g} s",
            remedy=f"Import the framework with {self.name} on the machine of the target. If that hangs too, restart "
            "the machine: its GPU driver has probably stopped responding.",
        )

    def is_unchanged(self, paths: Sequence[tuple[str, int]]) -> bool:
        if not paths:
            return False
        now = self._host.run(["sh", "-c", _CHANGED, "sh", *(path for path, _ in paths)]).text.split("\n")
        return now == [str(changed) for _, changed in paths]


def variables_of(spec: RunSpec, visible: Mapping[str, str], others: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables of a run that affect its framework.

    The variables of a run override those of `others`. `visible` restricts the run to the GPUs that its target names;
    free GPUs are chosen only when the run starts.
    """
    return {**_relevant(others or {}), **visible, **_relevant(spec.run_configuration.environment_variables)}


def prepare_command(spec: RunSpec) -> str:
    """Return the command that builds the environment of a run."""
    return f"workbench-tui experiment prepare -c {shlex.quote(spec.run_configuration.name)}"


def spec_of(target: ComputeTarget, configuration: RunConfiguration | None = None) -> RunSpec:
    """Return the specification of a run on a target, without a script.

    The default run configuration is the file with the target's name, if it is valid and names this target.
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


def _relevant(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name.startswith(_RELEVANT) and not is_secret_name(name)}


# -- the cache -------------------------------------------------------------------------------------------------------


def framework_report(
    location: FrameworkLocation, target: ComputeTarget, gpus: Gpus, which: str
) -> FrameworkReport | None:
    """Return the report of the frameworks; None if the interpreter prints no valid report.

    A cached report is used only if `which` is ONE; a check of ALL GPUs always runs. Raises WorkbenchError.
    """
    if which == ONE and (cached := known_report(location, target, gpus)) is not None:
        return cached
    report = parse_report(location.output(which))
    # Cache only results that cannot change without an installation: a framework that computes, or a CPU build.
    frameworks = report.frameworks if report is not None else ()
    if report is not None and all(
        framework.computed > 0 or (not framework.cuda and framework.version) for framework in frameworks
    ):
        name = _name(location, target, which)
        # If the report cannot be stored, the next check asks again.
        with contextlib.suppress(OSError, StorageError):
            os.makedirs(os.path.dirname(_path(name)), exist_ok=True)
            entry = {"name": name, "having": _hardware(gpus), "told": to_json(report)}
            write_atomically(_path(name), json.dumps(entry).encode())
    return report


def known_report(location: FrameworkLocation, target: ComputeTarget, gpus: Gpus) -> FrameworkReport | None:
    """Return the cached report if it is still valid, without starting the interpreter. Raises TargetUnreachable."""
    for kind in (ONE, ALL):
        report = _cached(_name(location, target, kind), _hardware(gpus))
        if report is not None and location.is_unchanged(report.paths):
            return report
    return None


def _hardware(gpus: Gpus) -> list[object]:
    return [gpus.driver, [gpu.uuid for gpu in gpus.listed]]


def _name(location: FrameworkLocation, target: ComputeTarget, which: str) -> str:
    return json.dumps([FORM, machine_key(target), location.identity, sorted(location.variables.items()), which])


def _path(name: str) -> str:
    return os.path.join(user_cache_directory(), "gpu", f"{zlib.crc32(name.encode()):08x}.json")


def _cached(name: str, hardware: list[object]) -> FrameworkReport | None:
    try:
        stored = load_json(_path(name))
        return from_json(stored["told"]) if [stored["name"], stored["having"]] == [name, hardware] else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
