"""`computetarget check`: check that a target can be used, and suggest fixes."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from tui_workbench.cli.shared.output import TEXT, emit, is_text, output, write_lines
from tui_workbench.cli.shared.parser import option, options
from tui_workbench.cli.shared.prompts import can_ask, log_in
from tui_workbench.core.errors import TargetUnreachable, WorkbenchError
from tui_workbench.core.model import ComputeTarget
from tui_workbench.projects.project import Project
from tui_workbench.targets.checks.result import BROKEN, CheckResult
from tui_workbench.targets.hosts.host import HostKeyRefused, SecretNeeded
from tui_workbench.targets.registry import checks_for
from tui_workbench.targets.ssh.host_for import host_of
from tui_workbench.targets.ssh.ssh_host import SshHost

COLUMNS = ("check", "state", "message", "command")
_STATE_WIDTH, _NAME_WIDTH = 8, 14

HOST_KEYS = option(
    "--accept-host-key", metavar="SHA256:...", action="append", default=[],
    help="accept and remember the machine's host key if it has this fingerprint",
)  # fmt: skip
RESULT = output(TEXT, example="[?state=='broken']")

JOB = option("--job", action="store_true", help="on Slurm, also run a one-second job that writes to runRoot")

configure_check = options(option("name", metavar="NAME", help="the compute target"), JOB, HOST_KEYS, RESULT)


def run_check(arguments: argparse.Namespace) -> int:
    """Check a target. Return 4 if a check fails."""
    target = Project.find(arguments.project).target(arguments.name)
    try:
        host = host_of(target)
    except WorkbenchError:
        host = None  # the first check reports the error
    accept_host_keys(host, arguments.accept_host_key)
    asking = host if isinstance(host, SshHost) and is_text(arguments) and can_ask() else None
    if asking is not None:
        asking.attend()
    checks = print_checks(checks_for(target).run(with_job=arguments.job), target, arguments)
    if asking is not None and checks and _needs_user(checks[-1]):
        log_in(asking)
        checks = print_checks(checks_for(target).run(with_job=arguments.job), target, arguments)
    return report(checks, arguments)


def print_checks(
    checks: Iterable[CheckResult], target: ComputeTarget, arguments: argparse.Namespace
) -> list[CheckResult]:
    """Run the checks of a target and return the results; with `-o text`, print each result immediately."""
    results = []
    for check in checks:
        results.append(check)
        if is_text(arguments):
            write_lines(_lines(check, check.place or target.address or "this machine"))
    return results


def report(checks: list[CheckResult], arguments: argparse.Namespace) -> int:
    """Print the checks, unless `print_checks` has already printed them as text. Return the exit code."""
    emit([record(check) for check in checks], arguments, COLUMNS, text=())
    return exit_code(checks)


def accept_host_keys(host: object, fingerprints: Iterable[str]) -> None:
    if isinstance(host, SshHost):
        for fingerprint in fingerprints:
            host.accept_host_key(fingerprint)


def _lines(check: CheckResult, machine_name: str) -> list[str]:
    """Format a check as text, with the fix and its command on their own lines."""
    indent = " " * (_STATE_WIDTH + 2)
    lines = [f"{check.state:{_STATE_WIDTH}}  {check.name:{_NAME_WIDTH}}  {check.message}"]
    if check.remedy:
        lines += [f"{indent}{line}" for line in check.remedy.split("\n")]
    if check.command:
        lines += [f"{indent}Run on {machine_name if check.there else 'this machine'}:", f"{indent}    {check.command}"]
    return lines


def record(check: CheckResult) -> dict[str, Any]:
    """Return a check as a dict for JSON and tables."""
    return {
        "check": check.name,
        "rung": check.name,  # the former name of `check`
        "state": check.state,
        "message": check.message,
        "remedy": check.remedy or None,
        "command": check.command or None,
        "command_runs_on": ("target" if check.there else "here") if check.command else None,
    }


def exit_code(checks: list[CheckResult]) -> int:
    return TargetUnreachable.exit_code if any(check.state == BROKEN for check in checks) else 0


def _needs_user(check: CheckResult) -> bool:
    """Return True if a missing secret or an unknown host key made the check fail."""
    is_new_key = isinstance(check.error, HostKeyRefused) and not check.error.known
    return is_new_key or isinstance(check.error, SecretNeeded)
