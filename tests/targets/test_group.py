"""Torchrun on two machines over SSH, with a real PyTorch: two ranks on each, connected by Gloo."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import open_folder, require
from tests.faults.support import kill_controller, until
from tests.gpu.standin import REST, T4, Built, Standin, gpu
from tests.gpu.standin import standin_parts as standin_parts
from tests.runs.gpu.test_recording import samples
from tests.runs.support import write_files
from tests.targets.group_project import MEMBERS
from tests.targets.group_project import box2 as box2
from tests.targets.group_project import group as group
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.projects.project import Project
from tui_workbench.runs.lifecycle.adoption import adopt_runs
from tui_workbench.runs.logs.rank_files import node_log, rank_log, ranks_by_node
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.targets.group import waiting
from tui_workbench.targets.registry import target_for

if TYPE_CHECKING:
    from tests.targets.group_project import Group

TRAIN = """
import os, socket, sys
import torch, torch.distributed as dist
import workbench
dist.init_process_group("gloo")
rank = dist.get_rank()
total = torch.ones(1) * (rank + 1)
dist.all_reduce(total)
print("sum", total.item(), "on", socket.gethostname(), sys.argv[1:])
if rank == 0: workbench.log("rank", rank)
open(f"outputs/rank{rank}.txt", "w").write("own")
open("outputs/same.txt", "w").write(str(rank))
os.utime("outputs/same.txt", (1, 1))
dist.destroy_process_group()
"""

WAITS = """
import os, signal, sys, time
rank = int(os.environ["RANK"])
print("rank", rank, "is", os.getpid(), flush=True)
while not os.path.exists(os.path.expanduser("~/go")):
    time.sleep(0.1)
