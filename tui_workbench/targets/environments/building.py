"""Making the image of an environment: a container of the base image, packages installed in it, an image made of it.

Not a Dockerfile: what is brought along (the installer, wheels, its cache) is mounted and leaves nothing in the image,
and what only the installation may know (an index with a password in its address) is given to the one process that
needs it. An image gets its name last, so one of that name is complete.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from tui_workbench.core.errors import ConfigurationError, StorageError, WorkbenchError
from tui_workbench.core.model import RunSpec
from tui_workbench.core.waiting import BackgroundCall
from tui_workbench.targets.base.values import Report
from tui_workbench.targets.docker.container import KIND_LABEL, PREFIX, PROJECT_LABEL
from tui_workbench.targets.docker.engine import Engine, Image
from tui_workbench.targets.docker.image_probe import ImageFacts
from tui_workbench.targets.environments.environment import Recipe, report_steps
from tui_workbench.targets.hosts.host_layout import project_key

BUILD_KIND, ENVIRONMENT_KIND = "build", "environment"
RECIPE_LABEL = f"{PREFIX}.recipe"
MACHINE_LABEL = f"{PREFIX}.machine"
TAG_LABEL = f"{PREFIX}.environment"

CACHE_VOLUME = "workbench-tui-cache"
"""A volume and not a folder: root in a container would leave files that the user could not remove."""

CACHE_DIRECTORY = "/workbench/cache"
TOOLS_DIRECTORY = "/workbench/tools"
WHEELS_DIRECTORY = "/workbench/wheels"
CONDA_PREFIX = "/opt/workbench/env"

OLDEST_FOR_UV = (3, 8)
"""Older Pythons get their packages by their own pip."""

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
    """What is brought along, as folders of the engine's host; "" for what is not needed."""

    uv: str = ""  # the folder that holds the program uv
    wheels: tuple[str, ...] = ()  # folders that each hold wheels
    files: Mapping[str, str] = {}  # local wheels and archives of the project: path here, folder there
    offline: bool = False


class Work(NamedTuple):
    """One thing to do in the container."""

    title: str
    argv: tuple[str, ...]
    environment: Mapping[str, str] = {}


class NoRoute(ConfigurationError):
    """The engine's host cannot reach the package index."""


