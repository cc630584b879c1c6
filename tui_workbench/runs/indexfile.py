"""The file of the run index: its tables, and how it is opened.

A file that is damaged, of another version or not ours is an error of SQLite's; whoever meets it makes the file anew.
"""

from __future__ import annotations

import os

from tui_workbench import __version__
from tui_workbench.model import Run
from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs.rundir import SCHEMA

if TYPE_CHECKING:
    import sqlite3
else:
    try:
        # The engine alone: what `sqlite3` adds to it (dates, adapters) is not used here and takes longer to load than
        # the index to read.
        import _sqlite3 as sqlite3
    except ImportError:
        import sqlite3

FILE = "index.db"
JOURNAL = "annotated"
"""Stands beside the index: for each change of what people say of a run its id, a line each."""

FORM = f"6 {__version__} {SCHEMA} {' '.join(Run._fields)}"
"""What the rows are made by. An index of any other form is built anew."""

BUSY_SECONDS = 5.0

_TABLES = """
CREATE TABLE runs (id INTEGER PRIMARY KEY, run_id TEXT UNIQUE, created REAL, open INTEGER, hidden INTEGER, run TEXT,
    facts TEXT, record TEXT, due REAL);
CREATE INDEX runs_by_time ON runs (created, run_id);
CREATE INDEX runs_open ON runs (open) WHERE open;
CREATE TABLE listed (id INTEGER PRIMARY KEY, run_id TEXT, number INTEGER, script TEXT, target TEXT, configuration TEXT,
    user TEXT, state TEXT, code INTEGER, created REAL, started REAL, ended REAL, pinned INTEGER, hidden INTEGER,
    tags TEXT, note TEXT, sweep TEXT, search TEXT, gpu TEXT, gpu_seconds REAL, energy REAL);
CREATE INDEX listed_by_time ON listed (hidden, pinned, created, run_id);
CREATE TABLE names (name INTEGER PRIMARY KEY, text TEXT UNIQUE, runs INTEGER);
CREATE TABLE metrics (name INTEGER, id INTEGER, value, PRIMARY KEY (name, id)) WITHOUT ROWID;
CREATE INDEX metrics_by_run ON metrics (id);
CREATE TABLE seen (folder_mtime INTEGER, journal INTEGER, journal_mtime INTEGER, form TEXT, ended_version INTEGER);
CREATE TABLE joined (ended_version INTEGER, records BLOB);
"""


def connect(place: str) -> sqlite3.Connection:
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
            connection.execute("INSERT INTO seen VALUES (0, 0, 0, ?, 0)", (FORM,))
            connection.execute("PRAGMA user_version = 1")
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def remove(path: str) -> None:
    """Remove the file and what SQLite leaves beside it, as far as that can be done."""
    for suffix in ("", "-journal", "-wal", "-shm"):
        try:
            os.unlink(path + suffix)
        except OSError:
            continue
