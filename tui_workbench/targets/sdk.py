"""The folder that is first on every run's Python path, as it is sent to other machines.

Once a version: it lies there in a folder that is named by its content.
"""

from __future__ import annotations

import os

from tui_workbench.targets.local import SDK_FOLDER

SEND = """\
umask 022
if [ ! -e "$1" ]; then
    mkdir -p -- "$1.$$" && tar -xf - -C "$1.$$" || exit
    [ -e "$1" ] || mv -- "$1.$$" "$1"
fi
cat >/dev/null
"""
"""$1 the folder for this version; the archive comes as input."""


def files() -> dict[str, bytes]:
    """Every file of it by its relative path."""
    found = {}
    for folder, folders, names in os.walk(SDK_FOLDER):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, SDK_FOLDER)] = file.read()
    return found


def version() -> str:
    """What tells its content from any other."""
    import hashlib

    digest = hashlib.sha256()
    for name, content in files().items():
        digest.update(b"%s\0%d\0%s" % (name.encode(), len(content), content))
    return digest.hexdigest()[:12]


def archive() -> bytes:
    """It as a tar archive."""
    import io
    import tarfile

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:") as tar:
        for name, content in files().items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o644
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()
