"""The tools that coding agents call. A docstring is the description of the tool that the agent reads.

The tools read the project, edit run configurations and submit runs within the limits of the user. No tool deletes
anything, attaches a machine, edits a target or returns a secret.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from functools import reduce
from operator import getitem
from typing import Annotated, Any

import anyio
from pydantic import Field

from tui_workbench.cli.agent import answers, known_secrets
from tui_workbench.config.changes import file_edits
from tui_workbench.config.document import Document
from tui_workbench.config.yaml_edit.syntax import Path, parse, plain_value
from tui_workbench.core.errors import ConfigurationError, UsageError
from tui_workbench.core.masking import MASK, mask_plan, mask_tree, mask_words, secrets_of
from tui_workbench.core.model import RunRequest
from tui_workbench.core.processes import reap
from tui_workbench.core.trace import current_agent
from tui_workbench.projects.project import Project
from tui_workbench.runs.agents import approvals, ledger, submitting
from tui_workbench.runs.agents.limits import gpus_of, load_limits, machines_of, minutes_of, used_hours
from tui_workbench.runs.comparing import compare
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.gpu.run_verdict import verdict_of
from tui_workbench.runs.gpu.verdict import to_json
from tui_workbench.runs.index.table import LONGEST_FILTER, RunQuery
from tui_workbench.runs.logs.log_file import LogFile
from tui_workbench.runs.store.rundir import OUTPUT
from tui_workbench.targets.hosts.contacts import is_contacted

POLL_SECONDS = 0.5
LONGEST_WAIT = 300

PAGE = 20
"""Default number of entries of a page."""

LARGEST_LOG_PAGE = 16_000
"""Maximum size of a page of a log in characters, except for a single longer line."""

Run = Annotated[str, Field(description="the number or ID of the run")]
Filter = Annotated[
    str, Field(max_length=LONGEST_FILTER, description="words and conditions such as `state:failed loss<0.1`")
]
Cursor = Annotated[str, Field(description="next_cursor of the previous page; empty for the first page")]
Limit = Annotated[int, Field(ge=1, le=100, description="the maximum number of entries")]
Seconds = Annotated[float, Field(ge=0, le=LONGEST_WAIT, description="the maximum time to wait, in seconds")]
Configuration = Annotated[str, Field(description="the name of a run configuration")]
Script = Annotated[str, Field(description="the script, relative to the project; empty for that of the configuration")]
Arguments = Annotated[
    tuple[str, ...], Field(description="the arguments of the script; empty for those of the configuration")
]
Target = Annotated[str, Field(description="the name of a target; empty for that of the configuration")]
Environment = Annotated[dict[str, str] | None, Field(description="variables in addition to those of the configuration")]
AllowCpu = Annotated[bool, Field(description="run even if the script would train on the CPU")]


class Tools:
    """The tools for one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._runs = Runs(project)

    @property
    def reading(self) -> list[Callable[..., Any]]:
        """The tools that change nothing."""
        return [
            self.list_targets, self.list_configurations, self.list_runs, self.get_run, self.get_verdict, self.read_log,
            self.compare_runs, self.get_configuration, self.plan_run, self.get_limits, self.wait_for_run,
            self.wait_for_approval,
        ]  # fmt: skip

    @property
    def acting(self) -> list[Callable[..., Any]]:
        return [self.set_configuration, self.submit_run]

    def list_targets(self) -> list[answers.TargetInfo]:
        """List the compute targets of the project."""
        allowed = load_limits().targets
        return [
            answers.TargetInfo(
                name=target.name,
                type=target.type,
                machines=machines_of(target),
                allowed=set(machines_of(target)) <= set(allowed),
                contacted=is_contacted(target),
                problem=answers.safe(target.problem.message) if target.problem is not None else "",
            )
            for target in self._project.targets()
        ]

    def list_configurations(self) -> list[answers.ConfigurationInfo]:
        """List the run configurations of the project. A run configuration says how and where a script runs."""
        return [
            answers.ConfigurationInfo(
                name=configuration.name,
                target=configuration.target,
                framework=configuration.framework,
                argument_vector=list(map(answers.safe, mask_words(configuration.argument_vector))),
                max_duration_minutes=configuration.max_duration_minutes,
                problem=answers.safe(configuration.problem.message) if configuration.problem is not None else "",
            )
            for configuration in self._project.run_configurations()
        ]

    def get_configuration(
        self,
        configuration: Configuration,
        key: Annotated[str, Field(description="for example EnvironmentVariables.LR; empty for all values")] = "",
    ) -> answers.ValueInfo:
        """Get a value of a run configuration, or all values."""
        return answers.ValueInfo(key=key, value=self._value(configuration, key))

    def set_configuration(
        self,
        configuration: Configuration,
        key: Annotated[str, Field(description="for example EnvironmentVariables.LR or MaxDurationMinutes")],
        value: Annotated[str, Field(description="a list is written as [a, b], a mapping as {A: 1}, no value as null")],
    ) -> answers.ValueInfo:
        """Set a value of a run configuration. No other byte of the file changes. Secrets cannot be set."""
        path = self._project.run_configuration(configuration).path
        if os.path.islink(path):  # can lead to a file outside the project
            raise UsageError(f"{path} is a link", remedy="Ask the user to replace the link with a file.")
        if mask_setting(_name_of(Document.open(path).path_of(key)), value) != value:
            raise UsageError(f"{key} is a secret, which agents cannot set", remedy="Ask the user to set it.")
        old = None
        with contextlib.suppress(UsageError):  # it is not set, or `set_text` raises the error
            old = self._value(configuration, key)
        result = file_edits.set_text(path, key, value, check=_require_same_secrets)
        new = self._value(configuration, key) if result.new is not None else None
        return answers.ValueInfo(key=result.key, value=new, old_value=old, changed=result.changed)

    def _value(self, configuration: str, key: str) -> Any:
        """Return a value of a run configuration, or all values if `key` is "". Raises UsageError for an unset key.

        Secrets are masked. All values are masked together, because in a list, the item after `--api-key` is the secret.
        """
        run_configuration = self._project.run_configuration(configuration)
        values = mask_tree(file_edits.plain(dict(run_configuration.values)))
        if not key:
            return values
        document, default = Document.open(run_configuration.path), file_edits.get(run_configuration.path, key)
        steps = document.path_of(key)
        for value in (values, mask_tree(plain_value(document.tree.root))):
            with contextlib.suppress(KeyError, IndexError, TypeError):
                return reduce(getitem, steps, value)
        return mask_tree(default, _name_of(steps))

    def list_runs(
        self,
        filter: Filter = "",
        cursor: Cursor = "",
        limit: Limit = PAGE,
    ) -> answers.RunPage:
        """List the runs of the project, the newest first, with their metrics."""
        offset = _number(cursor)
        page = self._runs.page(RunQuery(filter), offset, limit)
        end = offset + len(page.rows)
        return answers.RunPage(
            runs=[answers.run_info(row.run, row.facts) for row in page.rows],
            total=page.total,
            next_cursor=str(end) if page.rows and end < page.total else "",
        )

    def get_run(self, run: Run) -> answers.RunInfo:
        """Get the state, the metrics and the GPU use of a run."""
        return self._info(run)

    async def wait_for_run(self, run: Run, seconds: Seconds = 30) -> answers.RunInfo:
        """Wait at most `seconds` until the state of a run changes. Return the run. Repeat this until the run ends."""
        before = await anyio.to_thread.run_sync(self._info, run)
        current = before
        with anyio.move_on_after(seconds):
            while current.active and current.state == before.state:
                await anyio.sleep(POLL_SECONDS)
                current = await anyio.to_thread.run_sync(self._info, run)
        return current

    def get_verdict(self, run: Run) -> dict[str, Any]:
        """Get the GPU verdict of a run: its use of the GPUs, the evidence and advice."""
        verdict = verdict_of(self._runs.directory(run))
        if verdict is None:
            return {"verdict": "none", "text": "there are no GPU samples of this run"}
        masked: dict[str, Any] = answers.without_surrogates(mask_tree(file_edits.plain(to_json(verdict))))
        return masked

    def read_log(
        self,
        run: Run,
        cursor: Annotated[str, Field(description="next_cursor of the previous page; empty to begin")] = "",
        tail: Annotated[int, Field(ge=0, le=1000, description="without a cursor, begin at the last lines")] = 0,
    ) -> answers.LogPage:
        """Read the output of a run from the beginning, from the last lines or from a cursor."""
        with LogFile(self._runs.directory(run).file(OUTPUT)) as log:
            if log.problem is not None:
                raise log.problem
            start = min(_number(cursor), log.size)
            if tail and not cursor:
                start = log.start_before(log.size, tail)
            text, end = "", start
            for line in log.lines_from(start, 1000):
                data = known_secrets.masked_bytes(log, line.start, line.data)
                shown = answers.safe(data.decode("utf-8", "replace")) + "\n"
                if text and len(text) + len(shown) > LARGEST_LOG_PAGE:
                    break
                text, end = text + shown, line.end
            return answers.LogPage(text=text, next_cursor=str(end), at_end=end >= log.size)

    def compare_runs(
        self,
        runs: Annotated[list[str], Field(min_length=2, max_length=10, description="numbers or IDs of runs")],
        cursor: Cursor = "",
        limit: Limit = 50,
    ) -> answers.ComparisonPage:
        """List the values that differ between runs, such as metrics, arguments, configuration and code."""
        comparison, offset = compare(self._runs, runs), _number(cursor)
        rows = comparison.differences[offset : offset + limit]
        end = offset + len(rows)
        return answers.ComparisonPage(
            runs=[run.run_number for run in comparison.runs],
            rows=[
                answers.ComparedRow(section=row.section, name=row.name, values=list(map(answers.short, row.values)))
                for row in rows
            ],
            notes=list(map(answers.safe, comparison.notes)),
            next_cursor=str(end) if end < len(comparison.differences) else "",
        )

    def plan_run(
        self, configuration: Configuration, script: Script = "", arguments: Arguments = (), target: Target = "",
        environment: Environment = None, allow_cpu: AllowCpu = False,
    ) -> answers.PlanInfo:  # fmt: skip
        """Show the plan of submit_run with these arguments. Nothing is changed or started."""
        request = _request(configuration, script, arguments, target, environment, allow_cpu)
        prepared, reasons = submitting.plan_for_agent(self._project, request)
        plan = mask_plan(prepared.plan)
        return answers.PlanInfo(
            target=plan.target,
            interpreter=plan.interpreter,
            minutes=minutes_of(prepared.spec),
            gpus=gpus_of(prepared.spec),
            steps=[answers.safe(f"{step.name}: {step.title}") for step in plan.steps],
            needs_approval=reasons,
        )

    def submit_run(
        self, configuration: Configuration, script: Script = "", arguments: Arguments = (), target: Target = "",
        environment: Environment = None, allow_cpu: AllowCpu = False,
    ) -> answers.Submitted:  # fmt: skip
        """Start a run, or request the approval of the user if the run exceeds the limits."""
        request = _request(configuration, script, arguments, target, environment, allow_cpu)
        submission = submitting.submit_for_agent(self._project, request)
        if submission.approval is not None:
            return answers.Submitted(request=submission.approval.number, reasons=list(submission.approval.reasons))
        return answers.Submitted(run=self._info(submission.run.run_id) if submission.run is not None else None)

    async def wait_for_approval(
        self,
        request: Annotated[int, Field(ge=0, lt=1 << 31, description="the number of the request")],
        seconds: Seconds = 30,
    ) -> answers.Decision:
        """Wait at most `seconds` until the user approves or denies a request. Return the state of the request."""
        approval = await anyio.to_thread.run_sync(approvals.find_approval, request)
        with anyio.move_on_after(seconds):
            while approval.state == approvals.WAITING:
                await anyio.sleep(POLL_SECONDS)
                approval = await anyio.to_thread.run_sync(approvals.find_approval, request)
        return answers.decision(approval)

    def get_limits(self) -> answers.LimitsInfo:
        """Get the limits of the user for all agents together, and the current use of these limits."""
        limits, uses = load_limits(), ledger.read_uses()
        hours, gpu_hours = used_hours(uses)
        return answers.LimitsInfo(
            **{**limits._asdict(), "targets": list(limits.targets)},
            active_runs=sum(use.is_active for use in uses),
            used_hours=round(hours, 3),
            used_gpu_hours=round(gpu_hours, 3),
        )

    def _info(self, run: str) -> answers.RunInfo:
        reap()  # controllers that `adopt` started are children of this process, which runs for a long time
        current = self._runs.get(run, adopt=True)
        return answers.run_info(current, self._runs.facts(current.run_id))


