"""Load the user's settings for all projects from `settings.yaml` in the configuration folder.

An invalid entry is reported with its line, and replaced by its default. The other entries apply.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from tui_workbench.config.document import Document
from tui_workbench.core.directories import settings_path
from tui_workbench.core.errors import ConfigurationError


class Settings(NamedTuple):
    """The values of the fields in `schema.user_files.SETTINGS`, and the errors of the file."""

    notifications: str = "terminal"
    notification_sequence: str = "auto"
    window_title: str = "on"
    errors: tuple[ConfigurationError, ...] = ()


def load_settings() -> Settings:
    """Load the settings. Errors are returned, not raised."""
    path = settings_path()
    if not os.path.lexists(path):
        return Settings()
    try:
        document = Document.open(path)
    except ConfigurationError as error:
        return Settings(errors=(error,))
    errors = (
        ConfigurationError(finding.message, remedy=finding.remedy, file=path, line=finding.line, column=finding.column)
        for finding in document.problems()
    )
    return Settings(**document.values, errors=tuple(errors))
