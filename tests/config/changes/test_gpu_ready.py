"""GPU-ready in one step: the manual edits of Azure ML Workbench's guide give the same result."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.config.documents import project
from tests.conftest import corpus
from tui_workbench.config.changes.change_set import ChangeHistory
from tui_workbench.config.changes.gpu_ready import GpuReadyPlan, plan_gpu_ready
from tui_workbench.config.checks.image_names import DEFAULT_GPU_IMAGE
from tui_workbench.config.document import Document
from tui_workbench.core.errors import ConfigurationError, UsageError

# A target and run configuration as `attach` wrote them, and the packages of Azure ML Workbench's TensorFlow sample.
COMPUTE = (
    "address: 10.0.0.1\nbaseDockerImage: microsoft/mmlspark:plus-0.7.91\nnativeSharedDirectory: ~/.azureml/share/\n"
    "password: AzureMlSecret=myvm#me#0123456789abcdef0123456789abcdef\nsharedVolumes: true\ntype: "
    "remotedocker\nusername: me\n"
)
RUNCONFIG = (
    "ArgumentVector:\n- $file\nCondaDependenciesFile: aml_config/conda_dependencies.yml\nEnvironmentVariables: null\n"
    "Framework: PySpark\nPrepareEnvironment: false\nSparkDependenciesFile: "
    "aml_config/spark_dependencies.yml\nTarget: myvm\n"
    "TrackedRun: true\nUseSampling: true\n"
)
CONDA = (
    "# Conda environment specification.\r\nname: project_environment\r\ndependencies:\r\n  - python=3.5.2\r\n  - "
    "pandas\r\n"
    "  - tensorflow\r\n  # GPU version of tensorflow\r\n  # - tensorflow-gpu\r\n  - pip:\r\n    - "
    "azure-ml-api-sdk==0.1.0a9"
)
TWIN = "microsoft/mmlspark:plus-gpu-0.7.91"
CNTK_24 = "microsoft/cntk:2.4-gpu-python3.5-cuda9.0-cudnn7.0"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a project with one freshly attached target, and a script that does not use Spark."""
    return project(
        tmp_path,
        myvm__compute=COMPUTE,
        myvm__runconfig=RUNCONFIG,
        conda_dependencies__yml=CONDA,
        spark_dependencies__yml="configuration: {}\n",
        **{"train.py": "import tensorflow\n"},
    )


def contents(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (root / "aml_config").iterdir()}


def ids(plan: GpuReadyPlan) -> list[str]:
    return [hunk.id for hunk in plan.hunks]


def test_gpu_ready_makes_the_edits_of_the_guide(root: Path) -> None:
    before = contents(root)
    plan = plan_gpu_ready(str(root), "myvm", image=TWIN)
    assert ids(plan) == ["baseDockerImage", "nvidiaDocker", "Framework", "PrepareEnvironment", "tensorflow"]
    assert contents(root) == before
    plan.change_set().apply()
    assert contents(root) == {
        "myvm.compute": COMPUTE.replace("plus-0.7.91", "plus-gpu-0.7.91")
        .replace("password:", "nvidiaDocker: true\npassword:")
        .encode(),
        "myvm.runconfig": RUNCONFIG.replace("PySpark", "Python").replace("nment: false", "nment: true").encode(),
        "conda_dependencies.yml": CONDA.replace("- tensorflow\r\n  # GPU", "- tensorflow-gpu\r\n  # GPU").encode(),
        "spark_dependencies.yml": before["spark_dependencies.yml"],
    }


def test_edits_by_hand_give_the_same_files(root: Path) -> None:
    """The guide's steps as edits of values give the same files as the one call."""
    other = project(root / "other", myvm__compute=COMPUTE, myvm__runconfig=RUNCONFIG, conda_dependencies__yml=CONDA)
    for name, key, value in [
        ("myvm.compute", "baseDockerImage", TWIN),
        ("myvm.compute", "nvidiaDocker", True),
        ("myvm.runconfig", "Framework", "Python"),
        ("myvm.runconfig", "PrepareEnvironment", True),
        ("conda_dependencies.yml", "dependencies[2]", "tensorflow-gpu"),
    ]:
        editing = Document.open(os.path.join(other, "aml_config", name))
        editing.set(key, value)
        editing.save()
    plan_gpu_ready(str(root), "myvm", image=TWIN).change_set().apply()
    by_hand = contents(other)
    assert {name: data for name, data in contents(root).items() if name in by_hand} == by_hand


