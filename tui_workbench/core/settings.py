"""What the user has chosen for all projects: `settings.yaml` in the configuration folder.

    notifications: terminal          # off | toast | terminal
    notification_sequence: auto      # auto | osc9 | osc777
    window_title: on                 # on | off

The invariant: what is wrong with one entry costs only that entry, and is told with its line.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from tui_workbench.core.directories import user_config_directory
from tui_workbench.core.errors import ConfigurationError

FILE = "settings.yaml"

CHOICES = {
    "notifications": ("off", "toast", "terminal"),
    "notification_sequence": ("auto", "osc9", "osc777"),
    "window_title": ("on", "off"),
}
"""The values that each setting takes; `Settings` has the one that holds where nothing is set."""


class Settings(NamedTuple):
    """The settings, and what is wrong with the file that they come from."""

    notifications: str = "terminal"
    """Of the end of a run: none; in the screens; there, and by the terminal when it has lost the focus."""

    notification_sequence: str = "auto"
    """What asks the terminal to notify: `auto` chooses by the terminal's name."""

    window_title: str = "on"
    """Whether the title of the terminal's window says what runs."""

    errors: tuple[ConfigurationError, ...] = ()


def settings_path() -> str:
    """Where the file lies, whether or not there is one."""
    return os.path.join(user_config_directory(), FILE)


def load_settings() -> Settings:
    """The user's settings, the usual ones where there is no file. Blocks. What is wrong stands in the result."""
    path = settings_path()
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
    except FileNotFoundError:
        return Settings()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        return Settings(errors=(ConfigurationError(f"the settings cannot be read: {reason}", file=path),))
    return read_settings(text, path)


def read_settings(text: str, path: str) -> Settings:
    """The settings that a file's text holds."""
    values: dict[str, str] = {}
    errors = []
    try:
        for name, value, line in _entries(text, path):
            choices = CHOICES.get(name, ())
            if value in choices:
                values[name] = value
                continue
            message = f"{name} cannot be {value!r}" if choices else f"there is no setting {name}"
            remedy = f"It is one of: {', '.join(choices)}." if choices else _NAMES
            errors.append(ConfigurationError(message, file=path, line=line, remedy=remedy))
    except ConfigurationError as error:
        errors.append(error)
    return Settings(**values, errors=tuple(errors))


_NAMES = f"The settings are: {', '.join(CHOICES)}."


def _entries(text: str, path: str) -> Iterator[tuple[str, str, int]]:
    """Name, value as it is written, and line. Raises ConfigurationError."""
    import yaml

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 0
        raise ConfigurationError(f"this is no YAML: {error.problem}", file=path, line=line) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigurationError(f"this is no YAML: {str(error).splitlines()[0]}", file=path) from error
    if root is None:
        return
    if not isinstance(root, yaml.MappingNode):
        raise ConfigurationError("settings are `name: value` lines", file=path, line=1, remedy=_NAMES)
    for key, node in root.value:
        # As it is written: `off` is a word here and not the opposite of true.
        value = str(node.value) if isinstance(node, yaml.ScalarNode) else "a list"
        yield str(key.value), value, key.start_mark.line + 1
