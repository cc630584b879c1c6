"""The dashboard of runs."""

from __future__ import annotations

import itertools
import json
import os
import threading
from typing import TYPE_CHECKING

import pytest

from tests.runs.support import write_configuration
from tests.ui.dashboard.conftest import dashboard, dashboard_of, numbers, read, rows, shows, type_text, write
from tests.ui.main.test_main import seen
from tests.ui.runs.past import past_run
from tests.ui.seen import content_of
from tests.ui.waiting import until
from tests.waiting import wait_until
from tui_workbench.core.model import RunRequest, RunState
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.store.annotations import read_annotations
from tui_workbench.ui.charts.chart import Chart
from tui_workbench.ui.dashboard.dashboard import DashboardScreen
from tui_workbench.ui.dashboard.dashboard_charts import HEIGHT
from tui_workbench.ui.dashboard.dashboard_columns import ColumnsScreen
from tui_workbench.ui.dashboard.dashboard_data import FileTimes, read_file_times
from tui_workbench.ui.details.run_details import RunDetailsScreen
from tui_workbench.ui.main.main import MainScreen
from tui_workbench.ui.widgets.field_row import PromptRow

if TYPE_CHECKING:
    from pathlib import Path

    from textual.pilot import Pilot

    from tui_workbench.core.model import Run
    from tui_workbench.projects.project import Project

    Workbench = Pilot[list[Run]]

pytestmark = pytest.mark.slow

SIZES = ((80, 24), (160, 48))


async def test_zero_goes_to_the_run_bar(project: Project) -> None:
    async with dashboard(project) as pilot:
        await pilot.press("0", *"--x")
        await until(lambda: "--x" in seen(pilot))
        assert isinstance(pilot.app.screen, MainScreen)
        await pilot.press("escape", "6")
        await until(lambda: content_of(dashboard_of(pilot).request_line)[0].split()[3:5] == ["hello.py", "--x"])


async def test_empty_dashboard_ignores_commands(project: Project) -> None:
    async with dashboard(project) as pilot:
        assert "No runs yet." in seen(pilot)
        await pilot.press("enter", "space", "c", "s", "t", "p", "x", "end", "m", "m")
        assert isinstance(pilot.app.screen, DashboardScreen)


async def test_filter_applies_while_typing_until_escape(past: Project) -> None:
    async with dashboard(past) as pilot:
        await pilot.press("slash")
        await type_text(pilot, "eval")
        await shows(pilot, "4", "2")
        assert "2 runs with eval" in seen(pilot)
        await pilot.press("enter")
        await pilot.press("s")  # letters are commands again, and this one reverses the order
        await shows(pilot, "2", "4")
        await pilot.press("s")
        await pilot.press("escape")
        await until(lambda: len(rows(pilot)) == 6)
        await pilot.press("slash")
        await type_text(pilot, "accuracy>0.65")
        await shows(pilot, "5", "4")
        await pilot.press("escape")
        await until(lambda: len(rows(pilot)) == 6)


async def test_filter_without_match_shows_a_message(past: Project) -> None:
    async with dashboard(past) as pilot:
        await pilot.press("slash")
        await type_text(pilot, "nowhere")
        await until(lambda: "No run matches the filter." in seen(pilot))


async def test_s_sorts_by_the_selected_column(past: Project) -> None:
    async with dashboard(past) as pilot:
        await until(lambda: "loss" in seen(pilot))
        table = dashboard_of(pilot).table
        while table.column is None or table.column.title.strip() != "accuracy":
            await pilot.press("right")
        await pilot.press("s")
        await shows(pilot, "5", "4", "3", "2", "1", "6")
        assert "accuracy▼" in seen(pilot)
        await until(lambda: "*0.75" in rows(pilot)[0])
        assert "*" not in "".join(rows(pilot)[1:])
        await pilot.press("s")
        await shows(pilot, "1", "2", "3", "4", "5", "6")
        assert "accuracy▲" in seen(pilot)
        table.move_to(0)
        while table.column is None or table.column.title != "--lr":
            await pilot.press("left")
        await pilot.press("s")
        await shows(pilot, "1", "2", "3", "4", "5", "6")
        await pilot.press("s")
        await shows(pilot, "6", "5", "4", "3", "2", "1")


