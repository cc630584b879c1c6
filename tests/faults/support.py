"""The real command line as a subprocess, and helpers for the tests of faults."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from tests.command_server import can_fork, run_command
from tests.json_output import check_output
from tests.proc import PROC
from tests.waiting import PATIENCE, wait_until
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.targets.hosts import contacts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

COMMAND = (sys.executable, "-P", "-m", "tui_workbench")
"""As in the installed command, a module of the project cannot replace a module of the library."""

WAITS = "import os, sys, time\nprint('began', flush=True)\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.02)\n"
"""A script that prints a line and then waits for the file named by its first argument."""


class Result(NamedTuple):
    """The exit code, stdout and stderr of a command."""

    code: int
    out: str
    err: str

    def error(self, code: int, *parts: str) -> str:
        """Check that only an error with this exit code was printed, and that it contains `parts`; return it.

        It is one line, unless there are several remedies.
        """
        assert self.code == code, self
        assert self.out == "", self
        assert self.err.startswith("workbench-tui: "), self
        assert all(line.startswith("  ") for line in self.err.split("\n")[1:-1]), self
        assert self.err.endswith("\n"), self
        for part in parts:
            assert part in self.err, f"{part!r} is not in {self.err!r}"
        return self.err


def _result(code: int, out: bytes, err: bytes) -> Result:
    return Result(code, out.decode(errors="backslashreplace"), err.decode(errors="backslashreplace"))


class Workbench:
    """The command line in a folder, with a changed environment."""

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.environment = dict(environment or {})

    def start(self, *arguments: str | bytes | os.PathLike[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a command and return its process."""
        command: list[Any] = [*COMMAND, *arguments]
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.Popen(command, cwd=self.folder, env={**os.environ, **self.environment}, **options)

    def run(self, *arguments: str | bytes | os.PathLike[str]) -> Result:
        """Run a command to its end. `tests.command_server` starts its process, unless the interpreter must."""
        if not can_fork({**os.environ, **self.environment}):
            return self.run_interpreter(*arguments)
        words = [os.fsdecode(word) for word in arguments]
        with tempfile.TemporaryFile() as out:
            code, err = self._run_into(out, words)
            out.seek(0)
            result = _result(code, out.read(), err)
            check_output(words, result.out)
            return result

    def bytes_of(self, *arguments: str) -> bytes:
        """Run a command whose stdout is a file, and return the bytes of the file."""
        with tempfile.TemporaryFile() as out:
            code, err = self._run_into(out, arguments)
            assert (code, err) == (0, b"")
            out.seek(0)
            data = out.read()
        check_output(arguments, data.decode(errors="replace"))
        return data

    def _run_into(self, out: IO[bytes], words: Sequence[str]) -> tuple[int, bytes]:
        """Run a command that writes to a file. Return its exit code and stderr."""
        with tempfile.TemporaryFile() as err:
            environment = {**os.environ, **self.environment}
            code = run_command(words, str(self.folder), environment, out, err, seconds=PATIENCE)
            err.seek(0)
            return code, err.read()

    def run_interpreter(self, *arguments: str | bytes | os.PathLike[str]) -> Result:
        """Run a command to its end in a new interpreter, which also inherits this process's umask and limits."""
        process = self.start(*arguments)
        try:
            out, err = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
        return _result(process.returncode, out, err)

    def contact(self, target: str) -> None:
        """Add the machine of a target to those that the user has contacted, so that plans and lists connect to it."""
        contacts.record(Project.find(str(self.folder)).target(target))

    def submit(self, *arguments: str, configuration: str = "local") -> Result:
        """Submit a run and follow it to its end."""
        return self.run("experiment", "submit", "-c", configuration, *arguments)

    def detach(self, *arguments: str, configuration: str = "local") -> str:
        """Submit a run without following it, and return its ID."""
        result = self.run("experiment", "submit", "-c", configuration, "--detach", *arguments)
        assert result.code == 0, result
        return result.out.strip().removeprefix("RunId: ")

    def info(self, run_id: str) -> dict[str, Any]:
        """Return the output of `history info` for a run."""
        result = self.run("history", "info", "--run", run_id)
        assert result.code == 0, result
        information: dict[str, Any] = json.loads(result.out)
        return information

    def history(self) -> list[dict[str, Any]]:
        """Return the output of `history list`."""
        result = self.run("history", "list")
        assert result.code == 0, result
        records: list[dict[str, Any]] = json.loads(result.out)
        return records

    def log(self, run_id: str) -> str:
        """Return the output of the run."""
        result = self.run("logs", run_id)
        assert result.code == 0, result
        return result.out

    def status(self, run_id: str) -> str:
        status: str = self.info(run_id)["status"]
        return status

    def until_status(self, run_id: str, *wanted: str) -> None:
        """Wait until the run has one of the states; a failure shows its last state and reason."""
        try:
            until(lambda: self.status(run_id) in wanted, f"{run_id} to be one of {wanted}")
        except AssertionError as error:
            information = self.info(run_id)
            error.add_note(f"last state: {information['status']}: {information['reason']}")
            raise

    def write(self, script: str, name: str = "train.py") -> None:
        (self.folder / name).write_text(script)

    def run_directory(self, run_id: str) -> Path:
        """Return the run's directory on this machine."""
        return self.folder / ".workbench" / "runs" / run_id

    def cancel_active(self) -> None:
        """Cancel every run that has not ended."""
        for run in Runs(Project.find(str(self.folder))).list():
            if run.is_active:
                self.run("experiment", "cancel", "--run", run.run_id)


