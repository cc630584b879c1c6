"""Families: runs of a sweep that differ only in the seed.

The statistics of a metric use its last value in each completed run. Runs in other states, and runs whose last value is
not a finite number, are left out, with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tui_workbench.core.errors import UsageError
from tui_workbench.core.model import Run, RunState
from tui_workbench.runs.estimates import Difference, Estimate, difference, estimate, finite, verdict
from tui_workbench.runs.index.table import RunRow
from tui_workbench.runs.metrics.metric_words import goal_of
from tui_workbench.runs.store.arguments import arguments_by_name

FAMILY_NAME = r"sweep-\d+\.\d+"  # a regular expression


class Sample(NamedTuple):
    """The statistics of a metric over a family. `left_out` maps the numbers of omitted runs to the reasons."""

    estimate: Estimate | None
    left_out: dict[int, str]


class Family(NamedTuple):
    """A family with its runs, the oldest first, and the arguments that are equal in all of them."""

    name: str
    rows: tuple[RunRow, ...]
    arguments: dict[str, str]

    @property
    def runs(self) -> list[Run]:
        return [row.run for row in self.rows]

    @property
    def metrics(self) -> list[str]:
        """The names of the metrics that have a finite number in at least one completed run."""
        names = dict.fromkeys(name for row in self.rows for name in row.facts.metrics)
        return [name for name in names if self.sample(name).estimate is not None]

    def sample(self, metric: str) -> Sample:
        values, left_out = [], {}
        for row in self.rows:
            reason, value = _reason(row, metric), finite(row.facts.metrics.get(metric))
            if reason or value is None:
                left_out[row.run.run_number] = reason
            else:
                values.append(value)
        return Sample(estimate(values), left_out)


class ComparedMetric(NamedTuple):
    """A metric of two families: the statistics of each, the difference of the means, and a verdict sentence."""

    name: str
    estimates: tuple[Estimate | None, Estimate | None]
    difference: Difference | None
    verdict: str


def _reason(row: RunRow, metric: str) -> str:
    """Return the reason why a run is left out of the statistics of a metric, or ""."""
    if row.run.state != RunState.COMPLETED:
        return "not ended" if row.run.is_active else row.run.state
    if metric not in row.facts.metrics:
        return f"no {metric}"
    return "" if finite(row.facts.metrics[metric]) is not None else f"{metric} is not a finite number"


def family_of(name: str, rows: Sequence[RunRow]) -> Family:
    """Return the family of one or more runs, with the arguments that all of them share."""
    first, *others = (arguments_by_name(row.run.words) for row in rows)
    shared = {key: value for key, value in first.items() if all(arguments.get(key) == value for arguments in others)}
    return Family(name, tuple(rows), shared)


def family_record(family: Family) -> dict[str, Any]:
    """Return a family as values for JSON: its runs, its shared arguments, and the statistics of each metric."""
    metrics = {}
    for name in family.metrics:
        statistics, left_out = family.sample(name)
        if statistics is not None:
            reasons = {str(number): reason for number, reason in left_out.items()}
            metrics[name] = {**statistics._asdict(), "left_out": reasons}
    return {
        "family": family.name,
        "script_name": family.rows[0].run.script_name,
        "arguments_by_name": family.arguments,
        "runs": [run.run_number for run in family.runs],
        "metrics": metrics,
    }


def compare_families(families: Sequence[Family]) -> list[ComparedMetric]:
    """Compare the metrics of two families. Raises UsageError for another number of families."""
    if len(families) != 2:
        raise UsageError(f"expected two families, not {len(families)}", remedy="Give two different families.")
    first, second = families
    compared = []
    for metric in dict.fromkeys((*first.metrics, *second.metrics)):
        estimates = first.sample(metric).estimate, second.sample(metric).estimate
        sentence = verdict((first.name, second.name), metric, estimates)
        compared.append(ComparedMetric(metric, estimates, difference(*estimates), sentence))
    return compared


def compared_record(families: Sequence[Family], compared: ComparedMetric) -> dict[str, Any]:
    """Return the comparison of a metric as values for JSON."""
    delta = compared.difference
    estimates = zip(families, compared.estimates, strict=True)
    return {
        "metric": compared.name,
        "goal": goal_of(compared.name) or None,
        **{family.name: statistics and statistics._asdict() for family, statistics in estimates},
        "difference": delta and delta.value,
        "margin": delta and delta.margin,
        "degrees_of_freedom": delta and delta.degrees,
        "verdict": compared.verdict,
    }


def left_out_notes(family: Family) -> list[str]:
    """Return a note for each reason why runs are left out of the statistics, or one note if there are no statistics."""
    if not family.metrics:
        return [f"{family.name}: no completed run has a metric with a finite number"]
    runs: dict[str, list[int]] = {}
    for metric in family.metrics:
        for number, reason in family.sample(metric).left_out.items():
            if number not in runs.setdefault(reason, []):
                runs[reason].append(number)
    return [
        f"{family.name}: left out run{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}: {reason}"
        for reason, numbers in runs.items()
    ]
