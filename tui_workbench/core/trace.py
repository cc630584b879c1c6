"""What was called of other programs: each ssh, docker, git and process call, with its moment, duration and result.

A line of JSON a call, written by one append, so that any number of processes share a file: `trace.jsonl` in the user's
state directory holds the calls of all of them, the newest; `trace.jsonl` in a run's directory holds those that were
made for the run. The invariants: no secret that this process knows of gets into a line, however it came into the
call; nothing that goes wrong with writing is felt by who makes the call; both files are bounded.

`trace_reading` reads what is written here.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from tui_workbench.core.directories import user_state_directory
from tui_workbench.core.locks import try_lock
from tui_workbench.core.masking import MASK, is_secret_name, mask_text, mask_words

FILE = "trace.jsonl"
OLDER = ".1"
"""Ends the name of what a file held before it was begun anew."""

LARGEST_FILE = 4 << 20
"""Bytes. A file that has more is kept as the older one, and a new one is begun."""

LONGEST_WORD = 16 << 10
LONGEST_COMPLAINT = 2 << 10
"""Bytes that are kept of one word of a command, and of the end of what it wrote to stderr."""

SHORTEST_SECRET = 6
"""What is shorter stands everywhere by chance; masking it would hide the calls and not the secret."""

SSH, DOCKER, GIT, PROCESS = "ssh", "docker", "git", "process"
KINDS = (SSH, DOCKER, GIT, PROCESS)

BEGUN = "begun"
"""In place of a result: the call goes on, or its process ended before it."""

_MOST_KNOWN = 1000
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

_of_thread = threading.local()
_run_of_process = ""
_hidden: set[str] = set()
_count = 0
_repeated: dict[int, int] = {}


@contextlib.contextmanager
def of_run(directory: str) -> Iterator[None]:
    """Note what this thread calls until the context ends as called for the run in `directory`."""
    _of_thread.run = directory
    try:
        yield
    finally:
        _of_thread.run = ""


def all_of_run(directory: str) -> None:
    """Whatever this process calls from now on is called for the run in `directory`."""
    global _run_of_process
    _run_of_process = directory


def hide(values: Iterable[str]) -> None:
    """Have these values masked wherever they stand in a call from now on."""
    _hidden.update(value for value in values if len(value) >= SHORTEST_SECRET)


def hide_variables(variables: Mapping[str, str]) -> None:
    """Have the values of those variables masked whose names speak of a secret."""
    # A folder is none, whatever its variable is called, and would be masked in half of all lines.
    hide(value for name, value in variables.items() if is_secret_name(name) and not value.startswith("/"))


def differing(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of a program that are not as this process has them."""
    return {name: value for name, value in environment.items() if os.environ.get(name) != value}


def masked_text(text: str) -> str:
    """The text without secrets: those that this process knows, and those that `masking` recognizes."""
    _hide_environment()
    text = mask_text(text)
    for value in _hidden:
        if value in text:
            text = text.replace(value, MASK)
    return text


def masked_words(words: Iterable[str]) -> list[str]:
    """The words of a command as they may be written down."""
    return [masked_text(word) for word in mask_words(words)]


