"""Read and filter the trace of calls, and format calls as shell commands.

Invalid and incomplete lines are skipped. The texts of a call may contain characters that are unsafe for terminals.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tui_workbench.core.files import open_regular
from tui_workbench.core.json_values import parse_json
from tui_workbench.core.masking import MASK
from tui_workbench.core.plaintext import visible
from tui_workbench.core.processes import is_alive
from tui_workbench.core.trace import AGENT, FILE, GIT, KINDS, LARGEST_FILE, OLD_SUFFIX, agent_name

LONGEST_READ = 2 * LARGEST_FILE + (1 << 20)
"""Maximum number of bytes to read from the end of a file. The files that the workbench writes are smaller."""

LONGEST_SHORT = 60
"""Maximum number of characters of a word in `short_line`."""

MOST_CALLS = 20_000
"""Maximum number of calls in memory. The newest calls are kept."""

RUNNING, ENDED, FAILED, LOST = "running", "ended", "failed", "lost"


class TracedCall(NamedTuple):
    """A call from the trace, with secrets masked."""

    id: str
    kind: str  # one of trace.KINDS
    started: float  # seconds since the epoch
    seconds: float | None  # duration; None while the call runs
    words: tuple[str, ...]  # the argument vector; empty for a login without a command
    code: int | None = None  # exit code
    folder: str = ""  # working directory
    variables: Mapping[str, str] = {}  # environment variables that were set for the call
    login: str = ""  # the arguments of `ssh`, if the program ran on another machine
    input: int = 0  # the number of bytes of stdin
    stderr: str = ""  # the end of stderr
    error: str = ""  # reason for a failure without an exit code
    note: str = ""  # any other result, such as `started`
    run: str = ""  # run ID
    agent: str = ""  # the coding agent that made the call, or for whose run it was made
    is_cut: bool = False  # a long word, or a long command, was cut

    @property
    def process(self) -> int:
        """The ID of the process that made the call, or 0."""
        number = self.id.partition(".")[0]
        return int(number) if number.isdigit() else 0

    @property
    def state(self) -> str:
        """RUNNING, ENDED, FAILED, or LOST if the process ended without logging a result."""
        if self.seconds is None:
            return RUNNING if is_alive(self.process) else LOST
        return FAILED if self.error or self.code else ENDED

    @property
    def result(self) -> str:
        """The result in one or two words, or "" if the call ended without an exit code, an error or a note."""
        if self.seconds is None:
            return self.state
        if self.error:
            return "error"
        if self.note or self.code is None:
            return self.note
        return f"exit {self.code}" if self.code else "ok"

    @property
    def error_text(self) -> str:
        return self.error or self.stderr


class TraceFile:
    """A reader of the trace in a folder. The methods block and are not thread-safe."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, FILE)
        self._lines: dict[str, dict[str, Any]] = {}
        self._calls: dict[str, TracedCall] = {}
        self._identity: tuple[int, int] = (0, 0)
        self._offset = 0
        self._has_begun = False

    @property
    def calls(self) -> list[TracedCall]:
        """The calls in memory, in order of their start."""
        return sorted(self._calls.values(), key=lambda call: call.started)

    def read_new(self) -> list[TracedCall]:
        """Return the calls that began or ended since the last read, in the order of the file."""
        changed: dict[str, None] = {}
        for data in self._chunks():
            for text in data.split(b"\n"):
                changed |= dict.fromkeys(self._take(text))
        for key in list(self._lines)[: max(0, len(self._lines) - MOST_CALLS)]:
            del self._lines[key]
            self._calls.pop(key, None)
        calls = []
        for key in changed:
            call = _call_of(self._lines[key]) if key in self._lines else None
            if call is not None:
                self._calls[key] = call
                calls.append(call)
        return calls

    def _chunks(self) -> Iterable[bytes]:
        """Yield the unread lines of the rotated file, then those of the current file."""
        if not self._has_begun:
            self._has_begun = True
            yield _read(self._path + OLD_SUFFIX, 0)[0]
        try:
            status = os.stat(self._path)
        except OSError:
            return
        # A new inode shows that the file was rotated. The rest of the old file is then in the rotated file.
        if (status.st_dev, status.st_ino) != self._identity:
            if self._offset:
                yield _read(self._path + OLD_SUFFIX, self._offset)[0]
            self._identity, self._offset = (status.st_dev, status.st_ino), 0
        elif status.st_size == self._offset:
            return
        data, self._offset = _read(self._path, self._offset)
        yield data

    def _take(self, text: bytes) -> list[str]:
        if not text:
            return []
        try:
            line = dict(parse_json(text))
            key, moment = str(line["id"]), float(line["at"])
        except (ValueError, KeyError, TypeError, OverflowError):
            return []
        call_key = f"{key} {moment}"  # process IDs are reused
        # The line at the end of a call has only the result, and completes the line at its start.
        self._lines[call_key] = {**self._lines.get(call_key, {}), **line}
        return [call_key]


