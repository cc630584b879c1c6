"""Start the runs of a sweep or of `--repeat`, and follow them."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Sequence

from tui_workbench.cli import INTERRUPTED
from tui_workbench.cli.experiment.starting import ensure_target_login, suggesting_allow_cpu
from tui_workbench.cli.shared.output import HISTORY_COLUMNS, PLAIN, emit, notify, write_lines
from tui_workbench.core.errors import UsageError
from tui_workbench.core.model import Run, RunRequest, RunState, Seeds
from tui_workbench.core.plaintext import counted
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.index.history_record import history_record
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.runs.submission.planning import prepare
from tui_workbench.runs.sweeps import sweep
from tui_workbench.runs.sweeps.sweep import Member

POLL_SECONDS = 0.25
RESUME_SECONDS = 2.0
"""Seconds between checks for runs without a controller."""


def run_members(
    project: Project,
    request: RunRequest,
    value_sets: Sequence[dict[str, str]],
    seeds: Seeds | None,
    arguments: argparse.Namespace,
) -> int:
    """Start a run for each combination of values and seeds, and follow the runs unless `--detach` is given.

    With `--dry-run`, only print the runs. Return the exit code. Raises WorkbenchError.
    """
    # `--plain` is always allowed: the reports of several runs are plain lines.
    is_plain = arguments.output == PLAIN and not arguments.query
    wants_record = bool(arguments.output or arguments.query)
    if wants_record and not (arguments.detach or arguments.dry_run or is_plain):
        remedy = "Add `--detach` or `--dry-run`, or omit -o and --query."
        raise UsageError("-o and --query need --detach or --dry-run", remedy=remedy)
    runs = Runs(project)
    if not request.script or not request.arguments:
        # All runs share the arguments in ArgumentVector.
        spec = prepare(runs.project, request).spec
        request = request._replace(script=spec.script, arguments=spec.arguments)
    sweep.check_parallel(arguments.max_parallel)
    members = sweep.members_of(request.arguments, value_sets, seeds)
    if arguments.dry_run:
        return _print_members(runs, request, members, arguments, as_record=wants_record)
    ensure_target_login(runs.project, request)
    created: list[Run] = []
    with suggesting_allow_cpu():
        group = runs.sweep(request, members, arguments.max_parallel, created.append)
    if arguments.detach and wants_record:
        records = [history_record(RunDirectory(run.directory).run()) for run in created]
        return emit(records, arguments, HISTORY_COLUMNS)
    sys.stdout.write(f"Sweep: {group} ({counted(len(created), 'run')}, {arguments.max_parallel} at a time)\n")
    sys.stdout.flush()
    return 0 if arguments.detach else _follow(runs, group, [RunDirectory(run.directory) for run in created])


def _print_members(
    runs: Runs, request: RunRequest, members: Sequence[Member], arguments: argparse.Namespace, *, as_record: bool
) -> int:
    runs.plan(sweep.request_of(request, members[0]))  # raises the errors that a submission would raise
    rows = [
        {
            "member": number,
            "values": member.values,
            "arguments": list(member.arguments),
            **({"environment": dict(member.environment)} if member.environment else {}),
            **({"family": member.family} if member.family else {}),
        }
        for number, member in enumerate(members, 1)
    ]
    if as_record:
        return emit(rows, arguments)
    for number, member in enumerate(members, 1):
        variables = [f"{name}={value}" for name, value in member.environment]
        write_lines([f"{number}. {shlex.join((*variables, request.script, *member.arguments))}"])
    return 0


def _follow(runs: Runs, group: str, members: Sequence[RunDirectory]) -> int:
    """Print the start and the end of each run until all have ended. Return the exit code."""
    reported: dict[str, str] = {}
    last_resume = time.monotonic()
    try:
        while len(ended := [member for member in members if reported.get(member.run_id) in _ENDED]) < len(members):
            for directory in members:
                if directory not in ended:
                    _report(directory, reported)
            # The controller that would start the next run of the sweep may have been killed.
            if time.monotonic() - last_resume > RESUME_SECONDS:
                runs.resume()
                last_resume = time.monotonic()
            time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        notify(f"{group} continues. Cancel queued runs: workbench-tui experiment cancel --group {group}")
        return INTERRUPTED
    return 0 if all(state == RunState.COMPLETED for state in reported.values()) else 1


UNKNOWN_STATE = "result unknown"
_ENDED = frozenset((*RunState.TERMINAL, UNKNOWN_STATE))


def _report(directory: RunDirectory, reported: dict[str, str]) -> None:
    run = directory.run()
    state = run.state if run.is_active or run.state in RunState.TERMINAL else UNKNOWN_STATE
    if state == reported.get(run.run_id) or (run.is_active and state != RunState.RUNNING):
        return
    reported[run.run_id] = state
    note = f": {run.reason}" if run.reason and not run.is_active else ""
    seconds = f" ({run.duration:.1f} s)" if run.duration else ""
    words = " ".join((f"[{run.run_number}]", *run.variables, run.script_name, *run.arguments))
    write_lines([f"{words}  {state}{seconds}{note}"])
