"""Ranks that torchrun leaves running when it ends."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.faults.support import is_running, until
from tests.sdk.launching import start

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

UP = "import os, signal, sys, time\n{}\nprint(os.getpid(), os.getppid(), flush=True)\n"
WAITS = "time.sleep(600)\n"
DEAF = UP.format("signal.signal(15, signal.SIG_IGN)") + WAITS


def ranks(folder: Path) -> list[list[int]]:
    """Wait until both ranks run, and return their process IDs with those of torchrun."""
    logs = [folder / "ranks" / name for name in ("0.log", "1.log")]
    until(lambda: all(log.exists() and log.read_text().endswith("\n") for log in logs), "both ranks")
    return [[int(word) for word in log.read_text().split()] for log in logs]


def end_of(launcher: subprocess.Popen[bytes]) -> bytes:
    return launcher.communicate(timeout=120)[0]


@pytest.mark.processes
@pytest.mark.linux("a launcher becomes the parent of the ranks")
def test_ranks_end_after_torchrun_is_killed(tmp_path: Path) -> None:
    launcher = start(tmp_path, DEAF)
    (first, torchrun), (second, _) = ranks(tmp_path)
    os.kill(torchrun, 9)
    end_of(launcher)
    assert launcher.returncode == 128 + 9
    assert not is_running(first)
    assert not is_running(second)


@pytest.mark.linux("a launcher becomes the parent of the ranks")
def test_ranks_save_after_torchrun_has_ended(tmp_path: Path) -> None:
    """torchrun ends at the third signal, and Slurm may send so many to it within a second."""
    gate = tmp_path / "gate"
    waits = f"    while not os.path.exists({str(gate)!r}):\n        time.sleep(0.02)\n"
    save = f"def save(*_):\n{waits}    sys.exit('saved')\nsignal.signal(15, save)"
    launcher = start(tmp_path, UP.format(save) + WAITS, LEAVES_RANKS="1")
    (first, torchrun), (second, _) = ranks(tmp_path)
    for pid in (first, second, launcher.pid):
        os.kill(pid, 15)
    until(lambda: not is_running(torchrun), "the end of torchrun")
    assert launcher.poll() is None
    gate.touch()
    out = end_of(launcher)
    assert launcher.returncode == 1
    assert sorted(line for line in out.splitlines() if b"saved" in line) == [b"[rank0]: saved", b"[rank1]: saved"]


def test_processes_of_a_successful_script_are_left(tmp_path: Path) -> None:
    """On other targets, the workbench ends them and names them."""
    script = "import subprocess\nprint(subprocess.Popen(['sleep', '60'], start_new_session=True, stdout=-3).pid)\n"
    launcher = start(tmp_path, script)
    out = end_of(launcher)
    left = [int(line.split()[1]) for line in out.splitlines() if line.startswith(b"[rank")]
    assert launcher.returncode == 0
    for pid in left:
        os.kill(pid, 9)
