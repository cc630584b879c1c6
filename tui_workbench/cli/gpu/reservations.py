"""`gpu reserve|extend|release|reservations`: reserve GPUs of a machine that several users share."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tui_workbench.cli.shared.output import TEXT, emit, is_text, notify, output
from tui_workbench.cli.shared.parser import number_of, option, options
from tui_workbench.core.errors import UsageError
from tui_workbench.projects.project import Project
from tui_workbench.targets.gpu.holding import Holder, Holding, parse_duration

COLUMNS = ("gpu", "user", "kind", "until", "run_id", "wanted")

TARGET = option("-t", "--target", metavar="NAME", required=True, help="the compute target")
GPU = option("--gpu", metavar="NUMBER", type=number_of("a GPU", "the number"), action="append", default=[],
             help="only this GPU (default: all that you have reserved); repeatable")  # fmt: skip

configure_reserve = options(
    TARGET,
    option("count", metavar="COUNT", nargs="?", type=number_of("GPUs"), help="the number of GPUs (default: 1)"),
    option("--gpu", metavar="NUMBER", type=number_of("a GPU", "the number"), action="append", default=[],
           help="reserve this GPU instead of any free one; repeatable"),
    option("--for", dest="duration", metavar="TIME", required=True, help="duration, such as 30m, 3h or 2d; at most 7d"),
    output(TEXT),
    epilog="""\
Reserves free GPUs for the given time. A run of another user does not use your
GPUs if its target has the same `gpuReservations`, and `gpus: free` or a number.
Your own runs use them. Other runs and other programs are not stopped.

The key `gpuReservations` of the target names the folder of reservations. Create
this folder once on the machine, for the group of the users of the GPUs:
  sudo install -d -m 3770 -g gpuusers /srv/workbench-gpus

examples:
  workbench-tui gpu reserve -t gpubox 2 --for 3h
  workbench-tui gpu reserve -t gpubox --gpu 3 --for 1d""",
)  # fmt: skip
configure_extend = options(
    TARGET,
    GPU,
    option("--by", dest="duration", metavar="TIME", required=True, help="time to add, such as 30m, 3h or 2d"),
    output(TEXT),
    epilog="""\
Adds time to your reservations. A reservation ends at most 7 days from now.

examples:
  workbench-tui gpu extend -t gpubox --by 2h
  workbench-tui gpu extend -t gpubox --gpu 3 --by 1d""",
)
configure_release = options(
    TARGET,
    GPU,
    output(TEXT),
    epilog="""\
Ends your reservations. GPUs that your runs have reserved are released when the
runs end.

examples:
  workbench-tui gpu release -t gpubox
  workbench-tui gpu release -t gpubox --gpu 3""",
)
configure_reservations = options(
    TARGET,
    output(default="table", example="[?user=='bob']"),
    epilog="""\
Prints one line for each reserved GPU. The reservation of a user ends at a time,
and the reservation of a run ends with the run. The runs that wait for free GPUs
follow in their order, each with the number of GPUs that it still needs.

examples:
  workbench-tui gpu reservations -t gpubox
  workbench-tui gpu reservations -t gpubox -o json""",
)


def run_reserve(arguments: argparse.Namespace) -> int:
    if arguments.count is not None and arguments.gpu:
        remedy = "Omit the number, or omit --gpu. You can repeat --gpu."
        raise UsageError(f"the number of GPUs ({arguments.count}) cannot be used with --gpu", remedy=remedy)
    if arguments.count == 0:
        raise UsageError("cannot reserve 0 GPUs", remedy="Give 1 or more.")
    seconds = parse_duration(arguments.duration)
    return _report("reserved", _holding(arguments).reserve(seconds, arguments.count or 1, arguments.gpu), arguments)


def run_extend(arguments: argparse.Namespace) -> int:
    seconds = parse_duration(arguments.duration)
    return _report("reserved", _holding(arguments).extend(seconds, arguments.gpu), arguments)


def run_release(arguments: argparse.Namespace) -> int:
    return _report("released", _holding(arguments).release(arguments.gpu), arguments)


def run_reservations(arguments: argparse.Namespace) -> int:
    holding = _holding(arguments)
    rows = [_record(holder) for holder in holding.holders()]
    emit(rows, arguments, COLUMNS)
    if holding.notice:
        notify(holding.notice)
    return 0


def _record(holder: Holder) -> dict[str, object]:
    gpu = holder.gpu if holder.gpu >= 0 else None
    return {name: value or None for name, value in holder._asdict().items()} | {"gpu": gpu, "is_own": holder.is_own}


def _holding(arguments: argparse.Namespace) -> Holding:
    return Holding(Project.find(arguments.project).target(arguments.target))


def _report(verb: str, holders: Sequence[Holder], arguments: argparse.Namespace) -> int:
    if not is_text(arguments):
        emit([_record(holder) for holder in holders], arguments, COLUMNS)
        return 0
    for holder in holders:
        notify(f"{verb} GPU {holder.gpu}" + (f" until {holder.until}" if verb == "reserved" else ""))
    return 0
