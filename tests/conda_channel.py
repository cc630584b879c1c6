"""A local conda channel with real packages, for the real solver and installer."""

from __future__ import annotations

import bz2
import hashlib
import io
import json
import sys
import tarfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


class CondaChannel:
    """A channel in `folder` with the address `url`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"file://{folder}"
        for subdir in ("linux-64", "noarch"):
            (folder / subdir).mkdir(parents=True)
            self._write_index(subdir, {})

    def add(
        self, name: str, version: str, files: Mapping[str, str], *, depends: Sequence[str] = (), subdir: str = "noarch"
    ) -> None:
        """Add a package of these files; a text that begins with `->` becomes a symbolic link."""
        build = "0"
        record = {
            "name": name, "version": version, "build": build, "build_number": 0, "depends": list(depends),
            "subdir": subdir, "timestamp": 1_700_000_000_000,
            **({"noarch": "generic"} if subdir == "noarch" else {}),
        }  # fmt: skip
        data = _archive(record, files)
        file_name = f"{name}-{version}-{build}.tar.bz2"
        (self.folder / subdir / file_name).write_bytes(data)
        digests = {
            "md5": hashlib.md5(data, usedforsecurity=False).hexdigest(),
            "sha256": hashlib.sha256(data).hexdigest(),
        }
        known = json.loads((self.folder / subdir / "repodata.json").read_text())["packages"]
        self._write_index(subdir, {**known, file_name: {**record, **digests, "size": len(data)}})

    def add_python(self, version: str) -> None:
        """Add a Python: a link to this interpreter that runs in the environment."""
        home = f"{sys.base_prefix}/bin"
        settings = f"home = {home}\ninclude-system-site-packages = false\nversion = {version}\n"
        self.add("python", version, {"bin/python": f"->{home}/python3", "pyvenv.cfg": settings}, subdir="linux-64")

    def _write_index(self, subdir: str, packages: Mapping[str, object]) -> None:
        index = {"info": {"subdir": subdir}, "packages": packages, "packages.conda": {}, "repodata_version": 1}
        (self.folder / subdir / "repodata.json").write_text(json.dumps(index))


def _archive(record: Mapping[str, object], files: Mapping[str, str]) -> bytes:
    paths: list[dict[str, str | int]] = []
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, text in files.items():
            if text.startswith("->"):
                link = tarfile.TarInfo(name)
                link.type, link.linkname = tarfile.SYMTYPE, text[2:]
                archive.addfile(link)
                paths.append({"_path": name, "path_type": "softlink"})
            else:
                _add(archive, name, text)
                digest = hashlib.sha256(text.encode()).hexdigest()
                paths.append(
                    {"_path": name, "path_type": "hardlink", "sha256": digest, "size_in_bytes": len(text.encode())}
                )
        _add(archive, "info/index.json", json.dumps(record))
        _add(archive, "info/paths.json", json.dumps({"paths": paths, "paths_version": 1}))
    return bz2.compress(buffer.getvalue())


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(text.encode())
    archive.addfile(info, io.BytesIO(text.encode()))
