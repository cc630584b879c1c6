from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from textual.color import Color

from tests.ui.main.test_main import make_app, screen_of, seen
from tests.ui.waiting import until
from tui_workbench.config.settings import Settings
from tui_workbench.core.model import Run, RunState
from tui_workbench.ui.notifications import RunNotifier, end_message
from tui_workbench.ui.terminal import terminal_sequences
from tui_workbench.ui.terminal.terminal_sequences import window_title

if TYPE_CHECKING:
    from textual.notifications import SeverityLevel

    from tui_workbench.projects.project import Project


def run(number: int, state: str = RunState.RUNNING, **facts: Any) -> Run:
    known = {"run_id": f"p_{number}", "run_number": number, "script_name": "train.py", "state": state, **facts}
    return Run(**{**dict.fromkeys(Run._fields, ""), **_DEFAULTS, **known})


_DEFAULTS: dict[str, Any] = {
    "arguments": (), "created": 1.0, "start": 2.0, "end": 0.0, "exit_code": None
}  # fmt: skip


def ended(number: int, state: str = RunState.COMPLETED, **facts: Any) -> Run:
    return run(number, state, end=133.0, **facts)


class FakeApp:
    """A stand-in for the app that records toasts and terminal output."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, focused: bool) -> None:
        self.app_focus = focused
        self.toasts: list[tuple[str, str]] = []
        self.written: list[str] = []
        monkeypatch.setattr(os, "environ", {"TERM": "xterm"})
        monkeypatch.setattr(terminal_sequences, "write", lambda _app, sequence: self.written.append(sequence))
        monkeypatch.setattr("tui_workbench.ui.notifications.place_toasts", lambda _app: None)

    def notify(self, text: str, *, severity: str, timeout: float, markup: bool) -> None:
        assert not markup
        self.toasts.append((severity, text))


def notifier(app: FakeApp, notifications: str = "terminal") -> RunNotifier:
    made = RunNotifier(app, "project")  # type: ignore[arg-type]
    made.begin(Settings(notifications, window_title="off"))
    return made


def test_ended_run_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    app = FakeApp(monkeypatch, focused=True)
    watching = notifier(app)
    watching.update_runs([run(1)], "")
    for _ in range(2):
        watching.update_runs([ended(1)], "")
    assert app.toasts == [("information", "✓ train.py [1] completed after 2:11.")]
    assert app.written == []


def test_run_that_ended_before_the_start_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    app = FakeApp(monkeypatch, focused=True)
    watching = notifier(app)
    watching.update_runs([ended(1)], "")
    watching.update_runs([ended(2), ended(1)], "")
    assert app.toasts == []


def test_watched_run_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    app = FakeApp(monkeypatch, focused=True)
    watching = notifier(app)
    watching.update_runs([run(1)], "p_1")
    watching.update_runs([ended(1)], "p_1")
    assert app.toasts == []


def test_unfocused_terminal_gets_a_notification(monkeypatch: pytest.MonkeyPatch) -> None:
    app = FakeApp(monkeypatch, focused=False)
    watching = notifier(app)
    watching.update_runs([run(1)], "p_1")
    watching.update_runs([ended(1, RunState.FAILED, exit_code=3)], "p_1")
    assert app.toasts == [("error", "✗ train.py [1] exit 3 after 2:11.")]
    assert app.written == ["\x1b]9;project: ✗ train.py [1] exit 3 after 2:11.\x1b\\"]


@pytest.mark.parametrize(("choice", "toasts"), [("off", 0), ("toast", 1)])
def test_notification_settings_are_respected(monkeypatch: pytest.MonkeyPatch, choice: str, toasts: int) -> None:
    app = FakeApp(monkeypatch, focused=False)
    watching = notifier(app, notifications=choice)
    watching.update_runs([run(1)], "")
    watching.update_runs([ended(1)], "")
    assert len(app.toasts) == toasts
    assert app.written == []


def test_stalled_run_is_reported_with_its_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    app = FakeApp(monkeypatch, focused=False)
    notifier(app).report_stalled(run(1), "no step for 33 min\x1b, GPU at 100 %; mean interval 12 s: GPU 0 Tesla T4")
    ((severity, text),) = app.toasts
    assert (severity, "\x1b" in text) == ("warning", False)
    assert text.startswith("■ train.py [1] stalled: no step for 33 min")
    assert text.endswith(", GPU at 100 %; mean interval 12 s.")
    assert text in app.written[0]


def test_message_contains_the_reason_and_is_safe_text() -> None:
    head, whole = end_message(ended(1, RunState.FAILED, script_name="\x1b]0;x\x07", reason="the disk is full"), 140.0)
    assert whole == f"{head} after 2:11. The disk is full."
    assert "\x1b" not in whole


@pytest.mark.parametrize(
    ("active", "done", "expected"),
    [
        ((), "", "project"),
        ((RunState.RUNNING,), "", "● 1 running · project"),
        ((RunState.RUNNING, RunState.QUEUED, RunState.RUNNING), "", "● 2 running · ○ 1 queued · project"),
        ((), "✓ train.py [1] completed", "✓ train.py [1] completed · project"),
    ],
)
def test_window_title_shows_active_runs(active: tuple[str, ...], done: str, expected: str) -> None:
    assert window_title("project", active, done) == expected


@pytest.mark.slow
@pytest.mark.parametrize("line", [1, 35])
async def test_toast_does_not_cover_the_cursor(project: Project, line: int) -> None:
    from textual.geometry import Offset

    app = make_app(project)
    async with app.run_test(size=(120, 36), notifications=True) as pilot:
        await until(lambda: screen_of(pilot).is_complete)
        app.cursor_position = Offset(80, line)
        watching = RunNotifier(app, "project")
        watching.update_runs([run(1)], "")
        watching.update_runs([ended(1)], "")
        await until(lambda: "train.py [1] completed after" in seen(pilot))
        (toast,) = screen_of(pilot).query("Toast")
        assert (toast.region.y < 18) == (line > 18)
        assert not toast.region.contains(80, line)


SEVERITIES: dict[SeverityLevel, str] = {"information": "success", "warning": "warning", "error": "error"}


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_toasts_are_colored_rows_above_the_footer(project: Project, size: tuple[int, int]) -> None:
    async with make_app(project).run_test(size=size, notifications=True) as pilot:
        await until(lambda: screen_of(pilot).is_complete and "Commands" in seen(pilot))
        screen = screen_of(pilot)
        for severity in SEVERITIES:
            screen.notify("Copied: sudo systemctl start docker", severity=severity, markup=False)
        await until(lambda: sum(toast.region.height for toast in screen.query("Toast")) == len(SEVERITIES))
        for toast, color in zip(screen.query("Toast"), SEVERITIES.values(), strict=True):
            assert toast.region.height == 1
            assert toast.region.bottom < size[1]
            assert toast.styles.background.hex == Color.parse(pilot.app.theme_variables[color]).hex
