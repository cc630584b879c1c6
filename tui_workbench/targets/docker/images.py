"""The image of a run: the base image, or an environment that is built on it.

An environment is found by a tag that its recipe determines, so all runs with the same packages on the same base image
share one image.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from tui_workbench.core.directories import user_cache_directory
from tui_workbench.core.errors import ConfigurationError, NotPrepared, WorkbenchError
from tui_workbench.core.files import read_file, replacing
from tui_workbench.core.json_values import check_type, parse_json
from tui_workbench.core.locks import cache_lock, file_name
from tui_workbench.core.model import RunSpec
from tui_workbench.core.progress import BYTES, meter
from tui_workbench.core.waiting import BackgroundCall
from tui_workbench.projects.project import line_of_key
from tui_workbench.targets.docker import building
from tui_workbench.targets.docker.building import ENVIRONMENT_KIND, RECIPE_LABEL, Builder, BuildInputs
from tui_workbench.targets.docker.container import KIND_LABEL
from tui_workbench.targets.docker.engine import Engine, EngineRefused
from tui_workbench.targets.docker.engine_answers import Image
from tui_workbench.targets.docker.image_probe import ImageFacts, facts_of
from tui_workbench.targets.docker.wheels import Stores
from tui_workbench.targets.environments import environment
from tui_workbench.targets.environments.uv import index_environment
from tui_workbench.targets.hosts.host import Host
from tui_workbench.targets.values import Report

ROUTE_SECONDS = 24 * 3600.0
_REMOVED = "Stop the program that removes images, for example `docker image prune`, then try again."
_PROGRESS_WORDS = (
    "Downloading", "Extracting", "Waiting", "Verifying Checksum", "Download complete", "Pulling fs layer"
)  # fmt: skip


class Choice(NamedTuple):
    """The image of a run; `image` is None if it must be built or pulled first, and `reason` says why."""

    name: str
    image: Image | None
    reason: str = ""


class _Layers:
    """The progress of pulling an image's layers, in bytes."""

    def __init__(self) -> None:
        self._layers: dict[str, tuple[int, int]] = {}

    def add(self, message: Mapping[str, Any]) -> tuple[int, int]:
        """Add a message of the engine; return the downloaded bytes and the total bytes, as far as known."""
        layer, detail = str(message.get("id", "")), message.get("progressDetail") or {}
        if message.get("status") == "Downloading" and detail.get("total"):
            self._layers[layer] = (int(detail.get("current", 0)), int(detail["total"]))
        elif message.get("status") == "Download complete" and layer in self._layers:
            self._layers[layer] = (self._layers[layer][1],) * 2
        return sum(done for done, _ in self._layers.values()), sum(total for _, total in self._layers.values())


