"""The run index: a cache in SQLite of what the run directories say. It can be deleted at any time and is then rebuilt.

A run that has ended never changes but for what people say of it, so only runs that are active, unreadable, new or gone
are looked at, and those that the journal of annotations names. New and gone ones show in the modification time of the
folder that holds them. That time is trusted only when the folder had been at rest for a while as it was read (git's
rule for its index). Nothing is written while nothing has changed.
"""

from __future__ import annotations

import json
import os
import time

from tui_workbench.errors import RunNotFound
from tui_workbench.model import Run, RunState
from tui_workbench.records import TYPE_CHECKING, NamedTuple
from tui_workbench.runs import indexfile
from tui_workbench.runs.rundir import RECORD, RunDirectory

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, TypeVar

    from tui_workbench.project import Project
    from tui_workbench.runs.history import Facts
    from tui_workbench.runs.table import Group, Page, RunQuery

    _Answer = TypeVar("_Answer")
else:
    sqlite3 = indexfile.sqlite3

SETTLED_NS = 1_000_000_000
_DEAR, _PAUSES, _LONGEST_PAUSE = 0.005, 100, 60.0
"""Reading the metrics of a run that goes on, and writes a long log, takes seconds. When it took more than the first, it
is done again only after so many times that time, at the latest after the last."""

_LARGEST = 1 << 63
_END_OF_TIME = 1e12
"""Seconds since the epoch that no clock shows."""

ENDED, ACTIVE, UNREADABLE = 0, 1, 2
"""Of a row: it never changes again; the run goes on; the directory holds no run that this version reads."""

_NEWEST_FIRST = "ORDER BY created DESC, run_id DESC"
_SEPARATOR = ",\n"

JOINED_FROM = 500
"""With fewer runs, joining their records takes less time than it takes to keep the result."""


class _Row(NamedTuple):
    """A run as it is about to be stored; `run` and `facts` are JSON."""

    read: Run
    openness: int
    run: str
    facts: str
    known: Facts
    due: float  # when the metrics of a run that goes on are worth reading again, in seconds since the epoch


MANY_RUNS = 500
"""So many are read in less time than anybody notices; of more it is told how far that is."""


def _metered(run_ids: Iterable[str]) -> Iterator[str]:
    from tui_workbench.progress import metered

    return metered("indexing", "runs", list(run_ids))


