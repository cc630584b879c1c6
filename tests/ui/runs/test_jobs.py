"""The Jobs pane."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from textual.app import App, ComposeResult

from tests.runs.lifecycle.test_dependencies import Place
from tests.runs.lifecycle.test_dependencies import place as place
from tests.ui.seen import content_of
from tests.ui.test_formatting import make_run
from tests.ui.waiting import until
from tui_workbench.core.model import ClusterJob, Run, RunState
from tui_workbench.runs.gpu.verdict import Verdict, to_json
from tui_workbench.runs.store.rundir import GPU_VERDICT
from tui_workbench.ui.formatting import moment
from tui_workbench.ui.run_messages import CancelConfirmed, ReconnectRequested, RunRequestReused, RunSelected, RunStalled
from tui_workbench.ui.runs import jobs
from tui_workbench.ui.runs.jobs import JobsPane
from tui_workbench.ui.widgets.question_row import QuestionRow

if TYPE_CHECKING:
    from textual.pilot import Pilot

NOW = time.time()


def numbered(number: int, state: str, **fields: object) -> Run:
    run = make_run(state, start=NOW - 100, end=0.0 if state == RunState.RUNNING else NOW - 59)
    return run._replace(run_id=f"p_{number}", run_number=number, **fields)  # type: ignore[arg-type]


RUNNING = numbered(3, RunState.RUNNING)
OTHER = numbered(4, RunState.RUNNING)
FAILED = numbered(2, RunState.FAILED, exit_code=1)
DONE = numbered(1, RunState.COMPLETED)


class JobsApp(App[None]):
    def __init__(self, width: int = 60) -> None:
        super().__init__()
        self.pane = JobsPane(id="jobs")
        self.pane.styles.width = width
        self.pane.styles.height = 10
        self.posted: list[tuple[str, str]] = []

    def compose(self) -> ComposeResult:
        yield self.pane

    def on_mount(self) -> None:
        self.pane.take_focus()

    def on_run_selected(self, event: RunSelected) -> None:
        self.posted.append(("open" if event.opened else "select", event.run_id))

    def on_cancel_confirmed(self, event: CancelConfirmed) -> None:
        self.posted.append(("cancel", event.run_id))

    def on_run_stalled(self, event: RunStalled) -> None:
        self.posted.append((event.text, event.run.run_id))

    def on_reconnect_requested(self, event: ReconnectRequested) -> None:
        self.posted.append(("reconnect", event.run_id))

    def on_run_request_reused(self, event: RunRequestReused) -> None:
        self.posted.append(("again", event.run_id))


async def show(pilot: Pilot[None], *runs: Run) -> list[str]:
    assert isinstance(pilot.app, JobsApp)
    pilot.app.pane.show_runs(runs, empty=("No runs yet.",))
    await pilot.pause()
    return content_of(pilot.app.pane)


async def test_each_run_shows_state_script_number_start_and_duration() -> None:
    async with JobsApp().run_test(size=(70, 20)) as pilot:
        lines = await show(pilot, RUNNING, FAILED, DONE)
        fields = [line.split() for line in lines]
        assert [field[:4] for field in fields] == [
            ["●", "train.py", "[3]", "running"],
            ["✗", "train.py", "[2]", "exit"],
            ["✓", "train.py", "[1]", "completed"],
        ]
        assert [field[-1] for field in fields[1:]] == ["0:41", "0:41"]
        assert " ".join(fields[2][4:-1]) == moment(NOW - 100, time.time())


def judged(run: Run, folder: Path, word: str) -> Run:
    """Return the run with a directory that contains this verdict."""
    directory = folder / run.run_id
    directory.mkdir()
    verdict = Verdict(word, "because")
    (directory / GPU_VERDICT).write_text(json.dumps(to_json(verdict)))
    return run._replace(directory=str(directory))


async def test_gpu_verdict_is_a_glyph_and_a_word(tmp_path: Path) -> None:
    async with JobsApp(width=70).run_test(size=(80, 20)) as pilot:
        await show(pilot, judged(FAILED, tmp_path, "idle"), judged(DONE, tmp_path, "proven"))
        await until(lambda: "▲ GPU idle" in content_of(pilot.app.query_one(JobsPane))[0])
        lines = content_of(pilot.app.query_one(JobsPane))
        assert "✓ GPU" in lines[1]
        assert len({len(line) for line in lines}) == 1


async def test_verdict_is_short_in_a_narrow_pane(tmp_path: Path) -> None:
    async with JobsApp(width=44).run_test(size=(70, 20)) as pilot:
        await show(pilot, judged(FAILED, tmp_path, "idle"))
        await until(lambda: "▲ GPU" in content_of(pilot.app.query_one(JobsPane))[0])
        assert "idle" not in content_of(pilot.app.query_one(JobsPane))[0]
        assert "train.py" in content_of(pilot.app.query_one(JobsPane))[0]


async def test_run_without_gpu_has_no_verdict(tmp_path: Path) -> None:
    async with JobsApp(width=70).run_test(size=(80, 20)) as pilot:
        await show(pilot, judged(FAILED, tmp_path, "not used"), DONE)
        await until(lambda: "✗ no GPU" in content_of(pilot.app.query_one(JobsPane))[0])
        assert "GPU" not in content_of(pilot.app.query_one(JobsPane))[1]


async def test_verdict_of_an_active_run_is_updated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "VERDICT_SECONDS", 1)
    run = judged(RUNNING, tmp_path, "unknown")
    async with JobsApp(width=70).run_test(size=(80, 20)) as pilot:
        await show(pilot, run)
        await until(lambda: "? GPU unknown" in content_of(pilot.app.query_one(JobsPane))[0])
        (Path(run.directory) / GPU_VERDICT).write_text(json.dumps(to_json(Verdict("proven", "because"))))
        await until(lambda: "✓ GPU" in content_of(pilot.app.query_one(JobsPane))[0])


def write_verdict(run: Run, word: str) -> None:
    (Path(run.directory) / GPU_VERDICT).write_text(json.dumps(to_json(Verdict(word, f"it is {word}"))))


@pytest.mark.slow
async def test_stall_is_reported_once_when_it_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "VERDICT_SECONDS", 1)
    run, stalled_before = judged(RUNNING, tmp_path, "proven"), judged(OTHER, tmp_path, "stalled")
    app, reported = JobsApp(width=70), ("it is stalled", run.run_id)
    async with app.run_test(size=(80, 20)) as pilot:
        await show(pilot, run, stalled_before)
        for word, label, times in (("stalled", "■ GPU stalled", 1), ("proven", "✓ GPU", 1), ("stalled", "■ GPU", 2)):
            write_verdict(run, word)
            await until(lambda label=label: label in content_of(app.pane)[0])  # type: ignore[misc]
            await until(lambda times=times: app.posted.count(reported) == times)  # type: ignore[misc]
        assert ("because", stalled_before.run_id) not in app.posted


async def test_verdict_and_stall_of_a_run_that_is_started_again_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "VERDICT_SECONDS", 1)
    ended = judged(numbered(3, RunState.FAILED), tmp_path, "idle")
    app = JobsApp(width=70)
    async with app.run_test(size=(80, 20)) as pilot:
        await show(pilot, ended)
        await until(lambda: "▲ GPU idle" in content_of(app.pane)[0])
        write_verdict(ended, "proven")
        await show(pilot, RUNNING._replace(directory=ended.directory))
        await until(lambda: "✓ GPU" in content_of(app.pane)[0])
        write_verdict(ended, "stalled")
        await until(lambda: ("it is stalled", ended.run_id) in app.posted)


async def test_columns_are_aligned() -> None:
    async with JobsApp().run_test(size=(70, 20)) as pilot:
        lines = await show(pilot, RUNNING, FAILED, DONE)
        assert len({len(line) for line in lines}) == 1


async def test_narrow_pane_drops_the_start_time_first() -> None:
    async with JobsApp(width=36).run_test(size=(70, 20)) as pilot:
        lines = await show(pilot, DONE)
        assert lines[0].split() == ["✓", "train.py", "[1]", "completed", "0:41"]


async def test_duration_of_an_active_run_advances() -> None:
    async with JobsApp().run_test(size=(70, 20)) as pilot:
        (first,) = await show(pilot, RUNNING)
        assert isinstance(pilot.app, JobsApp)
        pane = pilot.app.pane
        await until(lambda: content_of(pane) != [first])


async def test_timer_stops_while_no_run_is_active() -> None:
    app = JobsApp()
    async with app.run_test(size=(70, 20)) as pilot:
        await show(pilot, DONE)
        assert app.pane.timer is None
        await show(pilot, RUNNING, DONE)
        assert app.pane.timer is not None
        await show(pilot, DONE)
        assert app.pane.timer is None


async def test_cursor_selects_and_enter_opens_the_log() -> None:
    app = JobsApp()
    async with app.run_test(size=(70, 20)) as pilot:
        await show(pilot, RUNNING, DONE)
        app.posted.clear()
        await pilot.press("down", "enter", "a")
        await pilot.pause()
        assert app.posted == [("select", "p_1"), ("open", "p_1"), ("again", "p_1")]


@pytest.mark.parametrize("key", ["y", "enter"])
async def test_cancel_asks_once(key: str) -> None:
    app = JobsApp()
    async with app.run_test(size=(70, 20)) as pilot:
        await show(pilot, RUNNING, DONE)
        app.posted.clear()
        await pilot.press("x")
        await until(lambda: any("Cancel train.py [3]?" in line for line in content_of(app.pane)))
        assert app.posted == []
        await pilot.press("x")
        assert app.posted == []
        await pilot.press(key)
        await until(lambda: ("cancel", "p_3") in app.posted)
        await until(lambda: any("canceling" in line for line in content_of(app.pane)))
        assert app.pane.why_not("cancel")
        app.pane.cancel_failed("p_3")
        assert not app.pane.why_not("cancel")


async def test_cancel_names_the_runs_that_wait(place: Place) -> None:
    first = place.first()
    place.next(first.run_id)
    app = JobsApp(width=90)
    async with app.run_test(size=(90, 20)) as pilot:
        await show(pilot, *reversed(place.runs.list()))
        await pilot.press("x")
        question = "Cancel gated.py [1]? Runs that wait for it are also canceled: next.py [2]."
        await until(lambda: question in " ".join(content_of(app.pane)))


@pytest.mark.parametrize("key", ["escape", "n"])
async def test_cancel_can_be_declined(key: str) -> None:
    app = JobsApp()
    async with app.run_test(size=(70, 20)) as pilot:
        await show(pilot, RUNNING)
        app.posted.clear()
        await pilot.press("x")
        await until(lambda: app.pane.query(QuestionRow))
        await pilot.press(key)
        await until(lambda: not app.pane.query(QuestionRow))
        assert app.posted == []
        await until(lambda: app.pane.has_focus_within)


async def test_question_closes_when_the_run_ends() -> None:
    app = JobsApp()
    async with app.run_test(size=(70, 20)) as pilot:
        await show(pilot, RUNNING)
        await pilot.press("x")
        await show(pilot, numbered(3, RunState.COMPLETED))
        await until(lambda: not app.pane.query(QuestionRow))


async def test_ended_run_cannot_be_canceled() -> None:
    app = JobsApp()
    async with app.run_test(size=(70, 20)) as pilot:
        await show(pilot, DONE)
        assert app.pane.why_not("cancel") == "The run has ended."
        await pilot.press("x")
        await pilot.pause()
        assert not app.pane.query(QuestionRow)


async def test_empty_pane_has_no_commands() -> None:
    app = JobsApp()
    async with app.run_test(size=(70, 20)) as pilot:
        assert await show(pilot) == ["No runs yet."]
        await pilot.press("enter", "a", "x")
        await pilot.pause()
        assert app.posted == []


async def test_newest_and_active_of_many_runs_are_listed() -> None:
    runs = [numbered(number, RunState.COMPLETED) for number in range(10_000, 0, -1)]
    runs[9_000] = numbered(1_000, RunState.RUNNING)
    app = JobsApp()
    async with app.run_test(size=(70, 20)) as pilot:
        await show(pilot, *runs)
        assert app.pane.border_title == "5 Jobs  1 active, newest 501 of 10,000"
        await pilot.press("G")
        await until(lambda: any("[1000]" in line and "running" in line for line in content_of(app.pane)))


async def test_control_characters_in_script_names_are_shown() -> None:
    async with JobsApp().run_test(size=(70, 20)) as pilot:
        (line,) = await show(pilot, DONE._replace(script_name="a\x1b[2Jb\n[red].py"))
        assert "a␛[2Jb␊[red].py" in line


async def test_preparing_run_shows_its_step_and_duration() -> None:
    preparing = make_run(RunState.PREPARING)._replace(
        run_id="p_4", target_type="remotedocker", created=time.time() - 65
    )
    async with JobsApp().run_test(size=(70, 20)) as pilot:
        assert isinstance(pilot.app, JobsApp)
        pilot.app.pane.show_runs([preparing, RUNNING], steps={"p_4": "build", "p_3": "start"})
        await pilot.pause()
        first, second = content_of(pilot.app.pane)
        assert "building" in first
        assert first.split()[-1] in ("1:05", "1:06")
        assert "running" in second


async def test_missing_files_of_an_ended_run_can_be_fetched() -> None:
    ended = make_run(RunState.COMPLETED, start=NOW, end=NOW + 5)._replace(run_id="p_6")
    async with JobsApp().run_test(size=(70, 20)) as pilot:
        assert isinstance(pilot.app, JobsApp)
        await show(pilot, ended)
        assert pilot.app.pane.why_not("reconnect")
        await show(pilot, ended._replace(lacks_outputs=True))
        await pilot.press("r")
        await until(lambda: ("reconnect", "p_6") in pilot.app.posted)  # type: ignore[attr-defined]


async def test_unreachable_run_shows_since_when_and_can_reconnect() -> None:
    reason = "unreachable since 14:03:12: box: nothing answers"
    lost = make_run(RunState.UNKNOWN, start=NOW)._replace(run_id="p_5", reason=reason, unreachable_since="14:03:12")
    async with JobsApp().run_test(size=(70, 20)) as pilot:
        (line,) = await show(pilot, lost)
        assert "? train.py [7]" in line
        assert "unknown since 14:03" in line
        assert isinstance(pilot.app, JobsApp)
        await pilot.press("r")
        await until(lambda: ("reconnect", "p_5") in pilot.app.posted)  # type: ignore[attr-defined]
        await show(pilot, RUNNING)
        assert pilot.app.pane.why_not("reconnect")


async def test_queued_cluster_job_shows_its_start_time() -> None:
    app = JobsApp(width=90)
    waiting = make_run(RunState.QUEUED)._replace(
        reason="no node is free yet", job=ClusterJob("17", position=3, start=time.time() + 60)
    )
    async with app.run_test(size=(90, 12)):
        app.pane.show_runs([waiting])
        await until(lambda: "position 3, starts about" in content_of(app.pane)[0])


async def test_run_of_jupyter_is_not_reused() -> None:
    app = JobsApp(width=50)
    async with app.run_test(size=(50, 12)):
        app.pane.show_runs([RUNNING._replace(script_name="jupyter")])
        await until(lambda: "jupyter" in content_of(app.pane)[0])
        assert "Notebook in the palette" in app.pane.why_not("again")


async def test_queued_run_shows_in_a_narrow_pane_what_it_waits_for() -> None:
    app = JobsApp(width=50)
    waiting = make_run(RunState.QUEUED)._replace(run_id="p_6", reason="starts after data.py [2] completes")
    async with app.run_test(size=(50, 12)):
        app.pane.show_runs([waiting, RUNNING])
        await until(lambda: "queued" in content_of(app.pane)[0])
        assert "starts after data.py" in content_of(app.pane)[0]


async def test_running_cluster_job_shows_its_nodes() -> None:
    app = JobsApp(width=90)
    async with app.run_test(size=(90, 12)):
        app.pane.show_runs([RUNNING._replace(job=ClusterJob("17", nodes="node[1-2]", end=time.time() + 7000))])
        await until(lambda: "1 h 56 min left, node[1-2]" in content_of(app.pane)[0])
