"""Facts known from the name of a Docker image."""

from __future__ import annotations

import pytest

from tui_workbench.config.checks.image_names import DEFAULT_GPU_IMAGE, OLDER_DRIVER_GPU_IMAGE, is_gpu_image, parse_image
from tui_workbench.config.checks.images import ORIGINAL_GPU_IMAGES, cuda_of_image, gpu_variant, stale_reason


@pytest.mark.parametrize(
    ("reference", "parts"),
    [
        ("ubuntu", ("ubuntu", "", "")),
        ("microsoft/mmlspark:plus-0.7.dev7_2.gcfbc920", ("microsoft/mmlspark", "plus-0.7.dev7_2.gcfbc920", "")),
        ("localhost:5000/a/b:1", ("localhost:5000/a/b", "1", "")),
        (f"a/b@sha256:{'0' * 64}", ("a/b", "", f"sha256:{'0' * 64}")),
    ],
)
def test_reference_is_split_into_parts(reference: str, parts: tuple[str, str, str]) -> None:
    assert parse_image(reference) == parts


@pytest.mark.parametrize("reference", ["", "My/Image", "a b", "a:", "a:b c", ":tag", "a//b", "https://x/y", "a\nb"])
def test_invalid_references(reference: str) -> None:
    assert parse_image(reference) is None
    assert is_gpu_image(reference) is None


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        (DEFAULT_GPU_IMAGE, True),
        (OLDER_DRIVER_GPU_IMAGE, True),
        *((reference, True) for reference in ORIGINAL_GPU_IMAGES),
        ("microsoft/mmlspark:gpu", True),
        ("nvidia/cuda:8.0-cudnn6-devel-ubuntu16.04", True),
        ("registry.example.org/nvidia/pytorch:24.01-py3", True),
        ("tensorflow/tensorflow:1.4.0-gpu-py3", True),
        ("mine/train-cu121:3", True),
        ("pytorch/pytorch", True),
        ("microsoft/mmlspark:plus-0.9.9", False),
        ("microsoft/mmlspark", False),
        ("tensorflow/tensorflow:2.15.0", False),
        ("registry.example.org/library/python:3.12", False),
        ("continuumio/miniconda3", False),
        ("mine/train:1", None),
        ("mine/accuracy:1", None),
    ],
)
def test_image_with_cuda_is_recognized(reference: str, expected: bool | None) -> None:
    assert is_gpu_image(reference) is expected


@pytest.mark.parametrize(
    ("reference", "version"),
    [
        (DEFAULT_GPU_IMAGE, (13, 0)),
        ("nvidia/cuda:11.8.0-base-ubuntu22.04", (11, 8)),
        ("mine/x:cuda12.1", (12, 1)),
        ("mine/x:torch2-cu121", (12, 1)),
        ("microsoft/mmlspark:plus-gpu-0.9.9", (8, 0)),
        ("microsoft/mmlspark:plus-0.9.9", None),
        ("tensorflow/tensorflow:1.8.0-gpu-py3", (9, 0)),
        ("tensorflow/tensorflow:2.4.1-gpu", (11, 0)),
        ("tensorflow/tensorflow:1.8.0-py3", None),
        ("microsoft/cntk:2.2-gpu-python3.5-cuda8.0-cudnn6.0", (8, 0)),
        ("ubuntu:22.04", None),
    ],
)
def test_cuda_version_of_an_image_is_known(reference: str, version: tuple[int, int] | None) -> None:
    assert cuda_of_image(reference) == version


@pytest.mark.parametrize(
    ("reference", "twin"),
    [
        ("microsoft/mmlspark:plus-0.9.9", "microsoft/mmlspark:plus-gpu-0.9.9"),
        ("microsoft/mmlspark:plus-0.7.91", "microsoft/mmlspark:plus-gpu-0.7.91"),
        ("microsoft/mmlspark:0.7", "microsoft/mmlspark:plus-gpu-0.9.9"),
        ("microsoft/mmlspark", "microsoft/mmlspark:plus-gpu-0.9.9"),
        ("tensorflow/tensorflow:1.4.0-py3", "tensorflow/tensorflow:1.4.0-gpu-py3"),
        ("tensorflow/tensorflow", "tensorflow/tensorflow:latest-gpu"),
        ("microsoft/mmlspark:plus-gpu-0.9.9", None),
        ("python:3.12", None),
    ],
)
def test_image_of_the_same_family_with_cuda_is_suggested(reference: str, twin: str | None) -> None:
    assert gpu_variant(reference) == twin
    assert twin is None or is_gpu_image(twin)


def test_stale_reason() -> None:
    assert stale_reason("nvidia/cuda:8.0-cudnn6-devel-ubuntu16.04")
    assert stale_reason("microsoft/mmlspark:0.7")
    assert not stale_reason(DEFAULT_GPU_IMAGE)
    assert not stale_reason("microsoft/mmlspark:plus-0.9.9")
    assert not stale_reason("mine/train:1")


@pytest.mark.parametrize("tag", ["plus-0.10.9", "plus-0.7.91", "plus-0.9.9", "plus-1.0", "plus-0.7.100"])
def test_versions_are_compared_as_numbers(tag: str) -> None:
    assert stale_reason(f"microsoft/mmlspark:{tag}") == ""


@pytest.mark.parametrize("tag", ["0.7", "plus-0.7.9", "plus-0.7.dev7_2.gcfbc920", "gpu"])
def test_early_image_is_stale(tag: str) -> None:
    assert "which newer images have replaced" in stale_reason(f"microsoft/mmlspark:{tag}")
