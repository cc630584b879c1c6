"""Which processes of a run were on a GPU when it was last looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.runs.gpu.samples import START, samples
from tui_workbench.runs.gpu.holding import own_processes
from tui_workbench.runs.gpu.usage import OWN, Usage, sample_line, sum_line
from tui_workbench.runs.rundir import GPU_SAMPLES
from tui_workbench.targets.gpu.sample import Process, Reading, Sample

if TYPE_CHECKING:
    from pathlib import Path


def own(folder: Path, data: bytes) -> frozenset[int]:
    (folder / GPU_SAMPLES).write_bytes(data)
    return own_processes(str(folder))


def test_they_are_those_of_the_last_sample_that_the_controller_called_the_run_s_own(tmp_path: Path) -> None:
    processes = (Process(11, 0), Process(12, 0), Process(13, 0))
    last = sample_line(Sample(START + 9, (Reading(0),), processes), [OWN, "alice", OWN])
    assert own(tmp_path, samples([1]) + last) == {11, 13}


def test_sums_and_half_a_line_are_passed_over(tmp_path: Path) -> None:
    assert own(tmp_path, samples([1]) + sum_line(Usage()) + b'{"t":1,"d":[') == {4242}


def test_a_run_that_has_let_go_of_the_gpu_holds_nothing(tmp_path: Path) -> None:
    assert own(tmp_path, samples([1]) + sample_line(Sample(START + 9, (Reading(0),)), [])) == frozenset()


def test_without_samples_or_with_foreign_ones_there_are_none(tmp_path: Path) -> None:
    assert own_processes(str(tmp_path)) == frozenset()
    assert own(tmp_path, b'{"d":[],"p":[7]}\n[]\n\xff\n') == frozenset()
