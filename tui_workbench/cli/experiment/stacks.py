"""`experiment stacks`: show the Python stacks of a run."""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Iterator

from tui_workbench.cli.shared.output import TEXT, emit, output
from tui_workbench.cli.shared.parser import RUN, option, options
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.stacks import (
    Stacks,
    has_several_nodes,
    last_stacks,
    left_out_text,
    place_of,
    process_title,
    rank_places,
    stacks_record,
    thread_state,
)
from tui_workbench.targets.hosts.stacks import Frame

configure_stacks = options(
    RUN,
    option("--last", action="store_true", help="print the last stacks that were read, even if the run has ended"),
    output(TEXT, example="processes[].threads[].frames[0]"),
    epilog="""\
Reads the stacks of all threads in all Python processes of a running script with
py-spy, including torchrun ranks and data loader workers. The script is neither
changed nor paused. Values of variables are not read. The most recent call is
first. The stacks are kept with the run.

examples:
  workbench-tui experiment stacks -r 12
  workbench-tui experiment stacks -r 12 -o json""",
)


def run_stacks(arguments: argparse.Namespace) -> int:
    runs = Runs(Project.find(arguments.project))
    stacks = last_stacks(runs.directory(arguments.run).path) if arguments.last else runs.stacks(arguments.run)
    return emit(stacks_record(stacks), arguments, text=_lines(stacks))


def _lines(stacks: Stacks) -> Iterator[str]:
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(stacks.time))
    yield f"run {stacks.run_id} at {moment}, read in {stacks.seconds:.1f} s"
    for ranks, frames in rank_places(stacks.processes):
        yield f"{ranks}: {', in '.join(map(_call, frames))}"
    has_nodes = has_several_nodes(stacks.processes)
    for process in stacks.processes:
        yield ""
        yield f"{process_title(process, has_nodes=has_nodes)}: {shlex.join(process.stacks.command)}"
        if process.stacks.problem:
            yield f"  not read: {process.stacks.problem}"
        for thread in process.stacks.threads:
            yield f"  {thread.name or 'thread'}: {thread_state(thread)}"
            yield from (f"    {_call(frame)}" for frame in thread.frames)
    if left_out := left_out_text(stacks):
        yield ""
        yield left_out


def _call(frame: Frame) -> str:
    return f"{frame.function} ({place_of(frame)})"
