"""Runs under torchrun on this machine with real ranks: output, end and reason."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from pathlib import Path

import pytest

from tests.conftest import write_project
from tests.faults.support import Workbench, is_running, until
from tests.runs.metrics.support import curve, read
from tui_workbench.core.causes import CANCELED, Cause, Causes, exit_causes, plain
from tui_workbench.core.errors import UsageError
from tui_workbench.core.model import RunState
from tui_workbench.runs.logs import rank_files
from tui_workbench.runs.logs.rank_files import AGAIN, file_of_rank, rank_log, ranks_by_node, ranks_of
from tui_workbench.runs.logs.ranks import TAIL_BYTES, cause_of, read_ranks, with_cause
from tui_workbench.runs.store.rundir import Ending, RunDirectory

TRAIN = """\
import os, sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(total)
sys.stdout.buffer.write(b"raw \\xff\\0 bytes\\r\\n")
for epoch in range(1, 4):
    print(f"epoch {epoch}/3  loss {0.5 / epoch:.4f}")
print(f"sum {total.item()} of {dist.get_world_size()}", os.environ["OMP_NUM_THREADS"], sys.argv[1:], file=sys.stderr)
sys.stdout.write(f"the end of {dist.get_rank()}")
sys.stdout.flush()
dist.destroy_process_group()
"""

RANK = """\
import os, signal, sys, time
rank = int(os.environ["RANK"])
print(f"rank {rank} is {os.getpid()}", flush=True)
"""


@pytest.fixture
def workbench(tmp_path: Path) -> Workbench:
    """Return a project whose scripts run as two ranks."""
    root = write_project(tmp_path / "project")
    with (root / "aml_config" / "local.runconfig").open("a") as file:
        file.write("ProcessesPerNode: 2\n")
    (root / "train.py").write_text(TRAIN)
    return Workbench(root, {"OMP_NUM_THREADS": "1"})


def script(workbench: Workbench, text: str) -> str:
    (workbench.folder / "rank.py").write_text(RANK + text)
    return "rank.py"


def directory_of(workbench: Workbench, run_id: str) -> Path:
    return workbench.folder / ".workbench" / "runs" / run_id


def pids(directory: Path) -> list[int]:
    """Wait for and return the process IDs of both ranks."""

    def told() -> list[int]:
        words = [Path(rank_log(str(directory), rank)) for rank in (0, 1)]
        texts = [path.read_text() for path in words if path.exists()]
        return [int(text.split("\n")[0].split()[-1]) for text in texts if "\n" in text]

    found: list[int] = until(lambda: told() if len(told()) == 2 else [], "both ranks")
    return found


@pytest.mark.processes
def test_two_ranks_with_gloo(workbench: Workbench, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    workbench.environment["TMPDIR"] = str(scratch)
    arguments = ("a b", "", "--nproc_per_node=9", "-h", "--", "-x")
    with socket.socket() as first, socket.socket() as second:
        # The ports that older versions of torchrun used.
        for taken, port in ((first, 29400), (second, 29500)):
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):  # another process uses it, with the same effect
                taken.bind(("127.0.0.1", port))
                taken.listen()
        result = workbench.submit("train.py", *arguments)
    assert result.code == 0, result
    (directory,) = (workbench.folder / ".workbench" / "runs").iterdir()
    assert ranks_of(str(directory)) == (0, 1)
    assert sorted(os.listdir(directory / "ranks")) == ["0.log", "1.log", "torchrun.log"]
    assert not list(scratch.iterdir())
    for rank in (0, 1):
        written = Path(rank_log(str(directory), rank)).read_bytes()
        assert written.startswith(b"raw \xff\0 bytes\r\nepoch 1/3") or b"\nraw \xff\0 bytes\r\n" in written
        assert f"sum 3.0 of 2 1 {list(arguments)}\n".encode() in written
        assert written.endswith(f"the end of {rank}".encode())
        merged = (directory / "output.log").read_bytes()
        for line in written.splitlines(True):
            assert f"[rank{rank}]: ".encode() + line.rstrip(b"\r\n") in merged
    assert workbench.run("logs", "1", "--rank", "1").out.endswith("the end of 1")
    assert workbench.run("logs", "1", "--rank", "all").out == workbench.log("1")
    assert workbench.run("logs", "1", "--rank", "2").error(2, "the run has no rank 2", "Choose one of: 0, 1.")
    # Both ranks print the same metrics: one of them counts.
    assert [value for _, value in curve(read(directory), "loss")] == [0.5, 0.25, 0.1667]
    assert "ranks/0.log, ranks/1.log, ranks/torchrun.log" in workbench.info("1")["attachments"]


def test_plan_shows_the_torchrun_command(workbench: Workbench) -> None:
    out = workbench.run("experiment", "submit", "-c", "local", "--dry-run", "train.py", "-x").out
    assert "under torchrun, 2 processes" in out
    assert "/ranks -m torch.distributed.run --standalone --nproc_per_node=2 train.py -x\n" in out


@pytest.mark.processes
def test_reason_is_the_exception_of_the_first_failed_rank(workbench: Workbench) -> None:
    # Rank 0 fails later, like a rank whose connection to another rank breaks.
    fails = "signal.signal(15, lambda *_: sys.exit(4))\nif rank: raise ValueError('shapes')\ntime.sleep(60)\n"
    result = workbench.submit(script(workbench, fails))
    assert result.code == 1
    assert "failed: rank 1: ValueError: shapes (rank.py:5)\n" in result.err


@pytest.mark.processes
def test_killed_rank_is_the_reason(workbench: Workbench) -> None:
    run_id = workbench.detach(
        script(workbench, "sys.stdout.write('half a line')\nsys.stdout.flush()\ntime.sleep(60)\n")
    )
    directory = directory_of(workbench, run_id)
    first, second = pids(directory)
    os.kill(second, signal.SIGKILL)
    until(lambda: workbench.info(run_id)["end_time_utc"], "its end")
    told = workbench.info(run_id)
    assert (told["status"], "rank 1 was killed by signal 9 (SIGKILL)" in told["reason"]) == ("Failed", True)
    assert not is_running(first)
    assert "[rank1]: half a line\n" in (directory / "output.log").read_text()


@pytest.mark.processes
def test_cancel_ends_every_rank(workbench: Workbench) -> None:
    stubborn = "signal.signal(15, signal.SIG_IGN)\nprint('deaf', flush=True)\ntime.sleep(60)\n"
    run_id = workbench.detach(script(workbench, stubborn))
    directory = directory_of(workbench, run_id)
    ranks = pids(directory)
    until(lambda: all("deaf" in Path(rank_log(str(directory), rank)).read_text() for rank in (0, 1)), "deaf ranks")
    assert workbench.run("experiment", "cancel", "--run", run_id, "--grace", "0.2").code == 0
    assert workbench.info(run_id)["status"] == "Canceled"
    assert not any(map(is_running, ranks))


def test_single_process_run_has_no_ranks(project_root: Path) -> None:
    workbench = Workbench(project_root)
    workbench.submit("hello.py")
    workbench.run("logs", "1", "--rank", "0").error(2, "the run has no ranks", "ProcessesPerNode")
    assert workbench.run("logs", "1", "--rank", "all").out == "hello\n"
    workbench.run("logs", "1", "--rank", "one").error(2, "'one' is not a rank")


# --- Messages of different versions of torchrun

SUMMARY = """\
Traceback (most recent call last):
  File "run.py", line 1, in <module>
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
rank.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-20_10:57:25
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 10266)  (SIGTERM)
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-20_10:57:25
  host      : box
  rank      : 3 (local_rank: 3)
  exitcode  : {code} (pid: 10267)
  error_file: <N/A>
