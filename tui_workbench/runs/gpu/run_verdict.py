"""The GPU verdict of a run: the stored verdict, or one that is derived from the samples so far."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from tui_workbench.runs.gpu.verdict import STALLED, Verdict, stored_verdict, to_json
from tui_workbench.runs.store.rundir import GPU_SAMPLES, RunDirectory


def verdict_of(directory: RunDirectory) -> Verdict | None:
    """Return the GPU verdict of a run, or None without valid GPU samples. Raises RunNotFound."""
    stored = stored_verdict(directory.path)
    if stored is not None:
        return stored
    if not os.path.exists(directory.file(GPU_SAMPLES)):
        return None
    variables = directory.read_record().spec.run_configuration.environment_variables
    return _fresh_verdict(directory.path, variables)


def brief_of(directory: str) -> Mapping[str, Any]:
    """Return the verdict, its text, the GPU seconds and the energy in Wh, for run lists; {} without valid samples.

    The log of an active run is not read.
    """
    verdict = stored_verdict(directory) or _fresh_verdict(directory, {}, with_log=False)
    return verdict_brief(verdict) if verdict is not None else {}


def verdict_brief(verdict: Verdict) -> Mapping[str, Any]:
    """Return a short form of a verdict: the verdict, its text, the GPU seconds and the energy in Wh."""
    whole = to_json(verdict)
    return {key: whole[key] for key in ("verdict", "text", "gpu_seconds", "energy_wh")}


def is_stalled(directory: str) -> bool:
    """Return True if the active run at `directory` is stalled."""
    return brief_of(directory).get("verdict") == STALLED


def _fresh_verdict(directory: str, variables: Mapping[str, str], *, with_log: bool = True) -> Verdict | None:
    if not os.path.exists(os.path.join(directory, GPU_SAMPLES)):
        return None
    from tui_workbench.runs.gpu.judging import fresh_verdict

    return fresh_verdict(directory, variables, with_log=with_log)
