"""Where the parts of a run lie on a host and as whom it runs: asked of the host, or, for a plan, named by words."""

from __future__ import annotations

import os
import tarfile
import tempfile

from tui_workbench.records import TYPE_CHECKING
from tui_workbench.targets import container as containers
from tui_workbench.targets.container import ENGINE_MODE, FILE_MODE, Placement
from tui_workbench.targets.hostrun import HostRun
from tui_workbench.targets.local import DEFAULT_SHARE

if TYPE_CHECKING:
    from typing import IO

    from tui_workbench.model import ComputeTarget, RunSpec
    from tui_workbench.targets.engine import Engine, Image
    from tui_workbench.targets.host import Host
    from tui_workbench.targets.probe import ImageFacts

_ROOT = "0:0"


def is_copied(target: ComputeTarget) -> bool:
    """True when the project is copied into the container instead of mounted (`sharedVolumes: false`)."""
    return target.shared_volumes is False


def placement(host: Host, engine: Engine, spec: RunSpec, image: Image, facts: ImageFacts) -> Placement:
    """Where the run's parts lie on the host. `facts` is what the image holds."""
    user, group = host.user_ids()
    # In a rootless engine the container's root is the user who runs it, and no other user could write his files.
    user_spec = _ROOT if user and engine.facts().rootless else f"{user}:{group}"
    run = HostRun(host, spec)
    in_place = host.is_local and not spec.tracked
    return Placement(
        run_directory=run.directory,
        share=containers.share_of(spec, spec.target.native_shared_directory or DEFAULT_SHARE, home_of(host)),
        user=user_spec,
        project_root=spec.project_root if in_place and not is_copied(spec.target) else "",
        linked=spec.project_root if host.is_local and spec.tracked and _links_to(spec) else "",
        copied=is_copied(spec.target),
        image=image.id,
        python=facts.python,
        mode=FILE_MODE if facts.shell else ENGINE_MODE,
        sdk=run.sdk_folder,
        python_path=next((text[11:] for text in image.environment if text.startswith("PYTHONPATH=")), ""),
    )


def symbolic_placement(host: Host, spec: RunSpec) -> Placement:
    """The same for a plan: what only the host knows is named as its shell would name it."""
    base = spec.target.native_shared_directory or DEFAULT_SHARE
    in_place = host.is_local and not spec.tracked
    if host.is_local:
        directory, user, home = spec.run_directory, f"{os.getuid()}:{os.getgid()}", os.path.expanduser("~")
    else:
        directory, user, home = f"~/.workbench-tui/runs/{spec.run_id}", "$(id -u):$(id -g)", "~"
    return Placement(
        run_directory=directory,
        share=containers.share_of(spec, base, home),
        user=user,
        project_root=spec.project_root if in_place and not is_copied(spec.target) else "",
        copied=is_copied(spec.target),
        image=spec.target.base_docker_image,
        sdk=HostRun(host, spec).sdk_folder if host.is_local else "~/.workbench-tui/sdk",
    )


def home_of(host: Host) -> str:
    """The home directory of the user on the host, for `~` in configuration files."""
    if host.is_local:
        return os.path.expanduser("~")
    return host.check(["sh", "-c", "cd && pwd"]).text


def _links_to(spec: RunSpec) -> bool:
    """True when the run's copy holds a link into the project: excluded paths (data sets) are linked, not copied."""
    pending = [spec.working_directory]
    while pending:
        try:
            entries = list(os.scandir(pending.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.is_symlink():
                if os.readlink(entry.path).startswith(spec.project_root):
                    return True
            elif entry.is_dir(follow_symlinks=False):
                pending.append(entry.path)
    return False


def archive_of(folder: str, inside: str, user: str) -> IO[bytes]:
    """The folder as a tar archive that unpacks to the absolute path `inside` and belongs to `user` (uid:gid).

    Links that lead out of the folder by an absolute path stay links.
    """
    uid, _, gid = user.partition(":")

    def owned(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid, info.gid, info.uname, info.gname = int(uid), int(gid or uid), "", ""
        return info

    archive = tempfile.TemporaryFile()  # noqa: SIM115  (the caller closes it)
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(folder, inside.lstrip("/"), filter=owned)
    archive.seek(0)
    return archive
