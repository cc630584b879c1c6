"""What an image holds that matters to a run: its Python, its conda, its C library. Asked once of each image.

The answer is kept by the image's id, which names its content, so it can never be out of date.
"""

from __future__ import annotations

import contextlib
import json
import os

from tui_workbench.errors import ConfigurationError
from tui_workbench.records import TYPE_CHECKING, NamedTuple
from tui_workbench.targets.container import KIND_LABEL, LOG
from tui_workbench.targets.engine import EngineRefused

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tui_workbench.targets.engine import Engine, Image

PROBE_KIND = "probe"

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}
"""What images call what an engine's machine calls itself."""

FORM = 2
"""Number of the answer's form; answers of another are asked for again."""

_PLACES = (
    "python",
    "python3",
    "/opt/conda/bin/python",
    "/opt/venv/bin/python",
    "/usr/local/bin/python3",
    "/usr/bin/python3",
)
# For whatever Python an image has: 2.7 and 3.5 run it too.
_PROGRAM = r"""
import json, os, platform, sys
def which(names):
    folders = os.environ.get("PATH", "").split(os.pathsep)
    folders += [os.path.join(os.environ.get(v, "/nowhere"), "bin") for v in ("CONDA_DIR", "MAMBA_ROOT_PREFIX")]
    folders += ["/opt/conda/bin", "/opt/conda/condabin", "/root/miniconda3/bin", "/usr/local/bin", "/bin"]
    for name in names:
        for folder in folders:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return path
    return ""
packages = []
try:
    from importlib.metadata import distributions
    for each in distributions():
        if each.metadata["Name"]:
            packages.append([each.metadata["Name"], each.version, list(each.requires or ())])
except ImportError:
    try:
        import pkg_resources
        packages = [[each.project_name, each.version, []] for each in pkg_resources.working_set]
    except ImportError:
        pass
print("workbench-probe:" + json.dumps({
    "python": sys.executable,
    "version": "%d.%d.%d" % sys.version_info[:3],
    "machine": platform.machine(),
    "libc": list(platform.libc_ver()),
    "conda": which(("micromamba", "mamba", "conda")),
    "uv": which(("uv",)),
    "packages": packages,
}))
"""
_MARK = b"workbench-probe:"
# Some images set PATH only in an entry point; the well-known places are looked at too.
_SCRIPT = 'for p in "$@"; do if command -v "$p" >/dev/null 2>&1; then exec "$p" -c "$PROGRAM"; fi; done; exit 127'


class ImageFacts(NamedTuple):
    """What an image holds."""

    python: str  # absolute path of its interpreter
    version: str  # of the interpreter, as 3.11.2
    machine: str  # x86_64, aarch64, ...
    libc: tuple[str, str]  # ("glibc", "2.36"); ("", "") where it is another, which is musl in practice
    conda: str  # absolute path of micromamba, mamba or conda; "" for none
    uv: str  # absolute path of uv; "" for none
    shell: bool  # whether it has /bin/sh
    packages: tuple[tuple[str, str, tuple[str, ...]], ...]  # name, version, requirements of each distribution


def facts_of(engine: Engine, image: Image, name: str) -> ImageFacts:
    """What the image holds; runs a container of it when nobody asked before.

    Raises ConfigurationError, naming the image `name`, when there is no Python in it.
    """
    path = _answer_path(image.id)
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError), open(path, encoding="utf-8") as file:
        return _from_json(json.load(file))
    answer = _ask(engine, image)
    if answer is None:
        _refuse_another_machine_s(engine, image, name)
        raise ConfigurationError(
            f"there is no Python in the image {name}",
            remedy="Choose a baseDockerImage with Python, such as python:3.11-slim or pytorch/pytorch.",
        )
    facts = _from_json(answer)
    _keep(path, answer)
    return facts


def _refuse_another_machine_s(engine: Engine, image: Image, name: str) -> None:
    """Raise ConfigurationError for an image whose programs the engine's machine cannot run at all."""
    machine = engine.facts().architecture
    ours = _ARCHITECTURES.get(machine, machine)
    if image.architecture and ours and image.architecture != ours:
        raise ConfigurationError(
            f"the image {name} is made for {image.architecture}, and the machine is {ours}",
            remedy=f"Choose a baseDockerImage for {ours}: `docker pull --platform linux/{ours}` finds it where there "
            "is one of the same name.",
        )


def _ask(engine: Engine, image: Image) -> dict[str, Any] | None:
    """The answer of the image's Python, found by its shell or, in an image that has none, by trying."""
    answer = _run(engine, image, ["/bin/sh", "-c", _SCRIPT, "sh", *_PLACES])
    if answer is not None:
        return {**answer, "shell": True}
    for name in ("python3", "python"):
        answer = _run(engine, image, [name, "-c", _PROGRAM])
        if answer is not None:
            return {**answer, "shell": False}
    return None


def _run(engine: Engine, image: Image, command: list[str]) -> dict[str, Any] | None:
    name = f"workbench-probe-{os.urandom(6).hex()}"
    engine.create(
        name,
        {
            "Image": image.id,
            "Entrypoint": [],
            "Cmd": command,
            "Env": [f"PROGRAM={_PROGRAM}"],
            "Labels": {KIND_LABEL: PROBE_KIND},
            "NetworkDisabled": True,
            "HostConfig": {"NetworkMode": "none", "LogConfig": LOG},
        },
    )
    try:
        engine.start(name)
        engine.wait(name)
        text = b"".join(record.partition(b" ")[2] for record in engine.records(name, follow=False))
    except EngineRefused:
        return None  # it holds no such program
    finally:
        engine.remove(name)
    _, mark, rest = text.rpartition(_MARK)
    if not mark:
        return None
    with contextlib.suppress(ValueError):
        found: dict[str, Any] = json.loads(rest.split(b"\n")[0])
        return found
    return None


def _answer_path(image_id: str) -> str:
    from tui_workbench.resources import user_cache_directory

    return os.path.join(user_cache_directory(), "images", f"{image_id.removeprefix('sha256:')}-{FORM}.json")


def _keep(path: str, answer: Mapping[str, Any]) -> None:
    """Remember an answer. Where that is not possible it is asked for again."""
    from tui_workbench.errors import StorageError
    from tui_workbench.files import write_atomically

    with contextlib.suppress(OSError, StorageError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_atomically(path, json.dumps(answer).encode())


def _from_json(answer: Mapping[str, Any]) -> ImageFacts:
    return ImageFacts(
        python=answer["python"],
        version=answer["version"],
        machine=answer["machine"],
        libc=(answer["libc"][0], answer["libc"][1]),
        conda=answer["conda"],
        uv=answer["uv"],
        shell=answer["shell"],
        packages=tuple((name, version, tuple(requires)) for name, version, requires in answer["packages"]),
    )
