"""The files of the SDK, which are sent to other machines so that scripts can import `workbench`.

They are apart from `run_environment`, so that runs on this machine start without loading `tarfile`.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile

from tui_workbench.core.files import read_file
from tui_workbench.targets.values import SDK_FOLDER


def sdk_files() -> dict[str, bytes]:
    """Return the content of every file of the SDK by its relative path."""
    files = {}
    for folder, folders, names in os.walk(SDK_FOLDER):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            path = os.path.join(folder, name)
            files[os.path.relpath(path, SDK_FOLDER)] = read_file(path)
    return files


def sdk_version() -> str:
    """Return a digest of the SDK's content."""
    digest = hashlib.sha256()
    for name, content in sdk_files().items():
        digest.update(b"%s\0%d\0%s" % (name.encode(), len(content), content))
    return digest.hexdigest()[:12]


def sdk_archive() -> bytes:
    """Return the SDK as a tar archive."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:") as tar:
        for name, content in sdk_files().items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o644
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()
