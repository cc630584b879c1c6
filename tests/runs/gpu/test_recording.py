"""GPU samples that the controller records for real processes on simulated GPUs, here and on another machine."""

from __future__ import annotations

import json
import os
import signal
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults.support import Workbench, controller_of, until
from tests.gpu import standin_amd
from tests.gpu.standin import REST, Standin, gpu
from tests.gpu.standin_amd import AmdStandin
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.index.table import RunQuery
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.targets.gpu.activity import file_mark
from tui_workbench.targets.hosts.host_run import HostRun
from tui_workbench.targets.ssh.host_for import host_of

if TYPE_CHECKING:
    from tests.machines import Machine

TRAIN = """\
import os, sys, time
with open(os.environ["STANDIN_NVML_STATE"], "a") as state:
    state.write("proc 0 %d 900 35 C\\n" % os.getpid())
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
"""

WAIT = """\
import os, sys, time
print(os.getpid(), flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
"""


@pytest.fixture
def workbench(project_root: Path, standin: Standin) -> Workbench:
    """Return a project whose script uses the first of two GPUs until the file in its argument exists."""
    standin.write(gpu(0), gpu(1, REST))
    (project_root / "train.py").write_text(TRAIN)
    (project_root / "cpu.py").write_text('import time\nprint("PyTorch 2.13.0+cpu is a CPU build")\ntime.sleep(60)\n')
    return Workbench(project_root)


def run_directory(workbench: Workbench, run_id: str) -> Path:
    return workbench.folder / ".workbench" / "runs" / run_id


def samples(directory: Path) -> list[dict[str, Any]]:
    """Return the samples in the complete lines of `gpu.jsonl`."""
    path = directory / "gpu.jsonl"
    text = path.read_text() if path.exists() else ""
    return [value for value in map(json.loads, text.split("\n")[:-1]) if "d" in value]


def own_samples(directory: Path) -> int:
    """Return the number of samples with a process of the run. The first samples may be older than its script."""
    return sum(any(process[4] == "own" for process in each.get("p", ())) for each in samples(directory))


def until_sampled(directory: Path, count: int) -> None:
    until(lambda: own_samples(directory) >= count, f"{count} samples of the run")


def ended(workbench: Workbench, run_id: str) -> dict[str, Any]:
    """Return the information about the run after its end."""
    until(lambda: workbench.info(run_id)["end_time_utc"], "its end")
    return workbench.info(run_id)


def test_verdict_is_proven_during_the_run_and_after(workbench: Workbench, tmp_path: Path) -> None:
    run_id = workbench.detach("train.py", str(tmp_path / "done"))
    until_sampled(run_directory(workbench, run_id), 3)
    live = workbench.info(run_id)["gpu"]
    assert (live["verdict"], live["final"]) == ("proven", False)
    assert 0 <= samples(run_directory(workbench, run_id))[-1]["q"] < 60
    (tmp_path / "done").touch()
    final = ended(workbench, run_id)["gpu"]
    assert (final["verdict"], final["final"], final["devices"][0]["peak_memory"]) == ("proven", True, 900)
    (listed,) = workbench.history()
    assert listed["gpu"]["verdict"] == "proven"
    runs = Runs(Project.find(str(workbench.folder)))
    for filter_, total in (("gpu:proven", 1), ("gpu_seconds>0.5", 1), ("energy>0", 1), ("gpu:idle", 0)):
        assert runs.page(RunQuery(filter_, sort="gpu_seconds")).total == total
    stored = json.loads((run_directory(workbench, run_id) / "gpu.json").read_text())
    assert stored == final
    users = [sample["p"][0][4:5] for sample in samples(run_directory(workbench, run_id)) if "p" in sample]
    # The process may end before the last sample has found its user.
    assert users[0] == ["own"]
    assert all(user == ["own"] for user in users[:-1])


