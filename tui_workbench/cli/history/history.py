"""`history list|last|info|tag|note|archive|pin`: list and annotate runs."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tui_workbench.cli.shared.output import HISTORY_COLUMNS, PLAIN, emit, notify, output
from tui_workbench.cli.shared.parser import RUN, option, options
from tui_workbench.cli.shared.terminal import TerminalFilter
from tui_workbench.core.errors import RunNotFound, UsageError
from tui_workbench.core.files import open_regular
from tui_workbench.core.model import RunState
from tui_workbench.core.plaintext import counted
from tui_workbench.projects.project import Project
from tui_workbench.runs.estimates import finite
from tui_workbench.runs.history import History
from tui_workbench.runs.index.history_record import BY_NAME, metric_key, metric_name, state_word
from tui_workbench.runs.metrics.metric_words import goal_of
from tui_workbench.runs.store.annotations import Annotations, with_tags
from tui_workbench.runs.store.arguments import column_name, differing
from tui_workbench.runs.transfer.downloads import artifact_path

TABLE_COLUMNS = ("duration", "run_id", "script_name", "start_time_utc", "status")
"""The columns after the metrics in a table of runs."""

MOST_METRIC_COLUMNS = 12
"""Maximum number of columns for metrics. The most common metrics get a column."""

MOST_ARGUMENT_COLUMNS = 8
"""Maximum number of columns for arguments that differ between the runs."""

_CHUNK = 1 << 16

configure_list = options(
    option("--all", action="store_true", help="include archived runs"),
    option("--deleted", action="store_true", help="list the runs in the trash instead"),
    option("--best", metavar="METRIC[:min|:max]", default="",
           help="mark the best value of a metric in a table; min: low values are better, max: high values are better "
           "(default: depends on the name of the metric)"),
    output(example="[?status=='Completed']"),
)  # fmt: skip
configure_last = options(output(example="status"))
configure_info = options(
    RUN,
    option("-a", "--artifact", metavar="NAME", default="", help="write this artifact to stdout"),
    output(example="status"),
)
configure_tag = options(
    RUN,
    option("tags", metavar="NAME[=VALUE]", nargs="*", help="tags to add"),
    option("--remove", metavar="NAME", action="append", default=[], help="remove a tag; repeatable"),
    output(),
)
configure_note = options(RUN, option("text", metavar="TEXT", help="the note; '' removes it"), output())
configure_archive = options(RUN, option("--undo", action="store_true", help="unarchive the run"), output())
configure_pin = options(RUN, option("--undo", action="store_true", help="unpin the run"), output())


def run_list(arguments: argparse.Namespace) -> int:
    runs = History(Project.find(arguments.project))
    if arguments.deleted and (unfinished := [*runs.unfinished_purge()]):
        notify(f"the purge of {', '.join(unfinished)} was interrupted; `workbench-tui history purge` completes it")
    if arguments.deleted or arguments.best:
        records = runs.deleted_records() if arguments.deleted else runs.history_records(hidden=arguments.all)
        return _list_with_best(records, arguments) if arguments.best else emit_records(records, arguments)
    if arguments.output == "json" and not arguments.query:
        # The records are stored as JSON. Parsing and formatting 10,000 of them would take most of the time.
        sys.stdout.flush()
        sys.stdout.buffer.writelines((*runs.history_json(hidden=arguments.all), b"\n"))
        return 0
    return emit_records(runs.history_records(hidden=arguments.all), arguments)


def _list_with_best(records: list[dict[str, Any]], arguments: argparse.Namespace) -> int:
    """Print the table of runs, and mark the best value of a metric among the completed runs."""
    if arguments.output not in ("table", PLAIN) or arguments.query:
        raise UsageError(
            "--best works only with table output and without --query",
            remedy="Use -o table and omit --query. Or replace --best with a query, such as "
            '`--query "min_by([?loss], &loss)"`.',
        )
    metric, goal = metric_and_goal(arguments.best)
    key = metric_key(metric)
    completed = state_word(RunState.COMPLETED)
    values = [finite(record.get(key)) if record["status"] == completed else None for record in records]
    numbers = [value for value in values if value is not None]
    if not numbers:
        raise UsageError(
            f"no completed run has a number for the metric {metric!r}",
            remedy="Choose another metric, or wait until a run completes. `workbench-tui history list` prints the "
            "metrics.",
        )
    best = min(numbers) if goal == "min" else max(numbers)
    marked = [
        {**record, key: f"{value:.6g} *"} if value is not None and value == best else record
        for record, value in zip(records, values, strict=True)
    ]
    notify(f"* marks the {'lowest' if goal == 'min' else 'highest'} {metric}")
    return emit_records(marked, arguments, first_metric=key)


def metric_and_goal(text: str) -> tuple[str, str]:
    """Return the metric and goal in `METRIC[:min|:max]`.

    Raises UsageError if no goal is given and the name of the metric does not imply one.
    """
    metric, colon, goal = text.rpartition(":")
    if not colon or goal not in ("min", "max"):
        metric, goal = text, goal_of(text)
    if not goal:
        raise UsageError(
            f"cannot tell whether low or high values of {metric!r} are better",
            remedy=f"Write `{metric}:min` or `{metric}:max`.",
        )
    return metric, goal


def run_last(arguments: argparse.Namespace) -> int:
    project = Project.find(arguments.project)
    runs = History(project)
    run = runs.last()
    if run is None:
        raise RunNotFound(
            f"{project.root} has no runs yet", remedy="Start one: `workbench-tui experiment submit -c NAME SCRIPT`."
        )
    return emit_records(runs.history_record(run.run_id), arguments)


def run_info(arguments: argparse.Namespace) -> int:
    runs = History(Project.find(arguments.project))
    if not arguments.artifact:
        return emit_records(runs.history_record(arguments.run), arguments)
    with open_regular(artifact_path(runs.directory(arguments.run).path, arguments.artifact)) as file:
        write_bytes(iter(lambda: file.read(_CHUNK), b""))
    return 0


def emit_records(records: Any, arguments: argparse.Namespace, *, first_metric: str = "") -> int:
    """Print history records. `-o tsv` always has the same columns.

    `-o table` and `--plain` add columns for arguments that differ and for metrics. `first_metric` is the key of the
    first metric column.
    """
    columns: Sequence[str] = HISTORY_COLUMNS
    listed = records if isinstance(records, list) else [records]
    if arguments.output in ("table", PLAIN) and not arguments.query:
        metrics = _metric_columns(listed, first_metric)
        listed, names = _with_arguments(listed)
        records = listed if isinstance(records, list) else listed[0]
        columns = (*HISTORY_COLUMNS, "gpu", "agent", *names, *metrics)
        if arguments.output == "table":
            optional = [key for key in ("gpu", "agent") if any(record.get(key) for record in listed)]
            columns = ("run_number", *optional, *names, *metrics, *TABLE_COLUMNS)
            records = [{**record, "gpu": record.get("gpu", {}).get("verdict")} for record in listed]
    return emit(records, arguments, columns)


def _with_arguments(records: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the records with columns for arguments that differ between them, and the names of these columns."""
    arguments = differing([record[BY_NAME] for record in records])
    if len(arguments) > MOST_ARGUMENT_COLUMNS:
        notify(f"omitted {counted(len(arguments) - MOST_ARGUMENT_COLUMNS, 'argument')}; `-o json` prints all arguments")
    columns = {name: column_name(name) for name in arguments[:MOST_ARGUMENT_COLUMNS]}
    rows = [
        {**{columns[name]: value for name, value in record[BY_NAME].items() if name in columns}, **record}
        for record in records
    ]
    return rows, list(columns.values())