def test_default_image_fits_the_packages(root: Path) -> None:
    plan = plan_gpu_ready(str(root), "myvm")
    assert plan.hunks[0].title == "baseDockerImage: tensorflow/tensorflow:1.14.0-gpu-py3"
    references = {image.reference: image.title for image in plan.images}
    assert next(iter(references)) == "tensorflow/tensorflow:1.14.0-gpu-py3"
    assert references["tensorflow/tensorflow:1.14.0-gpu-py3"] == "CUDA 10.0; fits TensorFlow 1.14"
    assert references[TWIN] == "CUDA 8.0; Docker Hub removed all images of microsoft/ in July 2021"
    assert {"microsoft/mmlspark:plus-gpu-0.9.9", DEFAULT_GPU_IMAGE} <= {*references}
    assert any("CUDA 10.0 supports GPUs up to Turing (2018)" in note for note in plan.notes)
    removed = plan_gpu_ready(str(root), "myvm", image=TWIN)
    assert any(f"{TWIN} is available only on machines or in registries" in note for note in removed.notes)


@pytest.mark.parametrize(
    ("python", "pip", "image"),
    [
        ("3.5.2", "tensorflow==1.2.1", "tensorflow/tensorflow:1.2.0-gpu-py3"),
        ("3.5.2", "tensorflow-gpu==1.4.0", "tensorflow/tensorflow:1.4.0-gpu-py3"),
        ("3.6", "tensorflow-gpu==1.8.0", "tensorflow/tensorflow:1.8.0-gpu-py3"),
        ("3.6", "tensorflow==1.13.1", "tensorflow/tensorflow:1.13.1-gpu-py3"),
        ("3.8", "tensorflow==2.4.1", "tensorflow/tensorflow:2.4.0-gpu"),
        ("3.11", "tensorflow==2.15.0", "tensorflow/tensorflow:2.15.0-gpu"),
        ("3.11", "tensorflow[and-cuda]==2.15.0", DEFAULT_GPU_IMAGE),
        ("3.5.2", "https://cntk.ai/PythonWheel/CPU-Only/cntk-2.2-cp35-cp35m-linux_x86_64.whl", TWIN),
        ("3.5.2", "https://cntk.ai/PythonWheel/GPU/cntk-2.4-cp35-cp35m-linux_x86_64.whl", CNTK_24),
        ("3.10", "torch==2.1.0", DEFAULT_GPU_IMAGE),
        ("3.6", "torch==1.0.1", DEFAULT_GPU_IMAGE),
        ("3.12", "numpy", DEFAULT_GPU_IMAGE),
    ],
)
def test_image_fits_frameworks_and_python(root: Path, python: str, pip: str, image: str) -> None:
    conda = f"dependencies:\n- python={python}\n- pip:\n  - {pip}\n"
    project(root, conda_dependencies__yml=conda)
    plan = plan_gpu_ready(str(root), "myvm")
    assert plan.hunks[0].title == f"baseDockerImage: {image}"
    assert plan.problems == ()
    plan.change_set().apply()
    again = plan_gpu_ready(str(root), "myvm")
    assert (ids(again), again.is_ready) == ([], True)


def test_image_with_wrong_cuda_is_replaced(root: Path) -> None:
    """Earlier versions of gpu-ready set a current image beside TensorFlow 1."""
    project(
        root,
        myvm__compute=COMPUTE.replace("microsoft/mmlspark:plus-0.7.91", DEFAULT_GPU_IMAGE) + "nvidiaDocker: true\n",
        conda_dependencies__yml="dependencies:\n- python=3.5.2\n- pip:\n  - tensorflow-gpu==1.8.0\n",
    )
    plan = plan_gpu_ready(str(root), "myvm")
    assert plan.hunks[0].title == "baseDockerImage: tensorflow/tensorflow:1.8.0-gpu-py3"
    assert plan.hunks[0].reason == "The packages need a CUDA version that the image does not have."
    kept = plan_gpu_ready(str(root), "myvm", image=DEFAULT_GPU_IMAGE)
    assert [one.code for one in kept.problems] == ["wrong-cuda"]
    assert not kept.is_ready


