"""Values in the answers of a Docker engine, which are not trusted: each has the type that its caller expects.

The functions raise ValueError, TypeError, KeyError or AttributeError for an answer that is not that of an engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tui_workbench.core.json_values import check_type


class EngineFacts(NamedTuple):
    """Properties of an engine."""

    version: str
    os_type: str  # linux, or windows for Windows containers
    architecture: str  # x86_64, aarch64, ...
    rootless: bool  # root in a container is the user who runs the engine
    runtimes: tuple[str, ...]
    root: str  # the engine's data directory, on its host


class Image(NamedTuple):
    """An image on the engine."""

    id: str
    labels: Mapping[str, str]
    environment: tuple[str, ...]  # NAME=value
    command: tuple[str, ...]
    entrypoint: tuple[str, ...]
    user: str
    architecture: str
    tags: tuple[str, ...] = ()
    own_size: int = -1  # bytes of its last layer; -1 if it is not known


class Container(NamedTuple):
    """A container on the engine. Times are in the engine's format, ISO 8601 in UTC, or "" for never."""

    id: str
    name: str
    state: str  # created, running, paused, restarting, removing, exited or dead
    labels: Mapping[str, str]
    image: str  # the image's ID
    exit_code: int | None  # None until it has ended
    out_of_memory: bool
    error: str  # the engine's message if it could not be started
    started_at: str
    finished_at: str = ""
    address: str = ""  # the IP address at which the host reaches the container; "" if it has no address

    @property
    def has_ended(self) -> bool:
        return self.state in ("exited", "dead")


def facts_from(answer: Any) -> EngineFacts:
    """Return the properties of an engine."""
    return EngineFacts(
        version=value(answer, "ServerVersion", str, ""),
        os_type=value(answer, "OSType", str, "linux"),
        architecture=value(answer, "Architecture", str, ""),
        rootless=any("name=rootless" in option for option in value(answer, "SecurityOptions", tuple[str, ...], ())),
        runtimes=tuple(value(answer, "Runtimes", Mapping[str, Any], {})),
        root=value(answer, "DockerRootDir", str, ""),
    )


def image_from(answer: Any) -> Image:
    """Return an image."""
    config = value(answer, "Config", Mapping[str, Any], {})
    return Image(
        id=value(answer, "Id", str),
        labels=value(config, "Labels", Mapping[str, str], {}),
        environment=value(config, "Env", tuple[str, ...], ()),
        command=value(config, "Cmd", tuple[str, ...], ()),
        entrypoint=value(config, "Entrypoint", tuple[str, ...], ()),
        user=value(config, "User", str, ""),
        architecture=value(answer, "Architecture", str, ""),
        tags=value(answer, "RepoTags", tuple[str, ...], ()),
    )


def container_from(answer: Any) -> Container:
    """Return a container."""
    state = value(answer, "State", Mapping[str, Any])
    status = value(state, "Status", str, "")
    started, finished = (value(state, key, str, "") for key in ("StartedAt", "FinishedAt"))
    networks = value(value(answer, "NetworkSettings", Mapping[str, Any], {}), "Networks", Mapping[str, Any], {})
    addresses = [value(network, "IPAddress", str, "") for network in networks.values() if network is not None]
    return Container(
        id=value(answer, "Id", str),
        name=value(answer, "Name", str).lstrip("/"),
        state=status,
        labels=value(value(answer, "Config", Mapping[str, Any]), "Labels", Mapping[str, str], {}),
        image=value(answer, "Image", str, ""),
        exit_code=value(state, "ExitCode", int) if status in ("exited", "dead") else None,
        out_of_memory=value(state, "OOMKilled", bool, False),
        error=value(state, "Error", str, ""),
        started_at="" if started.startswith("0001-") else started,
        finished_at="" if finished.startswith("0001-") else finished,
        address=next(filter(None, addresses), ""),
    )


def objects(answer: Any) -> tuple[Mapping[str, Any], ...]:
    """Return the objects of a list; none for null."""
    listed: tuple[Mapping[str, Any], ...] = check_type(tuple[Mapping[str, Any], ...] | None, answer, "") or ()
    return listed


def value(answer: Any, name: str, kind: Any, *missing: Any) -> Any:
    """Return a value of an object as type `kind`; see `check_type`. `missing` is the value for none or null.

    Raises ValueError for another type, and for a value that is missing.
    """
    field = check_type(Mapping[str, Any], answer, "").get(name)
    return missing[0] if missing and field is None else check_type(kind, field, name)
