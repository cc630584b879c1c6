"""Whether a run used a GPU, from what its samples add up to; and the words for it.

`proven` is said only of what was seen: processes of the run held memory of a device and that device computed meanwhile.
What could not be seen is named, and never taken for rest. The verdict of a run that has ended is stored; before, it is
made from the samples so far.
"""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tui_workbench.core.errors import storage_errors
from tui_workbench.core.files import load_json, write_below
from tui_workbench.core.model import RunConfiguration, RunState
from tui_workbench.runs.gpu.evidence import AGAINST, FOR, Evidence, evidence_in
from tui_workbench.runs.gpu.usage import BUSY_PERCENT, UNSOUND, DeviceUse, Usage, read_usage
from tui_workbench.runs.store.rundir import GPU_SAMPLES, GPU_VERDICT, OUTPUT, Ending, RunDirectory

PROVEN, IDLE, NOT_USED, SHARED, UNKNOWN = "proven", "idle", "not used", "shared", "unknown"

REQUIRED = "RequireGpu"
"""Begins the reason of a run that has failed because it used no GPU."""

SHORTEST_SECONDS = 3.0
"""Less than this is not enough to say that nothing was done: a process needs a second to load CUDA."""

SHARED_PART = 0.1
"""Others on the device for longer than this part of the time make its figures those of all."""

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_UNUSED = "it used no GPU: "


class DeviceFigures(NamedTuple):
    """What the run did on one device. None where the driver does not tell."""

    number: int
    name: str
    uuid: str
    seconds: float  # its processes held memory there
    peak_memory: float | None  # MiB, of its processes
    mean_utilization: float | None  # %, of the device in that time
    p95_utilization: float | None
    own_utilization: float | None  # %, its processes' own share, where the driver tells
    gpu_seconds: float  # seconds times utilisation
    energy: float  # Wh, of the device in that time
    shared_seconds: float
    others: tuple[str, ...]
    throttled_seconds: float
    ecc_errors: int


class Verdict(NamedTuple):
    """The answer. `word` is one of the five; `text` one line that holds the figures."""

    word: str
    text: str
    cause: str = ""  # of `not used` and `idle`: the likely one
    devices: tuple[DeviceFigures, ...] = ()  # those that the run held, the busiest first
    evidence: tuple[Evidence, ...] = ()
    unseen: tuple[str, ...] = ()  # what could not be seen
    samples: int = 0
    final: bool = False

    @property
    def gpu_seconds(self) -> float:
        """Of all devices."""
        return sum(device.gpu_seconds for device in self.devices)

    @property
    def energy(self) -> float:
        """Wh, of all devices."""
        return sum(device.energy for device in self.devices)


def judge(usage: Usage, evidence: Sequence[Evidence], variables: Mapping[str, str], *, final: bool) -> Verdict:
    """The verdict on a run with these samples, log and variables of its run configuration."""
    held = {number: use for number, use in usage.devices.items() if use.held > 0}
    figures = tuple(
        sorted((_figures(usage, number, use) for number, use in held.items()), key=lambda each: -each.gpu_seconds)
    )
    word, text, cause = _decide(usage, held, figures, evidence, variables)
    if figures:
        text = f"{text}: {_shown(figures)}"
    return Verdict(word, text, cause, figures, tuple(evidence), _unseen(usage, held), usage.samples, final)


def _decide(
    usage: Usage,
    held: Mapping[int, DeviceUse],
    figures: Sequence[DeviceFigures],
    evidence: Sequence[Evidence],
    variables: Mapping[str, str],
) -> tuple[str, str, str]:
    """Word, its sentence and the cause."""
    if not held:
        return _decide_unheld(usage, evidence, variables)
    if all(use.untold >= use.held for use in held.values()):
        why = "MIG is on" if any(device.slices for device in usage.machine.devices) else "the driver does not tell it"
        return UNKNOWN, f"its processes held memory, and no utilisation could be seen ({why})", ""
    seconds = sum(use.held for use in held.values())
    busy = sum(use.busy for use in held.values())
    if busy < 1.0 and seconds < SHORTEST_SECONDS:
        return UNKNOWN, "its processes held memory for too short a time to see them compute", ""
    # Work in bursts has a mean that no rest has.
    in_bursts = any((use.mean_utilization or 0.0) >= BUSY_PERCENT for use in held.values())
    if busy < max(1.0, seconds * BUSY_PERCENT / 100) and not in_bursts:
        cause = "the model may be on the GPU and the work on the CPU, or it waits for data"
        return IDLE, "its processes held memory and hardly computed", _against(evidence) or cause
    if sum(use.shared for use in held.values()) > SHARED_PART * seconds:
        others = ", ".join(dict.fromkeys(name for each in figures for name in each.others))
        return SHARED, f"its processes computed, and so may have others meanwhile ({others})", ""
    where = "a GPU" if len(figures) == 1 else f"{len(figures)} GPUs"
    return PROVEN, f"its processes computed on {where}", ""