class Builder:
    """Builds one environment on one engine."""

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
        """Of the Python that the packages are for."""

    def refuse_impossible(self) -> None:
        """Raise ConfigurationError, with the line, for packages that the base image has no means to install."""
        if self.needs_conda:
            self._conda_work()

    @property
    def needs_conda(self) -> bool:
        """True when only conda can make it."""
        return self._recipe.needs_conda(self._facts.version)

    def needs_uv(self) -> bool:
        """True when pip packages are installed by uv and the image has none."""
        return bool(self._recipe.pip) and self._takes_uv() and not self._facts.uv

    def has_route(self, inputs: BuildInputs, environment: Mapping[str, str]) -> bool:
        """Whether a container there can reach the package index, as its installer would reach it."""
        # A wheel of the project may need packages of the index.
        package = next((each.text for each in self._recipe.pip if not each.file), "pip")
        with self._container(inputs) as container:
            if self._takes_uv():
                argv = [*self._uv(inputs), "pip", "install", "--dry-run", "--no-deps", "--python", self._facts.python]
                argv += ["--system", "--break-system-packages", *self._recipe.options, package]
            else:
                argv = [self._facts.python, "-m", "pip", "download", "--no-deps", "--dest", "/tmp/workbench", package]
            quick = {**environment, "UV_HTTP_TIMEOUT": "5", "UV_HTTP_RETRIES": "0", "PIP_RETRIES": "0"}
            code, text = self._run(container, Work("", tuple(argv), quick), quiet=True)
        # Whatever else went wrong, the installation itself will say better.
        return code == 0 or not any(words in text for words in _NO_ROUTE)

    def build(self, inputs: BuildInputs, environment: Mapping[str, str]) -> str:
        """Build the image and give it its name; returns its id. `environment` is what the installer may know.

        Raises Interrupted, TargetUnreachable, NoRoute, ConfigurationError (with the line of the package) or
        WorkbenchError.
        """
        works = self._works(inputs, environment)
        begun = time.monotonic()
        with self._container(inputs) as container:
            report_steps(self._report, [(work.title, partial(self._do, container, work)) for work in works])
            moment = time.monotonic()
            image = self._engine.commit(container, self.tag, self._changes())
            self._report.line(f"made the image {self.tag} ({time.monotonic() - moment:.1f} s)")
        self._report.line(f"the environment is built ({time.monotonic() - begun:.1f} s)")
        return image

    def _works(self, inputs: BuildInputs, environment: Mapping[str, str]) -> list[Work]:
        recipe, works, python = self._recipe, [], self._facts.python
        if self.needs_conda:
            works.append(self._conda_work())
            python = f"{CONDA_PREFIX}/bin/python"
        if recipe.pip:
            title = f"install {len(recipe.pip)} package{'s' if len(recipe.pip) > 1 else ''} with "
            if self._takes_uv():
                works.append(Work(f"{title}uv", self._uv_command(inputs, python), environment))
            else:
                works.append(Work(f"{title}pip", self._pip_command(inputs, python), environment))
        return works

    def _conda_work(self) -> Work:
        recipe, conda = self._recipe, self._facts.conda
        if not conda:
            # Only a package or a Python that does not fit needs conda.
            first = next(each for each in (*recipe.conda, recipe.python) if each is not None)
            raise ConfigurationError(
                f"`{first.text}` needs conda, and the image {self._base_name} "
                f"(Python {self._facts.version}) has no conda, mamba or micromamba",
                remedy="Move it under `pip:` with its name on the Python index, or choose an image with conda, such as "
                "continuumio/miniconda3 or mambaorg/micromamba.",
                file=recipe.path,
                line=first.line,
            )
        python = recipe.python.text if recipe.python is not None else f"python={self._facts.version}"
        specs = [python, *(package.text for package in recipe.conda), *(["pip"] if recipe.pip else ())]
        channels = [word for channel in recipe.channels for word in ("--channel", channel)]
        argv = [conda, "create", "--yes", "--quiet", "--prefix", CONDA_PREFIX, *channels, *specs]
        return Work(f"install {len(specs)} conda packages with {os.path.basename(conda)}", tuple(argv))

    def _uv_command(self, inputs: BuildInputs, python: str) -> tuple[str, ...]:
        argv = [*self._uv(inputs), "pip", "install", "--python", python, "--system", "--break-system-packages"]
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

    def _takes_uv(self) -> bool:
        return tuple(map(int, self.version.split(".")[:2])) >= OLDEST_FOR_UV

    def _uv(self, inputs: BuildInputs) -> list[str]:
        return [f"{TOOLS_DIRECTORY}/uv" if inputs.uv else self._facts.uv]

    def _do(self, container: str, work: Work) -> None:
        code, text = self._run(container, work)
        if code:
            raise self._failure(work, code, text)

    def _run(self, container: str, work: Work, *, quiet: bool = False) -> tuple[int, str]:
        """Run a program in the container with its lines reported as they come: exit code and what it wrote."""
        said: list[str] = []
        codes: list[int] = []

        def listen() -> None:
            rest = b""
            stream = self._engine.stream(container, work.argv, user=_ROOT, environment=work.environment)
            for chunk in stream:
                if isinstance(chunk, int):
                    codes.append(chunk)
                    continue
                *lines, rest = (rest + chunk).replace(b"\r\n", b"\n").split(b"\n")
                self._tell([*lines], said, quiet)
            self._tell([rest] if rest else [], said, quiet)

        with BackgroundCall(listen) as listening:
            listening.wait(self._report.interrupted)
        return codes[0], "\n".join(said)

    def _tell(self, lines: Sequence[bytes], said: list[str], quiet: bool) -> None:
        for line in lines:
            text = line.decode("utf-8", "replace").rstrip()
            said.append(text)
            if not quiet:
                self._report.line(f"  {text}")

    def _failure(self, work: Work, code: int, text: str) -> WorkbenchError:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if any("No space left on device" in line for line in lines):
            return StorageError(
                "the disk of the Docker engine is full: the environment cannot be built",
                remedy="`workbench-tui experiment clean` removes what runs left there.",
            )
        said = " ".join(lines[-3:]).rstrip(".") or f"exit code {code}"
        is_unreachable = any(words in text for words in _NO_ROUTE)
        return (NoRoute if is_unreachable else ConfigurationError)(
            f"the environment cannot be built, {work.title} failed: {said}",
            remedy="The whole output is in preparation.log of the run.",
            file=self._recipe.path,
            line=self._recipe.line_named_in(text),
        )

    @contextlib.contextmanager
    def _container(self, inputs: BuildInputs) -> Iterator[str]:
        """A container of the base image that runs until the context ends; root in it may install."""
        name = f"workbench-build-{self.tag.rpartition(':')[2]}-{os.urandom(4).hex()}"
        self._engine.create(name, self._configuration(inputs))
        try:
            self._engine.start(name)
            yield name
        finally:
            self._engine.remove(name)

    def _configuration(self, inputs: BuildInputs) -> dict[str, Any]:
        # By where they are seen: a wheel of the project may be among those that were fetched.
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
            # Python looks for modules in the folder that it stands in; `python -m pip` cannot be told otherwise.
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
        """Dockerfile instructions that make the image the base image with packages, not an installation container."""
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
            path = next((each[5:] for each in base.environment if each.startswith("PATH=")), "/usr/bin:/bin")
            changes.append(f"ENV PATH={_quoted(f'{CONDA_PREFIX}/bin:{path}')}")
            changes.append(f"ENV CONDA_PREFIX={CONDA_PREFIX}")
        changes += [f"ENV {name}={_quoted(value)}" for name, value in recipe.variables.items()]
        return changes


def remove_interrupted_build(engine: Engine, tag: str) -> None:
    """Remove containers that a killed build of this machine left. The caller is the only one who builds `tag`."""
    for container in engine.containers(f"{TAG_LABEL}={tag}"):
        if container.labels.get(MACHINE_LABEL) == project_key(""):
            engine.remove(container.id)


def _inside(folder: str) -> str:
    """Where a folder of wheels is mounted: by its last part, which is a hash."""
    return f"{WHEELS_DIRECTORY}/{os.path.basename(folder)}"


def _quoted(value: str) -> str:
    """A value as a Dockerfile instruction takes it, exactly."""
    for character in ("\\", '"', "$"):
        value = value.replace(character, f"\\{character}")
    return '"' + value.replace("\n", "\\n") + '"'
