"""Reservations by the commands `gpu reserve`, `extend`, `release` and `reservations`, on stand-in GPUs."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.support import Workbench, until
from tests.gpu.standin import REST, Standin, gpu
from tests.gpu.standin import standin as standin
from tests.gpu.standin import standin_parts as standin_parts
from tests.targets.gpu.test_feed import samplers
from tui_workbench.core.errors import UsageError
from tui_workbench.targets.gpu.holding import parse_duration

DAY = 86400


@pytest.fixture
def workbench(project_root: Path, tmp_path: Path, home: Path, standin: Standin) -> Iterator[Workbench]:
    """Return a project on a shared machine with two idle stand-in GPUs."""
    standin.write(gpu(0, REST), gpu(1, REST))
    folder = tmp_path / "reservations"
    folder.mkdir()
    folder.chmod(0o1770)
    path = project_root / "aml_config" / "local.compute"
    path.write_text(f"{path.read_text()}\ngpus: free\ngpuReservations: {folder}\n")
    yield Workbench(project_root)
    for pid in samplers(home):
        os.kill(pid, signal.SIGKILL)
    until(lambda: not samplers(home), "the sampler's end")


@pytest.mark.parametrize(
    ("text", "seconds"), [("30m", 1800), ("3h", 10800), ("1h30m", 5400), ("2d", 2 * DAY), ("7d", 7 * DAY)]
)
def test_duration_is_parsed(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "3", "h", "0h", "8d", "-1h", "1.5h", "3 h", "3s", "٣h"])
def test_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a duration from 1m to 7d"):
        parse_duration(text)


def test_reservation_is_made_extended_and_released(workbench: Workbench) -> None:
    assert "reserved GPU 0 until " in workbench.run("gpu", "reserve", "-t", "local", "--for", "3h").err
    workbench.run("gpu", "reserve", "-t", "local", "2", "--for", "3h").error(
        1, "fewer than 2 free GPUs", "GPU 0 is already reserved by you"
    )
    workbench.run("gpu", "extend", "-t", "local", "--gpu", "1", "--by", "1h").error(2, "you have not reserved GPU 1")
    workbench.run("gpu", "extend", "-t", "local", "--by", "7d").error(2, "cannot end more than 7 days from now")
    assert workbench.run("gpu", "extend", "-t", "local", "--by", "1h").code == 0
    (row,) = json.loads(workbench.run("gpu", "reservations", "-t", "local", "-o", "json").out)
    assert (row["gpu"], row["kind"], row["is_own"]) == (0, "reservation", True)
    assert 3 * 3600 < row["seconds_left"] <= 4 * 3600
    assert "released GPU 0" in workbench.run("gpu", "release", "-t", "local").err
    assert json.loads(workbench.run("gpu", "reservations", "-t", "local", "-o", "json").out) == []


def test_target_check_reads_the_folder(workbench: Workbench, tmp_path: Path) -> None:
    assert "0 GPUs reserved, 0 waiting runs" in workbench.run("computetarget", "check", "local").out
    (tmp_path / "reservations").chmod(0o700)
    result = workbench.run("computetarget", "check", "local")
    assert (result.code, "has no sticky bit" in result.out) == (4, True)


def test_gpu_list_names_the_holder(workbench: Workbench) -> None:
    workbench.run("gpu", "reserve", "-t", "local", "--gpu", "1", "--for", "3h")
    first, second = json.loads(workbench.run("gpu", "list", "-o", "json").out)
    assert first["reserved_by"] is None
    assert second["reserved_by"].startswith("you until ")


def test_busy_gpu_is_not_reserved(workbench: Workbench, standin: Standin) -> None:
    standin.write(gpu(0, mem=9000), gpu(1, REST))
    workbench.run("gpu", "reserve", "-t", "local", "--gpu", "0", "--for", "1h").error(1, "GPU 0 has 9000 MiB in use")
    workbench.run("gpu", "reserve", "-t", "local", "--gpu", "7", "--for", "1h").error(2, "has no GPU 7")


def test_private_folder_is_no_place_for_reservations(workbench: Workbench) -> None:
    workbench.run("config", "unset", "local.compute", "gpuReservations")
    workbench.run("gpu", "reserve", "-t", "local", "--for", "1h").error(3, "no other user would see a reservation")
    result = workbench.run("gpu", "reservations", "-t", "local", "-o", "json")
    assert (result.code, json.loads(result.out)) == (0, [])
    assert "only your own runs are listed" in result.err
