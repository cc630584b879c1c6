"""`computetarget check`: the ladder, rung by rung as it is answered."""

from __future__ import annotations

import sys

from tui_workbench.cli.asking import can_ask, log_in
from tui_workbench.cli.output import FORMATS, add_plain_option, add_project_option, emit
from tui_workbench.errors import TargetUnreachable, WorkbenchError
from tui_workbench.plaintext import visible
from tui_workbench.project import Project
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.targets.check import BROKEN, ladder
from tui_workbench.targets.host import HostKeyRefused, SecretNeeded
from tui_workbench.targets.host_for import host_of
from tui_workbench.targets.ssh import SshHost

if TYPE_CHECKING:
    import argparse
    from typing import Any

    from tui_workbench.model import ComputeTarget
    from tui_workbench.targets.check import Rung

TEXT = "text"
COLUMNS = ("rung", "state", "message", "command")
_STATE_WIDTH, _NAME_WIDTH = 8, 14


def configure_check(parser: argparse.ArgumentParser) -> None:
    """Options of `computetarget check`."""
    parser.add_argument("name", metavar="NAME", help="the compute target")
    add_host_key_option(parser)
    add_result_options(parser)


def run_check(arguments: argparse.Namespace) -> int:
    """Ask rung by rung; 4 when one is broken."""
    target = Project.find(arguments.project).target(arguments.name)
    try:
        host = host_of(target)
    except WorkbenchError:
        host = None  # the first rung says why
    if isinstance(host, SshHost):
        for fingerprint in arguments.accept_host_key:
            host.accept_host_key(fingerprint)
    rungs = climb(target, in_text=is_text(arguments))
    if rungs and _can_be_settled(rungs[-1]) and isinstance(host, SshHost) and is_text(arguments):
        log_in(host)
        rungs = climb(target, in_text=True)
    if not is_text(arguments):
        emit([record(rung) for rung in rungs], arguments, COLUMNS)
    return exit_code(rungs)


def add_host_key_option(parser: argparse.ArgumentParser) -> None:
    """`--accept-host-key FINGERPRINT`, for the machine and each jump host."""
    parser.add_argument(
        "--accept-host-key", metavar="SHA256:...", action="append", default=[],
        help="accept the machine's host key, once and for good, if it has this fingerprint",
    )  # fmt: skip


def add_result_options(parser: argparse.ArgumentParser) -> None:
    """`-o`, `--query` and `--project`; text for people is the default."""
    add_project_option(parser)
    parser.add_argument("-o", "--output", choices=(TEXT, *FORMATS), default=TEXT, help="default: %(default)s")
    add_plain_option(parser)
    parser.add_argument("--query", metavar="JMESPATH", help="pick from the result, as in \"[?state=='broken']\"")


def is_text(arguments: argparse.Namespace) -> bool:
    """Whether the result is for a person."""
    return arguments.output == TEXT and not arguments.query


def climb(target: ComputeTarget, *, in_text: bool) -> list[Rung]:
    """Ask every rung; with `in_text` each is printed as soon as it is answered."""
    rungs = []
    for rung in ladder(target):
        rungs.append(rung)
        if in_text:
            for line in lines_of(rung, target.address or "this machine"):
                sys.stdout.write(visible(line) + "\n")
            sys.stdout.flush()
    return rungs


def lines_of(rung: Rung, place: str) -> list[str]:
    """A rung for people: the answer, the remedy, and the command on a line of its own."""
    indent = " " * (_STATE_WIDTH + 2)
    lines = [f"{rung.state:{_STATE_WIDTH}}  {rung.name:{_NAME_WIDTH}}  {rung.message}"]
    if rung.remedy:
        lines.append(f"{indent}{rung.remedy}")
    if rung.command:
        lines += [f"{indent}{f'On {place}' if rung.there else 'Here'}, copy this:", f"{indent}    {rung.command}"]
    return lines


def record(rung: Rung) -> dict[str, Any]:
    """A rung as data."""
    return {
        "rung": rung.name,
        "state": rung.state,
        "message": rung.message,
        "remedy": rung.remedy or None,
        "command": rung.command or None,
        "command_runs_on": ("target" if rung.there else "here") if rung.command else None,
    }


def exit_code(rungs: list[Rung]) -> int:
    """0, or that of a target that cannot be used."""
    return TargetUnreachable.exit_code if any(rung.state == BROKEN for rung in rungs) else 0


def _can_be_settled(rung: Rung) -> bool:
    """Whether a person at the terminal can mend it on the spot."""
    if isinstance(rung.error, HostKeyRefused):
        return not rung.error.known and can_ask()
    return isinstance(rung.error, SecretNeeded) and can_ask()
