"""`history list|last|info|compare`."""

from __future__ import annotations

import itertools
import os
import sys

from tui_workbench.cli.output import HISTORY_COLUMNS, PLAIN, add_output_options, emit
from tui_workbench.errors import RunNotFound, UsageError
from tui_workbench.project import Project
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs import Runs

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence
    from typing import Any

    from tui_workbench.runs.comparing import Comparison

TABLE_COLUMNS = ("duration", "run_id", "script_name", "start_time_utc", "status")
"""What follows the metrics in a table of runs, as in the original."""

MOST_METRIC_COLUMNS = 12
"""The most common metrics get a column; a script may log a thousand."""

WIDEST = 60
"""Characters of a value in a table of differences."""

_CHUNK = 1 << 16


def configure_list(parser: argparse.ArgumentParser) -> None:
    """Options of `history list`."""
    parser.add_argument("--all", action="store_true", help="archived runs too")
    add_output_options(parser)


def run_list(arguments: argparse.Namespace) -> int:
    """Every run that is not archived, newest first."""
    runs = Runs(Project.find(arguments.project))
    if arguments.output == "json" and not arguments.query:
        # The records lie ready as text; parsing and printing 10,000 of them again would be most of the work.
        sys.stdout.flush()
        sys.stdout.buffer.writelines((*runs.history_json(hidden=arguments.all), b"\n"))
        return 0
    emit_records(runs.history_records(hidden=arguments.all), arguments)
    return 0


def configure_last(parser: argparse.ArgumentParser) -> None:
    """Options of `history last`."""
    add_output_options(parser)


def run_last(arguments: argparse.Namespace) -> int:
    """The newest run."""
    project = Project.find(arguments.project)
    runs = Runs(project)
    run = runs.last()
    if run is None:
        raise RunNotFound(
            f"{project.root} has no runs yet", remedy="Start one: `workbench-tui experiment submit -c NAME SCRIPT`."
        )
    emit_records(runs.history_record(run.run_id), arguments)
    return 0


def configure_info(parser: argparse.ArgumentParser) -> None:
    """Options of `history info`."""
    add_run_option(parser)
    parser.add_argument(
        "-a", "--artifact", metavar="NAME", default="", help="write this one of its attachments to stdout"
    )
    add_output_options(parser)


def run_info(arguments: argparse.Namespace) -> int:
    """One run, or one of its artifacts to the byte."""
    runs = Runs(Project.find(arguments.project))
    if not arguments.artifact:
        emit_records(runs.history_record(arguments.run), arguments)
        return 0
    from tui_workbench.runs.downloads import artifact_path
    from tui_workbench.runs.regular import open_regular

    with open_regular(artifact_path(runs.directory(arguments.run).path, arguments.artifact)) as file:
        write_bytes(iter(lambda: file.read(_CHUNK), b""))
    return 0


def configure_compare(parser: argparse.ArgumentParser) -> None:
    """Options of `history compare`."""
    parser.add_argument("runs", metavar="ID", nargs="+", help="two runs or more, by id or number")
    parser.add_argument("--all", action="store_true", help="also what is the same in all of them")
    parser.add_argument("--diff", action="store_true", help="how the code of each differs from that of the one before")
    add_output_options(parser, default="table", note="default: table")


def run_compare(arguments: argparse.Namespace) -> int:
    """What differs between runs."""
    runs = Runs(Project.find(arguments.project))
    comparison = runs.compare(arguments.runs)
    if arguments.diff:
        _print_differences(runs, comparison)
        return 0
    if arguments.output == "json" or arguments.query:
        emit(_comparison_record(comparison, everything=arguments.all), arguments)
        return 0
    names = [f"run {run.run_number}" if arguments.output == PLAIN else f"[{run.run_number}]" for run in comparison.runs]
    rows = [
        {"section": row.section, "name": row.name, **dict(zip(names, map(_shown, row.values), strict=True))}
        for row in (comparison.rows if arguments.all else comparison.differences)
    ]
    emit(rows, arguments, ("section", "name", *names))
    if not rows:
        sys.stderr.write("They do not differ in anything that is recorded.\n")
    _tell(comparison.notes)
    return 0