class Images:
    """The images of one run on one engine."""

    def __init__(self, host: Host, engine: Engine, spec: RunSpec) -> None:
        self._host = host
        self._engine = engine
        self._spec = spec
        self._name = spec.target.base_docker_image
        self._recipe = environment.recipe_of(spec)

    def choose(self) -> Choice:
        """Return the image that the run would use now. Pulls and builds nothing."""
        base = self._engine.image(self._name)
        if base is None:
            return Choice(self._name, None, f"not on {self._host.label} yet")
        if self._recipe.is_met_by(self.facts(base).version):
            return Choice(self._name, base)
        tag = self._recipe.tag(base.id)
        image = self._engine.image(tag)
        return Choice(tag, image, "" if image is not None else self._cause(base))

    def describe(self, choice: Choice) -> str:
        """Return the title of the step that provides the image. Raises ConfigurationError if it cannot be built."""
        if choice.image is not None:
            return f"use {choice.name} (already on {self._host.label})"
        if choice.name == self._name:
            return f"pull {choice.name}: {choice.reason}"
        base = self._engine.image(self._name)
        if base is not None:
            if not self._spec.run_configuration.prepare_environment:
                raise self._not_prepared(base)
            Builder(self._engine, self._recipe, base, self.facts(base), self._spec, Report()).refuse_impossible()
        return f"build {choice.name} on {self._name}: {choice.reason}"

    def provide(self, report: Report, *, build: bool) -> tuple[Image, ImageFacts]:
        """Pull or build the image of the run if needed, and return it with its facts.

        Raises NotPrepared if the image must be built and `build` is false. Also raises Interrupted and WorkbenchError.
        """
        base = self._engine.image(self._name) or self._pull(report)
        facts = self.facts(base)
        if self._recipe.is_met_by(facts.version):
            return base, facts
        tag = self._recipe.tag(base.id)
        image = self._engine.image(tag)
        if image is None:
            if not build:
                raise self._not_prepared(base)
            image = self._build(base, facts, tag, report)
        return image, facts_of(self._engine, image, tag)

    def facts(self, image: Image) -> ImageFacts:
        return facts_of(self._engine, image, self._name)

    def _cause(self, base: Image) -> str:
        lines = self._recipe.lines(self._name, base.id)
        earlier = []
        for image in self._engine.images(f"{KIND_LABEL}={ENVIRONMENT_KIND}"):
            with contextlib.suppress(ValueError):
                earlier.append(list(check_type(tuple[str, ...], parse_json(image.labels.get(RECIPE_LABEL, "")), "")))
        return environment.cause(self._recipe, lines, environment.closest(lines, earlier))

    def _not_prepared(self, base: Image) -> NotPrepared:
        return environment.not_prepared(self._spec, self._cause(base), self._host.label)

    def _pull(self, report: Report) -> Image:
        report.begin("pull", f"pull the image {self._name}")

        layers = _Layers()

        def listen() -> None:
            for message in self._engine.pull(self._name):
                pulling.update(*layers.add(message))
                status = str(message.get("status", ""))
                if status and not status.startswith(_PROGRESS_WORDS):
                    part = f"{message['id']}: " if "id" in message else ""
                    report.line(f"  {part}{status}")

        try:
            with meter("fetching", BYTES) as pulling, BackgroundCall(listen) as listening:
                listening.wait(report.interrupted)
        except EngineRefused as refused:
            raise ConfigurationError(
                f"the image {self._name} is not on {self._host.label} and cannot be pulled: {refused.reason}",
                remedy="Correct baseDockerImage, run `docker login` on this machine, or run `docker load` on the "
                "engine's machine.",
                file=self._spec.target.path,
                line=line_of_key(self._spec.target.path, "baseDockerImage"),
            ) from refused
        image = self._engine.image(self._name)
        if image is None:
            raise WorkbenchError(f"the image {self._name} was removed after it was pulled", remedy=_REMOVED)
        report.done("pull", image=image.id)
        return image

    def _build(self, base: Image, facts: ImageFacts, tag: str, report: Report) -> Image:
        """Build the environment, or wait for another process on this machine that builds it."""
        report.begin("build", f"build the environment {tag}: {self._cause(base)}")
        with cache_lock(build_lock(self._host, tag), report.interrupted):
            # Another process may have built the image while this one waited for the lock.
            image = self._engine.image(tag)
            if image is None:
                # No process of this machine builds it now, so a build container is left from a process that was killed.
                building.remove_interrupted_build(self._engine, tag)
                self._build_now(base, facts, report)
                image = self._engine.image(tag)
        if image is None:
            raise WorkbenchError(f"the environment {tag} was removed after it was built", remedy=_REMOVED)
        report.done("build", image=image.id)
        return image

    def _build_now(self, base: Image, facts: ImageFacts, report: Report) -> None:
        builder = Builder(self._engine, self._recipe, base, facts, self._spec, report)
        builder.refuse_impossible()
        stores = Stores(self._host, report)
        inputs = BuildInputs(
            uv=stores.uv(facts) if builder.needs_uv() else "", files=stores.project_files(self._recipe)
        )
        variables = {
            name: value
            for name, value in index_environment(os.environ).items()
            if name in ("UV_DEFAULT_INDEX", "UV_INDEX", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL")
        }
        path = os.path.join(user_cache_directory(), "routes", file_name(self._host.label))
        is_open = _known_route(path)
        if self._recipe.pip and is_open is None:
            is_open = builder.has_route(inputs, variables)
            _keep_route(path, is_open=is_open)
        if not self._recipe.pip or is_open:
            try:
                builder.build(inputs, variables)
                return
            except building.NoRoute:
                # The stored result is up to ROUTE_SECONDS old.
                if not self._recipe.pip:
                    raise
                _keep_route(path, is_open=False)
        report.line(
            f"containers on {self._host.label} cannot reach the package index; the workbench sends them the packages"
        )
        # The conda environment has no packages yet, and may have another Python version.
        built = facts._replace(version=builder.version, packages=()) if builder.needs_conda else facts
        builder.build(inputs._replace(offline=True, wheels=stores.wheels(self._recipe, built)), variables)


def build_lock(host: Host, tag: str) -> str:
    """Return the name of the cache lock that a process holds while it builds an environment."""
    return f"{host.label}-{tag}"


def _known_route(path: str) -> bool | None:
    """Return True if the last attempt to reach the package index succeeded; None if no recent attempt is known."""
    with contextlib.suppress(OSError):
        if time.time() - os.stat(path).st_mtime <= ROUTE_SECONDS:
            return read_file(path) == b"open"
    return None


def _keep_route(path: str, *, is_open: bool) -> None:
    # If the result cannot be stored, the next build tries again.
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with replacing(path) as file:
            file.write(b"open" if is_open else b"closed")
