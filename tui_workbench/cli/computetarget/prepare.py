"""`computetarget prepare|cloud-init`: install missing software, or write a cloud-init file for a new machine."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence

from tui_workbench.cli.shared.output import TEXT, emit, is_text, notify, output, write_lines
from tui_workbench.cli.shared.parser import option, options
from tui_workbench.cli.shared.prompts import confirm_list, ensure_login
from tui_workbench.core.errors import UsageError, storage_errors
from tui_workbench.core.files import write_atomically
from tui_workbench.core.plaintext import counted, visible
from tui_workbench.projects.project import Project
from tui_workbench.targets.preparing.cloud_init import cloud_init, read_public_key
from tui_workbench.targets.preparing.preparation import MISSING, RESTART, Machine, StepResult, missing_commands

COLUMNS = ("step", "state", "message", "commands")
_STATE_WIDTH, _NAME_WIDTH = 8, 14

configure_prepare = options(
    option("name", metavar="NAME", help="the compute target"),
    option("--dry-run", action="store_true", help="print the commands and run nothing"),
    option("-y", "--yes", action="store_true", help="run the commands without asking"),
    output(TEXT, example="[?state=='missing']"),
    epilog="""\
Looks for the NVIDIA driver and, depending on the type of the target, for
Python, or for Docker Engine, the group docker and the NVIDIA Container Toolkit.
Prints the commands that install the missing parts, and runs them as root if you
agree. Supports Ubuntu 22.04, Debian 12 and newer versions.""",
)
configure_cloud_init = options(
    option(
        "--key", dest="public_key_file", metavar="FILE", default="", help="the public SSH key for logins on the machine"
    ),
    option("--username", metavar="USER", default="", help="create this user (default: only the user of the image)"),
    option("-f", "--file", dest="new_file", metavar="FILE", default="", help="write to this file (default: stdout)"),
    option("-y", "--yes", action="store_true", help="replace an existing file without asking"),
    epilog="""\
Give the file to a cloud provider as the user data (custom data) of a new
machine with Ubuntu or Debian. At its first boot, the machine installs Python
and Docker Engine and, if it has an NVIDIA GPU, the NVIDIA driver and the NVIDIA
Container Toolkit. It restarts if this is necessary to load the driver.""",
)


def run_prepare(arguments: argparse.Namespace) -> int:
    """Print the missing software of a machine, and install it if the user agrees."""
    target = Project.find(arguments.project).target(arguments.name)
    machine = Machine(target)
    ensure_login(target)
    results = machine.look()
    machine_name = target.address or "this machine"
    if is_text(arguments):
        write_lines(_lines(results, machine_name))
    commands = missing_commands(results)
    if commands and not arguments.dry_run and _is_agreed(results, machine_name, arguments):
        show = write_lines if is_text(arguments) else _to_stderr
        for line in machine.install(results):
            show([line])
        ensure_login(target)  # the connection was closed if the user has joined a group
        results = machine.verify()
        if is_text(arguments):
            write_lines(["", *_lines(results, machine_name)])
    emit(_records(results, arguments), arguments, COLUMNS, text=_next_step(results, target.name))
    return 0


def _is_agreed(results: Sequence[StepResult], machine_name: str, arguments: argparse.Namespace) -> bool:
    if arguments.yes:
        return True
    if not is_text(arguments) and not sys.stdin.isatty():
        emit(_records(results, arguments), arguments, COLUMNS)
    question = f"Run {counted(missing_commands(results), 'command')} as root on {visible(machine_name)}?"
    return confirm_list((), question, "Nothing was run. Add `--yes` to run the commands without asking.")


def _to_stderr(lines: Sequence[str]) -> None:
    sys.stderr.write("".join(f"{visible(line)}\n" for line in lines))
    sys.stderr.flush()


def _lines(results: Sequence[StepResult], machine_name: str) -> list[str]:
    indent = " " * (_STATE_WIDTH + 2)
    lines = []
    for result in results:
        lines.append(f"{result.state:{_STATE_WIDTH}}  {result.step.name:{_NAME_WIDTH}}  {result.message}")
        if result.commands:
            lines.append(f"{indent}Run as root on {machine_name}:")
            lines += [f"{indent}    {command}" for command in result.commands]
            lines += [f"{indent}{result.step.warning}"] if result.step.warning else []
    return lines


def _next_step(results: Sequence[StepResult], name: str) -> list[str]:
    if missing_commands(results):
        return []
    check = f"workbench-tui computetarget check {shlex.quote(name)}"
    if any(result.state == RESTART for result in results):
        return [f"Restart the machine. Then run: {check}"]
    if any(result.state == MISSING for result in results):
        return [f"Complete the missing steps. Then run: {check}"]
    return [f"Nothing is missing. To check the target, run: {check}"]


def _records(results: Sequence[StepResult], arguments: argparse.Namespace) -> list[dict[str, object]]:
    """Return the steps as dicts. The commands are a list in JSON, and one line for a shell in other formats."""
    is_list = arguments.query or arguments.output == "json"
    return [
        {
            "step": result.step.name,
            "state": result.state,
            "message": result.message,
            "commands": list(result.commands) if is_list else " && ".join(result.commands),
            "warning": (result.step.warning or None) if result.commands else None,
        }
        for result in results
    ]


def run_cloud_init(arguments: argparse.Namespace) -> int:
    """Write the cloud-init file to stdout or to a file."""
    if arguments.username and not arguments.public_key_file:
        raise UsageError(
            "--username needs --key: without a key, this user could not log in",
            remedy="Add `--key FILE` with your public key, or omit --username.",
        )
    key = read_public_key(os.path.expanduser(arguments.public_key_file)) if arguments.public_key_file else ""
    text = cloud_init(arguments.username, key)
    if not arguments.new_file:
        sys.stdout.write(text)
        return 0
    path = os.path.expanduser(arguments.new_file)
    if os.path.lexists(path) and not arguments.yes:
        remedy = "Nothing was written. Add `--yes` to replace the file, or give another name."
        if not confirm_list((), f"{visible(path)} exists. Replace it?", remedy):
            return 0
    with storage_errors("write", path):
        write_atomically(path, text.encode())
    notify(f"wrote {path}")
    return 0