def test_next_controller_continues_the_samples(workbench: Workbench, tmp_path: Path) -> None:
    run_id = workbench.detach("train.py", str(tmp_path / "done"))
    directory = run_directory(workbench, run_id)
    until_sampled(directory, 2)
    os.kill(controller_of(directory), signal.SIGKILL)
    before = own_samples(directory)
    assert workbench.run("experiment", "resume").code == 0
    until_sampled(directory, before + 2)
    (tmp_path / "done").touch()
    final = ended(workbench, run_id)["gpu"]
    assert final["samples"] == len(samples(directory))
    assert final["verdict"] == "proven"


def test_each_attempt_has_its_own_verdict(workbench: Workbench, tmp_path: Path) -> None:
    """The first attempt computes on a GPU and fails, and the second one does not use a GPU."""
    configure(workbench, "Retry: {delay: 0}")
    (workbench.folder / "train.py").write_text(
        'import os, sys\nif os.environ["WORKBENCH_ATTEMPT"] == "2":\n    sys.argv[1] = sys.argv[2]\n'
        f"else:\n{textwrap.indent(TRAIN, '    ')}    raise SystemExit(3)\n"
        "import time\nwhile not os.path.exists(sys.argv[1]):\n    time.sleep(0.05)\n"
    )
    run_id = workbench.detach("train.py", str(tmp_path / "first"), str(tmp_path / "second"))
    directory = run_directory(workbench, run_id)
    until_sampled(directory, 3)
    (tmp_path / "first").touch()
    until(lambda: b'{"attempt":2}' in (directory / "gpu.jsonl").read_bytes(), "samples of the second attempt")
    marked = len(samples(directory))
    until(lambda: len(samples(directory)) > marked + 3, "more samples")
    (tmp_path / "second").touch()
    info = ended(workbench, run_id)
    first, second = info["attempts"]
    assert first["gpu"]["verdict"] == "proven"
    assert first["gpu"]["gpu_seconds"] > 0
    assert (second["status"], second["gpu"]["gpu_seconds"]) == ("Completed", 0)
    assert second["gpu"]["verdict"] != "proven"
    assert info["gpu"]["gpu_seconds"] == pytest.approx(first["gpu"]["gpu_seconds"], abs=0.02)
    assert json.loads((directory / "attempts" / "1" / "gpu.json").read_text())["verdict"] == "proven"


def test_run_without_gpu_has_no_samples_file(workbench: Workbench, standin: Standin, tmp_path: Path) -> None:
    standin.write()
    (tmp_path / "done").touch()
    result = workbench.submit("train.py", str(tmp_path / "done"))
    assert (result.code, result.err) == (0, "")
    (directory,) = (workbench.folder / ".workbench" / "runs").iterdir()
    assert not list(directory.glob("gpu*"))
    assert "gpu" not in workbench.info("1")


def configure(workbench: Workbench, line: str) -> None:
    with (workbench.folder / "aml_config" / "local.runconfig").open("a") as file:
        file.write(f"{line}\n")


def test_require_gpu_ends_a_run_that_reports_a_cpu_build(workbench: Workbench) -> None:
    configure(workbench, "RequireGpu: true")
    result = workbench.submit("cpu.py")
    assert result.code == 1
    assert "failed: RequireGpu: PyTorch is a CPU build" in result.err
    assert "GPU not used: PyTorch is a CPU build" in result.err


def test_require_gpu_ends_a_run_on_a_machine_without_gpu(workbench: Workbench, standin: Standin) -> None:
    standin.write()
    configure(workbench, "RequireGpu: true")
    assert "RequireGpu is true: the NVIDIA driver finds no GPU" in workbench.submit("cpu.py").error(3)
    # --allow-cpu skips the check before the run, not the policy.
    result = workbench.submit("--allow-cpu", "cpu.py")
    assert (result.code, "failed: RequireGpu: no NVIDIA or AMD GPU is available" in result.err) == (1, True)


