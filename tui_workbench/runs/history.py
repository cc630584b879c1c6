"""`History`: read and annotate a project's runs. It starts no process and ends no run."""

from __future__ import annotations

import builtins
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from tui_workbench.core.errors import UsageError
from tui_workbench.core.model import Run
from tui_workbench.projects.project import Project
from tui_workbench.runs.gpu.run_verdict import verdict_of
from tui_workbench.runs.gpu.verdict import to_json
from tui_workbench.runs.logs.spark_ui import spark_record
from tui_workbench.runs.store.annotations import Annotations, change_annotations
from tui_workbench.runs.store.history_record import Facts, facts_of, history_record
from tui_workbench.runs.store.index import RunIndex, find_run
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.runs.store.table import Page, RunQuery, RunRow
from tui_workbench.runs.transfer.downloads import attachments


class History:
    """The runs of one project, for reading."""

    def __init__(self, project: Project) -> None:
        self.project = project

    def directory(self, run_id: str) -> RunDirectory:
        """Return the directory of a run, by ID or run number. Raises RunNotFound."""
        return find_run(self.project, run_id)

    def get(self, run_id: str) -> Run:
        """Read a run from its files. Raises RunNotFound."""
        return self.directory(run_id).run()

    def list(self) -> builtins.list[Run]:
        """Return all runs, newest first."""
        with RunIndex(self.project) as index:
            return index.runs()

    def last(self) -> Run | None:
        with RunIndex(self.project) as index:
            return next(iter(index.runs(1)), None)

    def group(self, group: str) -> builtins.list[Run]:
        """Return the runs of a sweep, newest first."""
        return [run for run in History.list(self) if run.group == group]

    def page(self, query: RunQuery, offset: int = 0, limit: int = 100) -> Page:
        """Return a part of the table of runs; see `tui_workbench.runs.store.table`."""
        with RunIndex(self.project) as index:
            return index.page(query, offset, limit)

    def facts(self, run_id: str) -> Facts:
        """Return the metrics, annotations and GPU use of a run. Raises RunNotFound."""
        return facts_of(self.directory(run_id).path)

    def annotate(self, run_id: str, change: Callable[[Annotations], Annotations]) -> Annotations:
        """Change the annotations of a run: `change` maps the current annotations to the new ones.

        Raises RunNotFound, UsageError and StorageError; see `tui_workbench.runs.store.annotations`.
        """
        return change_annotations(self.directory(run_id).path, self.project.state_directory, change)

    def history_json(self, *, hidden: bool = False) -> tuple[bytes, ...]:
        """Return the history records of all runs, newest first; archived runs only with `hidden`.

        The result is a JSON list in ASCII with an indentation of 2, in pieces, to avoid copying it.
        """
        with RunIndex(self.project) as index:
            records = index.history_json(hidden=hidden)
        return (b"[\n", records, b"\n]") if records else (b"[]",)

    def history_records(self, *, hidden: bool = False) -> builtins.list[dict[str, Any]]:
        """Return the records of `history_json` as dicts; see `tui_workbench.runs.store.history_record`."""
        records: builtins.list[dict[str, Any]] = json.loads(b"".join(self.history_json(hidden=hidden)))
        return records

    def history_record(self, run_id: str) -> dict[str, Any]:
        """Return the history record of a run, with its attachments. Raises RunNotFound."""
        run = History.get(self, run_id)
        names = attachments(run.directory)
        sizes = {name: os.lstat(os.path.join(run.directory, name)).st_size for name in names}
        record = {**history_record(run, facts_of(run.directory)), "attachments": ", ".join(names)}
        record["attachment_sizes"] = sizes
        if spark := spark_record(run):
            record["spark"] = spark
        if "gpu" in record and (verdict := verdict_of(RunDirectory(run.directory))) is not None:
            record["gpu"] = to_json(verdict)
        return record

    def exportable(self, run_ids: Sequence[str] = (), *, hidden: bool = False) -> builtins.list[RunRow]:
        """Return the runs to export, newest first: the named runs, or all ended runs that are not archived.

        With `hidden` archived runs are included. Raises RunNotFound, and UsageError for an active run.
        """
        wanted = [History.get(self, run_id) for run_id in run_ids]
        for run in wanted:
            if run.is_active:
                raise UsageError(f"run {run.run_id} has not ended yet", remedy="Wait for its end, then export it.")
        ended = (run for run in wanted or History.list(self) if not run.is_active)
        every = (RunRow(run, facts_of(run.directory)) for run in ended)
        return [each for each in every if wanted or hidden or not each.facts.annotations.archived]
