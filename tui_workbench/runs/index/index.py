"""The run index: an SQLite cache of the run directories. If it is deleted, it is rebuilt.

A process that changes annotations or an ended run adds the run ID to a journal. A refresh therefore reads only runs
that are active, imported, unreadable, new, removed, or in the new lines of the journal. New and removed runs change the
mtime of the runs folder. As in the index of git, an mtime is trusted only if it was old enough when the folder was
read. A refresh without changes writes nothing.
"""

from __future__ import annotations

import functools
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from tui_workbench.core.errors import RunNotFound
from tui_workbench.core.files import LARGEST, open_regular
from tui_workbench.core.model import Run, RunState
from tui_workbench.core.progress import metered
from tui_workbench.projects.project import Project
from tui_workbench.runs.index import index_file
from tui_workbench.runs.index.history_record import facts_from_text, facts_of, record_text
from tui_workbench.runs.index.index_file import IndexRow, delete_rows, insert_rows, run_from_text
from tui_workbench.runs.index.table import (
    COLUMNS,
    SCANNED,
    Group,
    Page,
    RunQuery,
    RunRow,
    argument_names,
    compared_names,
    condition_of,
    order_of,
    value_of,
)
from tui_workbench.runs.store.annotations import JOURNAL, is_being_changed
from tui_workbench.runs.store.rundir import RunDirectory

_Parameters = ParamSpec("_Parameters")
_Answer = TypeVar("_Answer")

STABLE_NS = 1_000_000_000  # minimum age in nanoseconds of a trusted mtime of the runs folder
SLOW_SECONDS = 0.005  # if reading the metrics of an active run takes longer, a pause follows before the next read
_PAUSES, _LONGEST_PAUSE = 100, 60.0  # the pause as a multiple of the reading time, and its maximum in seconds

ENDED, ACTIVE, UNREADABLE, IMPORTED = 0, 1, 2, 3  # kinds of rows; a refresh reads all kinds except ENDED again

_NEWEST_FIRST = "ORDER BY created DESC, run_id DESC"


def _rebuilds(
    question: Callable[Concatenate[RunIndex, _Parameters], _Answer],
) -> Callable[Concatenate[RunIndex, _Parameters], _Answer]:
    """Decorate a query: if the index file is damaged, or from another program, rebuild it and repeat the query."""

    @functools.wraps(question)
    def answer(index: RunIndex, /, *arguments: _Parameters.args, **options: _Parameters.kwargs) -> _Answer:
        try:
            return question(index, *arguments, **options)
        except (sqlite3.DatabaseError, ValueError, KeyError, TypeError, AttributeError):
            index.rebuild()
            return question(index, *arguments, **options)

    return answer


LONGEST_NUMBER = 18
"""Maximum number of digits of a run number."""


def find_run(project: Project, run_id: str) -> RunDirectory:
    """Return the directory of a run, given by ID or number. Raises RunNotFound."""
    if run_id and os.sep not in run_id and not run_id.startswith("."):
        path = _path_of(project.runs_directory, run_id)
        if os.path.isdir(path):
            return RunDirectory(path)
        if run_id.isdecimal() and len(run_id) <= LONGEST_NUMBER:
            with RunIndex(project) as index:
                full_id = index.id_of(int(run_id))
            if full_id:
                return RunDirectory(os.path.join(project.runs_directory, full_id))
    raise RunNotFound(f"no run {run_id!r} in {project.root}", remedy="`workbench-tui history list` lists the runs.")


def shown_id(name: str) -> str:
    r"""Return the name of a run folder as a run ID, with `\xff` for a byte that is not UTF-8."""
    return name if name.isascii() else os.fsencode(name).decode("utf-8", "backslashreplace")


def _path_of(folder: str, run_id: str) -> str:
    """Return the path of the run folder whose `shown_id` is `run_id`."""
    path = os.path.join(folder, run_id)
    if "\\x" in run_id and not os.path.lexists(path):
        name = re.sub(r"\\x([89a-f][0-9a-f])", lambda byte: chr(0xDC00 + int(byte[1], 16)), run_id)
        return os.path.join(folder, name)
    return path


def unreadable_run(path: str, reason: str, moment: float = 0.0) -> Run:
    """Return the run of a directory whose record cannot be read; `moment` is the time of its last change."""
    state = RunState.UNKNOWN
    return Run(shown_id(os.path.basename(path)), 0, path, "", (), "", "", "", state, reason, created=moment, end=moment)


