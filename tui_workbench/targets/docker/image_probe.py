"""Inspect an image with programs in a temporary container: its Python, packages, conda, C library and Spark.

The facts of an image are cached by the image's ID, which identifies its content. The frameworks of an image are checked
with the GPUs that the container of a run would get.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tui_workbench.core.directories import user_cache_directory
from tui_workbench.core.errors import ConfigurationError, StorageError
from tui_workbench.core.files import load_json, read_file, write_atomically
from tui_workbench.core.json_values import check_type, parse_json, read_as
from tui_workbench.core.model import ComputeTarget, RunSpec
from tui_workbench.targets.base.spark import Spark, find_words, parse_found
from tui_workbench.targets.docker.container import KIND_LABEL, LOG, SHM_BYTES
from tui_workbench.targets.docker.engine import Engine, EngineRefused, Refusal
from tui_workbench.targets.docker.engine_answers import Image
from tui_workbench.targets.docker.gpu_access import GpuAccess
from tui_workbench.targets.gpu.frameworks import ALONE, LAUNCH, PROGRAM, SECONDS
from tui_workbench.targets.hosts.host import ConnectionLost

PROBE_KIND = "probe"

PROBE_SECONDS = 120.0
"""Time limit of a program in an image; the first start from a network disk can take a minute."""

_FRAMEWORKS_SECONDS = 4.0 * SECONDS
"""Time limit of the program that checks frameworks one after another."""

# The names that images use for an engine's architecture.
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}
FORM = 2  # version of the answer's format; cached answers of another version are not used

_INTERPRETERS = (
    "python", "python3", "/opt/conda/bin/python", "/opt/venv/bin/python", "/usr/local/bin/python3", "/usr/bin/python3",
)  # fmt: skip
# Runs in any Python from 2.7 on.
_PROGRAM = r"""
import sys
sys.path[:] = [path for path in sys.path if path]
import json, os, platform
def which(names):
    folders = os.environ.get("PATH", "").split(os.pathsep)
    folders += [os.path.join(os.environ.get(v, "/nowhere"), "bin") for v in ("CONDA_DIR", "MAMBA_ROOT_PREFIX")]
    folders += ["/opt/conda/bin", "/opt/conda/condabin", "/root/miniconda3/bin", "/usr/local/bin", "/bin"]
    for name in names:
        for folder in folders:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return path
    return ""
packages = []
try:
    from importlib.metadata import distributions
    for package in distributions():
        if package.metadata["Name"]:
            packages.append([package.metadata["Name"], package.version, list(package.requires or ())])
except ImportError:
    try:
        import pkg_resources
        packages = [[package.project_name, package.version, []] for package in pkg_resources.working_set]
    except ImportError:
        pass
