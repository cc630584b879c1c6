"""Build the image of an environment: install packages in a container of the base image, and commit the container.

There is no Dockerfile: the installer, wheels and cache are mounted and leave nothing in the image. Secrets, such as an
index with a password in its URL, are passed only to the process that needs them. The image is tagged last, so a tagged
image is complete.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from tui_workbench.core.errors import ConfigurationError, WorkbenchError
from tui_workbench.core.model import RunSpec
from tui_workbench.core.plaintext import counted
from tui_workbench.core.waiting import BackgroundCall
from tui_workbench.targets.docker.container import KIND_LABEL, PREFIX, PROJECT_LABEL
from tui_workbench.targets.docker.engine import Engine, refused
from tui_workbench.targets.docker.engine_answers import Image
from tui_workbench.targets.docker.image_probe import ImageFacts
from tui_workbench.targets.environments.environment import Recipe, report_steps
from tui_workbench.targets.hosts.host_layout import project_key
from tui_workbench.targets.values import Report

BUILD_KIND, ENVIRONMENT_KIND = "build", "environment"
RECIPE_LABEL = f"{PREFIX}.recipe"
MACHINE_LABEL = f"{PREFIX}.machine"
TAG_LABEL = f"{PREFIX}.environment"

# The cache is a volume, because the user could not remove root's files in a folder.
CACHE_VOLUME = "workbench-tui-cache"
CACHE_DIRECTORY = "/workbench/cache"
TOOLS_DIRECTORY = "/workbench/tools"
WHEELS_DIRECTORY = "/workbench/wheels"
CONDA_PREFIX = "/opt/workbench/env"

OLDEST_FOR_UV = (3, 8)  # older Python versions use pip
_ROOT = "0:0"
_IDLE = "import sys; sys.path[:] = [each for each in sys.path if each]; import signal; signal.pause()"
_NO_ROUTE = (
    "Failed to fetch",
    "error sending request",
    "dns error",
    "operation timed out",
    "NewConnectionError",
    "ConnectTimeoutError",
    "CERTIFICATE_VERIFY_FAILED",
    "invalid peer certificate",
    "Temporary failure in name resolution",
)


class BuildInputs(NamedTuple):
    """The files that a build needs, as folders on the engine's host."""

    uv: str = ""  # the folder with the program uv; "" if the image has uv or the build does not need it
    wheels: tuple[str, ...] = ()
    files: Mapping[str, str] = {}  # for each wheel or archive of the project, its folder on the host
    offline: bool = False


class BuildStep(NamedTuple):
    """A program to run in the container."""

    title: str
    argv: tuple[str, ...]
    environment: Mapping[str, str] = {}


class NoRoute(ConfigurationError):
    """The engine's host cannot reach the package index."""


