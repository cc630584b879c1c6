"""Languages for highlighting and indentation, and operations on lines of code."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Literal

_SUFFIXES = {
    "python": ".py .pyi",
    "yaml": ".compute .runconfig .yml .yaml",
    "json": ".json .jsonl .ipynb",
    "markdown": ".md .markdown",
    "toml": ".toml",
    "bash": ".sh .bash",
}
_LANGUAGES = {suffix: language for language, suffixes in _SUFFIXES.items() for suffix in suffixes.split()}
_INTERPRETERS = re.compile(r"#!.*\b(python|bash|sh)[\d.]*\b")
LANGUAGE_NAMES = {"yaml": "YAML", "json": "JSON", "toml": "TOML", "bash": "Shell"}  # others are capitalized
COMMENT_MARKS = {"python": "# ", "yaml": "# ", "toml": "# ", "bash": "# "}


def language_of(path: str, first_line: str = "") -> str:
    """Return the language of a file by its name or `#!` line; "" for plain text."""
    by_name = _LANGUAGES.get(os.path.splitext(path)[1].lower(), "")
    if by_name or not (match := _INTERPRETERS.match(first_line)):
        return by_name
    return "python" if match[1] == "python" else "bash"


def indentation_of(source: str, language: str) -> tuple[Literal["tabs", "spaces"], int]:
    """Return the kind and the width of an indentation level: tabs if a line begins with a tab, else spaces."""
    if source.startswith("\t") or "\n\t" in source:
        return "tabs", 8 if language != "bash" else 4
    return "spaces", 4 if language in ("python", "toml") else 2


def next_indent(before: str, language: str, one_indent: str) -> str:
    """Return the indentation of a new line after `before`."""
    indent = before[: len(before) - len(before.lstrip())]
    opens = before.rstrip().endswith(":") and language in ("python", "yaml")
    return indent + one_indent if opens else indent


def dedented(line: str, width: int) -> str:
    """Return the line with one indentation level less."""
    if line.startswith("\t"):
        return line[1:]
    return line[min(width, len(line) - len(line.lstrip(" "))) :]


def with_comments_toggled(lines: Sequence[str], mark: str) -> list[str]:
    """Comment out the lines, or uncomment them if all are comments. Blank lines are ignored."""
    texts = [line for line in lines if line.strip()]
    if texts and all(line.lstrip().startswith(mark.rstrip()) for line in texts):
        return [_without(line, mark) for line in lines]
    column = min((len(line) - len(line.lstrip()) for line in texts), default=0)
    return [line[:column] + mark + line[column:] if line.strip() else line for line in lines]


def _without(line: str, mark: str) -> str:
    indent = len(line) - len(line.lstrip())
    rest = line[indent:]
    return line[:indent] + (rest.removeprefix(mark) if rest.startswith(mark) else rest.removeprefix(mark.rstrip()))


def difference(old: str, new: str) -> tuple[int, int, int]:
    """Return the offset at which two texts begin to differ, and the ends of the difference in `old` and in `new`."""
    start = common_start(old, new)
    rest = min(len(old), len(new)) - start
    end = common_start(old[len(old) - rest :][::-1], new[len(new) - rest :][::-1])
    return start, len(old) - end, len(new) - end


def common_start(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the common prefix of two sequences."""
    # Binary search with slices, which compares in C: a loop over a megabyte takes 100 ms.
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if first[low:middle] == second[low:middle] else (low, middle - 1)
    return low


def location_at(text: str, offset: int) -> tuple[int, int]:
    """Return the row and column of an offset."""
    return text.count("\n", 0, offset), offset - (text.rfind("\n", 0, offset) + 1)
