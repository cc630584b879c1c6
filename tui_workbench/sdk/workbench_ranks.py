"""Starts a script under torch.distributed.run, with the output of each rank in a file of its own.

    python workbench_ranks.py FOLDER -m torch.distributed.run --OPTION=VALUE... SCRIPT ARGUMENT...

Each rank writes both its streams into FOLDER/RANK.log itself, so these files hold its bytes in their order, whatever
dies. FOLDER/torchrun.log is what torchrun itself has to say. This process follows the files and repeats them on its
own output, line by line, with `[rank1]: ` before the lines of rank 1 as PyTorch writes it before a rank's traceback.
It ends when torchrun does, with its exit code.

The workbench starts it for runs with ProcessesPerNode. This file runs on Python 3.5 and newer and needs nothing but the
standard library; nobody imports it.
"""

import fcntl
import os
import select
import signal
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Optional  # noqa: F401  (in comments)

_AS_RANK = "--as-rank"
_TORCHRUN = "torchrun"
_CHUNK = 1 << 20
_SOONEST, _LATEST, _SLOWING = 0.005, 0.1, 1.3
"""Seconds between looks at the files: short while something comes."""

_FOLDER_EVERY = 0.2
_LINGERING = 60.0
"""Seconds after which it is told that some ranks have ended and others have not: they may hang."""


def become_rank(folder: "str", command: "List[str]") -> "None":
    """Turn this process, which torchrun has started as a rank, into the script, writing into the rank's file."""
    path = os.path.join(folder, os.environ["RANK"] + ".log")
    output = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        # Held by whoever writes there: so it can be seen whether somebody still does.
        fcntl.flock(output, fcntl.LOCK_SH)
    except OSError:
        pass
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.execv(sys.executable, [sys.executable, "-u", *command])


