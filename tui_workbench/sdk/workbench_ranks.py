"""Start a script with torch.distributed.run, with a log file for each rank.

    python workbench_ranks.py FOLDER -m torch.distributed.run --OPTION=VALUE... SCRIPT ARGUMENT...

Each rank writes stdout and stderr to FOLDER/RANK.log; torchrun writes to FOLDER/torchrun.log. This process follows the
files and copies their lines to stdout, with the prefix `[rank1]: ` for rank 1, as PyTorch does for tracebacks. It exits
with the exit code of torchrun.

On several nodes that share FOLDER, this file is started once on each node. The variable WORKBENCH_NODES lists the nodes
as NAME:OFFSET, and WORKBENCH_NODE is the name of this node. Each node writes only to FOLDER/NAME: the files above,
`output.log` with the lines of its ranks, and `exit` with the exit code of its torchrun. `output.log` and `exit` exist
before the start; OFFSET is the size of `output.log`, and `exit` has EXIT_SIZE bytes, all blank. The first node also
copies the lines of all nodes to stdout.

When a job starts again, a line in each `torchrun.log` separates the attempts.

The workbench starts this file for runs with ProcessesPerNode, and never imports it. The file must run on Python 3.5 or
newer with the standard library only.
"""

import fcntl
import os
import re
import select
import signal
import subprocess
import sys
import time

from workbench_children import adopt_orphans, children, collect_ended, parent_of, send_signal, wake_up_on_signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Optional, Tuple  # noqa: F401  (in comments)

_AS_RANK = "--as-rank"
_TORCHRUN = "torchrun"
CHUNK = 1 << 20
_SHORTEST_PAUSE, _LONGEST_PAUSE, _PAUSE_FACTOR = 0.005, 0.1, 1.3
"""Seconds between two reads of the files. The pause grows while no output arrives."""

_FOLDER_INTERVAL = 0.2
_HANG_SECONDS = 60.0
"""Seconds from the end of the first rank to the report of ranks that may hang."""

_MERCY_SECONDS = 2.0
"""Seconds between SIGTERM and SIGKILL for the other ranks when a rank has failed."""

_SAVE_SECONDS = "600"
"""Seconds in which ranks can save their state after a signal to the run (PyTorch's default: 30)."""

_CLOSING = re.compile(rb"Sending process (\d+) closing signal")
"""The line that torchrun prints when it ends a rank.

Source: torch/distributed/elastic/multiprocessing/api.py, since PyTorch 1.9.
"""

DEVICES = "/dev"
AMD_NODES = "/sys/class/kfd/kfd/topology/nodes"
"""A folder for each processor and AMD GPU of the machine. Its file `gpu_id` is 0 for processors."""

NODES, NODE, NODE_LOG, NODE_EXIT = "WORKBENCH_NODES", "WORKBENCH_NODE", "output.log", "exit"
EXIT_SIZE = 32
_RENDEZVOUS_WORD = "--rdzv_endpoint=$WORKBENCH_RENDEZVOUS"
_SIGNALED = " after a signal"
"""The text after an exit code if the node got a signal to end."""

AGAIN = b"workbench: the script is started again\n"
"""A line in torchrun.log at the beginning of each attempt after the first. It is not copied."""

_NODES_INTERVAL = 0.2
"""Seconds between two reads of the logs of other nodes."""

_STORE_INTERVAL = 1.0
"""Seconds after which new lines are sent to the disk or the file server, where the first node can read them."""

_FAREWELL_SECONDS = 2.0
"""Seconds for which a node that fails waits for the others to end, before its exit makes the scheduler kill them.

Meanwhile, the ranks of the other nodes can write their last lines, and the first node copies them.
"""


def become_rank(folder: "str", command: "List[str]") -> "None":
    """Redirect the output of this process, which torchrun started as a rank, and run the script in its place."""
    path = os.path.join(folder, os.environ["RANK"] + ".log")
    output = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        # Each process that can write to the file holds this lock; see `_File.is_written`.
        fcntl.flock(output, fcntl.LOCK_SH)
    except OSError:
        pass
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.execv(sys.executable, [sys.executable, "-u", *command])


