"""The Log pane of a torchrun run: the output of all ranks or of one rank, and the rank that failed first."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.ui.panes.test_log import LINES, LogApp, a_run, append, search
from tests.ui.panes.test_log import directory as directory
from tests.ui.seen import content_of
from tests.ui.waiting import until
from tui_workbench.core.model import Run, RunState

RAISED = 'Traceback (most recent call last):\n  File "{file}", line {line}, in step\n    x\n{exception}\n'
SUMMARY = "Root Cause (first observed failure):\n[0]:\n  rank      : 1 (local_rank: 1)\n  exitcode  : 1 (pid: 7)\n"


@pytest.fixture
def run(directory: Path) -> Run:
    """Return an active run with two ranks."""
    (directory / "ranks").mkdir()
    for rank in (0, 1):
        (directory / "ranks" / f"{rank}.log").write_bytes(LINES + b"of rank %d\n" % rank)
    (directory / "ranks" / "torchrun.log").touch()
    return a_run(directory, b"[rank0]: of rank 0\n[rank1]: of rank 1\n", RunState.RUNNING)


def write(run: Run, name: str, text: str) -> None:
    path = Path(run.directory, "ranks", name)
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as file:
        file.write(text)


async def ranks_are_known(app: LogApp) -> None:
    await until(lambda: not app.pane.why_not("step_rank"))


async def test_key_switches_between_all_ranks_and_each_rank(run: Run) -> None:
    app = LogApp(run)
    async with app.run_test(size=(80, 20)) as pilot:
        await ranks_are_known(app)
        assert app.border_title() == "4 Log  train.py [7] on local, 2 ranks"
        for title, last in (("rank 0 of 2", "of rank 0"), ("rank 1 of 2", "of rank 1"), ("2 ranks", "[rank1]: of")):
            await pilot.press("r")
            await app.shows(last)
            assert app.border_title() == f"4 Log  train.py [7] on local, {title}"
        await pilot.press("R")
        await app.shows("line 199")
        assert app.border_title().endswith("rank 1 of 2")


async def test_log_of_a_rank_is_followed(run: Run) -> None:
    app = LogApp(run)
    async with app.run_test(size=(80, 20)) as pilot:
        await ranks_are_known(app)
        await pilot.press("r")
        await app.shows("of rank 0")
        write(run, "0.log", "one more\n")
        await app.shows("one more")
        append(run, b"[rank1]: not of this one\n")
        app.pane.show_run(run)
        await pilot.pause()
        assert app.border_title().endswith("rank 0 of 2")


async def test_search_continues_in_each_rank(run: Run) -> None:
    app = LogApp(run)
    async with app.run_test(size=(80, 20)) as pilot:
        await ranks_are_known(app)
        await pilot.press("r")
        await search(pilot, "of rank")
        await app.shows("1 of 1")
        await pilot.press("enter", "r")
        await app.shows("of rank 1")
        await pilot.press("r")
        await app.shows("2 of 2")


async def test_later_ranks_are_found(directory: Path) -> None:
    run = a_run(directory, b"", RunState.RUNNING)
    app = LogApp(run)
    async with app.run_test(size=(80, 20)) as pilot:
        await pilot.pause()
        assert app.pane.why_not("step_rank").startswith("This run has no ranks")
        (directory / "ranks").mkdir()
        (directory / "ranks" / "0.log").write_bytes(b"here\n")
        app.pane.show_run(run)
        await ranks_are_known(app)
        await pilot.press("r")
        await app.shows("here")


async def test_reason_is_that_of_the_first_failed_rank(run: Run) -> None:
    """In the output, it is followed by the tracebacks of torchrun and of the rank that lost the connection."""
    first = RAISED.format(file=f"{run.directory}/work/train.py", line=41, exception="ValueError: bad shapes")
    later = RAISED.format(file=f"{run.directory}/work/train.py", line=7, exception="RuntimeError: closed by peer")
    merged = [
        *(f"[rank1]: {line}" for line in first.splitlines(True)),
        *(f"[rank0]: {line}" for line in later.splitlines(True)),
        RAISED.format(file="run.py", line=1, exception="ChildFailedError:"),
    ]
    append(run, "".join(merged).encode())
    write(run, "torchrun.log", SUMMARY)
    write(run, "0.log", later)
    app = LogApp(run._replace(state=RunState.FAILED))
    async with app.run_test(size=(80, 20)) as pilot:
        await app.shows("✗ rank 1: ValueError: bad shapes")
        assert content_of(app.pane)[0].endswith("train.py:41 in step")
        await pilot.press("r")
        await app.shows("✗ rank 0: RuntimeError: closed by peer")
        await pilot.press("r")
        await until(lambda: "✗" not in "".join(content_of(app.pane)))


async def test_another_run_starts_with_the_combined_output(run: Run, tmp_path: Path) -> None:
    app = LogApp(run)
    async with app.run_test(size=(80, 20)) as pilot:
        await ranks_are_known(app)
        await pilot.press("r")
        await app.shows("of rank 0")
        other = tmp_path / "other"
        other.mkdir()
        app.pane.show_run(a_run(other, b"alone\n", run_id="p_2"))
        await app.shows("alone")
        assert app.border_title() == "4 Log  train.py [7] on local"
        assert app.pane.why_not("step_rank")


@pytest.fixture
def run_on_nodes(directory: Path) -> Run:
    """Return an active run with two ranks on each of two nodes."""
    for node, ranks in (("gpu1", (0, 1)), ("gpu2", (2, 3))):
        folder = directory / "ranks" / node
        folder.mkdir(parents=True)
        for rank in ranks:
            (folder / f"{rank}.log").write_bytes(b"of rank %d\n" % rank)
        (folder / "output.log").write_bytes(b"".join(b"[rank%d]: of rank %d\n" % (rank, rank) for rank in ranks))
        (folder / "torchrun.log").touch()
    return a_run(directory, b"".join(b"[rank%d]: of rank %d\n" % (rank, rank) for rank in range(4)), RunState.RUNNING)


async def test_keys_filter_by_node_and_by_its_ranks(run_on_nodes: Run) -> None:
    app = LogApp(run_on_nodes)
    async with app.run_test(size=(80, 20)) as pilot:
        await until(lambda: not app.pane.why_not("step_node"))
        title = "4 Log  train.py [7] on local, "
        assert app.border_title() == f"{title}4 ranks on 2 nodes"
        steps = (
            ("m", "2 ranks on gpu1", "[rank1]: of rank 1"),
            ("m", "2 ranks on gpu2", "[rank3]: of rank 3"),
            ("r", "rank 2 of 4 on gpu2", "of rank 2"),
            ("r", "rank 3 of 4 on gpu2", "of rank 3"),
            ("r", "2 ranks on gpu2", "[rank2]: of rank 2"),
            ("m", "4 ranks on 2 nodes", "[rank0]: of rank 0"),
            ("R", "rank 3 of 4 on gpu2", "of rank 3"),
            ("M", "2 ranks on gpu2", "[rank2]: of rank 2"),
        )
        for key, part, text in steps:
            await pilot.press(key)
            await app.shows(text)
            assert app.border_title() == title + part


async def test_log_of_a_node_is_followed(run_on_nodes: Run) -> None:
    app = LogApp(run_on_nodes)
    async with app.run_test(size=(80, 20)) as pilot:
        await until(lambda: not app.pane.why_not("step_node"))
        await pilot.press("m")
        await app.shows("of rank 1")
        write(run_on_nodes, "gpu1/output.log", "[rank0]: one more\n")
        await app.shows("[rank0]: one more")


async def test_ranks_of_a_later_node_are_found(run_on_nodes: Run) -> None:
    app = LogApp(run_on_nodes)
    async with app.run_test(size=(80, 20)):
        await until(lambda: not app.pane.why_not("step_node"))
        write(run_on_nodes, "gpu2/4.log", "late\n")
        app.pane.show_run(run_on_nodes)
        await until(lambda: app.border_title().endswith("5 ranks on 2 nodes"))


async def test_rank_of_a_later_attempt_on_another_node(run_on_nodes: Run) -> None:
    app = LogApp(run_on_nodes)
    async with app.run_test(size=(80, 20)) as pilot:
        await until(lambda: not app.pane.why_not("step_node"))
        title = "4 Log  train.py [7] on local, "
        write(run_on_nodes, "gpu3/output.log", "[rank0]: of attempt 2\n")
        write(run_on_nodes, "gpu3/0.log", "of attempt 2\n")
        os.utime(Path(run_on_nodes.directory, "ranks", "gpu1", "0.log"), (1, 1))
        app.pane.show_run(run_on_nodes)
        await until(lambda: app.border_title() == f"{title}4 ranks on 3 nodes")
        for key, part, text in (
            ("r", "rank 0 of 4 on gpu3", "of attempt 2"),
            ("m", "2 ranks on gpu1", "[rank0]: of rank 0"),
            ("r", "rank 0 of 4 on gpu1", "of rank 0"),
        ):
            await pilot.press(key)
            await app.shows(text)
            assert app.border_title() == title + part


async def test_choice_of_a_removed_node_or_rank_ends(run_on_nodes: Run) -> None:
    app = LogApp(run_on_nodes)
    async with app.run_test(size=(80, 20)) as pilot:
        await until(lambda: not app.pane.why_not("step_node"))
        await pilot.press("m", "r", "r")
        await app.shows("of rank 1")
        folder = Path(run_on_nodes.directory, "ranks", "gpu1")
        (folder / "1.log").unlink()
        app.pane.show_run(run_on_nodes)
        await until(lambda: app.border_title().endswith(", 1 rank on gpu1"))
        shutil.rmtree(folder)
        app.pane.show_run(run_on_nodes)
        await until(lambda: app.border_title().endswith(", 2 ranks on 1 node"))
        await pilot.press("r")
        await app.shows("of rank 2")


async def test_run_on_one_machine_has_no_nodes(run: Run) -> None:
    app = LogApp(run)
    async with app.run_test(size=(80, 20)):
        await ranks_are_known(app)
        assert app.pane.why_not("step_node").startswith("This run has no ranks on several nodes")