class _File:
    """One file that grows, and how far it has been repeated; `mark` stands before each line."""

    def __init__(self, path: "str", mark: "bytes") -> "None":
        self._file = os.open(path, os.O_RDONLY)
        self._mark = mark
        self._rest = b""
        self._in_line = False

    def take(self, is_last: "bool" = False) -> "bytes":
        """What has come since, in whole lines; the last time, all of it. A carriage return ends a line, too."""
        data = self._rest + os.read(self._file, _CHUNK)
        # A carriage return at the very end may be the first half of a line's end.
        end = max(data.rfind(b"\n"), data.rfind(b"\r", 0, max(0, len(data) - 1))) + 1
        if is_last or (not end and len(data) >= _CHUNK):
            end = len(data)
        data, self._rest = data[:end], data[end:]
        if not self._mark or not data:
            return data
        lines = data.splitlines(True)
        marked = [line if line == b"\r" or line.startswith(self._mark) else self._mark + line for line in lines]
        if self._in_line:
            marked[0] = lines[0]
        self._in_line = not data.endswith((b"\n", b"\r"))
        return b"".join(marked)

    def end(self) -> "bytes":
        """What is missing for the last line to be one."""
        return b"\n" if self._in_line else b""

    def is_written(self) -> "bool":
        """Whether somebody has it open to write to it, as far as that can be told."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        fcntl.flock(self._file, fcntl.LOCK_UN)
        return False


class Merger:
    """Repeats what lies in a folder on the descriptor `output`."""

    def __init__(self, folder: "str", output: "int", lingering: "float" = _LINGERING) -> "None":
        self._folder = folder
        self._output = output
        self._files = {}  # type: Dict[str, _File]
        self._looked = 0.0
        self._lingering = lingering  # type: Optional[float]
        self._partly_since = 0.0

    def pump(self, is_last: "bool" = False) -> "bool":
        """Repeat what is new; True when there was something. With `is_last`, all that is left."""
        something = False
        self._look(is_last)
        for name in sorted(self._files):
            each = self._files[name]
            data = each.take()
            while data:
                something = True
                self._write(data)
                data = each.take() if is_last else b""
            if is_last:
                self._write(each.take(True) + each.end())
        return something

    def _look(self, now: "bool") -> "None":
        """Open what is new in the folder, now and then."""
        moment = time.time()
        if not now and abs(moment - self._looked) < _FOLDER_EVERY:
            return
        self._looked = moment
        for name in os.listdir(self._folder):
            rank, _, kind = name.partition(".")
            if kind == "log" and name not in self._files and (rank.isdigit() or rank == _TORCHRUN):
                mark = ("[rank%s]: " % rank).encode() if rank.isdigit() else b""
                self._files[name] = _File(os.path.join(self._folder, name), mark)
        self._tell_of_lingering(moment)

    def _tell_of_lingering(self, moment: "float") -> "None":
        """Once, when some ranks have ended a while ago and others have not."""
        if self._lingering is None:
            return
        ranks = [(int(name.partition(".")[0]), each) for name, each in self._files.items() if name[0].isdigit()]
        left = [rank for rank, each in sorted(ranks, key=lambda pair: pair[0]) if each.is_written()]
        if not left or len(left) == len(ranks):
            self._partly_since = 0.0
            return
        self._partly_since = self._partly_since or moment
        if moment - self._partly_since >= self._lingering:
            many = len(left) > 1
            text = "workbench: rank%s %s %s not ended, %.0f s after the first rank that has\n" % (
                "s" if many else "", ", ".join(map(str, left)), "have" if many else "has", self._lingering,
            )  # fmt: skip
            self._write(text.encode())
            self._lingering = None

    def _write(self, data: "bytes") -> "None":
        try:
            while data:
                data = data[os.write(self._output, data) :]
        except OSError:
            return  # a full disk: the ranks' own files may lie elsewhere, and the script goes on


def _is_one(options: "List[str]") -> "bool":
    """Whether torchrun will start one process only, as far as that can be told before it looks."""
    if "--nproc_per_node=gpu" not in options:
        return "--nproc_per_node=1" in options
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return len([name for name in os.listdir("/dev") if name[:6] == "nvidia" and name[6:].isdigit()]) == 1
    return len(visible.split(",")) == 1


def _with_ranks(folder: "str", command: "List[str]") -> "List[str]":
    """The command of torchrun with this file before the script: the first word behind the options."""
    script = 2
    while script < len(command) and command[script].startswith("-"):
        script += 1
    if not _is_one(command[:script]):
        # As torchrun would have it itself, but without its warning.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    # All ranks are on this machine, whose name need not lead to it.
    os.environ.setdefault("PET_LOCAL_ADDR", "127.0.0.1")
    return [*command[:script], os.path.abspath(__file__), _AS_RANK, folder, *command[script:]]


def _remove_empty(folder: "str") -> "None":
    """Remove a folder and those below it as far as there is nothing in them."""
    for place, _, _ in os.walk(folder, topdown=False):
        try:
            os.rmdir(place)
        except OSError:
            continue


def run(folder: "str", command: "List[str]") -> "int":
    """Start torchrun, repeat what its ranks write, and return its exit code."""
    try:
        os.makedirs(folder)
    except FileExistsError:
        pass
    # Else each run leaves folders in /tmp. What torchrun's @record writes down of an error stays with the run.
    scratch = os.path.join(folder, _TORCHRUN)
    os.environ.setdefault("PET_LOG_DIR", scratch)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    output = os.open(os.path.join(folder, _TORCHRUN + ".log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    torchrun = subprocess.Popen([sys.executable, *_with_ranks(folder, command)], stdout=output, stderr=output)
    os.close(output)

    def forward(number: "int", _frame: "object") -> "None":
        # The last lines are still to be repeated when torchrun has ended its ranks.
        torchrun.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, forward)
    merger = Merger(folder, 1)
    pause = _SOONEST
    while torchrun.poll() is None:
        pause = _SOONEST if merger.pump() else min(pause * _SLOWING, _LATEST)
        if select.select([reading], [], [], pause)[0]:
            os.read(reading, 64)
    merger.pump(True)
    _remove_empty(scratch)
    return torchrun.returncode if torchrun.returncode >= 0 else 128 - torchrun.returncode


if __name__ == "__main__":
    if sys.argv[1] == _AS_RANK:
        become_rank(sys.argv[2], sys.argv[3:])
    else:
        sys.exit(run(sys.argv[1], sys.argv[2:]))
