from __future__ import annotations

import pytest

from tui_workbench.core.moments import Moment, this_moment

TEN_YEARS = 10 * 365 * 86400.0


@pytest.mark.linux("elsewhere, the clock measures the time")
def test_moment_of_another_boot_is_judged_by_the_clock() -> None:
    now = this_moment()
    assert Moment(now.time - 100, now.up, "other").seconds_since == pytest.approx(100, abs=10)
    assert Moment(now.time - TEN_YEARS, now.up - 100, now.boot).seconds_since == pytest.approx(100, abs=10)
    assert Moment(now.time + 100).seconds_since == 0