"""
DEAF = WAITS.replace("rank =", "signal.signal(15, signal.SIG_IGN)\nrank =")
FAILS = DEAF + "if rank == 3: raise ValueError('bad shapes')\nwhile True: time.sleep(0.1)\n"


THRICE = """
import os
attempt, rank = os.environ["WORKBENCH_ATTEMPT"], os.environ["RANK"]
print("attempt", attempt, flush=True)
open(f"outputs/{attempt}-{rank}", "w").close()
open(f"outputs/last{rank}", "w").write(attempt)
if attempt != "3" and rank == "3": raise ValueError("not yet")
"""


def lines_of(log: str, rank: int) -> list[str]:
    """Return the lines of a rank in the merged log, without their prefix."""
    prefix = f"[rank{rank}]: "
    return [line.removeprefix(prefix) for line in log.splitlines() if line.startswith(prefix)]


def begin(group: Group, script: str) -> tuple[str, dict[int, int]]:
    """Start a script, wait for its four ranks, and return the ID of the run and the process IDs of the ranks there."""
    group.write(script)
    run_id = group.detach("train.py", configuration="both")
    until(lambda: group.log(run_id).count(" is ") == 4, "all ranks")
    words = [line.split() for line in group.log(run_id).splitlines() if " is " in line]
    return run_id, {int(each[2]): int(each[4]) for each in words}


def member_of(group: Group, run_id: str, rank: int) -> str:
    return next(name for name, ranks in ranks_by_node(str(group.run_directory(run_id))).items() if rank in ranks)


def test_ranks_of_two_machines_communicate(group: Group, tmp_path: Path) -> None:
    group.write(f"{TRAIN}assert open('../sets/name').read() == socket.gethostname()\n")
    for there, name in zip(group.machines, ("gpubox", "box2"), strict=True):
        write_files(there.home() / "sets", {"name": name})
    group.configure(DataReferences={"../sets": "/home/research/sets"})
    ended = group.submit("train.py", "a b", "--rdzv_endpoint=$HOME", configuration="both")
    (record,) = group.history()
    run_id, directory = record["run_id"], group.run_directory(record["run_id"])
    log = group.log(run_id)
    assert record["status"] == "Completed", (ended, log)
    by_node = ranks_by_node(str(directory))
    assert [len(by_node[name]) for name in MEMBERS] == [2, 2]
    for name, host in zip(MEMBERS, ("gpubox", "box2"), strict=True):
        for rank in by_node[name]:
            written = Path(rank_log(str(directory), rank)).read_text()
            assert written.endswith(f"sum 10.0 on {host} ['a b', '--rdzv_endpoint=$HOME']\n")
            # The logs of the member and of the run contain every line of the rank.
            for text in (log, Path(node_log(str(directory), name)).read_text()):
                assert lines_of(text, rank) == written.splitlines()
            assert (directory / "outputs" / f"rank{rank}.txt").read_text() == "own"
    assert "sum 10.0" in group.run("logs", run_id, "--node", "box2").out
    assert len((directory / "metrics.jsonl").read_text().splitlines()) == 1
    # Rank 0 is on one of the members, whose file comes first if another is as new.
    assert int((directory / "outputs" / "same.txt").read_text()) in by_node[member_of(group, run_id, 0)]
    other = next(name for name in MEMBERS if 0 not in by_node[name])
    assert int((directory / "ranks" / other / "outputs" / "same.txt").read_text()) in by_node[other]
    for there in group.machines:
        folder = there.home() / ".workbench-tui" / "runs" / run_id
        assert not (folder / "work").exists()
        assert not os.path.lexists(folder / "sets")
        shutil.rmtree(there.home() / "sets")
        # Without the record, `experiment clean` of other projects would remove the folder.
        assert json.loads((folder / "run.json").read_text())["project"] == "project"
    copied = tmp_path / "copy" / "project"
    shutil.copytree(group.folder / "aml_config", copied / "aml_config")
    assert adopt_runs(Project(str(copied)), "box1") == []


def test_first_failed_rank_is_named_and_all_ranks_end(group: Group) -> None:
    """The other ranks wait, so that they do not notice the end of rank 3. They also ignore SIGTERM."""
    run_id, _ = begin(group, FAILS)
    for there in group.machines:
        (there.home() / "go").touch()
    group.until_status(run_id, "Failed")
    information = group.info(run_id)
    assert information["reason"] == f"rank 3 on {member_of(group, run_id, 3)}: ValueError: bad shapes (train.py:8)"
    assert information["exit_code"] == 1
    until(lambda: not group.processes(), "the end of all ranks")


def test_check_compares_the_members(group: Group) -> None:
    group.configure(EnvironmentVariables={})  # with the path of PyTorch
    checked = group.run("computetarget", "check", "both")
    assert checked.code == 0, checked
    assert "each member has its own home folder" in checked.out
    assert "warning   python          all members have Python 3." in checked.out
    assert checked.out.count("(wire)") == 2
    assert "the clocks of the members agree" in checked.out
    gpus = group.run("gpu", "check", "-t", "both")
    (line,) = (line for line in gpus.out.splitlines() if line.startswith("broken"))
    assert line.startswith("broken    box1            gpu driver: ")
    assert "workbench-tui computetarget prepare box1" in gpus.out
    group.configure(box2={"pythonLocation": "/nowhere/python"})
    broken = group.run("computetarget", "check", "both")
    assert broken.code == 4
    assert "/nowhere/python" in broken.out
    assert "workbench-tui computetarget check box2" in broken.out
    group.configure(box2={"address": f"{group.machines[0].address}:22"})
    same = group.run("computetarget", "check", "both")
    assert (same.code, "have the same home folder" in same.out) == (4, True)
    group.configure(both={"networkInterface": "eth0"})  # only this machine is connected to it
    separate = group.run("computetarget", "check", "both")
    assert (separate.code, "member box2 cannot connect to box1 at" in separate.out) == (4, True), separate
    group.write("")
    ended = group.submit("train.py", configuration="both")
    assert "member box2 cannot connect to box1 at" in ended.err, ended
    group.configure(box2={"address": f"{group.machines[0].address}:22"})
    ended = group.submit("train.py", configuration="both")
    assert "members box1 and box2 have the same home folder" in f"{ended}".replace("box2 and box1", "box1 and box2")


def test_firewall_that_only_opens_the_rendezvous_is_found(group: Group) -> None:
    box = group.machines[1]
    rule = ["INPUT", "-p", "tcp", "--syn", "--dport", "30000:65535", "-j", "REJECT"]
    box.run([require("iptables"), "-I", *rule])
    try:
        found = group.run("computetarget", "check", "both")
    finally:
        box.run([require("iptables"), "-D", *rule])
    assert found.code == 4, found
    assert "member box1 cannot connect to box2 at " in found.out


def test_cancel_ends_all_ranks_on_all_members(group: Group) -> None:
    run_id, _ = begin(group, DEAF)
    assert group.run("experiment", "cancel", "--run", run_id, "--grace", "0.2").code == 0
    assert group.status(run_id) == "Canceled"
    until(lambda: not group.processes(), "the end of all ranks")


COMPUTES = f"""
import os
with open(os.environ["STANDIN_NVML_STATE"], "a") as state:
    state.write("proc %s %d 900 - C\\n" % (os.environ["LOCAL_RANK"], os.getpid()))
{WAITS}
"""


def test_verdict_covers_the_gpus_of_all_members(group: Group, standin_parts: Built) -> None:
    """The GPUs are stand-ins. Each rank holds memory of a GPU; the second GPU of box2 does not compute."""
    with contextlib.ExitStack() as stack:
        for name, there, second in zip(MEMBERS, group.machines, (T4, REST), strict=True):
            state = stack.enter_context(open_folder()) / name
            gpus = Standin(state, standin_parts)
            gpus.write(gpu(0), gpu(1, second))
            state.chmod(0o666)
            path = f"{standin_parts.programs}:/usr/bin:/bin"
            stack.enter_context(there.configured(f"SetEnv PATH={path} STANDIN_NVML_STATE={state}"))
        run_id, _ = begin(group, COMPUTES)
        directory = group.run_directory(run_id)
        until(lambda: len([each for each in samples(directory) if len(own_ranks(each)) == 4]) > 4, "their samples")
        for there in group.machines:
            (there.home() / "go").touch()
        group.until_status(run_id, "Completed")
    by_node = ranks_by_node(str(directory))
    verdict = group.info(run_id)["gpu"]
    assert verdict["text"].startswith("its processes computed on 3 of 4 GPUs, but not on GPU 1 on box2: ")
    for name, first in zip(MEMBERS, (0, 100), strict=True):
        found = [each for each in verdict["devices"] if each["number"] in (first, first + 1)]
        assert [each["name"] for each in found] == [f"{name}: Tesla T4"] * 2
        assert sorted(rank for each in found for rank in each["ranks"]) == list(by_node[name])


def own_ranks(sample: dict[str, Any]) -> set[int]:
    return {each[10] for each in sample.get("p", ()) if len(each) > 10 and each[4] == "own"}


def test_run_survives_its_controller_and_a_lost_member(group: Group) -> None:
    run_id, _ = begin(group, WAITS + "print('trained', flush=True)\n")
    kill_controller(group.run_directory(run_id))
    group.machines[1].stop_sshd()
    try:
        group.run("experiment", "resume")
        group.until_status(run_id, "Unknown")
        assert "member box2: " in group.info(run_id)["reason"]
    finally:
        group.machines[1].start_sshd()
    for there in group.machines:
        (there.home() / "go").touch()
    group.until_status(run_id, "Completed")
    for rank in range(4):
        assert [line.split()[0] for line in lines_of(group.log(run_id), rank)] == ["rank", "trained"]


def test_lost_member_ends_the_run_on_the_others(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process waits for the run instead of its controller, for a shorter time."""
    group.configure(both={"onLostMember": "end"})
    run_id, _ = begin(group, WAITS)
    directory = RunDirectory(str(group.run_directory(run_id)))
    kill_controller(group.run_directory(run_id))
    monkeypatch.setattr(waiting, "LOST_SECONDS", 3.0)
    spec = directory.read_record().spec
    with contextlib.closing(target_for(spec.target)) as target:
        group.machines[1].stop_sshd()
        try:
            outcome = target.wait(spec, -1)
            assert (outcome.exit_code, outcome.has_failed) == (None, True)
            assert outcome.reason.startswith(
                "member box2: unreachable for 0.05 min; its processes may still be running there; the last error was: "
            )
            assert not group.machines[0].processes("python3")
            with pytest.raises(WorkbenchError, match="member box2 does not answer") as incomplete:
                target.collect(spec)
            assert f"experiment collect --run {run_id}`, which also ends the processes" in incomplete.value.remedy
        finally:
            group.machines[1].start_sshd()
        target.collect(spec)
        assert not group.processes()


