"""The last Python traceback of a log: where it stands, what was raised, and which line of the project raised it.

It is the reason of a run whose script it ended. Understood are the usual form, each line of it behind a prefix
(`[rank0]: `, as torchrun writes), exception groups, and errors in the syntax of the script, which come without the word
traceback.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tui_workbench.core.model import RunState
from tui_workbench.core.plaintext import visible
from tui_workbench.core.trace import masked_text
from tui_workbench.runs.logs.log_file import LogFile, LogLine
from tui_workbench.runs.logs.log_search import Pattern, Search
from tui_workbench.runs.store.rundir import Ending
from tui_workbench.targets.hosts.supervisor import describe_exit

HEADER = Pattern("Traceback (most recent call last)")
"""The lines that begin a traceback, but for a syntax error's."""

MOST_LINES = 2000
"""Lines that one traceback may have: a recursion that ran away prints a thousand frames."""

TAIL_BYTES = 1 << 18
"""A traceback before the last so many bytes of a log was probably handled: the script went on."""

MOST_CHARACTERS = 300
"""Characters of an exception's text in a reason; the log has all of it."""

UNCAUGHT = 1
"""The exit code of Python after an uncaught exception."""

_SGR = re.compile(r"\x1b\[[0-9;:]*m")
_HEADER_LINE = re.compile(r"(?P<prefix>.*?)(?P<group>\+ Exception Group )?Traceback \(most recent call last\)")
_RANK = re.compile(r"\[rank\d+\]: $")
_FRAME = re.compile(r'\s*File "(?P<file>[^"]*)", line (?P<line>\d+)(?:, in (?P<function>.*))?$')
_SYNTAX_ERROR = re.compile(r"(SyntaxError|IndentationError|TabError): ")
_LIBRARY = re.compile(r"(^|[/\\])(site-packages|dist-packages|lib[/\\]python\d[^/\\]*)[/\\]|^<")


class Frame(NamedTuple):
    """One call of the stack, as the traceback tells it."""

    file: str
    line: int
    function: str = ""


class Traceback(NamedTuple):
    """One traceback of a log."""

    offset: int  # where its first line starts
    exception: str  # `ValueError: shapes do not match`: its first line, not made safe; "" while it is not all written
    frame: Frame | None  # the innermost call that is not in a library; the innermost of all when every one is


def read_traceback(log: LogFile, offset: int) -> Traceback | None:
    """The traceback whose first line starts at the offset; None when what stands there is none after all."""
    # A line that is still being written does not say all of what was raised.
    lines = [_text(line) for line in log.lines_from(offset, MOST_LINES) if line.stop < line.end]
    header = _HEADER_LINE.match(lines[0]) if lines else None
    if header is None:
        return None
    # What was written before it on its own line stands before no other line of it.
    marked = _RANK.search(header["prefix"])
    prefix = marked[0] if marked is not None else header["prefix"]
    exception, frame = _read(lines[1:], prefix + "| " if header["group"] else prefix)
    if not exception and frame is None and prefix and marked is None:
        exception, frame = _read(lines[1:], "")
    return Traceback(offset, exception, frame)


def _read(lines: Sequence[str], prefix: str) -> tuple[str, Frame | None]:
    """What was raised, "" when that does not stand there yet, and where."""
    frame: Frame | None = None
    exception = ""
    for line in lines:
        if not line.startswith(prefix.rstrip()):
            continue  # another process writes between
        line = line[len(prefix) :]
        if found := _FRAME.match(line):
            if frame is None or _LIBRARY.search(frame.file) or not _LIBRARY.search(found["file"]):
                frame = Frame(found["file"], int(found["line"]), found["function"] or "")
        elif line[:1].strip() and not line.startswith("["):
            exception = line
            break
    return exception, frame


def read_syntax_error(log: LogFile) -> Traceback | None:
    """The error with which Python refuses a script that it cannot parse, when that is the last thing in the log."""
    found = log.lines_before(log.size, 5)
    lines = [_text(line) for line in found]
    for line, text in zip(found, lines, strict=True):
        frame = _FRAME.match(text)
        if frame is not None and frame["function"] is None and _SYNTAX_ERROR.match(lines[-1]):
            return Traceback(line.start, lines[-1], Frame(frame["file"], int(frame["line"])))
    return None


def _text(line: LogLine) -> str:
    return _SGR.sub("", line.data.decode("utf-8", "surrogateescape")).rstrip("\r")


def explained(log: str, ending: Ending) -> Ending:
    """The ending with the uncaught exception of the script before its exit code, if the file `log` ends with one."""
    usual = describe_exit(UNCAUGHT)
    if ending.state != RunState.FAILED or ending.exit_code != UNCAUGHT or not ending.reason.startswith(usual):
        return ending
    traceback = last_traceback(log)
    if traceback is None:
        return ending
    return ending._replace(reason=f"{shown(traceback)} ({usual}){ending.reason[len(usual) :]}")


def shown(traceback: Traceback) -> str:
    """The exception as one short line without control characters and secrets."""
    return visible(masked_text(traceback.exception[: 2 * MOST_CHARACTERS]))[:MOST_CHARACTERS]


def last_traceback(path: str) -> Traceback | None:
    """The traceback at the end of a log, if its exception stands there."""
    with LogFile(path) as log:
        traceback = read_syntax_error(log)
        if traceback is None:
            search = Search(log, HEADER).backward(log.size, log.line_start(max(0, log.size - TAIL_BYTES)))
            offset = next((found for found in search if found is not None), -1)
            traceback = read_traceback(log, offset) if offset >= 0 else None
    return traceback if traceback is not None and traceback.exception else None