def _request(
    configuration: str,
    script: str,
    arguments: tuple[str, ...],
    target: str,
    environment: dict[str, str] | None,
    allow_cpu: bool,
) -> RunRequest:
    return RunRequest(
        configuration,
        script,
        arguments,
        target,
        environment=tuple((environment or {}).items()),
        allow_cpu=allow_cpu,
        agent=current_agent(),
    )


def _require_same_secrets(before: Document, after: Document) -> None:
    """Raise UsageError if an edit would set, change, remove or reveal a secret.

    All values are compared, because a secret can be recognized by another value: `--api-key` is an item of a list, and
    the next item is the secret.
    """
    for old, new in (
        (before.values, after.values),
        (plain_value(before.tree.root), plain_value(after.tree.root)),
    ):
        if secrets_of(file_edits.plain(old)) != secrets_of(file_edits.plain(new)):
            raise UsageError("agents cannot set, change, remove or reveal a secret", remedy="Ask the user to edit it.")


def mask_setting(name: str, text: str) -> str:
    """Return the text that an agent gives as the value of a key, or MASK if the text contains a secret.

    `name` is the last part of the key.
    """
    try:
        value = plain_value(parse(text).root)
    except ConfigurationError:  # the edit is refused too, unless the value is a text
        value = text
    return MASK if mask_tree(value, name) != value else text


def _name_of(path: Path) -> str:
    """Return the last key in the path of a value. The value may be an item of a list under this key."""
    return next((step for step in reversed(path) if isinstance(step, str)), "")


def _number(cursor: str) -> int:
    if cursor and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise UsageError(
            f"{cursor!r} is not a valid cursor",
            remedy="Pass next_cursor of the previous page, or omit the cursor for the first page.",
        )
    return int(cursor or 0)
