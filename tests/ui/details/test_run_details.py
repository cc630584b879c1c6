"""The details of a run."""

from __future__ import annotations

import gc
import json
import os
import weakref
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.notebooks import PIXEL, code, display, markdown, notebook, stream
from tests.ui.dashboard.conftest import read, type_text, write
from tests.ui.main.test_main import opened, screen_of, seen
from tests.ui.runs.past import EPOCH, past_run
from tests.ui.seen import lines_of
from tests.ui.waiting import until
from tui_workbench.core.model import RunRequest, RunState, Step
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.metrics import RunMetrics
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.ui.charts.chart import AT_ONCE
from tui_workbench.ui.dashboard.dashboard import DashboardScreen
from tui_workbench.ui.details.run_details import RunDetailsScreen, RunView
from tui_workbench.ui.details.run_details_read import plan_of
from tui_workbench.ui.files.readme_view import ReadmeScreen
from tui_workbench.ui.gpu.monitor_screen import MonitorScreen
from tui_workbench.ui.runs.compare import CompareScreen, DifferenceScreen
from tui_workbench.ui.runs.restore_screen import RestoreScreen
from tui_workbench.ui.trace.trace import TraceScreen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from textual.pilot import Pilot

    from tui_workbench.core.model import Run
    from tui_workbench.projects.project import Project

    Workbench = Pilot[list[Run]]


@asynccontextmanager
async def details(project: Project, number: int, size: tuple[int, int] = (120, 36)) -> AsyncIterator[Workbench]:
    """Open the details of a run."""
    run = next(run for run in Runs(project).list() if run.run_number == number)
    async with opened(project, size) as pilot:
        await pilot.app.push_screen(RunDetailsScreen(project, run))
        await pilot.pause()
        yield pilot


def screen(pilot: Workbench) -> RunView:
    found = pilot.app.screen
    assert isinstance(found, RunDetailsScreen)
    return found.view


async def test_metrics_tab_shows_the_chart_of_the_selected_metric(past: Project) -> None:
    async with details(past, 5) as pilot:
        await until(lambda: screen(pilot).metrics.chart.look.title == "loss")
        await pilot.press("down")
        await until(lambda: screen(pilot).metrics.chart.look.title == "accuracy")


@pytest.mark.slow
async def test_run_without_metrics_shows_a_message(past: Project) -> None:
    async with details(past, 6) as pilot:
        await until(lambda: "No metrics logged." in seen(pilot))
        await pilot.press("space", "down", "tab", "l", "right", "plus")
        assert "✗ exit 3" in seen(pilot)


@pytest.mark.slow
async def test_outputs_can_be_read_fetched_and_promoted(past: Project) -> None:
    async with details(past, 5) as pilot:
        await pilot.press("2")
        await until(lambda: "model.txt" in seen(pilot))
        await until(lambda: "weights" in seen(pilot))
        assert "▾ plots" in seen(pilot)
        await pilot.press("f")
        await pilot.press("end", "ctrl+u")
        await type_text(pilot, "there")  # in the project
        await pilot.press("enter")
        await until(lambda: os.path.exists(os.path.join(past.root, "there/outputs/model.txt")))
        await until(lambda: "Copied to" in seen(pilot))
        await pilot.press("y", "enter")
        await until(lambda: os.path.exists(os.path.join(past.root, "assets/model.txt.link")))
        await until(lambda: "version 1 of the asset" in seen(pilot))


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (160, 48)])
async def test_executed_notebook_is_read_as_cells_or_as_text(past: Project, size: tuple[int, int]) -> None:
    outputs = (stream("epoch 1\n"), display(image__png=PIXEL, text__plain="<Figure>"), display(text__html="<table>"))
    error = {"output_type": "error", "ename": "ValueError", "evalue": "bad", "traceback": ["ValueError: bad"]}
    write(output_of(past, "a.ipynb"), notebook(markdown("# Title"), code("train()", *outputs, error, number=1)))
    async with details(past, 5, size) as pilot:
        await pilot.press("2")
        await until(lambda: "│ train()" in seen(pilot))
        assert all(text in seen(pilot) for text in ("Title", "[1]", "epoch 1", "image/png, 72 B", "ValueError: bad"))
        assert '{"cells"' not in seen(pilot)
        await pilot.press("enter")
        await until(lambda: pilot.app.focused is screen(pilot).outputs.view)
        assert "ctrl+t View" in seen(pilot)
        await pilot.press("ctrl+t")
        await until(lambda: '{"cells"' in seen(pilot))
        await pilot.press("ctrl+t")
        await until(lambda: "│ train()" in seen(pilot))
        await pilot.press("left", "down")
        await until(lambda: screen(pilot).outputs.current.endswith("model.txt"))
        assert "ctrl+t View" not in seen(pilot)


