"""Waiting for a run whose machine is lost again and again."""

from __future__ import annotations

import pytest

from tests.targets.fake import FakeTarget
from tui_workbench.core.errors import TargetUnreachable
from tui_workbench.core.model import ComputeTarget
from tui_workbench.core.waiting import Backoff
from tui_workbench.targets.base import reaching
from tui_workbench.targets.values import Outcome

FAKE = ComputeTarget(name="fake", path="/p/aml_config/fake.compute", type="fake")


@pytest.mark.parametrize(("steady", "pauses"), [(0.0, [0.2, 0.2, 0.2]), (1000.0, [0.2, 0.4, 0.8])])
def test_pauses_grow_only_while_the_connection_is_lost_soon(
    steady: float, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[float] = []
    monkeypatch.setattr(reaching, "STEADY_SECONDS", steady)
    monkeypatch.setattr(Backoff, "take", lambda self, interrupted: taken.append(self.next()))

    def wait_once() -> Outcome:
        if len(taken) < len(pauses):
            raise TargetUnreachable("lost", remedy="Wait.")
        return Outcome(0)

    assert reaching.wait_through_losses(FakeTarget(FAKE), wait_once, -1) == Outcome(0)
    assert taken == pauses
