"""A Docker engine as typed calls over its own HTTP interface.

Calls block, hold nothing between each other and are safe to make from several threads. Every failure leaves as one of
our own errors: the engine does not answer (any more), or it answers and refuses, with its own words and HTTP status.

Requests name no version of the interface, so an engine answers in its own; only what has been there for years is used.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping

from tui_workbench.errors import TargetUnreachable, WorkbenchError
from tui_workbench.records import TYPE_CHECKING, NamedTuple
from tui_workbench.targets.host import ConnectionLost
from tui_workbench.targets.unix_http import quote, request

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import IO, Any, TypeVar

    from tui_workbench.targets.unix_http import Answer, Query

    _Part = TypeVar("_Part")

TIMEOUT = 60.0
"""Seconds of silence in a call that does not wait for a container; creating one on a busy disk can take twenty."""

CREATION_POLL_SECONDS = 0.02

NOT_FOUND, CONFLICT = 404, 409


class EngineRefused(WorkbenchError):
    """The engine answered and said no; `status` is the HTTP status, `said` are its words."""

    def __init__(self, message: str, *, status: int = 0, said: str = "", remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.status = status
        self.said = said or message


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
    finished_at: str

    @property
    def has_ended(self) -> bool:
        """True once its process is over."""
        return self.state in ("exited", "dead")


class Engine:
    """The engine behind a unix socket on this machine; `label` names its host in errors.

    Raises TargetUnreachable when it does not answer.
    """

    def __init__(self, socket: str, label: str) -> None:
        self._socket = socket
        self._label = label
        self._ask("connect", "GET", "/_ping")

    def facts(self) -> EngineFacts:
        """What the engine says about itself."""
        info = self._ask("describe the engine", "GET", "/info")
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
        network = self._find("inspect the network", "/networks/bridge")
        return str(network.get("Created", "")) if network is not None else ""

    def image(self, name: str) -> Image | None:
        """The image of this name or id; None when the engine does not hold it."""
        found = self._find(f"inspect the image {name}", f"/images/{quote(name)}/json")
        if found is None:
            return None
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

    def images(self, label: str) -> list[Image]:
        """The images that carry a label, `name` or `name=value`, the newest first."""
        found = self._ask("list images", "GET", "/images/json", [("filters", _label_filter(label))])
        names = [image["Id"] for image in sorted(found, key=lambda image: -int(image.get("Created") or 0))]
        images = [image for image in map(self.image, names) if image is not None]
        return [image._replace(own_size=self._own_size(image.id)) for image in images]

    def _own_size(self, image: str) -> int:
        layers = self._ask("describe the image", "GET", f"/images/{quote(image)}/history")
        return int(layers[0].get("Size", -1)) if layers else -1

    def pull(self, name: str) -> Iterator[Mapping[str, Any]]:
        """Fetch an image from its registry: the engine's messages as they come (`status`, `id`, `progressDetail`).

        Raises EngineRefused when it cannot be had.
        """
        from tui_workbench.targets.registry_login import login_header

        # Without a tag the engine would fetch every tag there is.
        reference = name if ":" in name.rpartition("/")[2] or "@" in name else f"{name}:latest"
        with self._open(
            f"pull {name}", "POST", "/images/create", [("fromImage", reference)], headers=login_header(name)
        ) as answer:
            for line in self._translated(answer.lines()):
                message = json.loads(line)
                if "error" in message:
                    raise EngineRefused(str(message["error"]))
                yield message

    def has_volume(self, name: str) -> bool:
        """Whether the engine keeps a volume of this name."""
        return self._find(f"inspect the volume {name}", f"/volumes/{quote(name)}") is not None

    def remove_volume(self, name: str) -> None:
        """Remove a volume; one that is not there is fine."""
        self._ask(f"remove the volume {name}", "DELETE", f"/volumes/{quote(name)}", fine=(NOT_FOUND,))

    def remove_image(self, image: str) -> None:
        """Remove an image; one that is not there is fine."""
        self._ask(f"remove the image {image}", "DELETE", f"/images/{quote(image)}", fine=(NOT_FOUND,))

    def create(self, name: str, config: Mapping[str, Any]) -> None:
        """Create a container from a configuration in the Engine API's own form.

        The name is what makes it one: when a container of this name exists already, nothing happens.
        """
        try:
            self._ask("create the container", "POST", "/containers/create", [("name", name)], config)
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
        self._ask("start the container", "POST", f"/containers/{quote(container)}/start")

    def container(self, name: str) -> Container | None:
        """The container of this name or id; None when there is none."""
        found = self._find(f"inspect the container {name}", f"/containers/{quote(name)}/json")
        return _container(found) if found is not None else None

    def containers(self, label: str) -> list[Container]:
        """Every container, running or not, that carries a label, `name` or `name=value`."""
        query = [("all", "1"), ("filters", _label_filter(label))]
        found = self._ask("list containers", "GET", "/containers/json", query)
        return [each for each in (self.container(entry["Id"]) for entry in found) if each is not None]

    def wait(self, container: str) -> None:
        """Block until the container has ended, or is gone."""
        path = f"/containers/{quote(container)}/wait"
        self._ask("wait for the container", "POST", path, timeout=None, fine=(NOT_FOUND,))

    def kill(self, container: str, signal: str = "SIGKILL") -> None:
        """Send a signal to the container's first process; one that has ended or is gone is fine."""
        try:
            path = f"/containers/{quote(container)}/kill"
            self._ask("signal the container", "POST", path, [("signal", signal)], fine=(NOT_FOUND, CONFLICT))
        except EngineRefused as refusal:
            if "is not running" not in refusal.said:
                raise

    def unpause(self, container: str) -> None:
        """Let a paused container go on; one that is not paused is fine."""
        with contextlib.suppress(EngineRefused):
            self._ask("unpause the container", "POST", f"/containers/{quote(container)}/unpause")

    def remove(self, container: str) -> None:
        """Remove a container, running or not, and its anonymous volumes; returns when it is gone."""
        path = f"/containers/{quote(container)}"
        # A conflict: somebody else is removing it.
        self._ask("remove the container", "DELETE", path, [("v", "1"), ("force", "1")], fine=(NOT_FOUND, CONFLICT))
        with contextlib.suppress(EngineRefused):
            self._ask("wait for the removal", "POST", f"{path}/wait", [("condition", "removed")])

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
        action = f"execute {argv[0]} in the container"
        config = {
            "Cmd": list(argv),
            "User": user,
            "Env": [f"{name}={value}" for name, value in (environment or {}).items()],
            "AttachStdout": True,
            "AttachStderr": True,
        }
        made = self._ask(action, "POST", f"/containers/{quote(container)}/exec", body=config)["Id"]
        with self._open(action, "POST", f"/exec/{made}/start", body={"Detach": False}, timeout=None) as answer:
            for _, chunk in self._translated(_frames(answer)):
                yield chunk
        found = self._ask(action, "GET", f"/exec/{made}/json")
        if found.get("Running") or found.get("ExitCode") is None:
            raise unreachable(self._label)
        yield int(found["ExitCode"])

    def commit(self, container: str, tag: str, changes: Sequence[str]) -> str:
        """Make an image of a container, with Dockerfile instructions (`LABEL`, `CMD`) applied; returns its id."""
        repository, _, version = tag.rpartition(":")
        query = [("container", container), ("repo", repository), ("tag", version)]
        query += [("changes", change) for change in changes]
        return str(self._ask("make an image of the container", "POST", "/commit", query, {}, timeout=None)["Id"])

    def put(self, container: str, folder: str, archive: IO[bytes]) -> None:
        """Unpack a tar archive, a file on the disk, into a folder of a container, running or not."""
        path, action = f"/containers/{quote(container)}/archive", f"copy into {folder} of the container"
        with self._open(action, "PUT", path, [("path", folder)], body=archive, timeout=None) as answer:
            answer.body()

    def get(self, container: str, path: str) -> Iterator[bytes] | None:
        """A file or folder of a container, running or not, as a tar archive; None when there is none."""
        target, action = f"/containers/{quote(container)}/archive", f"copy {path} out of the container"
        try:
            answer = self._open(action, "GET", target, [("path", path)])
        except EngineRefused as refusal:
            if refusal.status == NOT_FOUND:
                return None
            raise
        return self._chunks(answer)

    def records(self, container: str, *, since: str = "", follow: bool = True) -> Iterator[tuple[bool, bytes]]:
        """The engine's own log of a container: (is stderr, `TIMESTAMP text`), one log record each.

        `since` is inclusive, seconds with nine digits behind the point. Ends when the container has ended or is gone.
        """
        query = [("stdout", "1"), ("stderr", "1"), ("timestamps", "1"), ("follow", str(int(follow)))]
        query.append(("since", since or "0"))
        try:
            path = f"/containers/{quote(container)}/logs"
            answer = self._open("read the container's log", "GET", path, query, timeout=None)
        except EngineRefused as refusal:
            if refusal.status in (NOT_FOUND, CONFLICT):
                return  # it is being removed
            raise
        with answer:
            yield from self._translated(_frames(answer))

    def _chunks(self, answer: Answer) -> Iterator[bytes]:
        with answer:
            yield from self._translated(answer.chunks())

    def _find(self, action: str, path: str) -> Mapping[str, Any] | None:
        """What the engine says of a thing; None when there is none."""
        found: Mapping[str, Any] | None = self._ask(action, "GET", path, fine=(NOT_FOUND,))
        return found

    def _ask(
        self,
        action: str,
        method: str,
        path: str,
        query: Query = (),
        body: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = TIMEOUT,
        fine: Sequence[int] = (),
    ) -> Any:
        """The value that the engine answers with; None for the refusals in `fine`."""
        try:
            with self._open(action, method, path, query, body=body, timeout=timeout) as answer:
                data = b"".join(self._translated(answer.chunks()))
        except EngineRefused as refusal:
            if refusal.status in fine:
                return None
            raise
        return json.loads(data) if data[:1] in (b"{", b"[") else None

    def _open(
        self,
        action: str,
        method: str,
        path: str,
        query: Query = (),
        *,
        body: Mapping[str, Any] | IO[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = TIMEOUT,
    ) -> Answer:
        """The engine's answer, as soon as it begins. Raises EngineRefused with the engine's words when it says no."""
        headers = dict(headers or {})
        if isinstance(body, Mapping):
            headers["Content-Type"] = "application/json"
            data: IO[bytes] | bytes = json.dumps(body).encode()
        else:
            headers["Content-Type"] = "application/x-tar" if body is not None else "application/json"
            data = body or b""
        try:
            answer = request(self._socket, method, path, query, body=data, headers=headers, timeout=timeout)
            if answer.status < 400:
                return answer
            with answer:
                said = answer.body()
        except OSError as error:
            raise unreachable(self._label, error) from error
        raise refused(self._label, action, _message(said), answer.status)

    def _translated(self, parts: Iterator[_Part]) -> Iterator[_Part]:
        """The same parts; a connection that breaks meanwhile is an engine that does not answer."""
        try:
            yield from parts
        except (OSError, ValueError) as error:
            raise unreachable(self._label, error) from error


def _message(data: bytes) -> str:
    try:
        said = str(json.loads(data)["message"])
    except (ValueError, KeyError, TypeError):
        said = data.decode("utf-8", "replace")
    return " ".join(said.split())


def _label_filter(label: str) -> str:
    return json.dumps({"label": [label]})


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


def _container(found: Mapping[str, Any]) -> Container:
    state = found["State"]
    ended = state.get("Status") in ("exited", "dead")
    return Container(
        id=found["Id"],
        name=str(found["Name"]).lstrip("/"),
        state=str(state.get("Status", "")),
        labels=found["Config"].get("Labels") or {},
        image=str(found.get("Image", "")),
        exit_code=int(state["ExitCode"]) if ended else None,
        out_of_memory=bool(state.get("OOMKilled")),
        error=str(state.get("Error") or ""),
        started_at=_moment(state.get("StartedAt")),
        finished_at=_moment(state.get("FinishedAt")),
    )


def _moment(text: object) -> str:
    return "" if not text or str(text).startswith("0001-") else str(text)


def _frames(answer: Answer) -> Iterator[tuple[bool, bytes]]:
    """The engine's two streams in one: a header of eight bytes (stream, 0, 0, 0, length), then so many bytes."""
    while len(header := answer.exactly(8)) == 8:
        size = int.from_bytes(header[4:8], "big")
        data = answer.exactly(size)
        if len(data) < size:
            return  # half a record is asked for again
        yield header[0] == 2, data
