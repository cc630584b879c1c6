"""The run index: a cache in SQLite of what the run directories say. It can be deleted at any time and is then rebuilt.

A run that has ended never changes, so only runs that are active, unreadable, new or gone are looked at: new and gone
ones show in the modification time of the folder that holds them. That time is trusted only when the folder had been at
rest for a while as it was read (git's rule for its index). Nothing is written while nothing has changed.
"""

from __future__ import annotations

import json
import os
import time

from tui_workbench import __version__
from tui_workbench.errors import RunNotFound
from tui_workbench.model import Run, RunState
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs.rundir import SCHEMA, RunDirectory

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    from tui_workbench.project import Project

    _Answer = TypeVar("_Answer")
    _Row = tuple[str, float, int, str, str]
else:
    try:
        # The engine alone: what `sqlite3` adds to it (dates, adapters) is not used here and takes longer to load than
        # the index to read.
        import _sqlite3 as sqlite3
    except ImportError:
        import sqlite3

FILE = "index.db"
FORM = f"3 {__version__} {SCHEMA} {' '.join(Run._fields)}"
"""What the rows are made by. An index of any other form is built anew."""

SETTLED_NS = 1_000_000_000
BUSY_SECONDS = 5.0

ENDED, ACTIVE, UNREADABLE = 0, 1, 2
"""Of a row: it never changes again; the run goes on; the directory holds no run that this version reads."""

_TABLES = """
CREATE TABLE runs (run_id TEXT PRIMARY KEY, created REAL, open INTEGER, run TEXT, record TEXT);
CREATE INDEX runs_by_time ON runs (created, run_id);
CREATE INDEX runs_open ON runs (open) WHERE open;
CREATE TABLE seen (folder_mtime INTEGER, form TEXT, ended_version INTEGER);
CREATE TABLE joined (ended_version INTEGER, records BLOB);
"""
_NEWEST_FIRST = "ORDER BY created DESC, run_id DESC"
_SEPARATOR = ",\n"

JOINED_FROM = 500
"""With fewer runs, joining their records takes less time than it takes to keep the result."""