print("workbench-probe:" + json.dumps({
    "python": sys.executable,
    "version": "%d.%d.%d" % sys.version_info[:3],
    "machine": platform.machine(),
    "libc": list(platform.libc_ver()),
    "conda": which(("micromamba", "mamba", "conda")),
    "uv": which(("uv",)),
    "packages": packages,
}))
"""
_MARK = b"workbench-probe:"
# The usual paths are tried too, because some images set PATH only in an entry point.
_SCRIPT = 'for p in "$@"; do if command -v "$p" >/dev/null 2>&1; then exec "$p" -c "$PROGRAM"; fi; done; exit 127'
_NOT_FOUND = 127


class ImageFacts(NamedTuple):
    """Properties of an image, as its Python reports them in a temporary container."""

    python: str  # absolute path of its interpreter
    version: str  # of the interpreter, for example 3.11.2
    machine: str  # x86_64, aarch64, ...
    libc: tuple[str, str]  # ("glibc", "2.36"), or ("", "") for another C library, usually musl
    conda: str  # absolute path of micromamba, mamba or conda; "" without one
    uv: str  # absolute path of uv; "" without it
    shell: bool  # it has /bin/sh
    packages: tuple[tuple[str, str, tuple[str, ...]], ...]  # name, version, requirements of each distribution


def facts_of(engine: Engine, image: Image, name: str) -> ImageFacts:
    """Return the facts of an image; if they are not cached, run a container of the image.

    Raises ConfigurationError, with the image's `name`, if no Python of the image can be started on the machine.
    """
    # The facts of an image for another architecture, which a machine may emulate, are cached per machine architecture.
    machine = engine.facts().architecture
    ours = _ARCHITECTURES.get(machine, machine)
    is_foreign = bool(image.architecture and ours and image.architecture != ours)
    key = (f"{image.id}-on-{ours}" if is_foreign else image.id).removeprefix("sha256:")
    path = os.path.join(user_cache_directory(), "images", f"{key}-{FORM}.json")
    with contextlib.suppress(OSError, ValueError):
        return read_as(ImageFacts, load_json(path))
    facts, reason = _ask(engine, image)
    if facts is None:
        if is_foreign:
            raise ConfigurationError(
                f"the image {name} is for {image.architecture}, but the machine is {ours}",
                remedy=f"Choose a baseDockerImage for {ours}, or run `docker pull --platform linux/{ours} {name}` "
                "on that machine.",
            )
        remedy = "Choose a baseDockerImage with Python on its PATH, such as python:3.11-slim or pytorch/pytorch."
        raise ConfigurationError(
            f"Python of the image {name} cannot be started: {reason}" if reason else f"the image {name} has no Python",
            remedy=remedy,
        )
    # If the facts cannot be stored, the next call runs a container again.
    with contextlib.suppress(OSError, StorageError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_atomically(path, json.dumps(facts._asdict()).encode())
    return facts


def _ask(engine: Engine, image: Image) -> tuple[ImageFacts | None, str]:
    """Return the facts from the image's Python; without them, None and the reason, "" for an image without Python.

    The image's shell finds Python; without a shell, two names are tried.
    """
    commands = [["/bin/sh", "-c", _SCRIPT, "sh", *_INTERPRETERS]]
    commands += [[name, "-c", _PROGRAM] for name in ("python3", "python")]
    reasons = []
    for number, command in enumerate(commands):
        facts, reason = _run(engine, image, command, shell=number == 0)
        if facts is not None:
            return facts, ""
        reasons.append(reason)
    return None, next(filter(None, reasons), "")


def _run(engine: Engine, image: Image, command: list[str], *, shell: bool) -> tuple[ImageFacts | None, str]:
    """Return the facts from a command; without a valid answer, None and the reason, "" if there is no such program."""
    try:
        text, code = probe(engine, image.id, command, {"PROGRAM": _PROGRAM})
    except EngineRefused as error:
        return None, "" if error.kind in (Refusal.NO_PROGRAM, Refusal.NO_FILE) else error.reason
    _, mark, rest = text.rpartition(_MARK)
    if mark:
        try:
            answer = check_type(Mapping[str, Any], parse_json(rest.split(b"\n")[0]), "")
            return read_as(ImageFacts, {**answer, "shell": shell}), ""
        except ValueError as error:
            return None, f"its answer is invalid: {error}"
    lines = text.decode("utf-8", "replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if "Error" in line), lines[-1].strip())
    return None, last if last or code == _NOT_FOUND else f"it ended with exit code {code}"


def probe(
    engine: Engine,
    image: str,
    command: Sequence[str],
    variables: Mapping[str, str],
    gpus: Mapping[str, Any] | None = None,
    *,
    seconds: float = PROBE_SECONDS,
) -> tuple[bytes, int]:
    """Run a program in a container of an image, without a network; return its output and exit code.

    `gpus` is the part of HostConfig with which the container gets GPUs. Raises EngineRefused, and ConfigurationError if
    the program does not end within `seconds`.
    """
    name = f"workbench-probe-{os.urandom(6).hex()}"
    host: dict[str, Any] = {"NetworkMode": "none", "LogConfig": LOG}
    if gpus is not None:
        host |= {"ShmSize": SHM_BYTES, **gpus}
    configuration = {
        "Image": image,
        "Entrypoint": [],
        "Cmd": list(command),
        "Env": [f"{variable}={value}" for variable, value in variables.items()],
        "Labels": {KIND_LABEL: PROBE_KIND},
        "NetworkDisabled": True,
        "HostConfig": host,
    }
    engine.create(name, configuration)
    try:
        engine.start(name)
        with contextlib.suppress(ConnectionLost):  # the engine, which is asked next, is silent or the time is over
            engine.wait(name, seconds)
        container = engine.container(name)
        if container is not None and not container.has_ended:
            raise ConfigurationError(
                f"a program of the image did not end within {seconds:g} s: {command[0]}",
                remedy="Choose another baseDockerImage, or try again when the machine is less busy.",
            )
        return engine.output(name), (container.exit_code or 0) if container is not None else 0
    finally:
        engine.remove(name)


def find_spark(engine: Engine, spec: RunSpec, image: Image, python: str) -> Spark:
    """Return the Spark installation in an image; its missing parts are empty. The result is cached by image ID."""
    words = find_words(spec, python, "", {})
    name = f"{image.id.removeprefix('sha256:')}-spark-{zlib.crc32(repr(words).encode('utf-8', 'replace')):08x}"
    path = os.path.join(user_cache_directory(), "images", name)
    with contextlib.suppress(OSError, ValueError):
        return parse_found(read_file(path).decode())
    try:
        text = probe(engine, image.id, words, {})[0].decode("utf-8", "replace")
    except EngineRefused:
        return Spark(submit="")  # the image has no shell, and spark-submit is a shell script
    with contextlib.suppress(OSError, StorageError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_atomically(path, text.encode())
    return parse_found(text)


class InImage:
    """The Python of an image, in a temporary container with the GPUs of a run."""

    def __init__(
        self,
        engine: Engine,
        image: Image,
        python: str,
        target: ComputeTarget,
        own: Mapping[str, str],
        access: GpuAccess,
    ) -> None:
        self.name = image.tags[0] if image.tags else target.base_docker_image
        self.variables = own
        self.identity = f"{image.id} {target.gpus}"
        self._engine = engine
        self._image = image
        self._python = python
        self._gpus = access.host_config(target.named_gpus)

    def output(self, which: str) -> bytes:
        command = [self._python, "-c", LAUNCH, PROGRAM, str(SECONDS), which, ALONE]
        variables = {"HOME": "/tmp", **self.variables}
        return probe(self._engine, self._image.id, command, variables, self._gpus, seconds=_FRAMEWORKS_SECONDS)[0]

    def is_unchanged(self, paths: Sequence[tuple[str, int]]) -> bool:
        return True  # nothing in an image changes
