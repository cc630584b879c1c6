"""The choice of GPUs for a run on this machine, with a stand-in for nvidia-smi."""

from __future__ import annotations

import concurrent.futures
import os
import sys
from pathlib import Path

import pytest

from tests.gpu.standin import REST, Standin, gpu, process
from tui_workbench.config.changes.file_edits import parse_value
from tui_workbench.config.loading import load_compute
from tui_workbench.config.schema import fields
from tui_workbench.core.errors import ConfigurationError, UsageError, WorkbenchError
from tui_workbench.core.model import ComputeTarget, Plan, RunConfiguration, RunSpec, Step
from tui_workbench.runs.lifecycle.limits import limit_of
from tui_workbench.targets.docker import container as containers
from tui_workbench.targets.docker.placing import symbolic_placement
from tui_workbench.targets.gpu import choice
from tui_workbench.targets.gpu.choice import ChosenGpu
from tui_workbench.targets.group.group_target import GroupTarget
from tui_workbench.targets.hosts.host import LocalHost
from tui_workbench.targets.local.local_target import LocalTarget
from tui_workbench.targets.reservations.folder import GpusBusy


def spec(folder: Path, gpus: str, number: int = 1, kind: str = "local") -> RunSpec:
    """Return a run on this machine."""
    directory = folder / f"project_{number}"
    directory.mkdir(exist_ok=True)
    target = ComputeTarget("here", str(folder / "here.compute"), kind, gpus=gpus, base_docker_image="python:3.12")
    configuration = RunConfiguration("here", str(folder / "here.runconfig"), "here", framework="Python")
    return RunSpec(
        directory.name, str(directory), str(folder), "project", str(folder), "train.py", (), configuration, target
    )


def take(of: RunSpec) -> tuple[ChosenGpu, ...]:
    return choice.take(LocalHost(), of)


def numbers(gpus: tuple[ChosenGpu, ...]) -> list[int]:
    return [each.number for each in gpus]


@pytest.fixture
def four(standin: Standin) -> Standin:
    """Four idle GPUs, with another user's process on the first."""
    standin.write(*(gpu(number, REST) for number in range(4)), process(1, 0))
    return standin


def test_free_gpu_is_chosen(four: Standin, tmp_path: Path) -> None:
    one = spec(tmp_path, "free")
    assert numbers(take(one)) == [1]
    assert choice.chosen(one.run_directory) == (ChosenGpu(1, "GPU-00000001-0000-0000-0000-000000000000"),)


def test_two_runs_get_different_gpus(four: Standin, tmp_path: Path) -> None:
    with concurrent.futures.ThreadPoolExecutor(3) as threads:
        gpus = list(threads.map(take, [spec(tmp_path, "free", number) for number in (1, 2, 3)]))
    assert sorted(numbers(each)[0] for each in gpus) == [1, 2, 3]
    with pytest.raises(WorkbenchError) as refused:
        take(spec(tmp_path, "free", 4))
    assert str(refused.value).count("is taken by project_") == 3
    assert "GPU 0 has 1 process on it" in str(refused.value)


def test_group_reserves_gpus_of_all_members_or_none(standin: Standin, tmp_path: Path, home: Path) -> None:
    """Stand-in: both members are this machine, which has one GPU."""
    standin.write(gpu(0, REST))
    alone = spec(tmp_path, "free")
    parts = tuple(alone.target._replace(name=name) for name in ("a", "b"))
    whole = alone._replace(target=ComputeTarget("both", "", "group", members=("a", "b"), parts=parts))
    for part in whole.parts:
        Path(part.run_directory).mkdir(parents=True)
    stopped = []

    class Member(LocalTarget):
        def stop(self, spec: RunSpec, *, grace: float) -> bool:
            stopped.append(spec.target.name)
            return super().stop(spec, grace=grace)

    with pytest.raises(WorkbenchError, match="GPU 0 is taken by a"):
        GroupTarget(whole.target, {part.name: Member(part) for part in parts}).start(
            whole, Plan("both", "group", "", ()), {}
        )
    # An earlier call may have started the script on a member.
    assert sorted(stopped) == ["a", "b"]
    assert list((home / ".workbench-tui" / "gpus").iterdir()) == []


def test_waiting_group_keeps_only_its_place(standin: Standin, tmp_path: Path) -> None:
    """Stand-in: both members are this machine, which has one GPU."""
    standin.write(gpu(0, REST))
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1770)
    alone = spec(tmp_path, "free")
    parts = tuple(alone.target._replace(name=name, gpu_reservations=str(folder)) for name in ("a", "b"))
    whole = alone._replace(target=ComputeTarget("both", "", "group", members=("a", "b"), parts=parts))
    for part in whole.parts:
        Path(part.run_directory).mkdir(parents=True)
    target = GroupTarget(whole.target, {part.name: LocalTarget(part) for part in parts})
    with pytest.raises(GpusBusy, match="waits for 1 free GPU on this machine: GPU 0 is taken by a"):
        target.start(whole, Plan("both", "group", "", ()), {})
    (place,) = map(os.readlink, folder.iterdir())
    assert place.startswith("wait 1 ")
    # An earlier call may have started the script on a member, before another run took the GPU of the other member.
    next(folder.iterdir()).unlink()
    Path(whole.parts[0].run_directory, "pid").write_text("999999999\n-\n-\n")  # a process that cannot exist
    take(alone._replace(target=parts[0]))
    with pytest.raises(WorkbenchError, match="not all members could start it: waits for 1 free GPU") as refused:
        target.start(whole, Plan("both", "group", "", ()), {})
    assert not isinstance(refused.value, GpusBusy)


