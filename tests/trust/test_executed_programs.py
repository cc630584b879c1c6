"""Commands that look at a received project execute no program of it. `strace` lists the programs that are executed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import require
from tests.faults.support import COMMAND
from tests.targets.conftest import connections as connections
from tests.targets.conftest import gpubox as gpubox
from tests.targets.conftest import key as key
from tests.targets.conftest import ssh_folder as ssh_folder
from tests.targets.remote_fixtures import PYTHON_THERE
from tests.terminal.tmux import Tmux
from tests.trust.hostile import READING, fingerprint
from tests.trust.hostile_git import Received, unknown_program_keys
from tests.trust.open_screens import NOT_OPENED, all_screens
from tests.waiting import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.machines import Machine

ALLOWED = frozenset(
    (
        "amd-smi", "docker", "git", "lsb_release", "nvidia-smi", "ps", "readlink", "rocm-smi", "ssh",
        "ssh-keygen", "tmux", "uv", "which",
        "timedatectl",  # `doctor` asks whether the clock is synchronized
        # the tools of shell scripts
        "awk", "basename", "cat", "cut", "dash", "date", "df", "dirname", "env", "expr", "find", "getconf", "grep",
        "head", "hostname", "id", "ls", "mawk", "sed", "sh", "sleep", "sort", "stat", "tail", "test", "timeout", "tr",
        "uname", "wc",
    )
)  # fmt: skip
"""The names of system programs that reading commands may execute, besides the interpreters of the workbench."""

SYSTEM = ("/usr/", "/bin/", "/sbin/", "/lib")

LOOKING = (
    *READING,
    ("history", "list", "git.branch=master"),
    ("history", "compare", "1", "2", "--diff"),
    ("gpu", "list"),
    ("gpu", "reservations"),
    ("doctor",),
    ("agent-guide",),
    *(
        ("experiment", "submit", "-c", name, "--dry-run", "hello.py")
        for name in (
            "local", "beside", "outside", "venv", "linked", "bare", "engine", "box0", "box1", "box2", "box3", "box4",
            "local-managed", "beside-managed", "venv-managed", "linked-managed", "bare-managed",
        )
    ),
    ("experiment", "rerun", "--run", "1", "--dry-run"),
    ("experiment", "sweep", "-c", "local", "--param", "lr=1,2", "--dry-run", "hello.py"),
    ("experiment", "clean", "--dry-run"),
)  # fmt: skip

_CALL = re.compile(r'execve(?:at)?\([^"]*"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?')


@pytest.fixture
def ssh_of_the_user(home: Path) -> None:
    """The usual configuration of a user whose machines are behind a bastion."""
    folder = home / ".ssh"
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "config").write_text("Host *.corp\n  ProxyCommand ssh -o BatchMode=yes -W %h:%p bastion.invalid\n")


@pytest.fixture
def lfs_of_the_user(home: Path) -> None:
    require("git-lfs")
    subprocess.run(["git", "lfs", "install"], cwd=home, check=True, capture_output=True)


class Traced:
    """Commands under strace, with the current folder and `bin` of the project on the PATH."""

    def __init__(self, received: Received, log: Path) -> None:
        self.received = received
        self.log = log
        self.strace = [
            require("strace"), "-f", "-I", "2", "-qq", "-xx", "-s", "8192", "-e", "trace=execve,execveat",
            "-e", "signal=none", "-o", str(log),
        ]  # fmt: skip
        root = received.root
        self.path = f":.:bin:{root}/bin:{root}:{os.environ['PATH']}:"

    def run(self, *arguments: str) -> str:
        """Run a command to its end, and return its output."""
        command = [*self.strace, *COMMAND, *arguments]
        environment = {**os.environ, "PATH": self.path}
        done = subprocess.run(
            command, cwd=self.received.root, env=environment, capture_output=True, text=True, errors="replace",
            stdin=subprocess.DEVNULL, timeout=PATIENCE, check=False,
        )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout + done.stderr

    def executed(self) -> list[str]:
        """Return the files that were executed, or that a program tried to execute."""
        calls = [_CALL.search(line) for line in self.log.read_text().splitlines() if "exec" in line]
        found = [bytes.fromhex(call[1].replace("\\x", "")) for call in calls if call is not None]
        assert found, "strace found nothing"
        return [os.fsdecode(path) for path in found]

    def check(self, what: object) -> None:
        """Assert that only allowed programs were executed."""
        assert not self.received.canary.exists(), (what, self.received.canary.read_text())
        assert self.refused() == [], what

    def refused(self) -> list[str]:
        """Return the executed files that are not allowed."""
        return [path for path in self.executed() if not self.is_allowed(path)]

    def is_allowed(self, path: str) -> bool:
        if not os.path.isabs(path) or any(
            each == forbidden or each.startswith(f"{forbidden}/")
            for each in (os.path.normpath(path), os.path.realpath(path))
            for forbidden in self.received.forbidden
        ):
            return False
        if os.path.realpath(path) == os.path.realpath(sys.executable):
            return True
        name = os.path.basename(path)
        is_python = re.fullmatch(r"(?:python|pypy)[\d.]*", name) is not None
        folders = [os.path.realpath(folder) for folder in os.environ["PATH"].split(":") if os.path.isabs(folder)]
        is_known = path.startswith(SYSTEM) or os.path.realpath(os.path.dirname(path)) in folders
        return is_known and (is_python or name in ALLOWED or not os.path.exists(path))


@pytest.fixture
def received(tmp_path: Path, home: Path, lfs_of_the_user: None) -> Received:
    return Received(tmp_path)


@pytest.fixture
def traced(received: Received, tmp_path: Path) -> Traced:
    return Traced(received, tmp_path / "strace.log")


def test_every_key_of_git_that_names_a_program_is_known() -> None:
    """After an update of git: add new keys to PROGRAM_KEYS or OTHER_KEYS."""
    assert unknown_program_keys() == []


@pytest.mark.system
def test_traps_work(received: Received) -> None:
    """Git itself executes those of each scope."""
    for command in ("status", "diff"):
        # The filter of git-lfs would wait for its extension.
        lfs = ("filter.lfs.process=", "filter.lfs.clean=cat", "filter.lfs.required=false")
        words = ["git", "--no-pager", *(word for setting in lfs for word in ("-c", setting)), command]
        subprocess.run(words, cwd=received.root, capture_output=True, stdin=subprocess.DEVNULL, timeout=PATIENCE)
    ran = received.canary.read_text()
    scopes = ("config", "config.worktree", "include.inc", "gitdir.inc", "gitdir-case.inc", "branch.inc", "remote.inc")
    assert [scope for scope in scopes if f"/{scope}-filter-clean" not in ran] == []
    assert "core-fsmonitor" in ran


@pytest.mark.system
def test_strace_finds_a_trap(received: Received, traced: Traced) -> None:
    python = received.root / "bin" / "python3"
    subprocess.run([*traced.strace, str(python)], check=True, stdin=subprocess.DEVNULL, capture_output=True)
    assert [path for path in traced.executed() if not traced.is_allowed(path)] == [str(python)]


@pytest.mark.system
@pytest.mark.timeout(1200)
def test_reading_commands(traced: Traced, ssh_of_the_user: None) -> None:
    before = fingerprint(traced.received.root)
    found = {}
    for command in LOOKING:
        traced.run(*command)
        if refused := traced.refused():
            found[command] = refused
        assert not traced.received.canary.exists(), (command, traced.received.canary.read_text())
    assert found == {}
    assert fingerprint(traced.received.root) == before


@contextlib.contextmanager
def screens(traced: Traced, home: Path) -> Iterator[Tmux]:
    environment = {"HOME": str(home)}
    command = ["env", f"PATH={traced.path}", *traced.strace, *COMMAND, str(traced.received.root)]
    with Tmux(command, size=(160, 45), name=f"{os.getpid()}-traced", environment=environment) as terminal:
        terminal.until_text("1 Files", "2 Compute targets", "5 Jobs")
        yield terminal


def go(terminal: Tmux, key: str, *texts: str) -> None:
    """Press a key until the screen shows the texts. Directly after Escape, a terminal reports Alt and the key."""
    for _ in range(5):
        terminal.press(key)
        with contextlib.suppress(AssertionError):
            wait_until(lambda: all(text in terminal.text() for text in texts), seconds=5.0)
            return
    terminal.until_text(*texts)


@pytest.mark.system
@pytest.mark.timeout(900)
def test_screens(traced: Traced, home: Path, ssh_of_the_user: None) -> None:
    with screens(traced, home) as terminal:
        wait_until(lambda: any(path.endswith("/git") for path in traced.executed()), "the count of changed files")
        for pane in "12345":
            terminal.press(pane, "z", "Down", "z")
            go(terminal, "Escape", "6 All runs")
        go(terminal, "6", "Details", "Mark", "unknown")
        go(terminal, "Enter", "Snapshot", "Environment")
        terminal.press("Tab", "Right", "Right", "Right", "Right")
        go(terminal, "Escape", "Details", "Mark")
        terminal.press("Space", "Down", "Space")
        go(terminal, "c", "Equal rows")
        go(terminal, "Escape", "Details", "Mark")
        go(terminal, "Escape", "1 Files", "5 Jobs", "6 All runs")
        go(terminal, "7", "machines unavailable", "Diagnose")
        go(terminal, "Escape", "1 Files", "5 Jobs", "6 All runs")
        go(terminal, "8", "git")
        go(terminal, "Escape", "1 Files", "5 Jobs", "6 All runs")
        terminal.press("1", "Down", "Down", "Enter")
        go(terminal, "Escape", "1 Files", "5 Jobs")
        go(terminal, "q", "left-with-0")
    traced.check("the screens")


@pytest.mark.system
@pytest.mark.timeout(1200)
def test_every_screen_and_dialog(traced: Traced, ssh_of_the_user: None) -> None:
    before = fingerprint(traced.received.root)
    # The package of the tests is found on the path of this process, and not in the project.
    command = [*traced.strace, sys.executable, "-P", "-m", "tests.trust.open_screens", str(traced.received.root)]
    environment = {**os.environ, "PATH": traced.path, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        command, cwd=traced.received.root, env=environment, capture_output=True, text=True, timeout=900, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == all_screens() - NOT_OPENED.keys()
    traced.check("each screen and dialog")
    assert fingerprint(traced.received.root) == before


def test_submit_to_another_machine(
    tmp_path: Path, home: Path, lfs_of_the_user: None, gpubox: Machine, ssh_folder: Path
) -> None:
    remote = {
        "type": "remote", "address": gpubox.address, "username": "research", "pythonLocation": PYTHON_THERE,
    }  # fmt: skip
    received = Received(tmp_path, remote)
    traced = Traced(received, tmp_path / "strace.log")
    (received.root / "hello.py").write_text("print('hello')\n")
    command = [*traced.strace, *COMMAND, "experiment", "submit", "-c", "machine", "hello.py"]
    process = subprocess.Popen(command, cwd=received.root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    runs = received.root / ".workbench" / "runs"
    try:
        wait_until(lambda: _ended(runs), "the end of the run, with its provenance")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=PATIENCE)
        shutil.rmtree(gpubox.home() / ".workbench-tui", ignore_errors=True)
    traced.check("a run on another machine")
    (provenance,) = runs.glob("*/provenance.json")
    assert json.loads(provenance.read_text())["git"]["changed"]


def _ended(runs: Path) -> bool:
    return any('"completed"' in (each.parent / "events.jsonl").read_text() for each in runs.glob("*/provenance.json"))


@pytest.mark.system
async def test_tools_of_agents(traced: Traced) -> None:
    mcp = pytest.importorskip("mcp")
    from mcp.client.stdio import StdioServerParameters

    root = str(traced.received.root)
    words = [*traced.strace[1:], *COMMAND, "mcp", "--project", root]
    server = StdioServerParameters(
        command=traced.strace[0], args=words, env={**os.environ, "PATH": traced.path}, cwd=root
    )
    async with mcp.Client(server) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        calls = {
            "list_targets": {}, "list_configurations": {}, "list_runs": {}, "get_limits": {}, "get_run": {"run": "1"},
            "get_configuration": {"configuration": "local"}, "get_verdict": {"run": "1"}, "read_log": {"run": "1"},
            "wait_for_run": {"run": "1", "seconds": 1}, "compare_runs": {"runs": ["1", "2"]},
        }  # fmt: skip
        assert set(calls) < tools
        for name, arguments in calls.items():
            await client.call_tool(name, arguments)
        for name in ("local", "beside", "venv", "linked-managed", "beside-managed", "engine", "box0", "box1"):
            await client.call_tool("plan_run", {"configuration": name, "script": "hello.py"})
    traced.check("the tools of agents")
