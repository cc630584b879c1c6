"""A working copy made from the copy of an ended run equals the snapshot, whatever the earlier run did to its copy."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.support import until
from tests.runs.sources import GIT, Source, listing
from tests.runs.support import nest_folders, write_files
from tui_workbench.core.errors import StorageError
from tui_workbench.runs.snapshots.snapshot import SnapshotStore
from tui_workbench.runs.snapshots.spare import claimed, discard_unused, ended_copy, ready, remove_discarded

pytestmark = pytest.mark.processes

FILES = {
    "train.py": "print(1)\n",
    "data.txt": "1234",
    "pkg/code.py": "code = 1\n",
    "pkg/deep/more.py": "more = 1\n",
    "pkg/deep/last.py": "last = 1\n",
    "tools/run.sh": "#!/bin/sh\n",
    "ignored/large.bin": "large",
    ".gitignore": "ignored/\n",
    ".gitattributes": "*.py filter=evil ident\n",
}


class Shop:
    """A project whose runs hand their working copies on."""

    def __init__(self, source: Source) -> None:
        self.source = source
        write_files(source.root, FILES)
        (source.root / "tools" / "run.sh").chmod(0o755)
        (source.root / "latest").symlink_to("pkg")
        (source.root / "empty").mkdir()

    @property
    def store(self) -> SnapshotStore:
        return SnapshotStore(str(self.source.root), str(self.source.state))

    @property
    def spare(self) -> Path:
        return Path(ready(self.store.repository.path).copy)

    def keep(self, copy: Path, commit: str = "", since: int = 0) -> None:
        """Keep the whole working copy of an ended run. Changed files stay in it, unlike at the end of a real run."""
        aside = Path(ended_copy(self.store.repository.path, copy.parent.name))
        aside.parent.mkdir(exist_ok=True)
        copy.rename(aside)
        with contextlib.suppress(StorageError):  # as at the end of a real run
            self.store.keep_spare(str(aside), commit or self.source.snapshot.commit_id, since or self.now())

    def now(self) -> int:
        """Return the time of the file system's clock."""
        (self.source.state / "clock").write_text("tick")
        return (self.source.state / "clock").stat().st_mtime_ns


@pytest.fixture
def shop(with_git: Source) -> Shop:
    return Shop(with_git)


def everything(copy: Path) -> dict[str, object]:
    """Return the content and the permissions of everything in a copy."""
    modes = {name: (copy / name).lstat().st_mode for name in listing(copy)}
    names = {name: sorted(os.listxattr(copy / name, follow_symlinks=False)) for name in listing(copy)}
    return {"content": listing(copy), "modes": modes, "attributes": names, "top": copy.stat().st_mode}


def change_content(copy: Path) -> None:
    (copy / "data.txt").write_text("other content")


def change_content_and_times(copy: Path) -> None:
    before = (copy / "data.txt").stat()
    (copy / "data.txt").write_text("4321")
    os.utime(copy / "data.txt", ns=(before.st_atime_ns, before.st_mtime_ns))


def replace_file(copy: Path) -> None:
    before = (copy / "data.txt").stat()
    (copy / "new").write_text("4321")
    os.utime(copy / "new", ns=(before.st_atime_ns, before.st_mtime_ns))
    (copy / "new").rename(copy / "data.txt")


def exchange_files(copy: Path) -> None:
    (copy / "pkg/deep/more.py").rename(copy / "other")
    (copy / "pkg/deep/last.py").rename(copy / "pkg/deep/more.py")
    (copy / "other").rename(copy / "pkg/deep/last.py")


def add_files(copy: Path) -> None:
    write_files(
        copy,
        {
            "new.txt": "n",
            "ignored/more.bin": "more",
            "empty/file": "f",
            "pkg/new/file": "n",
            "outputs/model.bin": "w",
            "pkg/__pycache__/code.pyc": "b",
        },
    )


def remove_files(copy: Path) -> None:
    (copy / "train.py").unlink()
    shutil.rmtree(copy / "pkg")
    shutil.rmtree(copy / "outputs", ignore_errors=True)


def rename_folder(copy: Path) -> None:
    (copy / "pkg").rename(copy / "moved")


def link_for_moved_folder(copy: Path) -> None:
    (copy / "pkg").rename(copy / "moved")
    (copy / "pkg").symlink_to("moved")


def link_for_inner_folder(copy: Path) -> None:
    (copy / "outputs").mkdir(exist_ok=True)
    (copy / "pkg" / "deep").rename(copy / "outputs" / "deep")
    (copy / "pkg" / "deep").symlink_to("../outputs/deep")


