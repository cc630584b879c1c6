"""The files that a run gets are counted, reported in the plan and limited before they are copied."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import require, require_root, write_project
from tests.faults.support import until
from tests.runs.sources import Source, listing
from tests.runs.support import write_configuration, write_files
from tui_workbench.core.errors import ConfigurationError, LargeFiles
from tui_workbench.core.model import Run, RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.snapshots import contents
from tui_workbench.runs.snapshots.contents import contents_of, describe, notes_on, refuse_large
from tui_workbench.runs.snapshots.file_copy import can_clone
from tui_workbench.runs.snapshots.working_copy import files_of_run
from tui_workbench.runs.submission.launch import create_run
from tui_workbench.targets.hosts.host import Entry
from tui_workbench.targets.hosts.manifest import identity_of

REQUEST = RunRequest("local", "hello.py")


@pytest.fixture
def tracked(tmp_path: Path) -> Project:
    root = write_project(tmp_path / "project")
    write_configuration(root, TrackedRun=True)
    return Project.find(str(root))


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "COPY_BYTES", 1_000_000)
    # As on a file system that cannot share blocks.
    monkeypatch.setattr(contents, "can_clone", lambda *_: False)


def holes(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)


def ended(project: Project, request: RunRequest) -> Run:
    runs = Runs(project)
    run_id = runs.submit(request).run_id
    until(lambda: not runs.get(run_id).is_active, "the end of the run")
    return runs.get(run_id)


def plan(project: Project) -> dict[str, str]:
    return {step.name: step.title for step in Runs(project).plan_details(REQUEST)[0].steps}


@pytest.mark.usefixtures("small_limit")
def test_large_ignored_data_is_refused_before_copying(tracked: Project) -> None:
    root = Path(tracked.root)
    write_files(root, {".gitignore": "data/\n*.pt\n", "data/train.bin": bytes(2_000_000), "out/ckpt.pt": bytes(1000)})
    before = listing(root)
    with pytest.raises(LargeFiles) as caught:
        Runs(tracked).submit(REQUEST)
    assert listing(root) == before
    error = caught.value
    assert [path for path, _ in error.paths] == ["data"]
    assert "data (2.0 MB)" in error.message
    assert 'DataReferences: ["data"]' in error.remedy
    assert error.configuration.endswith("local.runconfig")
    assert error.configuration in error.remedy
    assert "`/data` to .amlignore" in error.remedy
    assert "the run would not start" in plan(tracked)["files"]


@pytest.mark.slow
@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize("way", ["declared", "left out"])
def test_either_remedy_lets_the_run_start(tracked: Project, way: str) -> None:
    root = Path(tracked.root)
    write_files(root, {".gitignore": "data/\n", "data/train.bin": bytes(2_000_000)})
    if way == "declared":
        write_configuration(root, TrackedRun=True, DataReferences=["data"])
    else:
        write_files(root, {".amlignore": "/data\n"})
    copy = plan(tracked)["copy"]
    assert ("data linked: data" if way == "declared" else "left out: data") in copy
    assert ended(tracked, REQUEST).state == "completed"


@pytest.mark.usefixtures("small_limit")
def test_many_large_files_are_reported_by_folder(tracked: Project) -> None:
    root = Path(tracked.root)
    write_files(root, {".gitignore": "*.bin\n", "data/prepare.py": ""})
    write_files(root, {f"data/part{number}.bin": bytes(500_000) for number in range(12)})
    with pytest.raises(LargeFiles) as caught:
        Runs(tracked).submit(REQUEST)
    assert [path for path, _ in caught.value.paths] == ["data"]


def test_holes_of_ignored_files_do_not_count(tracked: Project) -> None:
    root = Path(tracked.root)
    write_files(root, {".gitignore": "*.bin\n"})
    holes(root / "sparse.bin", 50 << 30)
    assert ended(tracked, REQUEST).state == "completed"


def test_huge_file_is_refused_before_git_reads_it(tracked: Project) -> None:
    holes(Path(tracked.root) / "dump.raw", 50 << 30)
    with pytest.raises(LargeFiles, match=r"dump\.raw \(53\.7 GB\)"):
        Runs(tracked).submit(REQUEST)
    assert not Path(tracked.runs_directory).exists()


def test_too_many_ignored_files_are_refused(tracked: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "COPY_FILES", 10)
    root = Path(tracked.root)
    write_files(root, {".gitignore": "images/\n", **{f"images/{number}.png": "" for number in range(11)}})
    with pytest.raises(LargeFiles, match="11 ignored files"):
        Runs(tracked).submit(REQUEST)


def test_large_snapshot_causes_a_note(tracked: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "MANY_FILES", 10)
    root = Path(tracked.root)
    write_files(root, {f"images/{number}.png": "" for number in range(11)})
    assert plan(tracked)["files"].startswith("note: the snapshot has ")
    run = Runs(tracked).submit(REQUEST)
    (note,) = Runs(tracked).directory(run.run_id).notes()
    assert "images (11 files, 0 B)" in note
    assert "`/images` to .amlignore" in note
    assert "DataReferences: [images]" in note


def test_note_names_the_folder_with_nearly_all_files(tracked: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "MANY_FILES", 100)
    folder = "src/images [raw]"
    files = {f"{folder}/{number % 3}/{number}.png": "" for number in range(200)}
    write_files(Path(tracked.root), {"src/code.py": "", **files})
    line = plan(tracked)["files"].split("`")[1]
    write_files(Path(tracked.root), {".amlignore": f"{line}\n"})
    assert "files" not in plan(tracked)
    found = contents_of(tracked.root, tracked.state_directory)
    assert "src/code.py" in found.files
    assert found.left_out == (folder,)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "type: remote\naddress: a\npassword: hunter2\n",
        'type: remote\n"password" : "hunter2"\n',
        "{type: remote, privateKeyPassphrase: hunter2}",
        "type: [remote\npassword: hunter2\n",
        "password:hunter2\n",
        "password:\n- hunter2\n",
        "password: |\n  hunter2\naddress: a\n",
    ],
)
def test_file_with_a_password_is_not_in_the_snapshot(tracked: Project, text: str) -> None:
    write_files(Path(tracked.root), {"aml_config/other.compute": text})
    write_files(Path(tracked.root), {"show.py": "import os; print(os.listdir('aml_config'))"})
    run = ended(tracked, RunRequest("local", "show.py"))
    assert "other.compute" not in Path(run.log_path).read_text()
    (note,) = Runs(tracked).directory(run.run_id).notes()
    assert "aml_config/other.compute contains a password" in note
    repository = os.path.join(tracked.state_directory, "snapshots.git")
    found = subprocess.run(
        ["git", "--git-dir", repository, "cat-file", "--batch-all-objects", "--batch"], capture_output=True, check=True
    )
    assert b"hunter2" not in found.stdout


@pytest.mark.parametrize(
    "text",
    [
        "password: AzureMlSecret=a#b#c\n",
        "password:\n",
        "password:\nusername: me\n",
        "password:\n# none\nusername:",
        "password: null\n",
        "# password: hunter2 is no more\n",
    ],
)
def test_keyring_reference_is_not_a_password(tracked: Project, text: str) -> None:
    write_files(Path(tracked.root), {"aml_config/other.compute": f"type: remote\n{text}"})
    found = contents_of(tracked.root, tracked.state_directory)
    assert (found.secret != ()) is text.startswith("#")


@pytest.mark.parametrize(
    ("reference", "message"),
    [("../../data", "is outside the project"), (".", "the project folder"), ("nowhere", "does not exist"),
     ("outputs/x", "reserved folder outputs/"), ("aml_config", "reserved folder aml_config/")],
)  # fmt: skip
def test_invalid_data_reference_is_refused(tracked: Project, reference: str, message: str) -> None:
    write_configuration(Path(tracked.root), TrackedRun=True, DataReferences=[reference])
    with pytest.raises(ConfigurationError, match=message) as caught:
        Runs(tracked).submit(REQUEST)
    assert caught.value.line == 4
    assert not Path(tracked.runs_directory).exists()


def test_data_behind_a_link_is_refused(tracked: Project, tmp_path: Path) -> None:
    (Path(tracked.root) / "inputs").symlink_to(tmp_path)
    write_configuration(Path(tracked.root), TrackedRun=True, DataReferences={"inputs/train": str(tmp_path)})
    with pytest.raises(ConfigurationError, match="a parent of this path is a link or a file") as caught:
        Runs(tracked).submit(REQUEST)
    assert caught.value.line == 4


@pytest.mark.parametrize("path", ["conf/f", "conf"])
def test_data_replaces_files_of_an_earlier_snapshot(tracked: Project, tmp_path: Path, path: str) -> None:
    write_files(Path(tracked.root), {path: "in the snapshot"})
    first, lock, _ = create_run(tracked, REQUEST)
    lock.release()
    write_configuration(Path(tracked.root), TrackedRun=True, DataReferences={"conf": str(tmp_path)})
    again, lock, record = create_run(tracked, RunRequest("local", origin=first.run_id))
    lock.release()
    assert os.readlink(again.file("work/conf")) == str(tmp_path)
    sent = {path: identity for path, identity in files_of_run(record).identities.items() if path.startswith("conf")}
    assert sent == {"conf": identity_of(Entry("conf", "", link=str(tmp_path)))}


def test_link_in_an_earlier_snapshot_cannot_lead_to_data(tracked: Project, tmp_path: Path) -> None:
    (Path(tracked.root) / "inputs").symlink_to(tmp_path)
    first, lock, _ = create_run(tracked, REQUEST)
    lock.release()
    (Path(tracked.root) / "inputs").unlink()
    write_configuration(Path(tracked.root), TrackedRun=True, DataReferences={"inputs/train": str(tmp_path)})
    with pytest.raises(ConfigurationError, match="is a link or a file in the snapshot"):
        create_run(tracked, RunRequest("local", origin=first.run_id))


def test_plan_lists_the_files_of_a_run(tracked: Project) -> None:
    root = Path(tracked.root)
    write_files(root, {".gitignore": "*.pt\n", "out/a.pt": bytes(5000), "venv/pyvenv.cfg": ""})
    found = contents_of(tracked.root, tracked.state_directory)
    refuse_large(found)
    assert "ignored files copied: out/a.pt (5.0 kB); left out: venv" in describe(found).replace("8.2 kB", "5.0 kB")
    assert notes_on(found) == []
    assert "ignored files copied: out/a.pt" in plan(tracked)["copy"]


@pytest.fixture
def cloning(tmp_path: Path) -> Iterator[Path]:
    """Return a folder on a file system that shares blocks between copies."""
    require_root("to mount a file system")
    mkfs = require("mkfs.btrfs")
    image, folder = tmp_path / "image", tmp_path / "mounted"
    holes(image, 256 << 20)
    folder.mkdir()
    subprocess.run([mkfs, "--quiet", "--mixed", image], check=True)
    if subprocess.run(["mount", "-o", "loop", image, folder], capture_output=True, check=False).returncode != 0:
        pytest.skip("cannot mount here")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.system
@pytest.mark.linux("mounts a file system")
def test_copies_share_blocks(cloning: Path) -> None:
    source = Source(cloning)
    content = os.urandom(30 << 20)
    write_files(source.root, {".gitignore": "*.pt\n", "ckpt.pt": content, "code.bin": content, "run.sh": "#!/bin/sh"})
    (source.root / "run.sh").chmod(0o755)
    assert can_clone(str(source.root / "ckpt.pt"), str(source.state))
    source.take()
    os.sync()
    used = shutil.disk_usage(cloning).used
    copies = [source.take() for _ in range(4)]
    os.sync()
    assert shutil.disk_usage(cloning).used - used < 20 << 20
    for copy in copies:
        assert (copy / "ckpt.pt").read_bytes() == (copy / "code.bin").read_bytes() == content
        assert os.access(copy / "run.sh", os.X_OK)
        assert not os.access(copy / "code.bin", os.X_OK)
    (copies[0] / "code.bin").write_text("changed")
    assert (source.root / "code.bin").read_bytes() == (copies[1] / "code.bin").read_bytes() == content


@pytest.mark.system
@pytest.mark.linux("mounts a file system")
def test_file_changed_during_the_snapshot_equals_the_snapshot(cloning: Path) -> None:
    source = Source(cloning)
    write_files(source.root, {f"file{number}": "old" for number in range(20)})
    for number in range(20):
        write_files(source.root, {f"file{number}": f"new {number}"})
        copy = source.take()
        assert (copy / f"file{number}").read_text() == f"new {number}"
