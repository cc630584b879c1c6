"""Typed calls to a Docker engine. Only this module and `engine_client` use the `docker` package.

Calls block and are thread-safe; each opens a new connection. A failure raises TargetUnreachable if the engine does not
answer, or EngineRefused with the engine's message and HTTP status.

The package is loaded when an engine is used, because loading it takes longer than creating a container.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import IO, Any, TypeVar
from urllib.parse import quote

from tui_workbench.core import trace
from tui_workbench.core.errors import TargetUnreachable, WorkbenchError
from tui_workbench.targets.docker.answer_limits import MOST_ANSWER, Stream
from tui_workbench.targets.docker.create_command import create_words
from tui_workbench.targets.docker.docker_socket import SYSTEM_SOCKET
from tui_workbench.targets.docker.engine_answers import (
    Container,
    EngineFacts,
    Image,
    container_from,
    facts_from,
    image_from,
    objects,
    value,
)
from tui_workbench.targets.hosts.host import ConnectionLost

# Time limit in seconds of calls that only look.
LOOK_TIMEOUT = 20.0
# Time limit in seconds of calls that do not wait for a container; creating a container on a busy disk can take 20 s.
TIMEOUT = 60.0
CREATION_POLL_SECONDS = 0.02

NOT_FOUND, CONFLICT = 404, 409

MOST_REASON = 2000
"""Maximum length of a message of an engine. Its cause can be at its end, behind the output of a program."""

NOT_THERE = "not found"  # the result of a call for a missing object, in the trace of calls
_CHUNK = 1 << 18
_PART_SIZE = 64  # bytes that a part of an output needs besides its data; an engine can send empty parts without end
_Part = TypeVar("_Part", bytes, bytes | int)

# Errors that the package raises for an answer that is not an engine's JSON.
_INVALID_ANSWER = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


class Refusal(Enum):
    """Why the engine refused a call, according to its message."""

    DISK_FULL = "no space left on device"
    NAME_IN_USE = "is already in use"
    NO_NVIDIA_RUNTIME = "could not select device driver"
    NO_AMD_DEVICES = "error gathering device information"
    NVIDIA_RUNTIME = "nvidia-container-cli"
    NO_PROGRAM = "executable file .*not found"
    NO_FILE = "no such file or directory"
    NO_SOURCE = "bind source path does not exist"
    OTHER = ""

    @classmethod
    def of(cls, reason: str) -> Refusal:
        """Return the first kind whose pattern is in a message of Docker, Podman, runc or crun."""
        return next(kind for kind in cls if re.search(kind.value, reason, re.IGNORECASE))


class EngineRefused(WorkbenchError):
    """The engine refused a call; `status` is the HTTP status, and `reason` the engine's message."""

    def __init__(self, message: str, *, status: int = 0, reason: str = "", remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.status = status
        self.reason = reason or message
        self.kind = Refusal.of(self.reason)


class Engine:
    """The engine behind the Unix socket `path` on this machine; `label` names its host in errors.

    Raises TargetUnreachable if it does not answer, and ConfigurationError if Docker's configuration file is invalid.
    """

    def __init__(self, path: str, label: str, login: str = "") -> None:
        """`login` holds the arguments of `ssh` for the engine's host, for the trace; "" for this machine."""
        self.label = label
        self._login = login
        self._docker = ("docker",) if login or path == SYSTEM_SOCKET else ("docker", "-H", f"unix://{path}")
        with self._called("connect", "version"):
            clients = _clients()
            refuse = functools.partial(refused, label, "answer")
            version = clients.find_version(path, LOOK_TIMEOUT, refuse)
            self._looking = clients.new_client(path, version, LOOK_TIMEOUT, refuse)
            self._api = clients.new_client(path, version, TIMEOUT, refuse)
            # For calls without a time limit: copying, installing and waiting.
            self._patient = clients.new_client(path, version, None, refuse)

    def facts(self) -> EngineFacts:
        with self._called("report its properties", "info"):
            return facts_from(self._looking.info())

    def is_podman(self) -> bool:
        """Return True for podman, which has the same API and other version numbers."""
        with self._called("report its version", "version"):
            parts = objects(value(self._looking.version(), "Components", Any, None))
            return "Podman Engine" in [value(part, "Name", str, "") for part in parts]

    def started_at(self) -> str:
        """Return the time of the engine's start in ISO 8601; "" if it is not known.

        This is the creation time of the default network, which the engine creates at each start.
        """
        with self._sought("inspect the network", "network", "inspect", "bridge"):
            return str(value(self._looking.inspect_network("bridge"), "Created", str, ""))
        return ""

    def image(self, name: str) -> Image | None:
        if {"", ".", ".."} & set(name.split("/")):
            return None  # such a name would change the path of the URL
        with self._sought(f"inspect the image {name}", "image", "inspect", name):
            return image_from(self._looking.inspect_image(name))
        return None

    def images(self, label: str) -> list[Image]:
        """Return the images with a label, `name` or `name=value`, the newest first."""
        with self._called("list images", "images", "--filter", f"label={label}"):
            listed = objects(self._looking.images(filters={"label": label}))
            newest_first = sorted(listed, key=lambda image: -value(image, "Created", int, 0))
            names = [value(image, "Id", str) for image in newest_first]
        images = [image for image in map(self.image, names) if image is not None]
        return [image._replace(own_size=self._own_size(image.id)) for image in images]

    def _own_size(self, image: str) -> int:
        with self._called("read the history of the image", "history", image):
            layers = objects(self._looking.history(image))
            return int(value(layers[0], "Size", int, -1)) if layers else -1

    def pull(self, name: str) -> Iterator[Mapping[str, Any]]:
        """Pull an image with the credentials of `docker login` on this machine.

        Yields the engine's messages (`status`, `id`, `progressDetail`). Raises EngineRefused.
        """
        # Without a tag the engine would pull all tags.
        reference = name if ":" in name.rpartition("/")[2] or "@" in name else f"{name}:latest"
        with self._called(f"pull {name}", "pull", reference, log_start=True):
            request = _clients().pull_request(self._patient, reference)
            with self._opened("POST", "/images/create", timeout=None, **request) as answer:
                for message in answer.messages():
                    if "error" in message:
                        raise EngineRefused(_shortened(str(message["error"])))
                    yield message

    def has_volume(self, name: str) -> bool:
        with self._sought(f"inspect the volume {name}", "volume", "inspect", name):
            self._looking.inspect_volume(name)
            return True
        return False

    def remove_volume(self, name: str) -> None:
        with self._sought(f"remove the volume {name}", "volume", "rm", name):
            self._api.remove_volume(name)

    def remove_image(self, image: str) -> None:
        with self._sought(f"remove the image {image}", "rmi", image):
            self._api.remove_image(image)

    def create(self, name: str, config: Mapping[str, Any]) -> None:
        """Create a container from a configuration in the format of the Engine API, unless the name is in use."""
        try:
            with self._called("create the container", *create_words(name, config)):
                self._api.create_container_from_config(dict(config), name)
        except EngineRefused as refusal:
            if refusal.status != CONFLICT or refusal.kind != Refusal.NAME_IN_USE:
                raise
            # Another process may still be creating the container: the name is in use before it can be inspected.
            deadline = time.monotonic() + TIMEOUT
            while self.container(name) is None:
                if time.monotonic() > deadline:
                    raise
                time.sleep(CREATION_POLL_SECONDS)

    def start(self, container: str) -> None:
        """Start a created container. A running container is not affected; an ended container would run again."""
        with self._called("start the container", "start", container):
            self._api.start(container)

    def container(self, name: str) -> Container | None:
        with self._sought(f"inspect the container {name}", "inspect", name):
            return container_from(self._looking.inspect_container(name))
        return None

    def containers(self, label: str) -> list[Container]:
        """Return all containers, running or not, with a label, `name` or `name=value`."""
        with self._called("list containers", "ps", "--all", "--filter", f"label={label}"):
            listed = objects(self._looking.containers(all=True, filters={"label": label}))
            names = [value(entry, "Id", str) for entry in listed]
        return [container for container in map(self.container, names) if container is not None]

    def states(self, label: str) -> dict[str, str]:
        """Return the states of all containers with a label by name, with one request."""
        with self._called("list containers", "ps", "--all", "--filter", f"label={label}"):
            listed = objects(self._looking.containers(all=True, filters={"label": label}))
            return {
                name.lstrip("/"): value(entry, "State", str)
                for entry in listed
                for name in value(entry, "Names", tuple[str, ...], ())
            }

    def ends(self, label: str) -> Stream:
        """Return the events of containers with a label that end or are removed from now on; see `EngineEvents`.

        The stream must be used within `translated`.
        """
        filters = {"type": ["container"], "event": ["die", "destroy"], "label": [label]}
        words = [word for name, values in filters.items() for text in values for word in ("--filter", f"{name}={text}")]
        with self._called("report events", "events", *words, log_start=True):
            return self._opened("GET", "/events", params={"filters": json.dumps(filters)})

    def wait(self, container: str, seconds: float | None = None) -> None:
        """Wait until a container has ended. Raises ConnectionLost if it has not ended after `seconds`."""
        with self._sought("wait for the container", "wait", container, log_start=True):
            self._patient.wait(container, timeout=seconds)

    def kill(self, container: str, signal: str = "SIGKILL") -> None:
        """Send a signal to the container's first process, if the container is running."""
        with self._called("signal the container", "kill", "--signal", signal, container), _unless_gone():
            self._api.kill(container, signal)

    def unpause(self, container: str) -> None:
        with self._called("unpause the container", "unpause", container), contextlib.suppress(_errors().APIError):
            self._api.unpause(container)

    def remove(self, container: str) -> None:
        """Remove a container, running or not, and its anonymous volumes, and wait for the removal."""
        with self._called("remove the container", "rm", "--force", "--volumes", container), _unless_gone():
            self._api.remove_container(container, force=True, v=True)
        # The engine refuses the removal of a container that another call is already removing.
        with self.translated("wait for the removal"), contextlib.suppress(_errors().APIError):
            self._api.wait(container, timeout=TIMEOUT, condition="removed")

    def execute(self, container: str, argv: Sequence[str]) -> tuple[int, bytes]:
        """Run a program in a running container; return its exit code and output.

        Raises EngineRefused if the container is not running, or if the program does not end within TIMEOUT or has too
        much output. The code of a missing program is 126 or 127.
        """
        *chunks, code = self._limited(self.stream(container, argv, seconds=TIMEOUT))
        return int(code), b"".join(chunk for chunk in chunks if isinstance(chunk, bytes))

    def output(self, container: str) -> bytes:
        """Return the log of a container, without the times. Raises EngineRefused if it is too large or slow."""
        records = self.records(container, follow=False, seconds=TIMEOUT)
        return b"".join(record.partition(b" ")[2] for record in self._limited(records))

    def _limited(self, parts: Iterator[_Part]) -> Iterator[_Part]:
        left = MOST_ANSWER
        for part in parts:
            left -= _PART_SIZE + (len(part) if isinstance(part, bytes) else 0)
            if left < 0:
                raise refused(self.label, "return the output", f"it is larger than {MOST_ANSWER >> 20} MiB")
            yield part

    def stream(
        self,
        container: str,
        argv: Sequence[str],
        *,
        user: str = "",
        environment: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> Iterator[bytes | int]:
        """Run a program in a running container; yield its output as it arrives, and finally its exit code.

        `environment` is passed only to the program, and is kept neither in the container nor in an image made from it.
        Raises EngineRefused if the program does not end within `seconds`.
        """
        options = [word for name, text in (environment or {}).items() for word in ("--env", f"{name}={text}")]
        words = ("exec", *(("--user", user) if user else ()), *options, container, *argv)
        with self._called(f"execute {argv[0]} in the container", *words, log_start=True) as call:
            created = self._api.exec_create(container, list(argv), user=user, environment=dict(environment or {}))
            exec_id = value(created, "Id", str)
            start = f"/exec/{exec_id}/start"
            with self._opened("POST", start, seconds=seconds, json={"Detach": False}) as answer:
                yield from answer.frames()
            state = self._looking.exec_inspect(exec_id)
            code, is_running = value(state, "ExitCode", int | None), value(state, "Running", bool, False)
            call.end(code)
        if is_running or code is None:
            raise unreachable(self.label)
        yield code

    def commit(self, container: str, tag: str, changes: Sequence[str]) -> str:
        """Create an image from a container with Dockerfile instructions (`LABEL`, `CMD`), and return its ID."""
        repository, _, version = tag.rpartition(":")
        words = ("commit", *(word for change in changes for word in ("--change", change)), container, tag)
        with self._called("commit the container", *words, log_start=True):
            image = self._patient.commit(container, repository, version, changes=list(changes))
            return str(value(image, "Id", str))

    def put(self, container: str, folder: str, archive: IO[bytes]) -> None:
        with self._called(f"copy into {folder} of the container", "cp", "-", f"{container}:{folder}", log_start=True):
            self._patient.put_archive(container, folder, archive)

    def get(self, container: str, path: str) -> Iterator[bytes] | None:
        """Return a file or folder of a container, running or not, as a tar archive; None if it does not exist."""
        with self._sought(f"copy {path} out of the container", "cp", f"{container}:{path}", "-"):
            archive = f"/containers/{quote(container)}/archive"
            return self._translated_chunks(self._opened("GET", archive, timeout=None, params={"path": path}))
        return None

    def records(
        self, container: str, *, since: int = 0, follow: bool = True, seconds: float | None = None
    ) -> Iterator[bytes]:
        """Yield the records of a container's log, `TIMESTAMP text`, from the second `since` on.

        Records have the order of the log file. With `follow`, wait for more records until the container has ended.
        Raises EngineRefused if this takes longer than `seconds`.
        """
        params = {"stdout": "1", "stderr": "1", "timestamps": "1", "follow": str(int(follow)), "since": str(since)}
        words = ("logs", "--timestamps", "--since", str(since), *(("--follow",) if follow else ()), container)
        with (
            self._called("read the container's log", *words, log_start=follow),
            _unless_gone(),
            # The package's call would treat a broken connection as the end of the log.
            self._opened("GET", f"/containers/{quote(container)}/logs", seconds=seconds, params=params) as answer,
        ):
            yield from answer.frames()

    def _opened(
        self, method: str, path: str, *, timeout: float | None = TIMEOUT, seconds: float | None = None, **request: Any
    ) -> Stream:
        stream: Stream = _clients().open_stream(
            self._patient, method, path, timeout=timeout, seconds=seconds, **request
        )
        return stream

    def _translated_chunks(self, answer: Stream) -> Iterator[bytes]:
        with self.translated("read from the container"), answer:
            yield from answer.pieces(_CHUNK)

    @contextlib.contextmanager
    def _called(self, action: str, *words: str, log_start: bool = False) -> Iterator[trace.Call]:
        """Translate errors, and add the call to the trace as the equivalent `docker` command."""
        with trace.Call(trace.DOCKER, (*self._docker, *words), login=self._login, log_start=log_start) as call:
            with self.translated(action):
                yield call
            call.end(0)

    @contextlib.contextmanager
    def _sought(self, action: str, *words: str, log_start: bool = False) -> Iterator[None]:
        """Like `_called`, but ignore the error for an object that does not exist."""
        with self._called(action, *words, log_start=log_start) as call:
            try:
                yield
            except _errors().NotFound:
                call.end(1, NOT_THERE)

    @contextlib.contextmanager
    def translated(self, action: str) -> Iterator[None]:
        """Translate errors of the docker package, requests and urllib3."""
        try:
            yield
        except _errors().APIError as error:
            reason = _shortened(str(error.explanation or error))
            raise refused(self.label, action, reason, error.status_code or 0) from error
        except (_errors().InvalidRepository, _errors().NullResource, UnicodeError) as error:
            raise refused(self.label, action, str(error)) from error
        except (_errors().DockerException, *_transport_errors(), OSError, *_INVALID_ANSWER) as error:
            raise unreachable(self.label, error) from error


def _clients() -> Any:
    from tui_workbench.targets.docker import engine_client

    return engine_client


def _errors() -> Any:
    import docker.errors

    return docker.errors


@contextlib.contextmanager
def _unless_gone() -> Iterator[None]:
    """Ignore the error for a container that has ended, is removed, or is being removed."""
    try:
        yield
    except _errors().APIError as error:
        if error.status_code not in (NOT_FOUND, CONFLICT) and "is not running" not in str(error.explanation):
            raise


def _shortened(text: str) -> str:
    """Return a message of an engine in one line of limited length."""
    return " ".join(text[:MOST_REASON].split())


def _transport_errors() -> tuple[type[Exception], ...]:
    import requests.exceptions
    import urllib3.exceptions

    return requests.exceptions.RequestException, urllib3.exceptions.HTTPError


_CHECK_ENGINE = "Fix the problem that the engine reports. `docker info` on that machine shows the state of the engine."


def refused(label: str, action: str, reason: str, status: int = 0) -> EngineRefused:
    """Return the error for a refused call. Any call can fail because of a full disk, which has its own message."""
    if Refusal.of(reason) == Refusal.DISK_FULL:
        return EngineRefused(
            f"the disk of the Docker engine on {label} is full: cannot {action}",
            status=status,
            reason=reason,
            remedy="Run `workbench-tui experiment clean` to remove unused containers, environments and the package "
            "cache, or `docker system prune` on the engine's machine.",
        )
    message = f"the Docker engine on {label} cannot {action}: {reason}"
    return EngineRefused(message, status=status, reason=reason, remedy=_CHECK_ENGINE)


def unreachable(label: str, error: BaseException | None = None) -> TargetUnreachable:
    """Return the error for an engine that does not answer: ConnectionLost if trying again may help."""
    if isinstance(error, PermissionError):
        return TargetUnreachable(
            f"this user has no permission to use the Docker engine on {label}",
            remedy="Ask an administrator to run `sudo usermod -aG docker USER`. Then log out and log in again.",
        )
    return ConnectionLost(
        f"the Docker engine on {label} does not answer",
        remedy="Run `docker info` on that machine to check the engine, or `sudo systemctl start docker` to start it.",
    )
