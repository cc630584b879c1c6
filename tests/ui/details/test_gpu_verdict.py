"""GPU verdicts in the details, the dashboard and the comparison."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.runs.gpu.samples import samples
from tests.ui.dashboard.conftest import dashboard, shows, type_text
from tests.ui.details.test_run_details import details, screen
from tests.ui.main.test_main import seen
from tests.ui.runs.past import past_run
from tests.ui.runs.test_compare import comparing, line_of
from tests.ui.waiting import until
from tui_workbench.runs.gpu.evidence import AGAINST, FOR
from tui_workbench.runs.gpu.verdict import DeviceFigures, Evidence, Verdict, to_json

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tui_workbench.core.model import Run
    from tui_workbench.projects.project import Project

    Workbench = Pilot[list[Run]]

FIGURES = DeviceFigures(
    0, "Tesla T4", "GPU-0", 2890.0, 4300.8, 80.0, 97.0, None, 2312.0, 61.0, 0.0, (), 12.0, 0
)  # fmt: skip
PROVEN = Verdict(
    "proven",
    "its processes computed on a GPU: GPU 0 Tesla T4, peak 4.2 GiB, 80 % mean, 97 % p95, 39 min of GPU time, 61 Wh",
    devices=(FIGURES,),
    evidence=(Evidence(FOR, "PyTorch", ("name: Tesla T4", "major: 7 minor: 5"), 3),),
    unseen=("no samples for 12 s",),
    samples=2890,
    final=True,
)
SILENCE = "no step, log line or file for 33 min, GPU at 100 %; mean interval 12 s"
WAITED = "GPU 0 waited 99 times between phases of work, 33 % of the time, as when a script waits for data"
HANGING = PROVEN._replace(
    word="stalled",
    text=PROVEN.text.replace("its processes computed on a GPU", SILENCE),
    cause="a rank may be waiting for other ranks in a collective operation",
    advice=(f"{WAITED}: more data loader workers, prefetching and pinned memory usually help",),
)
CPU_BUILD = "PyTorch is a CPU build"
NOT_USED = Verdict(
    "not used",
    f"it used no GPU: {CPU_BUILD}",
    CPU_BUILD,
    evidence=(Evidence(AGAINST, "PyTorch", ("PyTorch 2.13.0+cpu is a CPU build",), 1, CPU_BUILD),),
    samples=60,
    final=True,
)


def judged(project: Project, number: int, verdict: Verdict, recorded: bytes = b"") -> None:
    """Write a run with this verdict and these samples."""
    stored = json.dumps(to_json(verdict)).encode()
    files = {"gpu.json": stored, **({"gpu.jsonl": recorded} if recorded else {})}
    past_run(project, number, exit_code=0, files=files)


@pytest.fixture
def proven(project: Project) -> Project:
    """Return a project with a run that used a GPU, a run that did not, and a run without GPU."""
    judged(project, 1, PROVEN, samples([0, 60, 97, 80]))
    judged(project, 2, NOT_USED, samples([0, 0], whose="alice"))
    past_run(project, 3, exit_code=0)
    return project


async def test_head_shows_the_verdict_with_figures(proven: Project) -> None:
    async with details(proven, 1) as pilot:
        await until(lambda: "✓ GPU proven" in seen(pilot))
        assert "GPU 0 Tesla T4, peak 4.2 GiB" in seen(pilot)


async def test_narrow_head_keeps_the_figures(project: Project) -> None:
    sentence = "its processes computed, but other processes may have computed too (blender (alice), python (bob))"
    judged(project, 1, PROVEN._replace(word="shared", text=f"{sentence}: GPU 0 Tesla T4, peak 4.2 GiB, 80 % mean"))
    async with details(project, 1, (80, 24)) as pilot:
        await until(lambda: "◆ GPU shared  GPU 0 Tesla T4, peak 4.2 GiB, 80 % mean" in seen(pilot))


@pytest.mark.slow
async def test_head_of_a_run_without_gpu_has_no_verdict(proven: Project) -> None:
    async with details(proven, 3) as pilot:
        await until(lambda: "No metrics logged." in seen(pilot))
        assert screen(pilot).head.size.height == 2
        await pilot.press("7")
        await until(lambda: "No GPU samples were recorded for this run" in seen(pilot))


def table_of(pilot: Workbench) -> str:
    """Return the text of the tab with single blanks, or "" before its first layout."""
    panel = screen(pilot).gpu
    lines = ["".join(piece.text for piece in line) for line in panel.text.lines]
    return " ".join(" ".join(lines).split()) if panel.size.width and panel.text.size.width else ""


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (160, 48)])
async def test_tab_shows_figures_evidence_and_gaps(proven: Project, size: tuple[int, int]) -> None:
    async with details(proven, 1, size) as pilot:
        await pilot.press("7")
        await until(lambda: "61 Wh" in table_of(pilot))
        words = table_of(pilot)
        for said in ("proven", "48:10", "80 %", "97 %", "4.2 GiB", "38:32", "61 Wh", "name: Tesla T4", "line 3"):
            assert said in words, said
        assert "Incomplete" in words
        assert "no samples for 12 s" in words
        assert all(len("".join(piece.text for piece in line)) <= size[0] - 2 for line in screen(pilot).gpu.text.lines)


async def test_tab_shows_the_cause_and_its_log_line(proven: Project) -> None:
    async with details(proven, 2) as pilot:
        await pilot.press("7")
        await until(lambda: "✗ GPU not used" in seen(pilot))
        assert f"it used no GPU: {CPU_BUILD}" in seen(pilot)
        await until(lambda: "PyTorch 2.13.0+cpu is a CPU build" in seen(pilot))


@pytest.mark.slow
async def test_m_switches_between_charts_of_samples(proven: Project) -> None:
    async with details(proven, 1) as pilot:
        panel = screen(pilot).gpu
        await pilot.press("7")
        await until(lambda: panel.charts[0].picture is not None)
        assert [curve.label for curve in panel.charts[0].curves] == ["GPU 0"]
        assert list(panel.charts[0].curves[0].values) == [0, 60, 97, 80]
        assert "utilization %" in seen(pilot)
        await pilot.press("m")
        await until(lambda: "memory GiB" in seen(pilot))
        assert [curve.label for curve in panel.charts[1].curves] == ["GPU 0", "GPU 0, this run"]
        assert list(panel.charts[1].curves[1].values) == [1] * 4
        await pilot.press("m")
        await until(lambda: "power W" in seen(pilot))


@pytest.mark.slow
async def test_wide_tab_shows_all_charts(proven: Project) -> None:
    async with details(proven, 1, (160, 48)) as pilot:
        await pilot.press("7")
        await until(lambda: all(name in seen(pilot) for name in ("utilization %", "memory GiB", "power W")))
        assert screen(pilot).gpu.why_not("next_chart") == "All charts are already shown."


async def test_utilization_axis_goes_from_0_to_100(project: Project) -> None:
    judged(project, 1, PROVEN, samples([97, 98, 99]))
    async with details(project, 1) as pilot:
        await pilot.press("7")
        await until(lambda: screen(pilot).gpu.charts[0].picture is not None)
        picture = screen(pilot).gpu.charts[0].picture
        assert picture is not None
        assert (picture.y.low, picture.y.high) == (0, 100)


@pytest.mark.slow
async def test_dashboard_has_a_verdict_column(proven: Project) -> None:
    async with dashboard(proven) as pilot:
        await until(lambda: "✓ GPU" in seen(pilot) and "✗ no GPU" in seen(pilot))
        await pilot.press("slash")
        await type_text(pilot, "gpu:proven")
        await shows(pilot, "1")
    async with dashboard(proven) as pilot:
        await pilot.press("slash")
        await type_text(pilot, "has:gpu")
        await shows(pilot, "2", "1")


@pytest.mark.slow
@pytest.mark.parametrize("size", [(80, 24), (160, 48)])
async def test_stalled_run_shows_the_silence_and_advice(project: Project, size: tuple[int, int]) -> None:
    judged(project, 1, HANGING, samples([0, 100, 100, 100]))
    async with details(project, 1, size) as pilot:
        await until(lambda: "■ GPU stalled  no step, log line or file for 33 min, GPU" in seen(pilot))
        await pilot.press("7")
        await until(lambda: "likely: a rank may be waiting for other ranks" in seen(pilot))
        words = " ".join(seen(pilot).replace("│", " ").split())
        assert SILENCE in words
        assert "Advice" in words
        assert "▲ GPU 0 waited 99 times between phases of work" in words


async def test_comparison_includes_the_verdict(proven: Project) -> None:
    async with comparing(proven, 1, 2) as pilot:
        await until(lambda: "✓ proven" in seen(pilot))
        assert line_of(pilot, "verdict")[1:] == ["✓", "proven", "✗", "not", "used"]
        assert "GPU seconds" in seen(pilot)