def test_failed_run_starts_again_on_all_members(group: Group) -> None:
    """The second attempt is that of `Retry`, and the third that of a command."""
    group.configure(Retry={"delay": 0})
    group.write(THRICE)
    ended = group.submit("train.py", configuration="both")
    (record,) = group.history()
    run_id = record["run_id"]
    assert record["reason"].startswith(f"attempt 2: rank 3 on {member_of(group, run_id, 3)}: ValueError: not yet ("), (
        ended
    )
    resumed = group.run("experiment", "resume", "--run", run_id)
    assert resumed.code == 0, resumed
    group.until_status(run_id, "Completed")
    log = group.log(run_id)
    starts = [line for line in lines_of(log, 3) if line.startswith("attempt ")]
    assert starts == ["attempt 1", "attempt 2", "attempt 3"]
    assert {lines_of(log, rank)[-1] for rank in range(4)} == {"attempt 3"}
    attempts = group.info(run_id)["attempts"]
    assert [each["exit_code"] for each in attempts] == [1, 1, 0]
    directory = group.run_directory(run_id)
    outputs = {path.name: path.read_text() for path in (directory / "outputs").iterdir()}
    assert {"1-3", "2-3", "3-0", "3-1", "3-2", "3-3"} <= outputs.keys()
    assert [outputs[f"last{rank}"] for rank in range(4)] == ["3"] * 4
    assert [path for name in MEMBERS for path in (directory / "ranks" / name).glob("outputs/?-?")] == []
