"""The GPU use of a run over time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from tests.runs.gpu.samples import START, T4, samples
from tui_workbench.runs.gpu import usage
from tui_workbench.runs.gpu.usage import GpuCurves, Usage, sum_line
from tui_workbench.runs.store.rundir import GPU_SAMPLES
from tui_workbench.targets.gpu.sample import Reading, Sample, encode

if TYPE_CHECKING:
    from pathlib import Path


def read(folder: Path, data: bytes) -> GpuCurves:
    (folder / GPU_SAMPLES).write_bytes(data)
    found = GpuCurves(str(folder))
    found.refresh()
    return found


def test_each_sample_is_a_point_of_its_device(tmp_path: Path) -> None:
    found = read(tmp_path, samples([10, 20, 30]))
    curves = found.devices[0]
    assert list(curves.times) == [START, START + 1, START + 2]
    assert list(curves.utilization) == [10, 20, 30]
    assert list(curves.memory) == [2048] * 3
    assert list(curves.own_memory) == [1024] * 3
    assert list(curves.power) == [50] * 3
    assert found.machine == T4


def test_memory_of_other_processes_is_excluded(tmp_path: Path) -> None:
    assert list(read(tmp_path, samples([10], whose="alice")).devices[0].own_memory) == [0]


def test_missing_values_are_nan(tmp_path: Path) -> None:
    found = read(tmp_path, encode(Sample(START, (Reading(3),))))
    curves = found.devices[3]
    assert [math.isnan(values[0]) for values in (curves.utilization, curves.memory, curves.power)] == [True] * 3


def test_refresh_reads_only_complete_new_lines(tmp_path: Path) -> None:
    data = samples([10, 20])
    found = read(tmp_path, data[:-5])
    assert found.points == 1
    with (tmp_path / GPU_SAMPLES).open("ab") as file:
        file.write(data[-5:])
    assert found.refresh()
    assert list(found.devices[0].utilization) == [10, 20]
    assert not found.refresh()


def test_totals_and_invalid_lines_are_skipped(tmp_path: Path) -> None:
    strange = b'\n{"d":[["x"]],"t":1}\n{"d":7,"t":"a"}\n[]\nnull\n\xff\xfe\n{"t":1,"note":"x","device":-1}\n'
    found = read(tmp_path, samples([10]) + sum_line(Usage()) + strange + samples([20]))
    assert list(found.devices[0].utilization) == [10, 20]


def test_replaced_file_is_read_again(tmp_path: Path) -> None:
    found = read(tmp_path, samples([10, 20, 30]))
    (tmp_path / GPU_SAMPLES).write_bytes(samples([40]))
    assert found.refresh()
    assert list(found.devices[0].utilization) == [40]


def test_run_without_samples_has_no_curves(tmp_path: Path) -> None:
    found = GpuCurves(str(tmp_path))
    assert not found.refresh()
    assert found.points == 0


def test_points_beyond_the_limit_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "MOST_POINTS", 2)
    found = read(tmp_path, samples([1, 2, 3, 4, 5]))
    assert (found.points, found.left_out) == (2, 3)