async def test_groups_have_counts_and_can_be_folded(past: Project) -> None:
    async with dashboard(past) as pilot:
        await pilot.press("b")
        await until(lambda: "▾ train.py   4 runs" in seen(pilot))
        assert [line.split()[0] for line in rows(pilot)] == ["▾", "6", "5", "3", "1", "▾", "4", "2"]
        await pilot.press("home", "enter")
        await until(lambda: "▸ train.py   4 runs" in seen(pilot))
        assert [line.split()[0] for line in rows(pilot)] == ["▸", "▾", "4", "2"]
        await pilot.press("enter", "b")
        await until(lambda: "▾ gpu-box   2 runs" in seen(pilot))
        await pilot.press("b", "b", "b", "b")
        await shows(pilot, "6", "5", "4", "3", "2", "1")


async def test_end_of_long_groups_shows_the_last_runs(project: Project) -> None:
    for number in range(1, 301):
        past_run(project, number, script=f"script_{number % 3}.py")
    async with dashboard(project, (100, 24)) as pilot:
        await pilot.press("b")
        await until(lambda: "▾ script_0.py   100 runs" in seen(pilot))
        await pilot.press("end")
        await until(lambda: numbers(pilot) and numbers(pilot)[-1] == "1")
        assert all("script_1.py" in line for line in rows(pilot))


async def table_is_ready(pilot: Workbench) -> None:
    """Wait until the row for a tag or note is closed and the selected run is known."""
    await until(lambda: pilot.app.focused is dashboard_of(pilot).table)
    await until(lambda: dashboard_of(pilot).current_run() is not None)


async def test_tags_notes_and_pins_are_saved(past: Project) -> None:
    async with dashboard(past) as pilot:
        await pilot.press("end")
        await until(lambda: dashboard_of(pilot).current_run() is not None)
        await pilot.press("t")
        await type_text(pilot, "best, lr=0.1")
        await pilot.press("enter")
        run = Runs(past).get("1")
        await until(lambda: read_annotations(run.directory).tags == {"best": "", "lr": "0.1"})
        await table_is_ready(pilot)
        await pilot.press("n")
        await type_text(pilot, "the one to keep")
        await pilot.press("enter")
        await until(lambda: read_annotations(run.directory).note == "the one to keep")
        await table_is_ready(pilot)
        await pilot.press("p")
        await until(lambda: read_annotations(run.directory).pinned)
        await shows(pilot, "1", "6", "5", "4", "3", "2")
        assert "★" in rows(pilot)[0]


async def move_down_to(pilot: Workbench, row: int) -> None:
    await pilot.press("down")
    await until(lambda: dashboard_of(pilot).table.cursor == row)


@pytest.mark.parametrize("size", SIZES)
async def test_table_has_the_focus_after_a_tag_or_note(past: Project, size: tuple[int, int]) -> None:
    async with dashboard(past, size) as pilot:
        for row, (key, end) in enumerate(itertools.product("tn", ("enter", "escape")), 1):
            await move_down_to(pilot, row)
            await until(lambda: dashboard_of(pilot).current_run() is not None)
            await pilot.press(key)
            await until(lambda: pilot.app.screen.query_one(PromptRow).display)
            await pilot.press("a", "b", end)
            await until(lambda: not pilot.app.screen.query_one(PromptRow).display)
            assert pilot.app.focused is dashboard_of(pilot).table
        await move_down_to(pilot, 5)


async def test_tag_without_name_is_rejected(past: Project) -> None:
    async with dashboard(past) as pilot:
        await pilot.press("t")
        await type_text(pilot, "=3")
        await pilot.press("enter")
        await until(lambda: "has no name" in seen(pilot))


async def test_archived_runs_are_hidden_until_shown(past: Project) -> None:
    async with dashboard(past) as pilot:
        await pilot.press("d")
        await until(lambda: "Press v to show archived runs" in seen(pilot))
        await shows(pilot, "5", "4", "3", "2", "1")
        await pilot.press("v")
        await shows(pilot, "6", "5", "4", "3", "2", "1")
        assert "⊟" in rows(pilot)[0]


