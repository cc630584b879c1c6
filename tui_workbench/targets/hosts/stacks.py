"""The Python stacks of a run's processes, and the output of `hosts.py_spy.SCRIPT`, which reads them.

The output begins with a line `stacks SCOPE COUNT NODE`: the setting kernel.yama.ptrace_scope (`-` if the kernel has
none), the number of Python processes, and the name of the machine. A block for each process follows. It ends with a
line that consists of the control character RS:

```
process PID PARENT
lines of its environment: RANK=NUMBER and SLURM_PROCID=NUMBER, if they are set; then an empty line
the words of its command line, separated by the control character US
JSON of `py-spy dump --json`, or an error message
```

Stacks contain the names of functions and files. Values of variables are never read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tui_workbench.core.json_values import parse_json

END_OF_PROCESS, BETWEEN_WORDS = b"\036\n", "\037"

MOST_PROCESSES = 512
"""Maximum number of processes of a machine that are read, in the order of their IDs."""

MOST_THREADS, MOST_FRAMES, MOST_TEXT = 64, 100, 1000
"""Maximum number of threads of a process, of frames of a thread, and of characters in a name or command."""

MAIN_THREAD = "MainThread"


class Frame(NamedTuple):
    """A call. `file` is the path on the run's machine; `shown` is the end of this path, from the package on."""

    function: str
    file: str
    shown: str
    line: int


class ThreadStack(NamedTuple):
    """The stack of a thread, with the most recent call first."""

    name: str
    is_main: bool
    is_active: bool  # False while the thread waits
    has_gil: bool
    frames: tuple[Frame, ...]


class ProcessStacks(NamedTuple):
    """The stacks of a process; without threads, `problem` says why they could not be read."""

    pid: int
    parent: int
    node: str
    rank: int | None
    task: int | None  # the rank in a Slurm step
    command: tuple[str, ...]
    threads: tuple[ThreadStack, ...] = ()
    problem: str = ""


class Reading(NamedTuple):
    """The stacks of a run. `scope` is the largest kernel.yama.ptrace_scope of its machines; -1 if unknown."""

    processes: tuple[ProcessStacks, ...] = ()
    scope: int = -1
    total: int = 0  # all Python processes, including those beyond MOST_PROCESSES

    def with_machine(self, other: Reading) -> Reading:
        """Return the stacks of this reading and of `other`, the reading of another machine."""
        scope, total = max(self.scope, other.scope), self.total + other.total
        return Reading((*self.processes, *other.processes), scope, total)


def parse(data: bytes) -> Reading:
    """Parse the output of SCRIPT on one machine.

    Invalid parts are skipped, because some of the text, such as command lines, comes from the run's processes.
    """
    head, _, rest = data[max(0, data.find(b"stacks ")) :].partition(b"\n")
    words = head.decode("utf-8", "replace").split()
    if len(words) != 4 or words[0] != "stacks":
        return Reading()
    processes = (_process(block, words[3]) for block in rest.split(END_OF_PROCESS))
    scope, total = _number(words[1]), _number(words[2]) or 0
    return Reading(tuple(filter(None, processes)), -1 if scope is None else scope, total)


def _process(block: bytes, node: str) -> ProcessStacks | None:
    head, _, rest = block.decode("utf-8", "replace").partition("\n\n")
    command, _, output = rest.partition("\n")
    first, *variables = head.split("\n")
    words = first.split()
    pid, parent = (_number(word) for word in words[1:]) if len(words) == 3 else (None, None)
    if pid is None or parent is None:
        return None
    ranks = {name: _number(value) for name, _, value in (variable.partition("=") for variable in variables)}
    arguments = tuple(command[:MOST_TEXT].rstrip(BETWEEN_WORDS).split(BETWEEN_WORDS))
    process = ProcessStacks(pid, parent, node, ranks.get("RANK"), ranks.get("SLURM_PROCID"), arguments)
    try:
        threads = tuple(_thread(thread, pid) for thread in parse_json(output)[:MOST_THREADS])
    except (ValueError, TypeError, KeyError, AttributeError):
        return process._replace(problem=_problem(output))
    # py-spy lists threads in the order of the interpreter, the newest first.
    return process._replace(threads=tuple(sorted(threads, key=lambda thread: not thread.is_main)))


def _thread(thread: dict[str, Any], pid: int) -> ThreadStack:
    frames = [
        Frame(_text(frame["name"]), _text(frame["filename"]), _text(frame["short_filename"] or frame["filename"]), line)
        for frame in thread["frames"][:MOST_FRAMES]
        if isinstance(line := frame["line"], int)
    ]
    name, is_main = _text(thread["thread_name"] or ""), thread["os_thread_id"] == pid
    return ThreadStack(name, is_main, thread["active"] is True, thread["owns_gil"] is True, tuple(frames))


def _problem(message: str) -> str:
    """Return the cause in py-spy's error message, without the stack of py-spy itself."""
    lines = [line.strip() for line in message.partition("Stack backtrace")[0].split("\n")]
    lines = [line for line in lines if line and line != "Caused by:"]
    return _text(": ".join(dict.fromkeys(line.removeprefix("Error: ") for line in lines))) or "py-spy printed nothing"


def _text(value: Any) -> str:
    return str(value)[:MOST_TEXT]


def _number(word: str) -> int | None:
    return int(word) if word.isascii() and word.isdigit() and len(word) < 10 else None


class NamedProcess(NamedTuple):
    """A process with its role in the run."""

    title: str  # `rank 0`, `child of rank 0`, `launcher`, `script` or `child of process 12`
    rank: int | None  # None for a child of a rank
    stacks: ProcessStacks


def name_processes(processes: Sequence[ProcessStacks]) -> list[NamedProcess]:
    """Return the processes with their roles: the ranks in order, each with its children, then all other processes.

    A child, such as a worker of a data loader, inherits RANK. SLURM_PROCID is the rank if no process has RANK.
    """
    has_ranks = any(process.rank is not None for process in processes)
    ranks = {(process.node, process.pid): process.rank if has_ranks else process.task for process in processes}
    named = []
    for process in processes:
        rank, parent = ranks[process.node, process.pid], (process.node, process.parent)
        is_child = parent in ranks and (rank is None or ranks[parent] == rank)
        if rank is not None:
            title = f"child of rank {rank}" if is_child else f"rank {rank}"
        elif has_ranks:
            title = "launcher"
        else:
            title = f"child of process {process.parent}" if is_child else "script"
        key = (rank is None, rank or 0, is_child, process.node, process.pid)
        named.append((key, NamedProcess(title, None if is_child else rank, process)))
    return [process for _, process in sorted(named)]
