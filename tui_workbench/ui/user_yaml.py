"""The user's own YAML files: the keymap and themes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tui_workbench.core.errors import ConfigurationError

if TYPE_CHECKING:
    import yaml


def compose(text: str, path: str, remedy: str) -> yaml.Node | None:
    """Return the root node, or None for an empty text. Raises ConfigurationError with `remedy` for invalid YAML."""
    import yaml

    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        raise ConfigurationError(
            f"invalid YAML: {error.problem}", file=path, line=line, column=column, remedy=remedy
        ) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigurationError(f"invalid YAML: {str(error).splitlines()[0]}", file=path, remedy=remedy) from error


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return the remedy for a misspelled name, or "" if none of the names is similar."""
    import difflib

    close = difflib.get_close_matches(name, list(names), 1)
    return f"Did you mean {close[0]!r}?" if close else ""