============================================================
"""
OLD = """\
***************************************
          rank.py FAILED
=======================================
Root Cause:
[0]:
  time: 2021-06-20_10:57:25
  rank: 3 (local_rank: 3)
  exitcode: {code} (pid: 10267)
  error_file: <N/A>
  msg: "Process failed with exitcode 1"
=======================================
"""


FAILED = exit_causes(1)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "ranks").mkdir()
    return tmp_path


def reason(run: Path, torchrun: str, rank: str = "", told: Causes = FAILED) -> str:
    (run / "ranks" / "torchrun.log").write_text(torchrun)
    (run / "ranks" / "3.log").write_text(rank)
    return with_cause(str(run), Ending(RunState.FAILED, told, 1, 5.0)).reason


@pytest.mark.parametrize("summary", [SUMMARY, OLD], ids=["2.13", "1.9"])
def test_root_cause_is_parsed(run: Path, summary: str) -> None:
    assert reason(run, summary.format(code=5), "bye\n") == "rank 3: exit code 5"
    assert reason(run, summary.format(code=-11)) == "rank 3 was killed by signal 11 (SIGSEGV)"
    cause = cause_of(str(run))
    assert cause is not None
    assert (cause.rank, cause.code) == (3, -11)


def test_rest_of_the_reason_is_kept(run: Path) -> None:
    told = (*exit_causes(1), *plain("the disk of box is full"))
    assert reason(run, SUMMARY.format(code=2), told=told) == "rank 3: exit code 2; the disk of box is full"
    assert reason(run, SUMMARY.format(code=2), told=plain("ended by a policy")) == "ended by a policy"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("Traceback\nValueError: Cuda is not available.\n", "ProcessesPerNode is gpus, but PyTorch sees no GPU"),
        (
            "python: Error while finding module specification for 'torch.distributed.run' "
            "(ModuleNotFoundError: No module named 'torch')\n",
            "the Python of the run has no PyTorch; install torch in it",
        ),
        (
            "python: No module named torch.distributed.run\n",
            "the PyTorch of the run is older than 1.9, the first version with torchrun",
        ),
        (
            "Traceback\ntorch.distributed.DistNetworkError: port: 29500, EADDRINUSE\n",
            "torchrun: torch.distributed.DistNetworkError: port: 29500, EADDRINUSE",
        ),
        ("nothing of the kind\n", "exit code 1"),
    ],
)  # fmt: skip
def test_torchrun_can_fail_itself(run: Path, words: str, expected: str) -> None:
    assert reason(run, words) == expected


def test_torchrun_can_be_killed(run: Path) -> None:
    (run / "ranks" / "torchrun.log").touch()
    ending = with_cause(str(run), Ending(RunState.FAILED, exit_causes(143), 143))
    assert ending.reason == "torchrun was killed by signal 15 (SIGTERM)"


def test_only_failures_are_explained(run: Path) -> None:
    (run / "ranks" / "torchrun.log").write_text(SUMMARY.format(code=1))
    for ending in (Ending(RunState.COMPLETED, (), 0), Ending(RunState.CANCELED, (Cause(CANCELED),), 143)):
        assert with_cause(str(run), ending) == ending


RAISED = 'Traceback (most recent call last):\n  File "train.py", line 4, in <module>\n    step()\n{}\n'
CLOSED = RAISED.format("RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.2]:4242")
ABOUT = (
    "Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-26_04:39:{second}\n  host      : localhost\n"
    "  rank      : {rank} (local_rank: 0)\n  exitcode  : {code} (pid: 7)\n"
)


def on_nodes(run: Path, *nodes: tuple[str, int, str, int, str]) -> str:
    """Write the logs of nodes (name, first failed rank, second, exit code, output of the rank); return the reason."""
    for name, rank, second, code, written in nodes:
        folder = run / "ranks" / name
        folder.mkdir()
        (folder / "output.log").touch()
        (folder / "torchrun.log").write_text(ABOUT.format(second=second, rank=rank, code=code))
        (folder / f"{rank}.log").write_text(written)
    return with_cause(str(run), Ending(RunState.FAILED, exit_causes(1), 1, 5.0)).reason


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # A rank that has lost the connection did not fail first, even if its torchrun noticed it first.
        (("19", 1, CLOSED), ("20", 1, RAISED.format("ValueError: bad")), "rank 3 on b: ValueError: bad (train.py:4)"),
        (("19", -6, "NCCL watchdog\n"), ("19", -9, ""), "rank 3 on b was killed by signal 9 (SIGKILL)"),
        (("19", 1, RAISED.format("ValueError: a")), ("19", 1, CLOSED), "rank 0 on a: ValueError: a (train.py:4)"),
        (("20", 7, ""), ("19", 8, ""), "rank 3 on b: exit code 8"),
    ],
)
def test_first_failed_rank_of_several_nodes(
    run: Path, first: tuple[str, int, str], second: tuple[str, int, str], expected: str
) -> None:
    assert on_nodes(run, ("a", 0, *first), ("b", 3, *second)).startswith(expected)


def begin_attempt(run: Path, *nodes: str) -> None:
    for node in nodes:
        with (run / "ranks" / node / "torchrun.log").open("a") as file:
            file.write(AGAIN)


def test_cause_of_an_earlier_attempt_is_ignored(run: Path) -> None:
    assert reason(run, SUMMARY.format(code=5)) == "rank 3: exit code 5"
    begin_attempt(run, "")
    assert cause_of(str(run)) is None
    killed = with_cause(str(run), Ending(RunState.FAILED, exit_causes(143), 143))
    assert killed.reason == "torchrun was killed by signal 15 (SIGTERM)"


def test_nodes_of_an_earlier_attempt_are_ignored(run: Path) -> None:
    on_nodes(run, ("a", 0, "10", 7, ""))
    begin_attempt(run, "a")
    assert on_nodes(run, ("b", 0, "20", 8, "")) == "rank 0 on b: exit code 8"


@pytest.mark.parametrize("text", ["Root Cause\n  rank : 1\n", "Root Cause\n" + " " * 99, "\n rank : 1" * 2])
def test_crafted_output_of_torchrun_is_read_quickly(run: Path, text: str) -> None:
    begin = time.process_time()
    assert reason(run, text * (TAIL_BYTES // len(text))) == "exit code 1"
    assert time.process_time() - begin < 1.0


def test_many_ranks_are_found_quickly(run: Path) -> None:
    for number in range(3000):
        (run / "ranks" / f"{number}.log").touch()
    begin = time.process_time()
    assert read_ranks(str(run)).numbers == tuple(range(3000))
    assert time.process_time() - begin < 1.0


def test_number_of_ranks_is_limited(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_files, "MOST_RANKS", 3)
    on_nodes(run, ("a", 0, "1", 1, ""), ("b", 3, "1", 1, ""))
    for name in ("2.log", "1.log", "5.log", "02.log", "x.log", f"{'1' * 200}.log"):
        (run / "ranks" / "b" / name).touch()
    assert ranks_by_node(str(run)) == {"a": (0,), "b": (1, 2)}


def test_unreachable_first_node_is_reported(run: Path) -> None:
    (run / "ranks" / "b").mkdir()
    (run / "ranks" / "b" / "output.log").touch()
    said = "Traceback\ntorch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection failed\n"
    (run / "ranks" / "b" / "torchrun.log").write_text(said)
    reason = with_cause(str(run), Ending(RunState.FAILED, exit_causes(1), 1, 5.0)).reason
    assert reason.startswith("torchrun on a node cannot connect to the first node")


def test_links_are_no_nodes(run: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "output.log").touch()
    (run / "ranks" / "c").symlink_to(other)
    assert ranks_by_node(str(run)) == {}


def test_missing_pytorch_is_reported(tmp_path: Path) -> None:
    root = write_project(tmp_path / "project", python="/usr/bin/python3")
    with (root / "aml_config" / "local.runconfig").open("a") as file:
        file.write("ProcessesPerNode: 2\n")
    result = Workbench(root).submit("hello.py")
    assert "failed: the Python of the run has no PyTorch; install torch in it\n" in result.err


def test_rank_file_may_appear_later(workbench: Workbench) -> None:
    run_id = workbench.detach(script(workbench, "time.sleep(60)\n"))
    directory = RunDirectory(str(directory_of(workbench, run_id)))
    assert file_of_rank(directory, 1) == rank_log(directory.path, 1)
    with pytest.raises(UsageError):
        file_of_rank(directory, 2)
    workbench.run("experiment", "cancel", "--run", run_id, "--grace", "0")
