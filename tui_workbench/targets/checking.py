"""Run the checks of a target, one after the other, up to the first that fails.

The checks install nothing on the machine and need no more permissions than a run.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from tui_workbench.core.errors import TargetUnreachable, WorkbenchError
from tui_workbench.core.model import ComputeTarget, RunSpec
from tui_workbench.core.target_types import BUILT_IN
from tui_workbench.targets.base.protocol import Target
from tui_workbench.targets.checks import result
from tui_workbench.targets.checks.check_machine import (
    clock,
    disk_of_home,
    local_python,
    python,
    ready,
    reservations,
    spark,
    tools,
    yarn,
)
from tui_workbench.targets.checks.preflight import Preflight
from tui_workbench.targets.checks.result import CheckResult, failure, run_check
from tui_workbench.targets.docker.checks import EngineChecks
from tui_workbench.targets.gpu.framework_location import spec_of
from tui_workbench.targets.group.checks import GroupChecks
from tui_workbench.targets.hosts import contacts
from tui_workbench.targets.hosts.host import ConnectionLost, Host, HostKeyRefused, LoginRefused, SecretNeeded
from tui_workbench.targets.registry import target_for
from tui_workbench.targets.slurm.checks import SlurmChecks
from tui_workbench.targets.ssh.host_for import host_of
from tui_workbench.targets.ssh.ssh_host import SshHost
from tui_workbench.targets.ssh.ssh_wire import login_of

_CONNECTION = (result.NAME, result.PORT, result.HOST_KEY, result.LOGIN)
_ENGINE = (result.DOCKER, result.ENGINE, result.DISK)
_FRAMEWORKS = (result.FRAMEWORK, result.COMPATIBILITY, result.COMPUTES, result.MEMORY)


def check_names(target: ComputeTarget) -> tuple[str, ...]:
    """Return the names of the checks of a target, in order.

    If the target requests no GPUs but its machine has some, `run_checks` may add checks of the GPUs.
    """
    if target.parts:
        return (*target.members, result.HOMES, result.PYTHON, result.NETWORK, result.CLOCK)
    machine = _machine_checks(target)
    if not target.kind.has_gpus:
        return machine
    if not _wants_gpus(target):
        return (*machine, result.GPU)
    containers = (result.RUNTIME, result.CONTAINER) if target.kind.runs_in_container else ()
    return (*machine, result.GPU, result.DEVICES, *containers, *_FRAMEWORKS)


def _machine_checks(target: ComputeTarget) -> tuple[str, ...]:
    kind = target.kind
    names: tuple[str, ...] = _CONNECTION if target.uses_ssh else ()
    if kind.is_remote:
        names += (result.TOOLS,)
    if kind.has_scheduler:
        # The commands of `setup` may load the interpreter, so the login node may not have it.
        names += (result.SLURM, result.RUN_ROOT, *(() if target.setup else (result.PYTHON,)), result.DISK)
    elif kind.runs_in_container:
        names += _ENGINE
    elif kind.spark_master:
        names += (result.PYTHON, result.SPARK, result.YARN, result.DISK)
    elif kind.uses_interpreter:
        names += (result.PYTHON, result.DISK) if kind.is_remote else (result.PYTHON,)
    if kind not in BUILT_IN:
        names += (result.READY,)
    if target.gpu_reservations:
        names += (result.RESERVATIONS,)
    return (*names, result.CLOCK) if kind.is_remote else names


def _wants_gpus(target: ComputeTarget) -> bool:
    return target.gives_gpus if target.kind.runs_in_container else target.gpus not in ("", "0")


def run_checks(target: ComputeTarget, *, with_job: bool = False) -> Iterator[CheckResult]:
    """Check a target; yield each result immediately. Only the last result can have the state `broken`.

    With `with_job`, also run a short job on a target with a scheduler.
    """
    for check_result in _group(target) if target.parts else _run(target, None, None):
        yield check_result
        if check_result.state == result.BROKEN:
            return
    if with_job and target.kind.has_scheduler:
        host = host_of(target)
        yield run_check(result.JOB, SlurmChecks(target, host).job, host)


def run_gpu_checks(spec: RunSpec, hosts: Mapping[str, Host | None] = MappingProxyType({})) -> Iterator[CheckResult]:
    """Check the GPUs of a target, from the driver to the framework in the environment of a run.

    Results of earlier checks, such as the login, are yielded only if they fail. `hosts` maps the name of the target, or
    of each member of a group, to its machine, if known. Only the last result can have the state `broken`.
    """
    for part in spec.parts:
        for check_result in _run(part.target, part, hosts.get(part.target.name)):
            yield _of_member(part.target, check_result) if spec.target.parts else check_result
            if check_result.state == result.BROKEN:
                return


def _of_member(member: ComputeTarget, check_result: CheckResult) -> CheckResult:
    message = f"{check_result.name}: {check_result.message}"
    return check_result._replace(name=member.name, message=message, place=member.address)


def _group(target: ComputeTarget) -> Iterator[CheckResult]:
    """Check each member of a group, and yield one result for it. Then compare the members, unless a check failed."""
    for part in target.parts:
        results = list(run_checks(part))
        problems = [item for item in results if item.state in (result.BROKEN, result.WARNING)]
        worst = problems[-1] if problems else None  # only the last result can be broken
        if worst is None:
            yield CheckResult(part.name, result.OK, f"{len(results)} checks passed")
            continue
        command = f"workbench-tui computetarget check {shlex.quote(part.name)}"
        yield _of_member(part, worst)._replace(command=command, there=False)
        if worst.state == result.BROKEN:
            return
    checks = GroupChecks(target, {part.name: target_for(part) for part in target.parts})
    compared = {
        result.HOMES: checks.homes,
        result.PYTHON: checks.python,
        result.NETWORK: checks.network,
        result.CLOCK: checks.clocks,
    }
    for name, check in compared.items():
        yield run_check(name, check, host_of(target))


def _run(target: ComputeTarget, spec: RunSpec | None, host: Host | None) -> Iterator[CheckResult]:
    command = ""
    try:
        if target.problem is None and host is None:
            command = f"workbench-tui computetarget login {shlex.quote(target.name)} --move-secrets"
            host, command = host_of(target), ""
        implementation = target_for(target, host)
    except WorkbenchError as error:
        yield CheckResult(result.CONFIGURATION, result.BROKEN, error.message, error.remedy, command, error=error)
        return
    host = host or host_of(target)
    contacts.record(target)
    if target.uses_ssh:
        for check_result in _connection(target, host):
            if spec is None or check_result.state == result.BROKEN:
                yield check_result
            if check_result.state == result.BROKEN:
                return
    engine = EngineChecks(target, host) if target.kind.runs_in_container else None
    for check_result in _machine(target, host, implementation, engine, is_gpu_only=spec is not None):
        yield check_result
        if check_result.state == result.BROKEN:
            return
    if target.kind.has_gpus:
        preflight = Preflight(implementation, spec or spec_of(target), engine)
        yield from preflight.run(is_wanted=spec is not None or _wants_gpus(target))
    elif spec is not None:
        unsupported = WorkbenchError(
            f"the workbench cannot check the GPUs of targets of type {target.type}",
            remedy="To check them, submit a script that runs `nvidia-smi` or `amd-smi`.",
            file=target.path,
        )
        yield failure(result.GPU, unsupported, host.label)


def _machine(
    target: ComputeTarget, host: Host, implementation: Target, engine: EngineChecks | None, *, is_gpu_only: bool
) -> Iterator[CheckResult]:
    """Run the checks between the login and the GPUs. With `is_gpu_only`, yield only a failed Docker check."""
    if is_gpu_only:
        docker = run_check(result.DOCKER, engine.docker, host) if engine is not None else None
        if docker is not None and docker.state == result.BROKEN:
            yield docker
        return
    checks: dict[str, Callable[[], CheckResult]] = {
        result.CLOCK: lambda: clock(host),
        result.TOOLS: lambda: tools(target, host),
    }
    if engine is not None:
        checks |= {result.DOCKER: engine.docker, result.ENGINE: engine.engine, result.DISK: engine.disk}
    else:
        checks |= {result.PYTHON: lambda: python(target, host), result.DISK: lambda: disk_of_home(target, host)}
    if target.kind.has_scheduler:
        slurm = SlurmChecks(target, host)
        checks |= {result.SLURM: slurm.slurm, result.RUN_ROOT: slurm.run_root, result.DISK: slurm.disk}
    if target.kind.spark_master:
        checks |= {result.SPARK: lambda: spark(implementation), result.YARN: lambda: yarn(target, host)}
    checks[result.RESERVATIONS] = lambda: reservations(target, host)
    checks[result.READY] = lambda: ready(implementation)
    if target.kind.runs_here:
        checks[result.PYTHON] = lambda: local_python(implementation)
    for name in _machine_checks(target):
        if name in checks:
            yield run_check(name, checks[name], host)


# -- connection ------------------------------------------------------------------------------------------------------


def _connection(target: ComputeTarget, host: Host) -> Iterator[CheckResult]:
    """Check the name, port, host key and login by logging in once. The error of the login names the failed check."""
    started = time.monotonic()
    try:
        host.run(["true"])
    except TargetUnreachable as error:
        failed_check = getattr(error, "failed_check", result.LOGIN)
        for name in _CONNECTION[: _CONNECTION.index(failed_check)]:
            yield CheckResult(name, result.OK, _PASSED[name])
        command, there = _fix(target, error)
        yield failure(failed_check, error, host.label, command, there=there)
        return
    seconds = time.monotonic() - started
    status = host.status() if isinstance(host, SshHost) else {}
    yield CheckResult(result.NAME, result.OK, _resolved(target, status.get("peer", "")))
    yield CheckResult(result.PORT, result.OK, f"{status.get('server') or 'an SSH server'} answers")
    yield CheckResult(result.HOST_KEY, result.OK, _PASSED[result.HOST_KEY])
    yield CheckResult(
        result.LOGIN, result.OK, f"logged in as {status.get('username') or target.username} ({seconds:.1f} s)"
    )


def _resolved(target: ComputeTarget, peer: str) -> str:
    host = login_of(target).host_and_port[0]
    if not peer:
        return f"{host} is reached through a jump host"
    return f"{host} is an IP address" if peer == host else f"{host} resolves to {peer}"


_PASSED = {
    result.NAME: "the name resolves",
    result.PORT: "an SSH server answers",
    result.HOST_KEY: "the host key is known",
}


def _fix(target: ComputeTarget, error: TargetUnreachable) -> tuple[str, bool]:
    """Return the command that fixes or explains a failed login, and True if it must be run on the target's machine."""
    name = shlex.quote(target.name)
    if isinstance(error, HostKeyRefused) and error.presented and not error.known:
        return f"workbench-tui computetarget check {name} --accept-host-key {error.presented}", False
    if isinstance(error, SecretNeeded):
        return f"workbench-tui computetarget login {name}", False
    quoted = re.search(r"`(ssh[^`]*)`", error.remedy)
    ssh_command = quoted[1] if quoted else ""
    if isinstance(error, HostKeyRefused | LoginRefused):
        # Only the error knows whether the target, a jump host or the configuration is wrong.
        return ssh_command, False
    if isinstance(error, ConnectionLost) and error.failed_check == result.NAME:
        return f"workbench-tui config set {shlex.quote(target.name + '.compute')} address HOST", False
    if isinstance(error, ConnectionLost) and error.failed_check == result.PORT:
        # The remedy names `ssh` if the ProxyCommand of this machine failed.
        return (ssh_command, False) if ssh_command else ("sudo systemctl enable --now ssh", True)
    return f"ssh -v {login_of(target).ssh_words} true", False