def link_out_for_folder(copy: Path) -> None:
    shutil.copytree(copy / "pkg", copy.parent / "elsewhere", dirs_exist_ok=True)
    shutil.rmtree(copy / "pkg")
    (copy / "pkg").symlink_to(copy.parent / "elsewhere")


def link_for_file(copy: Path) -> None:
    (copy.parent / "elsewhere").mkdir(exist_ok=True)
    (copy.parent / "elsewhere" / "data").write_text("1234")
    (copy / "data.txt").unlink()
    (copy / "data.txt").symlink_to(copy.parent / "elsewhere" / "data")


def link_to_folder_for_file(copy: Path) -> None:
    (copy / "data.txt").unlink()
    (copy / "data.txt").symlink_to("pkg")


def change_link(copy: Path) -> None:
    (copy / "latest").unlink(missing_ok=True)  # links to folders are not kept
    (copy / "latest").symlink_to("tools")


def file_for_link(copy: Path) -> None:
    (copy / "latest").unlink(missing_ok=True)  # links to folders are not kept
    (copy / "latest").write_text("pkg")


def folder_for_file(copy: Path) -> None:
    (copy / "data.txt").unlink()
    write_files(copy, {"data.txt/inner": "i", ".gitignore.d/x": "x"})


def file_for_folder(copy: Path) -> None:
    shutil.rmtree(copy / "pkg")
    (copy / "pkg").write_text("file")


def change_modes(copy: Path) -> None:
    (copy / "data.txt").chmod(0o777)
    (copy / "tools").chmod(0o2777)
    (copy / "pkg" / "deep").chmod(0o700)
    copy.chmod(0o777)


def lock_folder(copy: Path) -> None:
    (copy / "pkg" / "deep").chmod(0)


def set_attributes(copy: Path) -> None:
    os.setxattr(copy / "pkg", "user.note", b"from the run")
    os.setxattr(copy / "data.txt", "user.note", b"from the run")


def nest_in_package(copy: Path) -> None:
    nest_folders(copy / "pkg")


def make_special_files(copy: Path) -> None:
    os.mkfifo(copy / "pipe")
    (copy / "data.txt").unlink()
    os.mkfifo(copy / "data.txt")
    # A short path, because the path of a socket is limited to about 100 characters.
    with socket.socket(socket.AF_UNIX) as server, contextlib.chdir(copy / "pkg"):
        server.bind("socket")


def make_repository(copy: Path) -> None:
    """Make git repositories whose hooks, filters and settings would execute a program."""
    marker = copy.parent / "executed"
    for folder in (copy, copy / "pkg"):
        subprocess.run([GIT, "init", "--quiet", str(folder)], check=True)
        program = folder / ".git" / "hooks" / "post-checkout"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\ntouch '{marker}'\n")
        program.chmod(0o755)
        for name in ("post-index-change", "reference-transaction"):
            shutil.copy(program, program.with_name(name))
        with (folder / ".git" / "config").open("a") as file:
            file.write(f"[core]\nfsmonitor = \"touch '{marker}'\"\n")
            file.write(f'[filter "evil"]\nsmudge = touch "{marker}"; cat\nclean = touch "{marker}"; cat\n')
    (copy / ".gitattributes").write_text("* filter=evil\n")
    (copy / "pkg" / ".gitattributes").write_text("* filter=evil working-tree-encoding=UTF-16\n")


CHANGES: list[Callable[[Path], None]] = [
    change_content, change_content_and_times, replace_file, exchange_files, add_files, remove_files, rename_folder,
    link_for_moved_folder, link_for_inner_folder, link_out_for_folder, link_for_file, link_to_folder_for_file,
    change_link, file_for_link, folder_for_file, file_for_folder, change_modes, lock_folder, set_attributes,
    nest_in_package, make_special_files, make_repository,
]  # fmt: skip


@pytest.mark.parametrize("moment", ["during the run", "after the run"])
@pytest.mark.parametrize("change", CHANGES)
def test_nothing_of_an_earlier_run_remains(shop: Shop, change: Callable[[Path], None], moment: str) -> None:
    first = shop.source.take()
    expected, elsewhere = everything(first), first.parent / "elsewhere"
    if moment == "during the run":
        complete = shop.now()
        until(lambda: shop.now() > complete, "a tick of the clock")
        change(first)
        outside = listing(elsewhere)
        shop.keep(first, since=complete)
    else:
        shop.keep(first)
        change(shop.spare)
        outside = listing(elsewhere)
    script = shop.spare / "tools" / "run.sh"
    reused = script.stat().st_ino if script.exists() else 0
    copy = shop.source.take()
    assert everything(copy) == expected
    assert listing(elsewhere) == outside
    remove_discarded(shop.store.repository.path)
    assert os.listdir(os.path.join(shop.store.repository.path, "spare")) == []
    assert not list(shop.source.root.rglob("executed"))
    # The first change is one of the folder of the file; only root can remove the second.
    if change is not change_modes and (change is not lock_folder or os.geteuid() == 0):
        assert reused == (copy / "tools/run.sh").stat().st_ino, "the spare was not used"


