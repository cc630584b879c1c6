"""The records that the tools return to agents, without secrets. Agents see the fields of a record as its schema."""

from __future__ import annotations

from itertools import islice
from typing import Any

from pydantic import BaseModel, Field, field_validator

from tui_workbench.core.causes import main_kind
from tui_workbench.core.model import Run
from tui_workbench.core.moments import utc
from tui_workbench.core.plaintext import for_terminal
from tui_workbench.core.trace import masked_text
from tui_workbench.runs.agents.approvals import Approval
from tui_workbench.runs.index.history_record import Facts

MOST_METRICS = 20
"""Maximum number of metrics of a run in a list."""

LONGEST_VALUE = 500
"""Maximum length of a value in a comparison, in characters."""


def without_surrogates(tree: Any) -> Any:
    """Return JSON with replaced surrogates, which cannot be sent. A file name that is not UTF-8 has some."""
    if isinstance(tree, dict):
        return {without_surrogates(key): without_surrogates(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [without_surrogates(value) for value in tree]
    return tree.encode("utf-8", "replace").decode() if isinstance(tree, str) else tree


class Answer(BaseModel):
    """A record whose texts can be sent."""

    @field_validator("*", mode="before")
    @classmethod
    def _readable(cls, value: Any) -> Any:
        return without_surrogates(value)


class TargetInfo(Answer):
    """A compute target of the project."""

    name: str
    type: str
    machines: list[str] = Field(description="the machines on which its runs execute; `local` is this machine")
    allowed: bool = Field(description="false if a run on this target always needs an approval")
    contacted: bool = Field(description="false if the user has not contacted a machine of this target yet")
    problem: str = ""


class ConfigurationInfo(Answer):
    """A run configuration of the project."""

    name: str
    target: str
    framework: str
    argument_vector: list[str] = Field(description="the script and its arguments; `$file` stands for any script")
    max_duration_minutes: int = Field(description="0 if the configuration sets no limit")
    problem: str = ""


class RunInfo(Answer):
    """A run and its results."""

    number: int
    run_id: str
    state: str = Field(description="queued, preparing, running, finalizing, completed, failed, canceled or unknown")
    active: bool = Field(description="false after the run has ended")
    reason: str = ""
    cause: str = Field(default="", description="the kind of the reason, such as exception, signal or time-limit")
    exit_code: int | None = None
    script: str
    arguments: list[str]
    configuration: str
    target: str
    started_by: str = Field(description="the name of the agent that started the run; empty if the user started it")
    created_utc: str | None
    duration_seconds: float = Field(description="0 until the run has ended")
    metrics: dict[str, float | str] = Field(description="the last value of each metric")
    metrics_left_out: int = 0
    gpu: str = Field(description="a sentence about the GPU use of the run; empty without a GPU verdict")


class RunPage(Answer):
    """A page of the list of runs, newest first."""

    runs: list[RunInfo]
    total: int
    next_cursor: str = Field(default="", description="pass it as `cursor` to get the next page; empty on the last page")


class PlanInfo(Answer):
    """The plan of a submission."""

    target: str
    interpreter: str
    minutes: int = Field(description="the maximum duration of the run")
    gpus: int | None = Field(description="the number of GPUs; null if it is not known")
    steps: list[str]
    needs_approval: list[str] = Field(description="the reasons why the run needs an approval; empty if it needs none")


class Submitted(Answer):
    """A run that was started, or a request that waits for an approval."""

    run: RunInfo | None = None
    request: int | None = Field(default=None, description="the number of the request, for wait_for_approval")
    reasons: list[str] = Field(default=[], description="the limits that the run exceeds")


class Decision(Answer):
    """The state of a request for an approval."""

    request: int
    state: str = Field(description="waiting, submitted, denied, or changed (the project was changed after the request)")
    run_id: str = Field(default="", description="the run that was submitted")
    answer: str = Field(default="", description="the reason for a denial, if the user gave one")
    replaced_by: int = Field(default=0, description="the request with the new plan; 0 unless the state is changed")


class ValueInfo(Answer):
    """A value of a run configuration."""

    key: str
    value: Any
    old_value: Any = None
    changed: bool = False


class ComparedRow(Answer):
    """A property of the compared runs."""

    section: str
    name: str
    values: list[str | float | None] = Field(description="one value for each run")


class ComparisonPage(Answer):
    """A page of the differences between runs."""

    runs: list[int] = Field(description="the numbers of the runs, in the order of the values")
    rows: list[ComparedRow]
    notes: list[str]
    next_cursor: str = Field(default="", description="pass it as `cursor` to get the next page; empty on the last page")


class LogPage(Answer):
    """A part of the output of a run."""

    text: str
    next_cursor: str = Field(description="pass it as `cursor` to continue, also to read output that is written later")
    at_end: bool = Field(description="true if there is no more output now")


class LimitsInfo(Answer):
    """The limits of the user for all agents together, and the current use of these limits."""

    targets: list[str]
    concurrent_runs: int
    minutes_per_run: int
    hours_per_day: int
    gpu_hours_per_day: int
    active_runs: int
    used_hours: float = Field(description="in the last 24 hours; an active run counts with its maximum duration")
    used_gpu_hours: float


def run_info(run: Run, facts: Facts, most_metrics: int = MOST_METRICS) -> RunInfo:
    """Return the record of a run with at most `most_metrics` metrics."""
    metrics = {
        safe(name): safe(value) if isinstance(value, str) else value
        for name, value in islice(facts.metrics.items(), most_metrics)
    }
    return RunInfo(
        number=run.run_number,
        run_id=run.run_id,
        state=run.state,
        active=run.is_active,
        reason=safe(run.reason),
        cause=main_kind(run.kinds),
        exit_code=run.exit_code,
        script=safe(run.script_name),
        arguments=list(map(safe, run.words)),
        configuration=run.run_configuration,
        target=run.target,
        started_by=run.agent,
        created_utc=utc(run.created),
        duration_seconds=round(run.duration, 3),
        metrics=metrics,
        metrics_left_out=len(facts.metrics) - len(metrics) + facts.more_metrics,
        gpu=safe(str(facts.gpu.get("text", ""))),
    )


def decision(approval: Approval) -> Decision:
    return Decision(
        request=approval.number,
        state=approval.state,
        run_id=approval.run_id,
        answer=approval.answer,
        replaced_by=approval.replaced_by,
    )


def safe(text: str) -> str:
    """Return an untrusted text with secrets masked and control characters replaced."""
    return for_terminal(masked_text(text))


def short(value: str | float | None) -> str | float | None:
    """Return a value of a comparison, shortened if it is a long text."""
    if not isinstance(value, str):
        return value
    text = safe(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
