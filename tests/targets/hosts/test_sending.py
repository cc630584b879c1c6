"""Sending a folder to a host with as little data as possible."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tui_workbench.core.errors import StorageError
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.targets.hosts import sending
from tui_workbench.targets.hosts.host import ConnectionLost, Entry, Host, HostProcess, LocalHost
from tui_workbench.targets.hosts.manifest import FileList, digest_of
from tui_workbench.targets.hosts.sending import SyncReport, sync

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.machines import Machine


IS_SENT = shell_script("targets/hosts/scripts/is_sent.sh")


class Folder:
    """A folder on a host, and its path on this machine."""

    def __init__(self, host: Host, path: str, here: Path) -> None:
        self.host, self.path, self.here = host, path, here

    def content(self) -> dict[str, tuple[str, bool] | str]:
        """Return the content and executable bit of every file, and the destination of every link."""
        found: dict[str, tuple[str, bool] | str] = {}
        for parent, folders, files in os.walk(os.fsencode(self.here)):
            for name in files + folders:
                path = os.path.join(parent, name)
                key = os.fsdecode(os.path.relpath(path, os.fsencode(self.here)))
                if os.path.islink(path):
                    found[key] = "-> " + os.fsdecode(os.readlink(path))
                elif os.path.isfile(path):
                    with open(path, "rb") as file:
                        found[key] = (file.read().decode("latin-1"), bool(os.stat(path).st_mode & 0o100))
                elif not os.listdir(path):
                    found[key] = "an empty folder"
        return found


@pytest.fixture(params=["local", pytest.param("ssh", marks=pytest.mark.ssh)])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    """Return a folder that does not exist yet."""
    if request.param == "local":
        return Folder(LocalHost(), str(tmp_path / "there" / "tree"), tmp_path / "there" / "tree")
    host: Host = request.getfixturevalue("host")
    gpubox: Machine = request.getfixturevalue("gpubox")
    name = f"sync-{tmp_path.name}"
    return Folder(host, f"/home/research/{name}/tree", gpubox.home() / name / "tree")


def listing(source: Path) -> list[Entry]:
    """Return an entry for every file and link below the folder."""
    found = []
    for path in sorted(source.rglob("*")):
        name = str(path.relative_to(source))
        if path.is_symlink():
            found.append(Entry(name, "", link=os.readlink(path)))
        elif path.is_file():
            data = path.read_bytes()
            executable = bool(path.stat().st_mode & 0o100)
            found.append(Entry(name, hashlib.sha1(data).hexdigest(), len(data), executable))
    return found


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a small project."""
    root = tmp_path / "source"
    (root / "package" / "deep").mkdir(parents=True)
    (root / "train.py").write_text("print(1)\n")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "package" / "deep" / "empty").touch()
    (root / "package" / "data").write_bytes(bytes(range(256)) * 5000)
    (root / "link").symlink_to("package/data")
    (root / "dangling").symlink_to("nowhere at all")
    return root


def send(folder: Folder, source: Path, *, packed: bool | None = None) -> SyncReport:
    """Sync, and check that both folders are equal."""
    entries = listing(source)
    report = sync(folder.host, FileList.of(entries), str(source), folder.path, packed=packed)
    assert folder.content() == Folder(folder.host, "", source).content()
    return report


@pytest.mark.parametrize("packed", [True, False, None])
def test_sync_sends_files_and_links(folder: Folder, source: Path, packed: bool | None) -> None:
    report = send(folder, source, packed=packed)
    assert (report.changed, report.deleted) == (6, 0)
    assert report.size == sum(entry.size for entry in listing(source))


def test_unchanged_tree_sends_nothing(folder: Folder, source: Path) -> None:
    send(folder, source)
    (source / "train.py").touch()  # a new time and the same content
    assert send(folder, source) == SyncReport()