def _metric_columns(records: Sequence[dict[str, Any]], first: str) -> list[str]:
    counts = Counter(key for record in records for key in record if metric_name(key))
    shown = sorted(counts, key=lambda key: (key != first, -counts[key], key))[:MOST_METRIC_COLUMNS]
    if len(counts) > len(shown):
        notify(f"omitted {counted(len(counts) - len(shown), 'metric')}; `-o json` prints all metrics")
    return sorted(shown, key=lambda key: (key != first, key))


def run_tag(arguments: argparse.Namespace) -> int:
    if not arguments.tags and not arguments.remove:
        raise UsageError("no tag given", remedy="Give a tag, for example `workbench-tui history tag -r ID best`.")
    tags = {name: value for name, _, value in (word.partition("=") for word in arguments.tags)}
    removed = tuple(arguments.remove)

    def change(annotations: Annotations) -> Annotations:
        for name in removed:
            if name not in annotations.tags:
                raise UsageError(
                    f"run {arguments.run} has no tag {name!r} that a user added",
                    remedy="Choose another tag. Tags that the script logged cannot be removed.",
                )
        return with_tags(annotations, tags, removed)

    return _annotate(arguments, change)


def run_note(arguments: argparse.Namespace) -> int:
    return _annotate(arguments, lambda annotations: annotations._replace(note=arguments.text))


def run_archive(arguments: argparse.Namespace) -> int:
    return _annotate(arguments, lambda annotations: annotations._replace(archived=not arguments.undo))


def run_pin(arguments: argparse.Namespace) -> int:
    return _annotate(arguments, lambda annotations: annotations._replace(pinned=not arguments.undo))


def _annotate(arguments: argparse.Namespace, change: Callable[[Annotations], Annotations]) -> int:
    runs = History(Project.find(arguments.project))
    runs.annotate(arguments.run, change)
    return emit_records(runs.history_record(arguments.run), arguments)


def write_bytes(parts: Iterable[bytes]) -> None:
    """Write untrusted bytes to stdout. A terminal gets only harmless text."""
    sys.stdout.flush()  # text in its buffer comes before the bytes, which are written below it
    shown = TerminalFilter() if os.isatty(sys.stdout.fileno()) else None
    for data in parts:
        sys.stdout.buffer.write(data if shown is None else shown.feed(data))
    if shown is not None:
        sys.stdout.buffer.write(shown.flush())


def folder_of(path: str) -> str:
    """Return the absolute path of a path from the command line, with `~` expanded."""
    return os.path.abspath(os.path.expanduser(path))
