"""The trace of calls as it is read: calls as values, filters on them, and each as a line for a shell to do it again.

Reading writes nothing and trusts nothing: a line that is none of ours, or half of one, is passed over. What stands in
a call is of any origin; who shows it makes it safe.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tui_workbench.core.files import open_regular
from tui_workbench.core.masking import MASK
from tui_workbench.core.trace import FILE, GIT, KINDS, LARGEST_FILE, OLDER

LONGEST_READ = 2 * LARGEST_FILE + (1 << 20)
"""Bytes of a file that are read, from its end: more than one has unless somebody else made it."""

LONGEST_SHORT = 60
"""Characters of a word in a short line."""

MOST_CALLS = 20_000
"""Calls that are held; of more, the newest."""

_PRINTF = str.maketrans({"\\": "\\\\", "%": "%%", "\0": "\\0", "\n": "\\n"})
"""A text as `printf` takes it, NULs and all."""

GOES_ON, ENDED, FAILED, LOST = "goes on", "ended", "failed", "lost"


class TracedCall(NamedTuple):
    """A call that was made. What was secret in it is masked."""

    id: str
    kind: str  # one of trace.KINDS
    at: float  # seconds since the epoch, when it began
    took: float | None  # seconds; None while it goes on
    words: tuple[str, ...]  # the argument vector; empty when nothing but the login was made
    code: int | None = None  # the exit code, when there is one
    folder: str = ""  # where it ran
    variables: Mapping[str, str] = {}  # those that were set for it
    login: str = ""  # what `ssh` is called with, when it ran elsewhere
    fed: str | int = ""  # what it read; a number of bytes when that was not kept
    said: str = ""  # the end of what it wrote to stderr
    error: str = ""  # why it could not be made, or its result not be had
    note: str = ""  # what became of it, when that is no exit code
    run: str = ""  # the id of the run that it was made for
    is_cut: bool = False  # a word was too long to be kept whole

    @property
    def process(self) -> int:
        """The id of the process that made it."""
        number = self.id.partition(".")[0]
        return int(number) if number.isdigit() else 0

    @property
    def state(self) -> str:
        """GOES_ON, ENDED, FAILED, or LOST when its process is gone and nobody wrote down how it ended."""
        if self.took is None:
            return GOES_ON if _is_alive(self.process) else LOST
        return FAILED if self.error or self.code else ENDED

    @property
    def result(self) -> str:
        """How it ended, in a word or two."""
        if self.took is None:
            return self.state
        if self.error:
            return "error"
        if self.note or self.code is None:
            return self.note
        return f"exit {self.code}" if self.code else "ok"

    @property
    def complaint(self) -> str:
        """Why it failed, in its own words; what it wrote to stderr when it did not."""
        return self.error or self.said


class TraceFile:
    """The calls in the trace of one folder, read as they grow. Its calls block; not for several threads at once."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, FILE)
        self._lines: dict[str, dict[str, Any]] = {}
        self._calls: dict[str, TracedCall] = {}
        self._identity: tuple[int, int] = (0, 0)
        self._offset = 0
        self._is_begun = False

    @property
    def calls(self) -> list[TracedCall]:
        """All that was read, in the order in which they began."""
        return sorted(self._calls.values(), key=lambda call: call.at)

    def read_new(self) -> list[TracedCall]:
        """What came, or ended, since the last call, in the order in which it was written."""
        changed: dict[str, None] = {}
        for data in self._chunks():
            for text in data.split(b"\n"):
                changed |= dict.fromkeys(self._take(text))
        for key in list(self._lines)[: max(0, len(self._lines) - MOST_CALLS)]:
            del self._lines[key]
            self._calls.pop(key, None)
        found = []
        for key in changed:
            call = _call_of(self._lines[key]) if key in self._lines else None
            if call is not None:
                self._calls[key] = call
                found.append(call)
        return found

    def _chunks(self) -> Iterable[bytes]:
        """The rest of the file that was read before, when another has its name now; then what is new in that."""
        if not self._is_begun:
            self._is_begun = True
            yield _read(self._path + OLDER, 0)[0]
        try:
            status = os.stat(self._path)
        except OSError:
            return
        if (status.st_dev, status.st_ino) != self._identity:
            if self._offset:
                yield _read(self._path + OLDER, self._offset)[0]
            self._identity, self._offset = (status.st_dev, status.st_ino), 0
        elif status.st_size == self._offset:
            return
        data, self._offset = _read(self._path, self._offset)
        yield data

    def _take(self, text: bytes) -> list[str]:
        if not text:
            return []
        try:
            line = dict(json.loads(text))
            key, moment = str(line["id"]), float(line["at"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return []
        known = f"{key} {moment}"  # the number of a process comes again, in time
        self._lines[known] = {**self._lines.get(known, {}), **line}
        return [known]


def _read(path: str, offset: int) -> tuple[bytes, int]:
    """Whole lines from `offset` on, and where the next one begins."""
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            offset = max(offset, size - LONGEST_READ)
            data = os.pread(file.fileno(), max(0, size - offset), offset)
    except OSError:
        return b"", offset
    end = data.rfind(b"\n") + 1
    return data[:end], offset + end


def _call_of(line: Mapping[str, Any]) -> TracedCall | None:
    try:
        fed, took, code = line.get("fed", ""), line.get("took"), line.get("code")
        call = TracedCall(
            id=str(line["id"]),
            kind=str(line["kind"]),
            at=float(line["at"]),
            took=None if took is None else float(took),
            words=tuple(map(str, line["words"])),
            code=None if code is None else int(code),
            variables={str(name): str(value) for name, value in dict(line.get("variables", {})).items()},
            fed=fed if isinstance(fed, int) else str(fed),
            is_cut=bool(line.get("cut")),
            **{name: str(line.get(name, "")) for name in ("folder", "login", "said", "error", "note", "run")},
        )
    except (KeyError, TypeError, ValueError):
        return None
    return call if call.kind in KINDS else None


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return process > 0


def matches(call: TracedCall, text: str) -> bool:
    """Whether each of the words of a filter stands somewhere in the call: its command, kind, result, run or error.

    `kind:ssh` and `failed` choose by what they name.
    """
    place = " ".join((call.kind, shell_line(call), call.result, call.run, call.error, call.said)).lower()

    def is_in(word: str) -> bool:
        if word.startswith("kind:"):
            return call.kind.startswith(word[5:])
        return call.state in (FAILED, LOST) if word in ("failed", ":failed") else word in place

    return all(map(is_in, text.lower().split()))


def short_line(call: TracedCall) -> str:
    """The call for a list: the program by its name, what it does, and nothing that is the same in all calls of a kind.

    One line, whatever stands in the words but for control characters.
    """
    words = list(call.words)
    if words:
        words[0] = os.path.basename(words[0]) or words[0]
    if call.kind == GIT:
        words = _without_settings(words)
    if words[1:2] == ["-H"]:
        words = [words[0], *words[3:]]
    line = " ".join(_short_word(word) for word in words)
    if not call.login:
        return line
    place = call.login.split()[-1]
    return f"{place}: {line}" if line else f"ssh {call.login}"


def _without_settings(words: Sequence[str]) -> list[str]:
    found: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in ("-c", "-C"):
            next(rest, None)
        elif not word.startswith(("--git-dir=", "--work-tree=")) and word != "--no-optional-locks":
            found.append(word)
    return found


def _short_word(word: str) -> str:
    if "\n" in word:
        first = next((line.strip() for line in word.split("\n") if line.strip()), "")
        return f"'{first[:LONGEST_SHORT]}…'"
    if len(word) > LONGEST_SHORT:
        word = f"{word[: LONGEST_SHORT // 2]}…{word[-LONGEST_SHORT // 2 :]}"
    return shlex.quote(word) if " " in word or not word else word


def shell_line(call: TracedCall) -> str:
    """The call as a line for `sh` that does the same, as far as it was kept.

    A value that is masked is taken from the shell's own variable of that name.
    """
    line = _command_line(call.words)
    if call.login:
        line = f"ssh {call.login}" + (f" {shlex.quote(line)}" if line else "")
    settings = " ".join(
        f'{name}="${{{name}}}"' if value == MASK else f"{name}={shlex.quote(value)}"
        for name, value in call.variables.items()
        if name.isidentifier()
    )
    line = f"{settings} {line}" if settings else line
    if isinstance(call.fed, str) and call.fed:
        line = f"printf {shlex.quote(call.fed.translate(_PRINTF))} | {line}"
    if call.folder:
        line = f"cd {shlex.quote(call.folder)} && {line}"
    remarks = ["a word of it is too long to be kept whole"] if call.is_cut else []
    if isinstance(call.fed, int) and call.fed:
        remarks.insert(0, f"it was given {call.fed:,} bytes to read, which are not kept")
    return line + (f"  # {'; '.join(remarks)}" if remarks else "")


def _command_line(words: Sequence[str]) -> str:
    found: list[str] = []
    for word in words:
        name, _, value = word.partition("=")
        # `docker --env NAME` takes the value from where it is called.
        is_masked_variable = value == MASK and found[-1:] in (["--env"], ["-e"])
        found.append(shlex.quote(name if is_masked_variable else word))
    return " ".join(found)