def test_repeated_start_of_an_ended_run_needs_no_gpu(standin: Standin, tmp_path: Path) -> None:
    standin.write(gpu(0, REST))
    one = spec(tmp_path, "free")
    one = one._replace(target=one.target._replace(python_location=sys.executable))
    Path(one.run_directory, "pid").write_text("999999999\n-\n-\n")  # a process that cannot exist
    Path(one.run_directory, "exit").write_text("0   \n")
    take(spec(tmp_path, "free", 2))
    LocalTarget(one.target).start(one, Plan("here", "local", sys.executable, (Step("start", ""),)), {})
    assert choice.chosen(one.run_directory) == ()


def test_private_folder_is_not_waited_for(standin: Standin, tmp_path: Path, home: Path) -> None:
    standin.write(gpu(0, REST))
    folder = home / ".workbench-tui" / "gpus"
    folder.mkdir(parents=True)
    for number in range(201):
        (folder / f"{number:x}").symlink_to(f"/x{number}")
    with pytest.raises(WorkbenchError, match="more than 200 links") as refused:
        take(spec(tmp_path, "free"))
    assert not isinstance(refused.value, GpusBusy)


def test_local_and_ssh_runs_share_reservations(four: Standin, tmp_path: Path, home: Path) -> None:
    one = spec(tmp_path, "free")
    take(one)
    (entry,) = (home / ".workbench-tui" / "gpus").iterdir()  # as HostLayout of a machine over SSH
    assert os.readlink(entry) == f"run GPU-00000001-0000-0000-0000-000000000000 {one.run_directory}"


def test_same_run_gets_the_same_gpu_again(four: Standin, tmp_path: Path) -> None:
    one = spec(tmp_path, "2")
    assert take(one) == take(one)


def test_reservation_is_kept_when_another_gpu_becomes_free(four: Standin, tmp_path: Path) -> None:
    one = spec(tmp_path, "free")
    gpus = take(one)
    four.write(*(gpu(number, REST) for number in range(4)))
    assert take(one) == gpus


@pytest.mark.parametrize("end", ["exit", "gone", "released"])
def test_reservation_ends_with_the_run(four: Standin, tmp_path: Path, end: str) -> None:
    one = spec(tmp_path, "3")
    take(one)
    with pytest.raises(WorkbenchError):
        take(spec(tmp_path, "free", 2))
    if end == "exit":
        Path(one.run_directory, "exit").write_text("0   \n")
    elif end == "gone":
        Path(one.run_directory, choice.CHOSEN).unlink()
        Path(one.run_directory).rmdir()
    else:
        choice.release(LocalHost(), one)
    assert numbers(take(spec(tmp_path, "free", 2))) == [1]


def test_run_that_has_not_started_keeps_its_reservation(four: Standin, tmp_path: Path) -> None:
    one = spec(tmp_path, "free")
    take(one)
    Path(one.run_directory, "exit").write_text("    \n")
    assert numbers(take(spec(tmp_path, "free", 2))) == [2]


def test_too_few_free_gpus_reserve_none(four: Standin, tmp_path: Path) -> None:
    with pytest.raises(WorkbenchError, match="this machine has fewer than 4 free GPUs: GPU 0 has 1 process on it"):
        take(spec(tmp_path, "4"))
    assert numbers(take(spec(tmp_path, "3", 2))) == [1, 2, 3]


def test_more_gpus_than_exist_is_reported(standin: Standin, tmp_path: Path) -> None:
    standin.write(gpu(0, REST), gpu(1, REST))
    with pytest.raises(WorkbenchError, match="this machine has fewer than 3 free GPUs: 2 in total"):
        take(spec(tmp_path, "3"))


def test_memory_without_process_counts_as_use(standin: Standin, tmp_path: Path) -> None:
    standin.write(gpu(0, mem=9000), gpu(1, REST))
    assert numbers(take(spec(tmp_path, "free"))) == [1]


@pytest.mark.parametrize("gpus", ["[1, 0]", "[GPU-00000001-0000-0000-0000-000000000000, 0]"])
def test_named_gpus_are_used_in_order(four: Standin, tmp_path: Path, gpus: str) -> None:
    assert numbers(take(spec(tmp_path, gpus))) == [1, 0]


def test_missing_gpu_is_reported_with_its_line(four: Standin, tmp_path: Path) -> None:
    (tmp_path / "here.compute").write_text("type: local\ngpus: [7]\n")
    with pytest.raises(ConfigurationError, match=r"gpus lists .7., but this machine has GPU 0 \(GPU-") as refused:
        take(spec(tmp_path, "[7]"))
    assert refused.value.line == 2