class RunIndex:
    """The index of a project's runs, brought up to date when it is entered.

    `resume` is called with the ids of the runs that have not ended, and returns those that it has done something about.
    """

    def __init__(self, project: Project, resume: Callable[[list[str]], list[str]] | None = None) -> None:
        self._resume = resume
        self._folder = project.runs_directory
        self._path = os.path.join(project.state_directory, indexfile.FILE)
        self._state_directory = project.state_directory
        self._connection: sqlite3.Connection

    def __enter__(self) -> RunIndex:
        self._connection = self._open(self._path if os.path.isdir(self._folder) else ":memory:")
        self.refresh()
        if self._resume is not None and (active := self.active()) and self._resume(active):
            self.refresh()
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def runs(self) -> list[Run]:
        """Every run, newest first."""
        return self._answered(
            lambda: [run_from_text(text) for (text,) in self._execute(f"SELECT run FROM runs {_NEWEST_FIRST}")]
        )

    def last(self) -> Run | None:
        """The newest run."""
        return self._answered(
            lambda: next(
                (run_from_text(text) for (text,) in self._execute(f"SELECT run FROM runs {_NEWEST_FIRST} LIMIT 1")),
                None,
            )
        )

    def id_of(self, number: int) -> str:
        """The id of the newest run of a number; "" when there is none."""
        chosen = "SELECT run_id FROM listed WHERE number = ? ORDER BY created DESC, run_id DESC LIMIT 1"
        return self._answered(lambda: next((str(run_id) for (run_id,) in self._execute(chosen, number)), ""))

    def history_json(self, *, hidden: bool = False) -> bytes:
        """The history record of every run that is not archived as JSON, newest first, separated as in a list.

        It is empty when there is none; with `hidden` the archived ones are among them. The duration of an active run is
        up to now.
        """
        return self._answered(lambda: self._history_json(hidden=hidden))

    def active(self) -> list[str]:
        """The ids of the runs that have not ended."""
        return self._answered(
            lambda: [run_id for (run_id,) in self._execute("SELECT run_id FROM runs WHERE open AND open = ?", ACTIVE)]
        )

    def page(self, query: RunQuery, offset: int = 0, limit: int = 100) -> Page:
        """Part of the table of runs; see `tui_workbench.runs.table`. Raises UsageError for a filter that is none."""
        from tui_workbench.runs.table import page

        return self._answered(lambda: page(self._execute, query, offset, limit))

    def groups(self, query: RunQuery) -> list[Group]:
        """The groups that the query's `group` makes, in their order in the table."""
        from tui_workbench.runs.table import groups

        return self._answered(lambda: groups(self._execute, query))

    def column(self, query: RunQuery, name: str, limit: int = 1000) -> list[tuple[str, int, Any]]:
        """Id, number and value of a column or metric for the newest runs that the query finds, oldest first."""
        from tui_workbench.runs.table import column

        return self._answered(lambda: column(self._execute, query, name, limit))

    def metric_names(self, limit: int = 1000) -> list[tuple[str, int]]:
        """The metrics of all runs, and how many runs have each; the most common first."""
        from tui_workbench.runs.table import metric_names

        return self._answered(lambda: metric_names(self._execute, limit))

    def refresh(self) -> None:
        """Bring the index up to date with the run directories."""
        self._answered(self._refresh)

    def _answered(self, question: Callable[[], _Answer]) -> _Answer:
        """The answer; when the file turns out to be damaged or not ours, the answer of a new one."""
        try:
            return question()
        except (sqlite3.DatabaseError, ValueError, TypeError, IndexError):
            self._connection.close()
            self._connection = self._open(self._path, anew=True)
            self._refresh()
            return question()

    def _execute(self, statement: str, *values: object) -> sqlite3.Cursor:
        return self._connection.execute(statement, values)

    def _open(self, path: str, *, anew: bool = False) -> sqlite3.Connection:
        """A connection to tables of our form; in memory where the file cannot be used.

        Then the answer is the same, it only takes longer.
        """
        if anew:
            indexfile.remove(path)
        for place in (path, ":memory:"):
            try:
                return indexfile.connect(place)
            except sqlite3.OperationalError:
                continue  # locked for long, no permission, no space
            except sqlite3.DatabaseError:
                if not anew:
                    return self._open(path, anew=True)
        raise AssertionError("SQLite has no memory")

    def _refresh(self) -> None:
        opened = self._execute("SELECT run_id, run, facts, due FROM runs WHERE open")
        known_open: dict[str, tuple[str, str, float]] = {
            run_id: (run, facts, due) for run_id, run, facts, due in opened
        }
        ((seen_mtime, *seen_journal),) = self._execute("SELECT folder_mtime, journal, journal_mtime FROM seen")
        try:
            mtime = os.stat(self._folder).st_mtime_ns
        except OSError:
            mtime = 0
        # Before anything is read that it tells of: what comes meanwhile is looked at next time.
        journal, told = self._journal(*seen_journal)
        new: set[str] = set()
        gone: set[str] = set()
        if mtime != seen_mtime:
            present = _run_ids(self._folder)
            known = {run_id for (run_id,) in self._execute("SELECT run_id FROM runs")}
            new, gone = present - known, known - present
        settled = mtime if time.time_ns() - mtime > SETTLED_NS else 0
        rows = []
        due = new | told | (known_open.keys() - gone)
        for run_id in due if len(due) < MANY_RUNS else _metered(due):
            row = self._row(run_id, known_open.get(run_id))
            if row is not None and (row.run, row.facts, row.due) != known_open.get(run_id):
                rows.append(row)
            if row is not None and row.openness != ACTIVE and _is_being_changed(row.read.directory):
                journal = tuple(seen_journal)
        if rows or gone or (settled and settled != seen_mtime) or journal != tuple(seen_journal):
            self._store(rows, gone, settled, journal)

    def _journal(self, seen: int, seen_mtime: int) -> tuple[tuple[int, int], set[str]]:
        """Size and time of the journal of annotations, and the runs that it tells of since it was `seen` bytes long."""
        path = os.path.join(self._state_directory, indexfile.JOURNAL)
        try:
            status = os.stat(path)
            size, mtime = status.st_size, status.st_mtime_ns if status.st_size else 0
        except OSError:
            size = mtime = 0
        if (size, mtime) == (seen, seen_mtime):
            return (size, mtime), set()
        if size <= seen:
            raise ValueError("the journal of annotations is another one")
        with open(path, "rb") as file:
            file.seek(seen)
            lines = file.read(size - seen).split(b"\n")
        names = {os.fsdecode(line) for line in lines[:-1]}
        return (size - len(lines[-1]), mtime), {name for name in names if name and "/" not in name and name[0] != "."}

    def _row(self, run_id: str, stored: tuple[str, str, float] | None) -> _Row | None:
        """The run as it is now; `stored` is what the index has of it as one that has not ended."""
        from tui_workbench.runs.history import facts_from_text, facts_of, facts_text

        read = _read(self._folder, run_id)
        if read is None:
            return None
        run, openness = read
        begun, due = time.time(), 0.0
        if stored is not None and openness == ACTIVE and begun < stored[2] < begun + _LONGEST_PAUSE:
            known, due = facts_of(run.directory, facts_from_text(stored[1])), stored[2]
        else:
            known = facts_of(run.directory)
            spent = time.time() - begun
            if openness == ACTIVE and spent > _DEAR:
                due = round(begun + min(_PAUSES * spent, _LONGEST_PAUSE), 1)
        return _Row(run, openness, json.dumps(run), facts_text(known), known, due)

    def _store(self, rows: Sequence[_Row], gone: Iterable[str], mtime: int, journal: tuple[int, int]) -> None:
        from tui_workbench.runs.indexrows import delete_rows, insert_rows

        try:
            self._execute("BEGIN IMMEDIATE")
            insert_rows(self._connection, rows)
            delete_rows(self._connection, gone)
            self._execute("UPDATE seen SET folder_mtime = ?, journal = ?, journal_mtime = ?", mtime, *journal)
            if gone or any(row.openness != ACTIVE for row in rows):
                self._execute("UPDATE seen SET ended_version = ended_version + 1")
            self._execute("COMMIT")
        except sqlite3.OperationalError:
            # Read-only, full, or locked for long: answer from memory this time.
            if self._connection.in_transaction:
                self._execute("ROLLBACK")
            memory = sqlite3.connect(":memory:", isolation_level=None)
            self._connection.backup(memory)
            self._connection.close()
            self._connection = memory
            self._store(rows, gone, mtime, journal)

    def _history_json(self, *, hidden: bool) -> bytes:
        columns = "created, run, facts, hidden"
        active = self._execute(f"SELECT {columns} FROM runs WHERE open AND open = ?", ACTIVE).fetchall()
        ((newest,),) = self._execute("SELECT max(created) FROM runs WHERE open != ?", ACTIVE)
        if not hidden and (newest is None or all(created > newest for created, *_ in active)):
            shown = (
                _active_text(run, facts).encode()
                for _, run, facts, archived in sorted(active, reverse=True)
                if not archived
            )
            return _SEPARATOR.encode().join(filter(None, (*shown, self._ended_json() if newest is not None else b"")))
        rows = self._execute(f"SELECT open, run, facts, record, hidden FROM runs {_NEWEST_FIRST}")
        return _SEPARATOR.join(
            _active_text(run, facts) if openness == ACTIVE else record
            for openness, run, facts, record, archived in rows
            if hidden or not archived
        ).encode()

    def _ended_json(self) -> bytes:
        """The records of all runs but the active ones, as they were joined when one of them last changed."""
        ((version,),) = self._execute("SELECT ended_version FROM seen")
        for (records,) in self._execute("SELECT records FROM joined WHERE ended_version = ?", version):
            return bytes(records)
        ended = f"SELECT record FROM runs WHERE open != {ACTIVE} AND NOT hidden {_NEWEST_FIRST}"
        ((count, records),) = self._execute(
            f"SELECT count(*), CAST(group_concat(record, ?) AS BLOB) FROM ({ended})", _SEPARATOR
        )
        if count >= JOINED_FROM:
            try:
                self._execute("BEGIN IMMEDIATE")
                self._execute("DELETE FROM joined")
                self._execute("INSERT INTO joined VALUES (?, ?)", version, records)
                self._execute("COMMIT")
            except sqlite3.OperationalError:
                if self._connection.in_transaction:
                    self._execute("ROLLBACK")
        return bytes(records or b"")


