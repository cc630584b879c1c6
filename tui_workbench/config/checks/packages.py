"""Parse the packages of a conda environment file, and look up the Python and CUDA versions of frameworks in tables.

A function returns None if the tables contain no answer, because a check must not be based on a guess. Sources of the
tables: the tested build configurations and release notes of the frameworks, and the GPU guide of Azure ML Workbench.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tui_workbench.config.yaml_edit.syntax import LIST, MAP, SCALAR, Node, Path

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
"""Packages with CUDA, by the CPU package that they replace."""

CPU_MARKERS = {"cpuonly": "the package that selects CPU builds of PyTorch", "nomkl-cpu": "a CPU build"}
"""Packages whose only effect is to select CPU builds."""

GPU_MODULES = frozenset(
    """
    accelerate allennlp apex bitsandbytes caffe catalyst catboost chainer cntk cucim cudf cuml cupy cugraph cuda
    deepspeed detectron2 dgl diffusers fairseq faiss fastai flax gpytorch h2o4gpu haiku ignite jax
    jaxlib keras keras_core kornia lightgbm lightning mmcv mmdet mmengine monai mxnet nemo numba nvidia nvtx onnxruntime
    optax paddle paddlenlp peft pycuda pyopencl pyro pytorch_lightning rmm sentence_transformers simpletransformers
    skorch spacy stable_baselines3 tensorflow theano thinc timm tinygrad torch torch_geometric torchaudio torchtext
    torchvision transformers triton trl ultralytics unsloth vllm warp whisper xformers xgboost
    """.split()  # noqa: SIM905
)
"""Modules that can compute on a GPU, or import such a module."""

_PACKAGES_OF_MODULES = {"pytorch": "torch", "lightning": "pytorch_lightning", "paddlepaddle": "paddle"}


def can_use_gpu(package: str) -> bool:
    """Return True if a package, or a module with this name, can compute on a GPU: `torch`, `tensorflow-gpu`."""
    name = package.lower().replace("-", "_")
    name = re.sub(r"_(?:gpu|cpu|cu\d+|cuda\d*|rocm\w*)\Z|\d+x?\Z", "", name)
    name = re.sub(r"_(?:gpu|cpu|cuda)\Z|\A(?:dm|openai)_", "", name)
    return _PACKAGES_OF_MODULES.get(name, name) in GPU_MODULES or name.startswith(("nvidia", "cuda"))


LARGE_PACKAGES = frozenset(
    """
    tensorflow tensorflow-gpu tensorflow-cpu torch pytorch pytorch-gpu torchvision torchaudio cntk cntk-gpu mxnet jax
    jaxlib cudatoolkit cuda-toolkit cudnn paddlepaddle paddlepaddle-gpu onnxruntime-gpu vllm xformers nvidia-cudnn-cu12
    """.split()  # noqa: SIM905 - a paragraph of names reads better than 25 lines of them
)
"""Packages of hundreds of megabytes. Without a version, each rebuild may download a new release."""

STANDARD_LIBRARY = frozenset(
    """
    abc base64 bisect collections copy csv datetime functools gc getpass glob gzip hashlib heapq inspect io itertools
    json logging math operator os pickle platform pprint random re shutil socket sqlite3 string struct subprocess sys
    tarfile tempfile textwrap threading time traceback types urllib uuid warnings zipfile
    """.split()  # noqa: SIM905
)
"""Modules of the Python standard library that are often listed as packages by mistake."""


class Build(NamedTuple):
    """Requirements of a minor release of a framework."""

    oldest_python: Version
    newest_python: Version
    cuda: Version | None = None  # CUDA version of the image; None if unknown or if the package includes CUDA
    cudnn: Version | None = None  # major cuDNN version for this CUDA


_TENSORFLOW: dict[Version, Build] = {
    **dict.fromkeys([(1, n) for n in range(3)], Build((2, 7), (3, 6), (8, 0), (5,))),
    **dict.fromkeys([(1, 3), (1, 4)], Build((2, 7), (3, 6), (8, 0), (6,))),
    **dict.fromkeys([(1, n) for n in range(5, 13)], Build((2, 7), (3, 6), (9, 0), (7,))),
    **dict.fromkeys([(1, 13), (1, 14), (1, 15)], Build((2, 7), (3, 7), (10, 0), (7,))),
    (2, 0): Build((2, 7), (3, 7), (10, 0), (7,)),
    (2, 1): Build((2, 7), (3, 7), (10, 1), (7,)),
    **dict.fromkeys([(2, 2), (2, 3)], Build((3, 5), (3, 8), (10, 1), (7,))),
    (2, 4): Build((3, 6), (3, 8), (11, 0), (8,)),
    **dict.fromkeys([(2, 5), (2, 6)], Build((3, 6), (3, 9), (11, 2), (8,))),
    **dict.fromkeys([(2, n) for n in range(7, 12)], Build((3, 7), (3, 10), (11, 2), (8,))),
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
    (2, 0): Build((2, 7), (3, 6), (8, 0), (5,)),
    **dict.fromkeys([(2, 1), (2, 2), (2, 3)], Build((2, 7), (3, 6), (8, 0), (6,))),
    **dict.fromkeys([(2, 4), (2, 5), (2, 6)], Build((2, 7), (3, 6), (9, 0), (7,))),
    (2, 7): Build((2, 7), (3, 6), (10, 0), (7,)),
}
_BUILDS = {"TensorFlow": _TENSORFLOW, "PyTorch": _TORCH, "CNTK": _CNTK}

TITLES = {
    "tensorflow": "TensorFlow",
    "tensorflow-gpu": "TensorFlow",
    "torch": "PyTorch",
    "pytorch": "PyTorch",
    "cntk": "CNTK",
    "cntk-gpu": "CNTK",
}
"""Names of the frameworks in messages, by package."""


def build_of(package: str, version: Version) -> Build | None:
    """Return the requirements of a version of a framework, or None if they are unknown."""
    return _BUILDS[TITLES[package]].get(version[:2]) if package in TITLES else None


def newest_for(package: str, python: Version, cuda: Version | None, *, below: Version = (99,)) -> Version | None:
    """Return the newest minor release of a framework before `below`, for this Python ((): any) and CUDA (None: any)."""
    lines = [
        line
        for line, build in _BUILDS.get(TITLES.get(package, ""), {}).items()
        if (not python or build.oldest_python <= python[:2] <= build.newest_python)
        and (cuda is None or build.cuda in (None, cuda))
        and line < below
    ]
    return max(lines, default=None)


def parse_version(text: str) -> Version:
    """Return the leading numbers of a version: (1, 4, 0) for `1.4.0rc1`, () for text that begins with no digit."""
    match = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, match[0].split("."))) if match else ()


def show_version(version: Version) -> str:
    """Format a version: `1.4.0`."""
    return ".".join(map(str, version))


# -- lines of a conda environment file -------------------------------------------------------------------------------

_WHEEL = re.compile(
    r"(?P<name>[A-Za-z0-9_.]+?)-(?P<version>[^-/]+)(?:-\d[^-/]*)?-(?P<python>[\w.]+)-(?P<abi>[\w.]+)-(?P<platform>[\w.]+)\.whl"
)
_NAME = re.compile(r"(?:(?P<channel>[\w./-]+)::)?(?P<name>[A-Za-z0-9][\w.-]*)(?P<extras>\[[^\]]*\])?\s*(?P<spec>.*)\Z")
_CONDA_EXACT = re.compile(r"={1,2}\s*(\d[\w.!+]*)")
_PIP_EXACT = re.compile(r"={2,3}\s*(\d[\w.!+*]*)\s*(?:;.*)?\Z")


class Wheel(NamedTuple):
    """The parts of a wheel's file name."""

    name: str
    version: str
    python: str  # cp35, py3, cp27.cp35, ...
    abi: str
    platform: str  # linux_x86_64, win_amd64, any, ...


