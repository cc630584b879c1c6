"""Requests to squeue, with a stand-in for the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tui_workbench.core.waiting import wait_ready
from tui_workbench.targets.hosts.host import LocalHost
from tui_workbench.targets.slurm.cluster import LoginHost
from tui_workbench.targets.slurm.polling import SOON_SECONDS, Poller


@pytest.mark.parametrize(("interval", "shortest"), [(15.0, SOON_SECONDS), (60.0, 60.0)], ids=["default", "of the site"])
def test_event_advances_request_unless_site_sets_minimum(
    interval: float, shortest: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    squeue = tmp_path / "squeue"
    squeue.write_text("#!/bin/sh\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    poller = Poller(LoginHost(LocalHost(), str(tmp_path)), interval)
    poller.begin()
    wait_ready([poller.descriptor])
    assert poller.finish()
    poller.ask_soon()
    assert poller.due == poller.asked + shortest