def test_free_gpus_are_reserved_and_released(
    workbench: Workbench, standin: Standin, home: Path, tmp_path: Path
) -> None:
    standin.write(gpu(0, REST), gpu(1, REST), "proc 0 1 500 - C")
    with (workbench.folder / "aml_config" / "local.compute").open("a") as file:
        file.write("gpus: free\nmaxConcurrentRuns: 0\n")
    script = 'import os\nprint(os.environ["CUDA_VISIBLE_DEVICES"], os.environ["CUDA_DEVICE_ORDER"])\n'
    (workbench.folder / "hello.py").write_text(script)
    assert (
        "2. gpus: take one free GPU"
        in workbench.run("experiment", "submit", "-c", "local", "--dry-run", "hello.py").out
    )
    for _ in range(2):
        assert workbench.submit("hello.py").out.split("\n")[1] == "1 PCI_BUS_ID"
    assert list((home / ".workbench-tui/gpus").iterdir()) == []


def test_run_on_another_machine_is_proven(
    workbench: Workbench, standin: Standin, gpubox: Machine, ssh_folder: Path
) -> None:
    target = f"type: remote\naddress: {gpubox.address}\nusername: research\npythonLocation: /usr/bin/python3\n"
    (workbench.folder / "aml_config" / "gpubox.compute").write_text(target)
    standin.state.chmod(0o666)
    done = standin.state.with_name("done")
    variables = f"SetEnv PATH={standin.built.programs}:/usr/bin:/bin STANDIN_NVML_STATE={standin.state}"
    with gpubox.configured(variables):
        result = workbench.run("experiment", "submit", "-c", "local", "-t", "gpubox", "--detach", "train.py", str(done))
        assert result.code == 0, result
        run_id = result.out.strip().removeprefix("RunId: ")
        until_sampled(run_directory(workbench, run_id), 4)
        spec = RunDirectory(str(run_directory(workbench, run_id))).read_record().spec
        host = host_of(spec.target)
        before = file_mark(host, spec)
        host.check(["touch", f"{HostRun(host, spec).directory}/work/outputs/step_100.pt"])
        assert "" != file_mark(host, spec) != before
        done.touch()
        final = ended(workbench, run_id)["gpu"]
    assert (final["verdict"], final["devices"][0]["name"]) == ("proven", "Tesla T4")


def test_run_on_another_machine_with_amd_gpus_is_proven(project_root: Path, gpubox: Machine, ssh_folder: Path) -> None:
    amd = AmdStandin(gpubox.home())
    amd.install(python="/usr/bin/python3")
    amd.write(standin_amd.gpu(0), standin_amd.gpu(1, util=0))
    target = f"type: remote\naddress: {gpubox.address}\nusername: research\npythonLocation: /usr/bin/python3\n"
    (project_root / "aml_config" / "gpubox.compute").write_text(target)
    done = gpubox.home() / "done"
    (project_root / "train.py").write_text(WAIT)
    workbench = Workbench(project_root)
    with gpubox.configured(f"SetEnv PATH={amd.programs}:/usr/bin:/bin STANDIN_AMD_STATE={amd.state}"):
        result = workbench.run("experiment", "submit", "-c", "local", "-t", "gpubox", "--detach", "train.py", str(done))
        assert result.code == 0, result
        directory = run_directory(workbench, result.out.strip().removeprefix("RunId: "))
        log = directory / "output.log"
        until(lambda: log.exists() and log.read_bytes().endswith(b"\n"), "the ID of its process")
        pid = int(log.read_bytes())
        amd.write(standin_amd.gpu(0), standin_amd.gpu(1, util=0), processes={"0": [[pid, 1 << 30]]})
        until_sampled(directory, 4)
        done.touch()
        final = ended(workbench, directory.name)["gpu"]
    done.unlink()
    assert (final["verdict"], final["devices"][0]["name"]) == ("proven", "AMD Instinct MI300X")
