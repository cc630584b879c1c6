"""The placement of a run: its paths and user on a host, and copies of a project into and out of a container."""

from __future__ import annotations

import contextlib
import io
import os
import posixpath
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from typing import IO, Any

from tui_workbench.config.schema.data_references import data_beside, data_elsewhere, data_in_project
from tui_workbench.core.errors import StorageError
from tui_workbench.core.files import is_folder_below, make_folders, merge_below, read_below, remove_below, rename_below
from tui_workbench.core.json_values import check_type, parse_json
from tui_workbench.core.masking import is_secret_file
from tui_workbench.core.model import ComputeTarget, RunSpec
from tui_workbench.targets.base import run_environment, spark
from tui_workbench.targets.base.spark import Spark
from tui_workbench.targets.docker.container import ENGINE_MODE, FILE_MODE, Placement
from tui_workbench.targets.docker.engine import Engine
from tui_workbench.targets.docker.engine_answers import Image
from tui_workbench.targets.docker.gpu_access import GpuAccess, gpu_access
from tui_workbench.targets.docker.image_probe import ImageFacts, find_spark
from tui_workbench.targets.hosts.fetching import unpack
from tui_workbench.targets.hosts.host import Host
from tui_workbench.targets.hosts.host_run import HostRun
from tui_workbench.targets.hosts.supervisor import OUTPUTS, WORKING_COPY
from tui_workbench.targets.values import PROJECT_IN_CONTAINER, SDK_FOLDER

_ROOT = "0:0"

# The file in the run directory that lists the files of the project that were copied into the container.
PLACED = "placed.json"
LARGEST_PLACED = 1 << 28

CONTAINER_FILES = "made"  # the folder in the run directory for files copied out of the container


def is_copied(target: ComputeTarget) -> bool:
    """Return True if the project is copied into the container instead of mounted (`sharedVolumes: false`)."""
    return target.shared_volumes is False


def placement_of(host: Host, engine: Engine, spec: RunSpec, image: Image, facts: ImageFacts) -> Placement:
    """Return the settings of the run's container that depend on the host and the image."""
    user, group = host.user_ids()
    # In a rootless engine only the container's root can write files of the user who runs the engine.
    user_spec = _ROOT if user and engine.facts().rootless else f"{user}:{group}"
    run = HostRun(host, spec)
    home = os.path.expanduser("~") if host.is_local else posixpath.dirname(host.home())
    return _placement(host, spec, home)._replace(
        run_directory=run.directory,
        user=user_spec,
        image=image.id,
        python=facts.python,
        mode=FILE_MODE if facts.shell else ENGINE_MODE,
        sdk=run.sdk_folder,
        gpu_access=gpu_access(host) if spec.target.gives_gpus else GpuAccess(),
        python_path=next((text[11:] for text in image.environment if text.startswith("PYTHONPATH=")), ""),
    )


def with_spark(placement: Placement, engine: Engine, spec: RunSpec, image: Image) -> Placement:
    """Add the Spark of the image, if the run uses Spark. Raises ConfigurationError if Spark or Java is missing."""
    if not spec.run_configuration.uses_spark:
        return placement
    return placement._replace(spark=spark_of(engine, spec, image, placement.python))


def spark_of(engine: Engine, spec: RunSpec, image: Image, python: str) -> Spark:
    """Return the Spark of the image. Raises ConfigurationError if Spark or Java is missing."""
    other = "Or choose a baseDockerImage with Spark and Java, such as spark:python3."
    return spark.require_spark(
        spec,
        find_spark(engine, spec, image, python),
        f"the image {spec.target.base_docker_image}",
        spark_remedy=f"{spark.conda_remedy(spec, 'pyspark')} {other}",
        java_remedy=f"{spark.conda_remedy(spec, 'openjdk')} {other}",
    )


def symbolic_placement(host: Host, spec: RunSpec) -> Placement:
    """Return the placement for a plan, with shell expressions for values that only the host knows."""
    if host.is_local:
        placement = _placement(host, spec, os.path.expanduser("~"))
        return placement._replace(user=f"{os.getuid()}:{os.getgid()}", sdk=SDK_FOLDER)
    placement = _placement(host, spec, "~")
    directory = f"~/.workbench-tui/runs/{spec.run_id}"
    return placement._replace(run_directory=directory, user="$(id -u):$(id -g)", sdk="~/.workbench-tui/sdk")