class Builder:
    """The build of an environment's image on an engine."""

    def __init__(
        self, engine: Engine, recipe: Recipe, base: Image, facts: ImageFacts, spec: RunSpec, report: Report
    ) -> None:
        self._engine = engine
        self._recipe = recipe
        self._base = base
        self._facts = facts
        self._base_name = spec.target.base_docker_image
        self._project = spec.project_name
        self._report = report
        self.tag = recipe.tag(base.id)
        self.version = recipe.python_made(facts.version)
        """The version of the Python in the environment."""

    def refuse_impossible(self) -> None:
        """Raise ConfigurationError, with the line number, for packages that the base image cannot install."""
        if self.needs_conda:
            self._conda_step()

    @property
    def needs_conda(self) -> bool:
        return self._recipe.needs_conda(self._facts.version)

    def needs_uv(self) -> bool:
        """Return True if the pip packages are installed with uv, which the image does not have."""
        return bool(self._recipe.pip) and self._uses_uv() and not self._facts.uv

    def has_route(self, inputs: BuildInputs, environment: Mapping[str, str]) -> bool:
        """Return False if the installer in a container fails because it cannot reach the package index."""
        # A wheel of the project may need packages of the index too.
        requirement = next((package.text for package in self._recipe.pip if not package.file), "pip")
        with self._container(inputs) as container:
            if self._uses_uv():
                argv = [self._uv(inputs), "pip", "install", "--dry-run", "--no-deps", "--python", self._facts.python]
                argv += ["--system", "--break-system-packages", *self._recipe.options, requirement]
            else:
                argv = [self._facts.python, "-m", "pip", "download", "--no-deps", "--dest", "/tmp/workbench"]
                argv.append(requirement)
            quick = {**environment, "UV_HTTP_TIMEOUT": "5", "UV_HTTP_RETRIES": "0", "PIP_RETRIES": "0"}
            code, text = self._run(container, BuildStep("", tuple(argv), quick), quiet=True)
        # The installation explains other errors better.
        return code == 0 or not any(words in text for words in _NO_ROUTE)

    def build(self, inputs: BuildInputs, environment: Mapping[str, str]) -> str:
        """Build and tag the image, and return its ID. `environment` holds variables of the installer.

        Raises Interrupted, TargetUnreachable, NoRoute, ConfigurationError (with the line of the package) or
        WorkbenchError.
        """
        steps = self._steps(inputs, environment)
        begun = time.monotonic()
        with self._container(inputs) as container:
            report_steps(self._report, [(step.title, partial(self._run_step, container, step)) for step in steps])
            moment = time.monotonic()
            image = self._engine.commit(container, self.tag, self._changes())
            self._report.line(f"created the image {self.tag} ({time.monotonic() - moment:.1f} s)")
        self._report.line(f"the environment is built ({time.monotonic() - begun:.1f} s)")
        return image

    def _steps(self, inputs: BuildInputs, environment: Mapping[str, str]) -> list[BuildStep]:
        recipe, steps, python = self._recipe, [], self._facts.python
        if self.needs_conda:
            steps.append(self._conda_step())
            python = f"{CONDA_PREFIX}/bin/python"
        if recipe.pip:
            installer, command = ("uv", self._uv_command) if self._uses_uv() else ("pip", self._pip_command)
            title = f"install {counted(len(recipe.pip), 'package')} with {installer}"
            steps.append(BuildStep(title, command(inputs, python), environment))
        return steps

    def _conda_step(self) -> BuildStep:
        recipe, conda = self._recipe, self._facts.conda
        if not conda:
            # Only conda packages and another Python version need conda.
            first = next(package for package in (*recipe.conda, recipe.python) if package is not None)
            conda_image = "an image with conda, such as continuumio/miniconda3 or mambaorg/micromamba"
            raise ConfigurationError(
                f"`{first.text}` needs conda, but the image {self._base_name} "
                f"(Python {self._facts.version}) has no conda, mamba or micromamba",
                remedy=f"Choose a baseDockerImage whose Python matches `{first.text}`, or {conda_image}."
                if first is recipe.python
                else f"List the package under `pip:` by its name on PyPI, or choose {conda_image}.",
                file=recipe.path,
                line=first.line,
            )
        python = recipe.python.text if recipe.python is not None else f"python={self._facts.version}"
        specs = [python, *(package.text for package in recipe.conda), *(["pip"] if recipe.pip else ())]
        channels = [word for channel in recipe.channels for word in ("--channel", channel)]
        argv = [conda, "create", "--yes", "--quiet", "--prefix", CONDA_PREFIX, *channels, *specs]
        title = f"install {counted(len(specs), 'conda package')} with {os.path.basename(conda)}"
        return BuildStep(title, tuple(argv))

    def _uv_command(self, inputs: BuildInputs, python: str) -> tuple[str, ...]:
        argv = [self._uv(inputs), "pip", "install", "--python", python, "--system", "--break-system-packages"]
        argv += ["--link-mode", "copy", "--compile-bytecode", "--no-progress", "--color", "never"]
        argv += ["--cache-dir", CACHE_DIRECTORY]
        if inputs.offline:
            argv += ["--offline", *self._from_wheels(inputs)]
        else:
            argv += self._recipe.options
        return (*argv, *self._packages(inputs))

    def _pip_command(self, inputs: BuildInputs, python: str) -> tuple[str, ...]:
        argv = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
        argv += self._from_wheels(inputs) if inputs.offline else self._recipe.options
        return (*argv, *self._packages(inputs))

    def _from_wheels(self, inputs: BuildInputs) -> list[str]:
        folders = [_inside(folder) for folder in inputs.wheels]
        return ["--no-index", *(word for folder in folders for word in ("--find-links", folder))]

    def _packages(self, inputs: BuildInputs) -> list[str]:
        return [
            f"{_inside(inputs.files[package.file])}/{os.path.basename(package.file)}" if package.file else package.text
            for package in self._recipe.pip
        ]

    def _uses_uv(self) -> bool:
        return tuple(map(int, self.version.split(".")[:2])) >= OLDEST_FOR_UV

    def _uv(self, inputs: BuildInputs) -> str:
        return f"{TOOLS_DIRECTORY}/uv" if inputs.uv else self._facts.uv

    def _run_step(self, container: str, step: BuildStep) -> None:
        code, text = self._run(container, step)
        if code:
            raise self._failure(step, code, text)

    def _run(self, container: str, step: BuildStep, *, quiet: bool = False) -> tuple[int, str]:
        """Run a program in the container and report its lines. Return the exit code and the output."""
        output: list[str] = []
        codes: list[int] = []

        def add(line: bytes) -> None:
            output.append(line.decode("utf-8", "replace").rstrip())
            if not quiet:
                self._report.line(f"  {output[-1]}")

        def read() -> None:
            rest = b""
            for chunk in self._engine.stream(container, step.argv, user=_ROOT, environment=step.environment):
                if isinstance(chunk, int):
                    codes.append(chunk)
                    continue
                *lines, rest = (rest + chunk).replace(b"\r\n", b"\n").split(b"\n")
                for line in lines:
                    add(line)
            if rest:
                add(rest)

        with BackgroundCall(read) as reading:
            reading.wait(self._report.interrupted)
        return codes[0], "\n".join(output)

    def _failure(self, step: BuildStep, code: int, text: str) -> WorkbenchError:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if "no space left on device" in text.lower():
            return refused(self._engine.label, "build the environment", text)
        summary = " ".join(lines[-3:]).rstrip(".") or f"exit code {code}"
        is_unreachable = any(message in text for message in _NO_ROUTE)
        return (NoRoute if is_unreachable else ConfigurationError)(
            f"cannot build the environment, because the step '{step.title}' failed: {summary}",
            remedy="Correct the packages, or check the connection to the package index. The whole output is in the "
            "file preparation.log of a run that needed the environment.",
            file=self._recipe.path,
            line=self._recipe.line_named_in(text),
        )

    @contextlib.contextmanager
    def _container(self, inputs: BuildInputs) -> Iterator[str]:
        """Run a container of the base image, in which root can install packages, and remove it at the end."""
        name = f"workbench-build-{self.tag.rpartition(':')[2]}-{os.urandom(4).hex()}"
        self._engine.create(name, self._configuration(inputs))
        try:
            self._engine.start(name)
            yield name
        finally:
            self._engine.remove(name)

    def _configuration(self, inputs: BuildInputs) -> dict[str, Any]:
        # Keyed by mount point, because a wheel of the project may also be among the downloaded wheels.
        mounts = {_inside(folder): folder for folder in (*inputs.wheels, *inputs.files.values())}
        if inputs.uv:
            mounts[TOOLS_DIRECTORY] = inputs.uv
        labels = {KIND_LABEL: BUILD_KIND, TAG_LABEL: self.tag, MACHINE_LABEL: project_key("")}
        volume = {"Type": "volume", "Source": CACHE_VOLUME, "Target": CACHE_DIRECTORY}
        volume["VolumeOptions"] = {"Labels": {KIND_LABEL: "cache"}}  # type: ignore[assignment]
        return {
            "Image": self._base.id,
            "Entrypoint": [],
            "Cmd": [self._facts.python, "-c", _IDLE],
            "User": _ROOT,
            # `python -m pip` imports modules from the current folder.
            "WorkingDir": "/",
            "Labels": labels,
            "HostConfig": {
                "NetworkMode": "none" if inputs.offline else "default",
                "Mounts": [
                    *({"Type": "bind", "Source": b, "Target": a, "ReadOnly": True} for a, b in mounts.items()),
                    volume,
                ],
            },
        }

    def _changes(self) -> list[str]:
        """Return Dockerfile instructions that set labels and variables, and restore the settings of the base image."""
        base, recipe = self._base, self._recipe
        labels = {
            KIND_LABEL: ENVIRONMENT_KIND,
            RECIPE_LABEL: json.dumps(recipe.lines(self._base_name, base.id)),
            TAG_LABEL: self.tag,
            PROJECT_LABEL: self._project,
            MACHINE_LABEL: "",
        }
        changes = [f"LABEL {name}={_quoted(value)}" for name, value in labels.items()]
        changes.append(f"CMD {json.dumps(list(base.command))}")
        changes.append(f"ENTRYPOINT {json.dumps(list(base.entrypoint))}")
        changes.append(f"USER {base.user or '0'}")
        if self.needs_conda:
            paths = (variable.removeprefix("PATH=") for variable in base.environment if variable.startswith("PATH="))
            path = next(paths, "/usr/bin:/bin")
            changes.append(f"ENV PATH={_quoted(f'{CONDA_PREFIX}/bin:{path}')}")
            changes.append(f"ENV CONDA_PREFIX={CONDA_PREFIX}")
        changes += [f"ENV {name}={_quoted(value)}" for name, value in recipe.variables.items()]
        return changes


def remove_interrupted_build(engine: Engine, tag: str) -> None:
    """Remove the containers of an interrupted build that this machine started. The caller holds the lock for `tag`."""
    for container in engine.containers(f"{TAG_LABEL}={tag}"):
        if container.labels.get(MACHINE_LABEL) == project_key(""):
            engine.remove(container.id)


def _inside(folder: str) -> str:
    """Return the mount point of a folder of wheels. The folder's name is a hash, so mount points are unique."""
    return f"{WHEELS_DIRECTORY}/{os.path.basename(folder)}"


def _quoted(value: str) -> str:
    for character in ("\\", '"', "$"):
        value = value.replace(character, f"\\{character}")
    return '"' + value.replace("\n", "\\n") + '"'
