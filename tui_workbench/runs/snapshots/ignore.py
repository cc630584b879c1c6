"""Match paths against ignore files without git. The syntax is that of gitignore(5).

Callers walk the tree from its root and do not enter excluded folders, so a pattern is only matched against an entry,
and not against the paths below it. As in git, names and patterns are bytes.

Others may have written the patterns. RE2 matches them in linear time: with `re`, a pattern such as `a*a*a*b` could
take years and would block the screens.
"""

from __future__ import annotations

import errno
import os
import re
import string
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tui_workbench.core.errors import StorageError
from tui_workbench.core.files import LARGEST, read_file
from tui_workbench.core.patterns import compile_bytes

LONGEST_PATTERN = 1 << 12
"""Maximum length of a pattern in bytes."""

MOST_PATTERNS = 10_000
"""Maximum number of patterns of a file."""

_GROUP = 200
"""Maximum number of patterns in one expression. RE2 refuses expressions that need too much memory."""


class Rule(NamedTuple):
    """A pattern, which excludes the paths that it matches, or includes them again. `expression` is for RE2."""

    excludes: bool
    folders_only: bool
    expression: str


class Group(NamedTuple):
    """Consecutive patterns with the same effect."""

    excludes: bool
    folders_only: bool
    whole: re.Pattern[bytes]  # matches a path
    inside: re.Pattern[bytes]  # finds a path between NULs


class IgnoreFile(NamedTuple):
    """The patterns in an ignore file.

    `folder` is the path of the folder with the file, relative to the root of the tree; "" for the root.
    """

    folder: str
    groups: tuple[Group, ...]

    def may_match(self, paths: Iterable[str]) -> bool:
        """Return False if no pattern matches any of these paths, which are relative to the root of the tree.

        Most paths match no pattern. One search in all entries of a folder is much faster than one for each.
        """
        if not self.groups:
            return False
        text = b"\0%s\0" % os.fsencode("\0".join(path[self._prefix :] for path in paths))
        return any(group.inside.search(text) is not None for group in self.groups)

    @property
    def _prefix(self) -> int:
        return len(self.folder) + 1 if self.folder else 0

    def verdict(self, path: str, *, is_folder: bool) -> bool | None:
        """Return True if the entry is excluded, False if it is included again, None if no pattern matches.

        The last matching pattern applies. `path` is relative to the root of the tree.
        """
        name = os.fsencode(path[self._prefix :])
        for group in reversed(self.groups):
            if (is_folder or not group.folders_only) and group.whole.fullmatch(name) is not None:
                return group.excludes
        return None


def read_ignore_file(root: str, folder: str, name: str) -> IgnoreFile:
    """Read an ignore file of a folder in the tree at `root`. A missing file has no patterns.

    Raises StorageError if the file cannot be read or used completely: without its patterns, a run would get files that
    the user excludes.
    """
    path = os.path.join(root, folder, name)
    try:
        return parse(read_file(path), folder)
    except OSError as error:
        if isinstance(error, FileNotFoundError | NotADirectoryError) and not os.path.lexists(path):
            return IgnoreFile(folder, ())
        raise _refusal(path, _REASONS.get(error.errno or 0) or error.strerror or str(error)) from error
    except ValueError as error:
        raise _refusal(path, str(error)) from error


_REASONS = {
    errno.ENOENT: "it is a link to a missing file",
    errno.ELOOP: "its symbolic links form a loop",
    errno.EISDIR: "it is a folder",
    errno.EFBIG: f"it is larger than {LARGEST >> 20} MiB",
}


def _refusal(path: str, reason: str) -> StorageError:
    return StorageError(
        f"cannot use this ignore file: {reason}",
        remedy="Runs would get the files that it excludes. Make it a readable file of at most "
        f"{LARGEST >> 20} MiB and {MOST_PATTERNS} patterns (a pattern for a folder replaces many), or remove it.",
        file=path,
    )