class Requirement(NamedTuple):
    """A package in a conda environment file."""

    text: str  # the whole line
    manager: str  # conda or pip
    path: Path
    start: int
    end: int
    name: str = ""  # in lowercase, with `-` instead of `_`; "" for options such as --index-url
    version: str = ""  # version of an exact pin
    spec: str = ""  # text after the name
    extras: str = ""
    url: str = ""  # URL or path of a direct reference
    wheel: Wheel | None = None

    @property
    def pin(self) -> Version:
        """The exact version as numbers, or () if it is not pinned."""
        return parse_version(self.version)


_INDEX_OPTIONS = frozenset(("-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--pre", "--trusted-host"))
OPTION_REMEDY = "Remove the option. Instead of `-r`, `-c` or `-e`, list the packages under `pip:`."


def split_option(text: str) -> tuple[str, str]:
    """Return the word and the value of a pip option such as `--index-url=URL`; the value may be ""."""
    word, value = (*re.split(r"[=\s]+", text.strip(), maxsplit=1), "")[:2]
    return word, value


def option_problem(requirement: Requirement) -> str:
    """Return why an environment cannot be built with a pip option, as a clause; "" for packages and valid options."""
    if requirement.manager != "pip" or not requirement.text.strip().startswith("-"):
        return ""
    word, _ = split_option(requirement.text)
    return "" if word in _INDEX_OPTIONS else f"the option '{word}' is not supported in this file"


