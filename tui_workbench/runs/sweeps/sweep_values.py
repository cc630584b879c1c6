"""Parse the values of a sweep from arguments such as `lr=0.1,0.01` or from a file, and combine them.

The same arguments and seed always give the same values in the same order.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tui_workbench.core.errors import UsageError, storage_error
from tui_workbench.core.json_values import MOST_BITS, parse_json
from tui_workbench.core.plaintext import counted

LARGEST_LIST = 16 << 20
"""Maximum number of characters of a list of combinations. A sweep has far fewer runs."""

_DISTRIBUTIONS = ("uniform", "loguniform", "randint")
_FORMS = "Write a distribution as `uniform(0,0.5)`, `loguniform(1e-5,1e-1)` or `randint(1,4)`."
_QUOTES = "Quote values that contain commas, as in `--param 'x=\"a,b\",c'`."


class Range(NamedTuple):
    """A distribution of values from `low` to `high`, both included."""

    kind: str
    low: float
    high: float

    def draw(self, generator: random.Random) -> str:
        if self.kind == "randint":
            return str(generator.randint(int(self.low), int(self.high)))
        if self.kind == "uniform":
            return f"{generator.uniform(self.low, self.high):.6g}"
        return f"{math.exp(generator.uniform(math.log(self.low), math.log(self.high))):.6g}"


class Parameter(NamedTuple):
    """A parameter with its values, or with a distribution from which they are drawn."""

    name: str
    values: tuple[str, ...]
    range: Range | None = None


def parse_parameter(text: str) -> Parameter:
    """Parse `name=value,value...` or `name=uniform(low,high)`.

    Values that contain commas are quoted as in CSV. Spaces around a value are ignored. Raises UsageError.
    """
    name, equals, rest = text.partition("=")
    if not equals or not _is_name(name):
        raise UsageError(
            f"--param {text!r} needs a valid name and values",
            remedy="Write it as in `--param lr=0.1,0.01`. A name consists of letters, digits, `-`, `_` and `.`, "
            "and does not start with `-`.",
        )
    kind, bracket, inside = rest.strip().partition("(")
    if bracket and kind in _DISTRIBUTIONS and inside.endswith(")"):
        return Parameter(name, (), _range(text, kind, inside[:-1]))
    return Parameter(name, _values(text, name, rest.strip()))


def _values(text: str, name: str, rest: str) -> tuple[str, ...]:
    """Return the different values of a list. Raises UsageError that quotes `text`."""
    try:
        row = next(csv.reader([rest], skipinitialspace=True, strict=True), [])
    except csv.Error as error:
        raise UsageError(f"--param {text!r}: cannot read the quotation marks ({error})", remedy=_QUOTES) from error
    values = tuple(dict.fromkeys(value.strip() for value in row))
    if not all(values) or not values:
        raise UsageError(
            f"--param {text!r} has an empty value",
            remedy="Write a value before and after each comma. For empty values, use `--list FILE` with a JSON file.",
        )
    unbalanced = next((value for value in values if not _is_balanced(value)), "")
    call = re.match(r"(\w+)\(", unbalanced)
    if call and call[1] not in _DISTRIBUTIONS:
        raise UsageError(f"--param {text!r}: unknown distribution {call[1]!r}", remedy=f"{_FORMS} {_QUOTES}")
    if rest.startswith("[") and rest.endswith("]") and unbalanced:
        raise UsageError(
            f"--param {text!r}: a list of values has no brackets",
            remedy=f"Write it as `--param {name}={rest[1:-1]}`. {_QUOTES}",
        )
    if unbalanced:
        raise UsageError(f"--param {text!r}: unbalanced brackets in {unbalanced!r}", remedy=f"{_FORMS} {_QUOTES}")
    return values


def _is_balanced(value: str) -> bool:
    return all(value.count(opened) == value.count(closed) for opened, closed in ("()", "[]", "{}"))


def _is_name(name: str) -> bool:
    return bool(name) and not name.startswith("-") and all(c.isalnum() or c in "-_." for c in name)


def _range(text: str, kind: str, inside: str) -> Range:
    try:
        low, high = (float(word) for word in inside.split(","))
    except ValueError:
        low = high = math.nan
    is_valid = math.isfinite(low) and math.isfinite(high) and low < high
    if kind == "loguniform":
        is_valid = is_valid and low > 0
    elif kind == "randint":
        is_valid = is_valid and low.is_integer() and high.is_integer()
    if not is_valid:
        rules = {"uniform": "two numbers", "loguniform": "two numbers above 0", "randint": "two whole numbers"}
        raise UsageError(
            f"--param {text!r}: {kind} needs {rules[kind]}, the smaller first",
            remedy=_FORMS,
        )
    return Range(kind, low, high)


def grid(parameters: Sequence[Parameter]) -> list[dict[str, str]]:
    """Return all combinations. The last parameter changes fastest.

    Raises UsageError for a distribution, and for a parameter that is given twice.
    """
    _refuse_twice(parameters)
    drawn = [parameter.name for parameter in parameters if parameter.range is not None]
    if drawn:
        raise UsageError(
            f"{drawn[0]} has a distribution, but the number of runs is missing", remedy="Add it: `--random N`."
        )
    sets: list[dict[str, str]] = [{}]
    for parameter in parameters:
        # Limit the memory. `members_of` refuses this number of combinations.
        sets = [{**values, parameter.name: value} for values in sets[:100_000] for value in parameter.values]
    return sets


def chosen(parameters: Sequence[Parameter], number: int, seed: int) -> list[dict[str, str]]:
    """Return up to `number` different random combinations.

    Raises UsageError for a number below 1, and for a parameter that is given twice.
    """
    _refuse_twice(parameters)
    if number < 1:
        raise UsageError(f"--random {number} starts no runs", remedy="Use 1 or more.")
    generator = random.Random(seed)
    is_finite = all(parameter.range is None for parameter in parameters)
    size = min(number, math.prod(len(parameter.values) for parameter in parameters)) if is_finite else number
    draws: dict[tuple[str, ...], None] = {}
    # Draws can repeat, and a distribution such as `randint(1,2)` has few values. So the number of draws is limited.
    for _ in range(100 * size + 1000):
        if len(draws) == size:
            break
        draw = (
            parameter.range.draw(generator) if parameter.range is not None else generator.choice(parameter.values)
            for parameter in parameters
        )
        draws.setdefault(tuple(draw))
    names = [parameter.name for parameter in parameters]
    return [dict(zip(names, values, strict=True)) for values in draws]


def listed(path: str) -> list[dict[str, str]]:
    """Read combinations from a file: CSV or TSV with a header, JSON, or one JSON object on each line.

    An empty cell, or null in JSON, omits its parameter. Raises StorageError, or UsageError that names the line or item.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            text = file.read(LARGEST_LIST + 1)
    except OSError as error:
        raise storage_error("read", path, error) from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"--list {path} is not UTF-8 text", remedy="Convert it to UTF-8, or name another file."
        ) from error
    if len(text) > LARGEST_LIST:
        raise UsageError(
            f"--list {path} is larger than {LARGEST_LIST >> 20} MiB", remedy="Divide it into several sweeps."
        )
    suffix = os.path.splitext(path)[1].lower()
    if suffix in (".json", ".jsonl", ".ndjson"):
        rows = list(_json_rows(path, text, by_line=suffix != ".json"))
    else:
        rows = list(_table_rows(path, text, "\t" if suffix == ".tsv" else ","))
    for location, row in rows:
        for name in row:
            if not _is_name(name):
                remedy = "Use letters, digits, `-`, `_` and `.`, and do not start the name with `-`."
                raise _bad_row(location, f"invalid parameter name {name!r}", remedy)
    return [row for _, row in rows]