@pytest.mark.slow
async def test_file_that_is_read_again_keeps_its_place(past: Project) -> None:
    """While a run is active, its outputs are read again every second."""
    write(output_of(past, "a.ipynb"), notebook(*[f"x{number}" for number in range(50)]))
    async with details(past, 5) as pilot:
        await pilot.press("2")
        await until(lambda: "│ x0" in seen(pilot))
        outputs = screen(pilot).outputs
        await pilot.press("enter", "pagedown", "pagedown")
        await until(lambda: outputs.view.scroll_offset.y > 0)
        place = outputs.view.scroll_offset
        write(output_of(past, "a.ipynb"), notebook(*[f"y{number}" for number in range(50)]))
        outputs.show_files((("outputs/a.ipynb", ""), ("outputs/model.txt", "")))
        await until(lambda: "│ y2" in seen(pilot))
        assert outputs.view.scroll_offset == place
        await pilot.press("ctrl+t")
        await until(lambda: '{"cells"' in seen(pilot))
        assert outputs.view.scroll_offset.y == 0


@pytest.mark.slow
async def test_output_that_is_not_a_notebook_is_shown_as_text_with_the_reason(past: Project) -> None:
    write(output_of(past, "a.ipynb"), "[1,2]")
    async with details(past, 5) as pilot:
        await pilot.press("2")
        await until(lambda: "[1,2]" in seen(pilot))
        assert "not a notebook: the file contains JSON, but a list" in " ".join(seen(pilot).split())


def output_of(project: Project, name: str) -> str:
    run = next(run for run in Runs(project).list() if run.run_number == 5)
    return os.path.join(run.directory, "outputs", name)


@pytest.mark.slow
async def test_file_outside_outputs_is_copied_into_the_project(past: Project) -> None:
    run = next(run for run in Runs(past).list() if run.run_number == 5)
    folder = os.path.join(run.directory, "work", "checkpoints")
    os.makedirs(folder)
    write(os.path.join(folder, "best.pt"), "trained weights")
    async with details(past, 5) as pilot:
        await pilot.press("2")
        await until(lambda: "best.pt" in seen(pilot))
        for _ in range(20):
            if screen(pilot).outputs.current == "work/checkpoints/best.pt":
                break
            await pilot.press("down")
        await pilot.press("b")
        await until(lambda: "Copied 1 file into the project" in seen(pilot))
        assert read(os.path.join(past.root, "checkpoints", "best.pt")) == "trained weights"


@pytest.mark.slow
async def test_binary_file_is_described(past: Project) -> None:
    async with details(past, 5) as pilot:
        await pilot.press("2")
        await until(lambda: "loss.png" in seen(pilot))
        await pilot.press("down", "down")
        await until(lambda: "PNG image" in seen(pilot))
        await pilot.press("up", "enter")
        await until(lambda: "▸ plots" in seen(pilot))
        assert "loss.png" not in seen(pilot)


async def test_log_and_plan_of_an_ended_run(past: Project) -> None:
    async with details(past, 5) as pilot:
        await pilot.press("3")
        await until(lambda: "\n epoch 1" in seen(pilot))  # aligned with the other tabs
        await pilot.press("4")
        await until(lambda: "✓ snapshot" in seen(pilot))
        assert "Snapshot of the project" in seen(pilot)
        assert "✓ start" in seen(pilot)
        assert "0.4 s" in seen(pilot)
        assert "$ python train.py --lr 0.5" in seen(pilot)
        assert "completed with exit code 0" in seen(pilot)


