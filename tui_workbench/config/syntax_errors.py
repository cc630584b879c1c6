"""What a YAML parser's complaint means, in words that name the mistake and not the grammar.

Invariant: the place is where a person has to change something, which is often a line before the one where the parser
gave up.
"""

from __future__ import annotations

import re

import yaml

from tui_workbench.config.source import Lines
from tui_workbench.errors import ConfigurationError
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NO_SPACE = re.compile(r"""^[ ]*(?:-[ ]+)*(["']?)([A-Za-z_][\w.-]*)\1:(?=[^\s/:])""", re.MULTILINE)
_TAB = re.compile(r"^ *\t", re.MULTILINE)


class YamlError(ConfigurationError):
    """A text that is no YAML: `code` names the kind of mistake for checks, `offset` is where it stands."""

    def __init__(self, message: str, *, code: str, offset: int, remedy: str, file: str, text: str) -> None:
        line, column = Lines(text).place(offset)
        super().__init__(message, remedy=remedy, file=file, line=line, column=column)
        self.code = code
        self.offset = offset


def explain(error: yaml.YAMLError, text: str, path: str) -> YamlError:
    """The error to show for PyYAML's `error` about `text`."""
    bad = _UNPRINTABLE.search(text)
    if bad is not None:
        return _fault(
            f"the character U+{ord(bad[0]):04X} is not allowed",
            "control-character",
            bad.start(),
            "Remove it.",
            path,
            text,
        )
    mark: Any = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    offset = min(mark.index if mark is not None else len(text), len(text))
    return (
        _tab(text, offset, path)
        or _missing_space(text, offset, path)
        or _unclosed(error, text, path)
        or _general(error, text, offset, path)
    )


def missing_space(text: str, path: str, upto: int | None = None) -> YamlError | None:
    """`Framework:Python`: the last known key up to offset `upto` with no space behind its colon, or None."""
    from tui_workbench.config.schema import is_known_key

    found = None
    for match in _NO_SPACE.finditer(text):
        if upto is not None and match.start() > upto:
            break
        if is_known_key(match[2]):
            found = match
    if found is None:
        return None
    line = text[found.start() : (text + "\n").index("\n", found.start())].strip()
    return _fault(
        f"`{line[:60]}` has no space after the colon", "missing-space", found.end(), "Put a space there.", path, text
    )


def _missing_space(text: str, offset: int, path: str) -> YamlError | None:
    return missing_space(text, path, offset)


def _tab(text: str, offset: int, path: str) -> YamlError | None:
    line_start = text.rfind("\n", 0, offset) + 1
    for start in (line_start, text.rfind("\n", 0, max(line_start - 1, 0)) + 1):
        match = _TAB.match(text, start)
        if match is not None:
            return _fault("a tab indents this line", "tab", match.end() - 1, "Indent with spaces.", path, text)
    if text[offset : offset + 1] == "\t":
        return _fault("a tab stands where a value should begin", "tab", offset, "Use spaces.", path, text)
    return None


def _unclosed(error: yaml.YAMLError, text: str, path: str) -> YamlError | None:
    context = getattr(error, "context", None) or ""
    mark: Any = getattr(error, "context_mark", None)
    if mark is None:
        return None
    if "quoted scalar" in context and "end of stream" in (getattr(error, "problem", None) or ""):
        return _fault("a quote is opened here and never closed", "unclosed", mark.index, "Close it.", path, text)
    for what, bracket in (("flow sequence", "["), ("flow mapping", "{")):
        if what in context:
            return _fault(
                f"`{bracket}` is opened here and not closed, or a comma is missing in it",
                "unclosed",
                mark.index,
                "Close it, or put the comma.",
                path,
                text,
            )
    return None


_MEANINGS = (
    ("mapping values are not allowed", "a second `key: value` on one line", "Begin a new line, or quote the value."),
    ("could not find expected ':'", "this line has no `key:`", "Write `key: value`, or indent it under its key."),
    (
        "did not find expected key",
        "this line does not fit in: its indentation differs",
        "Align it with its neighbours.",
    ),
    ("expected <block end>", "this line does not fit in: its indentation differs", "Align it with its neighbours."),
    (
        "did not find expected '-' indicator",
        "this line is no `- item`",
        "Write `- item`, or align the line with its key.",
    ),
    ("cannot start any token", "this character cannot begin a value", "Put the value in quotes."),
    ("block sequence entries are not allowed", "a list cannot begin here", "Begin it on its own line."),
    (
        "unknown escape character",
        "this escape is unknown in a double-quoted value",
        "Use single quotes, or double the backslash.",
    ),
    ("did not find expected <document start>", "this line does not fit in", "Align it with the lines above."),
    ("undefined tag handle", "this tag is unknown", "Put the value in quotes."),
)


def _general(error: yaml.YAMLError, text: str, offset: int, path: str) -> YamlError:
    problem = str(getattr(error, "problem", None) or error).split("\n")[0]
    if "unknown escape" in problem and text[offset - 1 : offset] == "\\":
        offset -= 1
    for part, message, remedy in _MEANINGS:
        if part in problem:
            return _fault(message, "syntax", offset, remedy, path, text)
    return _fault(f"this is not YAML: {problem}", "syntax", offset, "Correct the line.", path, text)


def _fault(message: str, code: str, offset: int, remedy: str, path: str, text: str) -> YamlError:
    return YamlError(message, code=code, offset=offset, remedy=remedy, file=path, text=text)
