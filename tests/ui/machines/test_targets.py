"""The Compute targets pane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import App, ComposeResult

from tests.ui.seen import content_of
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.model import ComputeTarget, Problem
from tui_workbench.ui.machines.targets import TargetsPane
from tui_workbench.ui.messages import FileChosen
from tui_workbench.ui.run_messages import TargetChosen

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tui_workbench.core.errors import WorkbenchError

BROKEN = ComputeTarget(
    name="broken",
    path="/p/aml_config/broken.compute",
    type="",
    problem=Problem("/p/aml_config/broken.compute", 3, 1, "error", "x", "type is missing", "Add `type: local`."),
)
LOCAL = ComputeTarget(name="local", path="/p/aml_config/local.compute", type="local", python_location="python3")
DOCKER = ComputeTarget(name="box", path="/p/aml_config/box.compute", type="localdocker", base_docker_image="python:3")
REMOTE = ComputeTarget(
    name="gpu-box", path="/p/aml_config/gpu-box.compute", type="remotedocker", address="10.0.0.7", username="me"
)


class TargetsApp(App[None]):
    CSS = "TargetsPane { width: 60; height: 12; }"

    def __init__(self) -> None:
        super().__init__()
        self.pane = TargetsPane(id="targets")
        self.posted: list[object] = []

    def compose(self) -> ComposeResult:
        yield self.pane

    def on_mount(self) -> None:
        self.pane.take_focus()

    def on_file_chosen(self, event: FileChosen) -> None:
        self.posted.append((event.path, event.line))

    def on_target_chosen(self, event: TargetChosen) -> None:
        self.posted.append(event.name)

    def on_targets_pane_height_wanted(self, event: TargetsPane.HeightWanted) -> None:
        self.posted.append(event.lines)


async def show(
    pilot: Pilot[None],
    *targets: ComputeTarget,
    versions: dict[str, str] | None = None,
    errors: dict[str, WorkbenchError] | None = None,
) -> list[str]:
    assert isinstance(pilot.app, TargetsApp)
    pilot.app.pane.show_targets(targets, versions or {}, errors or {})
    await pilot.pause()
    return content_of(pilot.app.pane)


async def test_targets_show_type_and_state() -> None:
    async with TargetsApp().run_test(size=(70, 20)) as pilot:
        lines = await show(pilot, LOCAL, DOCKER, REMOTE, versions={"local": "3.12.1"})
        assert [line.split() for line in lines] == [
            ["✓", "local", "Python", "3.12.1", "ready"],
            ["·", "box", "Docker", "python:3", "unchecked"],
            ["·", "gpu-box", "Docker", "on", "10.0.0.7", "unchecked"],
        ]


async def test_error_of_a_file_is_shown_below_the_list() -> None:
    async with TargetsApp().run_test(size=(70, 20)) as pilot:
        lines = await show(pilot, BROKEN, LOCAL)
        assert lines[0].split()[:2] == ["✗", "broken"]
        assert lines[0].endswith("problem")
        assert "broken.compute:3: type is missing. Add `type: local`." in lines
        await pilot.press("down")
        await pilot.pause()
        assert isinstance(pilot.app, TargetsApp)
        assert not any("type is missing. Add `type" in line for line in content_of(pilot.app.pane))


async def test_missing_interpreter_is_a_problem_of_the_target() -> None:
    error = ConfigurationError("pythonLocation: python3 is not on the PATH", remedy="Name it with its full path.")
    async with TargetsApp().run_test(size=(70, 20)) as pilot:
        lines = await show(pilot, LOCAL, errors={"local": error})
        assert lines[0].split()[0] == "✗"
        assert "pythonLocation: python3 is not on the PATH. Name it" in " ".join(lines)


async def test_enter_opens_the_file_at_its_error() -> None:
    app = TargetsApp()
    async with app.run_test(size=(70, 20)) as pilot:
        await show(pilot, BROKEN, LOCAL)
        await pilot.press("enter", "down", "enter")
        await pilot.pause()
        assert [posted for posted in app.posted if isinstance(posted, tuple)] == [(BROKEN.path, 3), (LOCAL.path, 0)]


async def test_only_targets_without_problem_can_be_used() -> None:
    app = TargetsApp()
    async with app.run_test(size=(70, 20)) as pilot:
        await show(pilot, BROKEN, LOCAL)
        assert app.pane.why_not("use")
        await pilot.press("u", "down", "u")
        await pilot.pause()
        assert [posted for posted in app.posted if isinstance(posted, str)] == ["local"]


async def test_empty_pane_shows_a_message() -> None:
    async with TargetsApp().run_test(size=(70, 20)) as pilot:
        lines = await show(pilot)
        assert lines[0] == "No compute targets yet."


async def test_problem_increases_the_requested_height() -> None:
    app = TargetsApp()
    async with app.run_test(size=(70, 20)) as pilot:
        await show(pilot, LOCAL)
        await show(pilot, BROKEN, LOCAL)
        heights = [posted for posted in app.posted if isinstance(posted, int)]
        assert heights[-1] > heights[-2]


async def test_control_characters_in_files_are_shown_as_text() -> None:
    evil = LOCAL._replace(name="a\x1b[31mb", python_location="\x1b]0;title\x07[bold]x[/bold]")
    async with TargetsApp().run_test(size=(70, 20)) as pilot:
        (line,) = await show(pilot, evil)
        assert "a␛[31mb" in line
        assert "[bold]x[/bold]" in line


async def test_row_shows_the_number_of_gpus() -> None:
    app = TargetsApp()
    async with app.run_test(size=(80, 20)) as pilot:
        app.pane.show_targets([LOCAL, REMOTE], {}, {}, gpus={"gpu-box": 2})
        await pilot.pause()
        local, remote = content_of(app.pane)[:2]
        assert "2 GPU" in remote
        assert "GPU" not in local


async def test_point_at_finds_only_listed_targets() -> None:
    app = TargetsApp()
    async with app.run_test(size=(80, 20)) as pilot:
        app.pane.show_targets([LOCAL], {}, {})
        await pilot.pause()
        assert not app.pane.point_at("gpu-box")
        app.pane.show_targets([LOCAL, REMOTE], {}, {})
        assert app.pane.point_at("gpu-box")
        assert app.pane.changeable_file() == REMOTE.path
