"""Parts of the tests of groups and watchers: the calls of a report, and a script with much output."""

from __future__ import annotations

from tui_workbench.targets.values import Report

LINES = 60_000

PRINTS = f"""
sys.stdout.reconfigure(line_buffering=False)
for number in range({LINES}):
    sys.stdout.write(f'line {{number}}\\n')
    if number % 10_000 == 9_999:
        sys.stdout.flush()
        time.sleep(0.5)
"""
"""The part of a script that prints LINES lines in some seconds. It needs `sys` and `time`."""

WRITTEN = "began\n" + "".join(f"line {number}\n" for number in range(LINES))
"""The output of a script that prints `began`, and then PRINTS."""


class Calls(Report):
    """The calls of a group for one run."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def running(self) -> None:
        self.names.append("running")

    def orphaned(self) -> None:
        self.names.append("orphaned")

    def lost(self, reason: str) -> None:
        self.names.append("lost")
