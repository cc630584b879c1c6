"""Derive the GPU verdict of a run from the totals of its samples.

The verdict `proven` requires that processes of the run held memory of a GPU while this GPU computed. Gaps in the
samples are listed and do not count as idle time. The verdict of an ended run is stored; the verdict of an active run is
derived from the samples so far.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence

from tui_workbench.core.causes import GPU_NOT_USED, Cause
from tui_workbench.core.model import RunConfiguration, RunState
from tui_workbench.core.plaintext import counted
from tui_workbench.runs.gpu import advice
from tui_workbench.runs.gpu.evidence import AGAINST, FOR, evidence_in
from tui_workbench.runs.gpu.stall import Progress
from tui_workbench.runs.gpu.usage import BUSY_PERCENT, UNSOUND, DeviceUse, Usage, read_attempt, read_usage
from tui_workbench.runs.gpu.verdict import (
    IDLE,
    NOT_USED,
    PROVEN,
    SHARED,
    STALLED,
    UNKNOWN,
    UNUSED,
    DeviceFigures,
    Evidence,
    Verdict,
    figures_text,
    gpus_text,
    number_on_node,
    ranks_text,
    size_text,
    time_text,
    to_json,
)
from tui_workbench.runs.store.attempts import FILE, AttemptRecord, attempts_of, current_attempt, write_attempt
from tui_workbench.runs.store.rundir import GPU_SAMPLES, GPU_VERDICT, OUTPUT, Ending, Record, RunDirectory
from tui_workbench.targets.gpu.vendors import vendor_of_tool

SHORTEST_SECONDS = 3.0  # minimum time for `not used` without a log message; loading CUDA takes about a second
IDLE_PERCENT = 20.0  # the sentence names the ranks whose GPU was idle for at least this part of the time
MOST_NAMED = 3  # the sentence names the ranks of this many GPUs
SHARED_PART = 0.1  # the verdict is `shared` if other processes used the GPU for more than this part of the time


def judge(
    usage: Usage,
    evidence: Sequence[Evidence],
    variables: Mapping[str, str],
    *,
    final: bool,
    stop_minutes: int | None = 0,
) -> Verdict:
    """Return the verdict on a run; `variables` are the environment variables of its run configuration.

    `stop_minutes` is StopIfStalledMinutes of its run configuration, or None if the run cannot be stalled.
    """
    held = {number: use for number, use in usage.devices.items() if use.held > 0}
    figures = tuple(
        sorted((_figures(usage, number, use) for number, use in held.items()), key=lambda figure: -figure.gpu_seconds)
    )
    if stop_minutes is not None and usage.progress.is_stalled(stop_minutes):
        word, text, cause = _stalled(usage.progress)
    else:
        word, text, cause = _decide(usage, held, figures, evidence, variables)
    if figures:
        text = f"{text}: {figures_text(figures)}"
    unseen, advised = _unseen(usage, held), advice.advice_on(usage)
    return Verdict(word, text, cause, figures, tuple(evidence), unseen, usage.samples, final, advised)


def _stalled(progress: Progress) -> tuple[str, str, str]:
    load = "" if progress.load is None else f", GPU at {progress.load:.0f} %"
    mean = time_text(progress.rhythm) if progress.has_rhythm else "unknown"
    text = f"no step, log line or file for {time_text(progress.quiet)}{load}; mean interval {mean}"
    if (progress.load or 0.0) >= BUSY_PERCENT:
        return STALLED, text, "a rank may be waiting for other ranks in a collective operation"
    return STALLED, text, "a process may be waiting for a data loader, a lock or another process"


def _decide(
    usage: Usage,
    held: Mapping[int, DeviceUse],
    figures: Sequence[DeviceFigures],
    evidence: Sequence[Evidence],
    variables: Mapping[str, str],
) -> tuple[str, str, str]:
    if not held:
        return _decide_unheld(usage, evidence, variables)
    if all(use.untold >= use.held for use in held.values()):
        is_sliced = any(device.slices for device in usage.machine.devices)
        why = "MIG is on" if is_sliced else "not reported by the driver"
        return UNKNOWN, f"its processes held GPU memory, but the utilization is unknown ({why})", ""
    seconds = sum(use.held for use in held.values())
    if not any(use.has_computed for use in held.values()):
        if seconds < SHORTEST_SECONDS:
            return UNKNOWN, "its processes held GPU memory for too short a time to tell whether they computed", ""
        cause = "the model may be on the GPU and the work on the CPU, or the script waits for data"
        return IDLE, "its processes held GPU memory but hardly computed", _against(evidence) or cause
    if sum(use.shared for use in held.values()) > SHARED_PART * seconds:
        others = ", ".join(dict.fromkeys(name for figure in figures for name in figure.others))
        return SHARED, f"its processes computed, but other processes may have computed too ({others})", ""
    return PROVEN, f"its processes computed on {_where(usage, held)}{_idle_ranks(figures)}", ""


def _where(usage: Usage, held: Mapping[int, DeviceUse]) -> str:
    is_given = usage.gives_all and not usage.machine.hides_processes
    given = {number: use for number, use in sorted(usage.devices.items()) if use.watched} if is_given else held
    unused = [number for number, use in given.items() if not use.has_computed and (not use.held or not use.untold)]
    if unused and len(unused) < len(given):
        return f"{len(given) - len(unused)} of {len(given)} GPUs, but not on {gpus_text(unused, _names(usage))}"
    return "a GPU" if len(held) == 1 else f"{len(held)} GPUs"


def _idle_ranks(figures: Sequence[DeviceFigures]) -> str:
    """Return a text that names the ranks whose GPUs were idle for a large part of the time, or ""."""
    idle = [
        (figure.idle, figure.ranks)
        for figure in figures
        if figure.ranks and figure.seconds >= advice.SHORTEST_SECONDS and (figure.idle or 0.0) >= IDLE_PERCENT
    ]
    idle.sort(key=lambda item: -(item[0] or 0.0))
    texts = [f"; {ranks_text(ranks)} idle {part:.0f} % of the time" for part, ranks in idle[:MOST_NAMED]]
    left = len(idle) - len(texts)
    if left > 0:
        texts.append(f"; {counted(left, 'more GPU')} idle at least {IDLE_PERCENT:.0f} % of the time")
    return "".join(texts)


def _decide_unheld(usage: Usage, evidence: Sequence[Evidence], variables: Mapping[str, str]) -> tuple[str, str, str]:
    against = _against(evidence)
    speaks_for = any(message.speaks == FOR for message in evidence)
    watched = max((use.watched for use in usage.devices.values()), default=0.0)
    if against and not speaks_for:
        return NOT_USED, f"{UNUSED}{against}", against
    if usage.machine.hides_processes:
        text = "the machine is a container without the host's process IDs, so the owners of GPU processes are unknown"
        return UNKNOWN, f"{text}{_meanwhile(usage)}", ""
    if watched < SHORTEST_SECONDS:
        short = "it was observed for too short a time to tell whether its processes used a GPU"
        return UNKNOWN, short if usage.samples else "no GPU samples were taken", ""
    if speaks_for:
        return UNKNOWN, "its log names a GPU, but none of its processes was observed on one", ""
    cause = _cause_of_absence(usage, variables)
    return NOT_USED, f"{UNUSED}{cause}", cause


def _cause_of_absence(usage: Usage, variables: Mapping[str, str]) -> str:
    vendor = vendor_of_tool(usage.machine.source)
    name = next((name for name in vendor.visible if name in variables), vendor.visible[0])
    visible = usage.facts.get("visible", variables.get(name))
    if visible is not None:
        numbers = {str(number_on_node(device.number, device.name)) for device in usage.machine.devices}
        listed = [part.strip() for part in str(visible).split(",")]
        if not listed[0] or listed[0] == "-1":
            return f"{name} is {str(visible)!r}, which hides every device"
        if listed[0].isdigit() and listed[0] not in numbers:
            return f"{name} is {str(visible)!r}, but there is no such device"
    if usage.facts.get("cuda") is False:
        why = "the framework is a CPU build, or the script requests no GPU"
        return f"none of its processes loaded {vendor.platform} ({why})"
    if usage.facts.get("cuda"):
        return f"{vendor.platform} was loaded but no GPU was used (was the model moved to the GPU?)"
    return "none of its processes held GPU memory"


def _against(evidence: Sequence[Evidence]) -> str:
    return next((message.cause for message in evidence if message.speaks == AGAINST), "")


def _meanwhile(usage: Usage) -> str:
    """Return a text about the use of the GPUs by all processes during the run, or "" if no GPU was used."""
    texts = []
    names = _names(usage)
    for number, use in sorted(usage.devices.items()):
        if use.watched and (use.work or (use.peak_all or 0.0) > (use.first_memory or 0.0)):
            load = f"{100 * use.work / use.watched:.0f} %"
            grown = (use.peak_all or 0.0) - (use.first_memory or 0.0)
            texts.append(f"{gpus_text([number], names)} was at {load} and its memory grew by {size_text(grown)}")
    return f"; meanwhile {', '.join(texts)}" if texts else ""


def _names(usage: Usage) -> dict[int, str]:
    return {device.number: device.name for device in usage.machine.devices}


def _unseen(usage: Usage, held: Mapping[int, DeviceUse]) -> tuple[str, ...]:
    texts = [text for _, text in usage.notes]
    if usage.unseen >= 1.0:
        texts.append(f"no samples for {time_text(usage.unseen)}")
    if usage.machine.hides_processes:
        texts.append("the host's process IDs are not visible in the container (Docker shows them with `--pid=host`)")
    names = _names(usage)
    for number, use in sorted(held.items()):
        gpu = gpus_text([number], names)
        if use.peak is None:
            texts.append(f"the driver does not report the memory of processes on {gpu}")
        if 0 < use.untold < use.held:
            texts.append(f"no utilization of {gpu} for {time_text(use.untold)}")
        if not use.energy:
            texts.append(f"the driver does not report the power of {gpu}")
    return tuple(dict.fromkeys(texts))


def _figures(usage: Usage, number: int, use: DeviceUse) -> DeviceFigures:
    device = next((device for device in usage.machine.devices if device.number == number), None)
    mean, p95 = use.mean_utilization, use.quantile(0.95)
    return DeviceFigures(
        number,
        device.name if device else "GPU",
        device.uuid if device else "",
        round(use.held, 2),
        use.peak,
        None if mean is None else round(mean, 1),
        p95,
        round(100 * use.own_seconds / use.own_known, 1) if use.own_known else None,
        round(use.gpu_seconds, 2),
        round(use.energy / 3600, 3),
        round(use.shared, 2),
        tuple(use.others),
        round(use.throttled, 2),
        (use.ecc or 0) - (use.ecc_first or 0),
        use.idle_percent and round(use.idle_percent, 1),
        tuple(use.ranks),
    )


def fresh_verdict(
    directory: str,
    variables: Mapping[str, str],
    *,
    final: bool = False,
    with_log: bool = True,
    stop_minutes: int | None = 0,
) -> Verdict | None:
    """Return the verdict of `judge` from the current samples, or None without valid samples."""
    usage = read_usage(os.path.join(directory, GPU_SAMPLES))
    if usage is None:
        return None
    evidence = evidence_in(os.path.join(directory, OUTPUT)) if with_log else ()
    try:
        return judge(usage, evidence, variables, final=final, stop_minutes=stop_minutes)
    except UNSOUND:
        return None


def conclude(directory: RunDirectory, configuration: RunConfiguration, ending: Ending) -> Ending:
    """Store the verdict of an ended run, if there are samples, and return the result of `judged`.

    Raises StorageError.
    """
    minutes = _stop_minutes(ending.state, configuration)
    variables = configuration.environment_variables
    verdict = fresh_verdict(directory.path, variables, final=True, stop_minutes=minutes)
    if verdict is None:
        return judged(configuration, ending, "", "there are no GPU samples")
    directory.write(GPU_VERDICT, json.dumps(to_json(verdict), indent=1).encode() + b"\n", durable=True)
    # Only `RequireGpu` needs the verdict on the last attempt alone, which may take seconds.
    attempt = current_attempt(directory, ending) if configuration.require_gpu else None
    last = attempt_verdict(directory.path, attempt, configuration) if attempt is not None else verdict
    if last is None:
        return judged(configuration, ending, "", "there are no GPU samples of its last attempt")
    return judged(configuration, ending, last.word, last.cause)


def _stop_minutes(state: str, configuration: RunConfiguration) -> int | None:
    """Return the `stop_minutes` of `judge` for an ended run or attempt; None if it completed."""
    # A run that completed was not stalled at its end, even if no sample shows its last change.
    return None if state == RunState.COMPLETED else configuration.stop_if_stalled_minutes


def attempt_verdict(directory: str, attempt: AttemptRecord, configuration: RunConfiguration) -> Verdict | None:
    """Return the verdict on one attempt of a run, or None without valid samples of the attempt."""
    usage = read_attempt(os.path.join(directory, GPU_SAMPLES), attempt.number)
    if usage is None:
        return None
    evidence = evidence_in(os.path.join(directory, OUTPUT), attempt.log_start, attempt.log_end)
    try:
        minutes = _stop_minutes(attempt.state, configuration)
        return judge(usage, evidence, configuration.environment_variables, final=True, stop_minutes=minutes)
    except UNSOUND:
        return None


def record_attempts(directory: RunDirectory, record: Record, ending: Ending | None) -> None:
    """Write the missing records of ended attempts, each with its verdict.

    `ending` is the ending of the last attempt, or None if this attempt has not ended. The call can be repeated. Raises
    StorageError.
    """
    configuration = record.spec.run_configuration
    ended = attempts_of(directory)[:-1]
    last = current_attempt(directory, ending) if ending is not None else None
    for attempt in (*ended, *((last,) if last is not None else ())):
        if not os.path.lexists(directory.file(f"{attempt.folder}/{FILE}")):
            verdict = attempt_verdict(directory.path, attempt, configuration)
            write_attempt(directory, attempt, to_json(verdict) if verdict is not None else None)


def judged(configuration: RunConfiguration, ending: Ending, word: str, cause: str) -> Ending:
    """Return the ending, changed to failed if a completed run required a GPU, but used none or has no verdict.

    `word` is the verdict, or ""; `cause` says why no GPU was used.
    """
    if not configuration.require_gpu or ending.state != RunState.COMPLETED or word not in ("", NOT_USED):
        return ending
    causes = (Cause(GPU_NOT_USED, {"error": cause}),)
    return ending._replace(state=RunState.FAILED, causes=causes, exit_code=None)
