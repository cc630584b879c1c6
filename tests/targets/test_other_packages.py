"""A type of target from another package: forms, checks, runs, preflight and verdict treat it like a built-in one.

The package is a real one, with metadata on the path. Its targets run scripts on this machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.support import Workbench, until
from tests.gpu import frameworks as standins
from tests.gpu.standin import Standin, gpu
from tests.gpu.standin import standin as standin
from tests.gpu.standin import standin_parts as standin_parts
from tests.runs.support import write_configuration, write_files
from tests.ui.main.test_main import opened, seen
from tests.ui.waiting import until as until_shown
from tui_workbench.config.checks.project_context import ProjectContext
from tui_workbench.config.document import Document
from tui_workbench.core import target_types
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.projects.project import Project
from tui_workbench.runs.gpu.gate import check_gpu
from tui_workbench.targets.gpu.framework_location import spec_of
from tui_workbench.targets.registry import checks_for, target_for
from tui_workbench.ui.machines.machine import CheckScreen

PACKAGE = """\
from tui_workbench.core.model import Problem
from tui_workbench.core.target_types import TargetType
from tui_workbench.targets.checks.ladder import Check, Checks
from tui_workbench.targets.checks.result import OK, CheckFailed, CheckResult
from tui_workbench.targets.local.local_target import LocalTarget


class RackChecks(Checks):
    def of_type(self):
        return [*super().of_type(), Check("slots", self._slots)]

    def before_gpus(self):
        return [Check("slots", self._slots)]

    def _slots(self):
        slots = self.target.values.get("slots")
        if slots > 9:
            command = "workbench-tui config set rack.compute slots 9"
            raise CheckFailed(f"the rack has 9 slots, not {slots}", "Use fewer slots.", command)
        return CheckResult("slots", OK, f"{slots} slots are free")


class Rack(LocalTarget):
    type = TargetType(
        "rack", "Rack", keys=("pythonLocation", "gpus", "slots"), required=("pythonLocation",),
        uses_interpreter=True, has_gpus=True,
    )
    starts_at_once = False

    @classmethod
    def checks(cls, target, open_target, host=None):
        return RackChecks(target, open_target, host)

    def check(self):
        if self.target.values.get("slots") == 0:
            return [Problem(self.target.path, 0, 0, "error", "slots", "the rack has no slot", "Buy one.")]
        return super().check()
"""

TRAIN = """\
import os, time
with open(os.environ["STANDIN_NVML_STATE"], "a") as state:
    state.write("proc 0 %d 900 35 C\\n" % os.getpid())
