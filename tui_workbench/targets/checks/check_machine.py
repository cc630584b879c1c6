"""Checks of a machine: its tools, Python, disk and clock.

A check changes no file that exists, and leaves none.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from tui_workbench.core.model import ComputeTarget, Problem
from tui_workbench.core.plaintext import counted
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.targets.checks.checked import CheckedTarget
from tui_workbench.targets.checks.result import (
    CLOCK,
    DISK,
    OK,
    PYTHON,
    READY,
    RESERVATIONS,
    TOOLS,
    WARNING,
    CheckFailed,
    CheckResult,
)
from tui_workbench.targets.hosts.host import Host
from tui_workbench.targets.hosts.host_layout import try_to_write
from tui_workbench.targets.hosts.run_times import clock_of
from tui_workbench.targets.hosts.tools import require_tools, slow_shell
from tui_workbench.targets.reservations.folder import Folder
from tui_workbench.targets.reservations.watching import reserved_of

PYTHON_SECONDS = 20.0
"""Time limit in seconds for the start of an interpreter, which takes several seconds on a cold network disk."""

DISK_BROKEN_BYTES, DISK_WARNING_BYTES = 2 << 30, 20 << 30
"""Free space in bytes below which the disk check fails, and below which it warns.

A CUDA image takes 7 GB to 15 GB, and twice that while it is unpacked.
"""

CLOCK_WARNING_SECONDS, CLOCK_BROKEN_SECONDS = 5.0, 300.0
"""Difference between two clocks in seconds above which the clock check warns, and above which it fails.

