"""Which files of the project its ignore files exclude from snapshots: they are there, but quiet.

Only the ignore files in the project's root are read; the snapshot itself honours them all.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

IGNORE_FILES = (".gitignore", ".amlignore")


class Ignored:
    """The patterns of the project's ignore files. Empty when nothing was read."""

    def __init__(self, lines: tuple[str, ...] = ()) -> None:
        self._lines = lines
        self._spec: GitIgnoreSpec | None = None

    @classmethod
    def read(cls, root: str) -> Ignored:
        """What the ignore files in a folder say. Blocks; a file that cannot be read says nothing."""
        lines: list[str] = []
        for name in IGNORE_FILES:
            try:
                with open(os.path.join(root, name), encoding="utf-8-sig", errors="replace") as file:
                    lines.extend(file.read().splitlines())
            except OSError:
                continue
        found = cls(tuple(lines))
        if any(line.strip() and not line.startswith("#") for line in lines):
            from pathspec import GitIgnoreSpec

            found._spec = GitIgnoreSpec.from_lines(lines)
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ignored) and self._lines == other._lines

    def __hash__(self) -> int:
        return hash(self._lines)

    def holds(self, path: str, *, is_folder: bool) -> bool:
        """True when this path, relative to the project, is excluded."""
        return self._spec is not None and self._spec.match_file(f"{path}/" if is_folder else path)
