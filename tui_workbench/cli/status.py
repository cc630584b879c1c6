"""`status [--line]`: what runs, in a sentence; short and quick enough for the status line of tmux or of a prompt."""

from __future__ import annotations

import os
import sys

from tui_workbench.cli.output import add_project_option
from tui_workbench.cli.terminal import visible
from tui_workbench.errors import WorkbenchError
from tui_workbench.model import RunState
from tui_workbench.project import Project
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from tui_workbench.model import Run

GLYPHS = {
    RunState.RUNNING: "●",
    RunState.FINALIZING: "◍",
    RunState.PREPARING: "◌",
    RunState.QUEUED: "○",
    RunState.UNKNOWN: "?",
    RunState.COMPLETED: "✓",
    RunState.FAILED: "✗",
    RunState.CANCELED: "⊘",
}
"""As in the screens: a state is a glyph and a word."""

ACTIVE = (RunState.RUNNING, RunState.FINALIZING, RunState.PREPARING, RunState.QUEUED, RunState.UNKNOWN)
LONGEST_NAME = 40


def configure_status(parser: argparse.ArgumentParser) -> None:
    """Options of `status`."""
    parser.epilog = """\
Without --line: a line for each active run, or the newest one. --line prints one short line for the status line of tmux,
and nothing outside of a project: set -g status-right "#(cd '#{pane_current_path}' && workbench-tui status --line)"."""
    parser.add_argument("--line", action="store_true", help="one short line, nothing where there is no project")
    add_project_option(parser)


def run_status(arguments: argparse.Namespace) -> int:
    """Print it. With --line nothing is an error."""
    try:
        project = Project.find(arguments.project)
        active, last = _runs_of(project)
    except WorkbenchError:
        if arguments.line:
            return 0
        raise
    if arguments.line:
        # What begins with # would be a command of the status line that shows it.
        line = _line(project.name, active, last).replace("#", "")
        sys.stdout.write(f"{visible(line)}\n" if line else "")
    else:
        shown = active or ([last] if last else [])
        sys.stdout.write("".join(f"{visible(_told(run))}\n" for run in shown) or "No run yet.\n")
    return 0


def _runs_of(project: Project) -> tuple[list[Run], Run | None]:
    """The active runs, newest first, and the newest run if there is one."""
    from tui_workbench.runs.index import RunIndex
    from tui_workbench.runs.rundir import RunDirectory

    with RunIndex(project) as index:
        active = [RunDirectory(os.path.join(project.runs_directory, run_id)).run() for run_id in index.active()]
        return sorted(active, key=lambda run: -run.created), index.last()


def _line(project: str, active: list[Run], last: Run | None) -> str:
    if not active:
        return f"{_told(last)} · {project}" if last else ""
    states = [run.state for run in active]
    counted = [f"{GLYPHS[state]} {states.count(state)} {state}" for state in ACTIVE if state in states]
    return " · ".join([*counted, project])


def _told(run: Run) -> str:
    name = run.script_name
    if len(name) > LONGEST_NAME:
        name = f"…{name[1 - LONGEST_NAME :]}"
    word = run.state
    if run.state == RunState.FAILED and run.exit_code:
        word = f"exit {run.exit_code}"
    return f"{GLYPHS.get(run.state, '?')} {name} [{run.run_number}] {word}"
