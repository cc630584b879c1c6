"""`history list|last|info`, and `history tag|note|archive|pin`."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tui_workbench.cli.shared.output import HISTORY_COLUMNS, PLAIN, emit, output
from tui_workbench.cli.shared.parser import RUN, option, options
from tui_workbench.cli.shared.terminal import TerminalFilter
from tui_workbench.core.errors import RunNotFound, UsageError
from tui_workbench.core.files import open_regular
from tui_workbench.projects.project import Project
from tui_workbench.runs.history import History
from tui_workbench.runs.store.annotations import Annotations, with_tags
from tui_workbench.runs.store.history_record import metric_name
from tui_workbench.runs.transfer.downloads import artifact_path

TABLE_COLUMNS = ("duration", "run_id", "script_name", "start_time_utc", "status")
"""What follows the metrics in a table of runs, as in the original."""

MOST_METRIC_COLUMNS = 12
"""The most common metrics get a column; a script may log a thousand."""

_CHUNK = 1 << 16

configure_list = options(option("--all", action="store_true", help="archived runs too"), output())
configure_last = options(output())
configure_info = options(
    RUN,
    option("-a", "--artifact", metavar="NAME", default="", help="write this one of its attachments to stdout"),
    output(),
)
configure_tag = options(
    RUN,
    option("tags", metavar="NAME[=VALUE]", nargs="*", help="tags to give it"),
    option("--remove", metavar="NAME", action="append", default=[], help="a tag to take away"),
    output(),
)
configure_note = options(RUN, option("text", metavar="TEXT", help="the note; an empty one takes it away"), output())
configure_archive = options(RUN, option("--undo", action="store_true", help="list it again"), output())
configure_pin = options(RUN, option("--undo", action="store_true", help="unpin it"), output())


def run_list(arguments: argparse.Namespace) -> int:
    """Every run that is not archived, newest first."""
    runs = History(Project.find(arguments.project))
    if arguments.output == "json" and not arguments.query:
        # The records lie ready as text; parsing and printing 10,000 of them again would be most of the work.
        sys.stdout.flush()
        sys.stdout.buffer.writelines((*runs.history_json(hidden=arguments.all), b"\n"))
        return 0
    return emit_records(runs.history_records(hidden=arguments.all), arguments)


def run_last(arguments: argparse.Namespace) -> int:
    """The newest run."""
    project = Project.find(arguments.project)
    runs = History(project)
    run = runs.last()
    if run is None:
        raise RunNotFound(
            f"{project.root} has no runs yet", remedy="Start one: `workbench-tui experiment submit -c NAME SCRIPT`."
        )
    return emit_records(runs.history_record(run.run_id), arguments)


def run_info(arguments: argparse.Namespace) -> int:
    """One run, or one of its artifacts to the byte."""
    runs = History(Project.find(arguments.project))
    if not arguments.artifact:
        return emit_records(runs.history_record(arguments.run), arguments)
    with open_regular(artifact_path(runs.directory(arguments.run).path, arguments.artifact)) as file:
        write_bytes(iter(lambda: file.read(_CHUNK), b""))
    return 0


def emit_records(records: Any, arguments: argparse.Namespace) -> int:
    """Print history records; a table has their metrics first, and `-o tsv` the same columns for any of them."""
    columns: Sequence[str] = HISTORY_COLUMNS
    listed = records if isinstance(records, list) else [records]
    if arguments.output in ("table", PLAIN) and not arguments.query:
        metrics = _metric_columns(listed)
        columns = (*HISTORY_COLUMNS, "gpu", *metrics)
        if arguments.output == "table":
            has_gpu = any("gpu" in record for record in listed)
            columns = ("run_number", *(("gpu",) if has_gpu else ()), *metrics, *TABLE_COLUMNS)
            records = [{**record, "gpu": record.get("gpu", {}).get("verdict")} for record in listed]
    return emit(records, arguments, columns)


def _metric_columns(records: Sequence[dict[str, Any]]) -> list[str]:
    counts = Counter(key for record in records for key in record if metric_name(key))
    shown = sorted(counts, key=lambda key: (-counts[key], key))[:MOST_METRIC_COLUMNS]
    if len(counts) > len(shown):
        sys.stderr.write(f"{len(counts) - len(shown):,} more metrics are in `-o json`.\n")
    return sorted(shown)


# -- what people say of runs -------------------------------------------------------------------------------------------


def run_tag(arguments: argparse.Namespace) -> int:
    """Give a run tags, and take some away."""
    if not arguments.tags and not arguments.remove:
        raise UsageError("no tag was named", remedy="Name some: `history tag -r ID best model=resnet`.")
    tags = {name: value for name, _, value in (word.partition("=") for word in arguments.tags)}
    removed = tuple(arguments.remove)

    def change(found: Annotations) -> Annotations:
        for name in removed:
            if name not in found.tags:
                raise UsageError(
                    f"nobody gave the run a tag {name!r}", remedy="`history info` shows its tags, its script's own too."
                )
        return with_tags(found, tags, removed)

    return _annotate(arguments, change)


def run_note(arguments: argparse.Namespace) -> int:
    """Give a run a note, in place of the one it has."""
    return _annotate(arguments, lambda found: found._replace(note=arguments.text))


def run_archive(arguments: argparse.Namespace) -> int:
    """Leave a run out of lists from now on; nothing of it is removed."""
    return _annotate(arguments, lambda found: found._replace(archived=not arguments.undo))


def run_pin(arguments: argparse.Namespace) -> int:
    """Keep a run at the head of the table of runs."""
    return _annotate(arguments, lambda found: found._replace(pinned=not arguments.undo))


def _annotate(arguments: argparse.Namespace, change: Callable[[Annotations], Annotations]) -> int:
    runs = History(Project.find(arguments.project))
    runs.annotate(arguments.run, change)
    return emit_records(runs.history_record(arguments.run), arguments)


def write_bytes(parts: Iterable[bytes]) -> None:
    """Write what is not ours to stdout: to a terminal only what a terminal may see, otherwise every byte."""
    sys.stdout.flush()
    shown = TerminalFilter() if os.isatty(sys.stdout.fileno()) else None
    for data in parts:
        sys.stdout.buffer.write(data if shown is None else shown.feed(data))
    if shown is not None:
        sys.stdout.buffer.write(shown.flush())


def folder_of(path: str) -> str:
    """A folder that the user named, as an absolute path."""
    return os.path.abspath(os.path.expanduser(path))