class RunIndex:
    """The index of the runs of a project. A `with` statement opens and refreshes it."""

    def __init__(self, project: Project) -> None:
        self._folder = project.runs_directory
        # The file is outside of the project. Reading a project must not change it, and its files are not trusted.
        self._path = os.path.join(project.cache_directory, index_file.FILE) if project.cache_directory else ":memory:"
        self._journal_path = os.path.join(project.state_directory, JOURNAL)
        self._connection: sqlite3.Connection

    def __enter__(self) -> RunIndex:
        self._connection = self._open(self._path if os.path.isdir(self._folder) else ":memory:")
        self.refresh()
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    @_rebuilds
    def runs(self) -> list[Run]:
        """Return all runs, newest first."""
        rows = self._execute(f"SELECT run FROM runs {_NEWEST_FIRST}")
        return [run_from_text(text) for (text,) in rows]

    @_rebuilds
    def newest(self) -> Run | None:
        """Return the newest run with a readable record, or None. Only such runs have a number."""
        newest = f"SELECT run_id FROM listed WHERE number > 0 {_NEWEST_FIRST} LIMIT 1"
        rows = self._execute(f"SELECT run FROM runs WHERE run_id = ({newest})")
        return next((run_from_text(text) for (text,) in rows), None)

    @_rebuilds
    def find(self, run_id: str) -> Run | None:
        rows = self._execute("SELECT run FROM runs WHERE run_id = ?", run_id)
        return next((run_from_text(text) for (text,) in rows), None)

    @_rebuilds
    def id_of(self, number: int) -> str:
        """Return the ID of the newest run with this number, or ""."""
        rows = self._execute(f"SELECT run_id FROM listed WHERE number = ? {_NEWEST_FIRST} LIMIT 1", number)
        return next((str(run_id) for (run_id,) in rows), "")

    @_rebuilds
    def history_json(self, *, hidden: bool = False) -> bytes:
        """Return the history records of all runs as JSON objects, newest first, separated by commas.

        With `hidden`, archived runs are included. The duration of an active run is the time from its start until now.
        """
        active = "SELECT run_id, run, facts FROM runs WHERE open AND open = ?"
        now = {
            run_id: record_text(run_from_text(run), facts_from_text(facts)).encode()
            for run_id, run, facts in self._execute(active, ACTIVE)
        }
        every = f"SELECT run_id, CAST(record AS BLOB) FROM runs WHERE ? OR NOT hidden {_NEWEST_FIRST}"
        return b",\n".join([now.get(run_id, record) for run_id, record in self._execute(every, hidden)])

    @_rebuilds
    def active(self) -> list[str]:
        return [run_id for (run_id,) in self._execute("SELECT run_id FROM runs WHERE open AND open = ?", ACTIVE)]

    @_rebuilds
    def page(self, query: RunQuery, offset: int = 0, limit: int = 100) -> Page:
        """Return at most `limit` rows of the table of runs, starting at `offset`."""
        condition = condition_of(query.filter, archived=query.archived)
        is_plain = query.sort == "created" and not query.filter and not query.group
        source = "listed" if is_plain else SCANNED
        ((total,),) = self._execute(f"SELECT count(*) FROM {source} WHERE {condition.sql}", *condition.values)
        order, join, values = order_of(query, condition)
        chosen = f"SELECT listed.id FROM {source} {join} WHERE {condition.sql} ORDER BY {order} LIMIT ? OFFSET ?"
        rows = []
        for (number,) in self._execute(chosen, *values, *condition.values, limit, offset).fetchall():
            ((run, facts),) = self._execute("SELECT run, facts FROM runs WHERE id = ?", number)
            rows.append(RunRow(run_from_text(run), facts_from_text(facts)))
        return Page(total, rows)

    @_rebuilds
    def groups(self, query: RunQuery) -> list[Group]:
        """Return the groups of the query. The group with the newest run is first."""
        condition = condition_of(query.filter, archived=query.archived)
        by = COLUMNS.get(query.group, "script")
        active = "sum(state NOT IN ('completed', 'failed', 'canceled') AND ended = 0)"
        rows = self._execute(
            f"SELECT {by}, count(*), {active}, max(created) FROM {SCANNED} WHERE {condition.sql} GROUP BY {by}"
            f" ORDER BY max(created) DESC, {by}",
            *condition.values,
        )
        return [Group(str(value), *rest) for value, *rest in rows]

    @_rebuilds
    def column(self, query: RunQuery, name: str, limit: int = 1000) -> list[tuple[str, int, Any]]:
        """Return the ID, number and value of a column or metric for the newest matching runs, oldest first.

        Runs without a value are omitted.
        """
        condition = condition_of(query.filter, archived=query.archived)
        value, join, values = value_of(name)
        chosen = (
            f"SELECT run_id, number, {value} FROM listed {join} WHERE {condition.sql} AND {value} IS NOT NULL"
            f" {_NEWEST_FIRST} LIMIT ?"
        )
        return self._execute(chosen, *values, *condition.values, limit).fetchall()[::-1]

    @_rebuilds
    def metric_names(self, limit: int = 1000) -> list[tuple[str, int]]:
        """Return the names of metrics, each with the number of runs that have it, the most frequent first."""
        chosen = "SELECT name, count(*) AS runs FROM metrics GROUP BY name ORDER BY runs DESC, name LIMIT ?"
        return self._execute(chosen, limit).fetchall()

    @_rebuilds
    def unknown_names(self, text: str) -> list[str]:
        """Return the names in the conditions of a filter that no column, metric or argument of the project has."""
        return [
            name
            for name in compared_names(text)
            if not self._execute(
                "SELECT 1 WHERE EXISTS (SELECT 1 FROM metrics WHERE name = ?)"
                " OR EXISTS (SELECT 1 FROM arguments WHERE name IN (?, ?, ?))",
                name,
                *argument_names(name),
            ).fetchall()
        ]

    @_rebuilds
    def arguments(self, query: RunQuery, limit: int = 1000) -> list[tuple[str, int, bool]]:
        """Return the names of arguments of the matching runs, the most frequent first.

        Each name has the number of runs with this argument, and True if the values differ or a matching run lacks the
        argument.
        """
        condition = condition_of(query.filter, archived=query.archived)
        shown = f"SELECT listed.id AS shown FROM {SCANNED} WHERE {condition.sql}"
        ((total,),) = self._execute(f"SELECT count(*) FROM ({shown})", *condition.values)
        chosen = (
            "SELECT name, count(*) AS runs, min(value) != max(value) FROM arguments"
            f" WHERE id IN ({shown}) GROUP BY name ORDER BY runs DESC, name LIMIT ?"
        )
        rows = self._execute(chosen, *condition.values, limit)
        return [(name, runs, bool(differs) or runs < total) for name, runs, differs in rows]

    @_rebuilds
    def families(self, names: Sequence[str] | None = None) -> dict[str, list[RunRow]]:
        """Return the runs of these families, or of all families, by the name of the family.

        The newest family is first. In each family, the oldest run is first. Archived runs are included, so that
        archiving a run does not change the statistics of its family.
        """
        chosen = f"SELECT run, facts FROM {SCANNED} JOIN runs ON runs.id = listed.id WHERE family != ''"
        if names is not None:
            chosen += f" AND family IN ({', '.join('?' * len(names))})"
        families: dict[str, list[RunRow]] = {}
        for text, facts in self._execute(f"{chosen} ORDER BY listed.created DESC, listed.run_id DESC", *names or ()):
            run = run_from_text(text)
            families.setdefault(run.family, []).insert(0, RunRow(run, facts_from_text(facts)))
        return families

    @_rebuilds
    def seed_arguments(self) -> list[str]:
        """Return the names of the arguments whose values differ between the runs of a family."""
        chosen = (
            "SELECT DISTINCT name FROM (SELECT name FROM arguments JOIN listed ON listed.id = arguments.id"
            " WHERE family != '' GROUP BY family, name HAVING min(value) != max(value))"
        )
        return [name for (name,) in self._execute(chosen)]

    @_rebuilds
    def best(self, query: RunQuery, metric: str, goal: str) -> float | None:
        """Return the lowest (`min`) or highest (`max`) finite value of a metric in matching completed runs, or None."""
        condition = condition_of(query.filter, archived=query.archived)
        function = "min" if goal == "min" else "max"
        is_finite = "typeof(metrics.value) != 'text' AND abs(metrics.value) < 9e999"
        chosen = (
            f"SELECT {function}(metrics.value) FROM metrics JOIN listed ON listed.id = metrics.id"
            f" WHERE metrics.name = ? AND listed.state = ? AND {is_finite} AND {condition.sql}"
        )
        ((value,),) = self._execute(chosen, metric, RunState.COMPLETED, *condition.values)
        return None if value is None else float(value)

    def rebuild(self) -> None:
        """Create a new file, and read all runs again."""
        self._connection.close()
        self._connection = self._open(self._path, new_file=True)
        self._refresh()

    @_rebuilds
    def refresh(self) -> None:
        self._refresh()  # `rebuild` calls it without the decorator, so that it is not repeated without end

    def _execute(self, statement: str, *values: object) -> sqlite3.Cursor:
        return self._connection.execute(statement, values)

    def _open(self, path: str, *, new_file: bool = False) -> sqlite3.Connection:
        """Open the tables; if the file cannot be used, create them in memory, which is slower."""
        if new_file and os.path.isabs(path):
            index_file.remove(path)
        try:
            return index_file.connect(path)
        except sqlite3.DatabaseError as error:
            # The file stays locked or is not writable, or the disk is full; SQLITE_ERROR means that a table is missing.
            is_blocked = isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode != sqlite3.SQLITE_ERROR
            if new_file or is_blocked:
                return index_file.connect(":memory:")
            return self._open(path, new_file=True)

    def _refresh(self) -> None:
        opened = self._execute("SELECT run_id, run, facts, due FROM runs WHERE open")
        open_rows: dict[str, tuple[str, str, float]] = {row[0]: row[1:] for row in opened}
        ((seen_mtime, *seen_journal),) = self._execute("SELECT folder_mtime, journal, journal_mtime FROM seen")
        try:
            mtime = os.stat(self._folder).st_mtime_ns
        except OSError:
            mtime = 0
        # Read the journal first, so that the next refresh finds later changes.
        journal, changed = self._journal(*seen_journal)
        new: set[str] = set()
        gone: set[str] = set()
        if mtime != seen_mtime:
            present = _run_ids(self._folder)
            indexed = {run_id for (run_id,) in self._execute("SELECT run_id FROM runs")}
            new, gone = present - indexed, indexed - present
        stable = mtime if time.time_ns() - mtime > STABLE_NS else 0
        rows = []
        for run_id in metered("indexing", "runs", list(new | changed | (open_rows.keys() - gone))):
            row = self._row(run_id, open_rows.get(run_id))
            if row is not None and (*row.texts, row.due) != open_rows.get(run_id):
                rows.append(row)
            if row is not None and row.kind != ACTIVE and is_being_changed(row.run.directory):
                # The new annotations may be written after this read: the next refresh reads the same lines again.
                journal = tuple(seen_journal)
        if rows or gone or (stable and stable != seen_mtime) or journal != tuple(seen_journal):
            self._store(rows, gone, stable, journal)

    def _journal(self, seen: int, seen_mtime: int) -> tuple[tuple[int, int], set[str]]:
        """Return the size and mtime of the journal, and the runs that it lists after `seen` bytes.

        Raises ValueError if the journal was replaced, so that the index is rebuilt.
        """
        size = mtime = 0
        data = b""
        try:
            with open_regular(self._journal_path) as file:
                status = os.fstat(file.fileno())
                size, mtime = status.st_size, status.st_mtime_ns if status.st_size else 0
                if size > seen:
                    file.seek(seen)
                    data = file.read(min(size - seen, LARGEST + 1))
        except OSError:
            pass  # the journal does not exist yet
        if (size, mtime) == (seen, seen_mtime):
            return (size, mtime), set()
        if size <= seen:
            raise ValueError("the journal was replaced")
        if len(data) > LARGEST:
            return (size, mtime), _run_ids(self._folder)  # too large to be from the workbench: read all runs
        *lines, torn = data.split(b"\n")
        names = (shown_id(os.fsdecode(line)) for line in lines)
        return (size - len(torn), mtime), {
            name for name in names if name and not {"/", "\0"} & {*name} and name[0] != "."
        }

    def _row(self, run_id: str, stored: tuple[str, str, float] | None) -> IndexRow | None:
        """Read a run, even if this version cannot parse it. Return None if its directory was removed.

        `stored` is the stored row of a run that had not ended.
        """
        path = _path_of(self._folder, run_id)
        try:
            run = RunDirectory(path).run()
            kind = IMPORTED if run.imported else ACTIVE if run.is_active else ENDED
        except RunNotFound as error:
            try:
                moment = os.stat(path).st_mtime
            except OSError:
                return None
            kind, run = UNREADABLE, unreadable_run(path, str(error), moment)
        begun = time.time()
        if stored is not None and kind == ACTIVE and begun < stored[2] < begun + _LONGEST_PAUSE:
            return IndexRow(run, kind, facts_of(run.directory, facts_from_text(stored[1])), stored[2])
        facts = facts_of(run.directory)
        spent = time.time() - begun
        is_slow = kind == ACTIVE and spent > SLOW_SECONDS
        due = round(begun + min(_PAUSES * spent, _LONGEST_PAUSE), 1) if is_slow else 0.0
        return IndexRow(run, kind, facts, due)

    def _store(self, rows: Sequence[IndexRow], gone: Iterable[str], mtime: int, journal: tuple[int, int]) -> None:
        try:
            self._execute("BEGIN IMMEDIATE")
            insert_rows(self._connection, rows)
            delete_rows(self._connection, gone)
            self._execute("UPDATE seen SET folder_mtime = ?, journal = ?, journal_mtime = ?", mtime, *journal)
            self._execute("COMMIT")
        except sqlite3.OperationalError:
            # If the file is read-only or locked, or the disk is full, use a copy in memory.
            if self._connection.in_transaction:
                self._execute("ROLLBACK")
            memory = index_file.connect(":memory:")
            self._connection.backup(memory)
            self._connection.close()
            self._connection = memory
            self._store(rows, gone, mtime, journal)


def _run_ids(folder: str) -> set[str]:
    try:
        with os.scandir(folder) as entries:
            return {shown_id(entry.name) for entry in entries if not entry.name.startswith(".") and entry.is_dir()}
    except OSError:
        return set()