class _File:
    """A reader of the log file of a rank, which adds a prefix to each line."""

    def __init__(self, path: "str", prefix: "bytes", offset: "int" = 0) -> "None":
        self._path = path
        self._file = os.open(path, os.O_RDONLY)
        os.lseek(self._file, offset, os.SEEK_SET)
        self._prefix = prefix
        self._rest = b""
        self._in_line = False

    def take(self, is_last: "bool" = False) -> "bytes":
        """Return new complete lines, or if `is_last` all new output. A carriage return also ends a line."""
        data = self._rest + os.read(self._file, CHUNK)
        # A carriage return at the end may be the first half of CRLF.
        end = max(data.rfind(b"\n"), data.rfind(b"\r", 0, max(0, len(data) - 1))) + 1
        if is_last or (not end and len(data) >= CHUNK):
            end = len(data)
        data, self._rest = data[:end], data[end:]
        if not self._prefix or not data:
            return data
        lines = data.splitlines(True)
        prefixed = [line if line == b"\r" or line.startswith(self._prefix) else self._prefix + line for line in lines]
        if self._in_line:
            prefixed[0] = lines[0]
        self._in_line = not data.endswith((b"\n", b"\r"))
        return b"".join(prefixed)

    def open_again(self) -> "None":
        """Open the file again. A file system such as NFS may show new bytes of another node only after this."""
        old, self._file = self._file, os.open(self._path, os.O_RDONLY)
        os.lseek(self._file, os.lseek(old, 0, os.SEEK_CUR), os.SEEK_SET)
        os.close(old)

    def end(self) -> "bytes":
        """Return the missing line ending of the last line, or b""."""
        return b"\n" if self._in_line else b""

    def is_written(self) -> "bool":
        """Return True unless it is certain that no process can write to the file."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        fcntl.flock(self._file, fcntl.LOCK_UN)
        return False


class _Copier:
    """Copies lines of files to the descriptor `output`."""

    def __init__(self, output: "int") -> "None":
        self._output = output

    def _copy(self, file: "_File", is_last: "bool") -> "bool":
        """Copy new lines, or all remaining output if `is_last`. Return True if there was new output."""
        data = file.take()
        has_output = bool(data)
        while data:
            self._write(data)
            data = file.take() if is_last else b""
        if is_last:
            self._write(file.take(True) + file.end())
        return has_output

    def _write(self, data: "bytes") -> "None":
        try:
            while data:
                data = data[os.write(self._output, data) :]
        except OSError:
            return  # If the disk is full, the script continues: the files of the ranks may be on another disk.


class Merger(_Copier):
    """Copies the lines that are added to the log files in a folder to the descriptor `output`."""

    def __init__(self, folder: "str", output: "int", hang_seconds: "float" = _HANG_SECONDS) -> "None":
        super().__init__(output)
        self._folder = folder
        self._files = {}  # type: Dict[str, _File]
        # When a job starts again, the lines of its ranks so far have been copied.
        self._copied = {name: os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder)}
        self._scanned = 0.0
        self._hang_seconds = hang_seconds  # type: Optional[float]
        self._partly_since = 0.0

    def pump(self, is_last: "bool" = False) -> "bool":
        """Copy new output, or all remaining output if `is_last`. Return True if there was new output."""
        has_output = False
        self._scan(is_last)
        for name in sorted(self._files):
            has_output |= self._copy(self._files[name], is_last)
        return has_output

    def _scan(self, force: "bool") -> "None":
        """Open new files in the folder."""
        now = time.time()
        if not force and abs(now - self._scanned) < _FOLDER_INTERVAL:
            return
        self._scanned = now
        for name in os.listdir(self._folder):
            rank, _, kind = name.partition(".")
            if kind == "log" and name not in self._files and (rank.isdigit() or rank == _TORCHRUN):
                prefix = ("[rank%s]: " % rank).encode() if rank.isdigit() else b""
                self._files[name] = _File(os.path.join(self._folder, name), prefix, self._copied.get(name, 0))
        self._report_hanging(now)

    def _report_hanging(self, now: "float") -> "None":
        """Report once that other ranks are still running long after the first rank ended."""
        if self._hang_seconds is None:
            return
        ranks = [(int(name.partition(".")[0]), log) for name, log in self._files.items() if name[0].isdigit()]
        left = [rank for rank, log in sorted(ranks, key=lambda pair: pair[0]) if log.is_written()]
        if not left or len(left) == len(ranks):
            self._partly_since = 0.0
            return
        self._partly_since = self._partly_since or now
        if now - self._partly_since >= self._hang_seconds:
            many = len(left) > 1
            text = "workbench: rank%s %s %s not ended %.0f s after the first rank ended\n" % (
                "s" if many else "", ", ".join(map(str, left)), "have" if many else "has", self._hang_seconds,
            )  # fmt: skip
            self._write(text.encode())
            self._hang_seconds = None


class Nodes(_Copier):
    """The logs of all nodes of a run, which the first node copies to the descriptor `output`.

    `log` is the descriptor of the log of this node. If a file of another node cannot be read now, the
    script continues, and the file is read again later.
    """

    def __init__(self, folder: "str", own: "str", nodes: "List[Tuple[str, int]]", output: "int", log: "int") -> "None":
        super().__init__(output)
        self._folder = folder
        self._own = own
        self._log = log
        self._stored, self._stored_size = 0.0, 0
        self._read = 0.0
        self._others = [name for name, _ in nodes if name != own]
        self._logs = []  # type: List[_File]
        if own == nodes[0][0]:
            self._logs = [_File(os.path.join(folder, name, NODE_LOG), b"", offset) for name, offset in nodes]

    def pump(self, is_last: "bool" = False) -> "bool":
        """Copy new lines, or all remaining output if `is_last`. Return True if there was new output."""
        now = time.time()
        if not is_last and abs(now - self._read) < _NODES_INTERVAL:
            return False
        self._read = now
        has_output = False
        for log in self._logs:
            try:
                log.open_again()
                has_output |= self._copy(log, is_last)
            except OSError:
                continue
        if abs(now - self._stored) >= _STORE_INTERVAL:
            self._stored = now
            self._store()
        return has_output

    def _store(self) -> "None":
        """Make the log of this node visible to the first node: NFS sends the bytes of an open file only later."""
        try:
            size = os.fstat(self._log).st_size
            if size != self._stored_size:
                os.fsync(self._log)
                self._stored_size = size
        except OSError:
            return

    def end(self, code: "int", was_signaled: "bool") -> "None":
        """Record the exit code of torchrun on this node, and wait until this node can exit.

        The first node waits for the others, whose lines it copies. If the whole run gets a signal, every node waits for
        the others, which may be saving their state. A node that fails waits for a limited time.
        """
        limit = time.time() + _FAREWELL_SECONDS
        self._store()  # This must happen before the other nodes can read that this node has ended.
        while not self._record("%d%s" % (code, _SIGNALED if was_signaled else "")) and time.time() < limit:
            time.sleep(_NODES_INTERVAL)
        while self._is_any_running() and (was_signaled or (time.time() < limit if code else self._logs)):
            self.pump()
            time.sleep(_NODES_INTERVAL)
        self.pump(True)

    def _record(self, text: "str") -> "bool":
        """Write the exit file of this node. Return False if this is impossible now."""
        try:
            # This replaces the blanks, and thus also succeeds on a full disk.
            with open(os.path.join(self._folder, self._own, NODE_EXIT), "r+") as file:
                file.write(text.ljust(EXIT_SIZE - 1) + "\n")
        except OSError:
            return False
        return True

    def has_failed(self) -> "bool":
        """Return True if torchrun of another node has failed. A signal to this process is then a consequence of it."""
        return any(code not in ("", "0") and not code.endswith(_SIGNALED) for code in self._codes())

    def _is_any_running(self) -> "bool":
        return "" in self._codes()

    def _codes(self) -> "List[str]":
        """Return the exit codes of torchrun on the other nodes; "" where it is running."""
        codes = []
        for name in self._others:
            try:
                with open(os.path.join(self._folder, name, NODE_EXIT)) as file:
                    codes.append(file.read(EXIT_SIZE).strip())
            except OSError:
                codes.append("")
        return codes


def _is_one(options: "List[str]") -> "bool":
    """Return True if torchrun will probably start a single process."""
    if "--nproc_per_node=gpu" not in options:
        return "--nproc_per_node=1" in options
    for name in ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        if name in os.environ:
            return len(os.environ[name].split(",")) == 1
    nvidia = [name for name in os.listdir(DEVICES) if name[:6] == "nvidia" and name[6:].isdigit()]
    return (len(nvidia) or _count_amd_gpus()) == 1


def _count_amd_gpus() -> "int":
    """Return the number of AMD GPUs of this machine; 0 if it is not known."""
    count = 0
    try:
        for node in os.listdir(AMD_NODES):
            with open(os.path.join(AMD_NODES, node, "gpu_id")) as file:
                count += file.read().strip() not in ("", "0")
    except OSError:
        return 0
    return count


def with_ranks(folder: "str", command: "List[str]") -> "List[str]":
    """Return the command of torchrun with this file inserted before the script."""
    script = 2
    while script < len(command) and command[script].startswith("-"):
        script += 1
    # On the members of a group, no shell replaces the variable in the option.
    command[:script] = [os.path.expandvars(word) if word == _RENDEZVOUS_WORD else word for word in command[:script]]
    if not _is_one(command[:script]):
        # This is torchrun's default. If it is set before, torchrun prints no warning.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    # If all ranks are on this machine, its host name need not resolve.
    os.environ.setdefault("PET_LOCAL_ADDR", os.environ.get(NODE, "127.0.0.1"))
    return [*command[:script], os.path.abspath(__file__), _AS_RANK, folder, *command[script:]]


def _remove_empty(folder: "str") -> "None":
    """Remove a folder and its subfolders if they are empty."""
    for path, _, _ in os.walk(folder, topdown=False):
        try:
            os.rmdir(path)
        except OSError:
            continue


def _take_nodes() -> "List[Tuple[str, int]]":
    """Return the nodes of the run with their offsets, and remove the variable, which only this process needs."""
    pairs = [text.rpartition(":") for text in os.environ.pop(NODES, "").split()]
    return [(name, int(offset)) for name, _, offset in pairs]


def run(folder: "str", command: "List[str]") -> "int":
    """Start torchrun, copy the output of its ranks to stdout, and return its exit code."""
    nodes = _take_nodes()
    if not nodes:
        _begin_attempt(folder)
        return _run_here(folder, command, 1, None)
    own = os.environ[NODE]
    own_folder = os.path.join(folder, own)
    _begin_attempt(own_folder)
    if own == nodes[0][0]:
        # The ranks of an earlier attempt may have run on nodes that have no launcher in this attempt.
        for name in set(os.listdir(folder)).difference(name for name, _ in nodes):
            _begin_attempt(os.path.join(folder, name))
    output = os.open(os.path.join(own_folder, NODE_LOG), os.O_WRONLY | os.O_APPEND)
    return _run_here(own_folder, command, output, Nodes(folder, own, nodes, 1, output))


def _begin_attempt(folder: "str") -> "None":
    """Separate the output of torchrun in earlier attempts, if there is any, from that of this attempt."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        output = os.open(os.path.join(folder, _TORCHRUN + ".log"), flags)
        try:
            os.write(output, AGAIN)
        finally:
            os.close(output)
    except OSError:
        return  # The file does not exist before the first attempt.


