"""`notebook`: start Jupyter on the files of the project, on this machine or in a run on another target."""

from __future__ import annotations

import argparse
import contextlib

from tui_workbench.cli.experiment.starting import ALLOW_CPU, ensure_target_login, suggesting_allow_cpu
from tui_workbench.cli.experiment.submit import exit_code_of
from tui_workbench.cli.ports import NO_BROWSER, keep_open
from tui_workbench.cli.shared.output import TEXT, notify, output
from tui_workbench.cli.shared.parser import option, options
from tui_workbench.cli.shared.progress_bar import shared
from tui_workbench.cli.shared.stream import OutputStream
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import Run, RunRequest, RunState
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.notebooks import changes_of, notebook_request
from tui_workbench.runs.ports import OpenPort, project_owner, run_owner
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.targets.hosts.serving import JUPYTER

configure_notebook = options(
    option("-t", "--target", metavar="TARGET", default="",
           help="the target (default: that of the run configuration, or local)"),
    option("-c", "--run-configuration", metavar="NAME", default="",
           help="the .runconfig whose environment is used (default: the only one of the target)"),
    ALLOW_CPU,
    NO_BROWSER,
    output(TEXT),
    epilog="""\
With a target of type local, starts Jupyter in the folder of the project. With a
target of type localdocker, remote or remotedocker, submits a run that starts
Jupyter: it has the environment, the GPUs and the files of any run of this run
configuration. The address contains a token, and leads to 127.0.0.1 of this
machine, or to the container of localdocker. Jupyter and the run end when you
press Ctrl-C, use `port close` or `experiment cancel`, or when the connection
ends. The files that you changed are then in the run, and the command names them
and the command that copies them into the project.

The environment needs the package jupyterlab, notebook or jupyter_server.

examples:
  workbench-tui notebook
  workbench-tui notebook -t other-python --no-browser
  workbench-tui notebook -c gpu-box""",
)  # fmt: skip


def run_notebook(arguments: argparse.Namespace) -> int:
    project = Project.find(arguments.project)
    request = notebook_request(project, arguments.target, arguments.run_configuration)
    if request is None:
        owner = project_owner(project, arguments.target, arguments.run_configuration)
        return keep_open(OpenPort(owner, JUPYTER), arguments)
    return _in_run(project, request._replace(allow_cpu=arguments.allow_cpu), arguments)


def _in_run(project: Project, request: RunRequest, arguments: argparse.Namespace) -> int:
    """Submit a run that starts Jupyter, keep its port open, and report the changed files when the run has ended."""
    ensure_target_login(project, request)
    runs = Runs(project)
    with suggesting_allow_cpu():
        run = runs.submit(request, single_threaded=True)
    directory = RunDirectory(run.directory)
    try:
        notes = directory.notes() if run.tracked else []
        notify(*notes, f"Jupyter starts in run {run.run_number}, {run.run_id}")
        is_running = _follow(directory, until=RunState.RUNNING).is_active
        opened = OpenPort(run_owner(directory), JUPYTER) if is_running else None
    except BaseException:  # also Ctrl-C: without an open port, the run is of no use
        with contextlib.suppress(WorkbenchError):
            runs.cancel(run.run_id)
        raise
    if opened is not None:
        with contextlib.suppress(KeyboardInterrupt):
            keep_open(opened, arguments)
        notify("Jupyter has ended. Waiting for the end of its run...")
    ended = _follow(directory)
    if ended.state != RunState.COMPLETED:
        notify(f"{ended.run_id} {ended.state}{f': {ended.reason}' if ended.reason else ''}")
    notify(*changes_of(ended, project.root))
    return exit_code_of(ended)


def _follow(directory: RunDirectory, until: str = "") -> Run:
    """Report the preparation and the state of a run until it has the state `until`, or has ended. Return the run."""
    try:
        with OutputStream(directory, end=0) as stream:  # stdout has only the address
            return stream.follow(shows_preparation=True, until=until)
    finally:
        shared().clear()