def _comparison_record(comparison: Comparison, *, everything: bool) -> dict[str, Any]:
    rows = comparison.rows if everything else comparison.differences
    return {
        "runs": [run.run_id for run in comparison.runs],
        "rows": [
            {"section": row.section, "name": row.name, "differs": row.differs, "values": list(row.values)}
            for row in rows
        ],
        "notes": list(comparison.notes),
    }


def _shown(value: Any) -> Any:
    # Enough to see what differs; the JSON has all of it.
    if value is None:
        return "-"
    if isinstance(value, str) and len(value) > WIDEST:
        return f"{value[:WIDEST]}…"
    return value


def _print_differences(runs: Runs, comparison: Comparison) -> None:
    """The code of each run against that of the one before it."""
    from tui_workbench.runs.snapshotview import snapshot_diff

    for before, after in itertools.pairwise(comparison.runs):
        for run in (before, after):
            if not run.commit_id:
                raise UsageError(
                    f"there is no snapshot of {run.run_id} in git", remedy="Runs without one have no code to show."
                )
        text = snapshot_diff(runs.project.state_directory, before.commit_id, after.commit_id)
        write_bytes((text.encode("utf-8", "surrogateescape"),))


def _tell(notes: Iterable[str]) -> None:
    from tui_workbench.cli.terminal import visible

    for note in notes:
        sys.stderr.write(f"{visible(note)}\n")


def emit_records(records: Any, arguments: argparse.Namespace) -> None:
    """Print history records; a table has their metrics first, and `-o tsv` the same columns for any of them."""
    columns: Sequence[str] = HISTORY_COLUMNS
    if arguments.output in ("table", PLAIN) and not arguments.query:
        metrics = _metric_columns(_listed(records))
        columns = (*metrics, *TABLE_COLUMNS) if arguments.output == "table" else (*HISTORY_COLUMNS, "gpu", *metrics)
        if arguments.output == "table" and any("gpu" in record for record in _listed(records)):
            columns = ("gpu", *columns)
            records = [{**record, "gpu": record.get("gpu", {}).get("verdict")} for record in _listed(records)]
    emit(records, arguments, columns)


def _listed(records: Any) -> list[dict[str, Any]]:
    return records if isinstance(records, list) else [records]


def _metric_columns(records: Sequence[dict[str, Any]]) -> list[str]:
    from tui_workbench.runs.history import metric_name

    counts: dict[str, int] = {}
    for record in records:
        for key in record:
            counts[key] = counts.get(key, 0) + 1
    metrics = [key for key in counts if metric_name(key)]
    shown = sorted(metrics, key=lambda key: (-counts[key], key))[:MOST_METRIC_COLUMNS]
    if len(metrics) > len(shown):
        sys.stderr.write(f"{len(metrics) - len(shown):,} more metrics are in `-o json`.\n")
    return sorted(shown)


def add_run_option(parser: argparse.ArgumentParser) -> None:
    """`--run ID`, also as a plain number."""
    parser.add_argument("-r", "--run", metavar="ID", required=True, help="the run id, or the run's number")


def write_bytes(parts: Iterable[bytes]) -> None:
    """Write what is not ours to stdout: to a terminal only what a terminal may see, otherwise every byte."""
    out = sys.stdout.buffer
    sys.stdout.flush()
    if not os.isatty(sys.stdout.fileno()):
        for data in parts:
            out.write(data)
        return
    from tui_workbench.cli.terminal import TerminalFilter

    shown = TerminalFilter()
    for data in parts:
        out.write(shown.feed(data))
    out.write(shown.flush())


def folder_of(path: str) -> str:
    """A folder that the user named, as an absolute path."""
    return os.path.abspath(os.path.expanduser(path))
