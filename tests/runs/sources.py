"""Projects to take snapshots of."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tui_workbench.runs.snapshots.snapshot import Snapshot, SnapshotStore

GIT = shutil.which("git") or "git"


class Source:
    """A project folder and its snapshots."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / 'a project\'s "folder"'
        self.root.mkdir()
        self.state = self.root / ".workbench"
        self.state.mkdir()
        self.taken = 0

    def take(self, data: tuple[str, ...] = ()) -> Path:
        """Create a working copy of the current project."""
        self.taken += 1
        self.snapshot, copy = self.take_to(f"project_{self.taken}", data)
        return copy

    def take_to(self, run_id: str, data: tuple[str, ...] = ()) -> tuple[Snapshot, Path]:
        copy = self.state / "runs" / run_id / "work"
        return SnapshotStore(str(self.root), str(self.state), {each: str(self.root / each) for each in data}).take(
            run_id, str(copy)
        ), copy

    def git(self, *arguments: str) -> str:
        """Return the output of a git command on the hidden repository."""
        command = [GIT, "--git-dir", str(self.state / "snapshots.git"), *arguments]
        return subprocess.run(command, capture_output=True, check=True).stdout.decode("utf-8", "surrogateescape")

    def committed(self) -> list[str]:
        """Return the paths in the last snapshot."""
        return sorted(self.git("ls-tree", "-r", "-z", "--name-only", self.snapshot.commit_id).split("\0")[:-1])


def git(folder: Path, *arguments: str) -> str:
    """Return the output of a user's git command in a folder."""
    command = [GIT, "-c", "user.name=user", "-c", "user.email=user@example.org", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, check=True).stdout.decode()


def listing(folder: Path) -> dict[str, str | bytes]:
    """Every path below: content of a file, destination of a link, `/` for a folder."""
    found: dict[str, str | bytes] = {}
    for parent, folders, files in os.walk(folder):
        for name in folders + files:
            path = Path(parent, name)
            relative = str(path.relative_to(folder))
            if path.is_symlink():
                found[relative] = f"-> {os.readlink(path)}"
            else:
                found[relative] = "/" if path.is_dir() else path.read_bytes()
    return found
