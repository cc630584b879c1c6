"""The sample project's training: its output, files and accuracy, and that it needs only PyTorch."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from tests.conftest import REPOSITORY
from tests.sdk.support import load, logged

pytestmark = pytest.mark.train

SAMPLE = REPOSITORY / "sample_project"
EPOCH = re.compile(r"^epoch (\d+)/(\d+)  loss (\d+\.\d{4})  accuracy ([01]\.\d{3})$")


def copied(folder: Path) -> Path:
    root = folder / "sample_project"
    shutil.copytree(SAMPLE, root, ignore=shutil.ignore_patterns("outputs", ".workbench", "__pycache__"))
    return root


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    return copied(tmp_path)


@pytest.fixture(scope="module")
def train() -> ModuleType:
    """Import the script, and PyTorch with it. At the top, each worker would load PyTorch to collect the tests."""
    spec = importlib.util.spec_from_file_location("sample_train", SAMPLE / "train.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(
    script: Path, *arguments: str, folder: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=folder or script.parent,
        env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """Train with the defaults, in another folder; return the copy of the project and the process."""
    root = copied(tmp_path_factory.mktemp("trained"))
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    return root, run(root / "train.py", folder=elsewhere, HOME=str(elsewhere))


def test_defaults_reach_95_percent_on_new_writers(
    trained: tuple[Path, subprocess.CompletedProcess[str]], train: ModuleType
) -> None:
    sample, done = trained
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    epochs = [found for line in lines if (found := EPOCH.match(line))]
    assert [(int(found[1]), int(found[2])) for found in epochs] == [(number, 15) for number in range(1, 16)]
    assert float(epochs[-1][4]) >= 0.95
    assert float(epochs[-1][3]) < float(epochs[0][3]) / 10
    assert lines[-1].startswith(f"test accuracy {epochs[-1][4]} in ")
    # The rest is a line about the device and a line about the data: no warnings, no progress bars.
    assert len(lines) == len(epochs) + (3 if not train.torch.cuda.is_available() else 7)

    metrics = json.loads((sample / "outputs" / "metrics.json").read_text())
    assert f"{metrics['accuracy']:.3f}" == epochs[-1][4]
    assert [f"{epoch['loss']:.4f}" for epoch in metrics["epochs"]] == [found[3] for found in epochs]
    assert metrics["settings"]["epochs"] == 15


def test_saved_model_has_the_logged_accuracy(
    trained: tuple[Path, subprocess.CompletedProcess[str]], train: ModuleType
) -> None:
    sample, _ = trained
    network = train.build_network()
    model = sample / "outputs" / "model.pt"
    network.load_state_dict(train.torch.load(model, map_location="cpu", weights_only=True))
    _, test = train.load_digits()
    said = json.loads((sample / "outputs" / "metrics.json").read_text())["accuracy"]
    assert train.accuracy(network, test) == pytest.approx(said, abs=1.5 / len(test.labels))


def test_exact_values_are_logged_only_in_a_run(
    train: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train.workbench is None
    epoch = train.Epoch(loss=0.123456789, accuracy=0.9)
    train.report(epoch, 1, 2)
    monkeypatch.setenv("WORKBENCH_RUN_DIRECTORY", str(tmp_path))
    monkeypatch.setattr(train, "workbench", load())
    train.report(epoch, 2, 2)
    assert [EPOCH.match(line) is not None for line in capsys.readouterr().out.splitlines()] == [True, True]
    assert [(record["name"], record["step"], record["value"]) for record in logged(tmp_path)] == [
        ("loss", 2, 0.123456789),
        ("accuracy", 2, 0.9),
    ]


@pytest.fixture
def one_thread(train: ModuleType) -> Iterator[None]:
    before = train.torch.get_num_threads()
    train.torch.set_num_threads(1)
    yield
    train.torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_seed_determines_the_result(
    train: ModuleType,
    sample: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(train, "OUTPUTS", tmp_path / "outputs")

    def losses(text: str) -> list[str]:
        return [line for line in text.splitlines() if EPOCH.match(line)]

    def in_this_process(seed: str) -> list[str]:
        monkeypatch.setattr(sys, "argv", ["train.py", "--epochs", "1", "--device", "cpu", "--seed", seed])
        train.main()
        return losses(capsys.readouterr().out)

    first = in_this_process("3")
    assert len(first) == 1
    other_process = run(sample / "train.py", "--epochs", "1", "--device", "cpu", "--seed", "3")
    assert losses(other_process.stdout) == first
    assert in_this_process("4") != first


def test_missing_gpu_is_reported_and_fails_if_required(
    trained: tuple[Path, subprocess.CompletedProcess[str]], train: ModuleType, sample: Path
) -> None:
    if train.torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    _, done = trained
    assert re.match(r"training on the CPU: PyTorch \S+ (is a CPU build|finds no GPU on this machine)\n", done.stdout)

    refused = run(sample / "train.py", "--device", "cuda")
    assert refused.returncode == 1
    assert re.fullmatch(r"train\.py: no GPU to train on \(.*\)\. To train on the CPU, .*\n", refused.stdout)


def test_invalid_numbers_are_refused_before_loading(sample: Path) -> None:
    refused = run(sample / "train.py", "--epochs", "0")
    assert refused.returncode == 2
    assert refused.stdout.splitlines()[-1] == "train.py: error: argument --epochs: must be 1 or more, not 0"
    assert not (sample / "outputs").exists()


def test_gpu_is_named_in_the_form_of_the_azureml_docs(train: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    card = SimpleNamespace(
        name="Tesla K80",
        major=3,
        minor=7,
        pci_domain_id=0x06C3,
        pci_bus_id=0,
        pci_device_id=0,
        total_memory=11995578368,
    )
    monkeypatch.setattr(train.torch.cuda, "get_device_properties", lambda device: card)
    monkeypatch.setattr(train.torch.cuda, "mem_get_info", lambda device: (11929124864, 11995578368))
    assert train.describe_gpu(train.torch.device("cuda", 0)).splitlines() == [
        "name: Tesla K80",
        "major: 3 minor: 7",
        "pciBusID 06c3:00:00.0",
        "Total memory: 11.17GiB",
        "Free memory: 11.11GiB",
    ]


def test_parts_share_no_image_and_contain_all_digits(train: ModuleType) -> None:
    digits, test = train.load_digits()
    assert len(digits.labels) + len(test.labels) == 1797
    assert len(test.labels) == train.TEST_IMAGES
    for part in (digits, test):
        assert part.images.shape == (len(part.labels), 1, 8, 8)
        assert 0 <= float(part.images.min()) < float(part.images.max()) <= 1
        assert sorted(part.labels.unique().tolist()) == list(range(10))
    seen = {tuple(image.flatten().tolist()) for image in digits.images}
    assert not seen & {tuple(image.flatten().tolist()) for image in test.images}