@pytest.mark.slow
async def test_untracked_run_has_messages_in_place_of_files(past: Project) -> None:
    async with details(past, 5) as pilot:
        await pilot.press("5")
        await until(lambda: "This run has no snapshot." in seen(pilot))
        await pilot.press("6")
        await until(lambda: "No provenance recorded, because the run was not tracked." in seen(pilot))
        await pilot.press("7")
        await until(lambda: "No provenance recorded, because the run was not tracked." in seen(pilot))
        await pilot.press("right_square_bracket")
        await until(lambda: screen(pilot).shown_tab == "metrics")
        await pilot.press("left_square_bracket")
        await until(lambda: screen(pilot).shown_tab == "gpu")


@pytest.mark.slow
async def test_tracked_run_has_files_and_an_environment(tmp_path: Path) -> None:
    from tests.conftest import write_project
    from tui_workbench.projects.project import Project

    project = Project.find(str(write_project(tmp_path / "tracked", tracked=True)))
    run = Runs(project).submit(RunRequest("local", "hello.py"))
    await until(lambda: not Runs(project).get(run.run_id).is_active)
    await until(lambda: os.path.exists(os.path.join(run.directory, "provenance.json")))
    async with details(project, 1) as pilot:
        await pilot.press("5")
        await until(lambda: "local.runconfig" in seen(pilot))  # the title has the name of the script already
        await pilot.press("end")
        await until(lambda: 'print("hello")' in seen(pilot))
        await pilot.press("6")
        await until(lambda: "packages" in seen(pilot))
        assert "interpreter" in seen(pilot)


@pytest.mark.slow
async def test_tables_and_lists_are_shown_as_text(project: Project) -> None:
    run_id = past_run(project, 1)
    lines = [
        {
            "kind": "table",
            "name": "scores",
            "step": None,
            "value": {"class": ["a", "b"], "f1": [0.5, 0.75]},
            "time": 1.0,
        },
        {"kind": "row", "name": "epochs", "step": None, "value": {"epoch": 1, "loss": 0.31}, "time": 1.0},
        {"kind": "row", "name": "epochs", "step": None, "value": {"epoch": 2, "loss": 0.22}, "time": 2.0},
        {
            "kind": "confusion",
            "name": "cm",
            "step": None,
            "value": {"labels": ["cat", "dog"], "matrix": [[8, 1], [2, 9]]},
            "time": 1.0,
        },
        {"kind": "list", "name": "rates", "step": None, "value": [0.1, 0.01], "time": 1.0},
        {"name": "phase", "step": None, "value": "warm\x1b[31mup", "time": 1.0},
    ]
    path = os.path.join(project.runs_directory, run_id, "metrics.jsonl")
    write(path, "".join(json.dumps(line) + "\n" for line in lines))
    async with details(project, 1) as pilot:
        await until(lambda: "scores" in seen(pilot))
        names = [row.key for row in screen(pilot).metrics.list.rows]
        expected = {"scores": "0.75", "epochs": "0.22", "cm": "dog", "rates": "0.1, 0.01", "phase": "warm␛[31mup"}
        assert set(names) == set(expected)
        for place, name in enumerate(names):
            await pilot.press("home", *["down"] * place)
            await until(lambda name=name: expected[name] in "\n".join(_text(pilot)))  # type: ignore[misc]


def _text(pilot: Workbench) -> list[str]:
    return ["".join(piece.text for piece in line) for line in screen(pilot).metrics.text.lines]