def until(condition: Callable[[], Any], what: str = "the condition") -> Any:
    """Wait for a condition and return its value; fail after PATIENCE seconds."""
    return wait_until(condition, what, PATIENCE)


def open_gate(fifo: Path) -> None:
    """Write a line to the reader of a named pipe; fail if there is no reader."""

    def try_to_open() -> int:
        try:
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return 0

    descriptor = until(try_to_open, f"a reader of {fifo}")
    os.write(descriptor, b"go\n")
    os.close(descriptor)


def controller_of(run_directory: Path, *, other_than: int = 0) -> int:
    """Return the process ID of a run's controller, which writes it a moment after the submit has returned."""

    def signed() -> int:
        text = (run_directory / "controller.lock").read_text().strip()
        pid = int(text) if text.isdigit() else 0
        # This process holds the lock while it starts a controller.
        return pid if pid not in (other_than, os.getpid()) and is_running(pid) else 0

    found: int = until(signed, "a controller")
    return found


def kill_controller(run_directory: Path) -> None:
    """Kill a run's controller and wait until it has ended."""
    controller = controller_of(run_directory)
    os.kill(controller, signal.SIGKILL)
    until(lambda: not is_running(controller), "the end of the controller")


@contextlib.contextmanager
def gated_place(folder: Path) -> Iterator[Path]:
    """Yield a folder with the gate `go` of scripts; end all processes that have it as an argument."""
    place = folder / "place"
    place.mkdir()
    os.mkfifo(place / "go")
    yield place
    end_processes_with_argument(place)


def end_processes_with_argument(place: Path) -> None:
    """End every process that has this folder among its arguments; its process ID might have been reused."""
    for entry in PROC.iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and str(place).encode() in (entry / "cmdline").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)


def is_running(pid: int) -> bool:
    """Return True if the process runs; a zombie does not count."""
    try:
        stat = (PROC / f"{pid}/stat").read_text(errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def tree(root: Path) -> dict[str, bytes]:
    """Return every file below `root` with its content, except the workbench's files."""
    found = {}
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name != ".workbench"]
        for name in files:
            path = Path(folder, name)
            found[str(path.relative_to(root))] = path.read_bytes() if path.is_file() else b""
    return found
