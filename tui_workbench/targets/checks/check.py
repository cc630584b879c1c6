"""Check a target: one check after the other up to the first that fails, with the command that fixes it.

A check means something only when those before it passed. Nothing is changed on the machine, and nothing needs more
rights than a run.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Iterator

from tui_workbench.core.errors import TargetUnreachable, WorkbenchError
from tui_workbench.core.model import ComputeTarget, RunSpec
from tui_workbench.core.target_types import BUILT_IN
from tui_workbench.projects.project import Project
from tui_workbench.targets.base.protocol import Target
from tui_workbench.targets.base.registry import target_for
from tui_workbench.targets.checks import result
from tui_workbench.targets.checks.check_engine import EngineChecks
from tui_workbench.targets.checks.check_machine import clock, disk_of_home, local_python, python, ready, tools
from tui_workbench.targets.checks.result import CheckResult, failure, run_check
from tui_workbench.targets.gpu.framework_location import spec_of
from tui_workbench.targets.gpu.preflight import Preflight
from tui_workbench.targets.hosts.host import ConnectionLost, Host, HostKeyRefused, LoginRefused, SecretNeeded
from tui_workbench.targets.hosts.host_for import host_of
from tui_workbench.targets.ssh.ssh_host import SshHost
from tui_workbench.targets.ssh.ssh_wire import login_of

_CONNECTION = (result.NAME, result.PORT, result.HOST_KEY, result.LOGIN)
_ENGINE = (result.DOCKER, result.ENGINE, result.DISK)
_FRAMEWORKS = (result.FRAMEWORK, result.FIT, result.COMPUTES, result.MEMORY)


def check_names(target: ComputeTarget) -> tuple[str, ...]:
    """The names of the checks of a target, in order. Where GPUs are found that nobody asks for, more may follow."""
    return (*_machine_checks(target), *_gpu_checks(target))


def _machine_checks(target: ComputeTarget) -> tuple[str, ...]:
    kind = target.kind
    found: tuple[str, ...] = _CONNECTION if kind.is_remote else ()
    if not kind.can_run:
        return found
    if kind.is_remote:
        found += (result.TOOLS,)
    if kind.runs_in_container:
        found += _ENGINE
    elif kind.uses_interpreter:
        found += (result.PYTHON, result.DISK) if kind.is_remote else (result.PYTHON,)
    if kind not in BUILT_IN:
        found += (result.READY,)
    return (*found, result.CLOCK) if kind.is_remote else found


def _gpu_checks(target: ComputeTarget) -> tuple[str, ...]:
    if not target.kind.has_gpus:
        return ()
    return gpu_check_names(target) if wants_gpus(target) else (result.GPU,)


def gpu_check_names(target: ComputeTarget) -> tuple[str, ...]:
    """The names of the checks from the driver to the framework."""
    containers = (result.RUNTIME, result.CONTAINER) if target.kind.runs_in_container else ()
    return (result.GPU, result.DEVICES, *containers, *_FRAMEWORKS)


def wants_gpus(target: ComputeTarget) -> bool:
    """Whether its runs are to have GPUs, by its file."""
    return target.gives_gpus if target.kind.runs_in_container else target.gpus not in ("", "0")


def check(project: Project, name: str) -> list[CheckResult]:
    """The results of all checks of the target of this name. Blocks. Raises ConfigurationError."""
    return list(run_checks(project.target(name)))


def is_good(results: list[CheckResult]) -> bool:
    """Whether a run could be submitted."""
    return not any(found.state == result.BROKEN for found in results)


def run_checks(target: ComputeTarget, host: Host | None = None) -> Iterator[CheckResult]:
    """Check a target; yields each result as soon as it is there. The last one may be failure."""
    yield from _run(target, None, host)


def run_gpu_checks(spec: RunSpec, host: Host | None = None) -> Iterator[CheckResult]:
    """Check the GPUs of a target from the driver to the framework in the environment of a run.

    Of the checks before the driver only a failure one is yielded.
    """
    yield from _run(spec.target, spec, host)


def _run(target: ComputeTarget, spec: RunSpec | None, host: Host | None) -> Iterator[CheckResult]:
    """All checks; with a specification those about GPUs, whatever the target's file says."""
    command = ""
    try:
        if target.problem is None and host is None:
            command = f"workbench-tui computetarget login {shlex.quote(target.name)} --move-secrets"
            host, command = host_of(target), ""
        # A type that cannot run has no implementation, and its login can be checked all the same.
        implementation = target_for(target, host) if target.problem is not None or target.kind.can_run else None
    except WorkbenchError as error:
        yield CheckResult(result.CONFIGURATION, result.BROKEN, error.message, error.remedy, command, error=error)
        return
    host = host or host_of(target)
    if target.kind.is_remote:
        for found in _connection(target, host):
            if spec is None or found.state == result.BROKEN:
                yield found
            if found.state == result.BROKEN:
                return
    engine = EngineChecks(target, host) if target.kind.runs_in_container else None
    for found in _machine(target, host, implementation, engine, is_gpu_only=spec is not None):
        yield found
        if found.state == result.BROKEN:
            return
    if implementation is not None and target.kind.has_gpus:
        preflight = Preflight(implementation, spec or spec_of(target), engine)
        yield from preflight.run(is_wanted=spec is not None or wants_gpus(target))
    elif spec is not None:
        yield _no_way_to_look(target)


