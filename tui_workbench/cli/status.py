"""`status [--line]`: show the active runs, or with `--line` one line for tmux or a shell prompt."""

from __future__ import annotations

import argparse
import os
import time

from tui_workbench.cli.shared.output import HISTORY_COLUMNS, TEXT, emit, is_text, output, write_lines
from tui_workbench.cli.shared.parser import option, options
from tui_workbench.core.errors import UsageError, WorkbenchError
from tui_workbench.core.model import STATE_GLYPHS, Run, RunState
from tui_workbench.projects.project import Project
from tui_workbench.runs.index.history_record import history_record
from tui_workbench.runs.index.index import RunIndex
from tui_workbench.runs.store.cluster_job import job_words
from tui_workbench.runs.store.rundir import RunDirectory

ACTIVE = (RunState.RUNNING, RunState.FINALIZING, RunState.PREPARING, RunState.QUEUED, RunState.UNKNOWN)
LONGEST_NAME = 40

configure_status = options(
    option("--line", action="store_true", help="print one short line, and nothing outside a project"),
    output(TEXT, example="[].status"),
    epilog="""\
Prints one line per active run, or the newest run if no run is active.

example for ~/.tmux.conf:
  set -g status-right "#(cd '#{pane_current_path}' && workbench-tui status --line)\"""",
)


def run_status(arguments: argparse.Namespace) -> int:
    if arguments.line and not is_text(arguments):
        raise UsageError(
            "--line works only with text output and without --query",
            remedy="Omit --line, or omit -o, --plain and --query.",
        )
    try:
        project = Project.find(arguments.project)
        active, last = _runs_of(project)
    except WorkbenchError:
        if arguments.line:
            return 0
        raise
    if arguments.line:
        # tmux would execute a command in a text such as `#(command)`.
        line = _line(project.name, active, last).replace("#", "")
        write_lines([line] if line else [])
        return 0
    shown = active or ([last] if last else [])
    text = [_summary(run) + _details(run) for run in shown] or ["No runs yet."]
    return emit([history_record(run) for run in shown], arguments, HISTORY_COLUMNS, text=text)


def _runs_of(project: Project) -> tuple[list[Run], Run | None]:
    """Return the active runs, newest first, and the newest run of the project (None if there is no run)."""
    with RunIndex(project) as index:
        active = [RunDirectory(os.path.join(project.runs_directory, run_id)).run() for run_id in index.active()]
        return sorted(active, key=lambda run: -run.created), index.newest()


def _line(project: str, active: list[Run], last: Run | None) -> str:
    if not active:
        return f"{_summary(last)} · {project}" if last else ""
    states = [run.state for run in active]
    counted = [f"{STATE_GLYPHS[state]} {states.count(state)} {state}" for state in ACTIVE if state in states]
    return " · ".join([*counted, project])


def _summary(run: Run) -> str:
    name = run.script_name
    if len(name) > LONGEST_NAME:
        name = f"…{name[1 - LONGEST_NAME :]}"
    word = run.state
    if run.state == RunState.FAILED and run.exit_code:
        word = f"exit {run.exit_code}"
    return f"{STATE_GLYPHS.get(run.state, '?')} {name} [{run.run_number}] {word}"


def _details(run: Run) -> str:
    """Return the job of an active run in its scheduler, and the reason why the run is queued; "" without both."""
    words = [job_words(run, time.time()), run.reason if run.state == RunState.QUEUED else ""]
    return "".join(f": {word}" for word in words if word and run.is_active)
