"""The ladder: it says what is good, stops at the first broken rung, and names the command that mends it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.engines import EMPTY_IMAGE, PYTHON_IMAGE, DockerEngine, docker_engine
from tests.machines import DOCKER_GROUP, PASSWORD, Machine, fingerprint, make_key
from tui_workbench.core.model import ComputeTarget
from tui_workbench.projects.project import Project
from tui_workbench.targets.checks import check_machine
from tui_workbench.targets.checks.check import check, check_names, is_good, run_checks
from tui_workbench.targets.checks.check_engine import check_version
from tui_workbench.targets.checks.result import (
    BROKEN,
    CLOCK,
    CONFIGURATION,
    CONTAINER,
    DISK,
    DOCKER,
    FRAMEWORK,
    GPU,
    HOST_KEY,
    LOGIN,
    NAME,
    OK,
    PORT,
    PYTHON,
    RUNTIME,
    TOOLS,
    UNNEEDED,
    WARNING,
    CheckFailed,
    CheckResult,
    run_check,
)
from tui_workbench.targets.docker.engine import EngineFacts
from tui_workbench.targets.hosts.host import LocalHost
from tui_workbench.targets.hosts.host_for import ssh_host_of
from tui_workbench.targets.ssh.ssh_host import SshHost
from tui_workbench.targets.ssh.ssh_wire import Login

if TYPE_CHECKING:
    from collections.abc import Iterator

REFERENCE = "AzureMlSecret=gpubox#research#0123456789abcdef0123456789abcdef"


@pytest.fixture
def target(gpubox: Machine, ssh_folder: Path) -> ComputeTarget:
    """Docker on gpubox, without a GPU."""
    return ComputeTarget(
        "gpubox", "gpubox.compute", "remotedocker", address=gpubox.address, username="research",
        base_docker_image=PYTHON_IMAGE,
    )  # fmt: skip


def climb(target: ComputeTarget) -> list[CheckResult]:
    return list(run_checks(target))


def broken(target: ComputeTarget) -> CheckResult:
    """The rung at which the ladder of the target ends; all before it are good."""
    *good, last = climb(target)
    assert is_good(good)
    assert [rung.name for rung in good] == list(check_names(target)[: len(good)])
    assert last.state == BROKEN
    assert not is_good([*good, last])
    return last


@pytest.mark.usefixtures("gpubox_engine")
def test_every_rung_of_a_good_machine_is_climbed(target: ComputeTarget) -> None:
    rungs = climb(target)
    assert tuple(rung.name for rung in rungs) == check_names(target)
    states = {rung.name: rung.state for rung in rungs}
    assert states.pop(GPU) == UNNEEDED
    assert states.pop(DISK) in (OK, WARNING)
    assert set(states.values()) == {OK}


@pytest.mark.usefixtures("gpubox_engine")
def test_plain_python_over_ssh_has_a_ladder_of_its_own(target: ComputeTarget) -> None:
    rungs = climb(target._replace(type="remote", python_location="python3"))
    assert [rung.name for rung in rungs] == [NAME, PORT, HOST_KEY, LOGIN, TOOLS, PYTHON, DISK, CLOCK, GPU]
    assert is_good(rungs)


def test_a_project_is_asked_by_the_targets_name(project: Project) -> None:
    assert [(rung.name, rung.state) for rung in check(project, "local")] == [(PYTHON, OK), (GPU, UNNEEDED)]


# The way there.


def test_a_name_that_nobody_knows(target: ComputeTarget) -> None:
    rung = broken(target._replace(address="nowhere.invalid"))
    assert rung.name == NAME
    assert rung.command == "workbench-tui config set gpubox.compute address HOST"


def test_a_port_on_which_nothing_listens(target: ComputeTarget, gpubox: Machine) -> None:
    rung = broken(target._replace(address=f"{gpubox.address}:2222"))
    assert (rung.name, rung.there) == (PORT, True)


def test_an_unknown_host_key(target: ComputeTarget, ssh_folder: Path, gpubox: Machine) -> None:
    (ssh_folder / "known_hosts").write_text("")
    rung = broken(target)
    assert rung.name == HOST_KEY
    shown = fingerprint(gpubox.folder / "host_key.pub")
    assert shown in rung.message
    assert rung.command == f"workbench-tui computetarget check gpubox --accept-host-key {shown}"


def test_a_changed_host_key(target: ComputeTarget, ssh_folder: Path, gpubox: Machine, tmp_path: Path) -> None:
    old = make_key(tmp_path / "old").with_suffix(".pub")
    (ssh_folder / "known_hosts").write_text(f"{gpubox.address} {old.read_text()}")
    rung = broken(target)
    assert rung.name == HOST_KEY
    assert fingerprint(old) in rung.message
    assert fingerprint(gpubox.folder / "host_key.pub") in rung.message
    assert rung.command == f"ssh-keygen -R '{gpubox.address}'"


def test_a_key_that_is_not_accepted(target: ComputeTarget, tmp_path: Path, gpubox: Machine) -> None:
    stranger = make_key(tmp_path / "stranger")
    rung = broken(target._replace(private_key=str(stranger)))
    assert rung.name == LOGIN
    assert rung.command == f"ssh-copy-id -i {stranger} research@{gpubox.address}"


def test_a_password_that_nobody_has_given(target: ComputeTarget) -> None:
    rung = broken(target._replace(password=REFERENCE))
    assert (rung.name, rung.command) == (LOGIN, "workbench-tui computetarget login gpubox")


def test_no_rung_is_called_good_that_was_not_tried(target: ComputeTarget, ssh_folder: Path) -> None:
    target = target._replace(password=REFERENCE)
    assert broken(target._replace(address="no-such-host.invalid")).name == NAME
    assert broken(target._replace(address=f"{target.address}:23")).name == PORT
    (ssh_folder / "known_hosts").write_text("")
    assert broken(target).name == HOST_KEY
    assert broken(target._replace(password="", private_key="~/no-such-key")).name == HOST_KEY


def test_a_password_in_the_file_is_tried_nowhere(target: ComputeTarget, connections: Path) -> None:
    (rung,) = climb(target._replace(password=PASSWORD))
    assert (rung.name, rung.state) == (CONFIGURATION, BROKEN)
    assert rung.command == "workbench-tui computetarget login gpubox --move-secrets"
    assert PASSWORD not in f"{rung}"
    assert not list(connections.glob("workbench-tui/*"))


def test_a_file_that_cannot_be_read(project: Project) -> None:
    Path(project.config_directory, "torn.compute").write_text("type: [")
    (torn,) = [target for target in project.targets() if target.name == "torn"]
    assert [(rung.name, rung.state) for rung in climb(torn)] == [(CONFIGURATION, BROKEN)]


# Docker.


@pytest.mark.usefixtures("gpubox_engine")
def test_a_user_outside_of_the_docker_group(target: ComputeTarget) -> None:
    rung = broken(target._replace(username="outsider"))
    assert (rung.name, rung.command, rung.there) == (DOCKER, "sudo usermod -aG docker outsider", True)
    assert "ever uses sudo" in rung.remedy


@pytest.fixture
def joined(gpubox: Machine) -> Iterator[None]:
    """outsider has come into the docker group."""
    path = gpubox.folder / "etc" / "group"
    before = path.read_text()
    line = f"docker:x:{DOCKER_GROUP}:research"
    path.write_text(before.replace(line, f"{line},outsider"))
    yield
    path.write_text(before)


@pytest.mark.usefixtures("gpubox_engine")
def test_a_login_from_before_the_user_joined_the_group(target: ComputeTarget, request: pytest.FixtureRequest) -> None:
    outsider = target._replace(username="outsider")
    assert broken(outsider).name == DOCKER
    request.getfixturevalue("joined")
    assert broken(outsider).command == "workbench-tui computetarget disconnect gpubox"
    ssh_host_of(outsider).disconnect()
    assert is_good(climb(outsider))


@pytest.mark.usefixtures("without_engine")
def test_an_engine_that_is_not_there(target: ComputeTarget) -> None:
    rung = broken(target)
    assert rung.name == DOCKER
    # /usr is shared with this machine: where Docker is installed, it is installed there.
    installed = shutil.which("docker") is not None
    assert rung.command == ("sudo systemctl start docker" if installed else "")


FACTS = EngineFacts("27.1.0", "linux", "x86_64", False, ("runc",), "/var/lib/docker")


@pytest.mark.parametrize("version", ["19.03.15", "20.10.24+dfsg1", "28.0.0-rc.1", "dev"])
def test_engines_that_will_do(version: str) -> None:
    assert check_version(FACTS._replace(version=version)).state == OK


@pytest.mark.parametrize("version", ["18.09.7", "1.13.1", "17.05.0-ce"])
def test_an_engine_that_is_too_old(version: str) -> None:
    with pytest.raises(CheckFailed) as old:
        check_version(FACTS._replace(version=version))
    assert version in old.value.message
    assert old.value.command.startswith("curl ")


def test_a_command_is_for_the_machine_unless_it_is_ours() -> None:
    def clean() -> CheckResult:
        return CheckResult("disk", BROKEN, "full", command="workbench-tui experiment clean -t box")

    def old() -> CheckResult:
        return check_version(FACTS._replace(version="18.09.7"))

    box = SshHost(Login("box", "box"))
    assert run_check("engine", old, box).there
    assert not run_check("engine", old, LocalHost()).there
    assert not run_check("disk", clean, box).there


def test_an_engine_for_windows_containers() -> None:
    with pytest.raises(CheckFailed, match="Windows"):
        check_version(FACTS._replace(os_type="windows"))


# GPUs. The machine has none; where one is wanted, nvidia-smi and NVIDIA's hook are stand-ins.


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder at the head of the PATH, for stand-ins."""
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def stand_in(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


GPU_TARGET = ComputeTarget("here", "here.compute", "localdocker", base_docker_image=EMPTY_IMAGE, nvidia_docker=True)


@pytest.mark.usefixtures("gpubox_engine")
def test_a_driver_that_is_not_there(target: ComputeTarget) -> None:
    rung = broken(target._replace(nvidia_docker=True))
    assert (rung.name, rung.there) == (GPU, True)
    assert "config set gpubox.compute nvidiaDocker false" in rung.remedy


@pytest.mark.usefixtures("engine")
def test_a_driver_that_does_not_answer(tools: Path) -> None:
    stand_in(tools, "nvidia-smi", "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18")
    rung = broken(GPU_TARGET)
    assert (rung.name, rung.command) == (GPU, "sudo reboot")
    assert "version mismatch" in rung.message


@pytest.mark.usefixtures("engine")
def test_an_engine_without_nvidias_toolkit(tools: Path) -> None:
    stand_in(tools, "nvidia-smi", "echo 'Tesla T4, 580.65.06, 15360 MiB'")
    rung = broken(GPU_TARGET)
    assert rung.name == RUNTIME
    assert "nvidia-ctk runtime configure" in rung.command


def test_a_container_proves_that_gpus_are_given(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tools, "nvidia-smi", "echo 'Tesla T4, 580.65.06, 15360 MiB'")
    stand_in(tools, "nvidia-container-runtime-hook", "exit 0")
    path = f"{tools}:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
    with docker_engine(environment={"PATH": path}) as engine:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{engine.socket}")
        rungs = climb(GPU_TARGET)
        assert [(rung.name, rung.state) for rung in rungs[-3:-1]] == [(RUNTIME, OK), (CONTAINER, OK)]
        assert "a container was given the GPUs" in rungs[-2].message
        assert (rungs[-1].name, rungs[-1].state) == (FRAMEWORK, BROKEN)
        assert "there is no Python in the image" in rungs[-1].message
        assert engine.containers() == []

        with_tool = GPU_TARGET._replace(base_docker_image="tests/gpu:1")
        image_with_nvidia_smi(engine, "exit 0")
        assert (CONTAINER, OK) in [(rung.name, rung.state) for rung in climb(with_tool)]
        image_with_nvidia_smi(engine, "echo Failed to initialize NVML: Unknown Error; exit 255")
        rung = broken(with_tool)
        assert (rung.name, rung.command) == (CONTAINER, "sudo systemctl restart docker")
        assert "NVML: Unknown Error" in rung.message
        assert engine.containers() == []


def image_with_nvidia_smi(engine: DockerEngine, text: str) -> None:
    """Make `tests/gpu:1`: an image with a stand-in of what NVIDIA's hook puts into a container."""
    script = f"printf '#!/bin/sh\\n{text}\\n' >/usr/bin/nvidia-smi; chmod 755 /usr/bin/nvidia-smi"
    engine.docker("run", "--name", "made", "--network", "none", EMPTY_IMAGE, "/bin/sh", "-c", script)
    engine.docker("commit", "made", "tests/gpu:1")
    engine.docker("rm", "made")


@pytest.mark.usefixtures("engine")
def test_a_gpu_that_is_not_used_is_mentioned(tools: Path) -> None:
    stand_in(tools, "nvidia-smi", "echo 'Tesla T4, 580.65.06, 15360 MiB'")
    (rung,) = [rung for rung in climb(GPU_TARGET._replace(nvidia_docker=False)) if rung.name == GPU]
    assert (rung.state, rung.command) == (OK, "workbench-tui config gpu-ready here")


# The machine.


def test_a_python_that_is_not_there(target: ComputeTarget) -> None:
    rung = broken(target._replace(type="remote", python_location="/opt/no python"))
    assert rung.name == PYTHON
    assert "/opt/no python is no Python there" in rung.message


def test_a_python_below_the_home_folder(target: ComputeTarget, gpubox: Machine) -> None:
    link = gpubox.home() / "python"
    link.symlink_to("/usr/bin/python3")
    try:
        assert is_good(climb(target._replace(type="remote", python_location="~/python")))
    finally:
        link.unlink()


def test_a_full_disk(target: ComputeTarget, gpubox: Machine) -> None:
    folder = "/home/research/.workbench-tui"
    gpubox.run(["mkdir", "-p", folder])
    gpubox.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=777", "tmpfs", folder])
    try:
        rung = broken(target._replace(type="remote", python_location="python3"))
    finally:
        gpubox.run(["umount", folder])
        gpubox.run(["rmdir", folder])
    assert (rung.name, rung.command) == (DISK, "workbench-tui experiment clean -t gpubox")
    assert folder in rung.message


def test_a_folder_that_does_not_exist_yet_is_on_the_disk_of_its_parent(tmp_path: Path) -> None:
    free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
    if free < check_machine.DISK_BROKEN_BYTES:
        pytest.skip("the disk of this machine is full")
    assert check_machine.disk(LocalHost(), [str(tmp_path / "a" / "b")], "").state in (OK, WARNING)


@pytest.mark.parametrize(
    ("ahead", "state", "word"), [(0, OK, "agrees"), (30, WARNING, "ahead of"), (-30, WARNING, "behind")]
)
def test_the_clocks_are_compared(tools: Path, ahead: int, state: str, word: str) -> None:
    stand_in(tools, "date", f"/bin/date -u -d '{ahead:+} seconds' +%s")
    rung = check_machine.clock(LocalHost())
    assert rung.state == state
    assert word in rung.message


@pytest.mark.parametrize("ahead", [3600, -3600])
def test_a_clock_that_is_far_off(tools: Path, ahead: int) -> None:
    stand_in(tools, "date", f"/bin/date -u -d '{ahead:+} seconds' +%s")
    with pytest.raises(CheckFailed) as far:
        check_machine.clock(LocalHost())
    assert far.value.command == "sudo timedatectl set-ntp true"


@pytest.mark.usefixtures("engine")
def test_a_check_leaves_nothing_behind(tools: Path, engine: DockerEngine) -> None:
    stand_in(tools, "nvidia-smi", "echo 'Tesla T4, 580.65.06, 15360 MiB'")
    climb(GPU_TARGET)
    assert engine.containers() == []
