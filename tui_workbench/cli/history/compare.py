"""`history compare|families`: show the differences between runs, and families of runs that differ only in the seed."""

from __future__ import annotations

import argparse
import itertools
import re
from typing import Any

from tui_workbench.cli.history.history import write_bytes
from tui_workbench.cli.shared.output import PLAIN, emit, notify, output
from tui_workbench.cli.shared.parser import option, options
from tui_workbench.core.errors import UsageError
from tui_workbench.projects.project import Project
from tui_workbench.runs.comparing import Comparison, compare
from tui_workbench.runs.estimates import estimate_text
from tui_workbench.runs.families import (
    FAMILY_NAME,
    compare_families,
    compared_record,
    family_record,
    left_out_notes,
)
from tui_workbench.runs.history import History
from tui_workbench.runs.snapshots.snapshot_view import snapshot_diff
from tui_workbench.runs.store.arguments import column_name, differing

WIDEST = 60
"""Maximum number of characters of a value in the table."""

configure_compare = options(
    option(
        "runs",
        metavar="ID",
        nargs="*",
        help="two or more runs, by ID or number, or two families, such as sweep-3.1 sweep-3.2",
    ),
    option("-r", "--run", dest="named_runs", metavar="ID", action="append", default=[], help="the same as ID"),
    option("--all", action="store_true", help="include values that do not differ"),
    option("--diff", action="store_true", help="print the diff of the code between each run and the next"),
    output(default="table"),
)
configure_families = options(output(default="table"))


def run_compare(arguments: argparse.Namespace) -> int:
    if arguments.diff and (arguments.output != "table" or arguments.query):
        raise UsageError(
            "--diff works only with table output and without --query",
            remedy="Omit --diff, or omit -o, --plain and --query.",
        )
    runs = History(Project.find(arguments.project))
    names = [*arguments.runs, *arguments.named_runs]
    if names and all(re.fullmatch(FAMILY_NAME, name) for name in names):
        return _compare_families(runs, names, arguments)
    if any(re.fullmatch(FAMILY_NAME, name) for name in names):
        raise UsageError("a family cannot be compared with a run", remedy="Give only families, or only runs.")
    comparison = compare(runs, names)
    if arguments.diff:
        _print_differences(runs, comparison)
        return 0
    shown = comparison.rows if arguments.all else comparison.differences
    if arguments.output == "json" or arguments.query:
        record = {
            "runs": [run.run_id for run in comparison.runs],
            "rows": [
                {"section": row.section, "name": row.name, "differs": row.differs, "values": list(row.values)}
                for row in shown
            ],
            "notes": list(comparison.notes),
        }
        return emit(record, arguments)
    names = [f"run {run.run_number}" if arguments.output == PLAIN else f"[{run.run_number}]" for run in comparison.runs]
    rows = [
        {"section": row.section, "name": row.name, **dict(zip(names, map(_shown, row.values), strict=True))}
        for row in shown
    ]
    emit(rows, arguments, ("section", "name", *names))
    notify(*([] if rows else ["the runs have no recorded differences"]), *comparison.notes)
    return 0


def _shown(value: Any) -> Any:
    # `-o json` has the complete value.
    if value is None:
        return "-"
    if isinstance(value, str) and len(value) > WIDEST:
        return f"{value[:WIDEST]}…"
    return value


def _print_differences(runs: History, comparison: Comparison) -> None:
    for before, after in itertools.pairwise(comparison.runs):
        for run in (before, after):
            if not run.commit_id:
                raise UsageError(
                    f"run {run.run_id} has no git snapshot",
                    remedy="Choose tracked runs (`TrackedRun: true`) that were submitted while git was installed.",
                )
        text = snapshot_diff(runs.project.state_directory, before.commit_id, after.commit_id)
        write_bytes((text.encode("utf-8", "surrogateescape"),))


def run_families(arguments: argparse.Namespace) -> int:
    families = History(Project.find(arguments.project)).families()
    if arguments.output not in ("table", PLAIN) or arguments.query:
        return emit([family_record(family) for family in families], arguments)
    names = differing([family.arguments for family in families])
    rows = []
    for family in families:
        values = {column_name(name): family.arguments.get(name, "") for name in names}
        samples = {name: family.sample(name).estimate for name in family.metrics}
        texts = {name: f"{estimate_text(mean)} (n = {mean.n})" for name, mean in samples.items() if mean}
        identity = {"family": family.name, "script_name": family.rows[0].run.script_name}
        rows.append({**identity, **values, "runs": len(family.runs), **texts})
    columns = dict.fromkeys(name for row in rows for name in row)
    emit(rows, arguments, tuple(columns))
    notify(*(note for family in families for note in left_out_notes(family)))
    return 0


def _compare_families(runs: History, names: list[str], arguments: argparse.Namespace) -> int:
    """Print a comparison of two families. Raises UsageError or RunNotFound for wrong names."""
    if arguments.all or arguments.diff:
        raise UsageError("--all and --diff compare runs, not families", remedy="Omit --all and --diff, or give runs.")
    families = runs.families(list(dict.fromkeys(names)))
    compared = compare_families(families)
    if arguments.output == "json" or arguments.query:
        return emit([compared_record(families, metric) for metric in compared], arguments)
    rows = []
    for metric in compared:
        texts = [estimate_text(estimate) or "-" for estimate in metric.estimates]
        means = {family.name: text for family, text in zip(families, texts, strict=True)}
        rows.append({"metric": metric.name, **means, "verdict": metric.verdict})
    emit(rows, arguments, ("metric", *(family.name for family in families), "verdict"))
    notify(*(note for family in families for note in left_out_notes(family)))
    notify("values are mean ± standard deviation; differences have a 95% confidence interval (Welch)")
    return 0