def test_unpinned_tensorflow_gets_the_version_of_the_image(root: Path) -> None:
    text = "dependencies:\n- python=3.5.2\n- pip:\n  - tensorflow\n"
    for image, version in (("", "1.14"), (TWIN, "1.4")):
        project(root, conda_dependencies__yml=text, myvm__compute=COMPUTE)
        plan = plan_gpu_ready(str(root), "myvm", image=image)
        plan.change_set().apply()
        after = contents(root)["conda_dependencies.yml"].decode()
        assert after == text.replace("- tensorflow", f"- tensorflow-gpu=={version}.*")
        assert plan_gpu_ready(str(root), "myvm").is_ready


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("tensorflow==1.8.0", "tensorflow-gpu==1.8.0"), ("tensorflow-gpu==1.8.0",)),
        (("tensorflow-gpu==1.8.0", "tensorflow==1.8.0"), ("tensorflow-gpu==1.8.0",)),
        (("tensorflow==1.8.0", "TensorFlow==1.8.0"), ("tensorflow-gpu==1.8.0",)),
        (("onnxruntime==1.17", "onnxruntime-gpu==1.17"), ("onnxruntime-gpu==1.17",)),
    ],
)
def test_package_is_not_added_twice(root: Path, before: tuple[str, ...], after: tuple[str, ...]) -> None:
    text = "dependencies:\n- python=3.6\n- pip:\n"
    project(root, conda_dependencies__yml=text + "".join(f"  - {one}\n" for one in before))
    plan_gpu_ready(str(root), "myvm").change_set().apply()
    assert contents(root)["conda_dependencies.yml"].decode() == text + "".join(f"  - {one}\n" for one in after)
    assert plan_gpu_ready(str(root), "myvm").is_done


def test_conda_package_with_channel_is_not_added_twice(root: Path) -> None:
    text = "dependencies:\n- python=3.6\n- conda-forge::tensorflow=1.8\n- tensorflow-gpu=1.8\n"
    project(root, conda_dependencies__yml=text)
    plan_gpu_ready(str(root), "myvm").change_set().apply()
    after = contents(root)["conda_dependencies.yml"].decode()
    assert after == text.replace("- conda-forge::tensorflow=1.8\n", "")


def test_target_with_an_error_is_not_ready(root: Path) -> None:
    plan_gpu_ready(str(root), "myvm", image=TWIN).change_set().apply()
    assert plan_gpu_ready(str(root), "myvm").is_ready
    project(
        root, myvm__runconfig=contents(root)["myvm.runconfig"].decode().replace("TrackedRun: true", "TrackedRun: 7")
    )
    plan = plan_gpu_ready(str(root), "myvm")
    assert ([one.code for one in plan.problems], plan.is_done, plan.is_ready) == (["wrong-type"], True, False)


def test_unreadable_run_configuration_is_not_ready(root: Path) -> None:
    plan_gpu_ready(str(root), "myvm", image=TWIN).change_set().apply()
    project(root, other__runconfig="Target: [myvm\n")
    plan = plan_gpu_ready(str(root), "myvm")
    assert ([(os.path.basename(one.file), one.code) for one in plan.problems]) == [("other.runconfig", "unclosed")]
    assert not plan.is_ready
    (root / "aml_config" / "other.runconfig").unlink()
    assert plan_gpu_ready(str(root), "myvm").is_ready


def test_target_with_incompatible_packages_is_not_ready(root: Path) -> None:
    project(root, conda_dependencies__yml="dependencies:\n- python=3.11\n- pip:\n  - tensorflow-gpu==1.8.0\n")
    plan = plan_gpu_ready(str(root), "myvm")
    plan.change_set().apply()
    again = plan_gpu_ready(str(root), "myvm")
    assert ([one.code for one in again.problems], again.is_ready) == (["cannot-install"], False)