def test_unchanged_files_are_reused_and_changed_files_written(shop: Shop) -> None:
    first = shop.source.take()
    kept = (first / "pkg/code.py").stat().st_ino
    shop.keep(first)
    write_files(shop.source.root, {"data.txt": "5678", "new/file.py": "new"})
    copy = shop.source.take()
    assert (copy / "pkg/code.py").stat().st_ino == kept
    assert (copy / "data.txt").read_text() == "5678"
    assert (copy / "new/file.py").read_text() == "new"
    assert not shop.spare.exists()


def test_new_file_of_the_project_replaces_a_file_of_the_spare_with_its_name(shop: Shop) -> None:
    shop.keep(shop.source.take())
    write_files(shop.source.root, {"pkg/added.py": "from the project"})
    write_files(shop.spare, {"pkg/added.py": "from the run"})
    assert (shop.source.take() / "pkg/added.py").read_text() == "from the project"


def test_copy_from_before_the_clock_was_set_back_is_not_kept(shop: Shop) -> None:
    shop.keep(shop.source.take(), since=shop.now() + 3_600_000_000_000)
    assert not shop.spare.exists()


def test_permissions_follow_the_umask_of_the_next_run(shop: Shop) -> None:
    usual = os.umask(0o022)
    try:
        shop.keep(shop.source.take())
        os.umask(0o077)
        copy = shop.source.take()
    finally:
        os.umask(usual)
    modes = {name: (copy / name).stat().st_mode & 0o777 for name in ("train.py", "tools/run.sh", "pkg/code.py")}
    assert modes == {"train.py": 0o600, "tools/run.sh": 0o700, "pkg/code.py": 0o600}


def test_copy_follows_every_change_of_the_project(shop: Shop) -> None:
    shop.keep(shop.source.take())
    root = shop.source.root
    (root / "train.py").unlink()
    (root / "data.txt").unlink()
    shutil.rmtree(root / "pkg")
    write_files(root, {"train.py/inner.py": "inner", "pkg": "a file", ".gitignore": "nothing\n"})
    (root / "data.txt").symlink_to("pkg")
    (root / "tools/run.sh").chmod(0o644)
    copy = shop.source.take()
    assert everything(copy) == everything(shop.source.take())
    assert (copy / "data.txt").is_symlink()
    assert (copy / "train.py/inner.py").read_text() == "inner"


def test_links_into_the_project_lead_into_each_copy(shop: Shop) -> None:
    (shop.source.root / "absolute").symlink_to(shop.source.root / "pkg")
    shop.keep(shop.source.take())
    copy = shop.source.take()
    assert (copy / "absolute").resolve() == copy / "pkg"


def test_link_to_data_becomes_a_folder_of_the_snapshot(shop: Shop) -> None:
    first = shop.source.take(data=("pkg",))
    assert (first / "pkg").is_symlink()
    shop.keep(first)
    copy = shop.source.take()
    assert (copy / "pkg/code.py").read_text() == FILES["pkg/code.py"]
    assert not (copy / "pkg").is_symlink()


def test_older_snapshot_is_restored_from_the_spare(shop: Shop) -> None:
    first = shop.source.take()
    commit, expected = shop.source.snapshot.commit_id, listing(first)
    write_files(shop.source.root, {"train.py": "print(2)\n", "added.py": "a"})
    shop.keep(shop.source.take())
    copy = shop.source.state / "runs" / "again" / "work"
    shop.store.check_out(commit, str(copy))
    assert listing(copy) == expected
    assert not shop.spare.exists()


def test_hard_link_outside_cannot_change_a_later_copy(shop: Shop) -> None:
    first = shop.source.take()
    shop.keep(first)
    outside = first.parent / "outside"
    os.link(shop.spare / "data.txt", outside)
    copy = shop.source.take()
    outside.write_text("changed later")
    assert (copy / "data.txt").read_text() == "1234"


