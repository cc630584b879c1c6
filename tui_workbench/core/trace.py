"""Log every external command: each ssh, docker, git and process call, with its time, duration and result.

Each line of JSON is written by one append, so that many processes can share a file. `trace.jsonl` in the user's state
directory holds the newest calls of all processes. `trace.jsonl` in a run directory holds the calls made for the run,
without most repetitions of a call. A call by a coding agent, or for a run that an agent submitted, has the name of the
agent. The size of both files is limited. Secrets that this process knows are masked, and a failed write raises no
exception. `trace_reading` reads the files.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import cache
from typing import Any

from tui_workbench.core.directories import user_state_directory
from tui_workbench.core.locks import try_lock
from tui_workbench.core.masking import MASK, SHORTEST_SECRET, mask_text, mask_values, mask_words, secret_values
from tui_workbench.core.plaintext import short_name
from tui_workbench.core.secret_names import is_secret

FILE = "trace.jsonl"
OLD_SUFFIX = ".1"
"""Suffix of the rotated file, which holds older calls."""

LARGEST_FILE = 4 << 20
"""Maximum size of a file in bytes. A larger file is rotated."""

LONGEST_WORD = 16 << 10
"""Maximum length of a word of a command, in characters."""

LONGEST_STDERR = 2 << 10
"""Maximum number of characters that are stored from the end of stderr."""

LONGEST_LINE = 64 << 10
"""Maximum length of a line in bytes. A longer line has only the first words of the command."""

_LONGEST_CHARACTER = 12  # bytes in JSON, for an emoji: two escapes such as \ud83d

SSH, DOCKER, GIT, PROCESS, AGENT = "ssh", "docker", "git", "process", "agent"
KINDS = (SSH, DOCKER, GIT, PROCESS, AGENT)
"""Kinds of calls. AGENT: a coding agent calls a tool of `workbench-tui mcp`."""

AGENT_VARIABLE = "WORKBENCH_AGENT"
"""The environment variable in which a coding agent gives its name."""

LONGEST_AGENT = 64
"""Maximum length of the name of an agent, in characters."""

_MOST_REPEATED = 1000
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

_run: ContextVar[str] = ContextVar("run", default="")
_run_of_process = _agent_of_process = ""
_agent: ContextVar[str | None] = ContextVar("agent", default=None)
_secrets: set[str] = set()
_count = 0
_repeated: dict[int, int] = {}


@contextlib.contextmanager
def for_run(directory: str) -> Iterator[None]:
    """Log the calls of this context as calls for the run in `directory`."""
    token = _run.set(directory)
    try:
        yield
    finally:
        _run.reset(token)


def set_process_run(directory: str, agent: str) -> None:
    """Log all later calls of this process as calls for the run in `directory` and for `agent` ("" for the user)."""
    global _run_of_process, _agent_of_process
    _run_of_process, _agent_of_process = directory, agent


@contextlib.contextmanager
def for_agent(name: str) -> Iterator[None]:
    """Log the calls of this context as calls for a coding agent, or with "" for the user."""
    token = _agent.set(agent_name(name))
    try:
        yield
    finally:
        _agent.reset(token)


def agent_name(text: object) -> str:
    """Return an untrusted name of an agent as a short line without control characters; "" if `text` is not a str."""
    return short_name(text, LONGEST_AGENT) if isinstance(text, str) else ""


def current_agent() -> str:
    """Return the name of the coding agent for which this process acts, or "" for the user."""
    agent = _agent.get()
    return agent_name(os.environ.get(AGENT_VARIABLE)) or (_agent_of_process if agent is None else agent)


def forget_agent() -> None:
    """Remove the agent's name from the environment, because this process also serves runs of the user."""
    os.environ.pop(AGENT_VARIABLE, None)


def hide(values: Iterable[str]) -> None:
    """Mask these values in all later calls. Values shorter than SHORTEST_SECRET are ignored."""
    _secrets.update(value for value in values if len(value) >= SHORTEST_SECRET)


def hide_variables(variables: Mapping[str, str]) -> None:
    """Mask the values of variables whose names suggest a secret."""
    hide(secret_values(variables))


