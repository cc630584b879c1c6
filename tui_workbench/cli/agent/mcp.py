"""`mcp`: serve tools for coding agents, on stdin and stdout or on a Unix socket."""

from __future__ import annotations

import argparse
import sys

from tui_workbench.cli.agent.listening import listen
from tui_workbench.cli.shared.output import notify
from tui_workbench.cli.shared.parser import PROJECT, option, options
from tui_workbench.core.errors import UsageError
from tui_workbench.core.installation import extra_command
from tui_workbench.projects.project import Project
from tui_workbench.runs.agents.limits import load_limits

configure_mcp = options(
    PROJECT,
    option("--socket", metavar="PATH", default="", help="serve agents on this Unix socket instead of on stdin"),
    epilog="""\
A coding agent starts this command and calls its tools with the Model Context
Protocol. The limits in ~/.config/workbench-tui/agents.yaml apply to the runs
that agents start; a run that exceeds them waits for your approval. Without this
file, every run waits. `workbench-tui agent list` lists the requests.""",
)


def run_mcp(arguments: argparse.Namespace) -> int:
    """Serve until the agent closes stdin; with `--socket`, until interrupted.

    Raises UsageError if the extra `agents` is not installed.
    """
    project = Project.find(arguments.project)
    load_limits()
    try:
        from tui_workbench.cli.agent.server import serve  # imports the libraries of the extra `agents`
    except ModuleNotFoundError as error:
        raise UsageError(
            f"`mcp` needs the package {error.name}, which is not installed",
            remedy=f"Install it: `{extra_command('agents')}`.",
        ) from error
    if arguments.socket:
        listen(arguments.socket, project.root)
    if sys.stdin.isatty():
        notify("this command waits for a coding agent, which starts it with a pipe; Ctrl-C ends it")
    serve(project)
    return 0
