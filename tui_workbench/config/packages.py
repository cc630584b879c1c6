"""What is known about packages and what they run with: plain tables, and the functions that look things up in them.

Invariant: a function answers None where the tables know nothing; a check that builds on a guess would be worse than
none.

Sources: the frameworks' published tables of tested builds, their release notes, and the original product's GPU guide.
"""

from __future__ import annotations

import re

from tui_workbench.records import NamedTuple

Version = tuple[int, ...]

GPU_PACKAGES = {
    "tensorflow-cpu": "tensorflow",
    "intel-tensorflow": "tensorflow",
    "cntk": "cntk-gpu",
    "mxnet": "mxnet-cu112",
    "onnxruntime": "onnxruntime-gpu",
    "faiss-cpu": "faiss-gpu",
    "paddlepaddle": "paddlepaddle-gpu",
    "pytorch-cpu": "pytorch",
    "torchvision-cpu": "torchvision",
}
"""CPU builds that have a name of their own, and their counterparts with CUDA."""

CPU_MARKERS = {"cpuonly": "conda's switch for CPU builds of PyTorch", "nomkl-cpu": "a CPU build"}
"""Packages whose only effect is to choose CPU builds."""

LARGE_PACKAGES = frozenset(
    """
    tensorflow tensorflow-gpu tensorflow-cpu torch pytorch pytorch-gpu torchvision torchaudio cntk cntk-gpu mxnet jax
    jaxlib cudatoolkit cuda-toolkit cudnn paddlepaddle paddlepaddle-gpu onnxruntime-gpu vllm xformers nvidia-cudnn-cu12
    """.split()  # noqa: SIM905 - a paragraph of names reads better than 25 lines of them
)
"""Packages of hundreds of megabytes and more: without a version, each rebuild may fetch another one."""

STANDARD_LIBRARY = frozenset(
    """
    abc base64 bisect collections copy csv datetime functools gc getpass glob gzip hashlib heapq inspect io itertools
    json logging math operator os pickle platform pprint random re shutil socket sqlite3 string struct subprocess sys
    tarfile tempfile textwrap threading time traceback types urllib uuid warnings zipfile
    """.split()  # noqa: SIM905
)
"""Modules of Python itself that no package index has: an environment that asks for one cannot be built."""


class Build(NamedTuple):
    """What one release line of a framework runs with."""

    oldest_python: Version
    newest_python: Version
    cuda: Version | None = None  # that the image must hold; None when the package brings its own


_TENSORFLOW: dict[Version, Build] = {
    **dict.fromkeys([(1, n) for n in range(5)], Build((2, 7), (3, 6), (8, 0))),
    **dict.fromkeys([(1, n) for n in range(5, 13)], Build((2, 7), (3, 6), (9, 0))),
    **dict.fromkeys([(1, 13), (1, 14), (1, 15)], Build((2, 7), (3, 7), (10, 0))),
    (2, 0): Build((2, 7), (3, 7), (10, 0)),
    (2, 1): Build((2, 7), (3, 7), (10, 1)),
    **dict.fromkeys([(2, 2), (2, 3)], Build((3, 5), (3, 8), (10, 1))),
    (2, 4): Build((3, 6), (3, 8), (11, 0)),
    **dict.fromkeys([(2, 5), (2, 6)], Build((3, 6), (3, 9), (11, 2))),
    **dict.fromkeys([(2, n) for n in range(7, 12)], Build((3, 7), (3, 10), (11, 2))),
    **dict.fromkeys([(2, 12), (2, 13)], Build((3, 8), (3, 11))),
    **dict.fromkeys([(2, 14), (2, 15)], Build((3, 9), (3, 11))),
    **dict.fromkeys([(2, 16), (2, 17), (2, 18), (2, 19)], Build((3, 9), (3, 12))),
    (2, 20): Build((3, 9), (3, 13)),
}
_TORCH: dict[Version, Build] = {
    **dict.fromkeys([(0, 4), (1, 0), (1, 1), (1, 2), (1, 3)], Build((2, 7), (3, 7))),
    **dict.fromkeys([(1, 4)], Build((2, 7), (3, 8))),
    (1, 5): Build((3, 5), (3, 8)),
    **dict.fromkeys([(1, 6)], Build((3, 6), (3, 8))),
    **dict.fromkeys([(1, n) for n in range(7, 11)], Build((3, 6), (3, 9))),
    **dict.fromkeys([(1, 11), (1, 12)], Build((3, 7), (3, 10))),
    (1, 13): Build((3, 7), (3, 11)),
    **dict.fromkeys([(2, 0), (2, 1)], Build((3, 8), (3, 11))),
    **dict.fromkeys([(2, 2), (2, 3), (2, 4)], Build((3, 8), (3, 12))),
    **dict.fromkeys([(2, 5), (2, 6), (2, 7), (2, 8)], Build((3, 9), (3, 13))),
}
_CNTK: dict[Version, Build] = {
    **dict.fromkeys([(2, 0), (2, 1), (2, 2)], Build((2, 7), (3, 6), (8, 0))),
    (2, 3): Build((2, 7), (3, 6), (8, 0)),
    **dict.fromkeys([(2, 4), (2, 5), (2, 6)], Build((2, 7), (3, 6), (9, 0))),
    (2, 7): Build((2, 7), (3, 6), (10, 0)),
}
_BUILDS = {
    "tensorflow": _TENSORFLOW,
    "tensorflow-gpu": _TENSORFLOW,
    "torch": _TORCH,
    "pytorch": _TORCH,
    "cntk": _CNTK,
    "cntk-gpu": _CNTK,
}

TITLES = {
    "tensorflow": "TensorFlow",
    "tensorflow-gpu": "TensorFlow",
    "torch": "PyTorch",
    "pytorch": "PyTorch",
    "cntk": "CNTK",
    "cntk-gpu": "CNTK",
}
"""How the frameworks are called in sentences."""


def build_of(package: str, version: Version) -> Build | None:
    """What this version of a framework runs with, None when the tables do not know it."""
    return _BUILDS.get(package, {}).get(version[:2]) if len(version) >= 2 else None


def newest_for(package: str, python: Version, cuda: Version | None, *, below: Version = (99,)) -> Version | None:
    """The newest release line of a framework before `below`, for this Python ((): any) and this CUDA (None: any)."""
    found = [
        line
        for line, build in _BUILDS.get(package, {}).items()
        if (not python or build.oldest_python <= python[:2] <= build.newest_python)
        and (cuda is None or build.cuda in (None, cuda))
        and line < below
    ]
    return max(found, default=None)


def parse_version(text: str) -> Version:
    """The leading numbers of a version: `1.4.0rc1` is (1, 4, 0); () when it begins with none."""
    match = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, match[0].split("."))) if match else ()


def show_version(version: Version) -> str:
    """A version as people write it."""
    return ".".join(map(str, version))
