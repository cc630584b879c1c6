"""Writing runs into the tables of the run index; see `indexfile` for their form.

`runs` holds what is read back as it is; `listed` and `metrics` hold the same once more, in columns, for the table of
runs to filter and sort by.
"""

from __future__ import annotations

from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs.history import record_text

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence
    from typing import Any

    from tui_workbench.runs.index import _Row


def insert_rows(connection: sqlite3.Connection, rows: Sequence[_Row]) -> None:
    """Store the runs, in place of what is there of them. Call it in a transaction."""
    ((last,),) = connection.execute("SELECT coalesce(max(id), 0) FROM runs")
    known: dict[str, int] = {}
    for row in rows:
        found = connection.execute("SELECT id FROM runs WHERE run_id = ?", (row.read.run_id,)).fetchone()
        if found:
            known[row.read.run_id] = found[0]
    _delete(connection, known.values())
    names = dict(connection.execute("SELECT text, name FROM names"))
    stored, listed = [], []
    values: dict[tuple[int, int], Any] = {}
    for row in rows:
        if (number := known.get(row.read.run_id, 0)) == 0:
            number = last = last + 1
        hidden = row.known.annotations.archived
        text = record_text(row.read, row.known)
        stored.append(
            (number, row.read.run_id, row.read.created, row.openness, hidden, row.run, row.facts, text, row.due)
        )
        listed.append((number, *map(_storable, _columns(row))))
        for name, value in row.known.metrics.items():
            key = names.setdefault(_storable(name), len(names) + 1)
            values[key, number] = _storable(value)
    connection.executemany("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", stored)
    connection.executemany(f"INSERT INTO listed VALUES ({', '.join('?' * 21)})", listed)
    _count(connection, names, values)
    connection.executemany(
        "INSERT OR REPLACE INTO metrics VALUES (?, ?, ?)", [(*place, value) for place, value in values.items()]
    )


def delete_rows(connection: sqlite3.Connection, run_ids: Iterable[str]) -> None:
    """Forget runs that are gone. Call it in a transaction."""
    found = [connection.execute("SELECT id FROM runs WHERE run_id = ?", (run_id,)).fetchone() for run_id in run_ids]
    _delete(connection, [each[0] for each in found if each])


def _delete(connection: sqlite3.Connection, numbers: Iterable[int]) -> None:
    every = [(number,) for number in numbers]
    named = "UPDATE names SET runs = runs - 1 WHERE name IN (SELECT name FROM metrics WHERE id = ?)"
    connection.executemany(named, every)
    for table in ("runs", "listed", "metrics"):
        connection.executemany(f"DELETE FROM {table} WHERE id = ?", every)


def _count(connection: sqlite3.Connection, names: dict[str, int], values: Iterable[tuple[int, int]]) -> None:
    """Note the names that are new, and how many runs more have each."""
    more: dict[int, int] = {}
    for key, *_ in values:
        more[key] = more.get(key, 0) + 1
    new = [(key, name, 0) for name, key in names.items() if key in more]
    connection.executemany("INSERT OR IGNORE INTO names VALUES (?, ?, ?)", new)
    connection.executemany("UPDATE names SET runs = runs + ? WHERE name = ?", [(n, key) for key, n in more.items()])


def _storable(value: Any) -> Any:
    """The value as SQLite takes it: in names that are no UTF-8, a mark stands for each byte that is none."""
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return value


def _columns(row: _Row) -> tuple[Any, ...]:
    run, said, gpu = row.read, row.known.annotations, row.known.gpu
    tags = "\n".join(f"{name}={value}" if value else name for name, value in said.tags.items())
    words = (
        f"#{run.run_number}", run.run_id, run.script_name, " ".join(run.arguments), run.target, run.run_configuration,
        run.state, run.user_id, tags, said.note,
    )  # fmt: skip
    return (
        run.run_id, run.run_number, run.script_name, run.target, run.run_configuration, run.user_id, run.state,
        run.exit_code, run.created, run.start, run.end, said.pinned, said.archived, tags.casefold(),
        said.note.casefold(), run.group, "\n".join(words).casefold(), gpu.get("verdict", ""),
        gpu.get("gpu_seconds"), gpu.get("energy_wh"),
    )  # fmt: skip