def _read(path: str, offset: int) -> tuple[bytes, int]:
    """Return the complete lines from `offset`, and the offset of the next line.

    At most the last `LONGEST_READ` bytes are read, so the first line may be incomplete.
    """
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
        fed, took, code = (line.get(name) for name in ("fed", "took", "code"))
        call = TracedCall(
            id=str(line["id"]),
            kind=str(line["kind"]),
            started=float(line["at"]),
            seconds=None if took is None else float(took),
            words=tuple(map(str, line["words"])),
            code=None if code is None else int(code),
            variables={str(name): str(value) for name, value in dict(line.get("variables", {})).items()},
            input=fed if isinstance(fed, int) else 0,  # old trace files may contain the input itself
            stderr=str(line.get("said", "")),
            is_cut=bool(line.get("cut")),
            **{name: str(line.get(name, "")) for name in ("folder", "login", "error", "note", "run")},
            agent=agent_name(line.get("agent")),
        )
    except (KeyError, TypeError, ValueError):
        return None
    return call if call.kind in KINDS else None


def matches(call: TracedCall, text: str) -> bool:
    """Return True if every word of a filter occurs in the command, kind, result, run, agent or errors of the call.

    The word `kind:ssh` selects calls of a kind, `agent:name` those of an agent, and `failed` failed and lost calls.
    """
    texts = (call.kind, shell_line(call), call.result, call.run, call.agent, call.error, call.stderr)
    searched = " ".join(texts).lower()

    def is_in(word: str) -> bool:
        if word.startswith("kind:"):
            return call.kind.startswith(word[5:])
        if word.startswith("agent:"):
            return bool(call.agent) and word[6:] in call.agent.lower()
        return call.state in (FAILED, LOST) if word in ("failed", ":failed") else word in searched

    return all(map(is_in, text.lower().split()))


def short_line(call: TracedCall) -> str:
    """Return the call as one line for a list. Long words are cut, and common options of git and docker are omitted."""
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
    host = call.login.split()[-1]
    return f"{host}: {line}" if line else f"ssh {call.login}"


def _without_settings(words: Sequence[str]) -> list[str]:
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in ("-c", "-C"):
            next(rest, None)
        elif not word.startswith(("--git-dir=", "--work-tree=")) and word != "--no-optional-locks":
            kept.append(word)
    return kept


def _short_word(word: str) -> str:
    if "\n" in word:
        first = next((line.strip() for line in word.split("\n") if line.strip()), "")
        return f"'{first[:LONGEST_SHORT]}…'"
    if len(word) > LONGEST_SHORT:
        word = f"{word[: LONGEST_SHORT // 2]}…{word[-LONGEST_SHORT // 2 :]}"
    return shlex.quote(word) if " " in word or not word else word


def shell_line(call: TracedCall) -> str:
    """Return a command for `sh` that repeats the call.

    A masked value of a variable is replaced by a reference to the variable of that name in the shell. A comment
    mentions input and parts of arguments that were not stored. If an agent called a tool, the whole line is a comment.
    """
    if call.kind == AGENT:
        return f"# {visible(' '.join(call.words))}"
    line = _command_line(call.words)
    if call.login:
        line = f"ssh {call.login}" + (f" {shlex.quote(line)}" if line else "")
    settings = " ".join(
        f'{name}="${{{name}}}"' if value == MASK else f"{name}={shlex.quote(value)}"
        for name, value in call.variables.items()
        if name.isidentifier()
    )
    line = f"{settings} {line}" if settings else line
    if call.folder:
        line = f"cd {shlex.quote(call.folder)} && {line}"
    remarks = ["long arguments were cut"] if call.is_cut else []
    if call.input:
        remarks.insert(0, f"{call.input:,} bytes of input were not stored")
    return line + (f"  # {'; '.join(remarks)}" if remarks else "")


def _command_line(words: Sequence[str]) -> str:
    quoted: list[str] = []
    for word in words:
        name, _, value = word.partition("=")
        # `docker --env NAME` passes on the value in the environment of the caller.
        is_masked_variable = value == MASK and quoted[-1:] in (["--env"], ["-e"])
        quoted.append(shlex.quote(name if is_masked_variable else word))
    return " ".join(quoted)
