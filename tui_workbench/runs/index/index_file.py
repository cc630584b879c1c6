"""Open the file of the run index, and store runs in its tables.

If the file is damaged, or if another program or another version of the workbench wrote it, reading it raises
`sqlite3.DatabaseError`, and the caller creates it again.

The table `runs` contains complete runs as JSON. `listed` and `metrics` contain the same data in columns, for filters
and sorting. `arguments` contains the arguments of the runs by name.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

from tui_workbench import __version__
from tui_workbench.core.json_values import parse_json
from tui_workbench.core.model import ClusterJob, Run
from tui_workbench.runs.index.history_record import LONGEST_TEXT, Facts, facts_text, record_text
from tui_workbench.runs.store.arguments import arguments_by_name
from tui_workbench.runs.store.rundir import SCHEMA

FILE = "index.db"

FORM = f"15 {__version__} {SCHEMA} {' '.join(Run._fields)}"  # version of the rows; a file of another version is rebuilt

BUSY_SECONDS = 5.0
MOST_ARGUMENTS = 100  # maximum per run, because the arguments of a run can be megabytes long

_TABLES = """
CREATE TABLE runs (id INTEGER PRIMARY KEY, run_id TEXT UNIQUE, created REAL, open INTEGER, hidden INTEGER, run TEXT,
    facts TEXT, record TEXT, due REAL);
CREATE INDEX runs_by_time ON runs (created, run_id);
CREATE INDEX runs_open ON runs (open) WHERE open;
CREATE TABLE listed (id INTEGER PRIMARY KEY, run_id TEXT, number INTEGER, script TEXT, target TEXT, configuration TEXT,
    user TEXT, state TEXT, code INTEGER, created REAL, started REAL, ended REAL, pinned INTEGER, hidden INTEGER,
    tags TEXT, note TEXT, sweep TEXT, family TEXT, agent TEXT, search TEXT, gpu TEXT, gpu_seconds REAL, energy REAL);
CREATE INDEX listed_by_time ON listed (hidden, pinned, created, run_id);
CREATE TABLE metrics (name TEXT, id INTEGER, value, PRIMARY KEY (name, id)) WITHOUT ROWID;
CREATE INDEX metrics_by_run ON metrics (id);
CREATE TABLE arguments (name TEXT, id INTEGER, value TEXT, PRIMARY KEY (name, id)) WITHOUT ROWID;
CREATE INDEX arguments_by_run ON arguments (id);
CREATE TABLE seen (folder_mtime INTEGER, journal INTEGER, journal_mtime INTEGER, form TEXT);
"""


class IndexRow(NamedTuple):
    """A run to store in the index."""

    run: Run
    kind: int
    facts: Facts
    due: float = 0.0  # time of the next read of the metrics of an active run, in seconds since the epoch

    @property
    def texts(self) -> tuple[str, str]:
        return json.dumps({**self.run._asdict(), "job": self.run.job._asdict()}), facts_text(self.facts)


def run_from_text(text: str) -> Run:
    """Parse a run from JSON. Raises ValueError, KeyError or TypeError."""
    values = parse_json(text)
    values["arguments"] = tuple(values["arguments"])
    values["kinds"] = tuple(values["kinds"])
    values["variables"] = tuple(values["variables"])
    values["job"] = ClusterJob(**values["job"])
    return Run(**values)


def connect(path: str) -> sqlite3.Connection:
    """Open or create the tables. Raises sqlite3.DatabaseError, also if another version wrote the file."""
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    # SQLite's own `lower` changes only ASCII letters.
    connection.create_function("casefold", 1, lambda text: str(text).casefold(), deterministic=True)
    connection.create_function("number_or_text", 1, _number_or_text, deterministic=True)
    try:
        if connection.execute("PRAGMA user_version").fetchone()[0]:
            if connection.execute("SELECT form FROM seen").fetchone() != (FORM,):
                raise sqlite3.DatabaseError("another version wrote this index")
            return connection
        # Most rows are long, so larger pages are faster.
        connection.execute("PRAGMA page_size = 16384")
        connection.execute("BEGIN IMMEDIATE")
        if not connection.execute("PRAGMA user_version").fetchone()[0]:
            for statement in _TABLES.split(";\n"):
                connection.execute(statement)
            connection.execute("INSERT INTO seen VALUES (0, 0, 0, ?)", (FORM,))
            connection.execute("PRAGMA user_version = 1")
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def remove(path: str) -> None:
    """Remove the file and SQLite's files next to it, ignoring errors."""
    for suffix in ("", "-journal", "-wal", "-shm"):
        with contextlib.suppress(OSError):
            os.unlink(path + suffix)


