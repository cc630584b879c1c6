"""Inspect the processes of a run, to explain why none of these processes uses a GPU."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.targets.hosts.host import Host

_FACTS = shell_script("targets/gpu/scripts/facts_of_run.sh")


def facts_of(host: Host, run_id: str) -> dict[str, Any]:
    """Inspect a run's processes and return facts about them; empty if none of them can be inspected.

    `cuda` is True if a process has loaded CUDA or HIP. `visible` is the value of one of the variables VISIBLE, if such
    a variable is set. `open` lists the numbers of the open NVIDIA devices, if any are open. Raises TargetUnreachable.
    """
    return facts_in(host.run(["sh", "-c", _FACTS, "sh", run_id]).text.split("\n"))


def facts_in(lines: Iterable[str]) -> dict[str, Any]:
    """Parse the lines that the shell function `facts` prints."""
    lines = tuple(lines)
    if "seen" not in lines:
        return {}
    facts: dict[str, Any] = {"cuda": "cuda" in lines}
    for line in lines:
        name, equals, value = line.partition("=")
        if name == "visible" and equals:
            facts["visible"] = value
        elif name == "device" and value.isdigit():
            facts.setdefault("open", []).append(int(value))
    return facts
