"""Attach a machine: log in, write two files, store the secret."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.gpu.standin_amd import AmdStandin
from tests.gpu.standin_amd import amd as amd
from tests.machines import Machine, fingerprint, make_key
from tests.targets.attaching.requests import attach, compute
from tui_workbench.config.changes import file_edits
from tui_workbench.config.checks.image_names import DEFAULT_AMD_IMAGE, DEFAULT_GPU_IMAGE, OLDER_DRIVER_GPU_IMAGE
from tui_workbench.core.errors import ConfigurationError, UsageError
from tui_workbench.projects.project import Project
from tui_workbench.targets.attaching.attach import Attachment, AttachRequest
from tui_workbench.targets.docker.attaching import CPU_IMAGE
from tui_workbench.targets.gpu.gpus import gpus_of
from tui_workbench.targets.hosts.host import ConnectionLost, HostKeyRefused, LocalHost, LoginRefused
from tui_workbench.targets.registry import checks_for
from tui_workbench.targets.ssh.host_for import host_of

if TYPE_CHECKING:
    from typing import Any


# The files.


@pytest.mark.usefixtures("ssh_folder")
def test_attach_writes_files_in_the_form_of_the_original(project: Project, request_: AttachRequest) -> None:
    attach(project, request_)
    assert compute(project) == (
        f"address: {request_.address}\n"
        f"baseDockerImage: {CPU_IMAGE}\n"
        "nativeSharedDirectory: ~/.azureml/share/\n"
        "nvidiaDocker: false\n"
        "sharedVolumes: true\n"
        "type: remotedocker\n"
        "username: research\n"
    )
    assert Path(project.config_directory, "box.runconfig").read_text() == (
        "ArgumentVector:\n"
        "- $file\n"
        "EnvironmentVariables: null\n"
        "Framework: Python\n"
        "PrepareEnvironment: true\n"
        "Target: box\n"
        "TrackedRun: true\n"
        "UseSampling: true\n"
    )


@pytest.mark.usefixtures("ssh_folder")
@pytest.mark.parametrize("kind", ["remotedocker", "remote", "slurm", "cluster", "localdocker"])
def test_attach_writes_valid_files(project: Project, request_: AttachRequest, kind: str) -> None:
    address: dict[str, Any] = {} if kind != "localdocker" else {"address": "", "username": ""}
    attach(project, request_._replace(type=kind, **address))
    assert project.target("box").type == kind
    assert project.target_of(project.run_configuration("box")).name == "box"
    Path(project.root, "count.py").write_text("import pyspark\n" if kind == "cluster" else "")
    paths = [str(Path(project.config_directory, f"box.{end}")) for end in ("compute", "runconfig")]
    assert file_edits.check(paths) == []


@pytest.mark.usefixtures("ssh_folder")
def test_attach_writes_the_options_of_a_cluster(project: Project, request_: AttachRequest) -> None:
    cluster = request_._replace(
        type="slurm",
        values={"python": "/scratch/env/bin/python", "run_root": "/scratch/wb", "partition": "gpu", "account": "lab"},
    )
    attach(project, cluster)
    assert compute(project) == (
        f"address: {request_.address}\n"
        "pythonLocation: /scratch/env/bin/python\n"
        "runRoot: /scratch/wb\n"
        "slurm:\n"
        "  account: lab\n"
        "  partition: gpu\n"
        "type: slurm\n"
        "username: research\n"
    )
    assert "PrepareEnvironment" not in Path(project.config_directory, "box.runconfig").read_text()


@pytest.mark.usefixtures("ssh_folder")
def test_attached_spark_cluster_runs_spark(project: Project, request_: AttachRequest) -> None:
    attach(project, request_._replace(type="cluster", values={"python": "/opt/env/bin/python"}))
    assert compute(project) == (
        f"address: {request_.address}\n"
        "pythonLocation: /opt/env/bin/python\n"
        "type: cluster\n"
        "userManagedEnvironment: true\n"
        "username: research\n"
    )
    configuration = project.run_configuration("box")
    assert configuration.framework == "PySpark"
    assert "PrepareEnvironment" not in configuration.values


def test_slurm_of_this_machine_is_attached_without_a_login(project: Project) -> None:
    attach(project, AttachRequest("slurm", "here"))
    assert compute(project, "here") == "pythonLocation: python3\ntype: slurm\n"
    assert isinstance(host_of(project.target("here")), LocalHost)


@pytest.mark.usefixtures("ssh_folder")
def test_existing_dependency_files_are_named(project: Project, request_: AttachRequest) -> None:
    Path(project.config_directory, "conda_dependencies.yml").write_text("dependencies: []\n")
    attach(project, request_)
    configuration = project.run_configuration("box")
    assert configuration.conda_dependencies_file == "aml_config/conda_dependencies.yml"
    assert configuration.spark_dependencies_file == ""


@pytest.mark.usefixtures("ssh_folder")
def test_attach_is_undone_in_one_step(project: Project, request_: AttachRequest) -> None:
    before = sorted(os.listdir(project.config_directory))
    attachment = Attachment(project.root, request_)
    attachment.connect()
    attachment.write().change_set.inverse.apply()
    assert sorted(os.listdir(project.config_directory)) == before


@pytest.mark.parametrize("end", ["compute", "runconfig"])
def test_existing_file_is_not_replaced(project: Project, request_: AttachRequest, end: str) -> None:
    path = Path(project.config_directory, f"box.{end}")
    path.write_text("mine")
    with pytest.raises(ConfigurationError, match="already") as refused:
        Attachment(project.root, request_)
    command = "computetarget detach box" if end == "compute" else "runconfiguration delete -n box"
    assert command in refused.value.remedy
    assert path.read_text() == "mine"
    assert len(list(path.parent.glob("box.*"))) == 1


@pytest.mark.usefixtures("ssh_folder")
def test_file_created_meanwhile_is_not_replaced(project: Project, request_: AttachRequest) -> None:
    attachment = Attachment(project.root, request_)
    attachment.connect()
    path = Path(project.config_directory, "box.runconfig")
    path.write_text("mine")
    with pytest.raises(ConfigurationError):
        attachment.write()
    assert path.read_text() == "mine"
    assert not Path(project.config_directory, "box.compute").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"type": "batchai"}, "batchai"),
        ({"name": "../box"}, "name"),
        ({"name": ""}, "name"),
        ({"address": ""}, "address"),
        ({"address": "-oProxyCommand=x"}, "address"),
        ({"address": "a b"}, "address"),
        ({"address": "box:99999"}, "port"),
        ({"address": "me@box"}, "--username me --address box"),
        ({"username": "-l root"}, "username"),
        ({"values": {"image": "No Image"}}, "image"),
        ({"private_key": "/nowhere/key"}, "private key"),
        ({"type": "slurm", "values": {"run_root": "scratch"}}, "runRoot"),
        ({"type": "slurm", "values": {"partition": "a b"}}, "slurm.partition"),
        ({"type": "slurm", "address": "me@box"}, "--username me --address box"),
    ],
)
def test_invalid_request_is_refused(
    project: Project, request_: AttachRequest, change: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError) as refused:
        Attachment(project.root, request_._replace(**change))
    assert said in str(refused.value)


# Unreachable machines and refused logins.


@pytest.mark.usefixtures("known")
def test_nothing_is_written_for_an_unreachable_machine(project: Project, request_: AttachRequest) -> None:
    attachment = Attachment(project.root, request_._replace(address=f"{request_.address}:2222"))
    with pytest.raises(ConnectionLost, match="2222"):
        attachment.connect()
    assert not Path(project.config_directory, "box.compute").exists()


@pytest.mark.usefixtures("known")
def test_login_without_a_key_is_refused(project: Project, request_: AttachRequest) -> None:
    with pytest.raises(LoginRefused, match="none of your SSH keys"):
        Attachment(project.root, request_).connect()


def test_address_can_be_an_ssh_alias(project: Project, ssh_folder: Path, gpubox: Machine, key: Path) -> None:
    (ssh_folder / "id_ed25519").rename(ssh_folder / "other")
    (ssh_folder / "config").write_text(
        f"Host big\n  HostName {gpubox.address}\n  User research\n  Port 22\n  IdentityFile ~/.ssh/other\n"
    )
    attach(project, AttachRequest("remotedocker", "box", "big"))
    assert "address: big\n" in compute(project)
    assert "username" not in compute(project)
    assert host_of(project.target("box")).run(["id", "-un"]).text == "research"


def test_machine_behind_a_jump_host_is_attached(project: Project, bastion: Machine, gpubox: Machine) -> None:
    attachment = Attachment(project.root, AttachRequest("remote", "box", "inner"))
    for machine in (bastion, gpubox):
        with pytest.raises(HostKeyRefused) as refused:
            attachment.connect()
        assert refused.value.presented == fingerprint(machine.folder / "host_key.pub")
        attachment.accept_host_key(refused.value.presented)
    attachment.connect()
    attachment.write()
    assert "address: inner\n" in compute(project)
    name, *others = checks_for(project.target("box")).run()
    assert name.message == "inner is reached through a jump host"
    assert [each.state for each in others if each.name in ("port", "host key", "login", "python")] == ["ok"] * 4
    assert host_of(project.target("box")).run(["hostname"]).text == "gpubox"


def test_jump_host_that_refuses_the_login_is_named(project: Project, bastion: Machine, gpubox: Machine) -> None:
    attachment = Attachment(project.root, AttachRequest("remote", "box", "inner"))
    attachment.accept_host_key(fingerprint(bastion.folder / "host_key.pub"))
    (bastion.home() / ".ssh" / "authorized_keys").write_text("")
    with pytest.raises(LoginRefused, match=f"jump host {bastion.address}: the login was refused") as refused:
        attachment.connect()
    assert refused.value.remedy == f"Run `ssh {bastion.address}` to find the cause."


# Host keys.


def test_unknown_host_key_is_accepted_after_confirmation(
    project: Project, known: Path, gpubox: Machine, request_: AttachRequest, key: Path
) -> None:
    known.write_text("")
    attachment = Attachment(project.root, request_._replace(private_key=str(key)))
    with pytest.raises(HostKeyRefused) as refused:
        attachment.connect()
    assert refused.value.presented == fingerprint(gpubox.folder / "host_key.pub")
    assert refused.value.known == ()
    assert known.read_text() == ""
    attachment.accept_host_key(refused.value.presented)
    attachment.connect()
    assert known.read_text().split() == gpubox.known_hosts_line.split()


def test_wrong_fingerprint_does_not_accept_the_host_key(
    project: Project, known: Path, request_: AttachRequest, key: Path
) -> None:
    known.write_text("")
    attachment = Attachment(project.root, request_._replace(private_key=str(key)))
    attachment.accept_host_key("SHA256:" + "A" * 43)
    with pytest.raises(HostKeyRefused):
        attachment.connect()
    assert known.read_text() == ""


def test_changed_host_key_cannot_be_accepted(
    project: Project, known: Path, gpubox: Machine, request_: AttachRequest, key: Path, tmp_path: Path
) -> None:
    old = make_key(tmp_path / "old").with_suffix(".pub")
    known.write_text(f"{gpubox.address} {old.read_text()}")
    attachment = Attachment(project.root, request_._replace(private_key=str(key)))
    new = fingerprint(gpubox.folder / "host_key.pub")
    attachment.accept_host_key(new)
    with pytest.raises(HostKeyRefused) as refused:
        attachment.connect()
    assert refused.value.presented == new
    assert fingerprint(old) in refused.value.known[0]
    assert f"ssh-keygen -R '{gpubox.address}'" in refused.value.remedy


# GPUs. A script on the PATH of this machine replaces nvidia-smi.


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


@pytest.mark.parametrize(("driver", "image"), [("580.65.06", DEFAULT_GPU_IMAGE), ("550.54.15", OLDER_DRIVER_GPU_IMAGE)])
def test_gpu_machine_gets_an_image_for_its_driver(project: Project, tools: Path, driver: str, image: str) -> None:
    stand_in(tools, "nvidia-smi", f"echo 'Tesla T4, {driver}, 15360 MiB'; echo 'Tesla T4, {driver}, 15360 MiB'")
    attach(project, AttachRequest("localdocker", "box"))
    target = project.target("box")
    assert (target.nvidia_docker, target.base_docker_image) == (True, image)
    assert gpus_of(LocalHost()).text == f"2 x Tesla T4 (15360 MiB), driver {driver}"


def test_amd_machine_gets_the_image_of_amd(project: Project, amd: AmdStandin) -> None:
    attach(project, AttachRequest("localdocker", "box"))
    assert (project.target("box").nvidia_docker, project.target("box").base_docker_image) == (True, DEFAULT_AMD_IMAGE)
    assert gpus_of(LocalHost()).text == "1 x AMD Instinct MI300X (196592 MiB), driver 6.8.5"


def test_broken_driver_counts_as_no_gpu(project: Project, tools: Path) -> None:
    stand_in(tools, "nvidia-smi", "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18")
    attach(project, AttachRequest("localdocker", "box"))
    assert not project.target("box").nvidia_docker
    assert "version mismatch" in gpus_of(LocalHost()).complaint


def test_requested_gpu_and_image_have_precedence(project: Project) -> None:
    attach(project, AttachRequest("localdocker", "box", values={"gpu": "yes", "image": "mine:1"}))
    assert (project.target("box").nvidia_docker, project.target("box").base_docker_image) == (True, "mine:1")


def test_relative_key_path_becomes_absolute(
    project: Project, known: Path, request_: AttachRequest, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(key, tmp_path / "relative")
    monkeypatch.chdir(tmp_path)
    attach(project, request_._replace(private_key="relative"))
    assert project.target("box").private_key == str(tmp_path / "relative")
