"""Whether a target can be used: a ladder of questions that stops at the first broken rung, with the command that mends.

The answer to a rung means something only when the ones below it are good, so none is asked before. Nothing is changed
on the machine, and nothing needs more rights than a run.
"""

from __future__ import annotations

import re
import shlex
import time

from tui_workbench.errors import TargetUnreachable, WorkbenchError
from tui_workbench.model import REMOTE_TYPES
from tui_workbench.records import TYPE_CHECKING, NamedTuple
from tui_workbench.targets.host import ConnectionLost, HostKeyRefused, LoginRefused, SecretNeeded
from tui_workbench.targets.host_for import host_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tui_workbench.model import ComputeTarget, RunSpec
    from tui_workbench.project import Project
    from tui_workbench.targets.check_engine import EngineRungs
    from tui_workbench.targets.host import Host

NAME, PORT, HOST_KEY, LOGIN = "name", "port", "host key", "login"
PYTHON = "python"
DOCKER, ENGINE, DISK = "docker", "engine", "disk"
CLOCK = "clock"
GPU, DEVICES, RUNTIME, CONTAINER = "gpu driver", "gpus", "nvidia runtime", "gpu container"
FRAMEWORK, FIT, COMPUTES, MEMORY = "framework", "driver fit", "computes", "shared memory"
CONFIGURATION = "configuration"

_CONNECTION = (NAME, PORT, HOST_KEY, LOGIN)
_ENGINE = (DOCKER, ENGINE, DISK)
_LADDERS = {
    "local": (PYTHON,),
    "localdocker": _ENGINE,
    "docker": _ENGINE,
    "remotedocker": (*_CONNECTION, *_ENGINE, CLOCK),
    "remote": (*_CONNECTION, PYTHON, DISK, CLOCK),
    "cluster": _CONNECTION,
}
_FRAMEWORKS = (FRAMEWORK, FIT, COMPUTES, MEMORY)

OK, WARNING, UNNEEDED, BROKEN = "ok", "warning", "unneeded", "broken"


class Rung(NamedTuple):
    """One question and its answer.

    `state` is `ok`, `warning`, `unneeded` (this target does not ask for it) or `broken`, after which nothing follows.
    `command` is what mends it, to be copied; with `there` it is to be typed on the target's machine. `error` is what
    broke it.
    """

    name: str
    state: str
    message: str
    remedy: str = ""
    command: str = ""
    there: bool = False
    error: WorkbenchError | None = None


class Broken(Exception):
    """Raised by what answers a rung: the ladder ends here."""

    def __init__(self, error: WorkbenchError, command: str = "", *, there: bool = False) -> None:
        super().__init__(error.message)
        self.error = error
        self.command = command
        self.there = there


def rungs_of(target: ComputeTarget) -> tuple[str, ...]:
    """The names of the rungs of a target, in order. Where GPUs are found that nobody asks for, more may follow."""
    if target.type == "cluster" or target.type not in _LADDERS:
        return _LADDERS.get(target.type, ())
    return (*_LADDERS[target.type], *(gpu_rungs_of(target) if wants_gpus(target) else (GPU,)))


def gpu_rungs_of(target: ComputeTarget) -> tuple[str, ...]:
    """The names of the rungs from the driver to the framework."""
    containers = (RUNTIME, CONTAINER) if DOCKER in _LADDERS.get(target.type, ()) else ()
    return (GPU, DEVICES, *containers, *_FRAMEWORKS)


def wants_gpus(target: ComputeTarget) -> bool:
    """Whether its runs are to have GPUs, by its file."""
    return target.gives_gpus if DOCKER in _LADDERS.get(target.type, ()) else target.gpus not in ("", "0")


def check(project: Project, name: str) -> list[Rung]:
    """All rungs of the target of this name, up to the first broken one. Blocks. Raises ConfigurationError."""
    return list(ladder(project.target(name)))


def is_good(rungs: list[Rung]) -> bool:
    """Whether a run could be submitted."""
    return not any(rung.state == BROKEN for rung in rungs)


def ladder(target: ComputeTarget, host: Host | None = None) -> Iterator[Rung]:
    """The rungs one by one, as they are answered; the last one may be broken."""
    yield from _climb(target, None, host)


def gpu_ladder(spec: RunSpec, host: Host | None = None) -> Iterator[Rung]:
    """The rungs from the driver to the framework, of a run configuration's environment.

    Of those below them only a broken one is told.
    """
    yield from _climb(spec.target, spec, host)


