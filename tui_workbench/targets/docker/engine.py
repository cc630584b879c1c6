"""A Docker engine as typed calls: the one module that knows the `docker` package.

Calls block, are safe to make from several threads, and hold nothing between each other: each has a connection of its
own, which ends with it. Every failure leaves as one of our own errors: the engine does not answer (any more), or it
answers and refuses, with its own words and HTTP status.

The package takes longer to load than a container to be created, so it is loaded when an engine is spoken to.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from tui_workbench.core import trace
from tui_workbench.core.errors import ConfigurationError, TargetUnreachable, WorkbenchError
from tui_workbench.targets.docker.create_command import create_words
from tui_workbench.targets.docker.docker_socket import SYSTEM_SOCKET
from tui_workbench.targets.hosts.host import ConnectionLost

if TYPE_CHECKING:
    import docker
    import requests

TIMEOUT = 60.0
"""Seconds of silence in a call that does not wait for a container; creating one on a busy disk can take twenty."""

CREATION_POLL_SECONDS = 0.02

NOT_FOUND, CONFLICT = 404, 409

NO_SUCH = "there is none"
"""What the trace of calls says of something that was looked for and is not there."""

_CHUNK = 1 << 18

_NONSENSE = (ValueError, KeyError, TypeError, AttributeError)
"""What the package falls over when an answer is JSON of another form than an engine's, or none."""


class EngineFacts(NamedTuple):
    """What the engine says about itself."""

    version: str
    os_type: str  # linux, or windows for Windows containers
    architecture: str  # x86_64, aarch64, ...
    rootless: bool  # root in a container is then the user who runs the engine
    runtimes: tuple[str, ...]
    root: str  # the engine's data directory, on its host


class Image(NamedTuple):
    """An image that the engine holds."""

    id: str
    labels: Mapping[str, str]
    environment: tuple[str, ...]  # NAME=value
    command: tuple[str, ...]
    entrypoint: tuple[str, ...]
    user: str
    size: int  # bytes, with the layers that it shares
    architecture: str
    tags: tuple[str, ...] = ()
    own_size: int = -1  # bytes of its last layer; -1 when it is not known


class Container(NamedTuple):
    """A container as the engine describes it. Times are ISO 8601 in UTC as the engine writes them, "" for never."""

    id: str
    name: str
    state: str  # created, running, paused, restarting, removing, exited or dead
    labels: Mapping[str, str]
    image: str  # the image's id
    exit_code: int | None  # None while it has not ended
    out_of_memory: bool
    error: str  # why it could not be started
    started_at: str

    @property
    def has_ended(self) -> bool:
        """True once its process is over."""
        return self.state in ("exited", "dead")


def image_from(found: Mapping[str, Any]) -> Image:
    """The image in an answer of the engine. Raises KeyError or TypeError for an answer of another form."""
    config = found.get("Config") or {}
    return Image(
        id=found["Id"],
        labels=config.get("Labels") or {},
        environment=tuple(config.get("Env") or ()),
        command=tuple(config.get("Cmd") or ()),
        entrypoint=tuple(config.get("Entrypoint") or ()),
        user=config.get("User") or "",
        size=int(found.get("Size") or 0),
        architecture=str(found.get("Architecture", "")),
        tags=tuple(found.get("RepoTags") or ()),
    )


def container_from(found: Mapping[str, Any]) -> Container:
    """The container in an answer of the engine. Raises KeyError or TypeError for an answer of another form."""
    state = found["State"]
    ended = state.get("Status") in ("exited", "dead")
    started = str(state.get("StartedAt") or "")
    return Container(
        id=found["Id"],
        name=str(found["Name"]).lstrip("/"),
        state=str(state.get("Status", "")),
        labels=found["Config"].get("Labels") or {},
        image=str(found.get("Image", "")),
        exit_code=int(state["ExitCode"]) if ended else None,
        out_of_memory=bool(state.get("OOMKilled")),
        error=str(state.get("Error") or ""),
        started_at="" if started.startswith("0001-") else started,
    )


