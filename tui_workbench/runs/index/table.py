"""The table of runs: filters, sorting, grouping and paging.

The index executes the queries (`RunIndex.page` and others). Pinned runs are first, and runs without a value in the
sorted column are last. Runs with equal values are sorted newest first, so that the order is unique.

A filter is translated to an SQL condition. Every word must occur, ignoring case, in one of these columns of a row:
number, run ID, script, arguments, target, configuration, state, user, agent, tags or note. A row that contains a word
given as `-word` is excluded. `"two words"` is one word. `column:text` searches a column, and `column=value` compares
its whole value. Numbers, times, metrics and arguments can be compared: `loss<0.1`, `duration>10m`, `lr>0.04`,
`started>=2026-01-31`, `accuracy!=1`. A name is that of a column, else of a metric of the run, else of an argument
(`lr` is `--lr`, `-lr` or `lr=`). A name with two hyphens, such as `--lr`, is that of an argument. Other conditions are
`is:pinned`, `is:active`, `is:archived`, `has:accuracy`, `has:note`, `has:gpu` (a GPU verdict) and similar ones.
Incomplete conditions (`loss<`) are ignored, so that the table does not become empty while the user types.
User input never becomes part of the SQL; it is passed as parameters.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, NamedTuple

from tui_workbench.core.errors import UsageError
from tui_workbench.core.model import Run
from tui_workbench.runs.index.history_record import Facts

TEXT_COLUMNS = {
    "script": "script", "target": "target", "configuration": "configuration", "config": "configuration",
    "runconfig": "configuration", "user": "user", "state": "state", "status": "state", "tag": "tags", "tags": "tags",
    "note": "note", "id": "run_id", "run_id": "run_id", "sweep": "sweep", "group": "sweep", "family": "family",
    "gpu": "gpu", "agent": "agent",
}  # fmt: skip
_NOW = "(julianday('now') - 2440587.5) * 86400"

NUMBER_COLUMNS = {
    "number": "number", "#": "number", "run_number": "number", "exit": "code", "exit_code": "code",
    "duration": f"CASE WHEN started > 0 THEN max(0, (CASE WHEN ended > 0 THEN ended ELSE {_NOW} END) - started) END",
    "started": "nullif(started, 0)", "start": "nullif(started, 0)", "ended": "nullif(ended, 0)",
    "end": "nullif(ended, 0)", "created": "created", "gpu_seconds": "gpu_seconds", "energy": "energy",
}  # fmt: skip
_IS = {
    "pinned": "pinned", "archived": "hidden", "hidden": "hidden", "tagged": "tags != ''", "noted": "note != ''",
    "active": "(state NOT IN ('completed', 'failed', 'canceled') AND ended = 0)",
    "ended": "(state IN ('completed', 'failed', 'canceled') OR ended > 0)",
}  # fmt: skip
_OF_METRIC = "SELECT id FROM metrics WHERE name = ?"
_OF_ARGUMENT = "SELECT id FROM arguments WHERE name IN (?, ?, ?)"
_TOKEN = r'(-(?=--)|-(?!-)|)((?:[^\s":=<>!]*(?:!=|<=|>=|[:=<>]))?"[^"]*"?|\S+)'
_COMPARISON = r'(?s)([^:=<>!"]+)(!=|<=|>=|==|[:=<>])(.*)'
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}
_DURATION = r"(\d+(?:\.\d*)?)\s*([smhd]?)"
_CLOCK = r"(?:(\d+):)?(\d+):(\d+(?:\.\d*)?)"

SCANNED = "listed NOT INDEXED"  # a full scan is 20 times as fast as reading all rows through an index
COLUMNS = {**NUMBER_COLUMNS, **TEXT_COLUMNS}  # columns to sort and group by; any other name is a metric

LONGEST_FILTER = 1000
"""Maximum length of a filter in characters. SQLite limits the depth of a condition, which grows with each word."""

ARGUMENT = "argument "  # prefix of an argument by which runs are sorted


class RunQuery(NamedTuple):
    """The filter and order of a table of runs."""

    filter: str = ""
    sort: str = "created"  # a column, a metric, or ARGUMENT and the name of an argument
    descending: bool = True
    group: str = ""  # the column to group by: script, target, state, sweep, family, ...
    archived: bool = False  # include archived runs


class RunRow(NamedTuple):
    """A row: a run with its metrics, annotations and GPU use."""

    run: Run
    facts: Facts


class Page(NamedTuple):
    """A part of a table; `total` is the number of rows in the whole table."""

    total: int
    rows: list[RunRow]


class Group(NamedTuple):
    """Runs with the same value in a column: their number, the number of active runs, and the newest creation time."""

    value: str
    total: int
    active: int
    newest: float


def order_of(query: RunQuery, condition: Condition) -> tuple[str, str, tuple[Any, ...]]:
    """Return the ORDER BY and JOIN clauses of a query, and the values of their parameters."""
    direction = "DESC" if query.descending else "ASC"
    values: tuple[Any, ...] = ()
    if query.sort == "created":
        join = ""
        order = f"pinned DESC, created {direction}, run_id {direction}"
    else:
        value, join, values = value_of(query.sort)
        order = f"pinned DESC, {value} IS NULL, {value} {direction}, created DESC, run_id DESC"
    if query.group in COLUMNS:
        by = COLUMNS[query.group]
        newest = f"SELECT {by} AS grouped, max(created) AS newest FROM {SCANNED} WHERE {condition.sql} GROUP BY {by}"
        join += f" JOIN ({newest}) AS groups ON groups.grouped IS {by}"
        order, values = f"newest DESC, grouped, {order}", (*values, *condition.values)
    return order, join, values


def value_of(name: str) -> tuple[str, str, tuple[Any, ...]]:
    """Return the SQL expression of a column, metric or argument, its JOIN clause, and the parameters of this clause."""
    if name in COLUMNS:
        return COLUMNS[name], "", ()
    if name.startswith(ARGUMENT):
        join = "LEFT JOIN arguments ON arguments.id = listed.id AND arguments.name = ?"
        return "number_or_text(arguments.value)", join, (name.removeprefix(ARGUMENT),)
    return "metrics.value", "LEFT JOIN metrics ON metrics.id = listed.id AND metrics.name = ?", (name,)


class Condition(NamedTuple):
    """An SQL condition on a row of `listed`, with its parameters."""

    sql: str
    values: tuple[Any, ...] = ()


def condition_of(text: str, *, archived: bool = False) -> Condition:
    """Translate a filter. Archived runs are excluded, unless `archived` is set or the filter contains `is:archived`.

    Raises UsageError if the filter is longer than LONGEST_FILTER.
    """
    if len(text) > LONGEST_FILTER:
        raise UsageError(
            f"the filter has {len(text)} characters, and the limit is {LONGEST_FILTER}", remedy="Use fewer words."
        )
    parts: list[str] = []
    values: list[Any] = []
    for minus, word in re.findall(_TOKEN, text):
        if word in ("is:archived", "is:hidden"):
            archived = True
        condition = _condition(word)
        if condition is not None:
            parts.append(f"NOT coalesce(({condition.sql}), 0)" if minus else f"({condition.sql})")
            values += condition.values
            name = _compared_name(word) if minus else ""
            if name:  # no run is without a value that does not exist
                parts.append(f"(EXISTS ({_OF_METRIC}) OR EXISTS ({_OF_ARGUMENT}))")
                values += (name, *argument_names(name))
    if not archived:
        parts.insert(0, "hidden = 0")
    return Condition(" AND ".join(parts) or "1", tuple(values))


def _condition(word: str) -> Condition | None:
    """Translate a word of the filter. Return None for an incomplete condition."""
    match = None if word.startswith('"') else re.fullmatch(_COMPARISON, word)
    if match is None:
        return _occurs("search", word.strip('"'))
    name, operator, value = match[1], match[2].replace("==", "="), match[3].strip('"')
    if not value:
        return None
    key = name.casefold()
    if operator == ":" and key == "is":
        return Condition(_IS[value.casefold()]) if value.casefold() in _IS else _occurs("state", value)
    if operator == ":" and key == "has":
        if value in ("gpu", "note", "tag", "tags", "agent"):
            return Condition(f"{TEXT_COLUMNS[value]} != ''")
        if value.startswith("-"):
            return Condition(f"listed.id IN ({_OF_ARGUMENT})", argument_names(value))
        return Condition(f"listed.id IN ({_OF_METRIC})", (value,))
    if key in TEXT_COLUMNS:
        return _on_text(TEXT_COLUMNS[key], operator, value)
    if key in NUMBER_COLUMNS:
        number = _number_of(key, value)
        comparison = f"{NUMBER_COLUMNS[key]} {'=' if operator == ':' else operator} ?"
        return None if number is None else Condition(comparison, (number,))
    return _on_value(name, operator, value, word)


def _occurs(column: str, value: str) -> Condition | None:
    return Condition(f"instr({column}, ?)", (value.casefold(),)) if value else None


def _on_text(column: str, operator: str, value: str) -> Condition | None:
    if column == "tags" and operator in ("=", "!="):
        # Each line is a tag. The name alone also matches a tag with a value.
        lines = "('\n' || tags || '\n')"
        sql = f"(instr({lines}, ?) OR instr({lines}, ?))"
        folded = value.casefold()
        return Condition(sql if operator == "=" else f"NOT {sql}", (f"\n{folded}\n", f"\n{folded}="))
    if operator == ":":
        return Condition(f"instr(casefold({column}), ?)", (value.casefold(),))
    if operator in ("=", "!="):
        return Condition(f"casefold({column}) {operator} ?", (value.casefold(),))
    return Condition(f"{column} {operator} ?", (value,))


def argument_names(name: str) -> tuple[str, str, str]:
    """Return the names of the arguments that a name in a filter means."""
    return (name, name, name) if name.startswith("-") else (name, f"--{name}", f"-{name}")


def _compared_name(word: str) -> str:
    """Return the name of the metric or argument whose number a word of the filter compares; "" for other words."""
    match = None if word.startswith('"') else re.fullmatch(_COMPARISON, word)
    if match is None or match[2] in (":", "=", "==") or not match[3]:
        return ""
    return "" if match[1].casefold() in COLUMNS else match[1]


def compared_names(text: str) -> list[str]:
    """Return the names in the conditions of a filter that are not columns: metrics, arguments and unknown names."""
    matches = [re.fullmatch(_COMPARISON, word) for _, word in re.findall(_TOKEN, text) if not word.startswith('"')]
    names = [match[1] for match in matches if match is not None and match[3]]
    return [name for name in names if name.casefold() not in {*COLUMNS, "is", "has"}]


def _on_value(name: str, operator: str, value: str, word: str) -> Condition | None:
    """Translate the comparison of a metric, or of an argument if the run has no such metric.

    Return None if the operator needs a number, but `value` is not a number. A word with `:` or `=` is also searched in
    the texts of runs that have neither, such as `http://host`.
    """
    compared: float | str = value
    try:
        compared = float(value)
    except ValueError:
        if operator in ("<", ">", "<=", ">="):
            return None
    names = argument_names(name)
    argument = _on_argument(operator, value, compared)
    by_argument = f"listed.id IN ({_OF_ARGUMENT} AND {argument.sql})"
    if name.startswith("-"):
        return Condition(by_argument, (*names, *argument.values))
    # In SQLite, texts are larger than all numbers.
    kind = "" if isinstance(compared, str) else " AND typeof(value) != 'text'"
    by_metric = f"listed.id IN ({_OF_METRIC} AND value {operator.replace(':', '=')} ?{kind})"
    has_no_metric = f"listed.id NOT IN ({_OF_METRIC})"
    sql = f"{by_metric} OR ({has_no_metric} AND {by_argument})"
    values = (name, compared, name, *names, *argument.values)
    if operator in (":", "="):
        sql += f" OR ({has_no_metric} AND listed.id NOT IN ({_OF_ARGUMENT}) AND instr(search, ?))"
        values = (*values, name, *names, word.casefold())
    return Condition(sql, values)


def _on_argument(operator: str, value: str, compared: float | str) -> Condition:
    if operator == ":":
        return Condition("instr(casefold(value), ?)", (value.casefold(),))
    if isinstance(compared, str):
        return Condition(f"casefold(value) {operator} ?", (value.casefold(),))
    number = "number_or_text(value)"
    if operator == "!=":
        return Condition(f"{number} != ?", (compared,))
    return Condition(f"(typeof({number}) != 'text' AND {number} {operator} ?)", (compared,))


def _number_of(column: str, value: str) -> float | None:
    """Parse a number, a duration to seconds, or a time to seconds since the epoch. Return None for another text."""
    if column == "duration":
        if clock := re.fullmatch(_CLOCK, value):
            return int(clock[1] or 0) * 3600 + int(clock[2]) * 60 + float(clock[3])
        match = re.fullmatch(_DURATION, value)
        return float(match[1]) * _UNITS[match[2]] if match else None
    if column in ("started", "start", "ended", "end", "created"):
        try:
            return datetime.fromisoformat(value).astimezone().timestamp()
        except (ValueError, OverflowError):
            return None
    try:
        return float(value.lstrip("#"))
    except ValueError:
        return None
