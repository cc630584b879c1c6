"""Declare the options of Slurm jobs: `slurm` of a compute target, and `Slurm` of a run configuration.

Source of the formats of `time` and `mem`: sbatch(1), sections `--time` and `--mem`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tui_workbench.config.schema.field_types import BOOLEAN, INTEGER, STRINGS, Field

SECTION, OVERRIDE = "slurm", "Slurm"
"""The sections of a compute target and of a run configuration. Values of the run configuration take precedence."""

NODES_FIELD = Field(
    "Nodes",
    "Number of nodes on which the script starts. Overrides `slurm.nodes` of the target. With `ProcessesPerNode`, "
    "torchrun connects the processes of all nodes. The default is 1.",
    INTEGER,
    example="2",
    minimum=1,
    source="workbench",
)
NODES = NODES_FIELD.key
"""The key of a run configuration that has the same meaning as `Slurm.nodes`."""

RESERVED = (
    "--array",
    "--chdir",
    "--clusters",
    "--error",
    "--export",
    "--job-name",
    "--no-requeue",
    "--open-mode",
    "--output",
    "--parsable",
    "--requeue",
    "--signal",
    "--test-only",
    "--wait",
    "--wrap",
)
"""The options of sbatch that the workbench sets, or that change the output of sbatch."""

TIME = r"\d+|\d+:\d+(:\d+)?|\d+-\d+(:\d+){0,2}"
MEMORY = r"\d+[KMGTkmgt]?"
LONG_OPTION = r"--[a-z][a-z0-9-]*(=[^\x00-\x1f]*)?"

_WORD, _WORD_FORM = r"[^\x00-\x20]+", "text without spaces"

_OPTIONS = (
    Field(
        "partition",
        "Partition, or several partitions separated by commas.",
        pattern=_WORD,
        form=_WORD_FORM,
        example="gpu",
    ),
    Field("account", "Account that the job is charged to.", pattern=_WORD, form=_WORD_FORM, example="lab"),
    Field("qos", "Quality of service.", pattern=_WORD, form=_WORD_FORM, example="normal"),
    Field(
        "time",
        "Time limit of the job. By default, the default limit of the partition applies.",
        pattern=TIME,
        form="minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS",
        example="4:00:00",
    ),
    Field("nodes", "Number of nodes.", INTEGER, minimum=1, example="1"),
    Field("gpus", "Number of GPUs of the job.", INTEGER, minimum=0, example="1"),
    Field("cpus", "CPUs per task.", INTEGER, minimum=1, example="8"),
    Field(
        "mem",
        "Memory of each node, in MiB unless you give a unit.",
        pattern=MEMORY,
        form="a number of MiB, or a number with K, M, G or T",
        example="32G",
    ),
    Field("constraint", "Features that the nodes must have.", pattern=_WORD, form=_WORD_FORM, example="a100"),
    Field("requeue", "Lets Slurm restart the job after a preemption or a node failure.", BOOLEAN, default=False),
    Field(
        "extra",
        "More options for sbatch. Options that the workbench sets itself are refused.",
        STRINGS,
        default=(),
        pattern=LONG_OPTION,
        form="`--NAME` or `--NAME=VALUE`",
        reserved=RESERVED,
        example="[--reservation=x]",
    ),
)

TARGET_OPTIONS = tuple(field._replace(key=f"{SECTION}.{field.key}", source="workbench") for field in _OPTIONS)
RUN_OPTIONS = tuple(
    field._replace(
        key=f"{OVERRIDE}.{field.key}",
        help=f"{field.help} Overrides `{SECTION}.{field.key}` of the target.",
        source="workbench",
        default=None,
    )
    for field in _OPTIONS
)
"""`TARGET_OPTIONS` for a run configuration. An empty value removes the value of the target."""


def requested_gpus(options: Mapping[str, Any]) -> int | None:
    """Return the number of GPUs of a job with these options, or None if `extra` may request GPUs."""
    count: int = options.get("gpus", 0)
    return None if not count and any("gpu" in option for option in options.get("extra", ())) else count


_UNITS = re.compile(r"(\d+) ?([KMGT])i?B?", re.IGNORECASE)
_SPAN = re.compile(r"(\d+) ?(d|h|m|min)", re.IGNORECASE)


def corrected(field: Field, text: str) -> str:
    """Convert a memory size such as `32 GB` or a time such as `4h` to Slurm's format. Return "" for other texts."""
    if field.pattern == MEMORY and (size := _UNITS.fullmatch(text.strip())):
        return size[1] + size[2].upper()
    if field.pattern == TIME and (span := _SPAN.fullmatch(text.strip())):
        return {"d": f"{span[1]}-00", "h": f"{span[1]}:00:00"}.get(span[2].lower(), span[1])
    return ""
