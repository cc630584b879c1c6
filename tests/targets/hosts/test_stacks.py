"""The output of py-spy's script, and the roles of processes."""

from __future__ import annotations

import json

import pytest

from tui_workbench.targets.hosts.stacks import ProcessStacks, name_processes, parse

THREAD = {
    "thread_name": "MainThread",
    "os_thread_id": 12,
    "active": True,
    "owns_gil": False,
    "frames": [{"name": "train", "filename": "/p/train.py", "short_filename": "train.py", "line": 3}],
}


def block(pid: int, said: str, *variables: str, parent: int = 1) -> bytes:
    lines = [f"process {pid} {parent}", *variables, "", "python\037train.py\037", said, "\036", ""]
    return "\n".join(lines).encode()


def process(pid: int, parent: int, rank: int | None = None, task: int | None = None, node: str = "a") -> ProcessStacks:
    return ProcessStacks(pid, parent, node, rank, task, ("python",))


def roles(*processes: ProcessStacks) -> list[tuple[str, int]]:
    return [(each.title, each.stacks.pid) for each in name_processes(processes)]


def test_output_of_a_machine_is_parsed() -> None:
    found = parse(b"stacks 1 2 node1\n" + block(12, json.dumps([THREAD]), "RANK=3", "SLURM_PROCID=0"))
    assert (found.scope, found.total) == (1, 2)
    (only,) = found.processes
    assert (only.pid, only.parent, only.node, only.rank, only.task) == (12, 1, "node1", 3, 0)
    assert only.command == ("python", "train.py")
    (thread,) = only.threads
    assert (thread.name, thread.is_main, thread.is_active, thread.has_gil) == ("MainThread", True, True, False)
    assert thread.frames == (("train", "/p/train.py", "train.py", 3),)


def test_cause_in_an_error_of_py_spy_is_kept() -> None:
    said = "Error: Failed to open\n\nCaused by:\n    Permission Denied: Try sudo\n\nStack backtrace:\n   0: main"
    (only,) = parse(b"stacks - 1 node1\n" + block(12, said)).processes
    assert only.problem == "Failed to open: Permission Denied: Try sudo"


@pytest.mark.parametrize("said", ["", "null", "[1]", '[{"frames": []}]', "[" * 100_000, '{"a": 1}'])
def test_invalid_stacks_are_a_problem_of_their_process(said: str) -> None:
    found = parse(b"stacks - 2 node1\n" + block(12, said) + block(13, json.dumps([THREAD])))
    assert [bool(each.problem) for each in found.processes] == [True, False]


@pytest.mark.parametrize(
    "data", [b"", b"stacks", b"stacks - x\nprocess", b"\xff" * 50, b"stacks - 1 a\nprocess a b\n\n"]
)
def test_other_output_has_no_processes(data: bytes) -> None:
    assert parse(data).processes == ()


def test_ranks_come_before_launchers_with_their_children() -> None:
    launcher, torchrun = process(1, 0), process(2, 1)
    first, second = process(10, 2, rank=0), process(3, 2, rank=1)
    worker = process(4, 10, rank=0)
    assert roles(launcher, torchrun, second, worker, first) == [
        ("rank 0", 10),
        ("child of rank 0", 4),
        ("rank 1", 3),
        ("launcher", 1),
        ("launcher", 2),
    ]


def test_tasks_of_slurm_are_ranks_without_torchrun() -> None:
    assert roles(process(5, 1, task=1, node="b"), process(5, 1, task=0)) == [("rank 0", 5), ("rank 1", 5)]
    assert roles(process(5, 1, task=0), process(6, 5, rank=0, task=0)) == [("rank 0", 6), ("launcher", 5)]


def test_process_without_ranks_is_the_script() -> None:
    assert roles(process(8, 7), process(7, 1)) == [("script", 7), ("child of process 7", 8)]
