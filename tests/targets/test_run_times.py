"""The times of runs are those of the machine that executed them, by the clock of this machine."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.faults.support import kill_controller, until
from tests.targets.remote_project import Remote

LATER = 3.0
"""Seconds for which the end of a script is not noticed."""

ROUNDING = 0.2

AHEAD = '"$ORIGINAL" "$@" | awk \'/^[0-9]+[.]/ { printf "%.9f\\n", $0 + 7200; next } /^[0-9]+$/ { $0 += 7200 } 1\''
"""A `date` whose clock is two hours ahead."""


def seconds(record: dict[str, Any], key: str) -> float:
    return datetime.fromisoformat(record[key]).timestamp()


def wait_unnoticed(exit_file: Path) -> float:
    """Wait until an exit code is written, and then for LATER seconds; return the time of the end."""
    until(lambda: exit_file.exists() and exit_file.read_text().strip(), "the end of the script")
    ended = exit_file.stat().st_mtime
    until(lambda: time.time() > ended + LATER, "more time")
    return ended


def check_times(record: dict[str, Any], start: float, end: float) -> None:
    assert abs(seconds(record, "start_time_utc") - start) < ROUNDING
    assert abs(seconds(record, "end_time_utc") - end) < ROUNDING


def test_end_while_disconnected_is_the_real_end(box: Remote) -> None:
    run_id = box.begin()
    there = box.there(run_id)
    with box.machine.cut_off():
        box.go_on()
        ended = wait_unnoticed(there / "exit")
    box.until_status(run_id, "Completed")
    check_times(box.info(run_id), (there / "pid").stat().st_mtime, ended)
    assert box.run("history", "list").code == 0


def test_end_without_a_controller_is_the_real_end(box: Remote) -> None:
    run_id = box.begin()
    kill_controller(box.run_directory(run_id))
    box.go_on()
    ended = wait_unnoticed(box.there(run_id) / "exit")
    assert box.follow(run_id).code == 0
    check_times(box.info(run_id), (box.there(run_id) / "pid").stat().st_mtime, ended)


def test_clock_of_the_machine_does_not_matter(box: Remote) -> None:
    with box.machine.replaced("/usr/bin/date", AHEAD):
        run_id = box.begin()
        kill_controller(box.run_directory(run_id))
        box.go_on()
        ended = wait_unnoticed(box.there(run_id) / "exit")
        assert box.follow(run_id).code == 0
    check_times(box.info(run_id), (box.there(run_id) / "pid").stat().st_mtime, ended)