def _placement(host: Host, spec: RunSpec, home: str) -> Placement:
    copied = is_copied(spec.target)
    return Placement(
        run_directory=spec.run_directory,
        share=run_environment.shared_folder(spec, home),
        user="",
        project_root=spec.project_root if host.is_local and not spec.tracked and not copied else "",
        data=data_of(spec),
        beside=data_beside(spec.project_root, spec.run_configuration.data_references),
        copied=copied,
        image=spec.target.base_docker_image,
        spark=spark.UNKNOWN if spec.run_configuration.uses_spark else None,
    )


def data_of(spec: RunSpec) -> tuple[str, ...]:
    """Return the paths of a run's data: the targets of links in the working copy, and paths that scripts open."""
    references = spec.run_configuration.data_references
    linked = data_in_project(spec.project_root, references).values() if spec.tracked else ()
    return tuple(dict.fromkeys((*linked, *data_elsewhere(spec.project_root, references))))


def archive_of(folder: str, inside: str, user: str, *, is_leaving: bool = False) -> tuple[IO[bytes], dict[str, str]]:
    """Return the folder as a tar archive for the absolute path `inside`, owned by `user` (uid:gid).

    Also return the identity of each member by its relative path; see `identity_of`. Links stay links. With
    `is_leaving`, files whose names indicate secrets are omitted, because the archive leaves this machine.
    """
    uid, _, gid = user.partition(":")
    identities: dict[str, str] = {}
    newest = int(time.time()) - 2
    prefix = inside.lstrip("/")

    def owned(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if is_leaving and info.isfile() and is_secret_file(info.name):
            return None
        info.uid, info.gid, info.uname, info.gname = int(uid), int(gid or uid), "", ""
        # The engine reports times in whole seconds, so each copy must be older than any file that the script changes.
        info.mtime = min(int(info.mtime), newest)
        identities[os.path.relpath(info.name, prefix)] = identity_of(info)
        return info

    archive = tempfile.TemporaryFile()  # noqa: SIM115  (the caller closes it)
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(folder, prefix, filter=owned)
    archive.seek(0)
    return archive, identities


def identity_of(info: tarfile.TarInfo) -> str:
    """Return a string that changes when the member of an archive changes; "" for folders."""
    return "" if info.isdir() else f"{info.linkname} {info.size} {int(info.mtime)} {info.mode & 0o111}"


def take_made(chunks: Iterator[bytes], run_directory: str) -> None:
    """From the archive of a project's folder in a container, extract the files that the script created or changed.

    `outputs/` goes to the run's directory, all other files to `work/`. Idempotent. Raises StorageError.
    """
    identities: Mapping[str, Any] = {}
    with contextlib.suppress(OSError, ValueError):
        identities = check_type(Mapping[str, Any], parse_json(read_below(run_directory, PLACED, LARGEST_PLACED)), "")

    def is_made(info: tarfile.TarInfo) -> bool:
        parts = info.name.split("/")[1:]
        if "__pycache__" in parts:
            return False
        return parts[:1] == [OUTPUTS] or info.isdir() or identities.get("/".join(parts)) != identity_of(info)

    try:
        if is_folder_below(run_directory, CONTAINER_FILES):
            remove_below(run_directory, CONTAINER_FILES)
        make_folders(run_directory, CONTAINER_FILES)
        unpack(_Chunks(chunks), os.path.join(run_directory, CONTAINER_FILES), is_wanted=is_made)
        _move_home(run_directory)
    except (OSError, tarfile.TarError) as error:
        raise StorageError(
            f"cannot store the files of the run: {error}",
            remedy="Check the free space and the permissions of the run's directory, then run `workbench-tui "
            "experiment collect`.",
            file=run_directory,
        ) from error


class _Chunks(io.RawIOBase):
    """A readable file made of chunks of bytes."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def read(self, size: int = -1) -> bytes:
        while len(self._rest) < size and (chunk := next(self._chunks, b"")):
            self._rest += chunk
        data, self._rest = self._rest[:size], self._rest[size:]
        return data


def _move_home(run_directory: str) -> None:
    folder = f"{CONTAINER_FILES}/{os.path.basename(PROJECT_IN_CONTAINER)}"
    source = os.path.join(run_directory, folder)
    if is_folder_below(source, OUTPUTS):
        remove_below(run_directory, OUTPUTS)
        rename_below(run_directory, f"{folder}/{OUTPUTS}", OUTPUTS)
    for path, _, _ in os.walk(source, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(path)  # only a folder without files that the script made is empty
    if is_folder_below(run_directory, folder):
        merge_below(run_directory, folder, WORKING_COPY)  # a script may have replaced a link by a folder
    remove_below(run_directory, CONTAINER_FILES)