print("begun", flush=True)
while not os.path.exists("done"):
    time.sleep(0.05)
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder of the package, on the path of this process."""
    folder = tmp_path / "site"
    write_files(
        folder,
        {
            "rack.py": PACKAGE,
            "broken.py": "raise RuntimeError('half installed')\n",
            "rack-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: rack\nVersion: 1.0\n",
            "rack-1.0.dist-info/entry_points.txt": (
                "[tui_workbench.targets]\nrack = rack:Rack\nbroken = broken:Target\nodd = rack:TargetType\n"
            ),
        },
    )
    monkeypatch.syspath_prepend(str(folder))
    target_types.forget_installed()
    yield folder
    target_types.forget_installed()


@pytest.fixture
def rack(project_root: Path, site: Path) -> Workbench:
    """Return a project with a target of the type, and a run configuration on it."""
    write_configuration(project_root, "rack", suffix="compute", type="rack", pythonLocation="python", slots=3)
    write_configuration(project_root, "rack", Target="rack")
    write_files(project_root, {"hello.py": "print('hello')\n", "train.py": TRAIN})
    return Workbench(project_root, {"PYTHONPATH": str(site)})


def form(root: Path) -> Document:
    return Document.open(str(root / "aml_config" / "rack.compute"), ProjectContext(str(root)))


def test_form_shows_the_fields_of_the_type(rack: Workbench) -> None:
    document = form(rack.folder)
    shown = {row.field.key for row in document.fields()}
    assert {"pythonLocation", "gpus", "maxConcurrentRuns", "slots"} <= shown
    assert shown.isdisjoint({"address", "baseDockerImage", "userManagedEnvironment"})
    assert document.problems() == []
    (kind,) = [row.field for row in document.fields() if row.field.key == "type"]
    assert "rack" in kind.offered


def test_form_reports_missing_and_unused_keys(rack: Workbench) -> None:
    write_configuration(rack.folder, "rack", suffix="compute", type="rack", address="gpubox")
    found = [(problem.code, problem.message) for problem in form(rack.folder).problems()]
    assert ("no-effect", "`address` has no effect on a rack target") in found
    assert any("pythonLocation" in message for _, message in found)


def test_checks_include_those_of_the_type(rack: Workbench, standin: Standin) -> None:
    standin.write(gpu(0))
    rows = json.loads(rack.run("computetarget", "check", "rack", "-o", "json").out)
    assert [(row["rung"], row["state"]) for row in rows[:4]] == [
        ("python", "ok"),
        ("slots", "ok"),
        ("ready", "ok"),
        ("gpu driver", "ok"),
    ]
    assert checks_for(Project.find(str(rack.folder)).target("rack")).names[:3] == ("python", "slots", "ready")


def test_failed_check_of_the_type_has_its_fix(rack: Workbench) -> None:
    write_configuration(rack.folder, "rack", suffix="compute", type="rack", pythonLocation="python", slots=12)
    *_, row = json.loads(rack.run("computetarget", "check", "rack", "-o", "json").out)
    assert (row["check"], row["state"], row["message"]) == ("slots", "broken", "the rack has 9 slots, not 12")
    assert (row["command"], row["command_runs_on"]) == ("workbench-tui config set rack.compute slots 9", "here")
    (row,) = json.loads(rack.run("gpu", "check", "-c", "rack", "-o", "json").out)
    assert (row["check"], row["state"]) == ("slots", "broken")


def test_failed_check_of_the_type_leaves_the_gpu_check_to_the_start(rack: Workbench, standin: Standin) -> None:
    standin.write(gpu(0))
    write_configuration(rack.folder, "rack", suffix="compute", type="rack", pythonLocation="python", slots=12)
    project = Project.find(str(rack.folder))
    target = project.target("rack")
    found = check_gpu(spec_of(target))
    assert (found.text, found.refusal, found.is_due) == ("the rack has 9 slots, not 12", None, True)


async def test_screen_shows_the_check_of_the_type(rack: Workbench) -> None:
    write_configuration(rack.folder, "rack", suffix="compute", type="rack", pythonLocation="python", slots=12)
    async with opened(Project.find(str(rack.folder))) as pilot:
        await pilot.press("2", "end", "t")
        await until_shown(lambda: isinstance(pilot.app.screen, CheckScreen) and "✗ slots" in seen(pilot))
        assert "the rack has 9 slots, not 12" in seen(pilot)
        assert "✓ python" in seen(pilot)


def test_problem_reported_by_the_type_stops_the_checks(rack: Workbench) -> None:
    write_configuration(rack.folder, "rack", suffix="compute", type="rack", pythonLocation="python", slots=0)
    (row,) = json.loads(rack.run("computetarget", "check", "rack", "-o", "json").out)
    assert (row["state"], row["message"], row["remedy"]) == ("broken", "the rack has no slot", "Buy one.")


def test_run_is_submitted_and_canceled(rack: Workbench, standin: Standin) -> None:
    standin.write()
    assert rack.submit("hello.py", configuration="rack").out.endswith("hello\n")
    assert (rack.folder / "done").exists() is False
    run_id = rack.detach("train.py", configuration="rack")
    until(lambda: "begun" in rack.log(run_id), "its first line")
    assert rack.run("experiment", "cancel", "--run", run_id).code == 0
    assert until(lambda: rack.info(run_id)["end_time_utc"] and rack.info(run_id), "its end")["status"] == "Canceled"


def test_run_that_uses_a_gpu_is_verified(rack: Workbench, standin: Standin) -> None:
    standin.write(gpu(0))
    run_id = rack.detach("train.py", configuration="rack")
    until(lambda: (rack.info(run_id).get("gpu") or {}).get("verdict") == "proven", "its verdict")
    (rack.folder / "done").touch()
    ended = until(lambda: rack.info(run_id)["end_time_utc"] and rack.info(run_id), "its end")
    assert (ended["status"], ended["gpu"]["verdict"]) == ("Completed", "proven")


def test_run_that_would_use_the_cpu_is_stopped(rack: Workbench, standin: Standin, tmp_path: Path) -> None:
    standin.write(gpu(0))
    packages = tmp_path / "packages"
    standins.torch(packages, version="2.4.0+cpu", cuda=None, capabilities=())
    write_configuration(
        rack.folder, "rack", Target="rack", RequireGpu=True, EnvironmentVariables={"PYTHONPATH": str(packages)}
    )
    write_files(rack.folder, {"train.py": "import torch\n"})
    result = rack.submit("train.py", configuration="rack")
    assert result.code == 3
    assert "PyTorch 2.4.0+cpu is a CPU build: it trains on the CPU" in result.err


@pytest.mark.parametrize("name", ["broken", "odd"])
def test_broken_package_affects_only_its_targets(rack: Workbench, name: str) -> None:
    write_configuration(rack.folder, "rack", suffix="compute", type=name)
    target = Project.find(str(rack.folder)).target("rack")
    assert not target.kind.has_gpus
    with pytest.raises(ConfigurationError) as raised:
        target_for(target)
    assert raised.value.file == target.path
