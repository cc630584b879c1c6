"""Match paths against ignore files without git. The syntax is that of gitignore(5).

Callers walk the tree from its root and do not enter excluded folders, so a pattern is only matched against an entry,
and not against the paths below it. As in git, names and patterns are bytes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tui_workbench.core.files import read_file


class Rule(NamedTuple):
    """A pattern, which excludes the paths that it matches, or includes them again."""

    excludes: bool
    folders_only: bool
    expression: re.Pattern[str]


class IgnoreFile(NamedTuple):
    """The patterns in an ignore file.

    `folder` is the path of the folder with the file, relative to the root of the tree; "" for the root.
    """

    folder: str
    rules: tuple[Rule, ...]
    any_rule: re.Pattern[str] | None = None  # finds a path that any rule matches between NULs; None without rules

    def may_match(self, paths: Iterable[str]) -> bool:
        """Return False if no pattern matches any of these paths, which are relative to the root of the tree.

        Most paths match no pattern. One search in all entries of a folder is much faster than one for each.
        """
        if self.any_rule is None:
            return False
        text = "\0".join(path[self._prefix :] for path in paths)
        return self.any_rule.search(f"\0{_bytewise(os.fsencode(text))}\0") is not None

    @property
    def _prefix(self) -> int:
        return len(self.folder) + 1 if self.folder else 0

    def verdict(self, path: str, *, is_folder: bool) -> bool | None:
        """Return True if the entry is excluded, False if it is included again, None if no pattern matches.

        The last matching pattern applies. `path` is relative to the root of the tree.
        """
        if not self.may_match((path,)):
            return None
        path = _bytewise(os.fsencode(path[self._prefix :]))
        for rule in reversed(self.rules):
            if (is_folder or not rule.folders_only) and rule.expression.fullmatch(path):
                return rule.excludes
        return None


def read_ignore_file(root: str, folder: str, name: str) -> IgnoreFile:
    """Read an ignore file of a folder in the tree at `root`. A missing or unreadable file has no patterns."""
    try:
        return parse(read_file(os.path.join(root, folder, name)), folder)
    except OSError:
        return IgnoreFile(folder, ())


def parse(content: bytes, folder: str = "") -> IgnoreFile:
    """Parse the content of an ignore file in `folder` (see IgnoreFile). Invalid patterns are ignored."""
    lines = _bytewise(content.removeprefix(b"\xef\xbb\xbf")).split("\n")
    rules = tuple(rule for rule in (_rule(line.removesuffix("\r")) for line in lines) if rule is not None)
    if not rules:
        return IgnoreFile(folder, ())
    together = "|".join(f"(?:{rule.expression.pattern})" for rule in rules)
    return IgnoreFile(folder, rules, re.compile(f"\0(?:{together})\0"))


def is_excluded(path: str, *, is_folder: bool, files: Sequence[IgnoreFile]) -> bool:
    """Return True if these files exclude an entry. The first file with a matching pattern applies."""
    for file in files:
        verdict = file.verdict(path, is_folder=is_folder)
        if verdict is not None:
            return verdict
    return False


def pattern_of(path: str) -> str:
    """Return a pattern that matches only this path, which is relative to the folder of the ignore file."""
    escaped = "".join(f"\\{c}" if c in "\\*?[" else c for c in path)
    return f"/{escaped[:-1]}\\ " if escaped.endswith(" ") else f"/{escaped}"


def _bytewise(name: bytes) -> str:
    return name.decode("latin-1")


def _rule(line: str) -> Rule | None:
    pattern = _without_trailing_spaces(line)
    if not pattern or pattern.startswith("#"):
        return None
    excludes = not pattern.startswith("!")
    pattern = pattern if excludes else pattern[1:]
    folders_only = pattern.endswith("/")
    pattern = pattern.removesuffix("/")
    if not pattern:
        return None
    # A slash before the end anchors the pattern to the folder of its file.
    anchored = "/" in pattern
    expression = _expression(pattern.removeprefix("/"))
    if expression is None:
        return None
    try:
        return Rule(excludes, folders_only, re.compile(expression if anchored else f"{_FOLDERS}{expression}"))
    except re.error:
        return None


def _without_trailing_spaces(line: str) -> str:
    stripped = line.rstrip(" ")
    backslashes = len(stripped) - len(stripped.rstrip("\\"))
    return stripped + " " if backslashes % 2 and len(stripped) < len(line) else stripped


# Expressions never match NUL, so that a match in a list of paths is within one path.
_ANY, _IN_NAME, _FOLDERS = r"[^\0]", r"[^/\0]", r"(?:[^\0]*/)?"


def _expression(pattern: str) -> str | None:
    """Translate a pattern to a regular expression. Return None if it cannot match any path."""
    out = []
    i = 0
    while i < len(pattern):
        starts = i == 0 or pattern[i - 1] == "/"
        if starts and pattern.startswith("**/", i):
            out.append(_FOLDERS)
            i += 3
        elif starts and pattern[i:] == "**":
            out.append(f"{_ANY}+" if i else f"{_ANY}*")
            i += 2
        elif pattern[i] == "*":
            out.append(f"{_IN_NAME}*")
            i += 1
        elif pattern[i] == "?":
            out.append(_IN_NAME)
            i += 1
        elif pattern[i] == "[":
            part, i = _bracket(pattern, i)
            if part is None:
                return None
            out.append(part)
        else:
            i += pattern[i] == "\\"
            if i == len(pattern):
                return None
            out.append(re.escape(pattern[i]))
            i += 1
    return "".join(out)


_CLASSES = {
    "alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "blank": " \\t", "cntrl": "\\x00-\\x1f\\x7f", "digit": "0-9",
    "graph": "!-~", "lower": "a-z", "print": " -~", "punct": "!-/:-@\\[-`{-~", "space": " \\t\\n\\r\\f\\v",
    "upper": "A-Z", "xdigit": "0-9a-fA-F",
}  # fmt: skip


def _bracket(pattern: str, start: int) -> tuple[str | None, int]:
    """Translate `[...]` at `start`. Return the expression, or None if it is invalid, and the position after it."""
    i = start + 1
    negated = pattern[i : i + 1] in ("!", "^")
    i += negated
    inside: list[str] = []
    first = i
    while i < len(pattern) and (pattern[i] != "]" or i == first):
        if pattern.startswith("[:", i) and (end := pattern.find(":]", i + 2)) >= 0:
            name = pattern[i + 2 : end]
            if name not in _CLASSES:
                return None, i
            inside.append(_CLASSES[name])
            i = end + 2
            continue
        i += pattern[i] == "\\"
        if i >= len(pattern):
            return None, i
        low = pattern[i]
        i += 1
        if pattern[i : i + 1] == "-" and i + 1 < len(pattern) and pattern[i + 1] != "]":
            i += 1
            i += pattern[i] == "\\"
            if i >= len(pattern):
                return None, i
            if low <= pattern[i]:
                inside.append(f"{re.escape(low)}-{re.escape(pattern[i])}")
            i += 1
        else:
            inside.append(re.escape(low))
    if i >= len(pattern):
        return None, i
    listed = "".join(inside)
    if not listed:
        return (_IN_NAME if negated else "(?!)"), i + 1
    return (f"[^{listed}/\\0]" if negated else f"(?!/)[{listed}]"), i + 1
