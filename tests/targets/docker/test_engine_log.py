"""The log of a container from its engine: no byte is lost or repeated if reading stops and continues."""

from __future__ import annotations

import contextlib
import itertools
import re
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engines import BARE_IMAGE, DockerEngine
from tui_workbench.targets.docker import container_run
from tui_workbench.targets.docker.container import LOG
from tui_workbench.targets.docker.container_run import POSITION_FILE, EngineLog, second_of
from tui_workbench.targets.docker.engine import Engine

START = 1_795_000_000


class Cut(Exception):
    """The connection broke."""


class Recorded(Engine):
    """An engine with a log whose records have these times, in seconds after START; it sends records from a time on."""

    def __init__(self, times: list[float]) -> None:
        self.lines = [(START + time, b"%d;" % number) for number, time in enumerate(times)]
        self.cut = len(times)  # the record before which the connection breaks
        self.asked: list[int] = []

    @property
    def text(self) -> bytes:
        return b"".join(text for _, text in self.lines)

    def records(
        self, container: str, *, since: int = 0, follow: bool = True, seconds: float | None = None
    ) -> Iterator[bytes]:
        self.asked.append(since)
        for number, (time, text) in enumerate(self.lines):
            if number == self.cut:
                raise Cut
            if time >= since:
                yield datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z ").encode() + text


def take(engine: Recorded, folder: Path, cut: int) -> None:
    """Follow the log as a process does that loses the connection before the record `cut`."""
    engine.cut = cut
    with EngineLog(engine, "x", str(folder), "output.log") as log:
        try:
            log.take(is_followed=True)
        except Cut:
            return


def whole_after(times: list[float], cuts: list[int]) -> bool:
    engine = Recorded(times)
    with tempfile.TemporaryDirectory() as name:
        for cut in sorted(min(cut, len(times)) for cut in cuts):
            take(engine, Path(name), cut)
        take(engine, Path(name), len(times))
        return Path(name, "output.log").read_bytes() == engine.text


CUTS = st.lists(st.integers(0, 60), max_size=5)


@settings(max_examples=150, deadline=None)
@given(times=st.lists(st.sampled_from([10.0, 10.5, 11.0, 80.0, 9_000.0]), max_size=60), cuts=CUTS)
def test_interrupted_log_is_complete(times: list[float], cuts: list[int]) -> None:
    assert whole_after(times, cuts)


@pytest.mark.processes
@settings(max_examples=150, deadline=None)
@given(
    records=st.lists(st.tuples(st.sampled_from([0.0, 0.7, 3.0, 40.0]), st.sampled_from([0.0, 0.5, 4.0])), max_size=60),
    cuts=CUTS,
)
def test_large_log_is_complete(records: list[tuple[float, float]], cuts: list[int]) -> None:
    moments = itertools.accumulate(step for step, _ in records)
    times = [moment - late for moment, (_, late) in zip(moments, records, strict=True)]
    with mock.patch.object(container_run, "LARGE", 0):
        assert whole_after(times, cuts)


def test_clock_set_back_loses_no_records_of_a_large_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_run, "LARGE", 0)
    times = [1000.0, 1001.0, 1.0, 2.0, 1003.0, 3.0, 4.0]
    assert whole_after(times, [3])


def test_records_out_of_order_are_not_lost(tmp_path: Path) -> None:
    engine = Recorded([5.0, 5.9, 6.1, 5.8, 6.2])
    for cut in range(6):
        take(engine, tmp_path, cut)
    assert (tmp_path / "output.log").read_bytes() == engine.text


def test_only_the_end_of_a_large_log_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_run, "LARGE", 2000)
    engine = Recorded([float(number) for number in range(1000)])
    take(engine, tmp_path, 900)
    take(engine, tmp_path, 1000)
    assert engine.asked[0] == 0
    assert START + 880 < engine.asked[1] < START + 900
    assert (tmp_path / "output.log").read_bytes() == engine.text


@pytest.mark.parametrize(
    "state", [b"", b"1795000000 3 3", b"nonsense\n", b"1795000000.000000001 1 5".ljust(63) + b"\n"]
)
def test_invalid_position_restarts_the_log(tmp_path: Path, state: bytes) -> None:
    engine = Recorded([1.0, 2.0, 3.0])
    (tmp_path / POSITION_FILE).write_bytes(state)
    (tmp_path / "output.log").write_bytes(b"some that were not noted")
    take(engine, tmp_path, 3)
    assert (tmp_path / "output.log").read_bytes() == engine.text


def test_bytes_after_the_position_are_copied_again(tmp_path: Path) -> None:
    engine = Recorded([1.0, 2.0, 3.0])
    take(engine, tmp_path, 2)
    with (tmp_path / "output.log").open("ab") as file:
        file.write(b"torn")
    take(engine, tmp_path, 3)
    assert (tmp_path / "output.log").read_bytes() == engine.text


def test_only_one_process_copies_the_log(tmp_path: Path) -> None:
    engine = Recorded([1.0, 2.0])
    with EngineLog(engine, "x", str(tmp_path), "output.log") as first:
        first.take(is_followed=True)
        with EngineLog(engine, "x", str(tmp_path), "output.log") as second:
            second.take(is_followed=True)
    assert (tmp_path / "output.log").read_bytes() == engine.text


def test_timestamp_is_read_as_its_second() -> None:
    assert second_of(b"2026-01-31T12:00:00.999999999Z") == second_of(b"2026-01-31T12:00:00Z") == 1_769_860_800


class Breaking(Engine):
    """A real engine whose connection breaks after `left` records of a log."""

    left = 0

    def records(
        self, container: str, *, since: int = 0, follow: bool = True, seconds: float | None = None
    ) -> Iterator[bytes]:
        for record in super().records(container, since=since, follow=follow):
            self.left -= 1
            if self.left < 0:
                raise Cut
            yield record


SCRIPT = """
import sys, time
for number in range(300):
    print("%d " % number + "x" * (40_000 if number == 150 else 9), flush=True)
    print("error %d" % number, file=sys.stderr, flush=True)
    time.sleep(0.002)
time.sleep(0.2)
print("no newline", end="")
"""


@pytest.mark.parametrize("large", [0, container_run.LARGE])
def test_real_log_is_complete_after_interruptions(
    engine: DockerEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: int
) -> None:
    monkeypatch.setattr(container_run, "LARGE", large)
    real = Breaking(engine.socket, "here")
    real.create("talks", {"Image": BARE_IMAGE, "Cmd": ["python3", "-c", SCRIPT], "HostConfig": {"LogConfig": LOG}})
    real.start("talks")
    for records in (0, 37, 160, 450, 10_000):
        real.left = records
        with contextlib.suppress(Cut), EngineLog(real, "talks", str(tmp_path), "output.log") as log:
            log.take(is_followed=True)
    real.wait("talks")
    with EngineLog(real, "talks", str(tmp_path), "output.log") as log:
        log.take(is_followed=False)
    text = (tmp_path / "output.log").read_text()
    # The engine splits a long line, and output to stderr may come between the parts.
    out = re.sub(r"error \d+\n", "", text).split("\n")
    assert out == [f"{n} " + "x" * (40_000 if n == 150 else 9) for n in range(300)] + ["no newline"]
    assert re.findall(r"error (\d+)\n", text) == [str(n) for n in range(300)]