def _decide_unheld(usage: Usage, evidence: Sequence[Evidence], variables: Mapping[str, str]) -> tuple[str, str, str]:
    against = _against(evidence)
    speaks_for = any(each.speaks == FOR for each in evidence)
    watched = max((use.watched for use in usage.devices.values()), default=0.0)
    if against and not speaks_for:
        return NOT_USED, f"{_UNUSED}{against}", against
    if usage.machine.hides_processes:
        return UNKNOWN, f"from inside a container nobody can see whose processes use the GPU{_meanwhile(usage)}", ""
    if watched < SHORTEST_SECONDS:
        short = "it was over before its processes could be seen on a GPU"
        return UNKNOWN, short if usage.samples else "no sample of a GPU was taken while it ran", ""
    if speaks_for:
        return UNKNOWN, "its log names a GPU, and none of its processes was seen on one", ""
    cause = _cause_of_absence(usage, variables)
    return NOT_USED, f"{_UNUSED}{cause}", cause


def _cause_of_absence(usage: Usage, variables: Mapping[str, str]) -> str:
    visible = usage.facts.get("visible", variables.get(_VISIBLE))
    if visible is not None:
        known = {str(device.number) for device in usage.machine.devices}
        wanted = [part.strip() for part in str(visible).split(",")]
        if not wanted[0] or wanted[0] == "-1":
            return f"{_VISIBLE} is {str(visible)!r}, which hides every device"
        if wanted[0].isdigit() and wanted[0] not in known:
            return f"{_VISIBLE} is {str(visible)!r}, and there is no such device"
    if usage.facts.get("cuda") is False:
        return "none of its processes loaded CUDA (a CPU build of the framework, or nothing that asks for a GPU)"
    if usage.facts.get("cuda"):
        return "CUDA was loaded and no device addressed (a model that was never moved to the GPU?)"
    return "none of its processes held memory of one"


def _against(evidence: Sequence[Evidence]) -> str:
    return next((each.cause for each in evidence if each.speaks == AGAINST), "")


def _meanwhile(usage: Usage) -> str:
    """What devices did while the run went on, whoever's doing it was."""
    said = []
    for number, use in sorted(usage.devices.items()):
        if use.watched and (use.work or (use.peak_all or 0.0) > (use.first_memory or 0.0)):
            grown = (use.peak_all or 0.0) - (use.first_memory or 0.0)
            said.append(
                f"GPU {number} was at {100 * use.work / use.watched:.0f} % and its memory grew by {_size(grown)}"
            )
    return f"; meanwhile {', '.join(said)}" if said else ""


def _unseen(usage: Usage, held: Mapping[int, DeviceUse]) -> tuple[str, ...]:
    said = [text for _, text in usage.notes]
    if usage.unseen >= 1.0:
        said.append(f"nobody looked for {_time(usage.unseen)}")
    if usage.machine.hides_processes:
        said.append("process ids of the driver are not those of this container")
    for number, use in sorted(held.items()):
        if use.peak is None:
            said.append(f"GPU {number}: the driver does not tell the memory of processes")
        if 0 < use.untold < use.held:
            said.append(f"GPU {number}: no utilisation for {_time(use.untold)}")
        if not use.energy:
            said.append(f"GPU {number}: the driver does not tell its power")
    return tuple(dict.fromkeys(said))


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
    )


def _shown(figures: Sequence[DeviceFigures]) -> str:
    """The figures in one line; of many devices those of all together."""
    numbers = ",".join(str(number) for number in sorted(each.number for each in figures))
    said = [f"{'GPU' if len(figures) == 1 else 'GPUs'} {numbers} {figures[0].name}"]
    peaks = [each.peak_memory for each in figures if each.peak_memory is not None]
    if peaks:
        said.append(f"peak {_size(max(peaks))}" + (" each" if len(peaks) > 1 else ""))
    told = [each for each in figures if each.mean_utilization is not None]
    if told:
        seconds = sum(each.seconds for each in told) or 1.0
        mean = sum((each.mean_utilization or 0.0) * each.seconds for each in told) / seconds
        said.append(f"{mean:.0f} % mean, {max(each.p95_utilization or 0.0 for each in told):.0f} % p95")
        said.append(f"{_time(sum(each.gpu_seconds for each in figures))} of GPU time")
    energy = sum(each.energy for each in figures)
    if energy:
        said.append(f"{energy:.3g} Wh" if energy < 1000 else f"{energy / 1000:.3g} kWh")
    return ", ".join(said)


