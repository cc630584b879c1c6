"""Why runs end and wait: causes as data, and the only place that words them.

A cause has a kind, which is a constant of this module, and facts. Other code compares kinds and facts, never texts. The
words of each kind are in `_WORDS`, and `text_of` joins the words of several causes.

Causes are stored with their text, for readers of other versions. A run of an earlier version has only the text, and a
later version may write kinds that are unknown here. In both cases the text becomes a cause of the kind TEXT.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tui_workbench.core.json_values import read_as
from tui_workbench.core.plaintext import counted

Fact = str | int | float

MOST_NAMES = 5
"""Maximum number of process names in a cause."""

MOST_CAUSES = 50
"""Maximum number of causes of an end."""


class Cause(NamedTuple):
    """A cause of the end or the state of a run. Texts in `facts` are not trusted."""

    kind: str
    facts: Mapping[str, Any] = {}

    @property
    def error(self) -> str:
        """The message of another program in the facts, such as an exception; "" if there is none."""
        return str(self.facts.get("error", ""))


Causes = tuple[Cause, ...]

TEXT = "text"
"""A text without further facts: from an earlier or a later version, or of another program."""

# --- The script
EXIT_CODE, SIGNAL, EXIT_UNKNOWN, EXCEPTION = "exit-code", "signal", "exit-unknown", "exception"
OUT_OF_MEMORY, CHILD_OUT_OF_MEMORY = "out-of-memory", "child-out-of-memory"
DISK_FULL, MISSING_FILE, LEFT_RUNNING = "disk-full", "missing-file", "left-running"
NOT_STARTED, MACHINE_RESTARTED, ORPHANED = "not-started", "machine-restarted", "orphaned"
# --- Ranks, torchrun and Spark
RANK, RANK_SIGNAL, RANK_OUT_OF_MEMORY = "rank", "rank-signal", "rank-out-of-memory"
TORCHRUN, TORCHRUN_SIGNAL = "torchrun", "torchrun-signal"
TORCHRUN_NO_GPU, TORCHRUN_NO_TORCH, TORCHRUN_OLD = "torchrun-no-gpu", "torchrun-no-torch", "torchrun-old-torch"
TORCHRUN_NO_CONNECTION, TORCHRUN_NOT_ON_ALL = "torchrun-no-connection", "torchrun-not-on-all-nodes"
SPARK_STAGE, SPARK_PACKAGES, SPARK_JAVA = "spark-stage", "spark-packages", "spark-java"
SPARK_NO_HADOOP, SPARK_MASTER_INVALID, SPARK_MASTER_SILENT = "spark-no-hadoop", "spark-master", "spark-master-silent"
APPLICATION_FAILED, APPLICATION_KILLED = "application-failed", "application-killed"
APPLICATION_UNKNOWN, NO_APPLICATION = "application-unknown", "no-application"
# --- Containers
ENGINE_RESTARTED, CONTAINER_REMOVED = "engine-restarted", "container-removed"
CONTAINER_KILLED, CONTAINER_ENDED = "container-killed", "container-ended"
# --- Jobs of a scheduler
JOB_TIME_LIMIT, JOB_NEAR_LIMIT, JOB_DEADLINE = "job-time-limit", "job-near-time-limit", "job-deadline"
JOB_OUT_OF_MEMORY, JOB_MEMORY_LIMIT = "job-out-of-memory", "job-memory-limit"
JOB_NODE_FAILED, JOB_NODE_NOT_BOOTED, JOB_PREEMPTED = "job-node-failed", "job-node-not-booted", "job-preempted"
JOB_CANCELED, JOB_CANCELED_EARLY, JOB_REVOKED = "job-canceled", "job-canceled-early", "job-revoked"
JOB_REQUEUED, JOB_NOT_REQUEUED, JOB_START_FAILED = "job-requeued", "job-not-requeued", "job-start-failed"
JOB_ENDED, JOB_FORGOTTEN, JOB_NOT_SAVED = "job-ended", "job-forgotten", "job-not-saved"
JOB_NOT_STARTED, JOB_SETUP, JOB_LOG, JOB_NO_LOG = "job-not-started", "job-setup", "job-log", "job-no-log"
EXIT_NOT_WRITTEN, SCRIPT_NOT_STARTED, NODE_FAILED = "exit-not-written", "script-not-started", "node-failed"
# --- Groups of machines
MEMBER, MEMBER_LOST = "member", "member-lost"
# --- Policies
TIME_LIMIT, TIME_LIMIT_WARNED, IDLE, STALLED = "time-limit", "time-limit-warned", "idle", "stalled"
GPU_MISSING, GPU_UNUSED, GPU_REFUSED, GPU_NOT_USED = "gpu-missing", "gpu-unused", "gpu-refused", "gpu-not-used"
# --- The workbench
ATTEMPT, NEXT_ATTEMPT = "attempt", "next-attempt"
CANCELED, CANCELED_EARLY, KILLED = "canceled", "canceled-early", "killed"
DEPENDENCY_REMOVED, DEPENDENCY_ENDED = "dependency-removed", "dependency-ended"
UNREACHABLE, FILES_MISSING, IMPORTED, MLFLOW = "unreachable", "files-not-fetched", "imported", "mlflow"

POLICIES = {
    TIME_LIMIT: "MaxDurationMinutes", TIME_LIMIT_WARNED: "MaxDurationMinutes",
    IDLE: "StopIfIdleMinutes", STALLED: "StopIfStalledMinutes",
}  # fmt: skip
"""The settings that end a run by a limit, by the kind of the cause."""

GPU_REQUIRED = frozenset((GPU_MISSING, GPU_UNUSED, GPU_REFUSED, GPU_NOT_USED))
"""Causes of the end of a run with `RequireGpu` that uses no GPU: the run has failed."""

_PREFIXES = frozenset((ATTEMPT, NEXT_ATTEMPT, MEMBER))
"""Kinds that describe the causes after them, such as `attempt 2: exit code 1`."""

RAISED = frozenset((EXCEPTION, RANK, TORCHRUN, SPARK_STAGE))
"""Causes with the error of a script, or of a program that executes it, in the fact `error`."""

_BEFORE_CODE = frozenset((EXCEPTION, SPARK_STAGE))
"""Kinds after which the exit code of the script is in parentheses."""


def exit_causes(code: int | None) -> Causes:
    """Return the cause that describes an exit code as a shell reports it; none for 0 and None."""
    if not code:
        return ()
    number = code - 128
    if code > 128 and number in {item.value for item in signal.Signals}:
        return (Cause(SIGNAL, {"signal": number}),)
    return (Cause(EXIT_CODE, {"code": code}),)


def left_running(count: int, names: Iterable[str] = ()) -> Causes:
    """Return the cause that describes processes that the script left running, and that were ended; none for 0."""
    shown = ", ".join(sorted(set(names))[:MOST_NAMES])
    return (Cause(LEFT_RUNNING, {"count": count, **({"names": shown} if shown else {})}),) if count else ()


def is_exit(cause: Cause) -> bool:
    """Return True if the cause is the exit code of the script, which may have a cause of its own."""
    return cause.kind in (EXIT_CODE, SIGNAL)


def plain(text: str) -> Causes:
    """Return a text as a cause; none for ""."""
    return (Cause(TEXT, {"text": text}),) if text else ()


def kinds_of(causes: Iterable[Cause]) -> tuple[str, ...]:
    """Return the kinds of causes, in order."""
    return tuple(cause.kind for cause in causes)


def of_attempt(number: int, causes: Causes) -> Causes:
    """Return the causes with the number of the attempt that they ended."""
    return (Cause(ATTEMPT, {"number": number}), *without_attempt(causes))


def without_attempt(causes: Causes) -> Causes:
    """Return the causes without the number of the attempt that they ended."""
    return tuple(cause for cause in causes if cause.kind not in (ATTEMPT, NEXT_ATTEMPT))


def main_kind(kinds: Iterable[str]) -> str:
    """Return the kind that describes an end best: the first that is not a prefix; "" without causes."""
    return next((kind for kind in kinds if kind not in _PREFIXES), "")


def stored(causes: Sequence[Cause]) -> dict[str, Any]:
    """Return the fields that store causes in an event or a file: the data, and the text for other versions."""
    return {"reason": text_of(causes), "causes": [cause._asdict() for cause in causes]}


def read_causes(fields: Mapping[str, Any], exit_code: int | None = None) -> Causes:
    """Return the causes in an event or a file, which is not trusted.

    If they are missing, malformed or of an unknown kind, return the causes that the text in `reason` describes.
    """
    try:
        values = fields["causes"]
        if not isinstance(values, list | tuple) or len(values) > MOST_CAUSES:
            raise ValueError("too many causes")
        causes = tuple(read_as(Cause, value) for value in values)
        for cause in causes:
            _words(cause)
        return causes
    except (LookupError, ValueError, TypeError, AttributeError, OverflowError):
        reason = fields.get("reason")
        return _of_earlier_version(reason, exit_code) if isinstance(reason, str) else ()


def text_of(causes: Sequence[Cause]) -> str:
    """Return the sentence for causes, such as `attempt 2: ValueError: x (exit code 1); the disk of box is full`."""
    text, before = "", ""
    for cause in causes:
        words = _words(cause)
        if before in _PREFIXES:
            text += f": {words}"
        elif before in _BEFORE_CODE and is_exit(cause):
            text += f" ({words})"
        elif words:
            text += f"; {words}" if text else words
        before = cause.kind
    return text


def _words(cause: Cause) -> str:
    """Return the words of a cause. Raises the errors that `read_causes` catches if it is malformed."""
    if not all(isinstance(value, str | int | float) for value in cause.facts.values()):
        raise TypeError("a fact is neither a text nor a number")
    words = _WORDS[cause.kind]
    return words.format_map(cause.facts) if isinstance(words, str) else words(cause.facts)


def _signal(facts: Mapping[str, Any]) -> str:
    number = int(facts["signal"])
    hint = ": the machine may have run out of memory" if number == signal.SIGKILL else ""
    return f"killed by signal {number} ({signal.Signals(number).name}){hint}"


def _rank(facts: Mapping[str, Any]) -> str:
    return f"rank {facts['rank']} on {facts['node']}" if facts.get("node") else f"rank {facts['rank']}"


def _failed_rank(facts: Mapping[str, Any]) -> str:
    error = facts.get("error")
    place = f" ({facts['file']}:{facts['line']})" if facts.get("file") else ""
    return f"{_rank(facts)}: {f'{error}{place}' if error else text_of(exit_causes(int(facts['code'])))}"


def _left_running(facts: Mapping[str, Any]) -> str:
    names = f": {facts['names']}" if facts.get("names") else ""
    processes = counted(int(facts["count"]), "background process")
    return f"the workbench ended {processes} that the script left running{names}"


def _restarted(facts: Mapping[str, Any]) -> str:
    host = facts.get("host")
    return f"{host} was restarted during the run; submit the run again" if host else _RESTARTED_HERE


def _unreachable(facts: Mapping[str, Any]) -> str:
    # The screens show the time without making it safe.
    if not _TIME_OF_DAY.fullmatch(str(facts["since"])):
        raise ValueError("`since` is not a time of the day")
    return f"unreachable since {facts['since']}: {facts['error']}"


def _with_error(words: str) -> Callable[[Mapping[str, Any]], str]:
    """Return a function that adds the message of another program, if there is one."""
    return lambda facts: words.format_map(facts) + (f": {facts['error']}" if facts.get("error") else "")


def _with_state(words: str) -> Callable[[Mapping[str, Any]], str]:
    """Return a function that adds the state of a job, as its scheduler calls it, if it is known."""
    return lambda facts: words + (f" ({facts['state']})" if facts.get("state") else "")


_TIME_OF_DAY = re.compile(r"[0-9]{2}:[0-9]{2}:[0-9]{2}")
_RESTARTED_HERE = "the machine was restarted during the run"
_STARVED = "killed: out of memory on {host}; use smaller batches or fewer workers"

_WORDS: dict[str, str | Callable[[Mapping[str, Any]], str]] = {
    TEXT: "{text}",
    EXIT_CODE: "exit code {code}",
    SIGNAL: _signal,
    EXIT_UNKNOWN: "the exit code is unknown: the supervising shell was killed",
    EXCEPTION: "{error}",
    OUT_OF_MEMORY: _STARVED,
    CHILD_OUT_OF_MEMORY: f"one of its processes was {_STARVED}",
    DISK_FULL: "the disk of {host} is full, or your quota is used up: {command} removes files of old runs",
    MISSING_FILE: "{advice}",
    LEFT_RUNNING: _left_running,
    NOT_STARTED: "{error}",
    MACHINE_RESTARTED: _restarted,
    ORPHANED: "the supervising shell was killed: the script continues, but its exit code will be unknown",
    RANK: _failed_rank,
    RANK_SIGNAL: lambda facts: f"{_rank(facts)} was {_signal(facts)}",
    RANK_OUT_OF_MEMORY: lambda facts: f"{_rank(facts)} was {_STARVED.format_map(facts)}",
    TORCHRUN: "torchrun: {error}",
    TORCHRUN_SIGNAL: lambda facts: f"torchrun was {_signal(facts)}",
    TORCHRUN_NO_GPU: "ProcessesPerNode is gpus, but PyTorch sees no GPU",
    TORCHRUN_NO_TORCH: "the Python of the run has no PyTorch; install torch in it",
    TORCHRUN_OLD: "the PyTorch of the run is older than 1.9, the first version with torchrun",
    TORCHRUN_NO_CONNECTION: "torchrun on a node cannot connect to the first node; the nodes must accept TCP "
    "connections from each other",
    TORCHRUN_NOT_ON_ALL: "torchrun has not started on all nodes",
    SPARK_STAGE: "{error}",
    SPARK_PACKAGES: "Spark cannot download {packages}: check names, repositories and network",
    SPARK_JAVA: "the Java of the run does not work with this Spark: set JAVA_HOME to Java 17 for Spark 3.3 or newer, "
    "or to Java 8 for older versions",
    SPARK_NO_HADOOP: "HADOOP_CONF_DIR is not set: set it in EnvironmentVariables to the folder of YARN's configuration",
    SPARK_MASTER_INVALID: "invalid Spark master {master!r}: correct `spark.master`",
    SPARK_MASTER_SILENT: "the Spark master does not answer: check `spark.master`, and that the cluster is running",
    APPLICATION_FAILED: _with_error("{application} failed"),
    APPLICATION_KILLED: _with_error("{application} was killed"),
    APPLICATION_UNKNOWN: "YARN does not know how {application} ended",
    NO_APPLICATION: lambda facts: (
        f"spark-submit {'was killed' if facts['killed'] else 'ended without an error'}, "
        "but YARN knows no application of the run"
    ),
    ENGINE_RESTARTED: "the Docker engine on {host} was restarted, which ended the run; submit the run again",
    CONTAINER_REMOVED: "its container on {host} was removed by another program",
    CONTAINER_KILLED: "its container on {host} was killed, by another program or for lack of memory",
    CONTAINER_ENDED: _with_error("its container ended without a recorded exit code"),
    JOB_TIME_LIMIT: _with_state("it reached its time limit"),
    JOB_NEAR_LIMIT: "Slurm sent SIGTERM because the job was close to its time limit: increase `time`, or save "
    "checkpoints",
    JOB_DEADLINE: _with_state("it could not end before its deadline"),
    JOB_OUT_OF_MEMORY: _with_state("it used more memory than it requested: increase `slurm.mem`"),
    JOB_MEMORY_LIMIT: "it used more memory than the limit of the job, {limit}: increase `slurm.mem`",
    JOB_NODE_FAILED: _with_state("a node of the job failed"),
    JOB_NODE_NOT_BOOTED: _with_state("its node did not boot"),
    JOB_PREEMPTED: _with_state("a job with a higher priority took its nodes"),
    JOB_CANCELED: _with_state("it was canceled in Slurm"),
    JOB_CANCELED_EARLY: "it was canceled before its script started",
    JOB_REVOKED: _with_state("another cluster of the federation ran it"),
    JOB_REQUEUED: "the job was requeued",
    JOB_NOT_REQUEUED: "with `requeue: true` below `slurm`, Slurm would start it again",
    JOB_START_FAILED: "the previous start failed",
    JOB_ENDED: "the job ended in the state {state}",
    JOB_FORGOTTEN: "Slurm no longer knows the job",
    JOB_NOT_SAVED: "Slurm no longer knows the job: slurmctld may have failed before it saved the job",
    JOB_NOT_STARTED: lambda facts: "; ".join(filter(None, ("Slurm did not start the script", facts.get("error")))),
    JOB_SETUP: "{error}",
    JOB_LOG: "slurm.log: {error}",
    JOB_NO_LOG: "the compute node wrote no slurm.log, so it may not share `runRoot`: "
    "`workbench-tui computetarget check NAME --job` checks this",
    EXIT_NOT_WRITTEN: "its exit code was not written",
    SCRIPT_NOT_STARTED: "its script did not start",
    NODE_FAILED: "node {node} failed",
    MEMBER: "member {name}",
    MEMBER_LOST: "unreachable for {minutes} min; its processes may still be running there; the last error was: {error}",
    TIME_LIMIT: "MaxDurationMinutes: ended after {minutes} min",
    TIME_LIMIT_WARNED: "MaxDurationMinutes: sent SIGTERM {before} min before its limit of {minutes} min",
    IDLE: "StopIfIdleMinutes: none of its processes has computed on a GPU for {minutes} min",
    STALLED: "StopIfStalledMinutes: no step, log line or file for {minutes} min",
    GPU_MISSING: "RequireGpu: no NVIDIA or AMD GPU is available",
    GPU_UNUSED: "RequireGpu: none of its processes has used a GPU in {minutes} min",
    GPU_REFUSED: "RequireGpu: {error}",
    GPU_NOT_USED: lambda facts: "; ".join(filter(None, ("RequireGpu: it used no GPU", facts.get("error")))),
    ATTEMPT: "attempt {number}",
    NEXT_ATTEMPT: "attempt {number} at {at}",
    CANCELED: "canceled",
    CANCELED_EARLY: "canceled before it started",
    KILLED: "its processes were killed after {seconds:g} s",
    DEPENDENCY_REMOVED: "{run} was removed",
    DEPENDENCY_ENDED: "{run} has ended ({state})",
    UNREACHABLE: _unreachable,
    FILES_MISSING: "some files have not been fetched: run `workbench-tui experiment collect`",
    IMPORTED: "imported: not submitted by you on this machine",
    MLFLOW: "failed; MLflow does not record the reason",
}
"""The words of each kind: a format string of its facts, or a function of them."""


# --- Runs of earlier versions

_ATTEMPT_TEXT = re.compile(r"attempt ([1-9][0-9]{0,8}): (.*)", re.DOTALL)
_UNREACHABLE_TEXT = re.compile(r"unreachable since ([0-9:]+): (.*)", re.DOTALL)
_BY_TEXT = {words: kind for kind, words in _WORDS.items() if isinstance(words, str) and "{" not in words}
"""The kinds without facts, by their words."""


def _of_earlier_version(text: str, exit_code: int | None) -> Causes:
    """Return the causes that a text of another version describes: its attempt, and one cause."""
    if match := _ATTEMPT_TEXT.fullmatch(text):
        return of_attempt(int(match[1]), _of_earlier_version(match[2], exit_code)[-1:])
    if (match := _UNREACHABLE_TEXT.fullmatch(text)) and _TIME_OF_DAY.fullmatch(match[1]):
        return (Cause(UNREACHABLE, {"since": match[1], "error": match[2]}),)
    if text in _BY_TEXT:
        return (Cause(_BY_TEXT[text]),)
    causes = exit_causes(exit_code)
    return causes if text == text_of(causes) else plain(text)
