from __future__ import annotations

import os
import signal

import pytest

from tui_workbench.core.signals import uninterrupted


def test_interrupt_waits_for_the_end_of_the_context() -> None:
    reached = []

    def interrupt() -> None:
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            reached.append("end")

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert reached == ["end"]


def test_interrupt_is_not_lost_if_the_context_fails() -> None:
    def fail() -> None:
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            raise OSError

    with pytest.raises(KeyboardInterrupt):
        fail()


def test_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
