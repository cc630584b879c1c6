"""The run index: a cache in SQLite of what the run directories say. It can be deleted at any time and is then rebuilt.

A run that has ended never changes, so only runs that are active, new or gone are looked at: new and gone ones show in
the modification time of the folder that holds them. That time is trusted only when the folder had been at rest for a
while as it was read (git's rule for its index).
"""

from __future__ import annotations

import json
import os
import time

from tui_workbench.errors import RunNotFound
from tui_workbench.model import Run, RunState
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs.rundir import RunDirectory

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable
    from typing import Any

    from tui_workbench.project import Project
else:
    try:
        # The engine alone: what `sqlite3` adds to it (dates, adapters) is not used here and takes longer to load than
        # the index to read.
        import _sqlite3 as sqlite3
    except ImportError:
        import sqlite3

FILE = "index.db"
SCHEMA = 1
"""Number of the tables' form; an index of another number is built anew."""

SETTLED_NS = 1_000_000_000
BUSY_SECONDS = 5.0

_TABLES = f"""
CREATE TABLE runs (run_id TEXT PRIMARY KEY, created REAL, active INTEGER, run TEXT, record TEXT) WITHOUT ROWID;
CREATE INDEX runs_by_time ON runs (created);
CREATE INDEX runs_active ON runs (active) WHERE active;
CREATE TABLE seen (folder_mtime INTEGER);
INSERT INTO seen VALUES (0);
PRAGMA user_version = {SCHEMA};
"""


class RunIndex:
    """The index of a project's runs, brought up to date when it is entered."""

    def __init__(self, project: Project) -> None:
        self._folder = project.runs_directory
        self._path = os.path.join(project.state_directory, FILE)
        self._connection: sqlite3.Connection

    def __enter__(self) -> RunIndex:
        try:
            self._connection = self._open(self._path if os.path.isdir(self._folder) else ":memory:")
            self.refresh()
        except sqlite3.DatabaseError:
            self._rebuild()
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def runs(self) -> list[Run]:
        """Every run, newest first."""
        rows = self._connection.execute("SELECT run FROM runs ORDER BY created DESC, run_id DESC")
        return [_run_from_text(text) for (text,) in rows]

    def texts(self) -> list[str]:
        """Every run's history record as JSON text indented for a list, newest first."""
        return [
            text for (text,) in self._connection.execute("SELECT record FROM runs ORDER BY created DESC, run_id DESC")
        ]

    def last(self) -> Run | None:
        """The newest run."""
        row = self._connection.execute("SELECT run FROM runs ORDER BY created DESC, run_id DESC LIMIT 1").fetchone()
        return _run_from_text(row[0]) if row else None

    def _open(self, path: str) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
            version = connection.execute("PRAGMA user_version").fetchone()[0]
        except sqlite3.OperationalError:
            # No permission, no space: the answer is the same, it only takes longer.
            connection, version = sqlite3.connect(":memory:", isolation_level=None), 0
        if version == SCHEMA:
            return connection
        if version:
            raise sqlite3.DatabaseError("another version wrote this index")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        if connection.execute("PRAGMA user_version").fetchone()[0] != SCHEMA:
            for statement in _TABLES.split(";\n"):
                connection.execute(statement)
        connection.execute("COMMIT")
        return connection

    def _rebuild(self) -> None:
        """Start over: whatever is wrong with the file, the run directories know everything."""
        for suffix in ("", "-wal", "-shm"):
            try:
                os.unlink(self._path + suffix)
            except FileNotFoundError:
                continue
            except OSError:
                break
        try:
            self._connection = self._open(self._path)
            self.refresh()
        except sqlite3.DatabaseError:
            self._connection = self._open(":memory:")
            self.refresh()

    def active(self) -> list[str]:
        """The ids of the runs that have not ended."""
        return [run_id for (run_id,) in self._connection.execute("SELECT run_id FROM runs WHERE active")]

    def refresh(self) -> None:
        """Bring the index up to date with the run directories."""
        execute = self._connection.execute
        changed = {run_id for (run_id,) in execute("SELECT run_id FROM runs WHERE active")}
        try:
            mtime = os.stat(self._folder).st_mtime_ns
        except OSError:
            mtime = 0
        gone: set[str] = set()
        if mtime != execute("SELECT folder_mtime FROM seen").fetchone()[0]:
            present = _run_ids(self._folder)
            known = {run_id for (run_id,) in execute("SELECT run_id FROM runs")}
            changed |= present - known
            gone = known - present
        settled = mtime if time.time_ns() - mtime > SETTLED_NS else 0
        if not (changed or gone):
            if settled and settled != execute("SELECT folder_mtime FROM seen").fetchone()[0]:
                self._store((), (), settled)
            return
        self._store(filter(None, (_read(self._folder, run_id) for run_id in changed - gone)), gone, settled)

    def _store(self, runs: Iterable[Run], gone: Iterable[str], mtime: int) -> None:
        from tui_workbench.runs.history import record_text

        rows = [(run.run_id, run.created, run.is_active, json.dumps(run), record_text(run)) for run in runs]
        execute = self._connection.execute
        try:
            execute("PRAGMA synchronous = OFF")
            execute("BEGIN IMMEDIATE")
            self._connection.executemany("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?)", rows)
            self._connection.executemany("DELETE FROM runs WHERE run_id = ?", [(run_id,) for run_id in gone])
            execute("UPDATE seen SET folder_mtime = ?", (mtime,))
            execute("COMMIT")
        except sqlite3.OperationalError:
            # Read-only or full: answer from memory this time.
            self._answer_from_memory(rows)

    def _answer_from_memory(self, rows: list[tuple[Any, ...]]) -> None:
        memory = self._open(":memory:")
        known = self._connection.execute("SELECT * FROM runs").fetchall()
        memory.executemany("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?)", [*known, *rows])
        self._connection.close()
        self._connection = memory


def _run_ids(folder: str) -> set[str]:
    try:
        return {name for name in os.listdir(folder) if not name.startswith(".")}
    except OSError:
        return set()


def _read(folder: str, run_id: str) -> Run | None:
    """The run, or what can be said of a directory that holds none that this version reads.

    None for what is no directory.
    """
    path = os.path.join(folder, run_id)
    try:
        return RunDirectory(path).run()
    except RunNotFound as error:
        try:
            moment = os.stat(path + "/.").st_mtime
        except OSError:
            return None
        return Run(
            run_id, 0, path, "", (), "", "", "", RunState.UNKNOWN, reason=str(error), created=moment, end=moment
        )  # fmt: skip


def _run_from_text(text: str) -> Run:
    values = json.loads(text)
    values[4] = tuple(values[4])
    return Run(*values)