async def test_change_before_the_first_poll_is_shown(past: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    may_poll = threading.Event()

    def wait_and_read(project: Project, active: tuple[str, ...]) -> FileTimes:
        may_poll.wait()
        return read_file_times(project, active)

    monkeypatch.setattr("tui_workbench.ui.dashboard.dashboard.read_file_times", wait_and_read)
    async with dashboard(past) as pilot:
        await pilot.press("d")
        await until(lambda: "Press v to show archived runs" in seen(pilot))
        may_poll.set()
        await shows(pilot, "5", "4", "3", "2", "1")


async def test_family_is_one_row_with_mean_and_deviation(project: Project) -> None:
    for number in range(1, 4):
        arguments = ("--lr", "0.1", "--seed", str(number))
        past_run(
            project, number, arguments=arguments, exit_code=0, curves={"loss": [float(number)]}, family="sweep-1.1"
        )
    past_run(project, 4, arguments=("--lr", "9"), exit_code=0)
    async with dashboard(project) as pilot:
        await until(lambda: "loss" in seen(pilot))
        await pilot.press(*"bbbbb")
        await until(lambda: "2.0 ±1.0" in seen(pilot))
        assert [line.split()[0] for line in rows(pilot)] == ["▾", "4", "×3"]
        assert "0.1" in rows(pilot)[2].split()
        assert "3 completed" in rows(pilot)[2]
        dashboard_of(pilot).table.move_to(2)
        await pilot.press("enter")
        await until(lambda: [line.split()[0] for line in rows(pilot)] == ["▾", "4", "×3", "3", "2", "1"])


async def test_seed_follows_the_metrics_of_families(project: Project) -> None:
    for number in range(1, 5):
        arguments = ("--lr", f"0.{(number + 1) // 2}", "--seed", str(number % 2))
        curves, family = {"loss": [float(number)], "accuracy": [0.5]}, f"sweep-1.{(number + 1) // 2}"
        past_run(project, number, arguments=arguments, exit_code=0, curves=curves, family=family)
    async with dashboard(project, (80, 24)) as pilot:
        await until(lambda: "--seed" in seen(pilot))
        await pilot.press(*"bbbbb")
        await until(lambda: "accuracy" in seen(pilot) and "loss" in seen(pilot) and "--seed" not in seen(pilot))


async def test_rows_of_families_have_their_names(project: Project) -> None:
    for number in (1, 2):
        past_run(project, number, arguments=("--seed", str(number)), exit_code=0, family="sweep-3.1")
    async with dashboard(project) as pilot:
        await until(lambda: "--seed" in seen(pilot))
        await pilot.press(*"bbbbb")
        await until(lambda: any("sweep-3.1" in line for line in rows(pilot)))


async def test_chosen_columns_are_saved(past: Project) -> None:
    async with dashboard(past) as pilot:
        await until(lambda: "loss" in seen(pilot))
        await pilot.press("o")
        await until(lambda: isinstance(pilot.app.screen, ColumnsScreen))
        await type_text(pilot, "note")
        await pilot.press("enter")
        for _ in range(20):
            await pilot.press("alt+up")
        await pilot.press("escape")
        await until(lambda: isinstance(pilot.app.screen, DashboardScreen))
        await until(lambda: content_of(dashboard_of(pilot).table)[0].split()[0] == "note")
        path = os.path.join(past.state_directory, "dashboard.json")
        await until(lambda: os.path.exists(path))
        assert json.loads(read(path))["columns"][0] == "note"
    async with dashboard(past) as pilot:
        await until(lambda: content_of(dashboard_of(pilot).table)[0].split()[0] == "note")


async def test_choice_of_columns_stays_while_it_is_saved(past: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    write(os.path.join(past.state_directory, "dashboard.json"), '{"columns": ["number", "script", "state"]}')
    monkeypatch.setattr("tui_workbench.ui.dashboard.dashboard.save_columns", lambda project, keys: None)
    async with dashboard(past, (160, 48)) as pilot:
        await until(lambda: "✗ failed           1" in seen(pilot))
        await pilot.press("o")
        await until(lambda: isinstance(pilot.app.screen, ColumnsScreen))
        await type_text(pilot, "note")
        await pilot.press("enter", "escape")
        await until(lambda: "note" in content_of(dashboard_of(pilot).table)[0].split())
        past_run(past, 7, state=RunState.FAILED)
        dashboard_of(pilot).reload()
        await until(lambda: "✗ failed           2" in seen(pilot))
        assert "note" in content_of(dashboard_of(pilot).table)[0].split()


async def test_invalid_columns_file_is_ignored(past: Project) -> None:
    write(os.path.join(past.state_directory, "dashboard.json"), '{"columns": [1, {')
    async with dashboard(past) as pilot:
        await until(lambda: "loss" in seen(pilot))


async def test_m_switches_between_values_curves_and_no_charts(past: Project) -> None:
    async with dashboard(past, (160, 48)) as pilot:
        screen = dashboard_of(pilot)
        await until(lambda: "duration  run 6" in seen(pilot))
        await pilot.press("down")
        await until(lambda: "run 5" in content_of(screen.charts)[0])
        await pilot.press("m")
        await until(
            lambda: "train.py [5]" not in content_of(screen.charts)[0] and "step" in content_of(screen.charts)[-1]
        )
        await pilot.press("space", "space")
        await until(lambda: "▲" in content_of(screen.charts)[0])
        await pilot.press("m")
        await until(lambda: not screen.charts.display)
        await until(lambda: screen.table.region.y == 2)


async def test_charts_follow_the_filter_while_typing(past: Project) -> None:
    async with dashboard(past, (160, 48)) as pilot:
        await until(lambda: "✗ failed           1" in seen(pilot))
        await pilot.press("slash")
        await type_text(pilot, "eval")
        await shows(pilot, "4", "2")
        await until(lambda: "✓ completed        2" in seen(pilot))
        await until(lambda: "✗ failed" not in seen(pilot))
        runs_on_axis = [line.split() for line in content_of(dashboard_of(pilot).charts)]
        assert ["run", "2", "4"] in [words[:3] for words in runs_on_axis]


async def test_curves_belong_to_filtered_runs(past: Project) -> None:
    async with dashboard(past, (160, 48)) as pilot:
        charts = dashboard_of(pilot).charts

        def shown() -> set[str]:
            return {curve.key for chart in charts.query(Chart) if chart.display for curve in chart.curves}

        await until(lambda: "duration  run 6" in seen(pilot))
        await pilot.press("m", "down")
        await until(lambda: any(key.endswith("5") for key in shown()))
        await pilot.press("slash")
        await type_text(pilot, "eval")
        await shows(pilot, "4", "2")
        await until(lambda: shown() and all(key.endswith(("2", "4")) for key in shown()))


async def test_small_screen_has_no_charts_by_default(past: Project) -> None:
    async with dashboard(past, (80, 24)) as pilot:
        assert not dashboard_of(pilot).charts.display
        await pilot.press("down", "m")
        await until(lambda: dashboard_of(pilot).charts.display)
        await until(lambda: "accuracy" in seen(pilot) and "step" in seen(pilot))  # curves
        await pilot.press("m")
        await until(lambda: "run 5" in seen(pilot))  # a value per run
        await until(lambda: "step" not in seen(pilot))


async def test_new_run_appears_and_the_cursor_stays(past: Project) -> None:
    async with dashboard(past) as pilot:
        await pilot.press("down", "down")
        past_run(past, 7)
        await shows(pilot, "7", "6", "5", "4", "3", "2", "1")
        current = dashboard_of(pilot).current_run()
        assert current is not None
        assert current.run.run_number == 4  # the cursor stays on its run


async def test_rerun_opens_the_main_screen(project: Project) -> None:

    run = Runs(project).submit(RunRequest("local", "hello.py"))
    async with dashboard(project) as pilot:
        await pilot.press("r")
        await until(lambda: isinstance(pilot.app.screen, MainScreen))
        await until(lambda: len(Runs(project).list()) == 2)
        newest = Runs(project).list()[0]
        assert newest.run_id != run.run_id
        assert newest.script_name == "hello.py"
        await until(lambda: not any(each.is_active for each in Runs(project).list()))


async def test_rerun_that_is_impossible_shows_why(project: Project, project_root: Path) -> None:
    write_configuration(project_root, TrackedRun=False)
    run = Runs(project).submit(RunRequest("local", "hello.py"))
    wait_until(lambda: not Runs(project).get(run.run_id).is_active)
    async with dashboard(project) as pilot:
        (project_root / "hello.py").unlink()
        await pilot.press("r")
        await until(lambda: isinstance(pilot.app.screen, MainScreen))
        await until(lambda: "the script hello.py does not exist" in " ".join(seen(pilot).split()))
        assert len(Runs(project).list()) == 1


async def test_rerun_with_other_arguments(project: Project) -> None:

    Runs(project).submit(RunRequest("local", "hello.py", ("--old",), exact_arguments=True))
    async with dashboard(project) as pilot:
        await pilot.press("e")
        await until(lambda: "Edit and rerun" in seen(pilot))
        await pilot.press("end", *["backspace"] * 5)
        await type_text(pilot, "--new 'a b'")
        await pilot.press("ctrl+r")
        await until(lambda: len(Runs(project).list()) == 2)
        assert Runs(project).list()[0].arguments == ("--new", "a b")
        await until(lambda: not any(each.is_active for each in Runs(project).list()))


async def test_damaged_runs_are_listed_as_unknown(past: Project) -> None:
    folder = past.runs_directory
    os.makedirs(os.path.join(folder, "project_0000000000007"))  # a run directory without files
    broken = past_run(past, 8)
    os.truncate(os.path.join(folder, broken, "run.json"), 100)
    newer = past_run(past, 9)
    path = os.path.join(folder, newer, "run.json")
    write(path, json.dumps({**json.loads(read(path)), "schema": 999}))
    async with dashboard(past) as pilot:
        assert "9 runs" in seen(pilot)
        for run_id in (broken, newer, "project_0000000000007"):
            assert any(run_id[-4:] in line for line in rows(pilot)), run_id
        assert sum("unknown" in line for line in rows(pilot)) == 3
        await pilot.press("slash")
        await type_text(pilot, newer)
        await until(lambda: len(rows(pilot)) == 1)
        await pilot.press("enter", "enter")
        await until(lambda: isinstance(pilot.app.screen, RunDetailsScreen))
        await until(lambda: "999" in seen(pilot))
        await pilot.press("r")
        assert isinstance(pilot.app.screen, RunDetailsScreen)  # no run to rerun


async def test_control_characters_and_markup_are_shown_as_text(project: Project) -> None:
    past_run(
        project,
        1,
        script="tr\x1b[31main.py",
        arguments=("[red]x[/red]", "\x1b]0;evil\x07", "ü" * 5000),
        curves={"lo\x1b[2Jss": [1.0, 2.0], "[b]acc[/b]": [1.0], "a/b/ç": [float("nan"), float("inf")]},
    )
    async with dashboard(project, (160, 40)) as pilot:
        await until(lambda: "[b]acc" in seen(pilot))
        assert "\x1b" not in seen(pilot)
        await pilot.press("m", "o")
        await until(lambda: isinstance(pilot.app.screen, ColumnsScreen))
        assert "a/b/ç" in seen(pilot)
        assert "\x1b" not in seen(pilot)


async def test_help_and_palette_describe_the_dashboard(past: Project) -> None:
    async with dashboard(past) as pilot:
        await pilot.press("question_mark")
        await until(lambda: "Help" in seen(pilot))
        assert "Compare marked runs" in seen(pilot)
        await pilot.press("escape", "ctrl+p")
        await type_text(pilot, "archived")
        await until(lambda: "Show or hide archived runs" in seen(pilot))
        await pilot.press("escape")


async def test_readme_is_shown(past: Project) -> None:
    text = "# Digits\n\nTrains a **small** net, see [it](https://e.org).\n\n- one\n\n```\n[b]code\x1b[31m\n```\n"
    write(os.path.join(past.root, "README.md"), text)
    async with dashboard(past) as pilot:
        await pilot.press("i")
        await until(lambda: "Trains a small net, see it (https://e.org)." in seen(pilot))
        assert "• one" in seen(pilot)
        assert "[b]code␛[31m" in seen(pilot)
        await pilot.press("escape")
        await until(lambda: isinstance(pilot.app.screen, DashboardScreen))


async def test_charts_fill_the_rows_that_the_table_leaves_free(past: Project) -> None:
    async with dashboard(past, (120, 40)) as pilot:
        charts, table = dashboard_of(pilot).charts, dashboard_of(pilot).table
        await until(lambda: charts.region.height > HEIGHT)
        await until(lambda: table.height_of_rows >= table.total > 0)