def changed_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of `environment` that this process does not have, or has with another value."""
    return {name: value for name, value in environment.items() if os.environ.get(name) != value}


def hidden_values() -> frozenset[str]:
    """Return the values that `masked_text` masks wherever they appear."""
    _hide_environment()
    return frozenset(_secrets)


def masked_text(text: str) -> str:
    """Return the text with the values given to `hide`, and the secrets that `masking` recognizes, masked."""
    _hide_environment()
    return mask_values(mask_text(text), _secrets)


def masked_words(words: Iterable[str]) -> list[str]:
    """Return the words of a command with their secrets masked."""
    return [masked_text(word) for word in mask_words(words)]


class Call:
    """An external call in progress. At the end of a `with` block, the call is logged as ended."""

    def __init__(
        self,
        kind: str,
        words: Sequence[str],
        *,
        folder: str = "",
        variables: Mapping[str, str] | None = None,
        input: int = 0,
        login: str = "",
        log_start: bool = False,
    ) -> None:
        """Begin a call.

        Args:
            kind: One of KINDS.
            words: The argument vector.
            folder: The working directory.
            variables: The environment variables that were set for this call.
            input: The number of bytes for stdin. The input itself may be secret.
            login: The arguments of `ssh`, quoted for a shell, if the program runs on another machine.
            log_start: Also log the start, so that a call that hangs is visible.

        """
        global _count
        _count += 1
        self._id = f"{os.getpid()}.{_count}"
        self._is_over = self._written = False
        self._stderr = b""
        self._later: dict[str, Any] = {}
        self._begun = time.monotonic()
        self._line: dict[str, Any] = {"id": self._id, "at": round(time.time(), 3), "kind": kind, "words": words}
        for name, value in (("folder", folder), ("variables", variables), ("fed", input), ("login", login)):
            if value:
                self._line[name] = value
        if log_start:
            self._write({"code": None, "took": None, "state": "begun"})

    def __enter__(self) -> Call:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if error is None or isinstance(error, GeneratorExit):
            self.end(None)
        else:
            self.end(None, error=str(error) or type(error).__name__)

    def note_io(self, stderr: bytes, input_bytes: int = 0) -> None:
        """Record the stderr output of the program and, if it is not 0, the number of bytes written to its stdin."""
        self._stderr = stderr
        if input_bytes:
            self._later["fed"] = input_bytes

    def end(self, code: int | None, stderr: bytes | str = b"", *, error: str = "", note: str = "") -> None:
        """Log the end of the call; only the first call of this method has an effect.

        `code` is the exit code, if any. `error` is the reason for a failure without an exit code, and `note` is any
        other result.
        """
        if self._is_over:
            return
        self._is_over = True
        result: dict[str, Any] = {"code": code, "took": round(time.monotonic() - self._begun, 6), **self._later}
        # Mask the text before it is cut: a part of a secret would not be recognized.
        tail = (stderr or self._stderr)[-2 * LONGEST_STDERR :]
        text = masked_text(tail if isinstance(tail, str) else tail.decode("utf-8", "replace"))
        for name, value in (
            ("said", text[-LONGEST_STDERR:].strip()),
            ("error", masked_text(error)[:LONGEST_STDERR]),
            ("note", note),
        ):
            if value:
                result[name] = value
        self._write(result)

    def _write(self, result: Mapping[str, Any]) -> None:
        run = _run.get() or _run_of_process
        line = {**(_short(self._line) if not self._written else {"id": self._id, "at": self._line["at"]}), **result}
        self._written = True
        if run:
            line["run"] = os.path.basename(run).removeprefix(".new-")
        if agent := current_agent():
            line["agent"] = agent
        data = _to_json(line)
        if len(data) > LONGEST_LINE:
            data = _to_json(_with_first_words(line))
        _append(user_state_directory(), data, makes_folder=True)
        if run and _is_logged(self._line, result):
            _append(run, data)


@cache
def _hide_environment() -> None:
    hide_variables(os.environ)


def _short(line: dict[str, Any]) -> dict[str, Any]:
    """Return the call with secrets masked and long texts cut."""
    short = dict(line)
    words = masked_words(map(os.fsdecode, line["words"]))
    short["words"] = [word[:LONGEST_WORD] for word in words]
    if any(len(word) > LONGEST_WORD for word in words):
        short["cut"] = True
    if "variables" in line:
        variables = line["variables"].items()
        short["variables"] = {name: MASK if is_secret(name, value) else masked_text(value) for name, value in variables}
    if "login" in line:
        short["login"] = masked_text(line["login"])
    return short


def _to_json(line: Mapping[str, Any]) -> bytes:
    return json.dumps(line, separators=(",", ":"), default=str).encode("utf-8", "replace") + b"\n"


def _with_first_words(line: dict[str, Any]) -> dict[str, Any]:
    """Return a call without its variables and login, and with the first words of its command."""
    shortened = {name: value for name, value in line.items() if name not in ("variables", "login")}
    words, room = [], LONGEST_LINE // 8
    for word in line.get("words", ()):
        words.append(word[: room // _LONGEST_CHARACTER])
        room -= len(json.dumps(words[-1])) + 1
        if room <= 0 or words[-1] != word:
            break
    return {**shortened, "words": words, "cut": True}


def _is_logged(line: Mapping[str, Any], result: Mapping[str, Any]) -> bool:
    """Return True for the 1st, 2nd, 4th, 8th... call of this process with the same words and result.

    If every call were logged, polling would fill the file of the run.
    """
    key = hash((line["kind"], tuple(line["words"]), result.get("code"), result.get("error"), result.get("state")))
    if len(_repeated) > _MOST_REPEATED:
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
            os.write(descriptor, data)  # one call, so that lines of several processes do not mix
            if os.lseek(descriptor, 0, os.SEEK_END) > LARGEST_FILE:
                _rotate(descriptor, path)
        finally:
            os.close(descriptor)


def _rotate(descriptor: int, path: str) -> None:
    """Rename the file, unless another process is renaming it or has renamed it."""
    if try_lock(descriptor) and os.path.samestat(os.fstat(descriptor), os.stat(path)):
        os.replace(path, path + OLD_SUFFIX)