def _run_here(folder: "str", command: "List[str]", output: "int", nodes: "Optional[Nodes]") -> "int":
    """Start torchrun, and copy the output of its ranks to the descriptor `output`. Return its exit code."""
    try:
        os.makedirs(folder)
    except FileExistsError:
        pass
    merger = Merger(folder, output)
    # By default, torchrun leaves folders in /tmp. The error files that its `@record` writes are kept with the run.
    scratch = os.path.join(folder, _TORCHRUN)
    os.environ.setdefault("PET_LOG_DIR", scratch)
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", _SAVE_SECONDS)
    wakeup = wake_up_on_signals()
    adopt_orphans()
    torchrun = _Torchrun(folder, command)
    may_save = False
    pause = _SHORTEST_PAUSE
    while torchrun.is_running() or torchrun.has_left_ranks(may_save):
        has_output = merger.pump()
        has_output |= nodes is not None and nodes.pump()
        may_save = torchrun.was_signaled and not (nodes is not None and nodes.has_failed())
        if not may_save:
            torchrun.kill_deaf_ranks()
        pause = _SHORTEST_PAUSE if has_output else min(pause * _PAUSE_FACTOR, _LONGEST_PAUSE)
        if select.select([wakeup], [], [], pause)[0]:
            os.read(wakeup, 64)
    merger.pump(True)
    _remove_empty(scratch)
    if nodes is not None:
        nodes.end(torchrun.code, torchrun.was_signaled)
    return torchrun.code


