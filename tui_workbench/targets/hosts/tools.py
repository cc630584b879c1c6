"""The programs that runs need on another machine, and the start time of its shell."""

from __future__ import annotations

from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.model import ComputeTarget
from tui_workbench.targets.hosts.host import Host

SLOW_SECONDS = 2.0
"""Warn about a shell that takes longer than this to start, in seconds. Every step of a run starts a shell."""

TOOLS = (
    "cat", "cmp", "cp", "cut", "du", "find", "grep", "head", "ls", "mkdir", "mv", "rm", "rmdir", "sed", "setsid",
    "sha256sum", "sleep", "sort", "tail", "tar", "touch", "tr", "wc", "xargs",
)  # fmt: skip

_MISSING = 'for tool; do command -v "$tool" >/dev/null 2>&1 || printf \'%s\\n\' "$tool"; done'


def require_tools(target: ComputeTarget, host: Host) -> None:
    """Raise ConfigurationError if a tool is missing, and TargetUnreachable if the machine does not answer."""
    missing = host.check(["sh", "-c", _MISSING, "sh", *TOOLS]).text.split()
    if missing:
        raise ConfigurationError(
            f"{host.label} lacks programs that runs need: {', '.join(missing)}",
            remedy="Install coreutils, diffutils, findutils, grep, sed, tar and util-linux on that machine.",
            file=target.path,
        )


def slow_shell(host: Host) -> str:
    """Return a warning about a machine whose shell starts slowly, or ""."""
    seconds = host.shell_seconds
    if seconds < SLOW_SECONDS:
        return ""
    return f"starting a shell on {host.label} takes {seconds:.0f} s: start-up files such as ~/.bashrc may be slow"