def test_concurrent_submits_get_different_copies(shop: Shop) -> None:
    first = shop.source.take()
    expected = listing(first)
    shop.keep(first)
    copies: list[Path] = []

    def submit(number: int) -> None:
        copies.append(shop.source.take_to(f"concurrent_{number}")[1])

    threads = [threading.Thread(target=submit, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({copy.stat().st_ino for copy in copies}) == 4
    assert [listing(copy) for copy in copies] == [expected] * 4


def test_only_one_spare_is_kept(shop: Shop) -> None:
    copies = [shop.source.take(), shop.source.take()]
    for copy in copies:
        shop.keep(copy)
    remove_discarded(shop.store.repository.path)
    assert os.listdir(os.path.join(shop.store.repository.path, "spare")) == ["ready"]


def test_spare_without_an_index_is_replaced_by_the_snapshot(shop: Shop) -> None:
    first = shop.source.take()
    expected = listing(first)
    shop.keep(first)
    change_content(shop.spare)
    Path(ready(shop.store.repository.path).index).unlink()
    assert listing(shop.source.take()) == expected


@pytest.mark.parametrize("content", [b"", b"damaged", b"DIRC\0\0\0\2\0\0\0\1"])
def test_damaged_index_does_not_prevent_a_copy(shop: Shop, content: bytes) -> None:
    first = shop.source.take()
    expected = listing(first)
    shop.keep(first)
    Path(ready(shop.store.repository.path).index).write_bytes(content)
    assert listing(shop.source.take()) == expected


def test_link_instead_of_the_spare_is_not_followed(shop: Shop, tmp_path: Path) -> None:
    first = shop.source.take()
    expected = listing(first)
    shop.keep(first)
    precious = tmp_path / "precious"
    write_files(precious, {"file": "mine", "data.txt": "mine"})
    shutil.rmtree(shop.spare)
    shop.spare.symlink_to(precious)
    assert listing(shop.source.take()) == expected
    assert listing(precious) == {"file": b"mine", "data.txt": b"mine"}


def test_link_instead_of_the_folder_of_spares_is_not_followed(shop: Shop, tmp_path: Path) -> None:
    first = shop.source.take()
    expected = listing(first)
    victim = tmp_path / "victim"
    aside = Path(ended_copy(shop.store.repository.path, "run"))
    write_files(victim, {"ready/work/data.txt": "mine", "claimed/file": "mine", "removed-1/file": "mine"})
    first.rename(victim / aside.name)
    before = listing(victim)
    aside.parent.symlink_to(victim)
    with pytest.raises(StorageError):
        shop.store.keep_spare(str(aside), shop.source.snapshot.commit_id, shop.now())
    remove_discarded(shop.store.repository.path)
    assert listing(shop.source.take()) == expected
    assert shop.store.discard() >= 0
    assert listing(victim) == before


def test_half_prepared_spare_is_not_used(shop: Shop) -> None:
    first = shop.source.take()
    expected = listing(first)
    shop.keep(first)
    half = Path(claimed(shop.store.repository.path).folder)
    Path(ready(shop.store.repository.path).folder).rename(half)  # a submit was killed
    (half / "work" / "data.txt").write_text("half")
    copy = shop.source.take()
    assert listing(copy) == expected
    shop.keep(copy)
    remove_discarded(shop.store.repository.path)
    assert not half.exists()
    assert listing(shop.source.take()) == expected


@pytest.mark.parametrize("command", ["checkout-index", "update-index"])
def test_submit_after_a_kill_gets_the_snapshot(
    shop: Shop, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = shop.source.take()
    expected, commit = listing(first), shop.source.snapshot.commit_id
    shop.keep(first)
    change_content(shop.spare)
    programs, begun = tmp_path / "programs", tmp_path / "begun"
    programs.mkdir()
    (programs / "git").write_text(
        f'#!/bin/sh\ncase "$*" in *{command}*) touch "{begun}"; exec sleep 600 ;; esac\nexec {GIT} "$@"\n'
    )
    (programs / "git").chmod(0o755)
    child = os.fork()
    if child == 0:
        os.setsid()
        os.environ["PATH"] = f"{programs}:{os.environ['PATH']}"
        if command == "update-index":
            shutil.rmtree(ready(shop.store.repository.path).folder)
            shop.keep(shop.source.take_to("other")[1], commit)
        shop.source.take_to("killed")
        os._exit(0)
    until(begun.exists, "the start of git")
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert listing(shop.source.take()) == expected
    assert listing(shop.source.take()) == expected


def test_failed_keeping_leaves_no_spare(shop: Shop) -> None:
    first = shop.source.take()
    aside = Path(ended_copy(shop.store.repository.path, "run"))
    aside.parent.mkdir()
    first.rename(aside)
    with pytest.raises(StorageError):
        shop.store.keep_spare(str(aside), "0" * 40, shop.now())
    assert not shop.spare.exists()
    with shop.store.repository.exclusive():
        discard_unused(shop.store.repository.path)
    remove_discarded(shop.store.repository.path)
    assert os.listdir(aside.parent) == []


def test_purging_removes_the_spare(shop: Shop) -> None:
    shop.keep(shop.source.take())
    assert shop.store.discard() > 0
    assert not shop.spare.exists()