def _machine(
    target: ComputeTarget, host: Host, implementation: Target | None, engine: EngineChecks | None, *, is_gpu_only: bool
) -> Iterator[CheckResult]:
    """The checks between the login and the GPUs; with `is_gpu_only` a failure engine alone."""
    if is_gpu_only:
        found = run_check(result.DOCKER, engine.docker, host) if engine is not None else None
        if found is not None and found.state == result.BROKEN:
            yield found
        return
    answers: dict[str, Callable[[], CheckResult]] = {
        result.CLOCK: lambda: clock(host),
        result.TOOLS: lambda: tools(target, host),
    }
    if engine is not None:
        answers |= {result.DOCKER: engine.docker, result.ENGINE: engine.engine, result.DISK: engine.disk}
    else:
        answers |= {result.PYTHON: lambda: python(target, host), result.DISK: lambda: disk_of_home(target, host)}
    if implementation is not None:
        answers[result.READY] = lambda: ready(implementation)
        if target.kind.runs_here:
            answers[result.PYTHON] = lambda: local_python(implementation)
    for name in _machine_checks(target):
        if name in answers:
            yield run_check(name, answers[name], host)


def _no_way_to_look(target: ComputeTarget) -> CheckResult:
    error = WorkbenchError(
        f"nobody can look at the GPUs of a target of type {target.type}",
        remedy="Ask its own tools; the verdict on a run there is `unknown` as well.",
        file=target.path,
    )
    return CheckResult(result.GPU, result.BROKEN, error.message, error.remedy, error=error)


# -- the way there ---------------------------------------------------------------------------------------------------


def _connection(target: ComputeTarget, host: Host) -> Iterator[CheckResult]:
    """The first four results. One login answers them all: it says how far it came."""
    started = time.monotonic()
    try:
        host.run(["true"])
    except TargetUnreachable as error:
        found = getattr(error, "failed_check", result.LOGIN)
        for name in _CONNECTION[: _CONNECTION.index(found)]:
            yield CheckResult(name, result.OK, _PASSED[name])
        command, there = _mending(target, error)
        yield failure(found, error, host.label, command, there=there)
        return
    seconds = time.monotonic() - started
    status = host.status() if isinstance(host, SshHost) else {}
    yield CheckResult(result.NAME, result.OK, _found(target, status.get("peer", "")))
    yield CheckResult(result.PORT, result.OK, f"{status.get('server') or 'an SSH server'} answers")
    yield CheckResult(result.HOST_KEY, result.OK, "the host key is the known one")
    yield CheckResult(
        result.LOGIN, result.OK, f"logged in as {status.get('username') or target.username} ({seconds:.1f} s)"
    )


def _found(target: ComputeTarget, peer: str) -> str:
    host = login_of(target).host_and_port[0]
    if not peer:
        return f"{host} is reached through a jump host"
    return f"{host} is an address" if peer == host else f"{host} is {peer}"


_PASSED = {
    result.NAME: "the name is known",
    result.PORT: "an SSH server answers",
    result.HOST_KEY: "the host key is the known one",
}


def _mending(target: ComputeTarget, error: TargetUnreachable) -> tuple[str, bool]:
    """The command that mends a failed login, and whether it is for the other machine."""
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
    if isinstance(error, ConnectionLost) and error.failed_check == result.NAME:
        return f"workbench-tui config set {shlex.quote(target.name + '.compute')} address HOST", False
    if isinstance(error, ConnectionLost) and error.failed_check == result.PORT:
        return "sudo systemctl enable --now ssh", True
    return f"ssh -v {login_of(target).ssh_words} true", False
