"""The commands that start containers. They are not run, because the test machines lack these programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.targets.slurm.test_batch import Job
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.model import ComputeTarget
from tui_workbench.targets.slurm.batch import batch_script
from tui_workbench.targets.slurm.containers import ContainerWords, container_words

if TYPE_CHECKING:
    from pathlib import Path

    from tests.targets.slurm.project import SlurmProject

ROOT, RUN = "/scratch/wb", "/scratch/wb/runs/exp_1"


def words(container: str, image: str, root: str = ROOT, data: tuple[str, ...] = ()) -> ContainerWords:
    target = ComputeTarget("cluster", "cluster.compute", "slurm", base_docker_image=image, container=container)
    return container_words(target, root, RUN, data)


def test_data_is_mounted_read_only() -> None:
    mounts = "/data/a:/data/a:ro,/data/b:/data/b:ro,/scratch/wb:/scratch/wb"
    assert f"--container-mounts={mounts}" in words("pyxis", "python:3", data=("/data/a", "/data/b")).options
    assert "/data/a:/data/a:ro,/scratch/wb" in words("apptainer", "python:3", data=("/data/a",)).program
    for container, path in (("pyxis", "/data/a:b"), ("apptainer", "/data/a,b"), ("oci", "/data/a")):
        with pytest.raises(ConfigurationError, match=r"cannot mount|srun"):
            words(container, "/bundle", data=(path,))


def test_folder_is_mounted_before_the_folders_in_it() -> None:
    program = words("apptainer", "python:3", data=(f"{ROOT}/data", "/scratch")).program
    assert f"/scratch:/scratch:ro,{ROOT},{ROOT}/data:{ROOT}/data:ro" in program


def test_pyxis_mounts_the_root_and_runs_no_entrypoint() -> None:
    assert words("pyxis", "nvcr.io/nvidia/pytorch:24.01-py3") == (
        (
            "--container-image=nvcr.io#nvidia/pytorch:24.01-py3",
            "--container-mounts=/scratch/wb:/scratch/wb",
            "--container-workdir=/scratch/wb/runs/exp_1",
            "--no-container-entrypoint",
        ),
        (),
    )


@pytest.mark.parametrize(
    ("image", "shown"),
    [
        ("python:3.12", "python:3.12"),
        ("pytorch/pytorch:2.4.0", "pytorch/pytorch:2.4.0"),
        ("localhost:5000/own:1", "localhost:5000#own:1"),
        ("nvcr.io#nvidia/cuda:12", "nvcr.io#nvidia/cuda:12"),
        ("/images/own.sqsh", "/images/own.sqsh"),
        ("./own.sqsh", "./own.sqsh"),
    ],
)
def test_images_of_pyxis_have_the_form_of_enroot(image: str, shown: str) -> None:
    assert words("pyxis", image).options[0] == f"--container-image={shown}"


@pytest.mark.parametrize(
    ("image", "shown"),
    [
        ("python:3.12", "docker://python:3.12"),
        ("oras://ghcr.io/own/image:1", "oras://ghcr.io/own/image:1"),
        ("/images/own.sif", "/images/own.sif"),
    ],
)
def test_apptainer_executes_the_step_with_gpus(image: str, shown: str) -> None:
    program = ("apptainer", "exec", "--nv", "--bind", ROOT, "--pwd", RUN, shown)
    assert words("apptainer", image) == ((), program)
    assert words("apptainer", "rocm/pytorch:latest")[1][:3] == ("apptainer", "exec", "--rocm")


def test_oci_names_the_bundle() -> None:
    assert words("oci", "/images/bundle") == (("--container=/images/bundle",), ())


@pytest.mark.parametrize(
    ("container", "image", "root", "message"),
    [
        ("oci", "python:3.12", ROOT, "not the absolute path of a bundle"),
        ("pyxis", "python@sha256:00", ROOT, "by its digest"),
        ("pyxis", "python:3.12", "/scratch/a:b", "cannot mount"),
        ("apptainer", "python:3.12", "/scratch/a,b", "cannot mount"),
    ],
)
def test_impossible_containers_are_refused(container: str, image: str, root: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        words(container, image, root)


def test_step_is_started_with_the_container_command(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.write("print('ran')")
    text = batch_script(
        "exp_1", str(job.run), str(job.root), (), container=ContainerWords(("--container-image=a b",), ("env", "X=1"))
    )
    assert "--container-image=a b" in job.execute(text).stdout.splitlines()
    assert job.text("output.log") == "ran\n"


def test_check_reports_a_cluster_without_pyxis(project: SlurmProject) -> None:
    project.configure({"container": "pyxis", "baseDockerImage": "python:3.12"})
    done = project.run("computetarget", "check", "cluster")
    assert "has no option --container-image" in f"{done.out}{done.err}"
