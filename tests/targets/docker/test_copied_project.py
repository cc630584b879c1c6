"""The files of a project that was copied into a container, and out of it when the run has ended."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from tests.runs.support import write_files
from tui_workbench.targets.docker.placing import take_made
from tui_workbench.targets.values import PROJECT_IN_CONTAINER


def archive_of(folder: Path) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.add(folder, Path(PROJECT_IN_CONTAINER).name)
    return packed.getvalue()


def test_folder_replaces_a_link_to_data(tmp_path: Path) -> None:
    run, data, inside = tmp_path / "run", tmp_path / "data", tmp_path / "inside"
    write_files(data, {"set": "precious"})
    write_files(run, {"placed.json": "{}", "work/kept/old": "old"})
    (run / "work/data").symlink_to(data)
    write_files(inside, {"data/made": "made", "kept/new": "new", "outputs/model": "model"})
    (inside / "unchanged").mkdir()
    take_made(iter([archive_of(inside)]), str(run))
    found = {str(path.relative_to(run)): path.read_text() for path in run.rglob("*") if path.is_file()}
    assert found == {
        "placed.json": "{}", "outputs/model": "model", "work/data/made": "made", "work/kept/new": "new",
        "work/kept/old": "old",
    }  # fmt: skip
    assert not (run / "work/unchanged").exists()
    assert [path.name for path in data.iterdir()] == ["set"]
