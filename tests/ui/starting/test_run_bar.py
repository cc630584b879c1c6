from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from textual.app import App, ComposeResult

from tests.ui.seen import content_of
from tests.ui.test_formatting import make_run
from tests.ui.waiting import until
from tui_workbench.core.errors import ConfigurationError, UsageError
from tui_workbench.core.model import ComputeTarget, Plan, Problem, RunConfiguration, RunRequest, RunState, Step
from tui_workbench.ui.run_messages import RequestChanged, RunRequested
from tui_workbench.ui.session_state import Values
from tui_workbench.ui.starting.run_bar import ArgumentsField, RunBar, RunButton

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from textual.pilot import Pilot

LOCAL = ComputeTarget(name="local", path="/p/aml_config/local.compute", type="local")
BOX = ComputeTarget(name="box", path="/p/aml_config/box.compute", type="remotedocker")
CLUSTER = ComputeTarget(name="hpc", path="/p/aml_config/hpc.compute", type="slurm")
ON_CLUSTER = RunConfiguration(name="hpc", path="/p/aml_config/hpc.runconfig", target="hpc")
ON_LOCAL = RunConfiguration(name="here", path="/p/aml_config/here.runconfig", target="local")
ON_BOX = RunConfiguration(
    name="box", path="/p/aml_config/box.runconfig", target="box", argument_vector=("$file", "--device", "cuda")
)
WHOLE = RunConfiguration(
    name="whole", path="/p/aml_config/whole.runconfig", target="local", argument_vector=("evaluate.py", "--a b", "c")
)
BROKEN = RunConfiguration(
    name="broken",
    path="/p/aml_config/broken.runconfig",
    target="",
    problem=Problem("/p/aml_config/broken.runconfig", 2, 1, "error", "x", "no YAML"),
)
SCRIPTS = ["train.py", "evaluate.py"]


class BarApp(App[None]):
    CSS = "RunBar { height: 5; }"

    def __init__(self) -> None:
        super().__init__()
        self.bar = RunBar(id="run-bar")
        self.requests: list[RunRequest | None] = []
        self.told: list[str] = []

    def compose(self) -> ComposeResult:
        yield self.bar

    def on_request_changed(self, event: RequestChanged) -> None:
        self.requests.append(event.request)

    def on_run_requested(self, event: RunRequested) -> None:
        self.told.append("run")

    def on_run_bar_left(self) -> None:
        self.told.append("left")


@pytest.fixture
async def pilot() -> AsyncIterator[Pilot[None]]:
    async with BarApp().run_test(size=(100, 20)) as pilot:
        yield pilot


def asked(environment: str, script: str, arguments: tuple[str, ...]) -> RunRequest:
    """Return a request with exact arguments."""
    return RunRequest(environment, script, arguments, exact_arguments=True)


def app_of(pilot: Pilot[None]) -> BarApp:
    assert isinstance(pilot.app, BarApp)
    return pilot.app


async def fill(pilot: Pilot[None], *configurations: RunConfiguration) -> RunBar:
    bar = app_of(pilot).bar
    bar.show_scripts(SCRIPTS)
    bar.show_configurations(configurations, [LOCAL, BOX, CLUSTER])
    await pilot.pause()
    return bar


async def test_first_choice_runs_on_this_machine(pilot: Pilot[None]) -> None:
    bar = await fill(pilot, ON_BOX, BROKEN, ON_LOCAL)
    assert bar.request() == asked("here", "train.py", ())
    await until(lambda: app_of(pilot).requests[-1:] == [asked("here", "train.py", ())])


async def test_scripts_and_configurations_may_come_in_any_order(pilot: Pilot[None]) -> None:
    bar = app_of(pilot).bar
    bar.show_configurations([ON_LOCAL], [LOCAL])
    bar.show_scripts(SCRIPTS)
    assert bar.request() == asked("here", "train.py", ())


async def test_environment_sets_script_and_arguments(pilot: Pilot[None]) -> None:
    bar = await fill(pilot, ON_LOCAL, WHOLE)
    bar.take_focus()
    await pilot.press("enter", *"whole", "enter")
    await until(lambda: bar.environment == "whole")
    assert bar.request() == asked("whole", "evaluate.py", ("--a b", "c"))


async def test_environment_without_script_keeps_the_chosen_one(pilot: Pilot[None]) -> None:
    bar = await fill(pilot, ON_LOCAL, ON_BOX)
    bar.choose_script("evaluate.py")
    assert bar.choose_target("box")
    assert bar.request() == asked("box", "evaluate.py", ("--device", "cuda"))


async def test_changed_file_keeps_typed_arguments(pilot: Pilot[None]) -> None:
    bar = await fill(pilot, ON_LOCAL)
    bar.focus_arguments()
    await pilot.press(*"--lr 1")
    app_of(pilot).requests.clear()
    bar.show_configurations([ON_LOCAL._replace(tracked_run=False)], [LOCAL])
    assert bar.request() == asked("here", "train.py", ("--lr", "1"))
    await until(lambda: app_of(pilot).requests == [bar.request()])


async def test_removed_environment_is_replaced(pilot: Pilot[None]) -> None:
    bar = await fill(pilot, ON_LOCAL)
    bar.show_configurations([ON_BOX], [BOX])
    assert bar.environment == "box"
    bar.show_configurations([], [])
    with pytest.raises(UsageError, match="no run configuration"):
        bar.request()