class RunIndex:
    """The index of a project's runs, brought up to date when it is entered.

    `resume` is called with the ids of the runs that have not ended, and returns those that it has done something about.
    """

    def __init__(self, project: Project, resume: Callable[[list[str]], list[str]] | None = None) -> None:
        self._resume = resume
        self._folder = project.runs_directory
        self._path = os.path.join(project.state_directory, FILE)
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
            lambda: [_run_from_text(text) for (text,) in self._execute(f"SELECT run FROM runs {_NEWEST_FIRST}")]
        )

    def last(self) -> Run | None:
        """The newest run."""
        return self._answered(
            lambda: next(
                (_run_from_text(text) for (text,) in self._execute(f"SELECT run FROM runs {_NEWEST_FIRST} LIMIT 1")),
                None,
            )
        )

    def history_json(self) -> bytes:
        """Every run's history record as JSON, newest first, separated as in a list; empty when there is none.

        The duration of an active run is up to now.
        """
        return self._answered(self._history_json)

    def active(self) -> list[str]:
        """The ids of the runs that have not ended."""
        return self._answered(
            lambda: [run_id for (run_id,) in self._execute("SELECT run_id FROM runs WHERE open AND open = ?", ACTIVE)]
        )

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
            _remove(path)
        for place in (path, ":memory:"):
            try:
                return _connect(place)
            except sqlite3.OperationalError:
                continue  # locked for long, no permission, no space
            except sqlite3.DatabaseError:
                if not anew:
                    return self._open(path, anew=True)
        raise AssertionError("SQLite has no memory")

    def _refresh(self) -> None:
        known_open: dict[str, str] = dict(self._execute("SELECT run_id, run FROM runs WHERE open"))
        ((seen_mtime,),) = self._execute("SELECT folder_mtime FROM seen")
        try:
            mtime = os.stat(self._folder).st_mtime_ns
        except OSError:
            mtime = 0
        new: set[str] = set()
        gone: set[str] = set()
        if mtime != seen_mtime:
            present = _run_ids(self._folder)
            known = {run_id for (run_id,) in self._execute("SELECT run_id FROM runs")}
            new, gone = present - known, known - present
        settled = mtime if time.time_ns() - mtime > SETTLED_NS else 0
        read = map(self._row, new | (known_open.keys() - gone))
        rows = [row for row in read if row is not None and row[3] != known_open.get(row[0])]
        if rows or gone or (settled and settled != seen_mtime):
            self._store(rows, gone, settled)

    def _row(self, run_id: str) -> _Row | None:
        from tui_workbench.runs.history import record_text

        read = _read(self._folder, run_id)
        if read is None:
            return None
        run, openness = read
        return run_id, run.created, openness, json.dumps(run), record_text(run)

    def _store(self, rows: list[_Row], gone: Iterable[str], mtime: int) -> None:
        try:
            self._execute("BEGIN IMMEDIATE")
            self._connection.executemany("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?)", rows)
            self._connection.executemany("DELETE FROM runs WHERE run_id = ?", [(run_id,) for run_id in gone])
            self._execute("UPDATE seen SET folder_mtime = ?", mtime)
            if gone or any(openness != ACTIVE for _, _, openness, *_ in rows):
                self._execute("UPDATE seen SET ended_version = ended_version + 1")
            self._execute("COMMIT")
        except sqlite3.OperationalError:
            # Read-only, full, or locked for long: answer from memory this time.
            if self._connection.in_transaction:
                self._execute("ROLLBACK")
            memory = _connect(":memory:")
            known = self._execute("SELECT * FROM runs").fetchall()
            memory.executemany("INSERT INTO runs VALUES (?, ?, ?, ?, ?)", known)
            self._connection.close()
            self._connection = memory
            self._store(rows, gone, mtime)

    def _history_json(self) -> bytes:
        from tui_workbench.runs.history import record_text

        active = self._execute("SELECT created, run FROM runs WHERE open AND open = ?", ACTIVE).fetchall()
        ((newest,),) = self._execute("SELECT max(created) FROM runs WHERE open != ?", ACTIVE)
        if newest is None or all(created > newest for created, _ in active):
            texts = [record_text(_run_from_text(run)).encode() for _, run in sorted(active, reverse=True)]
            return _SEPARATOR.encode().join([*texts, *([self._ended_json()] if newest is not None else ())])
        rows = self._execute(f"SELECT open, run, record FROM runs {_NEWEST_FIRST}")
        return _SEPARATOR.join(
            record_text(_run_from_text(run)) if openness == ACTIVE else record for openness, run, record in rows
        ).encode()

    def _ended_json(self) -> bytes:
        """The records of all runs but the active ones, as they were joined when one of them last changed."""
        ((version,),) = self._execute("SELECT ended_version FROM seen")
        for (records,) in self._execute("SELECT records FROM joined WHERE ended_version = ?", version):
            return bytes(records)
        ended = f"SELECT record FROM runs WHERE open != {ACTIVE} {_NEWEST_FIRST}"
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
        return bytes(records)


def _connect(place: str) -> sqlite3.Connection:
    """Open or make the tables. Raises DatabaseError when the file holds something else."""
    connection = sqlite3.connect(place, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        if connection.execute("PRAGMA user_version").fetchone()[0]:
            if connection.execute("SELECT form FROM seen").fetchone() != (FORM,):
                raise sqlite3.DatabaseError("another version wrote this index")
            return connection
        # What is read is mostly long: fewer, larger pages.
        connection.execute("PRAGMA page_size = 16384")
        connection.execute("BEGIN IMMEDIATE")
        if not connection.execute("PRAGMA user_version").fetchone()[0]:
            for statement in _TABLES.split(";\n"):
                connection.execute(statement)
            connection.execute("INSERT INTO seen VALUES (0, ?, 0)", (FORM,))
            connection.execute("PRAGMA user_version = 1")
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def _remove(path: str) -> None:
    for suffix in ("", "-journal", "-wal", "-shm"):
        try:
            os.unlink(path + suffix)
        except OSError:
            continue


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


def _run_from_text(text: str) -> Run:
    values = json.loads(text)
    values[4] = tuple(values[4])
    return Run(*values)
