"""The verdict on a run, from the files in its directory: stored when it has ended, else from its samples so far."""

from __future__ import annotations

import json
import os

from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs.rundir import GPU_SAMPLES, GPU_VERDICT, OUTPUT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tui_workbench.model import RunConfiguration
    from tui_workbench.runs.gpu.verdict import Verdict
    from tui_workbench.runs.rundir import Ending, RunDirectory


def verdict_of(directory: RunDirectory) -> Verdict | None:
    """The verdict; None for a run that had no GPU in reach. Raises RunNotFound."""
    stored = stored_verdict(directory.path)
    if stored is not None:
        return stored
    if not os.path.exists(directory.file(GPU_SAMPLES)):
        return None
    variables = directory.read_record().spec.run_configuration.environment_variables
    return fresh_verdict(directory.path, variables)


def stored_verdict(directory: str) -> Verdict | None:
    """What was stored at the run's end; None when nothing was, or nothing that this version reads."""
    from tui_workbench.runs.gpu.verdict import from_json

    try:
        with open(os.path.join(directory, GPU_VERDICT), encoding="utf-8") as file:
            return from_json(json.load(file))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def fresh_verdict(directory: str, variables: Mapping[str, str], *, final: bool = False) -> Verdict | None:
    """The verdict by what is there now; None without samples."""
    from tui_workbench.runs.gpu.evidence import evidence_in
    from tui_workbench.runs.gpu.usage import read_usage
    from tui_workbench.runs.gpu.verdict import judge

    usage = read_usage(os.path.join(directory, GPU_SAMPLES))
    if usage is None:
        return None
    return judge(usage, evidence_in(os.path.join(directory, OUTPUT)), variables, final=final)


def store(directory: str, verdict: Verdict) -> None:
    """Write `gpu.json`. Raises StorageError."""
    from tui_workbench.files import write_atomically
    from tui_workbench.runs.gpu.verdict import to_json

    write_atomically(os.path.join(directory, GPU_VERDICT), json.dumps(to_json(verdict), indent=1).encode() + b"\n")


def brief_of(directory: str) -> Mapping[str, Any]:
    """What lists show: the verdict's word, its line, GPU seconds and Wh; without the log while the run goes on."""
    verdict = stored_verdict(directory)
    if verdict is None:
        from tui_workbench.runs.gpu.usage import read_usage
        from tui_workbench.runs.gpu.verdict import judge

        usage = read_usage(os.path.join(directory, GPU_SAMPLES))
        if usage is None:
            return {}
        verdict = judge(usage, (), {}, final=False)
    return {
        "verdict": verdict.word,
        "text": verdict.text,
        "gpu_seconds": round(verdict.gpu_seconds, 2),
        "energy_wh": round(verdict.energy, 3),
    }


def conclude(directory: RunDirectory, configuration: RunConfiguration, ending: Ending) -> Ending:
    """Store the verdict of a run that has ended; the ending as the run configuration's policies want it.

    Without samples nothing is stored. Raises StorageError.
    """
    from tui_workbench.runs.gpu.policies import judged

    verdict = fresh_verdict(directory.path, configuration.environment_variables, final=True)
    if verdict is None:
        return judged(configuration, ending, "", "there was none that it could use")
    store(directory.path, verdict)
    return judged(configuration, ending, verdict.word, verdict.cause)