@pytest.mark.corpus
def test_real_projects_become_ready_or_have_problems(tmp_path: Path) -> None:
    done = 0
    for sample in ("tf", "cntk", "AerialImageClassification", "TDSPUCIAdultIncome"):
        folder = corpus() / sample
        runconfig = next(iter(sorted(folder.glob("*docker.runconfig")))).read_text()
        for compute in sorted(folder.glob("*docker.compute")):
            for conda in sorted(folder.glob("*conda_dependencies.yml")):
                root = tmp_path / f"{done}"
                project(
                    root,
                    docker__compute=compute.read_text(),
                    docker__runconfig=runconfig,
                    conda_dependencies__yml=conda.read_text(),
                    spark_dependencies__yml="configuration: {}\n",
                    **{"train.py": "import tensorflow\n"},
                )
                plan = plan_gpu_ready(str(root), "docker")
                plan.change_set().apply()
                again = plan_gpu_ready(str(root), "docker")
                assert again.is_done, (compute, conda)
                text = contents(root)["conda_dependencies.yml"].decode()
                image = Document.open(str(root / "aml_config" / "docker.compute")).get("baseDockerImage")
                if "tensorflow" in text or "cntk" in text.lower():
                    assert again.is_ready == (not again.problems), (compute, conda)
                    assert "pytorch" not in image, (compute, conda)
                    assert "cpu-only" not in text.lower() or "#" in text, (compute, conda)
                done += 1
    assert done > 100


def test_second_plan_has_no_changes(root: Path) -> None:
    for image in ("", TWIN):
        plan_gpu_ready(str(root), "myvm", image=image).change_set().apply()
        again = plan_gpu_ready(str(root), "myvm", image=image)
        assert again.is_done
        assert again.change_set().is_empty
    # Any image with CUDA is kept.
    assert plan_gpu_ready(str(root), "myvm").is_done


def test_each_hunk_can_be_left_out(root: Path) -> None:
    plan = plan_gpu_ready(str(root), "myvm", image=TWIN)
    for left_out in ids(plan):
        history = ChangeHistory()
        history.apply(plan.change_set(without={left_out}))
        assert ids(plan_gpu_ready(str(root), "myvm", image=TWIN)) == [left_out]
        history.undo()
    assert plan.change_set(without=ids(plan)).is_empty


def test_apply_is_one_undo_step(root: Path) -> None:
    before = contents(root)
    history = ChangeHistory()
    history.apply(plan_gpu_ready(str(root), "myvm").change_set())
    assert contents(root) != before
    assert history.newest is not None
    assert history.newest.title == "make myvm GPU-ready"
    history.undo()
    assert contents(root) == before


def test_each_hunk_has_a_diff(root: Path) -> None:
    plan = plan_gpu_ready(str(root), "myvm", image=TWIN)
    nvidia = next(hunk for hunk in plan.hunks if hunk.id == "nvidiaDocker")
    assert "+nvidiaDocker: true" in nvidia.diff
    assert "baseDockerImage: microsoft/mmlspark:plus-gpu" not in nvidia.diff
    assert nvidia.reason.endswith(".")
    diff = plan.change_set().diff(str(root))
    assert diff.count("--- a/aml_config/") == 3


def test_run_configuration_selects_itself_and_its_target(root: Path) -> None:
    project(root, other__runconfig=RUNCONFIG, cpu__runconfig="Target: elsewhere\n")
    plan = plan_gpu_ready(str(root), "other", image=TWIN)
    assert plan.target == "myvm"
    assert plan.configurations == ("other",)
    assert "conda_dependencies.yml is also used by cpu, myvm." in plan.notes
    (root / "aml_config" / "myvm.runconfig").rename(root / "aml_config" / "third.runconfig")
    both = plan_gpu_ready(str(root), "myvm", image=TWIN)
    assert both.configurations == ("other", "third")
    assert [one for one in ids(both) if one.startswith("Framework")] == ["Framework:other", "Framework:third"]


def test_script_with_spark_keeps_its_framework(root: Path) -> None:
    (root / "train.py").write_text("import pyspark\n")
    plan = plan_gpu_ready(str(root), "myvm")
    assert "Framework" not in ids(plan)
    assert "The Framework of myvm is not changed: its script uses Spark." in plan.notes


SPARK_NOTEBOOK = '{"cells": [{"cell_type": "code", "source": ["import pyspark\\n"]}]}'
DOCKER = "type: localdocker\nbaseDockerImage: "


