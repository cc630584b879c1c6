"""The Spark tab of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len

from tests.runs.logs.spark_log import APPLICATION, STAGE_0, completed, event, failed_task, task, write_log
from tests.ui.details.test_run_details import details
from tests.ui.main.test_main import seen
from tests.ui.runs.past import past_run
from tests.ui.waiting import until
from tui_workbench.runs.logs.spark_events import read_spark
from tui_workbench.runs.logs.spark_ui import SparkAddress
from tui_workbench.ui.details.spark_panel import NO_EVENTS, WAITING, Shown, spark_lines

if TYPE_CHECKING:
    from tui_workbench.projects.project import Project

LOG = "\n".join(
    (APPLICATION, STAGE_0, task(0), failed_task(0, "ValueError: row 7 has no label"), completed(0, 5, "no"))
)


def texts(shown: Shown, width: int, now: float = 10.0) -> list[str]:
    return ["".join(piece.text for piece in line).rstrip() for line in spark_lines(shown, width, now)]


def shown_of(folder: Path, *lines: str, active: bool = False, address: SparkAddress | None = None) -> Shown:
    write_log(folder, *lines)
    return Shown(active, tuple(read_spark(str(folder))), (address,))


async def test_key_shows_the_stages_of_a_spark_run(past: Project) -> None:
    past_run(past, 90, framework="PySpark", files={"spark/local-1": LOG.encode()})
    async with details(past, 90, (80, 24)) as pilot:
        await until(lambda: "9 Spark" in seen(pilot))
        await pilot.press("9")
        await until(lambda: "count at train.py:7" in seen(pilot))
        assert "Spark 4.3.0, local[2], 1 executor, 2 cores" in seen(pilot)
        assert "stage 0, task 1, attempt 4 on node-2, executor 4" in seen(pilot)
        assert "ValueError: row 7 has no label" in seen(pilot)


async def test_driver_in_the_cluster_is_mentioned(past: Project) -> None:
    output = b"26/11/23 12:47:06 INFO Client: Application report for application_17_0001 (state: RUNNING)\n"
    past_run(past, 92, framework="PySpark", output=output)
    async with details(past, 92) as pilot:
        await until(lambda: "9 Spark" in seen(pilot))
        await pilot.press("9")
        await until(lambda: "application_17_0001  yarn" in seen(pilot))
        assert "The driver runs in the cluster" in seen(pilot)


@pytest.mark.slow
async def test_other_runs_have_no_spark_tab(past: Project) -> None:
    async with details(past, 5) as pilot:
        await until(lambda: "loss" in seen(pilot))
        await pilot.press("9")
        await pilot.pause()
        assert "Spark" not in seen(pilot)


def test_active_run_shows_the_address_and_its_forwarding(tmp_path: Path) -> None:
    address = SparkAddress("http://localhost:4040", "workbench-tui open -r 1 port 10.0.0.2:4040")
    lines = texts(shown_of(tmp_path, APPLICATION, STAGE_0, active=True, address=address), 100)
    assert "Spark UI  http://localhost:4040" in lines
    assert any(line.endswith("workbench-tui open -r 1 port 10.0.0.2:4040") for line in lines)
    assert any(line.startswith("● 0") and line.endswith("8 s") for line in lines)
    ended = texts(shown_of(tmp_path, APPLICATION, STAGE_0), 100)
    assert any(line.startswith("⊘ 0") for line in ended)


@pytest.mark.parametrize("width", [60, 77, 157])
def test_lines_fit_the_width(tmp_path: Path, width: int) -> None:
    name = "Stage " + "x" * 300
    long = event("StageSubmitted", **{"Stage Info": {"Stage ID": 1, "Stage Name": name, "Number of Tasks": 123456}})
    lines = texts(shown_of(tmp_path, LOG, long, completed(0, 5, "word " * 100)), width)
    assert max(map(cell_len, lines)) <= width + 1


def test_untrusted_text_is_made_safe(tmp_path: Path) -> None:
    hostile = "\x1b]52;c;aGk=\x07\u202e[red]"
    lines = texts(
        shown_of(
            tmp_path,
            event("ApplicationStart", **{"App Name": hostile}),
            event("EnvironmentUpdate", **{"Spark Properties": {"spark.master": hostile}}),
            event("StageSubmitted", **{"Stage Info": {"Stage ID": 0, "Stage Name": hostile}}),
            failed_task(0, hostile),
        ),
        80,
    )
    assert not any(character in "".join(lines) for character in "\x1b\x07\u202e")
    assert "[red]" in "".join(lines)


def test_run_without_session_shows_that_it_waits_or_why_it_has_none() -> None:
    assert "No Spark session yet" in texts(Shown(True, (), ()), 100)[0]
    assert texts(Shown(False, (), ()), 100)[0] == NO_EVENTS[0]
    assert WAITING[0].startswith(texts(Shown(True, (), ()), 40)[0].split(" appear")[0][:20])
