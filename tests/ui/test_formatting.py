from __future__ import annotations

import time

import pytest

from tui_workbench.core.model import Run, RunState
from tui_workbench.ui import formatting

NOON = time.mktime((2024, 6, 15, 12, 0, 0, 0, 0, -1))


def make_run(state: str = RunState.RUNNING, *, exit_code: int | None = None, start: float = 0, end: float = 0) -> Run:
    return Run(
        run_id="p_1",
        run_number=7,
        directory="/p",
        script_name="train.py",
        arguments=(),
        run_configuration="local",
        target="local",
        target_type="local",
        state=state,
        exit_code=exit_code,
        start=start,
        end=end,
    )


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0:00"),
        (41.9, "0:41"),
        (130, "2:10"),
        (3723, "1:02:03"),
        (100_000, "27:46:40"),
        (180_000, "2 d 2 h"),
        (-5, "0:00"),
    ],
)
def test_durations(seconds: float, said: str) -> None:
    assert formatting.duration(seconds) == said


def test_moments_are_as_short_as_possible() -> None:
    assert formatting.moment(NOON - 3600, NOON) == "11:00"
    assert formatting.moment(NOON - 40 * 86400, NOON) == "6 May"
    assert formatting.moment(NOON - 400 * 86400, NOON) == "2023-05-12"
    assert formatting.moment(0, NOON) == ""


def test_every_state_has_a_glyph_a_word_and_a_color() -> None:
    states = [value for name, value in vars(RunState).items() if name.isupper() and isinstance(value, str)]
    looks = [formatting.RUN_STATES[state] for state in states]
    assert len({look.glyph for look in looks}) == len(states)
    assert all(len(look.glyph) == 1 and look.word for look in looks)


def test_failed_run_shows_its_exit_code() -> None:
    assert formatting.run_state(make_run(RunState.FAILED, exit_code=3)).word == "exit 3"
    assert formatting.run_state(make_run(RunState.FAILED)).word == "failed"
    assert formatting.run_state(make_run("never heard of")).word == "unknown"


def test_elapsed_grows_while_a_run_is_active() -> None:
    assert formatting.elapsed(make_run(start=NOON), NOON + 65) == "1:05"
    assert formatting.elapsed(make_run(RunState.COMPLETED, start=NOON, end=NOON + 5), NOON + 65) == "0:05"
    assert formatting.elapsed(make_run(RunState.QUEUED), NOON) == ""


@pytest.mark.parametrize(
    ("clause", "shown"),
    [
        ("gpu-box does not answer", "gpu-box does not answer"),
        ("gpubox: refused", "gpubox: refused"),
        ("the file is gone", "The file is gone"),
        ("unreachable since 14:03:12: no route", "Unreachable since 14:03:12: no route"),
    ],
)
def test_target_name_is_not_capitalized(clause: str, shown: str) -> None:
    assert formatting.capitalized(clause) == shown
