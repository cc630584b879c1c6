"""The languages that texts are highlighted and indented as, and what keys do to lines of code."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Literal

_LANGUAGES = {
    ".py": "python",
    ".pyi": "python",
    ".compute": "yaml",
    ".runconfig": "yaml",
    ".yml": "yaml",
    ".yaml": "yaml",
    ".json": "json",
    ".jsonl": "json",
    ".ipynb": "json",
    ".md": "markdown",
    ".markdown": "markdown",
    ".toml": "toml",
    ".sh": "bash",
    ".bash": "bash",
}
_INTERPRETERS = re.compile(r"#!.*\b(python|bash|sh)[\d.]*\b")

LANGUAGE_NAMES = {
    "python": "Python",
    "yaml": "YAML",
    "json": "JSON",
    "markdown": "Markdown",
    "toml": "TOML",
    "bash": "Shell",
}
"""How each language is written for people."""

COMMENT_MARKS = {"python": "# ", "yaml": "# ", "toml": "# ", "bash": "# "}
INDENTS = {"python": 4, "toml": 4}
SMALL_INDENT = 2
"""Spaces a level in YAML, JSON, shell and the like."""


def language_of(path: str, first_line: str = "") -> str:
    """The language of a file by its name, else by the interpreter its first line names; "" when it is plain text."""
    by_name = _LANGUAGES.get(os.path.splitext(path)[1].lower(), "")
    if by_name or not (match := _INTERPRETERS.match(first_line)):
        return by_name
    return "python" if match[1] == "python" else "bash"


def indentation_of(source: str, language: str) -> tuple[Literal["tabs", "spaces"], int]:
    """How a text is indented, and by how many cells a level: as it is, else as its language is."""
    if source.startswith("\t") or "\n\t" in source:
        return "tabs", 8 if language != "bash" else 4
    return "spaces", INDENTS.get(language, SMALL_INDENT)


def next_indent(before: str, language: str, one_indent: str) -> str:
    """The indentation of the line that begins behind `before`."""
    indent = before[: len(before) - len(before.lstrip())]
    opens = before.rstrip().endswith(":") and language in ("python", "yaml")
    return indent + one_indent if opens else indent


def dedented(line: str, width: int) -> str:
    """The line without its outermost level of indentation."""
    if line.startswith("\t"):
        return line[1:]
    return line[min(width, len(line) - len(line.lstrip(" "))) :]


def with_comments_toggled(lines: Sequence[str], mark: str) -> list[str]:
    """The lines as comments, or as text again when all of them are."""
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
    """Where two texts differ: the common start, and where the differing stretch ends in the old and in the new."""
    start = common_start(old, new)
    rest = min(len(old), len(new)) - start
    end = common_start(old[len(old) - rest :][::-1], new[len(new) - rest :][::-1])
    return start, len(old) - end, len(new) - end


def common_start(first: Sequence[str], second: Sequence[str]) -> int:
    """How many items two sequences have in common at their start."""
    # Halving and comparing slices stays in C: a loop over the characters of a megabyte takes 100 ms.
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if first[low:middle] == second[low:middle] else (low, middle - 1)
    return low


def location_at(text: str, offset: int) -> tuple[int, int]:
    """The row and column of an offset."""
    return text.count("\n", 0, offset), offset - (text.rfind("\n", 0, offset) + 1)