def test_unchanged_tree_takes_one_round_trip(folder: Folder, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    send(folder, source)
    asked = []
    inputs: set[int] = set()
    start, write = type(folder.host).open, os.write

    def watched(host: Host, argv: Sequence[str], **options: Any) -> HostProcess:
        asked.append(process := start(host, argv, **options))
        inputs.add(process.stdin)
        return process

    def refused(descriptor: int, data: bytes) -> int:
        # The trace of calls is written meanwhile.
        assert descriptor not in inputs, "it is written to"
        return write(descriptor, data)

    monkeypatch.setattr(type(folder.host), "open", watched)
    monkeypatch.setattr(os, "write", refused)
    assert sync(folder.host, FileList.of(listing(source)), str(source), folder.path) == SyncReport()
    assert len(asked) == 1


def test_only_changed_files_are_sent(folder: Folder, source: Path) -> None:
    send(folder, source)
    (source / "train.py").write_text("print(2)\n")
    (source / "new").write_text("new")
    report = send(folder, source)
    assert (report.changed, report.size) == (2, 12)


def test_file_folder_and_link_replace_each_other(folder: Folder, source: Path) -> None:
    send(folder, source)
    (source / "run.sh").chmod(0o644)
    (source / "train.py").chmod(0o755)
    (source / "link").unlink()
    (source / "link").mkdir()
    (source / "link" / "file").write_text("in a folder that was a link")
    (source / "package" / "deep" / "empty").unlink()
    (source / "package" / "deep").rmdir()
    (source / "package" / "deep").write_text("a file that was a folder")
    (source / "dangling").unlink()
    (source / "dangling").symlink_to("elsewhere")
    (source / "package" / "data").unlink()
    (source / "package" / "data").symlink_to("../train.py")
    send(folder, source)


def test_removed_files_are_removed_on_the_host(folder: Folder, source: Path) -> None:
    send(folder, source)
    (source / "package" / "deep" / "empty").unlink()
    (source / "package" / "deep").rmdir()
    (source / "link").unlink()
    report = send(folder, source)
    assert (report.changed, report.deleted) == (0, 2)


def test_files_are_sent_again_after_the_tree_was_empty(folder: Folder, source: Path, tmp_path: Path) -> None:
    send(folder, source)
    (tmp_path / "nothing").mkdir()
    send(folder, tmp_path / "nothing")
    assert send(folder, source).changed == 6


def test_unusual_names_are_preserved(folder: Folder, source: Path) -> None:
    names = [
        " ",
        "a b",
        "'",
        '"',
        "$(touch x)",
        "a\nb",
        "\n",
        "-rf",
        "--",
        "*",
        "\\",
        "ä€",
        "x" * 255,
        "a;b",
        ".hidden",
    ]
    for name in [os.fsencode(name) for name in names] + [b"\xff\xfe", b"\x01\x7f"]:
        for parent in (b"", b"in " + name[:200]):
            folder_path = os.path.join(os.fsencode(source), parent)
            os.makedirs(folder_path, exist_ok=True)
            with open(os.path.join(folder_path, name), "wb") as file:
                file.write(name)
    os.symlink(b"to \xff\n'", os.path.join(os.fsencode(source), b"link \xff\n"))
    send(folder, source)
    assert send(folder, source) == SyncReport()
    for path in list(source.iterdir()):
        if path.name not in ("train.py", "package"):
            subprocess.run(["rm", "-rf", "--", path], check=True)
    send(folder, source)


def test_changes_on_the_host_are_corrected(folder: Folder, source: Path) -> None:
    send(folder, source)
    before = (folder.here / "train.py").stat()
    (folder.here / "train.py").write_text("print(9)\n")  # the length is the same
    os.utime(folder.here / "train.py", ns=(before.st_atime_ns, before.st_mtime_ns))
    (folder.here / "run.sh").unlink()
    (folder.here / "stranger").write_text("not ours")
    (folder.here / "strange folder").mkdir()
    report = send(folder, source)
    assert (report.changed, report.deleted) == (2, 2)


def test_folder_is_known_again_after_a_change_without_effect(folder: Folder, source: Path) -> None:
    """A file that was created and removed on the host changes only its folder, so that nothing is sent."""
    send(folder, source)
    stranger = folder.here / "package" / "stranger"
    stranger.touch()
    stranger.unlink()
    assert send(folder, source).changed == 0
    digest = digest_of(FileList.of(listing(source)).manifest)
    assert folder.host.run(["sh", "-c", IS_SENT, "sh", folder.path, digest]).code == 0


def test_removed_folder_is_sent_again(folder: Folder, source: Path) -> None:
    send(folder, source)
    subprocess.run(["rm", "-rf", "--", folder.here], check=True)
    assert send(folder, source).changed == 6


def test_removed_manifest_is_written_again(folder: Folder, source: Path) -> None:
    send(folder, source)
    for name in ("tree.manifest", "tree.found"):
        (folder.here.parent / name).unlink()
    send(folder, source)


def change_project(source: Path) -> None:
    """Change, add and remove files, folders and links, some with unusual names."""
    (source / "train.py").write_text("print(3)\n")
    (source / "run.sh").chmod(0o644)
    (source / "link").unlink()
    (source / "link").symlink_to("package/100% \n")
    shutil.rmtree(source / "package" / "deep")
    (source / "added \n").mkdir()
    (source / "added \n" / "f x").write_text("new")


@pytest.mark.processes
@pytest.mark.parametrize(
    ("copy", "batch_seconds"), [("kept", 20.0), ("removed", 20.0), ("changed", 20.0), ("kept", 0.0)]
)
def test_changed_manifest_equals_a_new_one(
    folder: Folder, source: Path, tmp_path: Path, copy: str, batch_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "BATCH_SECONDS", batch_seconds)
    manifest_copy = tmp_path / "manifest"
    for number in range(10):
        (source / f"file {number}").write_text("unchanged")
    sync(folder.host, FileList.of(listing(source)), str(source), folder.path, manifest_copy=str(manifest_copy))
    if copy == "removed":
        manifest_copy.unlink()
    elif copy == "changed":
        manifest_copy.write_bytes(manifest_copy.read_bytes().replace(b"train.py", b"other.py"))
    change_project(source)
    report = sync(folder.host, FileList.of(listing(source)), str(source), folder.path, manifest_copy=str(manifest_copy))
    assert (report.changed, report.deleted) == (4, 1)
    assert folder.content() == Folder(folder.host, "", source).content()
    manifest = (folder.here.parent / "tree.manifest").read_bytes()
    assert manifest == manifest_copy.read_bytes()
    assert send(folder, source) == SyncReport()
    assert sorted(os.listdir(folder.here.parent)) == ["tree", "tree.found", "tree.manifest"]


@pytest.mark.processes
def test_unchanged_part_of_the_manifest_is_not_sent(folder: Folder, source: Path, tmp_path: Path) -> None:
    copy = str(tmp_path / "manifest")
    for number in range(500):
        (source / f"a file with a rather long name {number}").write_text("unchanged")
    sync(folder.host, FileList.of(listing(source)), str(source), folder.path, packed=False, manifest_copy=copy)
    (source / "train.py").write_text("print(2)\n")
    report = sync(folder.host, FileList.of(listing(source)), str(source), folder.path, packed=False, manifest_copy=copy)
    assert report.changed == 1
    assert report.sent < 11_000  # the size of a small archive; the manifest has 40,000 bytes


def test_batches_add_up(folder: Folder, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "BATCH_SECONDS", 0.0)  # one file each
    assert send(folder, source).changed == 6


@pytest.mark.processes
def test_repeated_sync_skips_files_that_have_arrived(
    folder: Folder, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "BATCH_SECONDS", 0.0)
    entries = listing(source)
    assert [entry.path for entry in entries[:3]] == ["dangling", "link", "package/data"]

    def break_off(done: int, size: int) -> None:
        if done > 500_000:
            raise ConnectionLost("cut")

    with pytest.raises(ConnectionLost):
        sync(folder.host, FileList.of(entries), str(source), folder.path, break_off)
    assert send(folder, source).changed == 6 - 2


@pytest.mark.processes
def test_files_without_a_manifest_are_removed_after_an_interrupted_sync(
    folder: Folder, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(folder, source)
    (folder.here.parent / "tree.manifest").unlink()
    monkeypatch.setattr(sending, "BATCH_SECONDS", 0.0)

    def break_off(done: int, size: int) -> None:
        if done > 500_000:
            raise ConnectionLost("cut")

    with pytest.raises(ConnectionLost):
        sync(folder.host, FileList.of(listing(source)), str(source), folder.path, break_off)
    (source / "run.sh").unlink()
    (source / "train.py").unlink()
    send(folder, source)


def test_progress_is_reported_in_bytes(folder: Folder, source: Path) -> None:
    told: list[tuple[int, int]] = []
    sync(
        folder.host,
        FileList.of(listing(source)),
        str(source),
        folder.path,
        lambda done, size: told.append((done, size)),
    )
    size = sum(entry.size for entry in listing(source))
    assert told[-1] == (size, size)
    assert told == sorted(told)


def test_slow_connection_is_compressed(folder: Folder, source: Path) -> None:
    (source / "text").write_text("the same words again and again\n" * 100_000)
    report = sync(folder.host, FileList.of(listing(source)), str(source), folder.path, packed=True)
    assert report.sent < report.size + 100_000  # packing must not add much


def test_unreadable_file_is_named(folder: Folder, source: Path) -> None:
    entries = [*listing(source), Entry("not-there", "x", 5)]
    with pytest.raises(StorageError, match="not-there: cannot send: no such file"):
        sync(folder.host, FileList.of(entries), str(source), folder.path)
    assert send(folder, source).changed == 6


def test_link_in_place_of_a_file_is_not_followed(folder: Folder, source: Path) -> None:
    with pytest.raises(StorageError, match="cannot send"):
        sync(folder.host, FileList.of([Entry("link", "x", 5)]), str(source), folder.path)


def test_full_disk_on_the_host_is_reported(gpubox: Machine, host: Host, source: Path) -> None:
    gpubox.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=0777", "tmpfs", "/mnt"])
    try:
        with pytest.raises(StorageError, match=r"the disk of gpubox .* is full"):
            sync(host, FileList.of(listing(source)), str(source), "/mnt/tree")
    finally:
        gpubox.run(["umount", "/mnt"])


def test_read_only_destination_is_reported(host: Host, source: Path) -> None:
    from tui_workbench.core.errors import WorkbenchError

    with pytest.raises(WorkbenchError, match="Permission denied"):
        sync(host, FileList.of(listing(source)), str(source), "/etc/workbench/tree")


def test_host_without_gnu_find_gets_every_file_again(gpubox: Machine, host: Host, source: Path, tmp_path: Path) -> None:
    there = Folder(host, "/home/research/plain/tree", gpubox.home() / "plain" / "tree")
    with gpubox.replaced("/usr/bin/find", "echo 'find: unrecognized: -printf' >&2; exit 1"):
        assert send(there, source).changed == 6
        (source / "link").unlink()
        assert send(there, source).changed == 5


def test_host_without_gnu_find_gets_more_files_than_fit_in_a_batch(
    gpubox: Machine, host: Host, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "BATCH_SECONDS", 0)
    there = Folder(host, f"/home/research/{tmp_path.name}/tree", gpubox.home() / tmp_path.name / "tree")
    with gpubox.replaced("/usr/bin/find", "exit 1"):
        send(there, source)
    assert there.content() == Folder(host, "", source).content()