class _Torchrun:
    """The process of torchrun, which writes to a file in `folder`. Signals to this process are forwarded to it."""

    def __init__(self, folder: "str", command: "List[str]") -> "None":
        path = os.path.join(folder, _TORCHRUN + ".log")
        output = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._log = _File(path, b"", os.fstat(output).st_size)
        self._process = subprocess.Popen([sys.executable, *with_ranks(folder, command)], stdout=output, stderr=output)
        os.close(output)
        self._closing = {}  # type: Dict[int, float]
        self._ended = 0.0
        self.was_signaled = False
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._forward)

    def _forward(self, number: "int", _frame: "object") -> "None":
        # Do not exit, because the last lines are copied after torchrun has ended its ranks.
        self.was_signaled = True
        self._process.send_signal(number)

    def is_running(self) -> "bool":
        collect_ended(self._process.pid)
        return self._process.poll() is None

    def has_left_ranks(self, may_save: "bool") -> "bool":
        """Return True if torchrun has failed and its ranks are still running. They are killed after a while.

        If the ranks may save their state, the run got a signal, and torchrun has sent it to them.
        """
        if self.code == 0:
            return False
        left, now = children(), time.time()
        if left and not self._ended:
            self._ended = now
            for pid in left if not self.was_signaled else ():
                send_signal(pid, signal.SIGTERM)
        if now - self._ended >= (float(_SAVE_SECONDS) if may_save else _MERCY_SECONDS):
            for pid in left:
                send_signal(pid, signal.SIGKILL)
        return bool(left)

    @property
    def code(self) -> "int":
        """The exit code after the end; 128 + N if signal N ended the process."""
        return self._process.returncode if self._process.returncode >= 0 else 128 - self._process.returncode

    def kill_deaf_ranks(self) -> "None":
        """Kill the ranks that do not end after SIGTERM, which torchrun sends them if another rank has failed.

        torchrun itself would wait _SAVE_SECONDS, the time in which ranks can save their state when the whole run ends.
        """
        now = time.time()
        for pid in _CLOSING.findall(self._log.take()):
            self._closing[int(pid)] = now
        for pid, since in list(self._closing.items()):
            if now - since >= _MERCY_SECONDS:
                del self._closing[pid]
                self._kill(pid)

    def _kill(self, pid: "int") -> "None":
        if parent_of(pid) == self._process.pid:
            send_signal(pid, signal.SIGKILL)


if __name__ == "__main__":
    if sys.argv[1] == _AS_RANK:
        become_rank(sys.argv[2], sys.argv[3:])
    else:
        sys.exit(run(sys.argv[1], sys.argv[2:]))