@pytest.mark.parametrize(
    ("image", "after"),
    [("microsoft/mmlspark:plus-0.7.91", TWIN), ("spark:3.5.1-python3", "spark:3.5.1-python3"), (TWIN, TWIN)],
)
def test_image_with_spark_is_only_replaced_by_one_with_spark(tmp_path: Path, image: str, after: str) -> None:
    root = project(
        tmp_path,
        docker__compute=f"{DOCKER}{image}\n",
        docker__runconfig="Target: docker\nFramework: PySpark\n",
        **{"code/train.py": "", "code/explore.ipynb": SPARK_NOTEBOOK},
    )
    plan_gpu_ready(str(root), "docker").change_set().apply()
    assert Document.open(str(root / "aml_config" / "docker.compute")).get("baseDockerImage") == after
    assert Document.open(str(root / "aml_config" / "docker.runconfig")).get("Framework") == "PySpark"
    if after != TWIN:
        again = plan_gpu_ready(str(root), "docker")
        assert not again.is_ready
        assert again.notes[0].startswith(f"{after} is kept, because docker uses Spark.")


@pytest.mark.parametrize(
    ("script", "package", "doubt"),
    [
        ("from sklearn.svm import SVC\n", "scikit-learn", "no package of its runs can use a GPU"),
        ("import pandas, os\n", "pandas", "no package of its runs can use a GPU"),
        ("import torch\n", "pandas", ""),
        ("def train():\n    from xgboost import XGBClassifier\n", "xgboost", ""),
        ("import my_library\n", "tensorflow-gpu=1.15", ""),
        ("import torch\n", "python=3.5.2", "python=3.5.2 is installed without the PyTorch of the image"),
        ("import torch\n", "python=3.12", ""),
    ],
)
def test_project_without_packages_for_a_gpu_is_not_ready(tmp_path: Path, script: str, package: str, doubt: str) -> None:
    root = project(
        tmp_path,
        docker__compute=f"{DOCKER}{DEFAULT_GPU_IMAGE}\nnvidiaDocker: true\n",
        docker__runconfig="Target: docker\nFramework: Python\nPrepareEnvironment: true\n",
        conda_dependencies__yml=f"dependencies:\n- {package}\n",
        **{"train.py": script},
    )
    plan = plan_gpu_ready(str(root), "docker")
    assert plan.doubt == doubt
    assert plan.is_ready == (not doubt and not plan.problems and plan.is_done)


def test_several_packages_and_removals_in_one_file(root: Path) -> None:
    text = (
        "dependencies:\n- cpuonly\n- tensorflow=1.4\n- pip:\n  - --extra-index-url "
        "https://wheels.example.org/whl/cpu\n"
        "  - torch==2.1.0+cpu\n  - https://cntk.example.org/PythonWheel/CPU-Only/cntk-2.1-cp35-cp35m-win_amd64.whl\n"
        "- cpuonly\n"
    )
    project(root, conda_dependencies__yml=text)
    plan_gpu_ready(str(root), "myvm").change_set().apply()
    assert contents(root)["conda_dependencies.yml"].decode() == (
        "dependencies:\n- tensorflow-gpu=1.4\n- pip:\n  - torch==2.1.0\n"
        "  - https://cntk.example.org/PythonWheel/GPU/cntk-2.1-cp35-cp35m-linux_x86_64.whl\n"
    )
    assert plan_gpu_ready(str(root), "myvm").is_done


def test_target_without_docker_gets_partial_changes(tmp_path: Path) -> None:
    root = project(tmp_path, local__compute="type: local\n", local__runconfig="Target: local\n")
    plan = plan_gpu_ready(str(root), "local")
    assert ids(plan) == ["Framework"]
    assert any("own Python" in note for note in plan.notes)


def test_unknown_image_is_kept_with_a_note(tmp_path: Path) -> None:
    root = project(tmp_path, box__compute="type: localdocker\nbaseDockerImage: mine/train:1\n")
    plan = plan_gpu_ready(str(root), "box")
    assert ids(plan) == ["nvidiaDocker"]
    assert plan.notes[0] == "Make sure that mine/train:1 has CUDA: the name of the image does not show it."
    assert [image.reference for image in plan.images][:2] == ["mine/train:1", DEFAULT_GPU_IMAGE]
    assert ids(plan_gpu_ready(str(root), "box", image=DEFAULT_GPU_IMAGE)) == ["baseDockerImage", "nvidiaDocker"]


