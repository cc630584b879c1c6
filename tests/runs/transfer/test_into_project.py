"""Copying outputs into the project loses no file of the project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import write_project
from tests.faults.support import until
from tests.runs.sources import listing
from tests.runs.support import make_run, write_configuration, write_files
from tui_workbench.core.errors import UsageError
from tui_workbench.core.model import Run, RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.transfer.into_project import copy_artifacts, kept_outputs

PREPARE = """\
import os
os.makedirs("data/chars", exist_ok=True)
open("data/chars/train.bin", "w").write("tokens")
open("data/chars/meta.pkl", "w").write("meta")
open("outputs/report.txt", "w").write("done")
"""


@pytest.fixture
def tracked(tmp_path: Path) -> Project:
    root = write_project(tmp_path / "project")
    write_configuration(root, TrackedRun=True)
    write_files(root, {".gitignore": "*.bin\n*.pkl\n", "prepare.py": PREPARE})
    return Project.find(str(root))


def ended(project: Project, script: str, *keep: str) -> Run:
    runs = Runs(project)
    run_id = runs.submit(RunRequest("local", script, keep_outputs=keep)).run_id
    until(lambda: not runs.get(run_id).is_active, "the end of the run")
    return runs.get(run_id)


def made_by_hand(project: Project, files: dict[str, str | bytes]) -> str:
    run = make_run(project, "project_1700000000001", state="completed", exit_code=0)
    write_files(Path(run.path), files)
    return run.path


@pytest.mark.slow
def test_kept_outputs_are_available_to_the_next_run(tracked: Project) -> None:
    run = ended(tracked, "prepare.py", "data/**/*.bin")
    assert run.state == "completed"
    root = Path(tracked.root)
    assert (root / "data/chars/train.bin").read_text() == "tokens"
    assert not (root / "data/chars/meta.pkl").exists()
    assert not (root / "outputs").exists()
    write_files(root, {"use.py": 'print(open("data/chars/train.bin").read())'})
    assert Path(ended(tracked, "use.py").log_path).read_text() == "tokens\n"
    (event,) = [event for event in Runs(tracked).directory(run.run_id).events() if event.get("step") == "keep"]
    assert event["text"] == "copied 1 file into the project"


def test_failed_run_copies_nothing(tracked: Project) -> None:
    write_files(Path(tracked.root), {"prepare.py": f"{PREPARE}raise SystemExit(1)"})
    assert ended(tracked, "prepare.py", "*").state == "failed"
    assert not (Path(tracked.root) / "data").exists()


def test_replaced_file_is_saved(tracked: Project) -> None:
    root = Path(tracked.root)
    write_files(root, {"data/chars/train.bin": "mine", "data/chars/meta.pkl": "meta"})
    run = ended(tracked, "prepare.py", "data/")
    assert (root / "data/chars/train.bin").read_text() == "tokens"
    saved = root / ".workbench" / "replaced" / run.run_id
    assert listing(saved) == {"data": "/", "data/chars": "/", "data/chars/train.bin": b"mine"}


def test_nothing_is_written_through_a_link(tracked: Project, tmp_path: Path) -> None:
    root, elsewhere = Path(tracked.root), tmp_path / "elsewhere"
    write_files(elsewhere, {"file": "precious"})
    (root / "folder").symlink_to(elsewhere)
    (root / "link").symlink_to(elsewhere / "file")
    directory = made_by_hand(
        tracked, {"work/folder/file": "1", "work/link": "2", "work/.git/config": "3", "work/a": "4"}
    )
    brought = kept_outputs(directory, tracked.root, tracked.state_directory, ("*",))
    assert brought.copied == ("a",)
    assert {path for path, _ in brought.refused} == {"folder/file", "link", ".git/config"}
    assert listing(elsewhere) == {"file": b"precious"}
    assert (root / "link").is_symlink()
    assert not (root / ".git").exists()


def test_link_of_a_run_is_not_followed(tracked: Project, tmp_path: Path) -> None:
    write_files(tmp_path, {"secret": "of the user"})
    directory = made_by_hand(tracked, {"work/a": "1"})
    os.symlink(tmp_path / "secret", f"{directory}/work/b")
    assert kept_outputs(directory, tracked.root, tracked.state_directory, ("*",)).copied == ("a",)


def test_download_into_the_project_does_not_overwrite(tracked: Project) -> None:
    root = Path(tracked.root)
    directory = made_by_hand(tracked, {"work/a.bin": "1", "work/deep/b.sh": "2", "outputs/c": "3"})
    os.chmod(f"{directory}/work/deep/b.sh", 0o755)
    write_files(root, {"a.bin": "mine"})
    with pytest.raises(UsageError, match=r"a\.bin already exists in the project") as caught:
        copy_artifacts(directory, tracked.root, tracked.state_directory, [])
    assert "--overwrite" in caught.value.remedy
    assert not (root / "deep").exists()
    assert copy_artifacts(directory, tracked.root, tracked.state_directory, ["work/deep"]).copied == ("deep/b.sh",)
    assert os.access(root / "deep/b.sh", os.X_OK)
    brought = copy_artifacts(directory, tracked.root, tracked.state_directory, [], overwrite=True)
    assert (brought.copied, brought.same) == (("a.bin",), ("deep/b.sh",))
    assert (Path(brought.saved) / "a.bin").read_text() == "mine"
    assert not (root / "outputs").exists()
    assert copy_artifacts(directory, tracked.root, tracked.state_directory, ["outputs/c"]).copied == ("outputs/c",)


@pytest.mark.parametrize("name", ["run.json", "pid", "work/nothing", "../x", "outputs/../run.json"])
def test_path_outside_the_project_is_refused(tracked: Project, name: str) -> None:
    directory = made_by_hand(tracked, {"work/a.bin": "1"})
    with pytest.raises(UsageError):
        copy_artifacts(directory, tracked.root, tracked.state_directory, ["work/a.bin", name])
    assert not (Path(tracked.root) / "a.bin").exists()


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [("a.pt", ["a.pt", "x/a.pt"]), ("/a.pt", ["a.pt"]), ("x/", ["x/a.pt"]), ("x/*.pt", ["x/a.pt"]),
     ("outputs/", ["outputs/o"]), ("*", ["a.pt", "outputs/o", "x/a.pt"]), ("nothing", [])],
)  # fmt: skip
def test_patterns_work_as_in_ignore_files(tracked: Project, pattern: str, matches: list[str]) -> None:
    directory = made_by_hand(tracked, {"work/a.pt": "1", "work/x/a.pt": "2", "outputs/o": "3"})
    assert sorted(kept_outputs(directory, tracked.root, tracked.state_directory, (pattern,)).copied) == matches
