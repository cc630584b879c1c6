"""`history families`: list families of runs that differ only in the seed, and compare two of them."""

from __future__ import annotations

import argparse

from tui_workbench.cli.shared.output import PLAIN, emit, notify, output
from tui_workbench.cli.shared.parser import options
from tui_workbench.core.errors import UsageError
from tui_workbench.projects.project import Project
from tui_workbench.runs.estimates import estimate_text
from tui_workbench.runs.families import compare_families, compared_record, family_record, left_out_notes
from tui_workbench.runs.history import History
from tui_workbench.runs.store.arguments import column_name, differing

configure_families = options(output(default="table"))


def run_families(arguments: argparse.Namespace) -> int:
    families = History(Project.find(arguments.project)).families()
    if arguments.output not in ("table", PLAIN) or arguments.query:
        return emit([family_record(each) for each in families], arguments)
    names = differing([each.arguments for each in families])
    rows = []
    for each in families:
        values = {column_name(name): each.arguments.get(name, "") for name in names}
        samples = {name: each.sample(name).estimate for name in each.metrics}
        texts = {name: f"{estimate_text(found)} (n = {found.n})" for name, found in samples.items() if found}
        name = {"family": each.name, "script_name": each.rows[0].run.script_name}
        rows.append({**name, **values, "runs": len(each.runs), **texts})
    columns = dict.fromkeys(name for row in rows for name in row)
    emit(rows, arguments, tuple(columns))
    notify(*(note for each in families for note in left_out_notes(each)))
    return 0


def run_comparison(runs: History, names: list[str], arguments: argparse.Namespace) -> int:
    """Print a comparison of two families. Raises UsageError or RunNotFound for wrong names."""
    if arguments.all or arguments.diff:
        raise UsageError("--all and --diff compare runs, not families", remedy="Omit --all and --diff, or give runs.")
    families = runs.families(list(dict.fromkeys(names)))
    compared = compare_families(families)
    if arguments.output == "json" or arguments.query:
        return emit([compared_record(families, each) for each in compared], arguments)
    rows = []
    for each in compared:
        means = {name.name: estimate_text(found) or "-" for name, found in zip(families, each.estimates, strict=True)}
        rows.append({"metric": each.name, **means, "verdict": each.verdict})
    emit(rows, arguments, ("metric", *(each.name for each in families), "verdict"))
    notify(*(note for each in families for note in left_out_notes(each)))
    notify("values are mean ± standard deviation; differences have a 95% confidence interval (Welch)")
    return 0
