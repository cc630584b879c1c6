"""A file system that does not distinguish upper and lower case, as those of most Macs."""

from __future__ import annotations

import contextlib
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.conftest import require, require_root

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def case_folding_disk(folder: Path) -> Iterator[Path]:
    """Mount NTFS, which lists all names in lower case, and yield a folder on it. Skip the test without FUSE."""
    require_root("to mount a file system")
    image, disk = folder / "disk.image", folder / "disk"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    disk.mkdir()
    subprocess.run([require("mkntfs"), "--force", "--fast", "--quiet", image], capture_output=True, check=True)
    mount = [require("lowntfs-3g"), "-o", "ignore_case,permissions", str(image), str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("cannot mount file systems of FUSE here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)
        image.unlink()
