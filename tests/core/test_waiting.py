from __future__ import annotations

import os
import threading

import pytest

from tui_workbench.core.waiting import BackgroundCall, Backoff, Interrupted, pause, wait_ready


def test_backoff_doubles_up_to_the_longest_pause() -> None:
    pauses = Backoff(1.0, 5.0)
    assert [pauses.next() for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_pause_can_be_interrupted() -> None:
    reading, writing = os.pipe()
    pause(0.0, reading)
    os.write(writing, b"x")
    with pytest.raises(Interrupted):
        pause(60.0, reading)
    with pytest.raises(Interrupted):
        Backoff(60.0).take(reading)
    os.close(reading)
    os.close(writing)


def test_wait_ready_returns_readable_descriptors() -> None:
    first, second = os.pipe(), os.pipe()
    os.write(second[1], b"x")
    assert wait_ready([first[0], second[0]], timeout=60.0) == {second[0]}
    assert wait_ready([first[0]], timeout=0.0) == set()
    for descriptor in (*first, *second):
        os.close(descriptor)


def test_background_call_reraises_exceptions() -> None:
    def fail() -> None:
        raise ValueError("why")

    with BackgroundCall(fail) as call, pytest.raises(ValueError, match="why"):
        call.wait()


def test_background_call_wait_can_time_out_or_be_interrupted() -> None:
    gate = threading.Event()
    reading, writing = os.pipe()
    with BackgroundCall(gate.wait) as call:
        assert not call.wait(timeout=0.0)
        os.write(writing, b"x")
        with pytest.raises(Interrupted):
            call.wait(reading)
        gate.set()
        assert call.wait()
    os.close(reading)
    os.close(writing)
