"""Explain errors of the YAML parser, and find the mistake, which is often before the reported position."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from tui_workbench.config.schema.fields import is_known_key
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.masking import MASK
from tui_workbench.core.secret_names import is_secret_name
from tui_workbench.core.text_files import line_and_column

# Not compiled on import, because that takes 5 ms.
_UNPRINTABLE = "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
_NO_SPACE = re.compile(r"""^[ ]*(?:-[ ]+)*(["']?)([A-Za-z_][\w.-]*)\1:(?=[^\s/:])""", re.MULTILINE)
_TEXT_OR_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|#[^\n]*')
_DASHES = re.compile(r"(?:-[ ]+)*")


class YamlError(ConfigurationError):
    """The text is invalid YAML. `code` is the finding code, `offset` the position of the mistake."""

    def __init__(self, code: str, offset: int, message: str, remedy: str) -> None:
        super().__init__(message, remedy=remedy)
        self.code = code
        self.offset = offset

    def placed(self, text: str, path: str) -> YamlError:
        """Set file, line and column, and return the error."""
        self.file = path
        self.line, self.column = line_and_column(text, self.offset)
        return self


def explain(error: Exception, text: str) -> YamlError:
    """Convert an error of PyYAML about `text` to an error for the user, without file and line."""
    bad = re.search(_UNPRINTABLE, text)
    if bad is not None:
        message = f"the character U+{ord(bad[0]):04X} is not allowed"
        return YamlError("control-character", bad.start(), message, "Remove the character.")
    mark: Any = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    offset = min(mark.index if mark is not None else len(text), len(text))
    return (
        missing_comma(text)
        or _tab(text, offset)
        or missing_space(text, offset)
        or _unclosed(error)
        or _indented(error, text, offset)
        or _general(error, text, offset)
    )


def missing_comma(text: str) -> YamlError | None:
    """Return the error for a missing comma in a JSON file, or None. The file can still be valid YAML."""
    if not text.lstrip().startswith(("{", "#")):
        return None
    # Replace comments with spaces, because JSON has no comments. This does not change positions.
    bare = _TEXT_OR_COMMENT.sub(lambda match: match[0] if match[0][0] == '"' else " " * len(match[0]), text)
    try:
        json.JSONDecoder(strict=False).raw_decode(bare.lstrip())
    except json.JSONDecodeError as error:
        at = error.pos + len(bare) - len(bare.lstrip())
        if error.msg == "Expecting ',' delimiter" and bare[at : at + 1] in ('"', "{", "["):
            return YamlError("missing-comma", len(bare[:at].rstrip()), "a comma is missing here", "Add a comma.")
    except (ValueError, RecursionError):  # such as a number of more than 4300 digits
        pass
    return None


def missing_space(text: str, upto: int | None = None) -> YamlError | None:
    """Return the error for the last known key up to `upto` that has no space after its colon, or None."""
    last = None
    for match in _NO_SPACE.finditer(text):
        if upto is not None and match.start() > upto:
            break
        # In brackets, a quoted key needs no space.
        if is_known_key(match[2]) and not (match[1] and text.lstrip().startswith("{")):
            last = match
    if last is None:
        return None
    line = text[last.start() : (text + "\n").index("\n", last.start())].strip()
    key = last[2]
    shown = f"{key}:{MASK}" if is_secret_name(key) else line[:60]
    message = f"`{shown}` has no space after the colon"
    return YamlError("missing-space", last.end(), message, "Add a space.")


def _tab(text: str, offset: int) -> YamlError | None:
    line_start = text.rfind("\n", 0, offset) + 1
    for start in (line_start, text.rfind("\n", 0, max(line_start - 1, 0)) + 1):
        match = re.compile(" *\t").match(text, start)
        if match is not None:
            return YamlError("tab", match.end() - 1, "this line is indented with a tab", "Indent the line with spaces.")
    if text[offset : offset + 1] == "\t":
        return YamlError("tab", offset, "expected a value, not a tab", "Replace the tab with spaces.")
    return None


def _unclosed(error: Exception) -> YamlError | None:
    context = getattr(error, "context", None) or ""
    mark: Any = getattr(error, "context_mark", None)
    if mark is None:
        return None
    if "quoted scalar" in context and "end of stream" in (getattr(error, "problem", None) or ""):
        return YamlError("unclosed", mark.index, "the quote that begins here is not closed", "Close the quote.")
    for name, bracket in (("flow sequence", "["), ("flow mapping", "{")):
        if name in context:
            message = f"`{bracket}` is not closed, or a comma is missing between its items"
            return YamlError("unclosed", mark.index, message, "Close the bracket, or add the comma between the items.")
    return None


def _indented(error: Exception, text: str, offset: int) -> YamlError | None:
    """Return the error for an indented line below a line that already has a value, or None."""
    if "mapping values are not allowed" not in str(getattr(error, "problem", None)):
        return None
    start = text.rfind("\n", 0, offset) + 1
    line = text[start : (text + "\n").index("\n", start)]
    indent = len(line) - len(line.lstrip(" "))
    above = indent_above(text, start)
    first = line.find(": ") if ": " in line else len(line.rstrip()) - 1
    if not start or above.opens or indent <= above.indent or start + first != offset:
        return None
    message = "this line is indented as if it were part of the value above"
    return YamlError("indentation", start + indent, message, "Align it with the line above.")


_ALIGN = ("the indentation of this line is wrong", "Align it with the lines around it.")
_NO_ITEM = ("this line is not a `- item`", "Write `- item`, or align the line with its key.")
MAX_DEPTH = 40
"""Maximum number of nested levels. Typical files have up to four."""

TOO_DEEP = (f"the file has more than {MAX_DEPTH} levels of nesting", "Use fewer levels.")
HAS_NUL = (
    "this text contains a NUL character, which no path, name or variable can contain",
    "Remove the escape sequence.",
)
_ESCAPE = ("this double-quoted value has an unknown escape sequence", "Use single quotes, or double the backslash.")
_MEANINGS = (
    (
        "mapping values are not allowed",
        "this line has a second `key: value`",
        "Write it on a new line, or put the value in quotes.",
    ),
    ("could not find expected ':'", "this line has no `key:`", "Write `key: value`, or indent the line under its key."),
    ("did not find expected key", *_ALIGN),
    ("expected <block end>", *_ALIGN),
    ("did not find expected '-' indicator", *_NO_ITEM),
    ("cannot start any token", "a value cannot begin with this character", "Put the value in quotes."),
    ("block sequence entries are not allowed", "a list cannot begin here", "Start it on its own line."),
    ("unknown escape character", *_ESCAPE),
    (
        "did not find expected <document start>",
        "this line is not part of the map above",
        "Align it with the lines above.",
    ),
    ("exceeded maximum nesting depth", *TOO_DEEP),  # libyaml reads ahead, and has a separate limit for this
    ("undefined tag handle", "this value begins with an unknown tag", "Put the value in quotes."),
)


def _general(error: Exception, text: str, offset: int) -> YamlError:
    problem = str(getattr(error, "problem", None) or error).split("\n")[0]
    if "unknown escape" in problem and text[offset - 1 : offset] == "\\":
        offset -= 1
    other = ("", f"invalid YAML: {problem}", "Correct the line.")
    _, message, remedy = next((meaning for meaning in _MEANINGS if meaning[0] in problem), other)
    return YamlError("syntax", offset, message, remedy)


class Line(NamedTuple):
    """The indentation of a line that is neither blank nor a comment."""

    indent: int = 0  # column of its first character
    content: int = 0  # column after its dashes
    opens: bool = False  # ends with a colon
    is_item: bool = False  # begins with a dash


def indent_above(text: str, start: int) -> Line:
    """Return the nearest line with content above the line that begins at `start`; an empty `Line` without one."""
    lines = reversed(text[:start].split("\n")[:-1])
    return next((layout for line in lines if (layout := _layout_of(line)) is not None), Line())


def neighbors_columns(text: str, start: int) -> list[int]:
    """Return the likely indentations of the line at `start`, the most likely first, judged by the lines around it."""
    above = indent_above(text, start)
    line, *below = text[start:].split("\n")
    next_line = next((layout for following in below if (layout := _layout_of(following)) is not None), None)
    is_item = line.lstrip().startswith("- ")
    if above.opens:
        # Align the first line below a key with the next line if that is deeper; otherwise, indent it by two columns.
        deeper = [next_line.indent] if next_line is not None and next_line.indent > above.indent else []
        return [*deeper, above.content + 2]
    alike = [above.indent] if above.is_item == is_item else []
    return [*alike, above.content, *([next_line.indent] if next_line is not None else [])]


def _layout_of(line: str) -> Line | None:
    bare = line.strip()
    rest = line.lstrip(" ")
    if not bare or bare.startswith("#") or rest.startswith("\t"):
        return None
    indent = len(line) - len(rest)
    dashes = len(_DASHES.match(rest)[0])  # type: ignore[index]
    opens = re.sub(r"\s+#.*", "", bare).endswith(":")
    return Line(indent, indent + dashes, opens, bool(dashes))
