"""What the processes of a run tell of CUDA themselves, where none of them is seen on a GPU: asked of /proc there."""

from __future__ import annotations

from tui_workbench.records import TYPE_CHECKING
from tui_workbench.targets.remote_scripts import PROCESSES_OF_RUN

if TYPE_CHECKING:
    from typing import Any

    from tui_workbench.targets.host import Host

_FACTS = f"""\
id=$1
{PROCESSES_OF_RUN}
for pid in $(left); do
    [ -r /proc/"$pid"/maps ] && echo seen
    grep -qs 'libcuda\\.so' /proc/"$pid"/maps && echo cuda
    tr '\\0' '\\n' </proc/"$pid"/environ | sed -n 's/^CUDA_VISIBLE_DEVICES=/visible=/p'
    ls -l /proc/"$pid"/fd | sed -n 's|.*/dev/nvidia\\([0-9][0-9]*\\)$|device=\\1|p'
done 2>/dev/null | sort -u
exit 0
"""


def facts_of(host: Host, run_id: str) -> dict[str, Any]:
    """`cuda`: whether one has loaded it; `visible`: their CUDA_VISIBLE_DEVICES; `open`: devices that they have open.

    Empty when none of them can be looked at. Raises TargetUnreachable.
    """
    lines = host.run(["sh", "-c", _FACTS, "sh", run_id]).text.split("\n")
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
