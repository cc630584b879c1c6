"""`gpu check`: whether runs would compute on a GPU, rung by rung from the driver to the framework."""

from __future__ import annotations

import sys

from tui_workbench.cli.output import emit
from tui_workbench.cli.targetcheck import (
    COLUMNS,
    add_host_key_option,
    add_result_options,
    exit_code,
    is_text,
    lines_of,
    record,
)
from tui_workbench.errors import UsageError, WorkbenchError
from tui_workbench.plaintext import visible
from tui_workbench.project import Project
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from tui_workbench.model import ComputeTarget, RunSpec
    from tui_workbench.targets.host import Host


def configure_check(parser: argparse.ArgumentParser) -> None:
    """Options of `gpu check`."""
    parser.epilog = """\
Asks the driver, its GPUs, a container with them, the framework in the run's own environment, whether that fits the
driver, and shared memory. A matrix product on each GPU proves it. Nothing is installed or left behind.

exit codes:
  0 runs would compute on a GPU, 4 they would not (the last line says what mends it)

examples:
  workbench-tui gpu check -t local
  workbench-tui gpu check -t gpubox -c train-gpubox
  workbench-tui gpu check -t gpubox -o json"""
    parser.add_argument("-t", "--target", metavar="NAME", default="", help="the compute target")
    parser.add_argument(
        "-c", "--run-configuration", metavar="NAME", default="",
        help="the .runconfig whose environment is asked (default: the one of the target's name)",
    )  # fmt: skip
    add_host_key_option(parser)
    add_result_options(parser)


def run_check(arguments: argparse.Namespace) -> int:
    """Ask rung by rung; 4 when one is broken."""
    from tui_workbench.targets.check import gpu_ladder

    spec = _specification(arguments)
    host = _logged_in(spec.target, arguments)
    rungs = []
    for rung in gpu_ladder(spec, host):
        rungs.append(rung)
        if is_text(arguments):
            for line in lines_of(rung, spec.target.address or "this machine"):
                sys.stdout.write(visible(line) + "\n")
            sys.stdout.flush()
    if not is_text(arguments):
        emit([record(rung) for rung in rungs], arguments, COLUMNS)
    return exit_code(rungs)


def _logged_in(target: ComputeTarget, arguments: argparse.Namespace) -> Host | None:
    """The other machine of a target, once what a login needs was asked for; None where the first rung says why."""
    from tui_workbench.cli.asking import settle_login
    from tui_workbench.targets.host_for import host_of
    from tui_workbench.targets.ssh import SshHost

    try:
        host = host_of(target)
        if isinstance(host, SshHost):
            for fingerprint in arguments.accept_host_key:
                host.accept_host_key(fingerprint)
            if is_text(arguments):
                settle_login(target)
    except WorkbenchError:
        return None
    return host


def _specification(arguments: argparse.Namespace) -> RunSpec:
    """What is asked: of a run configuration and its target, or another; or of a target alone."""
    from tui_workbench.targets.gpu.places import spec_of

    project = Project.find(arguments.project)
    if arguments.run_configuration:
        configuration = project.run_configuration(arguments.run_configuration)
        return spec_of(project.target_of(configuration, arguments.target), configuration)
    if not arguments.target:
        raise UsageError("neither a target nor a run configuration was named", remedy="Name one with -t or -c.")
    return spec_of(project.target(arguments.target))
