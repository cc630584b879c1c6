"""`gpu list` and `gpu top`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.support import Workbench, until
from tests.gpu.standin import REST, Standin, gpu, process
from tests.gpu.standin import standin as standin
from tests.gpu.standin import standin_parts as standin_parts
from tests.targets.gpu.test_feed import samplers
from tests.ui.runs.past import past_run
from tui_workbench.projects.project import Project
from tui_workbench.targets.hosts.processes import RUN_ID_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def workbench(project_root: Path, home: Path, standin: Standin) -> Iterator[Workbench]:
    """Return a project on a machine with two stand-in GPUs; samplers are killed after the test."""
    standin.write(gpu(0, util=83, throttle=4), gpu(1, REST))
    yield Workbench(project_root)
    for pid in samplers(home):
        os.kill(pid, signal.SIGKILL)
    until(lambda: not samplers(home), "the sampler's end")


def test_each_gpu_is_a_line(workbench: Workbench) -> None:
    result = workbench.run("gpu", "list")
    assert result.code == 0
    head, _, first, second = result.out.rstrip("\n").split("\n")
    assert head.split()[:4] == ["Target", "Gpu", "Name", "Utilization"]
    assert first.split()[:5] == ["local", "0", "Tesla", "T4", "83"]
    assert "power cap" in first
    assert second.split()[:5] == ["local", "1", "Tesla", "T4", "0"]
    assert "Problem" not in head


def test_gpu_list_prints_json(workbench: Workbench) -> None:
    first, _ = json.loads(workbench.run("gpu", "list", "-o", "json").out)
    assert (first["memory_used"], first["memory_total"], first["power_limit"]) == (1024, 15360, 70)
    assert (first["driver"], first["cuda"], first["whose"], first["problem"]) == ("550.54", "12.4", [], None)


def test_each_process_is_listed_with_its_run(workbench: Workbench, standin: Standin, project_root: Path) -> None:
    run_id = past_run(Project.find(str(project_root)), 7)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE,
                          env={**os.environ, RUN_ID_VARIABLE: run_id}) as worker:  # fmt: skip
        standin.add(process(worker.pid, 0), process(1, 1, memory=500))
        ours, others = json.loads(workbench.run("gpu", "top", "-o", "json").out)
        gpus = json.loads(workbench.run("gpu", "list", "-o", "json").out)
        worker.kill()
    assert (ours["pid"], ours["gpu"], ours["run"], ours["script"]) == (worker.pid, 0, run_id, "train.py [7]")
    assert (others["pid"], others["run"], others["memory"]) == (1, None, 500)
    assert gpus[0]["whose"] == ["train.py [7]"]


def test_unreachable_machine_is_listed_with_its_problem(workbench: Workbench) -> None:
    (workbench.folder / "aml_config" / "box.compute").write_text(
        "type: remote\naddress: no-such-host.invalid\nusername: me\n"
    )
    assert workbench.run("computetarget", "check", "box").code == 4
    box, *here = json.loads(workbench.run("gpu", "list", "-o", "json").out)
    assert (box["target"], box["gpu"]) == ("box", None)
    assert box["problem"].startswith("unreachable: ")
    assert [each["gpu"] for each in here] == [0, 1]
    assert workbench.run("gpu", "list", "-t", "box").code == 4
    assert workbench.run("gpu", "list", "-t", "local").code == 0


def test_machine_without_gpus_is_not_a_failure(workbench: Workbench, standin: Standin) -> None:
    standin.write()
    result = workbench.run("gpu", "list")
    assert result.code == 0
    assert "the NVIDIA driver lists no GPU" in result.out


def test_watch_continues_until_interrupted(workbench: Workbench, standin: Standin) -> None:
    with workbench.start("gpu", "list", "--watch", "-o", "json") as watching:
        assert watching.stdout is not None
        first = json.loads(watching.stdout.readline())
        standin.write(gpu(0, util=12), gpu(1, REST))
        while json.loads(watching.stdout.readline())["records"][0]["utilization"] != 12:
            pass
        watching.send_signal(signal.SIGINT)
        assert watching.wait() == 0
    assert first["records"][0]["utilization"] == 83


def test_unknown_target_is_an_error(workbench: Workbench) -> None:
    workbench.run("gpu", "list", "-t", "nowhere").error(3, "nowhere")