class Call:
    """A call that is made now. As a context manager it ends with the context, at the latest."""

    def __init__(
        self,
        kind: str,
        words: Sequence[str],
        *,
        folder: str = "",
        variables: Mapping[str, str] | None = None,
        fed: str | int = "",
        login: str = "",
        lasts: bool = False,
    ) -> None:
        """`words` is the argument vector. `variables` are those that matter to it and are not everybody's.

        `login` is what `ssh` is called with, words for a shell, when the program runs on another machine; "" here.
        `fed` is the text that it reads, or the number of bytes of what is nobody's business. A call that `lasts` is
        written down when it begins, too, so that one that hangs can be seen.
        """
        global _count
        _count += 1
        self._id = f"{os.getpid()}.{_count}"
        self._is_over = self._written = False
        self._said = b""
        self._later: dict[str, Any] = {}
        self._begun = time.monotonic()
        self._line: dict[str, Any] = {"id": self._id, "at": round(time.time(), 3), "kind": kind, "words": words}
        for name, value in (("folder", folder), ("variables", variables), ("fed", fed), ("login", login)):
            if value:
                self._line[name] = value
        if lasts:
            self._write({"code": None, "took": None, "state": BEGUN})

    def __enter__(self) -> Call:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if error is None or isinstance(error, GeneratorExit):
            self.end(None)
        else:
            self.end(None, error=str(error) or type(error).__name__)

    def told(self, said: bytes, fed: int = 0) -> None:
        """Note what it wrote to stderr, and how many bytes it was given to read. What they are may be a secret."""
        self._said = said
        if fed:
            self._later["fed"] = fed

    def end(self, code: int | None, said: bytes | str = b"", *, error: str = "", note: str = "") -> None:
        """It is over: its exit code if it has one, what it wrote to stderr, why it could not be made.

        Only the first end counts. `note` tells something that is neither.
        """
        if self._is_over:
            return
        self._is_over = True
        result: dict[str, Any] = {"code": code, "took": round(time.monotonic() - self._begun, 6), **self._later}
        said = said or self._said
        # Masked first and cut then: half of a secret would be known by nobody.
        tail = said[-2 * LONGEST_COMPLAINT :]
        text = masked_text(tail if isinstance(tail, str) else tail.decode("utf-8", "replace"))
        for name, value in (("said", text[-LONGEST_COMPLAINT:].strip()), ("error", masked_text(error)), ("note", note)):
            if value:
                result[name] = value
        self._write(result)

    def _write(self, result: Mapping[str, Any]) -> None:
        run = getattr(_of_thread, "run", "") or _run_of_process
        line = {**(_short(self._line) if not self._written else {"id": self._id, "at": self._line["at"]}), **result}
        self._written = True
        if run:
            line["run"] = os.path.basename(run).removeprefix(".new-")
        data = json.dumps(line, separators=(",", ":"), default=str).encode("utf-8", "replace") + b"\n"
        _append(user_state_directory(), data, makes_folder=True)
        if run and _is_news(self._line, result):
            _append(run, data)


@cache
def _hide_environment() -> None:
    hide_variables(os.environ)


def _short(line: dict[str, Any]) -> dict[str, Any]:
    """The call as it is written down: masked, and nothing of it too long."""
    found = dict(line)
    words = masked_words(map(os.fsdecode, line["words"]))
    found["words"] = [word[:LONGEST_WORD] for word in words]
    if any(len(word) > LONGEST_WORD for word in words):
        found["cut"] = True
    if "variables" in line:
        variables = line["variables"].items()
        found["variables"] = {name: MASK if is_secret_name(name) else masked_text(value) for name, value in variables}
    if isinstance(line.get("fed"), str):
        found["fed"] = masked_text(line["fed"]) if len(line["fed"]) <= LONGEST_WORD else len(line["fed"])
    if "login" in line:
        found["login"] = masked_text(line["login"])
    return found


def _is_news(line: Mapping[str, Any], result: Mapping[str, Any]) -> bool:
    """False for a call that this process has made often before, with the same result: who polls would fill the file."""
    key = hash((line["kind"], tuple(line["words"]), result.get("code"), result.get("error"), result.get("state")))
    if len(_repeated) > _MOST_KNOWN:
        _repeated.clear()
    count = _repeated[key] = _repeated.get(key, 0) + 1
    return count & (count - 1) == 0


def _append(folder: str, data: bytes, *, makes_folder: bool = False) -> None:
    path = os.path.join(folder, FILE)
    with contextlib.suppress(OSError):
        if makes_folder:
            os.makedirs(folder, mode=0o700, exist_ok=True)
        descriptor = os.open(path, _FLAGS, 0o600)
        try:
            os.write(descriptor, data)
            if os.lseek(descriptor, 0, os.SEEK_END) > LARGEST_FILE:
                _begin_anew(descriptor, path)
        finally:
            os.close(descriptor)


def _begin_anew(descriptor: int, path: str) -> None:
    """Give the file the older one's name, unless another process has just done so."""
    if not try_lock(descriptor):
        return
    held, there = os.fstat(descriptor), os.stat(path)
    if (held.st_dev, held.st_ino) == (there.st_dev, there.st_ino):
        os.replace(path, path + OLDER)