def _climb(target: ComputeTarget, spec: RunSpec | None, host: Host | None) -> Iterator[Rung]:
    """All rungs; with a specification those about GPUs, asked for whatever the target's file says."""
    if target.problem is not None:
        problem = target.problem
        error = WorkbenchError(problem.message, remedy=problem.remedy, file=problem.file, line=problem.line)
        yield Rung(CONFIGURATION, BROKEN, problem.message, problem.remedy, error=error)
        return
    try:
        host = host or host_of(target)
    except WorkbenchError as error:
        command = f"workbench-tui computetarget login {shlex.quote(target.name)} --move-secrets"
        yield Rung(CONFIGURATION, BROKEN, error.message, error.remedy, command, error=error)
        return
    if target.type in REMOTE_TYPES:
        for rung in _connection(target, host):
            if spec is None or rung.state == BROKEN:
                yield rung
            if rung.state == BROKEN:
                return
    engine = None
    if DOCKER in rungs_of(target):
        from tui_workbench.targets.check_engine import EngineRungs

        engine = EngineRungs(target, host)
    answers = _answers(target, host, engine)
    for name in _LADDERS.get(target.type, ()) if spec is None else ():
        if name in answers:
            rung = answered(name, answers[name], host.label)
            yield rung
            if rung.state == BROKEN:
                return
    if spec is not None and engine is not None:
        rung = answered(DOCKER, engine.docker, host.label)
        if rung.state == BROKEN:
            yield rung
            return
    if GPU not in rungs_of(target):
        if spec is not None:
            yield _no_way_to_look(target)
    else:
        from tui_workbench.targets.gpu.places import spec_of
        from tui_workbench.targets.gpu.preflight import Preflight

        preflight = Preflight(spec or spec_of(target), host, engine)
        yield from preflight.climb(is_wanted=spec is not None or wants_gpus(target))


def _no_way_to_look(target: ComputeTarget) -> Rung:
    error = WorkbenchError(
        f"nobody can look at the GPUs of a target of type {target.type}",
        remedy="Ask its own tools; the verdict on a run there is `unknown` as well.",
        file=target.path,
    )
    return Rung(GPU, BROKEN, error.message, error.remedy, error=error)


def _answers(target: ComputeTarget, host: Host, engine: EngineRungs | None) -> dict[str, Callable[[], Rung]]:
    """What answers each rung between the login and the GPUs."""
    from tui_workbench.targets.check_machine import clock, disk_of_home, local_python, python

    answers: dict[str, Callable[[], Rung]] = {CLOCK: lambda: clock(host)}
    if target.type == "local":
        answers[PYTHON] = lambda: local_python(target)
    elif target.type == "remote":
        answers |= {PYTHON: lambda: python(target, host), DISK: lambda: disk_of_home(target, host)}
    elif engine is not None:
        answers |= {DOCKER: engine.docker, ENGINE: engine.engine, DISK: engine.disk}
    return answers


def answered(name: str, answer: Callable[[], Rung], label: str) -> Rung:
    """The rung that an answer gives, broken where it raises. `label` is the machine's."""
    try:
        return answer()
    except Broken as broken:
        return _broken(name, broken.error, label, broken.command, there=broken.there)
    except WorkbenchError as error:
        return _broken(name, error, label)


def _broken(name: str, error: WorkbenchError, label: str, command: str = "", *, there: bool = False) -> Rung:
    # Who reads a ladder knows which machine it is about.
    message = error.message.removeprefix(f"{label}: ")
    return Rung(name, BROKEN, message, error.remedy, command, there, error)


# -- the way there ---------------------------------------------------------------------------------------------------


def _connection(target: ComputeTarget, host: Host) -> Iterator[Rung]:
    """The first four rungs. One login answers them all: it says how far it came."""
    from tui_workbench.targets.ssh import SshHost

    started = time.monotonic()
    try:
        host.run(["true"])
    except TargetUnreachable as error:
        rung = getattr(error, "rung", LOGIN)
        for name in _CONNECTION[: _CONNECTION.index(rung)]:
            yield Rung(name, OK, _PASSED[name])
        command, there = _mending(target, error)
        yield _broken(rung, error, host.label, command, there=there)
        return
    seconds = time.monotonic() - started
    status = host.status() if isinstance(host, SshHost) else {}
    yield Rung(NAME, OK, _found(target, status.get("peer", "")))
    yield Rung(PORT, OK, f"{status.get('server') or 'an SSH server'} answers")
    yield Rung(HOST_KEY, OK, "the host key is the known one")
    yield Rung(LOGIN, OK, f"logged in as {status.get('username') or target.username} ({seconds:.1f} s)")


def _found(target: ComputeTarget, peer: str) -> str:
    from tui_workbench.targets.ssh_wire import login_of

    host = login_of(target).host_and_port[0]
    if not peer:
        return f"{host} is reached through a jump host"
    return f"{host} is an address" if peer == host else f"{host} is {peer}"


_PASSED = {NAME: "the name is known", PORT: "an SSH server answers", HOST_KEY: "the host key is the known one"}


def _mending(target: ComputeTarget, error: TargetUnreachable) -> tuple[str, bool]:
    """The command that mends a failed login, and whether it is for the other machine."""
    from tui_workbench.targets.ssh_wire import login_of

    name = shlex.quote(target.name)
    if isinstance(error, HostKeyRefused):
        if error.known:
            # The machine whose key changed may be a jump host: only the error knows its name.
            found = re.search(r"ssh-keygen -R '[^']+'", error.remedy)
            return (found.group() if found else ""), False
        accept = f"workbench-tui computetarget check {name} --accept-host-key {error.presented}"
        return (accept if error.presented else ""), False
    if isinstance(error, SecretNeeded):
        return f"workbench-tui computetarget login {name}", False
    if isinstance(error, LoginRefused):
        return f"ssh-copy-id {login_of(target).key_words}{login_of(target).ssh_words}", False
    if isinstance(error, ConnectionLost) and error.rung == NAME:
        return f"workbench-tui config set {shlex.quote(target.name + '.compute')} address HOST", False
    if isinstance(error, ConnectionLost) and error.rung == PORT:
        return "sudo systemctl enable --now ssh", True
    return f"ssh -v {login_of(target).ssh_words} true", False