def test_missing_files_are_notes(tmp_path: Path) -> None:
    root = project(
        tmp_path, box__compute="type: localdocker\nbaseDockerImage: python:3.12\n", x__runconfig="Target: box\n"
    )
    plan = plan_gpu_ready(str(root), "box")
    assert ids(plan) == ["baseDockerImage", "nvidiaDocker", "Framework", "PrepareEnvironment"]
    assert any(note.startswith("aml_config/conda_dependencies.yml does not exist. ") for note in plan.notes)
    (root / "aml_config" / "x.runconfig").unlink()
    assert "No run configuration uses box yet." in plan_gpu_ready(str(root), "box").notes


def test_slurm_target_requests_a_gpu(tmp_path: Path) -> None:
    root = project(
        tmp_path,
        hpc__compute="type: slurm\nslurm: {partition: gpu}\n",
        a__runconfig="Target: hpc\nFramework: Python\n",
        b__runconfig="Target: hpc\nSlurm: {gpus: 0}\n",
    )
    plan = plan_gpu_ready(str(root), "hpc")
    assert ids(plan) == ["slurm.gpus", "Framework:b", "Slurm.gpus:b"]
    plan.change_set().apply()
    assert (root / "aml_config" / "hpc.compute").read_text() == "type: slurm\nslurm: {partition: gpu, gpus: 1}\n"
    assert (root / "aml_config" / "b.runconfig").read_text() == ("Target: hpc\nFramework: Python\nSlurm: {gpus: 1}\n")
    again = plan_gpu_ready(str(root), "hpc")
    assert again.is_done
    assert again.doubt == "the files do not show whether its runs have CUDA"


@pytest.mark.parametrize("options", ["{gpus: 2}", "{extra: ['--gres=gpu:a100:1']}"])
def test_slurm_target_that_requests_gpus_is_kept(tmp_path: Path, options: str) -> None:
    files = {"hpc__compute": "type: slurm\n", "a__runconfig": f"Target: hpc\nFramework: Python\nSlurm: {options}\n"}
    assert plan_gpu_ready(str(project(tmp_path / "run", **files)), "hpc").is_done
    files = {"hpc__compute": f"type: slurm\nslurm: {options}\n", "a__runconfig": "Target: hpc\nFramework: Python\n"}
    assert plan_gpu_ready(str(project(tmp_path / "target", **files)), "hpc").is_done


def test_invalid_plan_raises(root: Path) -> None:
    project(
        root, hdi__compute="type: cluster\naddress: h\n", lost__runconfig="Target: gone\n", bad__compute="type: 'x\n"
    )
    for name, kind, said in [
        ("none", UsageError, "unknown target or run configuration 'none'"),
        ("hdi", ConfigurationError, "cannot configure GPUs"),
        ("lost", ConfigurationError, "unknown compute target 'gone'"),
        ("bad", ConfigurationError, "the quote that begins here"),
    ]:
        with pytest.raises(kind, match=said):
            plan_gpu_ready(str(root), name)
    with pytest.raises(UsageError, match="invalid image name"):
        plan_gpu_ready(str(root), "myvm", image="No Image")


def test_file_changed_since_the_plan_is_refused(root: Path) -> None:
    plan = plan_gpu_ready(str(root), "myvm", image=TWIN)
    path = root / "aml_config" / "myvm.compute"
    path.write_text(COMPUTE + "# a new comment\n")
    change_set = plan.change_set()
    change_set.apply()
    assert path.read_text().endswith("# a new comment\n")
    history = ChangeHistory()
    path.write_text("type: [")
    with pytest.raises(ConfigurationError):
        plan.change_set()
    with pytest.raises(ConfigurationError, match="has changed since the change was planned"):
        history.apply(change_set)


def test_gpu_ready_edits_the_form_of_the_sdk(tmp_path: Path) -> None:
    root = project(
        tmp_path,
        box__compute="type: localdocker\nbaseDockerImage: mine/cuda:1\nnvidiaDocker: true\n",
        box__runconfig=(
            "script: t.py\ntarget: box\nframework: PySpark\nenvironment:\n  docker:\n    gpuSupport: false\n"
        ),
    )
    plan = plan_gpu_ready(str(root), "box")
    assert ids(plan) == ["framework", "prepareEnvironment", "environment.docker.gpuSupport"]
    plan.change_set().apply()
    after = plan_gpu_ready(str(root), "box")
    assert (after.is_ready, [one.code for one in after.problems]) == (False, ["missing-file"])