def insert_rows(connection: sqlite3.Connection, rows: Sequence[IndexRow]) -> None:
    """Insert or replace runs. The caller has started a transaction."""
    ((last,),) = connection.execute("SELECT coalesce(max(id), 0) FROM runs")
    numbers = _numbers(connection, (row.run.run_id for row in rows))
    _delete(connection, numbers.values())
    stored, listed, metrics, arguments = [], [], [], []
    # Insert rows in the order of listing, so that listing reads the file sequentially.
    for row in sorted(rows, key=lambda row: (row.run.created, row.run.run_id)):
        run, facts = row.run, row.facts
        if (number := numbers.get(run.run_id, 0)) == 0:
            number = last = last + 1
        first_columns = (number, run.run_id, run.created, row.kind, facts.annotations.archived)
        stored.append((*first_columns, *row.texts, record_text(run, facts), row.due))
        listed.append((number, *map(_storable, _columns(run, facts))))
        metrics += [(_storable(name), number, _storable(value)) for name, value in facts.metrics.items()]
        named = islice(arguments_by_name(run.words).items(), MOST_ARGUMENTS)
        arguments += [(_storable(name), number, _storable(value[:LONGEST_TEXT])) for name, value in named]
    connection.executemany("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", stored)
    connection.executemany(f"INSERT INTO listed VALUES ({', '.join('?' * 23)})", listed)
    connection.executemany("INSERT OR REPLACE INTO metrics VALUES (?, ?, ?)", metrics)
    connection.executemany("INSERT OR REPLACE INTO arguments VALUES (?, ?, ?)", arguments)


def delete_rows(connection: sqlite3.Connection, run_ids: Iterable[str]) -> None:
    """Delete runs. The caller has started a transaction."""
    _delete(connection, _numbers(connection, run_ids).values())


def _numbers(connection: sqlite3.Connection, run_ids: Iterable[str]) -> dict[str, int]:
    """Map the IDs of stored runs to their row numbers."""
    select = "SELECT run_id, id FROM runs WHERE run_id = ?"
    return dict(row for run_id in run_ids for row in connection.execute(select, (run_id,)))


def _delete(connection: sqlite3.Connection, numbers: Iterable[int]) -> None:
    every = [(number,) for number in numbers]
    for table in ("runs", "listed", "metrics", "arguments"):
        connection.executemany(f"DELETE FROM {table} WHERE id = ?", every)


def _storable(value: Any) -> Any:
    """Replace surrogates, which stand for bytes that are not valid UTF-8, because SQLite does not accept them."""
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return value


def _number_or_text(text: str | None) -> float | str | None:
    """Return the value by which an argument is sorted: a number if possible, or None for no argument."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def _columns(run: Run, facts: Facts) -> tuple[Any, ...]:
    annotations, gpu = facts.annotations, facts.gpu
    tags = "\n".join(f"{name}={value}" if value else name for name, value in annotations.tags.items())
    words = (
        f"#{run.run_number}", run.run_id, run.script_name, " ".join(run.words), run.target, run.run_configuration,
        run.state, run.user_id, run.agent, tags, annotations.note,
    )  # fmt: skip
    return (
        run.run_id, run.run_number, run.script_name, run.target, run.run_configuration, run.user_id, run.state,
        run.exit_code, run.created, run.start, run.end, annotations.pinned, annotations.archived, tags.casefold(),
        annotations.note.casefold(), run.group, run.family, run.agent, "\n".join(words).casefold(),
        gpu.get("verdict", ""), gpu.get("gpu_seconds"), gpu.get("energy_wh"),
    )  # fmt: skip
