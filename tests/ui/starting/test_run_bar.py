"""The run bar."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from textual.app import App, ComposeResult

from tests.ui.seen import content_of
from tests.ui.test_formatting import make_run
from tests.ui.waiting import until
from tui_workbench.core.errors import ConfigurationError, UsageError
from tui_workbench.core.model import ComputeTarget, Plan, Problem, RunConfiguration, RunRequest, RunState, Step
from tui_workbench.ui.messages import RequestChanged, RunRequested
from tui_workbench.ui.starting.run_bar import ArgumentsField, RunBar, RunButton

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from textual.pilot import Pilot

LOCAL = ComputeTarget(name="local", path="/p/aml_config/local.compute", type="local")
BOX = ComputeTarget(name="box", path="/p/aml_config/box.compute", type="remotedocker")
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
    """What the bar asks for: these arguments and no others, also when there are none."""
    return RunRequest(environment, script, arguments, exact_arguments=True)


def app_of(pilot: Pilot[None]) -> BarApp:
    assert isinstance(pilot.app, BarApp)
    return pilot.app


async def fill(pilot: Pilot[None], *configurations: RunConfiguration) -> RunBar:
    bar = app_of(pilot).bar
    bar.show_scripts(SCRIPTS)
    bar.show_configurations(configurations, [LOCAL, BOX])
    await pilot.pause()
    return bar


async def test_at_first_it_holds_what_runs_here(pilot: Pilot[None]) -> None:
    bar = await fill(pilot, ON_BOX, BROKEN, ON_LOCAL)
    assert bar.request() == asked("here", "train.py", ())
    await until(lambda: app_of(pilot).requests[-1:] == [asked("here", "train.py", ())])


async def test_it_does_not_matter_whether_scripts_or_configurations_come_first(pilot: Pilot[None]) -> None:
    bar = app_of(pilot).bar
    bar.show_configurations([ON_LOCAL], [LOCAL])
    bar.show_scripts(SCRIPTS)
    assert bar.request() == asked("here", "train.py", ())


async def test_choosing_an_environment_takes_over_its_script_and_arguments(pilot: Pilot[None]) -> None:
    bar = await fill(pilot, ON_LOCAL, WHOLE)
    bar.take_focus()
    await pilot.press("enter", *"whole", "enter")
    await until(lambda: bar.environment == "whole")
    assert bar.request() == asked("whole", "evaluate.py", ("--a b", "c"))


async def test_an_environment_that_leaves_the_script_open_keeps_the_chosen_one(pilot: Pilot[None]) -> None:
    bar = await fill(pilot, ON_LOCAL, ON_BOX)
    bar.choose_script("evaluate.py")
    assert bar.choose_target("box")
    assert bar.request() == asked("box", "evaluate.py", ("--device", "cuda"))


async def test_a_file_that_changed_keeps_what_was_typed(pilot: Pilot[None]) -> None:
    bar = await fill(pilot, ON_LOCAL)
    bar.focus_arguments()
    await pilot.press(*"--lr 1")
    app_of(pilot).requests.clear()
    bar.show_configurations([ON_LOCAL._replace(tracked_run=False)], [LOCAL])
    assert bar.request() == asked("here", "train.py", ("--lr", "1"))
    await until(lambda: app_of(pilot).requests == [bar.request()])


async def test_an_environment_that_has_gone_makes_room_for_another(pilot: Pilot[None]) -> None:
    bar = await fill(pilot, ON_LOCAL)
    bar.show_configurations([ON_BOX], [BOX])
    assert bar.environment == "box"
    bar.show_configurations([], [])
    with pytest.raises(UsageError, match="no run configuration"):
        bar.request()


async def test_nothing_is_missing_while_the_project_is_still_being_read(pilot: Pilot[None]) -> None:
    bar = app_of(pilot).bar
    bar.show_configurations([ON_LOCAL], [LOCAL])
    await pilot.pause()
    assert not bar.notice.is_error
    bar.show_scripts([])
    await pilot.pause()
    assert "no script is chosen" in bar.notice.text


async def test_typing_arguments_is_told_and_split_as_a_shell_would(pilot: Pilot[None]) -> None:
    bar = await fill(pilot, ON_LOCAL)
    bar.focus_arguments()
    await pilot.press(*"--name 'a b'")
    await pilot.pause()
    assert bar.request().arguments == ("--name", "a b")
    assert app_of(pilot).requests[-1] == bar.request()
    assert bar.holds(bar.request())


async def test_a_quote_that_is_not_closed_is_said_at_once(pilot: Pilot[None]) -> None:
    bar = await fill(pilot, ON_LOCAL)
    bar.focus_arguments()
    await pilot.press(*"--name 'a")
    await until(lambda: any("not well formed" in line for line in content_of(bar)))
    assert app_of(pilot).requests[-1] is None


async def test_arguments_of_earlier_runs_come_back_newest_first_without_repeats(pilot: Pilot[None]) -> None:
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


async def test_enter_in_the_arguments_and_the_button_start_the_run(pilot: Pilot[None]) -> None:
    bar = await fill(pilot, ON_LOCAL)
    bar.focus_arguments()
    await pilot.press("enter")
    await pilot.click(RunButton)
    await pilot.press("tab", "enter")
    await until(lambda: app_of(pilot).told.count("run") >= 2)


async def test_escape_leaves_the_bar(pilot: Pilot[None]) -> None:
    bar = await fill(pilot, ON_LOCAL)
    bar.focus_arguments()
    await pilot.press("escape")
    await until(lambda: app_of(pilot).told == ["left"])


async def test_the_line_below_says_what_a_run_would_use(pilot: Pilot[None]) -> None:
    bar = await fill(pilot, ON_LOCAL)
    plan = Plan("local", "local", "/usr/bin/python3", (Step("snapshot", "x"), Step("start", "y")))
    bar.show_plan(plan, "3.12.1")
    await pilot.pause()
    assert any(line.startswith("Python 3.12.1   /usr/bin/python3   in a copy") for line in content_of(bar))
    bar.show_plan(plan._replace(steps=()), "3.12.1")
    await pilot.pause()
    assert any("right in the project folder" in line for line in content_of(bar))


async def test_an_error_is_shown_whole_with_its_place_relative_to_the_project(pilot: Pilot[None]) -> None:
    bar = await fill(pilot, ON_LOCAL)
    error = ConfigurationError("x" * 90 + " is too long", file="/p/aml_config/a.runconfig", line=7, remedy="Cut it.")
    bar.show_error(error, "/p")
    await pilot.pause()
    lines = content_of(bar)
    assert lines[1].startswith("✗ aml_config/a.runconfig:7:")
    assert "".join(lines[1:]).count("x") == 90
    assert lines[-1].endswith("Cut it.")


async def test_a_broken_environment_can_be_chosen_and_is_marked(pilot: Pilot[None]) -> None:
    bar = await fill(pilot, BROKEN)
    assert bar.environment == "broken"
    bar.take_focus()
    await pilot.press("enter")
    await until(lambda: any("problem" in line for line in content_of(app_of(pilot).screen)))


async def test_a_run_can_be_asked_for_again(pilot: Pilot[None]) -> None:
    bar = await fill(pilot, ON_LOCAL, ON_BOX)
    run = make_run(RunState.COMPLETED)._replace(run_configuration="box", script_name="old.py", arguments=("a b", "'"))
    bar.choose_run(run)
    assert bar.request() == asked("box", "old.py", ("a b", "'"))
