"""Checks of configuration files for the editor: of the texts as they stand in it, saved or not.

The invariant: it is called in threads, one call at a time looks at the project, and what one tab has not saved yet
counts when another one is checked.
"""

from __future__ import annotations

import os
from threading import Lock
from typing import TYPE_CHECKING

from tui_workbench.config.document import Document
from tui_workbench.config.schema import kind_of
from tui_workbench.config.suggestions import suggestions
from tui_workbench.config.surroundings import Surroundings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui_workbench.config.findings import Finding
    from tui_workbench.config.schema import Field
    from tui_workbench.config.suggestions import Suggestion
    from tui_workbench.files import TextFile


def is_configuration(path: str) -> bool:
    """Whether the schema knows the file at `path` (`.compute`, `.runconfig`, dependency files)."""
    return kind_of(path) is not None


class Checker:
    """Finds what is wrong or unwise in the configuration files of any project."""

    def __init__(self, images_used: tuple[str, ...] = ()) -> None:
        self.images_used = images_used
        """Images of earlier runs, which are suggested."""
        self._lock = Lock()
        self._surroundings: dict[str, Surroundings | None] = {}

    def check(self, file: TextFile, text: str) -> Sequence[Finding]:
        """The findings in `text`, which stands in the editor for `file`; in the order of the text."""
        with self._lock:
            around = self._around(file.path)
            if around is not None:
                around.show_unsaved(file.path, text)
            return Document(file._replace(text=text), around).problems()

    def forget(self, path: str) -> None:
        """The file at `path` is not in the editor any more: only what the disk has counts."""
        with self._lock:
            around = self._around(path)
            if around is not None:
                around.show_unsaved(path, None)

    def suggestions(self, path: str, field: Field, folder: str) -> Sequence[Suggestion]:
        """Values that a field of the file at `path` could have; of files, those in `folder` ("" or ending in `/`)."""
        with self._lock:
            return suggestions(field, folder, self._around(path), self.images_used)

    def _around(self, path: str) -> Surroundings | None:
        directory = os.path.dirname(path)
        if directory not in self._surroundings:
            self._surroundings[directory] = Surroundings.of(path)
        return self._surroundings[directory]
