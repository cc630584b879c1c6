"""Python stacks of a job on two nodes of a real cluster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.faults.support import until

if TYPE_CHECKING:
    from tests.targets.slurm.project import SlurmProject

HANGS = """\
import os, time
def wait_for_others():
    while not os.path.exists(os.environ["GATE"]):
        time.sleep(0.02)
print("began", flush=True)
wait_for_others()
"""


def test_stacks_of_all_nodes_are_read(project: SlurmProject) -> None:
    project.configure(
        {"slurm": {"partition": "gpu", "nodes": 2, "ntasksPerNode": 1}},
        EnvironmentVariables={"GATE": str(project.gate)},
    )
    project.write(HANGS)
    run_id = project.detach("train.py", configuration="cluster")
    until(lambda: "began" in project.log(run_id))
    for _ in range(2):
        done = project.run("experiment", "stacks", "-r", run_id, "-o", "json")
        assert done.code == 0, done
        found = json.loads(done.out)["processes"]
        assert [each["role"] for each in found] == ["rank 0", "rank 1"]
        assert len({each["node"] for each in found}) == 2
        assert {frame["function"] for each in found for frame in each["threads"][0]["frames"]} >= {"wait_for_others"}
    assert not list(project.there(run_id).glob("stacks*"))
    project.gate.touch()
    project.until_status(run_id, "Completed")
