"""The CUDA versions that a driver supports, and the GPUs that a build supports."""

from __future__ import annotations

import pytest

from tui_workbench.targets.gpu.cuda_compat import computes_on, driver_for, newest_for, serves


@pytest.mark.parametrize(
    ("cuda", "oldest"),
    [("13.0", "580"), ("12.9", "525"), ("12", "525"), ("11.8", "450"), ("10.2", "440.33"), ("9.0", "384.81"),
     ("8.0", "367.48"), ("6.5", ""), ("unknown", ""), ("ROCm 6.1", ""), ("", "")],
)  # fmt: skip
def test_driver_for_returns_oldest_driver(cuda: str, oldest: str) -> None:
    assert driver_for(cuda) == oldest


@pytest.mark.parametrize(
    ("driver", "cuda", "served"),
    [("580.65.06", "13.0", True), ("550.54", "13.0", False), ("550.54", "12.6", True), ("440.33.01", "10.2", True),
     ("440.31", "10.2", False), ("whatever", "13.0", True), ("550.54", "unknown", True)],
)  # fmt: skip
def test_serves_compares_driver_and_cuda(driver: str, cuda: str, served: bool) -> None:
    assert serves(driver, cuda) is served


@pytest.mark.parametrize(("driver", "newest"), [("595.10", "13"), ("550.54", "12"), ("470.1", "11"), ("", "")])
def test_newest_for_returns_newest_cuda(driver: str, newest: str) -> None:
    assert newest_for(driver) == newest


@pytest.mark.parametrize(
    ("architectures", "capability", "computes"),
    [
        (("sm_70", "sm_75"), "7.5", True),
        (("sm_70",), "7.5", True),
        (("sm_80",), "7.5", False),
        (("sm_75",), "8.6", False),
        (("sm_75", "compute_75"), "12.0", True),
        (("compute_90",), "7.5", False),
        (("sm_90a",), "9.0", True),
        (("sm_90a",), "9.2", False),
        (("sm_120",), "12.0", True),
        ((), "7.5", True),
        (("sm_70",), "", True),
        (("gfx90a",), "9.0", True),
    ],
)
def test_computes_on_compares_architectures(architectures: tuple[str, ...], capability: str, computes: bool) -> None:
    assert computes_on(architectures, capability) is computes