async def test_no_error_while_the_project_is_being_read(pilot: Pilot[None]) -> None:
    bar = app_of(pilot).bar
    bar.show_configurations([ON_LOCAL], [LOCAL])
    await pilot.pause()
    assert not bar.notice.is_error
    bar.show_scripts([])
    await pilot.pause()
    assert "no script selected" in bar.notice.text


async def test_typed_arguments_are_split_like_in_a_shell(pilot: Pilot[None]) -> None:
    bar = await fill(pilot, ON_LOCAL)
    bar.focus_arguments()
    await pilot.press(*"--name 'a b'")
    await pilot.pause()
    assert bar.request().arguments == ("--name", "a b")
    assert app_of(pilot).requests[-1] == bar.request()
    assert bar.holds(bar.request())


async def test_unclosed_quote_is_reported(pilot: Pilot[None]) -> None:
    bar = await fill(pilot, ON_LOCAL)
    bar.focus_arguments()
    await pilot.press(*"--name 'a")
    await until(lambda: any("cannot parse the arguments" in line for line in content_of(bar)))
    assert app_of(pilot).requests[-1] is None


async def test_earlier_arguments_are_offered_newest_first(pilot: Pilot[None]) -> None:
    bar = await fill(pilot, ON_LOCAL)
    field = bar.query_one(ArgumentsField)
    past = [("--lr", "1"), ("--lr", "1"), ("--lr", "2"), ()]
    runs = [make_run(RunState.COMPLETED)._replace(arguments=arguments) for arguments in past]
    other = make_run(RunState.COMPLETED)._replace(script_name="other.py", arguments=("--other",))
    bar.show_runs([other, *runs])
    bar.focus_arguments()
    await pilot.press("t")
    seen = []
    for key in ("up", "up", "up", "up", "down", "down", "down", "down"):
        await pilot.press(key)
        seen.append(field.value)
    assert seen == ["--lr 1", "--lr 2", "", "", "--lr 2", "--lr 1", "t", "t"]


async def test_enter_and_the_button_start_the_run(pilot: Pilot[None]) -> None:
    bar = await fill(pilot, ON_LOCAL)
    bar.focus_arguments()
    await pilot.press("enter")
    await pilot.click(RunButton)
    await pilot.press("tab", "enter")
    await until(lambda: app_of(pilot).told.count("run") >= 2)


async def test_options_of_slurm_override_for_a_run(pilot: Pilot[None]) -> None:
    bar = await fill(pilot, ON_CLUSTER, ON_LOCAL)
    assert not bar.query_one("#slurm").display
    assert bar.choose_target("hpc")
    bar.focus_arguments()
    await pilot.press("tab", *"gpus=2")
    assert bar.request() == asked("hpc", "train.py", ())._replace(slurm="gpus=2")
    await until(lambda: app_of(pilot).requests[-1:] == [bar.request()])
    await pilot.press("enter")
    await until(lambda: "run" in app_of(pilot).told)
    saved = Values(bar.saved_state)
    bar.choose_target("local")
    assert bar.request() == asked("here", "train.py", ())
    bar.restore(saved)
    assert bar.request().slurm == "gpus=2"


async def test_escape_leaves_the_run_bar(pilot: Pilot[None]) -> None:
    bar = await fill(pilot, ON_LOCAL)
    bar.focus_arguments()
    await pilot.press("escape")
    await until(lambda: app_of(pilot).told == ["left"])


async def test_status_line_shows_interpreter_and_folder(pilot: Pilot[None], home: Path) -> None:
    bar = await fill(pilot, ON_LOCAL)
    plan = Plan("local", "local", "/usr/bin/python3", (Step("snapshot", "x"), Step("start", "y")))
    bar.show_plan(plan, "3.12.1")
    await pilot.pause()
    assert any(line.startswith("Python 3.12.1   /usr/bin/python3   runs in a snapshot") for line in content_of(bar))
    bar.show_plan(plan._replace(interpreter=f"{home}/bin/python3", steps=()), "3.12.1")
    await pilot.pause()
    assert any("~/bin/python3   runs in the project folder" in line for line in content_of(bar))


async def test_error_is_shown_with_a_path_relative_to_the_project(pilot: Pilot[None]) -> None:
    bar = await fill(pilot, ON_LOCAL)
    error = ConfigurationError("x" * 90 + " is too long", file="/p/aml_config/a.runconfig", line=7, remedy="Cut it.")
    bar.show_error(error, "/p")
    await pilot.pause()
    lines = content_of(bar)
    assert lines[1].startswith("✗ aml_config/a.runconfig:7:")
    assert "".join(lines[1:]).count("x") == 90
    assert lines[-1].endswith("Cut it.")


async def test_broken_environment_is_marked(pilot: Pilot[None]) -> None:
    bar = await fill(pilot, BROKEN)
    assert bar.environment == "broken"
    bar.take_focus()
    await pilot.press("enter")
    await until(lambda: any("problem" in line for line in content_of(app_of(pilot).screen)))


async def test_choose_run_restores_its_request(pilot: Pilot[None]) -> None:
    bar = await fill(pilot, ON_LOCAL, ON_BOX)
    run = make_run(RunState.COMPLETED)._replace(run_configuration="box", script_name="old.py", arguments=("a b", "'"))
    bar.choose_run(run)
    assert bar.request() == asked("box", "old.py", ("a b", "'"))
