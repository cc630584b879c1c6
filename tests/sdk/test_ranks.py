"""The merged output of ranks: each line once, complete and with a prefix; and reports of hanging ranks."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.support import until
from tests.sdk.launching import start
from tui_workbench.runs.logs.rank_files import AGAIN
from tui_workbench.targets.base.run_environment import LAUNCHER
from tui_workbench.targets.values import SDK_FOLDER

if TYPE_CHECKING:
    from types import ModuleType


def load() -> ModuleType:
    """Load the launcher. It finds the module beside it, as when Python starts it."""
    sys.path.insert(0, SDK_FOLDER)
    spec = importlib.util.spec_from_file_location("ranks_under_test", os.path.join(SDK_FOLDER, LAUNCHER))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path.remove(SDK_FOLDER)
    return module


class Clock:
    """The clock of the module: it moves between two reads, so that each read looks for new files."""

    now = 1.0

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


RANKS = load()
CLOCK = Clock()
RANKS.time = CLOCK  # type: ignore[attr-defined]


class Folder:
    """A folder with the output files of ranks, and their merged output."""

    def __init__(self, path: Path, hang_seconds: float = 60.0) -> None:
        self.path = path
        self._merged = path / "merged"
        self._output = os.open(self._merged, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.merger: Any = RANKS.Merger(str(path), self._output, hang_seconds)

    def write(self, name: str, data: bytes) -> None:
        with (self.path / f"{name}.log").open("ab") as file:
            file.write(data)

    def pump(self, *, is_last: bool = False) -> bytes:
        """Merge, and return the new output."""
        before = self._merged.stat().st_size
        CLOCK.now += 1
        self.merger.pump(is_last)
        return self._merged.read_bytes()[before:]

    @property
    def merged(self) -> bytes:
        return self._merged.read_bytes()


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_lines_are_complete_and_have_the_prefix_of_their_rank(folder: Folder) -> None:
    folder.write("0", b"one\ntw")
    folder.write("1", b"\xff\0 raw\n")
    folder.write("torchrun", b"of torchrun\n")
    assert folder.pump() == b"[rank0]: one\n[rank1]: \xff\0 raw\nof torchrun\n"
    folder.write("1", b"between\n")
    assert folder.pump() == b"[rank1]: between\n"
    folder.write("0", b"o\n")
    assert folder.pump() == b"[rank0]: two\n"
    assert folder.pump() == b""


def test_progress_bar_is_shown_while_it_changes(folder: Folder) -> None:
    folder.write("0", b"\r 1%|\r 2%|")
    folder.write("1", b"\r 5%|\r 6%|")
    assert folder.pump() == b"\r[rank0]:  1%|\r\r[rank1]:  5%|\r"
    folder.write("0", b"\r 3%|\n")
    assert folder.pump() == b"[rank0]:  2%|\r[rank0]:  3%|\n"


def test_crlf_is_one_line_end(folder: Folder) -> None:
    folder.write("0", b"one\r")
    assert folder.pump() == b""
    folder.write("0", b"\ntwo\r\n")
    assert folder.pump() == b"[rank0]: one\r\n[rank0]: two\r\n"


def test_prefix_of_torchrun_is_not_repeated(folder: Folder) -> None:
    folder.write("1", b"[rank1]: Traceback (most recent call last):\n[rank0]: of another\n")
    assert folder.pump() == b"[rank1]: Traceback (most recent call last):\n[rank1]: [rank0]: of another\n"


def test_incomplete_last_lines_are_completed(folder: Folder) -> None:
    folder.write("0", b"cut o")
    folder.write("1", b"off")
    assert folder.pump() == b""
    assert folder.pump(is_last=True) == b"[rank0]: cut o\n[rank1]: off\n"


def test_endless_line_has_one_prefix(folder: Folder) -> None:
    endless = b"x" * (RANKS.CHUNK + 5)
    folder.write("0", endless)
    folder.write("1", b"short\n")
    folder.pump()
    folder.write("0", b"\n")
    assert folder.pump(is_last=True).endswith(b"xxxxx\n")
    assert folder.merged.count(b"[rank0]: ") == 1
    assert folder.merged.count(b"x") == len(endless)


PIECES = st.lists(
    st.tuples(st.sampled_from("012"), st.lists(st.sampled_from([b"ab", b"\n", b"\r", b"\xe4", b" "])).map(b"".join)),
    max_size=12,
)


@settings(max_examples=60)
@given(PIECES)
def test_merged_output_holds_every_line_once(pieces: list[tuple[str, bytes]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Folder(Path(name))
        written: dict[str, bytes] = {}
        for rank, data in pieces:
            folder.write(rank, data)
            written[rank] = written.get(rank, b"") + data
            folder.pump()
        folder.pump(is_last=True)
        for rank, data in written.items():
            mark = f"[rank{rank}]: ".encode()
            lines = [line[len(mark) :] for line in folder.merged.splitlines(True) if line.startswith(mark)]
            # A bare carriage return has no prefix.
            expected = [line for line in data.splitlines(True) if line != b"\r"]
            if expected and not expected[-1].endswith((b"\n", b"\r")):
                expected[-1] += b"\n"
            assert lines == expected


def test_hanging_ranks_are_reported_once(tmp_path: Path) -> None:
    folder = Folder(tmp_path, hang_seconds=0.0)
    files = []
    for rank in "012":
        folder.write(rank, b"")
        files.append((tmp_path / f"{rank}.log").open("ab"))
        fcntl.flock(files[-1], fcntl.LOCK_SH)
    assert folder.pump() == b""
    files[0].close()
    assert folder.pump() == b"workbench: ranks 1, 2 have not ended 0 s after the first rank ended\n"
    files[1].close()
    assert folder.pump() == b""
    files[2].close()


@pytest.mark.parametrize(
    ("count", "visible", "own", "threads"),
    [
        ("2", None, None, "1"),
        ("1", None, None, None),
        ("2", None, "6", "6"),
        ("gpu", "0,3", None, "1"),
        ("gpu", "3", None, None),
    ],
)
def test_each_rank_has_one_thread_unless_configured(
    monkeypatch: pytest.MonkeyPatch, count: str, visible: str | None, own: str | None, threads: str | None
) -> None:
    for name, value in (("OMP_NUM_THREADS", own), ("CUDA_VISIBLE_DEVICES", visible), ("PET_LOCAL_ADDR", None)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    command = [
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc_per_node={count}",
        "./-x.py",
        "--nproc_per_node=1",
    ]
    started = RANKS.with_ranks("/run/ranks", command)
    found = os.environ.get("OMP_NUM_THREADS")
    for name in ("OMP_NUM_THREADS", "PET_LOCAL_ADDR"):
        os.environ.pop(name, None)
    assert found == threads
    assert started == [*command[:4], os.path.join(SDK_FOLDER, LAUNCHER), "--as-rank", "/run/ranks", *command[4:]]


@pytest.mark.parametrize(
    ("nvidia", "ids", "rocr", "threads"),
    [
        (0, ("0", "41230"), None, None),
        (0, ("0", "41230", "9921"), None, "1"),
        (0, ("0", "41230", "9921"), "1", None),
        (1, ("0", "41230", "9921"), None, None),
        (2, ("0", "41230"), None, "1"),
        (0, (), None, "1"),
    ],
)
def test_one_gpu_of_the_machine_is_one_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nvidia: int, ids: tuple[str, ...], rocr: str | None,
    threads: str | None,
) -> None:  # fmt: skip
    for number in range(nvidia):
        (tmp_path / f"nvidia{number}").touch()
    for number, gpu_id in enumerate(ids):
        (tmp_path / "nodes" / str(number)).mkdir(parents=True)
        (tmp_path / "nodes" / str(number) / "gpu_id").write_text(f"{gpu_id}\n")
    monkeypatch.setattr(RANKS, "DEVICES", str(tmp_path))
    monkeypatch.setattr(RANKS, "AMD_NODES", str(tmp_path / "nodes"))
    monkeypatch.setenv("PET_LOCAL_ADDR", "127.0.0.1")
    for name in ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    if rocr is not None:
        monkeypatch.setenv("ROCR_VISIBLE_DEVICES", rocr)
    RANKS.with_ranks("/run/ranks", ["-m", "torch.distributed.run", "--nproc_per_node=gpu", "script.py"])
    found = os.environ.pop("OMP_NUM_THREADS", None)
    assert found == threads


@pytest.mark.parametrize(("script", "code"), [("sys.exit(0)", 0), ("sys.exit(3)", 3), ("sys.exit(9)", 128 + 9)])
def test_launcher_exits_with_the_code_of_torchrun(tmp_path: Path, script: str, code: int) -> None:
    done = start(tmp_path, f"import os, sys\nprint(sys.argv, os.getpid() > 0)\nsys.stderr.write('e')\n{script}")
    out, _ = done.communicate(timeout=120)
    assert done.returncode == code
    assert out.splitlines()[0] == b"--standalone --nproc_per_node=2 1 127.0.0.1"
    assert sorted(out.splitlines()[1:]) == [
        b"[rank%d]: %s" % (rank, text) for rank in (0, 1) for text in (b"['script.py', '-x'] True", b"e")
    ]
    assert (tmp_path / "ranks" / "1.log").read_bytes() == b"['script.py', '-x'] True\ne"


@pytest.mark.parametrize(("own", "expected"), [(None, b"600"), ("7", b"7")])
def test_ranks_have_time_to_save_after_a_signal(tmp_path: Path, own: str | None, expected: bytes) -> None:
    name = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"
    done = start(tmp_path, f"import os; print(os.environ['{name}'])", **({} if own is None else {name: own}))
    assert done.communicate(timeout=120)[0].count(b"]: %s\n" % expected) == 2


def test_second_start_of_a_job_copies_only_new_lines(tmp_path: Path) -> None:
    start(tmp_path, "print('first')").communicate(timeout=120)
    out, _ = start(tmp_path, "print('second')").communicate(timeout=120)
    assert sorted(out.splitlines()[1:]) == [b"[rank0]: second", b"[rank1]: second"]
    assert (tmp_path / "ranks" / "0.log").read_bytes() == b"first\nsecond\n"


def torchrun_log(folder: Path) -> bytes:
    """Return the output of torchrun in the last attempt."""
    return (folder / "torchrun.log").read_bytes().rpartition(AGAIN.encode())[2]


def test_attempts_are_separate_in_the_log_of_torchrun(tmp_path: Path) -> None:
    outputs = [start(tmp_path, "").communicate(timeout=120)[0] for _ in range(2)]
    assert (tmp_path / "ranks" / "torchrun.log").read_bytes() == AGAIN.encode().join(outputs)


def test_log_of_a_node_of_an_earlier_attempt_is_closed(tmp_path: Path) -> None:
    folder = tmp_path / "ranks"
    (folder / "old").mkdir(parents=True)
    (folder / "old" / "torchrun.log").write_bytes(b"of attempt 1\n")
    for each in start_nodes(tmp_path, ""):
        each.communicate(timeout=120)
    assert torchrun_log(folder / "old") == b""
    assert torchrun_log(folder / "two").startswith(b"--standalone")


# --- Several nodes that share a folder. Here, they are processes of one machine.


BLANK = b"%31s\n" % b""
"""The content of `exit` while torchrun is running on a node."""


def start_nodes(folder: Path, script: str) -> tuple[subprocess.Popen[bytes], ...]:
    """Start the launcher on two nodes, as the batch script of a job does."""
    offsets = []
    for name in ("one", "two"):
        (folder / "ranks" / name).mkdir(parents=True, exist_ok=True)
        (folder / "ranks" / name / "exit").write_bytes(BLANK)
        log = folder / "ranks" / name / "output.log"
        log.touch()
        offsets.append(f"{name}:{log.stat().st_size}")
    shared = {"WORKBENCH_NODES": " ".join(offsets)}
    first = start(folder, script, **shared, WORKBENCH_NODE="one")
    return first, start(folder, script, **shared, WORKBENCH_NODE="two", FIRST_RANK="2")


@pytest.mark.processes
def test_first_node_copies_the_lines_of_all_nodes(tmp_path: Path) -> None:
    script = "import os\nprint(os.environ['RANK'], os.environ['WORKBENCH_NODE'], 'WORKBENCH_NODES' in os.environ)"
    for _ in range(2):  # the second time, only new lines are copied
        first, second = start_nodes(tmp_path, script)
        out, other = first.communicate(timeout=120)[0], second.communicate(timeout=120)[0]
        assert (first.returncode, second.returncode, other) == (0, 0, b"")
        lines = [line for line in out.splitlines() if line.startswith(b"[rank")]
        assert sorted(lines) == [
            b"[rank0]: 0 one False", b"[rank1]: 1 one False", b"[rank2]: 2 two False", b"[rank3]: 3 two False",
        ]  # fmt: skip
        assert b"--standalone --nproc_per_node=2 1 two\n" in out
    folder = tmp_path / "ranks" / "two"
    assert sorted(os.listdir(folder)) == ["2.log", "3.log", "exit", "output.log", "torchrun.log"]
    assert folder.joinpath("output.log").read_bytes().count(b"[rank3]: 3 two False\n") == 2


class TwoNodes:
    """The folders of two nodes; the launcher of the first one runs in this process."""

    def __init__(self, path: Path) -> None:
        for name in ("one", "two"):
            (path / name).mkdir()
            (path / name / "output.log").touch()
            (path / name / "exit").write_bytes(BLANK)
        self.other = path / "two"
        self.own_exit = path / "one" / "exit"
        self.log = os.open(path / "one" / "output.log", os.O_WRONLY | os.O_APPEND)
        self._merged = path / "merged"
        output = os.open(self._merged, os.O_WRONLY | os.O_CREAT)
        self.nodes: Any = RANKS.Nodes(str(path), "one", [("one", 0), ("two", 0)], output, self.log)

    def pump(self) -> bytes:
        CLOCK.now += 1
        self.nodes.pump()
        return self._merged.read_bytes()


@pytest.fixture
def two_nodes(tmp_path: Path) -> TwoNodes:
    return TwoNodes(tmp_path)


@pytest.mark.parametrize(
    ("text", "has_failed"), [("", False), ("0", False), ("143 after a signal", False), ("143", True), ("1", True)]
)
def test_signaled_node_has_not_failed(two_nodes: TwoNodes, text: str, has_failed: bool) -> None:
    (two_nodes.other / "exit").write_text(f"{text}\n")
    assert two_nodes.nodes.has_failed() is has_failed


def test_files_of_another_node_can_be_missing_for_a_while(two_nodes: TwoNodes) -> None:
    for name in ("output.log", "exit"):
        (two_nodes.other / name).rename(two_nodes.other / f"hidden {name}")
    assert not two_nodes.nodes.has_failed()
    assert two_nodes.pump() == b""
    (two_nodes.other / "output.log").write_bytes(b"[rank2]: here\n")
    assert two_nodes.pump() == b"[rank2]: here\n"


def test_exit_code_that_cannot_be_written_is_no_failure(two_nodes: TwoNodes) -> None:
    (two_nodes.other / "exit").write_text("0\n")
    two_nodes.own_exit.unlink()
    two_nodes.own_exit.symlink_to("/dev/full")
    two_nodes.nodes.end(0, False)


def test_log_is_stored_before_the_exit_code(two_nodes: TwoNodes, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = []
    monkeypatch.setattr(os, "fsync", lambda file: stored.append((file, two_nodes.own_exit.read_bytes())))
    (two_nodes.other / "exit").write_text("0\n")
    os.write(two_nodes.log, b"[rank0]: last words\n")
    two_nodes.nodes.end(0, False)
    assert stored == [(two_nodes.log, BLANK)]


def test_first_node_waits_for_the_output_of_the_others(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    waits = f"while os.environ['RANK'] > '1' and not os.path.exists({str(gate)!r}):\n    time.sleep(0.02)\n"
    first, second = start_nodes(tmp_path, f"import os, time\n{waits}print('done')\n")
    until(lambda: (tmp_path / "ranks" / "one" / "exit").read_bytes().strip(), "the end of torchrun on the first node")
    assert first.poll() is None
    gate.touch()
    out, _ = first.communicate(timeout=120)
    second.communicate(timeout=120)
    assert (second.returncode, out.count(b"]: done\n")) == (0, 4)


def test_failing_node_gives_the_others_time_to_write(tmp_path: Path) -> None:
    """The exit of a launcher makes srun kill the launchers of the other nodes."""
    script = "import os, sys\nif os.environ['RANK'] == '0':\n    sys.exit('broken')\nprint('last words')\n"
    first, second = start_nodes(tmp_path, script)
    out, _ = first.communicate(timeout=120)
    assert first.returncode == 1
    assert (tmp_path / "ranks" / "one" / "exit").read_bytes() == b"1".ljust(31) + b"\n"
    assert b"[rank0]: broken\n" in out
    assert out.count(b"last words\n") == 3
    second.communicate(timeout=120)
    assert second.returncode == 0


DEAF = """
import os, signal, sys, time
signal.signal(15, signal.SIG_IGN)
print("up")
while not os.path.exists("gate"):
    time.sleep(0.02)
