"""Checks of the source text of the package: what they share.

Such a check finds refused uses in the text of a module, and has a list of exceptions with their reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import tui_workbench

PACKAGE = Path(tui_workbench.__file__).parent

EXEMPT = {
    "sdk": "runs inside the user's scripts, without the package",
    "templates_data": "the files of new projects",
}
"""Folders that are not checked, and why."""


class Use(NamedTuple):
    """A refused use in a module: of a name, or in the function with this name; "" for the module."""

    name: str
    line: int


def problems(
    uses_in: Callable[[str], Iterable[Use]], exceptions: Mapping[tuple[str, str], str], check: str
) -> list[str]:
    """Return a line for each refused use in the package, and for each exception without a use.

    The keys of `exceptions` are a file and the name of a use; `check` is the file that contains them.
    """
    found, used = [], set()
    for path in sorted(PACKAGE.rglob("*.py")):
        file = path.relative_to(PACKAGE).as_posix()
        if file.split("/")[0] in EXEMPT:
            continue
        for use in uses_in(path.read_text(encoding="utf-8")):
            used.add((file, use.name))
            if (file, use.name) not in exceptions:
                found.append(f"{PACKAGE.name}/{file}:{use.line}: {use.name}")
    return found + [f"{check}: no use of {name} in {file}" for file, name in exceptions.keys() - used]


def report(lines: list[str], advice: str) -> int:
    """Print the problems with advice, and return the exit code of the check."""
    if lines:
        print("\n".join([*lines, advice]))
    return bool(lines)