@pytest.mark.parametrize(
    ("lines", "said"), [((), "No devices were found"), (("fail Broken",), "Broken"), (None, "NVIDIA-SMI has failed")]
)
def test_choice_fails_without_a_working_driver(
    standin: Standin, tmp_path: Path, lines: tuple[str, ...] | None, said: str
) -> None:
    if lines is None:
        standin.remove()
    else:
        standin.write(*lines)
    with pytest.raises(WorkbenchError, match=f"cannot query the GPUs of this machine: {said}"):
        take(spec(tmp_path, "free"))


def test_script_gets_numbers_in_pci_order() -> None:
    gpus = (ChosenGpu(2, "GPU-b"), ChosenGpu(0, "GPU-a"))
    assert choice.variables(gpus, {}) == {"CUDA_VISIBLE_DEVICES": "2,0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert choice.variables((ChosenGpu(-1, "MIG-x"),), {}) == {"CUDA_VISIBLE_DEVICES": "MIG-x"}
    assert choice.variables(gpus, {"CUDA_VISIBLE_DEVICES": "3"}) == {}


@pytest.mark.parametrize(
    ("written", "read"),
    [("all", "all"), ("FREE", "free"), ("2", "2"), ("0", "0"), ("[0, 1]", "[0, 1]"), ("[GPU-1a]", "[GPU-1a]"),
     ("\n  - 0\n  - MIG-7", "[0, MIG-7]"), ("[0x5F1c2e3a4b, AMD-2]", "[0x5F1c2e3a4b, AMD-2]"),
     ("[74ff74a1-0000-1000-80f2-a2d1b53c7c11]", "[74ff74a1-0000-1000-80f2-a2d1b53c7c11]")],
)  # fmt: skip
def test_gpus_value_is_parsed(tmp_path: Path, written: str, read: str) -> None:
    path = tmp_path / "here.compute"
    path.write_text(f"type: local\ngpus: {written}\n")
    assert load_compute(str(path)).gpus == read


@pytest.mark.parametrize(
    "written", ["some", "-1", "1.5", "[a b]", "{a: 1}", "[[0]]", "[-1]", "12345", "[0x]", "[74ff74a1]"]
)
def test_invalid_gpus_value_is_reported_with_its_line(tmp_path: Path, written: str) -> None:
    path = tmp_path / "here.compute"
    path.write_text(f"type: local\ngpus: {written}\n")
    with pytest.raises(ConfigurationError) as refused:
        load_compute(str(path))
    assert refused.value.line == 2


@pytest.mark.parametrize(
    ("word", "value"), [("FREE", "free"), ("2", 2), ("[0, GPU-1]", [0, "GPU-1"]), ("some", None), ("-1", None)]
)
def test_config_set_stores_gpus_unchanged(word: str, value: object) -> None:
    field = fields.COMPUTE.field("gpus")
    if value is None:
        with pytest.raises(UsageError, match="gpus must be `all`, `free`, a number"):
            parse_value(field, ("gpus",), word, "gpus")
    else:
        assert parse_value(field, ("gpus",), word, "gpus") == value


@pytest.mark.parametrize(
    ("gpus", "nvidia", "chosen", "asked", "option"),
    [
        ("", False, (), None, ""),
        ("0", True, (), None, ""),
        ("", True, (), {"Count": -1}, "--gpus all"),
        ("all", False, (), {"Count": -1}, "--gpus all"),
        ("free", True, ("GPU-b",), {"DeviceIDs": ["GPU-b"]}, '--gpus "device=GPU-b"'),
        ("2", True, (), {"Count": -1}, "--gpus 2"),
        ("[0, 1]", False, ("GPU-a", "GPU-b"), {"DeviceIDs": ["GPU-a", "GPU-b"]}, '--gpus "device=GPU-a,GPU-b"'),
    ],
)
def test_container_gets_a_device_request(
    tmp_path: Path, gpus: str, nvidia: bool, chosen: tuple[str, ...], asked: dict[str, object] | None, option: str
) -> None:
    one = spec(tmp_path, gpus, kind="localdocker")
    one = one._replace(target=one.target._replace(nvidia_docker=nvidia))
    place = symbolic_placement(LocalHost(), one)._replace(gpus=chosen)
    requests = containers.configuration(one, place)["HostConfig"].get("DeviceRequests")
    expected = None if asked is None else [{"Driver": "", **asked, "Capabilities": [["gpu"]]}]
    assert requests == expected
    command = " ".join(containers.docker_command(one, place))
    assert option in command
    assert ("--gpus" in command) is bool(option)


def test_runs_wait_for_free_gpus() -> None:
    target = ComputeTarget("box", "/x", "remote", address="box")
    assert [limit_of(target._replace(gpus=gpus)) for gpus in ("", "all", "[0]", "0", "free", "2")] == [0, 0, 0, 0, 1, 1]