if os.environ["RANK"] == "1":
    sys.exit(3)
time.sleep(600)
"""


@pytest.mark.processes
def test_ranks_that_ignore_sigterm_are_killed_after_a_failure(tmp_path: Path) -> None:
    done = start(tmp_path, DEAF, ENDS_OTHERS="1")
    logs = [tmp_path / "ranks" / name for name in ("0.log", "1.log")]
    until(lambda: all(log.exists() and log.read_bytes() == b"up\n" for log in logs), "both ranks")
    (tmp_path / "gate").touch()
    done.communicate(timeout=120)
    assert done.returncode == 9  # of the killed rank, with this stand-in


@pytest.mark.processes
def test_nodes_wait_for_each_other_after_a_signal(tmp_path: Path) -> None:
    """One node may be saving the state of the run, and the exit of another would make srun kill it."""
    gate = tmp_path / "gate"
    waits = f"while not os.path.exists({str(gate)!r}):\n        time.sleep(0.02)\n"
    saves = f"def save(*_):\n    {waits}    sys.exit('saved')\n"
    script = f"import os, signal, sys, time\n{saves}if os.environ['RANK'] == '0':\n    signal.signal(15, save)\n"
    both = start_nodes(tmp_path, f"{script}print('up')\ntime.sleep(600)\n")
    logs = [tmp_path / "ranks" / name for name in ("one/output.log", "two/output.log")]
    until(lambda: all(log.read_bytes().count(b"up") == 2 for log in logs), "all ranks")
    for each in both:
        each.terminate()
    ended = tmp_path / "ranks" / "two" / "exit"
    until(lambda: ended.read_bytes().strip() == b"15 after a signal", "the end of a node")
    assert both[1].poll() is None
    gate.touch()
    out, _ = both[0].communicate(timeout=120)
    both[1].communicate(timeout=120)
    assert b"[rank0]: saved\n" in out


def test_launcher_forwards_sigterm_and_merges_the_last_output(tmp_path: Path) -> None:
    waits = "import signal, sys, time\nsignal.signal(15, lambda *_: sys.exit('last words'))\nprint('up')\n"
    done = start(tmp_path, f"{waits}time.sleep(60)")
    assert done.stdout is not None
    seen = b""
    while seen.count(b"up\n") < 2:
        seen += os.read(done.stdout.fileno(), 1000)
    done.terminate()
    out, _ = done.communicate(timeout=120)
    assert (done.returncode, sorted(out.splitlines())) == (1, [b"[rank0]: last words", b"[rank1]: last words"])
