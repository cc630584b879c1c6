"""`computetarget check`: the run_checks, rung by rung as it is answered."""

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
from tui_workbench.targets.checks.check import run_checks
from tui_workbench.targets.checks.result import BROKEN, CheckResult
from tui_workbench.targets.hosts.host import HostKeyRefused, SecretNeeded
from tui_workbench.targets.hosts.host_for import host_of
from tui_workbench.targets.ssh.ssh_host import SshHost

COLUMNS = ("rung", "state", "message", "command")
_STATE_WIDTH, _NAME_WIDTH = 8, 14

HOST_KEYS = option(
    "--accept-host-key", metavar="SHA256:...", action="append", default=[],
    help="accept the machine's host key, once and for good, if it has this fingerprint",
)  # fmt: skip
RESULT = output(TEXT, example="[?state=='broken']")

configure_check = options(option("name", metavar="NAME", help="the compute target"), HOST_KEYS, RESULT)


def run_check(arguments: argparse.Namespace) -> int:
    """Ask rung by rung; 4 when one is broken."""
    target = Project.find(arguments.project).target(arguments.name)
    try:
        host = host_of(target)
    except WorkbenchError:
        host = None  # the first rung says why
    accept_host_keys(host, arguments.accept_host_key)
    rungs = climb(run_checks(target), target, arguments)
    if rungs and _can_be_settled(rungs[-1]) and isinstance(host, SshHost) and is_text(arguments):
        log_in(host)
        rungs = climb(run_checks(target), target, arguments)
    return report(rungs, arguments)


def climb(rungs: Iterable[CheckResult], target: ComputeTarget, arguments: argparse.Namespace) -> list[CheckResult]:
    """Run every check of a target; as text, print each result at once."""
    answered = []
    for rung in rungs:
        answered.append(rung)
        if is_text(arguments):
            write_lines(_lines(rung, target.address or "this machine"))
    return answered


def report(rungs: list[CheckResult], arguments: argparse.Namespace) -> int:
    """Print the rungs unless `climb` has. Returns the exit code."""
    emit([record(rung) for rung in rungs], arguments, COLUMNS, text=())
    return exit_code(rungs)


def accept_host_keys(host: object, fingerprints: Iterable[str]) -> None:
    """Accept the keys that the user named, where the host is another machine."""
    if isinstance(host, SshHost):
        for fingerprint in fingerprints:
            host.accept_host_key(fingerprint)


def _lines(rung: CheckResult, place: str) -> list[str]:
    """A rung for people: the answer, the remedy, and the command on a line of its own."""
    indent = " " * (_STATE_WIDTH + 2)
    lines = [f"{rung.state:{_STATE_WIDTH}}  {rung.name:{_NAME_WIDTH}}  {rung.message}"]
    if rung.remedy:
        lines += [f"{indent}{line}" for line in rung.remedy.split("\n")]
    if rung.command:
        lines += [f"{indent}{f'On {place}' if rung.there else 'Here'}, copy this:", f"{indent}    {rung.command}"]
    return lines


def record(rung: CheckResult) -> dict[str, Any]:
    """A rung as data."""
    return {
        "rung": rung.name,
        "state": rung.state,
        "message": rung.message,
        "remedy": rung.remedy or None,
        "command": rung.command or None,
        "command_runs_on": ("target" if rung.there else "here") if rung.command else None,
    }


def exit_code(rungs: list[CheckResult]) -> int:
    """0, or that of a target that cannot be used."""
    return TargetUnreachable.exit_code if any(rung.state == BROKEN for rung in rungs) else 0


def _can_be_settled(rung: CheckResult) -> bool:
    """Whether a person at the terminal can mend it on the spot."""
    is_new_key = isinstance(rung.error, HostKeyRefused) and not rung.error.known
    return (is_new_key or isinstance(rung.error, SecretNeeded)) and can_ask()