def _active_text(run: str, facts: str) -> str:
    from tui_workbench.runs.history import facts_from_text, record_text

    return record_text(run_from_text(run), facts_from_text(facts))


def _is_being_changed(directory: str) -> bool:
    from tui_workbench.runs.annotations import is_being_changed

    return is_being_changed(directory)


def _run_ids(folder: str) -> set[str]:
    try:
        with os.scandir(folder) as entries:
            return {entry.name for entry in entries if not entry.name.startswith(".") and entry.is_dir()}
    except OSError:
        return set()


def _read(folder: str, run_id: str) -> tuple[Run, int] | None:
    """The run, or what can be said of a directory that holds none that this version reads; None when it is gone."""
    path = os.path.join(folder, run_id)
    try:
        run = RunDirectory(path).run()
        if fault := _fault(run, run_id):
            remedy = "The other files of the run are untouched; move the folder away."
            raise RunNotFound(fault, remedy=remedy, file=os.path.join(path, RECORD))
    except RunNotFound as error:
        try:
            moment = os.stat(path).st_mtime
        except OSError:
            return None
        run = Run(
            run_id=run_id,
            run_number=0,
            directory=path,
            script_name="",
            arguments=(),
            run_configuration="",
            target="",
            target_type="",
            state=RunState.UNKNOWN,
            reason=str(error),
            created=moment,
            end=moment,
        )
        return run, UNREADABLE
    return run, ACTIVE if run.is_active else ENDED


def _fault(run: Run, run_id: str) -> str:
    """What is wrong with a run of the directory `run_id`, "" when nothing is; files of others may hold anything."""
    texts = (run.script_name, run.run_configuration, run.target, run.target_type, run.interpreter, run.commit_id,
             run.user_id, run.group, *run.arguments)  # fmt: skip
    times = (run.created, run.start, run.end)
    if run.run_id != run_id:
        return f"this is the record of another run, {run.run_id!r}"
    sound = (
        all(isinstance(text, str) for text in texts)
        and all(isinstance(moment, int | float) and abs(moment) < _END_OF_TIME for moment in times)
        and isinstance(run.run_number, int)
        and abs(run.run_number) < _LARGEST
        and abs(run.exit_code or 0) < _LARGEST
    )
    return "" if sound else "this is no record of a run: a value in it is of another kind"


def run_from_text(text: str) -> Run:
    """The run that the index holds as JSON. Raises ValueError, TypeError or IndexError when it is none."""
    values = json.loads(text)
    values[4] = tuple(values[4])
    return Run(*values)
