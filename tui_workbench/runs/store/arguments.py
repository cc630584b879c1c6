"""Find the arguments of runs by name, and the arguments that differ between runs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

ASSIGNMENT = re.compile(r"[A-Za-z_][\w.\-/]*=")
_NUMBER = re.compile(r"-((\d+\.?\d*|\.\d+)(e[-+]?\d+)?|inf|nan)", re.IGNORECASE)


def is_option(word: str) -> bool:
    """Return True for a word such as `--lr` or `-v`. A negative number is a value."""
    return word.startswith("-") and len(word) > 1 and not _NUMBER.fullmatch(word)


def arguments_by_name(arguments: Sequence[str]) -> dict[str, str]:
    """Return options (`--lr 0.1`, `lr=0.1`) by name, and positional arguments by `argument 1`, `argument 2` and so on.

    The values of a repeated option are joined by spaces. An option without a value has the value `yes`.
    """
    values_by_name: dict[str, list[str]] = {}
    position = 0
    waiting = ""

    def add(name: str, value: str) -> None:
        values_by_name.setdefault(name, []).append(value)

    for word in arguments:
        name, equals, value = word.partition("=")
        if is_option(word):
            if waiting:
                add(waiting, "yes")
            if equals:
                add(name, value)
            waiting = "" if equals else name
        elif waiting:
            add(waiting, word)
            waiting = ""
        elif ASSIGNMENT.match(word):
            add(name, value)
        else:
            position += 1
            add(f"argument {position}", word)
    if waiting:
        add(waiting, "yes")
    return {name: " ".join(values) for name, values in values_by_name.items()}


def differing(runs: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the names of arguments that differ between these runs, the most frequent first.

    A run without an argument differs from a run with it.
    """
    counts = Counter(name for arguments in runs for name in arguments)
    names = [name for name in counts if len({arguments.get(name) for arguments in runs}) > 1]
    return sorted(names, key=lambda name: -counts[name])


def column_name(argument: str) -> str:
    """Return the name of a column with the values of an argument. `lr=0.1` gets `lr=`, because `lr` may be a metric."""
    return argument if argument.startswith(("-", "argument ")) else f"{argument}="