def summary(verdict: Verdict, width: int = 65) -> list[str]:
    """The verdict in lines for a terminal: the word with its sentence, the figures, and what was not seen."""
    figures = _shown(verdict.devices) if verdict.devices else ""
    sentence = verdict.text.removesuffix(f": {figures}").removeprefix(_UNUSED)
    said = [f"GPU {verdict.word}: {sentence}", *([f"  {figures}"] if figures else [])]
    said += [f"  not seen: {text}" for text in verdict.unseen]
    return [line for text in said for line in textwrap.wrap(text, width, subsequent_indent="  ")]


def _size(mib: float) -> str:
    return f"{mib:.0f} MiB" if mib < 1024 else f"{mib / 1024:.1f} GiB"


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def to_json(verdict: Verdict) -> dict[str, Any]:
    """The verdict as `gpu.json` and a history record hold it."""
    return {
        "verdict": verdict.word,
        "text": verdict.text,
        "cause": verdict.cause or None,
        "gpu_seconds": round(verdict.gpu_seconds, 2),
        "energy_wh": round(verdict.energy, 3),
        "devices": [each._asdict() for each in verdict.devices],
        "evidence": [each._asdict() for each in verdict.evidence],
        "unseen": list(verdict.unseen),
        "samples": verdict.samples,
        "final": verdict.final,
    }


def from_json(value: Mapping[str, Any]) -> Verdict:
    """The verdict that `to_json` gave. Raises KeyError, TypeError or ValueError for anything else."""
    devices = tuple(DeviceFigures(**{**each, "others": tuple(each["others"])}) for each in value["devices"])
    evidence = tuple(Evidence(**{**each, "quote": tuple(each["quote"])}) for each in value["evidence"])
    return Verdict(
        str(value["verdict"]), str(value["text"]), str(value["cause"] or ""), devices, evidence,
        tuple(map(str, value["unseen"])), int(value["samples"]), bool(value["final"]),
    )  # fmt: skip


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
    try:
        return from_json(load_json(os.path.join(directory, GPU_VERDICT)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None


def fresh_verdict(
    directory: str, variables: Mapping[str, str], *, final: bool = False, with_log: bool = True
) -> Verdict | None:
    """The verdict by what is there now; None without samples, or when they hold values that no sampler writes."""
    usage = read_usage(os.path.join(directory, GPU_SAMPLES))
    if usage is None:
        return None
    evidence = evidence_in(os.path.join(directory, OUTPUT)) if with_log else ()
    try:
        return judge(usage, evidence, variables, final=final)
    except UNSOUND:
        return None


def brief_of(directory: str) -> Mapping[str, Any]:
    """What lists show: the verdict's word, its line, GPU seconds and Wh; without the log while the run goes on."""
    verdict = stored_verdict(directory) or fresh_verdict(directory, {}, with_log=False)
    if verdict is None:
        return {}
    whole = to_json(verdict)
    return {key: whole[key] for key in ("verdict", "text", "gpu_seconds", "energy_wh")}


def conclude(directory: RunDirectory, configuration: RunConfiguration, ending: Ending) -> Ending:
    """Store the verdict of a run that has ended; the ending as the run configuration's policies want it.

    Without samples nothing is stored. Raises StorageError.
    """
    verdict = fresh_verdict(directory.path, configuration.environment_variables, final=True)
    if verdict is None:
        return judged(configuration, ending, "", "there was none that it could use")
    with storage_errors("write", directory.file(GPU_VERDICT)):
        data = json.dumps(to_json(verdict), indent=1).encode() + b"\n"
        write_below(directory.path, GPU_VERDICT, data, durable=True)
    return judged(configuration, ending, verdict.word, verdict.cause)


def judged(configuration: RunConfiguration, ending: Ending, word: str, cause: str) -> Ending:
    """The ending of a run whose verdict is known, "" for one without; a run that needed a GPU has failed without one.

    `cause` says why none was used.
    """
    if not configuration.require_gpu or ending.state != RunState.COMPLETED or word not in ("", NOT_USED):
        return ending
    reason = f"{REQUIRED}: it used no GPU{f': {cause}' if cause else ''}"
    return ending._replace(state=RunState.FAILED, reason=reason, exit_code=None)
