"""The table of runs: which rows, in which order, a part at a time.

Everything is answered by the index (`RunIndex.page` and its neighbours), so the first rows of 100,000 runs cost what
those of ten cost. Pinned runs come first, runs without a value in the column that is sorted by come last, and among
equals the newest first: an order that never depends on anything else.
"""

from __future__ import annotations

from tui_workbench.records import TYPE_CHECKING, NamedTuple
from tui_workbench.runs.filtering import NUMBER_COLUMNS, TEXT_COLUMNS, Condition, condition_of
from tui_workbench.runs.history import Facts, facts_from_text
from tui_workbench.runs.index import run_from_text

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable
    from typing import Any

    from tui_workbench.model import Run

    _Execute = Callable[..., sqlite3.Cursor]

_SCANNED = "listed NOT INDEXED"
"""All rows as they lie in the file: a twentieth of the time that it takes to go through them by an index."""

_STEPS_FOR_ONE = 20

_FEW = 2_000
"""Rows that are sorted sooner than all rows are gone through."""

_NO_VALUES: tuple[Any, ...] = ()

COLUMNS = {**NUMBER_COLUMNS, **TEXT_COLUMNS}
"""Columns to sort and group by, as names that people use; any other name is that of a metric."""


class RunQuery(NamedTuple):
    """Which runs, and in which order. `filter` is as in `tui_workbench.runs.filtering`."""

    filter: str = ""
    sort: str = "created"  # a column, or a metric
    descending: bool = True
    group: str = ""  # a column whose equal values stand together: script, target, state, sweep, ...
    archived: bool = False  # archived runs are among them


class RunRow(NamedTuple):
    """One row: the run, its metrics and what people said of it."""

    run: Run
    facts: Facts


class Page(NamedTuple):
    """Part of a table: `total` is the number of rows of all of it, `rows` those that were asked for."""

    total: int
    rows: list[RunRow]


class Group(NamedTuple):
    """Runs with the same value in a column: how many, how many of them go on, and when the newest was created."""

    value: str
    total: int
    active: int
    newest: float


def page(execute: _Execute, query: RunQuery, offset: int, limit: int) -> Page:
    """The rows from `offset` on, at most `limit` of them."""
    condition = condition_of(query.filter, archived=query.archived)
    if query.filter and (few := _few(execute, condition)) is not None:
        # Sorting these takes no time; going through all rows once more would.
        condition, total = Condition(f"listed.id IN ({', '.join(map(str, few))})"), len(few)
        return Page(total, _chosen(execute, query, condition, ("listed", limit, offset)) if total else [])
    is_plain = not condition.values and query.sort == "created" and not query.group
    source = "listed" if is_plain else _SCANNED
    ((total,),) = execute(f"SELECT count(*) FROM {source} WHERE {condition.sql}", *condition.values)
    if not total:
        return Page(0, [])
    if query.sort == "created" and not query.group and _is_near(execute, offset + limit, total):
        source = "listed"
    return Page(total, _chosen(execute, query, condition, (source, limit, offset)))


def _few(execute: _Execute, condition: Condition) -> list[int] | None:
    """The rows that meet the condition, in no order; None when they are more than a few."""
    rows = execute(f"SELECT id FROM {_SCANNED} WHERE {condition.sql} LIMIT ?", *condition.values, _FEW + 1).fetchall()
    return [number for (number,) in rows] if len(rows) <= _FEW else None


def _chosen(execute: _Execute, query: RunQuery, condition: Condition, part: tuple[str, int, int]) -> list[RunRow]:
    """The rows of a part, which is the table's name in SQL, how many rows, and from which on."""
    source, limit, offset = part
    order, join, values = _order(query, condition)
    chosen = f"SELECT listed.id FROM {source} {join} WHERE {condition.sql} ORDER BY {order} LIMIT ? OFFSET ?"
    rows = execute(chosen, *values, *condition.values, limit, offset).fetchall()
    return [_row(execute, number) for (number,) in rows]


def _is_near(execute: _Execute, wanted: int, total: int) -> bool:
    """True when going through the rows in order finds those that are wanted sooner than going through all of them."""
    ((every,),) = execute("SELECT max(id) FROM listed")
    return bool(wanted * every / total < every / _STEPS_FOR_ONE)


def groups(execute: _Execute, query: RunQuery) -> list[Group]:
    """The groups of the query's `group`, the one with the newest run first."""
    condition = condition_of(query.filter, archived=query.archived)
    by = COLUMNS.get(query.group, "script")
    active = "sum(state NOT IN ('completed', 'failed', 'canceled') AND ended = 0)"
    found = execute(
        f"SELECT {by}, count(*), {active}, max(created) FROM {_SCANNED} WHERE {condition.sql} GROUP BY {by}"
        f" ORDER BY max(created) DESC, {by}",
        *condition.values,
    )
    return [Group(str(value), *rest) for value, *rest in found]


def column(execute: _Execute, query: RunQuery, name: str, limit: int) -> list[tuple[str, int, Any]]:
    """Id, number and value of a column or metric for the newest runs that the query finds, oldest first.

    Runs that have no value there are left out.
    """
    condition = condition_of(query.filter, archived=query.archived)
    value, join, values = _value_of(name)
    found = execute(
        f"SELECT run_id, number, {value} FROM listed {join} WHERE {condition.sql} AND {value} IS NOT NULL"
        " ORDER BY created DESC, run_id DESC LIMIT ?",
        *values,
        *condition.values,
        limit,
    ).fetchall()
    return found[::-1]


def metric_names(execute: _Execute, limit: int) -> list[tuple[str, int]]:
    """The metrics of all runs, and how many runs have each; the most common first."""
    return execute("SELECT text, runs FROM names WHERE runs > 0 ORDER BY runs DESC, text LIMIT ?", limit).fetchall()


def _order(query: RunQuery, condition: Condition) -> tuple[str, str, tuple[Any, ...]]:
    """What to order by, what to join for it, and the values in that."""
    direction = "DESC" if query.descending else "ASC"
    if query.sort == "created":
        join, values = "", _NO_VALUES
        order = f"pinned DESC, created {direction}, run_id {direction}"
    else:
        value, join, values = _value_of(query.sort)
        order = f"pinned DESC, {value} IS NULL, {value} {direction}, created DESC, run_id DESC"
    if query.group in COLUMNS:
        by = COLUMNS[query.group]
        newest = f"SELECT {by} AS grouped, max(created) AS newest FROM {_SCANNED} WHERE {condition.sql} GROUP BY {by}"
        join += f" JOIN ({newest}) AS groups ON groups.grouped IS {by}"
        order, values = f"newest DESC, grouped, {order}", (*values, *condition.values)
    return order, join, values


def _value_of(name: str) -> tuple[str, str, tuple[Any, ...]]:
    """The SQL of a column's or metric's value, what to join for it, and the values in that."""
    if name in COLUMNS:
        return COLUMNS[name], "", ()
    one = "metrics.name = (SELECT name FROM names WHERE text = ?)"
    return "metrics.value", f"LEFT JOIN metrics ON metrics.id = listed.id AND {one}", (name,)


def _row(execute: _Execute, number: int) -> RunRow:
    ((run, facts),) = execute("SELECT run, facts FROM runs WHERE id = ?", number)
    return RunRow(run_from_text(run), facts_from_text(facts))
