"""Checks of a target stop at the first failure and name the command that fixes it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import open_folder, require
from tests.engines import EMPTY_IMAGE, PYTHON_IMAGE, DockerEngine, docker_engine
from tests.machines import DOCKER_GROUP, PASSWORD, Machine, fingerprint, make_key
from tests.waiting import wait_until
from tui_workbench.core.model import ComputeTarget
from tui_workbench.projects.project import Project
from tui_workbench.targets.checks import check_machine
from tui_workbench.targets.checks.result import (
    BROKEN,
    CLOCK,
    CONFIGURATION,
    CONTAINER,
    DISK,
    DOCKER,
    FRAMEWORK,
    GPU,
    HOMES,
    HOST_KEY,
    LOGIN,
    NAME,
    NETWORK,
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
from tui_workbench.targets.docker.checks import check_version
from tui_workbench.targets.docker.engine import Engine
from tui_workbench.targets.docker.engine_answers import EngineFacts
from tui_workbench.targets.hosts.host import LocalHost
from tui_workbench.targets.registry import checks_for
from tui_workbench.targets.ssh.login_secrets import ssh_host_of
from tui_workbench.targets.ssh.ssh_host import SshHost
from tui_workbench.targets.ssh.ssh_wire import Login

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

REFERENCE = "AzureMlSecret=gpubox#research#0123456789abcdef0123456789abcdef"


@pytest.fixture
def target(gpubox: Machine, ssh_folder: Path) -> ComputeTarget:
    """Docker on gpubox, without a GPU."""
    return ComputeTarget(
        "gpubox", "gpubox.compute", "remotedocker", address=gpubox.address, username="research",
        base_docker_image=PYTHON_IMAGE,
    )  # fmt: skip


def failed_check(target: ComputeTarget) -> CheckResult:
    """Return the last result, which is broken; no result before it is."""
    *passed, last = checks_for(target).run()
    assert all_passed(passed)
    assert [each.name for each in passed] == list(checks_for(target).names[: len(passed)])
    assert last.state == BROKEN
    return last


def all_passed(results: Iterable[CheckResult]) -> bool:
    return all(each.state != BROKEN for each in results)


@pytest.mark.usefixtures("gpubox_engine")
def test_healthy_machine_passes_every_check(target: ComputeTarget) -> None:
    results = list(checks_for(target).run())
    assert tuple(found.name for found in results) == checks_for(target).names
    states = {found.name: found.state for found in results}
    assert states.pop(GPU) == UNNEEDED
    assert states.pop(DISK) in (OK, WARNING)
    assert set(states.values()) == {OK}


@pytest.mark.usefixtures("gpubox_engine")
def test_remote_python_target_is_checked(target: ComputeTarget) -> None:
    results = list(checks_for(target._replace(type="remote", python_location="python3")).run())
    assert [found.name for found in results] == [NAME, PORT, HOST_KEY, LOGIN, TOOLS, PYTHON, DISK, CLOCK, GPU]
    assert all_passed(results)


def test_check_of_a_group_ends_with_comparisons() -> None:
    boxes = tuple(ComputeTarget(name, f"{name}.compute", "remote") for name in ("box1", "box2"))
    group = ComputeTarget("both", "both.compute", "group", members=("box1", "box2"), parts=boxes)
    assert checks_for(group).names == ("box1", "box2", HOMES, PYTHON, NETWORK, CLOCK)


def test_local_target_is_checked(project: Project) -> None:
    assert [(found.name, found.state) for found in checks_for(project.target("local")).run()] == [
        (PYTHON, OK),
        (GPU, UNNEEDED),
    ]


# The connection.


def test_unknown_host_name_fails(target: ComputeTarget) -> None:
    found = failed_check(target._replace(address="nowhere.invalid"))
    assert found.name == NAME
    assert found.command == "workbench-tui config set gpubox.compute address HOST"


def test_closed_port_fails(target: ComputeTarget, gpubox: Machine) -> None:
    found = failed_check(target._replace(address=f"{gpubox.address}:2222"))
    assert (found.name, found.there) == (PORT, True)


def test_unknown_host_key_fails(target: ComputeTarget, ssh_folder: Path, gpubox: Machine) -> None:
    (ssh_folder / "known_hosts").write_text("")
    found = failed_check(target)
    assert found.name == HOST_KEY
    shown = fingerprint(gpubox.folder / "host_key.pub")
    assert shown in found.message
    assert found.command == f"workbench-tui computetarget check gpubox --accept-host-key {shown}"


def test_changed_host_key_fails(target: ComputeTarget, ssh_folder: Path, gpubox: Machine, tmp_path: Path) -> None:
    old = make_key(tmp_path / "old").with_suffix(".pub")
    (ssh_folder / "known_hosts").write_text(f"{gpubox.address} {old.read_text()}")
    found = failed_check(target)
    assert found.name == HOST_KEY
    assert fingerprint(old) in found.message
    assert fingerprint(gpubox.folder / "host_key.pub") in found.message
    assert found.command == f"ssh-keygen -R '{gpubox.address}'"


def test_refused_private_key_fails(target: ComputeTarget, tmp_path: Path, gpubox: Machine) -> None:
    stranger = make_key(tmp_path / "stranger")
    found = failed_check(target._replace(private_key=str(stranger)))
    assert found.name == LOGIN
    assert found.command == f"ssh-copy-id -i {stranger} research@{gpubox.address}"


def test_invalid_ssh_configuration_is_not_a_missing_key(target: ComputeTarget, ssh_folder: Path) -> None:
    (ssh_folder / "config").write_text("Host *\n  Port many\n")
    found = failed_check(target)
    assert (found.name, found.remedy, found.command) == (
        LOGIN,
        "Correct the SSH configuration. `ssh -G` with the same host shows the error.",
        "ssh -G",
    )


def test_missing_password_fails(target: ComputeTarget) -> None:
    found = failed_check(target._replace(password=REFERENCE))
    assert (found.name, found.command) == (LOGIN, "workbench-tui computetarget login gpubox")


def test_connection_problem_is_reported_before_missing_password(target: ComputeTarget, ssh_folder: Path) -> None:
    target = target._replace(password=REFERENCE)
    assert failed_check(target._replace(address="no-such-host.invalid")).name == NAME
    assert failed_check(target._replace(address=f"{target.address}:23")).name == PORT
    (ssh_folder / "known_hosts").write_text("")
    assert failed_check(target).name == HOST_KEY
    assert failed_check(target._replace(password="", private_key="~/no-such-key")).name == HOST_KEY


def test_plain_text_password_is_not_used(target: ComputeTarget, connections: Path) -> None:
    (found,) = checks_for(target._replace(password=PASSWORD)).run()
    assert (found.name, found.state) == (CONFIGURATION, BROKEN)
    assert found.command == "workbench-tui computetarget login gpubox --move-secrets"
    assert PASSWORD not in f"{found}"
    assert not list(connections.glob("workbench-tui/*"))


def test_invalid_target_file_fails(project: Project) -> None:
    Path(project.config_directory, "torn.compute").write_text("type: [")
    (torn,) = [target for target in project.targets() if target.name == "torn"]
    assert [(found.name, found.state) for found in checks_for(torn).run()] == [(CONFIGURATION, BROKEN)]


# Docker.


@pytest.mark.usefixtures("gpubox_engine")
def test_user_outside_the_docker_group_fails(target: ComputeTarget) -> None:
    found = failed_check(target._replace(username="outsider"))
    assert (found.name, found.command, found.there) == (DOCKER, "sudo usermod -aG docker outsider", True)
    assert "Add the user to the group" in found.remedy


@pytest.fixture
def joined(gpubox: Machine) -> Iterator[None]:
    """Add outsider to the docker group."""
    path = gpubox.folder / "etc" / "group"
    before = path.read_text()
    line = f"docker:x:{DOCKER_GROUP}:research"
    path.write_text(before.replace(line, f"{line},outsider"))
    yield
    path.write_text(before)


@pytest.mark.usefixtures("gpubox_engine")
def test_login_before_joining_the_group_must_reconnect(target: ComputeTarget, request: pytest.FixtureRequest) -> None:
    outsider = target._replace(username="outsider")
    assert failed_check(outsider).name == DOCKER
    request.getfixturevalue("joined")
    assert failed_check(outsider).command == "workbench-tui computetarget disconnect gpubox"
    ssh_host_of(outsider).disconnect()
    assert all_passed(checks_for(outsider).run())


@pytest.mark.usefixtures("without_engine")
def test_missing_engine_fails(target: ComputeTarget) -> None:
    found = failed_check(target)
    assert found.name == DOCKER
    # /usr is shared with this machine: where Docker is installed, it is installed there.
    installed = shutil.which("docker") is not None
    fix = "sudo systemctl start docker" if installed else "workbench-tui computetarget prepare gpubox"
    assert found.command == fix


FACTS = EngineFacts("27.1.0", "linux", "x86_64", False, ("runc",), "/var/lib/docker")


@pytest.mark.parametrize("version", ["19.03.15", "20.10.24+dfsg1", "28.0.0-rc.1", "dev"])
def test_recent_engine_versions_pass(version: str) -> None:
    assert check_version(FACTS._replace(version=version)).state == OK


@pytest.mark.parametrize("version", ["18.09.7", "1.13.1", "17.05.0-ce"])
def test_old_engine_versions_fail(version: str) -> None:
    with pytest.raises(CheckFailed) as old:
        check_version(FACTS._replace(version=version))
    assert version in old.value.message
    assert old.value.command.startswith("curl ")


@pytest.mark.parametrize(("version", "is_recent"), [("3.4.4", False), ("4.3.1", True), ("5.2.0-dev", True)])
def test_podman_has_a_minimum_version_of_its_own(version: str, is_recent: bool) -> None:
    facts = FACTS._replace(version=version)
    if is_recent:
        assert check_version(facts, is_podman=True).message == f"podman {version} for x86_64"
        return
    with pytest.raises(CheckFailed, match=f"podman {version} is too old") as old:
        check_version(facts, is_podman=True)
    assert "docker" not in f"{old.value.command}{old.value.remedy}"


@pytest.mark.docker
def test_podman_is_recognized() -> None:
    with open_folder() as folder:  # podman refuses long paths
        socket = folder / "socket"
        storage = ("--root", str(folder / "root"), "--runroot", str(folder / "run"))
        service = ("system", "service", "--time", "0", f"unix://{socket}")
        with subprocess.Popen([require("podman"), *storage, *service]) as podman:
            try:
                wait_until(socket.exists, "the socket of podman")
                engine = Engine(str(socket), "box")
                assert engine.is_podman()
                assert check_version(engine.facts(), is_podman=True).state == OK
            finally:
                podman.terminate()


def test_only_workbench_commands_are_for_this_machine() -> None:
    def clean() -> CheckResult:
        return CheckResult("disk", BROKEN, "full", command="workbench-tui experiment clean -t box")

    def old() -> CheckResult:
        return check_version(FACTS._replace(version="18.09.7"))

    box = SshHost(Login("box", "box"))
    assert run_check("engine", old, box).there
    assert not run_check("engine", old, LocalHost()).there
    assert not run_check("disk", clean, box).there


def test_windows_engine_fails() -> None:
    with pytest.raises(CheckFailed, match="Windows"):
        check_version(FACTS._replace(os_type="windows"))


# GPUs. The machine has none; tests that need one use stand-ins for nvidia-smi and NVIDIA's hook.


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder for stand-ins, which is first on the PATH."""
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def stand_in(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


GPU_TARGET = ComputeTarget("here", "here.compute", "localdocker", base_docker_image=EMPTY_IMAGE, nvidia_docker=True)


@pytest.mark.usefixtures("gpubox_engine")
def test_missing_gpu_driver_fails(target: ComputeTarget) -> None:
    found = failed_check(target._replace(nvidia_docker=True))
    assert (found.name, found.command) == (GPU, "workbench-tui computetarget prepare gpubox")
    assert "config set gpubox.compute nvidiaDocker false" in found.remedy


@pytest.mark.usefixtures("engine")
def test_gpu_driver_error_fails(tools: Path) -> None:
    stand_in(tools, "nvidia-smi", "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18")
    found = failed_check(GPU_TARGET)
    assert (found.name, found.command) == (GPU, "sudo reboot")
    assert "version mismatch" in found.message


@pytest.mark.usefixtures("engine")
def test_missing_nvidia_toolkit_fails(tools: Path) -> None:
    stand_in(tools, "nvidia-smi", "echo 'Tesla T4, 580.65.06, 15360 MiB'")
    found = failed_check(GPU_TARGET)
    assert found.name == RUNTIME
    assert found.command == "workbench-tui computetarget prepare here"


@pytest.mark.docker
def test_gpus_are_checked_in_a_container_that_is_removed(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tools, "nvidia-smi", "echo 'Tesla T4, 580.65.06, 15360 MiB'")
    stand_in(tools, "nvidia-container-runtime-hook", "exit 0")
    path = f"{tools}:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
    with docker_engine(environment={"PATH": path}, images=[EMPTY_IMAGE]) as engine:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{engine.socket}")
        results = list(checks_for(GPU_TARGET).run())
        assert [(found.name, found.state) for found in results[-3:-1]] == [(RUNTIME, OK), (CONTAINER, OK)]
        assert "a container can use the GPUs" in results[-2].message
        assert (results[-1].name, results[-1].state) == (FRAMEWORK, BROKEN)
        assert "has no Python" in results[-1].message
        assert engine.containers() == []

        with_tool = GPU_TARGET._replace(base_docker_image="tests/gpu:1")
        image_with_nvidia_smi(engine, "exit 0")
        assert (CONTAINER, OK) in [(found.name, found.state) for found in checks_for(with_tool).run()]
        image_with_nvidia_smi(engine, "echo Failed to initialize NVML: Unknown Error; exit 255")
        found = failed_check(with_tool)
        assert (found.name, found.command) == (CONTAINER, "sudo systemctl restart docker")
        assert "NVML: Unknown Error" in found.message
        assert engine.containers() == []


def image_with_nvidia_smi(engine: DockerEngine, text: str) -> None:
    """Create `tests/gpu:1`: an image with a stand-in for the files that NVIDIA's hook adds to a container."""
    script = f"printf '#!/bin/sh\\n{text}\\n' >/usr/bin/nvidia-smi; chmod 755 /usr/bin/nvidia-smi"
    engine.docker("run", "--name", "made", "--network", "none", EMPTY_IMAGE, "/bin/sh", "-c", script)
    engine.docker("commit", "made", "tests/gpu:1")
    engine.docker("rm", "made")


@pytest.mark.usefixtures("engine")
def test_unused_gpu_is_mentioned(tools: Path) -> None:
    stand_in(tools, "nvidia-smi", "echo 'Tesla T4, 580.65.06, 15360 MiB'")
    (found,) = [found for found in checks_for(GPU_TARGET._replace(nvidia_docker=False)).run() if found.name == GPU]
    assert (found.state, found.command) == (OK, "workbench-tui config gpu-ready here")


# The machine.


def test_missing_remote_python_fails(target: ComputeTarget) -> None:
    found = failed_check(target._replace(type="remote", python_location="/opt/no python"))
    assert found.name == PYTHON
    assert "/opt/no python is not a Python interpreter" in found.message


def test_remote_python_below_home_is_found(target: ComputeTarget, gpubox: Machine) -> None:
    link = gpubox.home() / "python"
    link.symlink_to("/usr/bin/python3")
    try:
        assert all_passed(checks_for(target._replace(type="remote", python_location="~/python")).run())
    finally:
        link.unlink()


def test_full_disk_fails(target: ComputeTarget, gpubox: Machine) -> None:
    folder = "/home/research/.workbench-tui"
    gpubox.run(["mkdir", "-p", folder])
    gpubox.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=777", "tmpfs", folder])
    try:
        found = failed_check(target._replace(type="remote", python_location="python3"))
    finally:
        gpubox.run(["umount", folder])
        gpubox.run(["rmdir", folder])
    assert (found.name, found.command) == (DISK, "workbench-tui experiment clean -t gpubox")
    assert folder in found.message


@contextlib.contextmanager
def mounted(machine: Machine, options: str) -> Iterator[str]:
    """Mount an empty file system with these options at `~/.workbench-tui`, and yield the path."""
    folder = "/home/research/.workbench-tui"
    machine.run(["mkdir", "-p", folder])
    machine.run(["mount", "-t", "tmpfs", "-o", f"size=100g,mode=777,{options}", "tmpfs", folder])
    try:
        yield folder
    finally:
        machine.run(["umount", folder])
        machine.run(["rmdir", folder])


@pytest.mark.parametrize(
    ("options", "problem", "fix", "command"),
    [
        ("ro", "Read-only file system", "Mount the file system for reading and writing", ""),
        ("nr_inodes=1", "No space left on device", "`df -i`", "workbench-tui experiment clean -t gpubox"),
        ("uid=0,mode=755", "Permission denied", "a folder that you can write to", ""),
    ],
)
def test_folder_of_runs_that_cannot_be_written_to_fails(
    target: ComputeTarget, gpubox: Machine, options: str, problem: str, fix: str, command: str
) -> None:
    with mounted(gpubox, options) as folder:
        found = failed_check(target._replace(type="remote", python_location="python3"))
    assert (found.name, found.command) == (DISK, command)
    assert found.message == f"cannot write to {folder}, where runs are stored: {problem}"
    assert fix in found.remedy


@pytest.mark.usefixtures("gpubox_engine")
def test_folder_of_runs_is_checked_for_containers_too(target: ComputeTarget, gpubox: Machine) -> None:
    with mounted(gpubox, "ro") as folder:
        found = failed_check(target)
    assert (found.name, found.message) == (
        DISK,
        f"cannot write to {folder}, where runs are stored: Read-only file system",
    )


def test_link_to_nowhere_in_place_of_the_folder_of_runs_fails(target: ComputeTarget, gpubox: Machine) -> None:
    link = gpubox.home() / ".workbench-tui"
    link.symlink_to("/nowhere")
    try:
        found = failed_check(target._replace(type="remote", python_location="python3"))
    finally:
        link.unlink()
    assert found.message.endswith("where runs are stored: No such file or directory")


@pytest.mark.parametrize("made", [(), (".workbench-tui",), (".workbench-tui", "runs")])
def test_write_test_leaves_no_file(target: ComputeTarget, gpubox: Machine, made: tuple[str, ...]) -> None:
    if made:
        gpubox.home().joinpath(*made).mkdir(parents=True)
        gpubox.run(["chown", "-R", "research", "/home/research/.workbench-tui"])
    before = sorted(gpubox.home().rglob("*"))
    try:
        assert all_passed(checks_for(target._replace(type="remote", python_location="python3")).run())
        assert sorted(gpubox.home().rglob("*")) == before
    finally:
        shutil.rmtree(gpubox.home() / ".workbench-tui", ignore_errors=True)


def test_missing_folder_is_on_the_disk_of_its_parent(tmp_path: Path) -> None:
    free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
    if free < check_machine.DISK_BROKEN_BYTES:
        pytest.skip("the disk of this machine is full")
    assert check_machine.disk(LocalHost(), [str(tmp_path / "a" / "b")], "", "").state in (OK, WARNING)


@pytest.mark.parametrize(
    ("ahead", "state", "word"), [(0, OK, "agrees"), (30, WARNING, "ahead of"), (-30, WARNING, "behind")]
)
def test_clock_difference_decides_the_state(tools: Path, ahead: int, state: str, word: str) -> None:
    stand_in(tools, "date", f"/bin/date -u -d '{ahead:+} seconds' +%s")
    found = check_machine.clock(LocalHost())
    assert found.state == state
    assert word in found.message


@pytest.mark.parametrize("ahead", [3600, -3600])
def test_large_clock_difference_fails(tools: Path, ahead: int) -> None:
    stand_in(tools, "date", f"/bin/date -u -d '{ahead:+} seconds' +%s")
    with pytest.raises(CheckFailed) as far:
        check_machine.clock(LocalHost())
    assert far.value.command == "sudo timedatectl set-ntp true"
