"""Find the last Python traceback in a log: its offset, the exception, and the line of the project that raised it.

An exception that ended the script becomes the cause of the failure. The module reads normal tracebacks, tracebacks
with a prefix on each line (`[rank0]: ` of torchrun), exception groups, and syntax errors of the script, which have no
header.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tui_workbench.core.causes import EXCEPTION, Cause, is_exit
from tui_workbench.core.model import RunState
from tui_workbench.core.plaintext import visible
from tui_workbench.core.trace import masked_text
from tui_workbench.runs.logs.log_file import LogFile, LogLine
from tui_workbench.runs.logs.log_search import Pattern, Search
from tui_workbench.runs.store.rundir import Ending

HEADER = Pattern("Traceback (most recent call last)")  # header of a traceback; syntax errors have none
MOST_LINES = 2000  # maximum number of lines of a traceback; endless recursion prints a thousand frames
TAIL_BYTES = 1 << 18  # an exception earlier in the log was probably handled, because the script continued
MOST_CHARACTERS = 300  # maximum length of an exception in a reason
UNCAUGHT = 1  # Python's exit code after an uncaught exception

_SGR = re.compile(r"\x1b\[[0-9;:]*m")
_HEADER_LINE = re.compile(r"(?P<prefix>.*?)(?P<group>\+ Exception Group )?Traceback \(most recent call last\)")
_RANK = re.compile(r"\[rank\d+\]: $")
_FRAME = re.compile(r'\s*File "(?P<file>[^"]*)", line (?P<line>\d+)(?:, in (?P<function>.*))?$')
_SYNTAX_ERROR = re.compile(r"(SyntaxError|IndentationError|TabError): ")
_LIBRARY = re.compile(r"(^|[/\\])(site-packages|dist-packages|lib[/\\]python\d[^/\\]*)[/\\]|^<")


class Frame(NamedTuple):
    """A call on the stack."""

    file: str
    line: int
    function: str = ""


class Traceback(NamedTuple):
    """A traceback in a log."""

    offset: int  # of its first line
    exception: str  # first line of the exception, such as `ValueError: bad shape`, not sanitized; "" while incomplete
    frame: Frame | None  # the innermost call outside of libraries; if all are in libraries, the innermost call


def read_traceback(log: LogFile, offset: int) -> Traceback | None:
    """Parse the traceback at the offset of its first line. Return None if no traceback begins there."""
    # Ignore an incomplete line, which may lack a part of the exception.
    lines = [_text(line) for line in log.lines_from(offset, MOST_LINES) if line.stop < line.end]
    header = _HEADER_LINE.match(lines[0]) if lines else None
    if header is None:
        return None
    # Only `[rankN]: ` is certainly a prefix. Other text before the header may be the end of another output.
    marked = _RANK.search(header["prefix"])
    prefix = marked[0] if marked is not None else header["prefix"]
    exception, frame = _read(lines[1:], prefix + "| " if header["group"] else prefix)
    if not exception and frame is None and prefix and marked is None:
        exception, frame = _read(lines[1:], "")
    return Traceback(offset, exception, frame)


def _read(lines: Sequence[str], prefix: str) -> tuple[str, Frame | None]:
    """Return the exception and the frame for `Traceback`.

    The exception is "" if it is not written yet, and the frame is None without frames.
    """
    frame: Frame | None = None
    exception = ""
    for line in lines:
        if not line.startswith(prefix.rstrip()):
            continue  # a line of another process
        line = line[len(prefix) :]
        if match := _FRAME.match(line):
            if frame is None or _LIBRARY.search(frame.file) or not _LIBRARY.search(match["file"]):
                frame = Frame(match["file"], int(match["line"]), match["function"] or "")
        elif line[:1].strip() and not line.startswith("["):
            exception = line
            break
    return exception, frame


def read_syntax_error(log: LogFile) -> Traceback | None:
    """Parse the syntax error of the script at the end of the log. Return None if the log does not end with one."""
    log_lines = log.lines_before(log.size, 5)
    lines = [_text(line) for line in log_lines]
    for line, text in zip(log_lines, lines, strict=True):
        frame = _FRAME.match(text)
        if frame is not None and frame["function"] is None and _SYNTAX_ERROR.match(lines[-1]):
            return Traceback(line.start, lines[-1], Frame(frame["file"], int(frame["line"])))
    return None


def _text(line: LogLine) -> str:
    return _SGR.sub("", line.data.decode("utf-8", "surrogateescape")).rstrip("\r")


def with_cause(log: str, ending: Ending, start: int = 0) -> Ending:
    """Return the ending. If the file `log` ends with an uncaught exception that ended the script, it is the cause.

    The output of the last attempt begins at the offset `start` of the log. Earlier output is ignored.
    """
    if ending.state != RunState.FAILED or ending.exit_code != UNCAUGHT or not any(map(is_exit, ending.causes[:1])):
        return ending
    traceback = last_traceback(log, start)
    if traceback is None:
        return ending
    return ending._replace(causes=(Cause(EXCEPTION, {"error": shown(traceback)}), *ending.causes))


def shown(traceback: Traceback) -> str:
    """Return the exception as one short line without control characters or secrets."""
    return visible(masked_text(traceback.exception[: 2 * MOST_CHARACTERS]))[:MOST_CHARACTERS]


def last_traceback(path: str, start: int = 0) -> Traceback | None:
    """Return the traceback at the end of the log at `path`, or None if it is incomplete, missing or before `start`."""
    with LogFile(path) as log:
        traceback = read_syntax_error(log)
        if traceback is None or traceback.offset < log.line_start(start):
            first = log.line_start(max(start, log.size - TAIL_BYTES))
            search = Search(log, HEADER).backward(log.size, first)
            offset = next((offset for offset in search if offset is not None), -1)
            traceback = read_traceback(log, offset) if offset >= 0 else None
    return traceback if traceback is not None and traceback.exception else None
