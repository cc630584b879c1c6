"""The checks of the connection to a machine: its name, the port, the host key and the login."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator

from tui_workbench.core.errors import TargetUnreachable
from tui_workbench.core.model import ComputeTarget
from tui_workbench.targets.checks import result
from tui_workbench.targets.checks.result import CheckResult, failure
from tui_workbench.targets.hosts.host import ConnectionLost, Host, HostKeyRefused, LoginRefused, SecretNeeded
from tui_workbench.targets.ssh.ssh_host import SshHost
from tui_workbench.targets.ssh.ssh_wire import login_of

NAMES = (result.NAME, result.PORT, result.HOST_KEY, result.LOGIN)


def check_connection(target: ComputeTarget, host: Host) -> Iterator[CheckResult]:
    """Check the name, port, host key and login by logging in once. The error of the login names the failed check."""
    started = time.monotonic()
    try:
        host.run(["true"])
    except TargetUnreachable as error:
        failed_check = getattr(error, "failed_check", result.LOGIN)
        for name in NAMES[: NAMES.index(failed_check)]:
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
