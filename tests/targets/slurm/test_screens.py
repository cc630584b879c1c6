"""The screens on a real cluster: its lines in the GPU monitor, and the time limit of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.support import WAITS
from tests.faults.support import until as until_now
from tests.ui.main.test_main import opened, seen
from tests.ui.waiting import until
from tui_workbench.projects.project import Project
from tui_workbench.runs.store.cluster_job import read_job
from tui_workbench.ui.details.run_details import RunDetailsScreen

if TYPE_CHECKING:
    from tests.targets.slurm.project import SlurmProject

IGNORES_SIGTERM = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"


@pytest.fixture
def screens(project: SlurmProject) -> Project:
    """Return the project, which also has a target that is ready without a check."""
    for kind, text in (("compute", "type: local\n"), ("runconfig", "Target: local\nFramework: Python\n")):
        (project.folder / "aml_config" / f"local.{kind}").write_text(text)
    return Project.find(str(project.folder))


async def test_monitor_scrolls_and_filters_the_lines_of_a_cluster(project: SlurmProject, screens: Project) -> None:
    project.begin()
    async with opened(screens, (80, 12)) as pilot:
        await pilot.press("7")
        await until(lambda: "yours" in seen(pilot))
        assert "train.py [1]" not in seen(pilot)
        await pilot.press("tab", "end")
        await until(lambda: "train.py [1]" in seen(pilot))
        assert "yours" not in seen(pilot)
        await pilot.press("home")
        await until(lambda: " cpu " in seen(pilot))
        await pilot.press("slash", *"short")
        await until(lambda: " cpu " not in seen(pilot))
        assert " short " in seen(pilot)
        await pilot.press("escape")
        await until(lambda: " cpu " in seen(pilot))


async def test_log_and_details_show_the_time_limit(project: SlurmProject, screens: Project) -> None:
    project.configure({"slurm": {"partition": "gpu", "extra": ["--time=10"]}})
    project.write(f"{IGNORES_SIGTERM}{WAITS}")
    run_id = project.detach("train.py", str(project.gate), configuration="cluster")
    until_now(lambda: read_job(str(project.run_directory(run_id))).nodes, "the node of the job")
    async with opened(screens, (120, 36)) as pilot:
        await until(lambda: "min left" in seen(pilot))
        assert "The cluster has sent SIGTERM" not in seen(pilot)
        await pilot.press("5", "d")
        await until(lambda: isinstance(pilot.app.screen, RunDetailsScreen))
        job = read_job(str(project.run_directory(run_id)))
        await until(lambda: f"job {job.job_id} on {job.nodes}, " in seen(pilot))
        await pilot.press("escape")
        project.cluster.manage("update", f"job={job.job_id}", "TimeLimit=2")
        await until(lambda: "The cluster has sent SIGTERM" in seen(pilot))
