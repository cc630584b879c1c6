"""Inspect the processes of a run, to explain why none of these processes uses a GPU."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tui_workbench.targets.gpu.vendors import VISIBLE
from tui_workbench.targets.hosts.host import Host
from tui_workbench.targets.hosts.remote_scripts import PROCESSES_OF_RUN

FACTS = f"""\
{PROCESSES_OF_RUN}
facts() {{
    for pid in $(left); do
        [ -r /proc/"$pid"/maps ] && echo seen
        grep -qs -e 'libcuda\\.so' -e 'libamdhip64\\.so' /proc/"$pid"/maps && echo cuda
        tr '\\0' '\\n' </proc/"$pid"/environ | sed -nE 's/^({"|".join(VISIBLE)})=/visible=/p'
        ls -l /proc/"$pid"/fd | sed -n 's|.*/dev/nvidia\\([0-9][0-9]*\\)$|device=\\1|p'
    done 2>/dev/null | sort -u
}}
"""
"""A function of `sh`, `facts`, that prints the facts about the processes of the run `$id`."""


def facts_of(host: Host, run_id: str) -> dict[str, Any]:
    """Inspect a run's processes and return facts about them; empty if none of them can be inspected.

    `cuda` is True if a process has loaded CUDA or HIP. `visible` is the value of one of the variables VISIBLE, if such
    a variable is set. `open` lists the numbers of the open NVIDIA devices, if any are open. Raises TargetUnreachable.
    """
    script = f"id=$1\n{FACTS}\nfacts\nexit 0\n"
    return facts_in(host.run(["sh", "-c", script, "sh", run_id]).text.split("\n"))


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
