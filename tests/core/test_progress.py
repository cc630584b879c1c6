from __future__ import annotations

import threading

import pytest

from tui_workbench.core.progress import BYTES, Progress, bar, listening, meter


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("tui_workbench.core.progress.time.monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def updates_of(steps: list[tuple[float, float]], total: float, clock: Clock) -> list[Progress]:
    """Return the updates for steps of (seconds, amount done)."""
    told: list[Progress | None] = []
    with listening(told.append), meter("sending", BYTES, total) as sending:
        for seconds, done in steps:
            clock.now += seconds
            sending.update(done)
    assert told[-1] is None
    return [each for each in told if each is not None]


def test_rate_and_time_left_at_an_even_speed(clock: Clock) -> None:
    last = updates_of([(1, 10e6 * n) for n in range(1, 11)], 1e9, clock)[-1]
    assert last.rate == pytest.approx(10e6)
    assert last.seconds_left == pytest.approx(90)
    assert (last.amount, last.speed, last.percent, last.time_left) == (
        "0.10 of 1.0 GB",
        "10.0 MB/s",
        " 10 %",
        "2 min left",
    )


def test_rate_follows_a_change_of_speed_within_seconds(clock: Clock) -> None:
    slow = [(1.0, 1e6 * n) for n in range(1, 11)]
    fast = [(1.0, 10e6 + 10e6 * n) for n in range(1, 13)]
    found = updates_of(slow + fast, 1e9, clock)
    assert 1e6 < found[10].rate < 5e6
    assert found[-1].rate == pytest.approx(10e6, rel=0.1)


def test_rate_of_a_stalled_transfer_is_not_shown(clock: Clock) -> None:
    last = updates_of([*((1.0, 1e6 * n) for n in range(1, 11)), *((10.0, 1e7) for _ in range(60))], 1e9, clock)[-1]
    assert (last.amount, last.speed) == ("0.01 of 1.0 GB", "")


def test_short_jump_hardly_changes_the_rate(clock: Clock) -> None:
    found = updates_of([*((0.1, 1e5 * n) for n in range(1, 101)), (0.1, 1e7), (0.1, 1e7 + 2e5)], 1e9, clock)
    assert found[-1].rate == pytest.approx(1e6, rel=0.1)


def test_time_left_is_empty_without_a_good_estimate(clock: Clock) -> None:
    assert updates_of([(0.5, 10), (1, 20)], 1000, clock)[-1].time_left == ""
    assert updates_of([(9, 0)], 1000, clock)[-1].time_left == ""
    assert updates_of([(9, 1)], 1e9, clock)[-1].time_left == "", "a year is no estimate"
    assert updates_of([(9, 100)], 0, clock)[-1].time_left == ""


def test_updates_are_limited_and_include_the_last(clock: Clock) -> None:
    found = updates_of([(0.001, n) for n in range(1, 1001)], 1000, clock)
    assert len(found) <= 12
    assert found[-1].done == 1000


@pytest.mark.parametrize(
    ("done", "total", "unit", "amount"),
    [
        (0, 0, BYTES, "0.00 B"),
        (1500, 0, BYTES, "1.5 kB"),
        (1.2e9, 1.9e9, BYTES, "1.2 of 1.9 GB"),
        (12, 3400, "files", "12 of 3,400 files"),
        (12, 0, "runs", "12 runs"),
    ],
)
def test_amount_has_one_unit(done: float, total: float, unit: str, amount: str) -> None:
    assert Progress("x", done, total, unit, 0.0).amount == amount


@pytest.mark.parametrize(
    ("left", "text"), [(3.2, "4 s left"), (31, "35 s left"), (89, "1 min left"), (5400, "1.5 h left")]
)
def test_time_left_is_rounded(left: float, text: str) -> None:
    assert Progress("x", 0, left, "files", 0.0, rate=1.0, seconds=60).time_left == text


def test_summary_omits_unknown_parts() -> None:
    whole = Progress("sending", 1.2e9, 1.9e9, BYTES, 0.0, 45e6, 9.0)
    assert whole.summary == "sending: 1.2 of 1.9 GB, 63 %, 45.0 MB/s, 20 s left"
    assert Progress("listing", 12, 0, "files", 0.0).summary == "listing: 12 files"


def test_columns_keep_their_width() -> None:
    lengths = {
        len(Progress("x", done, 2e9, BYTES, 0.0, rate, seconds).columns())
        for done in (0, 1e3, 1.234e9, 2e9)
        for rate in (0, 999, 9.99e8)
        for seconds in (0, 1, 1000)
    }
    assert len(lengths) == 1


@pytest.mark.parametrize("fraction", [None, 0.0, 0.001, 0.5, 0.999, 1.0])
@pytest.mark.parametrize("cells", [1, 8, 33])
def test_bar_has_the_given_width(fraction: float | None, cells: int) -> None:
    assert len(bar(fraction, cells)) == cells
    assert len(bar(fraction, cells, full="#", empty="-", parts="")) == cells


def test_bar_is_full_only_at_the_end() -> None:
    assert bar(1.0, 10) == "█" * 10
    assert bar(0.9999, 10) != "█" * 10
    assert bar(0.0, 10) == "░" * 10


def test_meter_works_without_a_listener() -> None:
    with meter("sending", BYTES, 10) as sending:
        sending.update(5)


def test_listener_belongs_to_its_thread_but_meters_may_move(clock: Clock) -> None:
    here: list[Progress | None] = []
    with listening(here.append), meter("fetching", "files", 2) as fetching:

        def elsewhere() -> None:
            fetching.update(2)
            meter("other", "x").update(1)

        other = threading.Thread(target=elsewhere)
        other.start()
        other.join()
    assert [each.label for each in here if each is not None] == ["fetching"]
    meter("later", "files", 1).update(1)
    assert here[-1] is None


def test_listeners_nest(clock: Clock) -> None:
    outer: list[Progress | None] = []
    inner: list[Progress | None] = []
    with listening(outer.append):
        with listening(inner.append):
            meter("a", "x", 1).update(1)
        meter("b", "x", 1).update(1)
    assert [each.label for each in (*inner, *outer) if each] == ["a", "b"]