def _table_rows(path: str, text: str, delimiter: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the location of each row (`FILE:LINE`) and its values."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        names = [name.strip() for name in next(reader, [])]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise _bad_row(f"{path}:1", f"two columns are named {twice!r}", "Give each column a different name.")
        for row in reader:
            if not row:
                continue
            location = f"{path}:{reader.line_num}"
            if len(row) != len(names):
                raise _bad_row(location, f"expected {counted(len(names), 'value')}, found {len(row)}")
            cells = {name: value.strip() for name, value in zip(names, row, strict=True)}
            yield location, {name: value for name, value in cells.items() if value}
    except csv.Error as error:
        raise _bad_row(f"{path}:{reader.line_num}", str(error), "Check that every quotation mark is closed.") from error


def _json_rows(path: str, text: str, *, by_line: bool) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the location of each object (`FILE:LINE` with `by_line`, or `FILE: item NUMBER`) and its values."""
    if by_line:
        parts = [(f"{path}:{line}", part) for line, part in enumerate(text.split("\n"), 1) if part.strip()]
        objects = [(location, _parsed(location, part)) for location, part in parts]
    else:
        content = _parsed(path, text)
        items = content if isinstance(content, list) else [content]
        objects = [(f"{path}: item {number}", item) for number, item in enumerate(items, 1)]
    for location, item in objects:
        if not isinstance(item, dict):
            raise _bad_row(location, "not a JSON object", _OBJECTS)
        yield location, {name: _word(value) for name, value in item.items() if value is not None}


def _parsed(location: str, text: str) -> Any:
    try:
        return parse_json(text, bits=MOST_BITS)
    except ValueError as error:
        raise _bad_row(location, f"not JSON: {error}", _OBJECTS) from error


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


_COLUMNS = "Write one value per column, and quote values that contain the separator."
_OBJECTS = "Write a JSON object of names and values for each run."


def _bad_row(location: str, message: str, remedy: str = _COLUMNS) -> UsageError:
    return UsageError(f"{location}: {message}", remedy=remedy)


def _refuse_twice(parameters: Sequence[Parameter]) -> None:
    names = [parameter.name for parameter in parameters]
    twice = next((name for name in names if names.count(name) > 1), "")
    if twice:
        raise UsageError(f"--param {twice} is given more than once", remedy="Give all its values in one `--param`.")
