"""Requests to squeue, with a stand-in for the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.waiting import wait_ready
from tui_workbench.targets.hosts.host import LocalHost
from tui_workbench.targets.slurm.cluster import LoginHost, SlurmSilent
from tui_workbench.targets.slurm.polling import SOON_SECONDS, Poller
from tui_workbench.targets.slurm.squeue import LIST_JOBS


def put_squeue(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    squeue = folder / "squeue"
    squeue.write_text(f"#!/bin/sh\n{script}")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def test_silent_controller_means_that_slurm_is_unreachable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    complaint = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
    put_squeue(tmp_path, f"echo '{complaint}' >&2; exit 1", monkeypatch)
    with pytest.raises(SlurmSilent, match="Slurm on this machine does not answer: slurm_load_jobs error: Unable"):
        LoginHost(LocalHost(), str(tmp_path)).ask_slurm(LIST_JOBS, timeout=60.0)


def test_failing_squeue_is_not_a_silent_controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_squeue(tmp_path, "echo 'squeue: Permission denied' >&2; exit 126", monkeypatch)
    with pytest.raises(WorkbenchError, match="a Slurm command failed on this machine: squeue: Permission denied"):
        LoginHost(LocalHost(), str(tmp_path)).ask_slurm(LIST_JOBS, timeout=60.0)


@pytest.mark.parametrize(("interval", "shortest"), [(15.0, SOON_SECONDS), (60.0, 60.0)], ids=["default", "of the site"])
@pytest.mark.parametrize("during", [False, True], ids=["after a request", "during a request"])
def test_event_advances_the_next_request_unless_the_site_sets_a_minimum(
    interval: float, shortest: float, during: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_squeue(tmp_path, "", monkeypatch)
    poller = Poller(LoginHost(LocalHost(), str(tmp_path)), interval)
    poller.begin()
    if during:
        poller.ask_soon()  # for example, because another run was added, which this request may not show
    wait_ready([poller.descriptor])
    assert poller.finish()
    if not during:
        poller.ask_soon()
    assert poller.due == poller.asked + shortest