def requirements_of(root: Node | None) -> list[Requirement]:
    """Return the packages of a conda environment file, in order."""
    node = root.get("dependencies") if root is not None and root.kind == MAP else None
    if node is None or node.kind != LIST:
        return []
    return list(_items(node))


def python_of(requirements: Iterable[Requirement]) -> Version:
    """Return the pinned version of Python, or () if it is not pinned."""
    conda_packages = (requirement for requirement in requirements if requirement.manager == "conda")
    return next((package.pin for package in conda_packages if package.name == "python"), ())


def name_of(text: str) -> str:
    """Return the normalized name of the package in a line, or "" for a URL."""
    match = _NAME.match(text.strip())
    return _normal(match["name"]) if match is not None and "://" not in text else ""


def _items(node: Node) -> Iterator[Requirement]:
    for index, item in enumerate(node.items):
        path: Path = ("dependencies", index)
        if item.kind == SCALAR:
            yield _conda(item, path)
        elif item.kind == MAP:
            pip = item.get("pip")
            for inner, pip_item in enumerate(pip.items if pip is not None and pip.kind == LIST else ()):
                if pip_item.kind == SCALAR:
                    yield _pip(pip_item, (*path, "pip", inner))


def _conda(node: Node, path: Path) -> Requirement:
    requirement = Requirement(node.text, "conda", path, node.start, node.end)
    match = _NAME.match(node.text.strip())
    if match is None:
        return requirement
    spec = match["spec"].strip()
    exact = _CONDA_EXACT.match(spec)
    version = exact[1] if exact else ""
    if spec[:1].isdigit():
        # `python 3.5.2` and `python 3.5.2 0` are older forms of a pin in conda.
        version = spec.split()[0]
    return requirement._replace(name=_normal(match["name"]), version=version.rstrip(".*"), spec=spec)


def _pip(node: Node, path: Path) -> Requirement:
    text = node.text.strip()
    requirement = Requirement(node.text, "pip", path, node.start, node.end)
    if text.startswith("-"):
        return requirement
    tags = _WHEEL.search(text.replace("%2B", "+"))
    if tags is not None:
        wheel = Wheel(*tags.group("name", "version", "python", "abi", "platform"))
        return requirement._replace(name=_normal(wheel.name), version=wheel.version, spec=text, url=text, wheel=wheel)
    if "://" in text or text.startswith(("./", "../", "/", "~")):
        name, _, rest = text.partition("@")
        is_named = bool(rest) and "://" not in name
        return requirement._replace(name=_normal(name.strip()) if is_named else "", url=text, spec=text)
    match = _NAME.match(text)
    if match is None:
        return requirement
    spec = match["spec"].strip()
    exact = _PIP_EXACT.match(spec)
    version = exact[1].rstrip(".*") if exact else ""
    return requirement._replace(name=_normal(match["name"]), version=version, spec=spec, extras=match["extras"] or "")


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
