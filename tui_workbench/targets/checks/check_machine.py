"""Checks of a machine itself: its Python, disk and clock. Each asks one thing and changes nothing."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence

from tui_workbench.core.model import ComputeTarget, Problem
from tui_workbench.targets.base.protocol import Target
from tui_workbench.targets.checks.result import CLOCK, DISK, OK, PYTHON, READY, TOOLS, WARNING, CheckFailed, CheckResult
from tui_workbench.targets.hosts.host import Host
from tui_workbench.targets.hosts.reaching import require_tools, slow_shell

PYTHON_SECONDS = 20.0
"""An interpreter on a cold network disk takes seconds; one that takes longer runs no script either."""

DISK_BROKEN_BYTES, DISK_WARNING_BYTES = 2 << 30, 20 << 30
"""A CUDA image takes 7 GB to 15 GB, and twice that while it is unpacked."""

CLOCK_WARNING_SECONDS, CLOCK_BROKEN_SECONDS = 5.0, 300.0
"""Files from there seem to be of another time; beyond five minutes, tokens and certificates are refused as well."""

# A folder that does not exist yet, or that this user may not enter, lies on the disk of the nearest one that does.
_FREE = """\
for folder in "$@"; do
    while ! df -Pk -- "$folder" >/dev/null 2>&1 && [ "$folder" != / ]; do folder=$(dirname -- "$folder"); done
    df -Pk -- "$folder" | tail -n 1
done
"""


def local_python(target: Target) -> CheckResult:
    """The interpreter of a target on this machine. Raises CheckFailed."""
    file = shlex.quote(f"{target.target.name}.compute")
    _refuse(target.check(), f"workbench-tui config set {file} pythonLocation /path/to/python")
    return CheckResult(PYTHON, OK, f"{target.target.python_location} is there")


def ready(target: Target) -> CheckResult:
    """What the implementation of a type that another package adds says itself. Raises CheckFailed."""
    _refuse(target.check())
    return CheckResult(READY, OK, "nothing stands in the way of a run")


def _refuse(problems: Sequence[Problem], command: str = "") -> None:
    if problems:
        problem = problems[0]
        raise CheckFailed(problem.message, problem.remedy, command, file=problem.file, line=problem.line)


def tools(target: ComputeTarget, host: Host) -> CheckResult:
    """The programs that runs need on another machine, and its shell. Raises ConfigurationError, TargetUnreachable."""
    require_tools(target, host)
    if said := slow_shell(host):
        return CheckResult(
            TOOLS, WARNING, said, "Let the start-up files return early where the shell is not interactive."
        )
    return CheckResult(TOOLS, OK, "the programs that runs need are there")


def python(target: ComputeTarget, host: Host) -> CheckResult:
    """The interpreter on another machine. Raises CheckFailed, TargetUnreachable."""
    location = target.python_location
    # `~` is ours to understand: nothing is expanded on the way there.
    words = ["sh", "-c", 'case $1 in "~/"*) set -- "$HOME/${1#??}";; esac; exec "$1" --version', "sh", location]
    done = host.run(words, timeout=PYTHON_SECONDS)
    version = (done.text or done.stderr.decode("utf-8", "replace")).strip()
    if done.code == 0 and version.startswith("Python "):
        return CheckResult(PYTHON, OK, f"{location} is {version}")
    file = shlex.quote(f"{target.name}.compute")
    raise CheckFailed(
        f"{location} is no Python there: {done.complaint}",
        "Set pythonLocation to the full path of an interpreter on that machine.",
        f"workbench-tui config set {file} pythonLocation /path/to/python",
        file=target.path,
    )


def disk_of_home(target: ComputeTarget, host: Host) -> CheckResult:
    """The disk that holds our folder there. Raises CheckFailed, TargetUnreachable."""
    return disk(host, [host.home()], clean_command(target))


def clean_command(target: ComputeTarget) -> str:
    """What removes from a target that which runs have left there."""
    return f"workbench-tui experiment clean -t {shlex.quote(target.name)}"


def disk(host: Host, folders: Sequence[str], command: str) -> CheckResult:
    """The free space of the folders' disks; `command` frees some. Raises CheckFailed or WorkbenchError."""
    lines = host.check(["sh", "-c", _FREE, "sh", *folders]).text.split("\n")
    rows = [(words[0], int(words[3]) << 10, words[5]) for words in (line.split(None, 5) for line in lines)]
    # One disk may be mounted in two places.
    free = {(source, size): mount for source, size, mount in reversed(rows)}
    (_, least), place = min(free.items(), key=lambda item: item[0][1])
    text = ", ".join(f"{size / 1e9:.1f} GB free on {mount}" for (_, size), mount in free.items())
    if least < DISK_BROKEN_BYTES:
        raise CheckFailed(
            f"the disk there is full: {least / 1e9:.1f} GB free on {place}",
            "Remove what runs left there, or what else takes the space.",
            command,
        )
    if least < DISK_WARNING_BYTES:
        return CheckResult(
            DISK, WARNING, text, "A CUDA image takes 7 GB to 15 GB, and twice that while unpacked.", command
        )
    return CheckResult(DISK, OK, text)


def clock(host: Host) -> CheckResult:
    """The difference between its clock and ours. Raises CheckFailed, TargetUnreachable."""
    before = time.time()
    there = int(host.check(["date", "-u", "+%s"]).text)
    # `date` gives whole seconds, cut off; and the question took time.
    ahead = max(0.0, there - time.time()) - max(0.0, before - there - 1)
    text = f"{abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} this machine's"
    command = "sudo timedatectl set-ntp true"
    if abs(ahead) > CLOCK_BROKEN_SECONDS:
        raise CheckFailed(f"its clock is {text}", "Let it be set by NTP.", command)
    if abs(ahead) > CLOCK_WARNING_SECONDS:
        return CheckResult(
            CLOCK, WARNING, f"its clock is {text}", "Times of files look wrong here.", command, there=True
        )
    return CheckResult(CLOCK, OK, "its clock agrees with this machine's")
