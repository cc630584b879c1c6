"""Read and annotate the runs of a project, without starting a process or changing the state of a run."""

from __future__ import annotations

import builtins
import contextlib
import os
from collections.abc import Callable, Sequence
from typing import Any

from tui_workbench.core.errors import RunNotFound, UsageError
from tui_workbench.core.json_values import parse_json
from tui_workbench.core.model import Run
from tui_workbench.projects.project import Project
from tui_workbench.runs.families import Family, family_of
from tui_workbench.runs.gpu.run_verdict import verdict_of
from tui_workbench.runs.gpu.verdict import to_json
from tui_workbench.runs.index.damages import damaged_files
from tui_workbench.runs.index.history_record import Facts, attempt_records, facts_of, history_record
from tui_workbench.runs.index.index import RunIndex, find_run
from tui_workbench.runs.index.table import Page, RunQuery, RunRow
from tui_workbench.runs.index.trash import find_deleted, unfinished_purge
from tui_workbench.runs.logs.spark_ui import spark_record
from tui_workbench.runs.store.annotations import Annotations, change_annotations
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.runs.transfer.downloads import attachments


class History:
    """The runs of a project, for reading and annotating."""

    def __init__(self, project: Project) -> None:
        self.project = project

    def directory(self, run_id: str) -> RunDirectory:
        """Return the directory of a run, given by ID or number. Raises RunNotFound."""
        return find_run(self.project, run_id)

    def get(self, run_id: str) -> Run:
        """Read a run from its files. Raises RunNotFound."""
        return self.directory(run_id).run()

    def list(self) -> builtins.list[Run]:
        """Return all runs, newest first."""
        with RunIndex(self.project) as index:
            return index.runs()

    def deleted(self, run_ids: Sequence[str] = ()) -> builtins.list[Run]:
        """Return the runs in the trash with these IDs or numbers, or all of them, newest first. Raises RunNotFound."""
        return find_deleted(self.project, run_ids)

    def unfinished_purge(self) -> builtins.list[str]:
        """Return the IDs of runs whose purge was interrupted."""
        return unfinished_purge(self.project)

    def last(self) -> Run | None:
        """Return the newest run with a readable record, or None."""
        with RunIndex(self.project) as index:
            return index.newest()

    def group(self, group: str) -> builtins.list[Run]:
        """Return the runs of a sweep, newest first."""
        return [run for run in History.list(self) if run.group == group]

    def families(self, names: builtins.list[str] | None = None) -> builtins.list[Family]:
        """Return the families with these names in this order, or all families, the newest first. Raises RunNotFound."""
        with RunIndex(self.project) as index:
            rows_of = index.families(names)
        missing = next((name for name in names or () if name not in rows_of), None)
        if missing is not None:
            raise RunNotFound(f"no family {missing!r}", remedy="`workbench-tui history families` lists the families.")
        return [family_of(name, rows_of[name]) for name in names or rows_of]

    def page(self, query: RunQuery, offset: int = 0, limit: int = 100) -> Page:
        """Return at most `limit` rows of the table of runs, starting at `offset`; see `runs.index.table`.

        Raises UsageError if no run matches a filter with a name that no column, metric or argument has.
        """
        with RunIndex(self.project) as index:
            page = index.page(query, offset, limit)
            unknown = index.unknown_names(query.filter) if not page.total else []
        if unknown:
            raise UsageError(
                f"no column, metric or argument is named {unknown[0]!r}",
                remedy="Names of metrics are case-sensitive. `workbench-tui history list` shows all names.",
            )
        return page

    def facts(self, run_id: str) -> Facts:
        """Return the metrics, annotations and GPU use of a run. Raises RunNotFound."""
        return facts_of(self.directory(run_id).path)

    def annotate(self, run_id: str, change: Callable[[Annotations], Annotations]) -> Annotations:
        """Replace the annotations of a run with the result of `change`, which gets the current annotations.

        See `tui_workbench.runs.store.annotations`. Raises RunNotFound, UsageError or StorageError.
        """
        return change_annotations(self.directory(run_id).path, self.project.state_directory, change)

    def history_json(self, *, hidden: bool = False) -> tuple[bytes, ...]:
        """Return the history records of all runs as JSON, newest first; `hidden` includes archived runs.

        The JSON is ASCII, indented by 2 spaces, and returned in parts to avoid a copy.
        """
        with RunIndex(self.project) as index:
            records = index.history_json(hidden=hidden)
        return (b"[\n", records, b"\n]") if records else (b"[]",)

    def history_records(self, *, hidden: bool = False) -> builtins.list[dict[str, Any]]:
        """Return the records of `history_json` as dicts; see `tui_workbench.runs.index.history_record`."""
        records: builtins.list[dict[str, Any]] = parse_json(b"".join(self.history_json(hidden=hidden)))
        return records

    def deleted_records(self) -> builtins.list[dict[str, Any]]:
        """Return the history records of the runs in the trash, newest first."""
        return [history_record(run, facts_of(run.directory)) for run in self.deleted()]

    def history_record(self, run_id: str) -> dict[str, Any]:
        """Return the history record of a run, with its attachments. Raises RunNotFound."""
        run = History.get(self, run_id)
        sizes = {}
        for name in attachments(run.directory):
            with contextlib.suppress(OSError):  # the file was removed in the meantime
                sizes[name] = os.lstat(os.path.join(run.directory, name)).st_size
        facts = facts_of(run.directory)._replace(damages=damaged_files(run.directory))
        record = {**history_record(run, facts), "attachments": ", ".join(sizes)}
        record["attachment_sizes"] = sizes
        if attempts := attempt_records(RunDirectory(run.directory)):
            record["attempts"] = attempts
        if spark := spark_record(run):
            record["spark"] = spark
        if "gpu" in record and (verdict := verdict_of(RunDirectory(run.directory))) is not None:
            record["gpu"] = to_json(verdict)
        return record

    def exportable(self, run_ids: Sequence[str] = (), *, hidden: bool = False) -> builtins.list[RunRow]:
        """Return the runs to export: the given runs in this order, or all ended runs, newest first.

        Archived runs are returned only if they are given, or with `hidden`. Raises RunNotFound, and UsageError for a
        given run that is active.
        """
        requested = [History.get(self, run_id) for run_id in run_ids]
        for run in requested:
            if run.is_active:
                raise UsageError(f"run {run.run_id} has not ended yet", remedy="Wait until it ends, then export it.")
        ended = (run for run in requested or History.list(self) if not run.is_active)
        every = (RunRow(run, facts_of(run.directory)) for run in ended)
        return [row for row in every if requested or hidden or not row.facts.annotations.archived]