class EngineRefused(WorkbenchError):
    """The engine answered and said no; `status` is the HTTP status, `said` are its words."""

    def __init__(self, message: str, *, status: int = 0, said: str = "", remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.status = status
        self.said = said or message


class Engine:
    """The engine behind the unix socket `path` on this machine; `label` names its host in errors.

    Raises TargetUnreachable when it does not answer, ConfigurationError when Docker's own file here is damaged.
    """

    def __init__(self, path: str, label: str, login: str = "") -> None:
        """`login` is what `ssh` is called with to get to the engine's host, words for a shell; "" for this machine."""
        self._label = label
        self._login = login
        self._docker = ("docker",) if login or path == SYSTEM_SOCKET else ("docker", "-H", f"unix://{path}")
        with self._called("connect", "version"):
            version = _version(path)
            self._api = _client(path, version, TIMEOUT)
            # Copying, installing and waiting take as long as they take.
            self._patient = _client(path, version, None)

    def facts(self) -> EngineFacts:
        """What the engine says about itself."""
        with self._called("describe the engine", "info"):
            info = self._api.info()
            return EngineFacts(
                version=str(info.get("ServerVersion", "")),
                os_type=str(info.get("OSType", "linux")),
                architecture=str(info.get("Architecture", "")),
                rootless=any("name=rootless" in option for option in info.get("SecurityOptions") or ()),
                runtimes=tuple(info.get("Runtimes") or ()),
                root=str(info.get("DockerRootDir", "")),
            )

    def started_at(self) -> str:
        """When the engine was started, as a time like those of containers; "" when it cannot be told.

        The engine keeps no such record, but makes its default network anew at each start.
        """
        with self._sought("inspect the network", "network", "inspect", "bridge"):
            return str(self._api.inspect_network("bridge").get("Created", ""))
        return ""

    def image(self, name: str) -> Image | None:
        """The image of this name or id; None when the engine does not hold it."""
        if {"", ".", ".."} & set(name.split("/")):
            return None  # as part of an address it would lead elsewhere
        with self._sought(f"inspect the image {name}", "image", "inspect", name):
            return image_from(self._api.inspect_image(name))
        return None

    def images(self, label: str) -> list[Image]:
        """The images that carry a label, `name` or `name=value`, the newest first."""
        with self._called("list images", "images", "--filter", f"label={label}"):
            found = self._api.images(filters={"label": label})
            names = [image["Id"] for image in sorted(found, key=lambda image: -int(image.get("Created") or 0))]
        images = [image for image in map(self.image, names) if image is not None]
        return [image._replace(own_size=self._own_size(image.id)) for image in images]

    def _own_size(self, image: str) -> int:
        with self._called("describe the image", "history", image):
            layers = self._api.history(image)
            return int(layers[0].get("Size", -1)) if layers else -1

    def pull(self, name: str) -> Iterator[Mapping[str, Any]]:
        """Fetch an image from its registry, as `docker login` on this machine has us known there.

        Gives the engine's messages as they come (`status`, `id`, `progressDetail`). Raises EngineRefused when it cannot
        be had.
        """
        # Without a tag the engine would fetch every tag there is.
        reference = name if ":" in name.rpartition("/")[2] or "@" in name else f"{name}:latest"
        with self._called(f"pull {name}", "pull", reference, log_start=True):
            for message in self._api.pull(reference, stream=True, decode=True):
                if "error" in message:
                    raise EngineRefused(str(message["error"]))
                yield message

    def has_volume(self, name: str) -> bool:
        """Whether the engine keeps a volume of this name."""
        with self._sought(f"inspect the volume {name}", "volume", "inspect", name):
            self._api.inspect_volume(name)
            return True
        return False

    def remove_volume(self, name: str) -> None:
        """Remove a volume; one that is not there is fine."""
        with self._sought(f"remove the volume {name}", "volume", "rm", name):
            self._api.remove_volume(name)

    def remove_image(self, image: str) -> None:
        """Remove an image; one that is not there is fine."""
        with self._sought(f"remove the image {image}", "rmi", image):
            self._api.remove_image(image)

    def create(self, name: str, config: Mapping[str, Any]) -> None:
        """Create a container from a configuration in the Engine API's own form.

        The name is what makes it one: when a container of this name exists already, nothing happens.
        """
        try:
            with self._called("create the container", *create_words(name, config)):
                self._api.create_container_from_config(dict(config), name)
        except EngineRefused as refusal:
            if refusal.status != CONFLICT or "is already in use" not in refusal.said:
                raise
            self._until_created(name, refusal)

    def _until_created(self, name: str, conflict: EngineRefused) -> None:
        """Wait for the container that somebody else is creating: its name is taken before it can be found by it."""
        deadline = time.monotonic() + TIMEOUT
        while self.container(name) is None:
            if time.monotonic() > deadline:
                raise conflict
            time.sleep(CREATION_POLL_SECONDS)

    def start(self, container: str) -> None:
        """Start a created container; one that runs already goes on. One that has ended would run again: look first."""
        with self._called("start the container", "start", container):
            self._api.start(container)

    def container(self, name: str) -> Container | None:
        """The container of this name or id; None when there is none."""
        with self._sought(f"inspect the container {name}", "inspect", name):
            return container_from(self._api.inspect_container(name))
        return None

    def containers(self, label: str) -> list[Container]:
        """Every container, running or not, that carries a label, `name` or `name=value`."""
        with self._called("list containers", "ps", "--all", "--filter", f"label={label}"):
            found = [entry["Id"] for entry in self._api.containers(all=True, filters={"label": label})]
        return [each for each in map(self.container, found) if each is not None]

    def wait(self, container: str) -> None:
        """Block until the container has ended, or is gone."""
        with self._sought("wait for the container", "wait", container, log_start=True):
            self._patient.wait(container)

    def kill(self, container: str, signal: str = "SIGKILL") -> None:
        """Send a signal to the container's first process; one that has ended or is gone is fine."""
        with self._called("signal the container", "kill", "--signal", signal, container), _unless_gone():
            self._api.kill(container, signal)

    def unpause(self, container: str) -> None:
        """Let a paused container go on; one that is not paused is fine."""
        with self._called("unpause the container", "unpause", container), contextlib.suppress(_errors().APIError):
            self._api.unpause(container)

    def remove(self, container: str) -> None:
        """Remove a container, running or not, and its anonymous volumes; returns when it is gone."""
        with self._called("remove the container", "rm", "--force", "--volumes", container), _unless_gone():
            self._api.remove_container(container, force=True, v=True)
        with self._translated("wait for the removal"), contextlib.suppress(_errors().APIError):
            self._api.wait(container, timeout=TIMEOUT, condition="removed")

    def execute(self, container: str, argv: Sequence[str], *, user: str = "") -> tuple[int, bytes]:
        """Run a program in a running container to its end: its exit code and all that it wrote.

        Raises EngineRefused when the container does not run. A program that is not there ends with 126 or 127.
        """
        *chunks, code = self.stream(container, argv, user=user)
        return int(code), b"".join(chunk for chunk in chunks if isinstance(chunk, bytes))

    def stream(
        self, container: str, argv: Sequence[str], *, user: str = "", environment: Mapping[str, str] | None = None
    ) -> Iterator[bytes | int]:
        """Run a program in a running container: what it writes as it writes it, and last its exit code.

        `environment` is the program's alone: neither the container nor an image made of it keeps it.
        """
        options = [word for name, value in (environment or {}).items() for word in ("--env", f"{name}={value}")]
        words = ("exec", *(("--user", user) if user else ()), *options, container, *argv)
        with self._called(f"execute {argv[0]} in the container", *words, log_start=True) as call:
            made = self._api.exec_create(container, list(argv), user=user, environment=dict(environment or {}))["Id"]
            with self._opened("POST", f"/exec/{made}/start", json={"Detach": False}) as answer:
                yield from _frames(answer)
            found = self._api.exec_inspect(made)
            call.end(found.get("ExitCode"))
        if found.get("Running") or found.get("ExitCode") is None:
            raise unreachable(self._label)
        yield int(found["ExitCode"])

    def commit(self, container: str, tag: str, changes: Sequence[str]) -> str:
        """Make an image of a container, with Dockerfile instructions (`LABEL`, `CMD`) applied; returns its id."""
        repository, _, version = tag.rpartition(":")
        words = ("commit", *(word for change in changes for word in ("--change", change)), container, tag)
        with self._called("make an image of the container", *words, log_start=True):
            return str(self._patient.commit(container, repository, version, changes=list(changes))["Id"])

    def put(self, container: str, folder: str, archive: IO[bytes]) -> None:
        """Unpack a tar archive, a file on the disk, into a folder of a container, running or not."""
        with self._called(f"copy into {folder} of the container", "cp", "-", f"{container}:{folder}", log_start=True):
            self._patient.put_archive(container, folder, archive)

    def get(self, container: str, path: str) -> Iterator[bytes] | None:
        """A file or folder of a container, running or not, as a tar archive; None when there is none."""
        with self._sought(f"copy {path} out of the container", "cp", f"{container}:{path}", "-"):
            return self._translated_chunks(self._patient.get_archive(container, path, _CHUNK)[0])
        return None

    def records(self, container: str, *, since: int = 0, follow: bool = True) -> Iterator[bytes]:
        """The engine's own log of a container, `TIMESTAMP text` for each record of stdout and of stderr.

        They come in the order of its file, without those of an earlier second than `since`. Ends when the container
        has ended or is gone.
        """
        wanted = {"stdout": "1", "stderr": "1", "timestamps": "1", "follow": str(int(follow)), "since": str(since)}
        words = ("logs", "--timestamps", "--since", str(since), *(("--follow",) if follow else ()), container)
        with (
            self._called("read the container's log", *words, log_start=follow),
            _unless_gone(),
            # Not the package's own call, which takes a broken connection for the end of the log.
            self._opened("GET", f"/containers/{quote(container)}/logs", params=wanted) as answer,
        ):
            yield from _frames(answer)

    @contextlib.contextmanager
    def _opened(self, method: str, path: str, **request: Any) -> Iterator[Any]:
        """The body of the engine's answer as a file, to be read while it comes. Raises APIError."""
        url = f"{self._patient.base_url}/v{self._patient.api_version}{path}"
        with self._patient.request(method, url, stream=True, **request) as response:
            _raise_for_status(response)
            yield response.raw

    def _translated_chunks(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        with self._translated("read from the container"):
            yield from chunks

    @contextlib.contextmanager
    def _called(self, action: str, *words: str, log_start: bool = False) -> Iterator[trace.Call]:
        """Translate errors, and have the call in the trace as the `docker` command that does the same."""
        with trace.Call(trace.DOCKER, (*self._docker, *words), login=self._login, log_start=log_start) as call:
            with self._translated(action):
                yield call
            call.end(0)

    @contextlib.contextmanager
    def _sought(self, action: str, *words: str, log_start: bool = False) -> Iterator[None]:
        """The same for something that may not be there: what follows the context happens then."""
        with self._called(action, *words, log_start=log_start) as call:
            try:
                yield
            except _errors().NotFound:
                call.end(1, NO_SUCH)

    @contextlib.contextmanager
    def _translated(self, action: str) -> Iterator[None]:
        """Turn what the docker package, requests and urllib3 raise into errors of ours."""
        try:
            yield
        except _errors().APIError as error:
            said = " ".join(str(error.explanation or error).split())
            raise refused(self._label, action, said, error.status_code or 0) from error
        except (_errors().InvalidRepository, _errors().NullResource, UnicodeError) as error:
            raise refused(self._label, action, str(error)) from error
        except (_errors().DockerException, *_transport_errors(), OSError, *_NONSENSE) as error:
            raise unreachable(self._label, error) from error


def _errors() -> Any:
    import docker.errors

    return docker.errors


@contextlib.contextmanager
def _unless_gone() -> Iterator[None]:
    """Nothing happens when the container has ended, is gone, or is being removed by somebody else."""
    try:
        yield
    except _errors().APIError as error:
        if error.status_code not in (NOT_FOUND, CONFLICT) and "is not running" not in str(error.explanation):
            raise


def _transport_errors() -> tuple[type[Exception], ...]:
    """What the libraries below the docker package raise."""
    import requests.exceptions
    import urllib3.exceptions

    return requests.exceptions.RequestException, urllib3.exceptions.HTTPError


def _version(path: str) -> str:
    """The interface that the engine speaks: an old one refuses newer requests, a new one those of an old one.

    Asked of a call that answers at once; the one that the package would make starts programs to fill its answer.
    """
    import docker.constants

    # A plain attempt first: the package leaves a socket open that could not be connected.
    with socket.socket(socket.AF_UNIX) as attempt:
        attempt.connect(path)
    api = _client(path, docker.constants.DEFAULT_DOCKER_API_VERSION, TIMEOUT)
    answer = api.get(f"{api.base_url}/_ping", timeout=TIMEOUT)
    _raise_for_status(answer)
    return str(answer.headers["Api-Version"])


def _client(path: str, version: str, timeout: float | None) -> docker.APIClient:
    import docker
    import docker.utils.config
    from docker.transport import UnixHTTPAdapter

    try:
        api = docker.APIClient(base_url="unix:///var/run/docker.sock", version=version, timeout=timeout)
    except (_errors().InvalidConfigFile, *_NONSENSE) as error:
        raise ConfigurationError(
            f"Docker's own configuration cannot be read: {error}",
            remedy="Correct the file, or move it away: `docker login` makes a new one.",
            file=docker.utils.config.find_config_file() or "",
        ) from error
    # Not as the address: that is read as a URL, in which `#` and `?` end a path.
    api.mount("http+docker://", UnixHTTPAdapter(f"http+unix://{path}", timeout))
    api.headers["Connection"] = "close"
    # Neither ~/.netrc nor a proxy has a say in what goes through a socket of this machine.
    api.trust_env = False
    return api


def _raise_for_status(response: requests.Response) -> None:
    """Raise APIError, with the engine's words, when it refused."""
    import requests.exceptions

    try:
        response.raise_for_status()
    except requests.exceptions.HTTPError as error:
        raise _errors().create_api_error_from_http_exception(error) from error


def refused(label: str, action: str, said: str, status: int = 0) -> WorkbenchError:
    """The error for a refusal in the engine's words; a full disk is the one that every call can meet."""
    if "no space left on device" in said:
        return EngineRefused(
            f"the disk of the Docker engine on {label} is full: cannot {action}",
            status=status,
            said=said,
            remedy="`workbench-tui experiment clean` removes what runs left there; `docker system df` shows the rest.",
        )
    return EngineRefused(f"the Docker engine on {label} cannot {action}: {said}", status=status, said=said)


def unreachable(label: str, error: BaseException | None = None) -> TargetUnreachable:
    """The error for an engine that does not answer; permissions are told apart, because waiting does not mend them."""
    if isinstance(error, PermissionError):
        return TargetUnreachable(
            f"this user may not use the Docker engine on {label}",
            remedy="Become a member of its group: `sudo usermod -aG docker $USER`, then log in again.",
        )
    return ConnectionLost(
        f"the Docker engine on {label} does not answer",
        remedy="Look at it there with `docker info`; `sudo systemctl start docker` starts it.",
    )


def _frames(answer: Any) -> Iterator[bytes]:
    """The engine's two streams in one: a header of eight bytes (stream, 0, 0, 0, length), then so many bytes."""
    while len(header := answer.read(8)) == 8:
        size = int.from_bytes(header[4:8], "big")
        data = answer.read(size) if size else b""
        if len(data) < size:
            return  # half a record is asked for again
        yield data
