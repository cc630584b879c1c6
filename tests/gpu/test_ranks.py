"""The GPU verdict on all ranks, and on all attempts, of a run. The GPUs are stand-ins, the processes are real."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults.support import until
from tests.gpu.standin import REST, Standin, gpu
from tests.runs.gpu.test_recording import configure, ended, run_directory, samples
from tests.runs.gpu.test_recording import workbench as workbench

if TYPE_CHECKING:
    from tests.faults.support import Workbench

RANK = """\
import os, sys, time
with open(os.environ["STANDIN_NVML_STATE"], "a") as state:
    state.write("proc %s %d 900 35 C\\n" % (os.environ["LOCAL_RANK"], os.getpid()))
print("name: Tesla T4\\nmajor: 7 minor: 5", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
"""


def test_every_rank_counts_on_its_device(workbench: Workbench, standin: Standin, tmp_path: Path) -> None:
    standin.write(gpu(0), gpu(1, util=90), gpu(2, REST))
    configure(workbench, "ProcessesPerNode: 2")
    (workbench.folder / "rank.py").write_text(RANK)
    run_id = workbench.detach("rank.py", str(tmp_path / "done"))
    directory = run_directory(workbench, run_id)

    def on_both() -> bool:
        found = [{(each[1], each[4]) for each in line.get("p", ()) if len(each) > 4} for line in samples(directory)]
        return sum(seen == {(0, "own"), (1, "own")} for seen in found) > 2

    until(on_both, "samples of both ranks")
    (tmp_path / "done").touch()
    verdict = ended(workbench, run_id)["gpu"]
    assert (verdict["verdict"], verdict["final"]) == ("proven", True)
    assert {(each["number"], each["peak_memory"]) for each in verdict["devices"]} == {(0, 900), (1, 900)}
    # The lines that each rank printed about its device are evidence, quoted without the prefix.
    assert [each["quote"] for each in verdict["evidence"]] == [["name: Tesla T4", "major: 7 minor: 5"]]


ATTEMPT = """\
import os, pathlib, sys, time
state = pathlib.Path(os.environ["STANDIN_NVML_STATE"])
lines = [line for line in state.read_text().splitlines() if not line.startswith("proc")]
state.write_text("\\n".join([*lines, "proc 0 %d 900 35 C" % os.getpid(), ""]))
time.sleep(4)
sys.exit(3 if os.environ["WORKBENCH_ATTEMPT"] == "1" else 0)
"""


def test_time_between_attempts_is_not_sampled(workbench: Workbench, standin: Standin) -> None:
    """Otherwise, a long delay would count as idle time."""
    standin.write(gpu(0))
    configure(workbench, "Retry: {delay: 6}")
    (workbench.folder / "twice.py").write_text(ATTEMPT)
    run_id = workbench.detach("twice.py")
    assert ended(workbench, run_id)["gpu"]["verdict"] == "proven"
    times = [line["t"] for line in samples(run_directory(workbench, run_id))]
    assert max(after - before for before, after in pairwise(times)) > 4


def test_process_per_gpu_needs_pytorch_with_gpus(workbench: Workbench) -> None:
    """The tests' PyTorch is a CPU build."""
    configure(workbench, "ProcessesPerNode: gpus")
    refused = workbench.submit("train.py", "x")
    assert refused.code != 0
    assert "ProcessesPerNode is gpus" in refused.err
    result = workbench.run("experiment", "submit", "-c", "local", "--allow-cpu", "train.py", "x")
    assert "failed: ProcessesPerNode is gpus, but PyTorch sees no GPU\n" in result.err
