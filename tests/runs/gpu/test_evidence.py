"""Messages of frameworks about GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tui_workbench.runs.gpu.evidence import AGAINST, FOR, HEAD_BYTES, evidence_in
from tui_workbench.runs.gpu.verdict import Evidence

if TYPE_CHECKING:
    from pathlib import Path

TF1 = """\
2017-10-09 13:46:27.219: I tensorflow/core/common_runtime/gpu/gpu_device.cc:955] Found device 0 with properties:
name: Tesla K80
major: 3 minor: 7 memoryClockRate (GHz) 0.8235
pciBusID 06c3:00:00.0
Total memory: 11.17GiB
Free memory: 11.11GiB
2017-10-09 13:46:27.220: I tensorflow/core/common_runtime/gpu/gpu_device.cc:976] DMA: 0
2017-10-09 13:46:27.221: I tensorflow/core/common_runtime/gpu/gpu_device.cc:1045] Creating TensorFlow device (/gpu:0) \
-> (device: 0, name: Tesla K80, pci bus id: 06c3:00:00.0)
"""
TF2 = (
    "2024-01-02 03:04:05.678901: I tensorflow/core/common_runtime/gpu/gpu_device.cc:1929] Created device "
    "/job:localhost/replica:0/task:0/device:GPU:0 with 13949 MB memory:  -> device: 0, name: Tesla T4, "
    "pci bus id: 0000:00:04.0, compute capability: 7.5\n"
)
TORCH = "name: NVIDIA A100\nmajor: 8 minor: 0\npciBusID 0000:00:04.0\nTotal memory: 39.39GiB\nFree memory: 39.00GiB\n"
CNTK = "Selected GPU[0] Tesla K80 as the process wide default device.\n"


def evidence(folder: Path, text: str | bytes) -> tuple[Evidence, ...]:
    path = folder / "output.log"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return evidence_in(str(path))


def test_tensorflow_1_names_the_device_in_a_block(tmp_path: Path) -> None:
    block, created = evidence(tmp_path, "starting\n" + TF1)
    assert (block.speaks, block.framework, block.line) == (FOR, "TensorFlow 1", 2)
    assert block.quote[1:] == tuple(TF1.split("\n")[1:6])
    assert (created.framework, created.line) == ("TensorFlow 1", 9)


@pytest.mark.parametrize(("text", "framework"), [(TF2, "TensorFlow 2"), (TORCH, "PyTorch"), (CNTK, "CNTK")])
def test_other_frameworks_name_the_device(tmp_path: Path, text: str, framework: str) -> None:
    (found,) = evidence(tmp_path, text)
    assert (found.speaks, found.framework, found.line) == (FOR, framework, 1)
    assert found.quote == tuple(text.strip().split("\n"))


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("training on the CPU: PyTorch 2.13.0+cpu is a CPU build", "PyTorch is a CPU build"),
        ("AssertionError: Torch not compiled with CUDA enabled", "PyTorch is a CPU build"),
        ("E tensorflow/stream_executor/cuda/cuda_driver.cc:318] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-"
         "capable device is detected", "CUDA found no device"),
        ("W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load dynamic library "
         "'libcudart.so.10.1'; dlerror: no such file", "TensorFlow did not find a CUDA library"),
        ("I tensorflow/tsl/cuda/cudart_stub.cc:28] Could not find cuda drivers on your machine, GPU will not be used.",
         "TensorFlow found no CUDA driver"),
        ("Selected CPU as the process wide default device.", "CNTK chose the CPU"),
        ("RuntimeError: No HIP GPUs are available", "ROCm found no device"),
        ("RuntimeError: HIP error: no ROCm-capable device is detected", "ROCm found no device"),
        ("UserWarning: CUDA initialization: Found no NVIDIA driver on your system.", "PyTorch found no NVIDIA driver"),
        ("UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 11040).",
         "the driver is too old"),
        ("WARNING:jax._src.xla_bridge:No GPU/TPU found, falling back to CPU.", "JAX is a CPU build"),
    ],
)  # fmt: skip
def test_messages_against_a_gpu_have_a_cause(tmp_path: Path, line: str, cause: str) -> None:
    (found,) = evidence(tmp_path, f"before\n\x1b[33m{line}\x1b[0m\r\nafter\n")
    assert (found.speaks, found.quote, found.line) == (AGAINST, (line,), 2)
    assert found.cause.startswith(cause)


@pytest.mark.parametrize(
    "text",
    ["", "name: my-experiment\n", "epoch 1/3 on GPU\n", "cuda\n" * 10_000, b"\xff\x00GPU" * 1000, "CUDA is great"],
)
def test_other_text_is_no_evidence(tmp_path: Path, text: str | bytes) -> None:
    assert evidence(tmp_path, text) == ()


def test_repeated_message_is_listed_once(tmp_path: Path) -> None:
    assert len(evidence(tmp_path, TF2.replace("2024", "{}").format(2024) * 50)) == 1


def test_end_of_a_long_log_is_read(tmp_path: Path) -> None:
    (found,) = evidence(
        tmp_path, b"x" * 79 + b"\n" + b"y" * (2 * HEAD_BYTES) + b"\nTorch not compiled with CUDA enabled\n"
    )
    assert (found.cause, found.line) == ("PyTorch is a CPU build", 0)


def test_missing_log_has_no_evidence(tmp_path: Path) -> None:
    assert evidence_in(str(tmp_path / "output.log")) == ()