@pytest.fixture
def no_collection() -> Iterator[None]:
    """Disable the garbage collector, which may run long after a screen was closed."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, AT_ONCE + 1], ids=["few", "many"])
@pytest.mark.usefixtures("no_collection")
async def test_closed_details_release_the_metrics(project: Project, count: int) -> None:
    past_run(project, 1, curves={"loss": [1.0] * count, "accuracy": [2.0] * count})
    async with details(project, 1) as pilot:
        await until(lambda: shown(pilot) == "loss")
        opened = large_objects(pilot)
        await pilot.press("down")
        await until(lambda: shown(pilot) == "accuracy")
        opened += large_objects(pilot)
        assert len(opened) == 6
        await pilot.press("escape")
        await until(lambda: not any(each() is not None for each in opened))


def shown(pilot: Workbench) -> str:
    """Return the name of the metric in the chart."""
    picture = screen(pilot).metrics.chart.picture
    return picture.curves[0].curve.label if picture is not None else ""


def large_objects(pilot: Workbench) -> list[weakref.ref[Any]]:
    """Return references to the objects with the points of the chart: a curve, its picture, and the reader."""
    chart = screen(pilot).metrics.chart
    readers = [each for each in gc.get_objects() if type(each) is RunMetrics]
    return [weakref.ref(each) for each in (chart.curves[0].values, chart.picture, *readers)]


@pytest.mark.slow
async def test_active_run_is_followed(project: Project) -> None:
    script = (
        "import workbench, time, os\n"
        "for step in range(1000):\n"
        "    workbench.log('loss', 1 / (step + 1))\n"
        "    time.sleep(0.05)\n"
        "    if os.path.exists('stop'): break\n"
    )
    write(os.path.join(project.root, "hello.py"), script)
    run = Runs(project).submit(RunRequest("local", "hello.py"))
    async with details(project, 1) as pilot:
        await until(lambda: screen(pilot).metrics.chart.picture is not None)
        before = len(screen(pilot).metrics.chart.curves[0].values)
        await until(lambda: len(screen(pilot).metrics.chart.curves[0].values) > before)
        write(os.path.join(project.root, "stop"), "")
        await until(lambda: "✓ completed" in seen(pilot))
        await until(lambda: not screen(pilot).run_shown.is_active)
        assert not Runs(project).get(run.run_id).is_active


@pytest.mark.slow
async def test_deleted_run_shows_an_error(past: Project) -> None:
    import shutil

    async with details(past, 5) as pilot:
        await until(lambda: "accuracy" in seen(pilot))
        shutil.rmtree(screen(pilot).run_shown.directory)
        for tab in "1234567":
            await pilot.press(tab)
            await pilot.pause()
        await pilot.press("p")
        await until(lambda: "no run '" in seen(pilot))
        await pilot.press("escape")
        await until(lambda: pilot.app.screen is screen_of(pilot))


async def test_output_link_out_of_the_run_is_hidden(project: Project, tmp_path: Path) -> None:
    run_id = past_run(project, 1, files={"outputs/fine.txt": b"fine"})
    (tmp_path / "secret.txt").write_text("not yours")
    os.symlink(tmp_path / "secret.txt", os.path.join(project.runs_directory, run_id, "outputs", "link.txt"))
    async with details(project, 1) as pilot:
        await pilot.press("2")
        await until(lambda: "fine.txt" in seen(pilot))
        assert "link.txt" not in seen(pilot)
        assert "not yours" not in seen(pilot)


async def test_kept_python_stacks_are_shown_as_safe_text(project: Project) -> None:
    frame = {"function": "wait\x1b]0;title\x07", "file": "/p/train.py", "shown": "train.py", "line": 9}
    thread = {"name": "MainThread", "is_main": True, "is_active": False, "has_gil": False, "frames": [frame]}
    process = {"role": "rank 0", "rank": 0, "pid": 12, "parent": 1, "node": "a", "command": ["python", "train.py"],
               "problem": "", "threads": [thread]}  # fmt: skip
    stacks = {"run_id": "p_1", "time_utc": "2026-11-26T04:35:13+00:00", "seconds": 0.1, "process_count": 1}
    data = json.dumps({**stacks, "processes": [process]}).encode()
    past_run(project, 1, files={"stacks/20261126T043513-000.json": data})
    async with details(project, 1) as pilot:
        await pilot.press("2")
        await until(lambda: "20261126T043513-000.json" in seen(pilot))
        await pilot.press("G")
        await until(lambda: "rank 0, process 12  python train.py" in seen(pilot))
        assert "wait␛]0;title␇ (train.py:9)" in seen(pilot)


async def test_jobs_pane_opens_details(past: Project) -> None:
    async with opened(past) as pilot:
        await until(lambda: "train.py [6]" in seen(pilot))
        await pilot.press("5", "d")
        await until(lambda: isinstance(pilot.app.screen, RunDetailsScreen))
        assert screen(pilot).run_shown.run_number == 6


async def test_long_reason_of_a_failure_is_shown_in_full(past: Project) -> None:
    reason = "the image cannot be had: " + " ".join(f"word{number}" for number in range(20))
    run_id = past_run(past, 90, state=RunState.FAILED)
    end = {"time": EPOCH + 9_999, "event": "state", "state": RunState.FAILED, "reason": reason, "final": True}
    write(os.path.join(past.runs_directory, run_id, "events.jsonl"), json.dumps(end) + "\n")
    async with details(past, 90, (80, 24)) as pilot:
        await until(lambda: reason in " ".join(" ".join(lines_of(screen(pilot).head)).split()))


def test_steps_of_an_active_run_are_ticked_up_to_start(past: Project) -> None:
    run_id = past_run(past, 91, state=RunState.RUNNING)
    path = os.path.join(past.runs_directory, run_id, "events.jsonl")
    write(path, json.dumps({"time": EPOCH, "event": "state", "state": RunState.RUNNING}) + "\n")
    run = next(run for run in Runs(past).list() if run.run_id == run_id)
    text = "\n".join("".join(piece.text for piece in line) for line in plan_of(run._replace(start=EPOCH), EPOCH))
    assert "✓ snapshot" in text
    assert "✓ start" in text


def test_step_without_an_effect_on_the_run_is_shown_as_failed(past: Project) -> None:
    run_id = past_run(past, 93)
    directory = RunDirectory(os.path.join(past.runs_directory, run_id))
    reasons = [f"not sent to {name}: the service answered 403 Forbidden" for name in ("mail", "phone", "phone")]
    for reason in reasons:
        directory.append_event("step", step="notify", reason=reason)
    lines = ["".join(piece.text for piece in line) for line in plan_of(directory.run(), EPOCH)]
    problems = [line.split(maxsplit=2) for line in lines if "notify" in line]
    assert problems == [["✗", "notify", reason] for reason in reasons[:2]]
    assert directory.run().state == RunState.COMPLETED


def test_steps_that_a_failed_run_has_not_reached_are_not_ticked(past: Project) -> None:
    """The files of a run that has failed before its start are collected as well."""
    run_id = past_run(past, 92, state=RunState.FAILED)
    directory = RunDirectory(os.path.join(past.runs_directory, run_id))
    record = directory.read_record()
    steps = (*record.plan.steps, Step("collect", "Collect the files"))
    os.unlink(directory.file("run.json"))
    directory.write_record(record._replace(plan=record.plan._replace(steps=steps)))
    events = (
        {"time": EPOCH, "event": "step", "step": "snapshot", "status": "done"},
        {"time": EPOCH, "event": "step", "step": "collect", "status": "done"},
        {"time": EPOCH, "event": "state", "state": RunState.FAILED, "final": True},
    )
    write(directory.file("events.jsonl"), "".join(f"{json.dumps(event)}\n" for event in events))
    run = next(run for run in Runs(past).list() if run.run_id == run_id)
    text = "\n".join("".join(piece.text for piece in line) for line in plan_of(run._replace(start=0.0), EPOCH))
    assert "✓ snapshot" in text
    assert "· start" in text


@pytest.mark.slow
async def test_full_screens_begin_with_their_title(past: Project) -> None:
    first, second, *_ = Runs(past).list()
    screens = {
        "All runs  of ": DashboardScreen(past),
        "Comparison  of ": CompareScreen(past, [first, second]),
        "Difference  lr": DifferenceScreen(past, "lr", partial(list)),
        "Readme  of ": ReadmeScreen(past),
        "Restore  the project to ": RestoreScreen(past, first),
        "GPUs  of ": MonitorScreen(past),
        "Calls  of ": TraceScreen(past),
        f"{first.script_name} [{first.run_number}]": RunDetailsScreen(past, first),
    }
    async with opened(past, (120, 36)) as pilot:
        for title, shown in screens.items():
            await pilot.app.push_screen(shown)
            await until(lambda title=title: seen(pilot).startswith(f" {title}"))  # type: ignore[misc]
            pilot.app.pop_screen()