def parse(content: bytes, folder: str = "") -> IgnoreFile:
    """Parse the content of an ignore file in `folder` (see IgnoreFile).

    Patterns that git ignores, such as `[` without an end, are ignored. Raises ValueError for too many patterns, and for
    a pattern that is too long or too complex.
    """
    lines = content.removeprefix(b"\xef\xbb\xbf").decode("latin-1").split("\n")
    rules = [rule for rule in (_rule(line.removesuffix("\r")) for line in lines) if rule is not None]
    if len(rules) > MOST_PATTERNS:
        raise ValueError(f"it has {len(rules)} patterns, and at most {MOST_PATTERNS} are possible")
    return IgnoreFile(folder, tuple(_groups(rules)))


def _groups(rules: Sequence[Rule]) -> Iterator[Group]:
    start = 0
    for end in range(1, len(rules) + 1):
        if end == len(rules) or end - start == _GROUP or rules[end][:2] != rules[start][:2]:
            yield from _compiled(rules[start:end])
            start = end


def _compiled(rules: Sequence[Rule]) -> Iterator[Group]:
    """Yield groups of these patterns: one, or several if it would need too much memory. Raises ValueError."""
    together = "|".join(f"(?:{rule.expression})" for rule in rules)
    try:
        whole, inside = (compile_bytes(form.encode("latin-1")) for form in (together, f"\\x00(?:{together})\\x00"))
    except ValueError:
        half = len(rules) // 2
        if not half:
            raise ValueError("one of its patterns is too complex") from None
        for part in (rules[:half], rules[half:]):
            yield from _compiled(part)
        return
    yield Group(rules[0].excludes, rules[0].folders_only, whole, inside)


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


def _rule(line: str) -> Rule | None:
    pattern = _without_trailing_spaces(line)
    if not pattern or pattern.startswith("#"):
        return None
    if len(pattern) > LONGEST_PATTERN:
        raise ValueError(f"one of its patterns is longer than {LONGEST_PATTERN} bytes")
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
    return Rule(excludes, folders_only, expression if anchored else f"{_FOLDERS}{expression}")


def _without_trailing_spaces(line: str) -> str:
    stripped = line.rstrip(" ")
    backslashes = len(stripped) - len(stripped.rstrip("\\"))
    return stripped + " " if backslashes % 2 and len(stripped) < len(line) else stripped


# Expressions never match NUL, so that a match in a list of paths is within one path.
_ANY, _IN_NAME, _FOLDERS = r"[^\x00]", r"[^/\x00]", r"(?:[^\x00]*/)?"


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
            while pattern[i : i + 1] == "*":
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
            out.append(_literal(pattern[i]))
            i += 1
    return "".join(out)


_CLASSES = {
    "alnum": string.ascii_letters + string.digits, "alpha": string.ascii_letters, "blank": " \t",
    "cntrl": "".join(map(chr, (*range(32), 127))), "digit": string.digits,
    "graph": string.ascii_letters + string.digits + string.punctuation, "lower": string.ascii_lowercase,
    "print": string.ascii_letters + string.digits + string.punctuation + " ", "punct": string.punctuation,
    "space": " \t\n\r\f\v", "upper": string.ascii_uppercase, "xdigit": string.hexdigits,
}  # fmt: skip


def _bracket(pattern: str, start: int) -> tuple[str | None, int]:
    """Translate `[...]` at `start`. Return the expression, or None if it matches nothing, and the position after it."""
    i = start + 1
    negated = pattern[i : i + 1] in ("!", "^")
    i += negated
    listed: set[str] = set()
    first = i
    while i < len(pattern) and (pattern[i] != "]" or i == first):
        if pattern.startswith("[:", i) and (end := pattern.find(":]", i + 2)) >= 0:
            name = pattern[i + 2 : end]
            if name not in _CLASSES:
                return None, i
            listed.update(_CLASSES[name])
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
            listed.update(map(chr, range(ord(low), ord(pattern[i]) + 1)))
            i += 1
        else:
            listed.add(low)
    if i >= len(pattern):
        return None, i
    matched = (set(map(chr, range(256))) - listed if negated else listed) - {"/", "\0"}
    return (f"[{''.join(map(_literal, sorted(matched)))}]" if matched else None), i + 1


def _literal(character: str) -> str:
    return f"\\x{ord(character):02x}"
