"""`trace [--run ID] [-f]`: show calls to ssh, docker, git and other programs."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from tui_workbench.cli.shared.output import emit, output
from tui_workbench.cli.shared.parser import number_of, option, options
from tui_workbench.core.directories import user_state_directory
from tui_workbench.core.errors import UsageError
from tui_workbench.core.plaintext import visible
from tui_workbench.core.trace import KINDS
from tui_workbench.core.trace_reading import RUNNING, TracedCall, TraceFile, matches, shell_line, short_line
from tui_workbench.projects.project import Project
from tui_workbench.runs.history import History

POLL_SECONDS = 0.2
DEFAULT_COUNT = 100
COLUMNS = ("time", "seconds", "result", "kind", "command")

configure_trace = options(
    option("--run", metavar="ID", default="", help="only calls for this run, by ID or number"),
    option("-f", "--follow", action="store_true", help="follow new calls; with --run, until the run has ended"),
    option(
        "-n",
        "--last",
        metavar="N",
        type=number_of("calls"),
        default=DEFAULT_COUNT,
        help="only the last N calls (default: 100)",
    ),
    option("--kind", choices=KINDS, help="only calls of this kind"),
    option("--failed", action="store_true", help="only failed calls, and calls whose process ended without a result"),
    option("--filter", metavar="TEXT", default="", help="only calls that contain every word of TEXT"),
    option(
        "--shell", action="store_true", help="print a shell script: full commands, with times and results as comments"
    ),
    output(
        default="",
        note="output format, with -f only json; without -o, each call is one line of text",
        example="[?kind=='git']",
    ),
    epilog="""\
Prints the start, duration, result and shortened command of each call, the
newest last; --shell prints full commands to copy. Without --run, the calls of
all projects are listed. Secrets are shown as ***.""",
)


def run_trace(arguments: argparse.Namespace) -> int:
    if arguments.shell and (arguments.output or arguments.query):
        raise UsageError(
            "--shell works only without -o, --plain and --query", remedy="Omit --shell, or omit these options."
        )
    if arguments.follow and (arguments.query or arguments.output not in ("", "json")):
        raise UsageError(
            "--follow works only with text or JSON output and without --query",
            remedy="Omit --query and --plain. Omit -o, or use `-o json`.",
        )
    folder, has_ended = user_state_directory(), None
    if arguments.run:
        directory = History(Project.find(arguments.project)).directory(arguments.run)
        folder, has_ended = directory.path, lambda: bool(directory.status().end)
    words = [arguments.filter]
    words += [f"kind:{arguments.kind}"] if arguments.kind else []
    words += ["failed"] if arguments.failed else []
    chosen = " ".join(words)
    trace = TraceFile(folder)
    trace.read_new()
    calls = [call for call in trace.calls if matches(call, chosen)]
    shown = calls[max(0, len(calls) - arguments.last) :]
    if (arguments.output or arguments.query) and not arguments.follow:
        columns = COLUMNS if arguments.output == "table" else ()
        return emit([_record(call) for call in shown], arguments, columns)
    write = _write_script if arguments.shell else _write_json if arguments.output else _write_lines
    write(shown)
    if arguments.follow:
        _follow(trace, chosen, write, has_ended)
    return 0


def _follow(
    trace: TraceFile, chosen: str, write: Callable[[Sequence[TracedCall]], None], has_ended: Callable[[], bool] | None
) -> None:
    """Write each new call when it has ended."""
    while True:
        # The end of the run is read before the calls, so that its last calls are not lost.
        is_last = has_ended is not None and has_ended()
        write([call for call in trace.read_new() if call.state != RUNNING and matches(call, chosen)])
        sys.stdout.flush()
        if is_last:
            return
        time.sleep(POLL_SECONDS)


def _record(call: TracedCall) -> dict[str, Any]:
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(call.started)),
        "seconds": None if call.seconds is None else round(call.seconds, 3),
        "kind": call.kind,
        "state": call.state,
        "result": call.result,
        "exit_code": call.code,
        "error": call.error or None,
        "stderr": call.stderr or None,
        "command": shell_line(call),
        "run_id": call.run or None,
        "agent": call.agent or None,
        "process": call.process,
    }


def _write_json(calls: Sequence[TracedCall]) -> None:
    sys.stdout.write("".join(f"{json.dumps(_record(call))}\n" for call in calls))


def _write_lines(calls: Sequence[TracedCall]) -> None:
    for call in calls:
        moment = time.strftime("%H:%M:%S", time.localtime(call.started))
        took = "" if call.seconds is None else f"{call.seconds:.3f} s"
        head = f"{moment} {took:>10}  {call.result or 'ok':<9} {call.kind:<7}  "
        sys.stdout.write(f"{head}{visible(short_line(call))}\n")
        for line in call.error_text.split("\n") if call.error_text else ():
            sys.stdout.write(f"{'':{len(head)}}{visible(line)}\n")


def _write_script(calls: Sequence[TracedCall]) -> None:
    to_terminal = sys.stdout.isatty()
    for call in calls:
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(call.started))
        took = "" if call.seconds is None else f", {call.seconds:.3f} s"
        sys.stdout.write(f"# {moment}{took}, {call.result or 'ok'}\n")
        for line in call.error_text.split("\n") if call.error_text else ():
            sys.stdout.write(f"#   {visible(line)}\n")
        text = shell_line(call)
        # A terminal shows control characters as glyphs. A pipe gets the exact command.
        sys.stdout.write("\n".join(map(visible, text.split("\n"))) if to_terminal else text)
        sys.stdout.write("\n")