Above 5 s, modification times look wrong. Above 5 minutes, tokens and certificates are rejected as well.
"""

_FREE = shell_script("targets/checks/scripts/free_space.sh")


def local_python(target: CheckedTarget) -> CheckResult:
    """Check the interpreter of a target on this machine. Raises CheckFailed."""
    file = shlex.quote(f"{target.target.name}.compute")
    _raise_first(target.check(), f"workbench-tui config set {file} pythonLocation /path/to/python")
    return CheckResult(PYTHON, OK, f"found {target.target.python_location}")


def ready(target: CheckedTarget) -> CheckResult:
    """Run the checks of a target type that another package adds. Raises CheckFailed."""
    _raise_first(target.check())
    return CheckResult(READY, OK, "ready for runs")


def reservations(target: ComputeTarget, host: Host) -> CheckResult:
    """Check the folder in which the users of the machine reserve GPUs. Raises WorkbenchError."""
    reserved = reserved_of(Folder(host, target).read())
    text = f"{counted(len(reserved.gpus), 'GPU')} reserved, {counted(reserved.waiting, 'waiting run')}"
    return CheckResult(RESERVATIONS, OK, f"{target.gpu_reservations}: {text}")


def _raise_first(problems: Sequence[Problem], command: str = "") -> None:
    if problems:
        problem = problems[0]
        raise CheckFailed(problem.message, problem.remedy, command, file=problem.file, line=problem.line)


def tools(target: ComputeTarget, host: Host) -> CheckResult:
    """Check the programs that runs need on another machine, and the start time of its shell.

    Raises ConfigurationError or TargetUnreachable.
    """
    require_tools(target, host)
    if message := slow_shell(host):
        remedy = "Make the start-up files of the shell return early if the shell is not interactive."
        return CheckResult(TOOLS, WARNING, message, remedy)
    return CheckResult(TOOLS, OK, "all programs that runs need are installed")


def python(target: ComputeTarget, host: Host) -> CheckResult:
    """Check the interpreter on another machine. Raises CheckFailed or TargetUnreachable."""
    location = target.python_location
    # No shell expands `~` in an argument.
    words = ["sh", "-c", 'case $1 in "~/"*) set -- "$HOME/${1#??}";; esac; exec "$1" --version', "sh", location]
    done = host.run(words, timeout=PYTHON_SECONDS)
    version = (done.text or done.stderr.decode("utf-8", "replace")).strip()
    if done.code == 0 and version.startswith("Python "):
        return CheckResult(PYTHON, OK, f"{location} is {version}")
    file = shlex.quote(f"{target.name}.compute")
    raise CheckFailed(
        f"{location} is not a Python interpreter: {done.complaint}",
        "Set pythonLocation to the full path of an interpreter on that machine.",
        f"workbench-tui config set {file} pythonLocation /path/to/python",
        file=target.path,
    )


def disk_of_home(target: ComputeTarget, host: Host) -> CheckResult:
    """Check the disk that holds `~/.workbench-tui` on a machine: its free space, and that files can be written.

    Raises CheckFailed or another WorkbenchError.
    """
    remedy = "Free some space: this disk holds copies of projects and the outputs of runs."
    check_result = disk(host, [host.home()], clean_command(target), remedy)
    require_writable(target, host)
    return check_result


def require_writable(target: ComputeTarget, host: Host) -> None:
    """Write a small file where runs are stored on a machine, and remove it. Raises CheckFailed or TargetUnreachable."""
    tried = try_to_write(host, f"{host.home()}/runs")
    if not tried.complaint:
        return
    message = f"cannot write to {tried.folder}, where runs are stored: {tried.complaint}"
    if tried.is_full:
        raise CheckFailed(
            message,
            "Free some space: the disk has no space or no inodes left, or your quota is used up. `df -h`, `df -i` and "
            "`quota` show what is full. The command removes the files of old runs.",
            clean_command(target),
        )
    if tried.is_read_only:
        raise CheckFailed(message, "Mount the file system for reading and writing, or ask its administrator.")
    raise CheckFailed(message, "Make this a folder that you can write to; `ls -ld` shows its owner and permissions.")


def clean_command(target: ComputeTarget) -> str:
    """Return the command that removes the files of old runs from a target."""
    return f"workbench-tui experiment clean -t {shlex.quote(target.name)}"


def disk(host: Host, folders: Sequence[str], command: str, remedy: str) -> CheckResult:
    """Check the free space on the disks of the folders. Raises CheckFailed or another WorkbenchError.

    `command` frees space, and `remedy` names the files that need space.
    """
    lines = host.check(["sh", "-c", _FREE, "sh", *folders]).text.split("\n")
    rows = [(words[0], int(words[3]) << 10, words[5]) for words in (line.split(None, 5) for line in lines)]
    # One disk may be mounted in two places.
    free = {(source, size): mount for source, size, mount in reversed(rows)}
    (_, least), fullest = min(free.items(), key=lambda item: item[0][1])
    text = ", ".join(f"{size / 1e9:.1f} GB free on {mount}" for (_, size), mount in free.items())
    if least < DISK_BROKEN_BYTES:
        raise CheckFailed(
            f"only {least / 1e9:.1f} GB free on {fullest}",
            "Free some space. The command removes the files of old runs.",
            command,
        )
    if least < DISK_WARNING_BYTES:
        return CheckResult(DISK, WARNING, text, remedy, command)
    return CheckResult(DISK, OK, text)


def clock(host: Host) -> CheckResult:
    """Compare the clock of a machine with the clock of this machine. Raises CheckFailed or another WorkbenchError."""
    difference = clock_of(host)
    ahead = max(0.0, difference.least) + min(0.0, difference.most)
    order = "ahead of" if ahead > 0 else "behind"
    text = f"the clock of {host.label} is {abs(ahead):.0f} s {order} the clock of this machine"
    command = "sudo timedatectl set-ntp true"
    if abs(ahead) > CLOCK_BROKEN_SECONDS:
        raise CheckFailed(text, "Synchronize the clock of that machine with NTP.", command)
    if abs(ahead) > CLOCK_WARNING_SECONDS:
        remedy = "Modification times of files will look wrong. Synchronize the clock of that machine with NTP."
        return CheckResult(CLOCK, WARNING, text, remedy, command)
    return CheckResult(CLOCK, OK, "the clock agrees with the clock of this machine")
