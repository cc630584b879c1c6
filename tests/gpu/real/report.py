"""The report of the suite: JSON, and a page for the documentation."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


class Result(NamedTuple):
    """The outcome of one check, and what it found."""

    name: str
    outcome: str
    detail: str
    seconds: float

    @property
    def title(self) -> str:
        return self.name.replace("_", " ")


def summary(results: Sequence[Result]) -> str:
    """Return the last line of the suite's output."""
    counts = {outcome: sum(each.outcome == outcome for each in results) for outcome in (PASSED, FAILED, SKIPPED)}
    return ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count or outcome != SKIPPED)


def write(folder: Path, machine: Mapping[str, str], results: Sequence[Result], *, is_rehearsal: bool) -> None:
    """Write `report.json` and `proved-on.md`."""
    value = {"machine": dict(machine), "stand_ins": is_rehearsal, "results": [each._asdict() for each in results]}
    (folder / "report.json").write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    (folder / "proved-on.md").write_text(page(machine, results, is_rehearsal=is_rehearsal), encoding="utf-8")


def page(machine: Mapping[str, str], results: Sequence[Result], *, is_rehearsal: bool) -> str:
    """Return the page of the documentation."""
    lines = ["# Proved on a GPU", ""]
    if is_rehearsal:
        lines += ["A rehearsal with stand-in GPUs. It proves nothing about GPUs.", ""]
    lines += ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in machine.items()), ""]
    lines += [f"{summary(results)}. In parentheses: the value of `nvidia-smi`, queried at the same time.", ""]
    lines += ["| check | outcome | found |", "|---|---|---|"]
    lines += [f"| {each.title} | {each.outcome} | {_cell(each.detail)} |" for each in results]
    return "\n".join(lines) + "\n"


def describe(device: Mapping[str, str], python: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Describe the machine, whose scripts run with `python` and these variables."""
    words = [python, "-c", "import torch; print(torch.__version__, 'with CUDA', torch.version.cuda)"]
    torch = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **variables})
    return {
        "GPU": device["name"],
        "memory": f"{device['memory.total']} MiB",
        "driver": device["driver_version"],
        "PyTorch": torch.stdout.strip() or torch.stderr.strip(),
        "kernel": platform.release(),
        "date": time.strftime("%Y-%m-%d"),
    }


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")[:400]
