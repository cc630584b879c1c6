"""A copy made from that of an ended run equals the files that were sent, whatever the earlier run did to its copy."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.runs.sources import listing
from tests.runs.support import write_files
from tests.targets.harness import Script
from tests.targets.remote_fixtures import RemoteHarness
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.targets.hosts import host_run
from tui_workbench.targets.hosts.host import Entry
from tui_workbench.targets.hosts.host_run import HostRun
from tui_workbench.targets.hosts.manifest import FileList
from tui_workbench.targets.values import Report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.machines import Machine
    from tui_workbench.core.model import RunSpec
    from tui_workbench.targets.ssh.ssh_host import SshHost

FILES = {
    "train.py": "print(1)\n",
    "data.txt": "1234",
    "pkg/code.py": "code = 1\n",
    "pkg/deep/more.py": "more = 1\n",
    "pkg/deep/last.py": "last = 1\n",
    "tools/run.sh": "#!/bin/sh\n",
    "line\nfeed/a file": "1",
    "-rf": "an option",
}

ATTRIBUTES = '[os.setxattr(path, "user.note", b"note") for path in ("pkg", "data.txt", ".")]'
CHANGES = {
    "nothing": ":",
    "content": "echo other >data.txt",
    "content with the same time": "cp -p data.txt ../ref; printf 4321 >data.txt; touch -r ../ref data.txt; rm ../ref",
    "replaced file": "printf 4321 >new; touch -r data.txt new; mv new data.txt",
    "exchanged files": "mv pkg/deep/more.py other; mv pkg/deep/last.py pkg/deep/more.py; mv other pkg/deep/last.py",
    "new files": "mkdir -p pkg/new outputs 'new\nline/x'; touch new.txt pkg/new/file outputs/model -- -x",
    "bytecode": "mkdir -p pkg/__pycache__; touch pkg/__pycache__/code.pyc",
    "removed files": "rm -rf train.py pkg outputs",
    "renamed folder": "mv pkg moved",
    "link for a moved folder": "mv pkg moved; ln -s moved pkg",
    "link for an inner folder": "mkdir -p outputs; mv pkg/deep outputs/deep; ln -s ../outputs/deep pkg/deep",
    "link out for a folder": 'mkdir -p "$E"; cp -a pkg "$E"; rm -r pkg; ln -s "$E/pkg" pkg',
    "link out for a file": 'mkdir -p "$E"; mv data.txt "$E/data"; ln -s "$E/data" data.txt',
    "link to a folder for a file": "rm data.txt; ln -s pkg data.txt",
    "other link": "rm latest; ln -s tools latest",
    "file for a link": "rm latest; echo pkg >latest",
    "folder for a file": "rm data.txt; mkdir data.txt; touch data.txt/inner",
    "file for a folder": "rm -r pkg; echo file >pkg",
    "permissions": "chmod 777 data.txt; chmod 700 pkg/deep; chmod 2777 tools; chmod 777 .",
    "locked folder": "chmod 0 pkg/deep",
    "attributes": 'python3 -c \'import os; [os.setxattr(x, "user.note", b"n") for x in ("pkg", "data.txt", ".")]\'',
    "hard link outside": 'mkdir -p "$E"; ln data.txt "$E/data"',
    "special files": "rm data.txt; mkfifo data.txt pipe pkg/pipe",
}


class Shop:
    """A project on this machine whose runs on another machine hand their copies on."""

    def __init__(self, folder: Path, machine: Machine, host: SshHost) -> None:
        self.host = host
        self.harness = RemoteHarness(folder, machine, host)
        self.root = folder / "project"
        self.home = machine.home() / ".workbench-tui"
        self.elsewhere = machine.home() / "elsewhere"
        write_files(self.root, FILES)
        (self.root / "tools" / "run.sh").chmod(0o755)
        (self.root / "latest").symlink_to("pkg")

    def spec(self) -> RunSpec:
        """Return a new run of the project."""
        spec = self.harness.spec(Script())
        (self.root / spec.script).unlink()
        return spec

    def begin(self, spec: RunSpec | None = None) -> tuple[HostRun, Path]:
        """Send the files of the project, and make the copy of a run; return its path on this machine too."""
        spec = spec or self.spec()
        run = HostRun(self.host, spec)
        run.send(self.files, Report())
        return run, self.harness.directory(spec) / "work"

    def entries(self) -> list[Entry]:
        found = []
        for path in sorted(self.root.rglob("*")):
            name, status = str(path.relative_to(self.root)), path.lstat()
            if path.is_symlink():
                found.append(Entry(name, "", link=os.readlink(path)))
            elif path.is_file():
                executable = bool(status.st_mode & 0o100)
                found.append(Entry(name, str(status.st_mtime_ns), status.st_size, executable))
        return found

    def files(self) -> FileList:
        return FileList.of(self.entries())

    def change(self, folder: str, script: str) -> None:
        """Execute a script as the user on the machine."""
        text = f'cd -- "$1" && E=/home/research/elsewhere && {script}'
        self.host.check(["sh", "-c", text, "sh", folder])

    def end(self, run: HostRun) -> None:
        run.fetch(Report())
        run.remove_copy()

    @property
    def spare(self) -> Path:
        return next(self.home.glob("projects/*")) / "spare"

    def expected(self) -> dict[str, Any]:
        """Return the content and permissions of the project on the machine."""
        return everything(self.spare.parent / "tree")


MANIFESTS = {"sent, then copied": 1 << 20, "listed while files are sent": 1}
"""Number of files from which the machine lists its files while others are sent."""


@pytest.fixture(params=MANIFESTS.values(), ids=list(MANIFESTS))
def shop(
    request: pytest.FixtureRequest, tmp_path: Path, gpubox: Machine, host: SshHost, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shop]:
    monkeypatch.setattr(host_run, "SPARE_FILES", 1)
    monkeypatch.setattr(host_run, "LARGE_MANIFEST", request.param)
    shop = Shop(tmp_path, gpubox, host)
    yield shop
    shutil.rmtree(shop.home, ignore_errors=True)
    shutil.rmtree(shop.elsewhere, ignore_errors=True)


def everything(copy: Path) -> dict[str, Any]:
    """Return the content, owners, permissions and attributes of everything in a copy, without an empty `outputs/`."""
    found = {}
    for name, content in listing(copy).items():
        path = copy / name
        status = path.lstat()
        attributes = sorted(os.listxattr(path, follow_symlinks=False))
        found[name] = (content, status.st_mode, status.st_uid, status.st_gid, attributes)
    if not list((copy / "outputs").glob("*")):
        found.pop("outputs", None)
    return {".": (copy.stat().st_mode, os.listxattr(copy)), **found}


MOMENTS = ("during the run", "after the run")
# Each change at each moment, with one of the two orders of sending and listing in turn.
EARLIER_RUNS = [
    (list(MANIFESTS.values())[(row + column) % 2], change, moment)
    for row, change in enumerate(CHANGES)
    for column, moment in enumerate(MOMENTS)
]


@pytest.mark.parametrize(("shop", "change", "moment"), EARLIER_RUNS, indirect=["shop"])
def test_nothing_of_an_earlier_run_remains(shop: Shop, change: str, moment: str) -> None:
    run, copy = shop.begin()
    assert everything(copy) == shop.expected()
    if moment == "during the run":
        shop.change(f"{run.directory}/work", CHANGES[change])
        shop.end(run)
    else:
        shop.end(run)
        project = f"{run.layout.home}/projects/{shop.spare.parent.name}"
        shop.change(f"{project}/spare/work", CHANGES[change])
    outside = listing(shop.elsewhere)
    script = shop.spare / "work" / "tools" / "run.sh"
    reused = script.stat().st_ino
    run, copy = shop.begin()
    assert everything(copy) == shop.expected()
    assert (copy / "outputs").is_dir()
    assert listing(shop.elsewhere) == outside
    assert not shop.spare.exists()
    if change not in ("locked folder", "permissions"):  # the copy is made anew, if anything is doubtful
        assert (copy / "tools/run.sh").stat().st_ino == reused, "the spare was not used"
    shop.end(run)
    assert sorted(os.listdir(shop.spare.parent)) == ["spare", "tree", "tree.found", "tree.manifest"]
    assert sorted(os.listdir(copy.parent)) == ["outputs", "placed"]


def test_copy_follows_every_change_of_the_project(shop: Shop) -> None:
    run, copy = shop.begin()
    kept = (copy / "tools/run.sh").stat().st_ino
    shop.end(run)
    for name in ("train.py", "data.txt", "latest"):
        (shop.root / name).unlink()
    shutil.rmtree(shop.root / "pkg")
    write_files(shop.root, {"train.py/inner.py": "inner", "pkg": "a file", "latest": "file", "new/deep/file": "new"})
    (shop.root / "data.txt").symlink_to("pkg")
    (shop.root / "-rf").chmod(0o755)
    _, copy = shop.begin()
    assert everything(copy) == shop.expected()
    assert (copy / "data.txt").is_symlink()
    assert (copy / "train.py/inner.py").read_text() == "inner"
    assert (copy / "-rf").stat().st_mode & 0o777 == 0o755
    assert (copy / "tools/run.sh").stat().st_ino == kept


def test_files_are_kept_through_several_runs(shop: Shop) -> None:
    """A file that neither the runs nor the project change keeps its inode, whatever else was changed."""

    def inodes() -> dict[str, int]:
        return {name: (copy / name).lstat().st_ino for name in FILES if (copy / name).is_file()}

    run, copy = shop.begin()
    shop.change(run.directory, f"cd work && {CHANGES['new files']}; echo other >data.txt; rm pkg/deep/last.py")
    before = inodes()
    shop.end(run)
    (shop.root / "train.py").unlink()
    write_files(shop.root, {"pkg/other/new.py": "new", "tools/more.sh": "more"})
    run, copy = shop.begin()
    assert everything(copy) == shop.expected()
    replaced = {"train.py", "data.txt", "pkg/deep/last.py"}
    first = inodes()
    assert {name for name in FILES if first.get(name) != before.get(name)} == replaced
    shop.end(run)
    run, copy = shop.begin()
    assert inodes() == first
    assert (copy / "pkg/other/new.py").is_file()


def test_changed_file_of_the_same_size_and_second_is_replaced(shop: Shop) -> None:
    run, _ = shop.begin()
    shop.end(run)
    before = (shop.root / "data.txt").stat()
    (shop.root / "data.txt").write_text("5678")
    os.utime(shop.root / "data.txt", ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    _, copy = shop.begin()
    assert (copy / "data.txt").read_text() == "5678"


def test_change_of_the_sent_files_does_not_reach_the_copy(shop: Shop) -> None:
    run, _ = shop.begin()
    shop.end(run)
    (shop.spare.parent / "tree" / "data.txt").write_text("on the machine")
    _, copy = shop.begin()
    assert (copy / "data.txt").read_text() == "1234"


def test_concurrent_runs_get_different_copies(shop: Shop) -> None:
    run, _ = shop.begin()
    shop.end(run)
    made: list[tuple[HostRun, Path]] = []
    specs = [shop.spec() for _ in range(3)]
    threads = [threading.Thread(target=lambda spec=spec: made.append(shop.begin(spec))) for spec in specs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({copy.stat().st_ino for _, copy in made}) == 3
    assert len({(copy / "train.py").stat().st_ino for _, copy in made}) == 3
    assert [everything(copy) for _, copy in made] == [shop.expected()] * 3
    for run, _ in made:
        shop.end(run)
    assert sorted(os.listdir(shop.spare.parent)) == ["spare", "tree", "tree.found", "tree.manifest"]
    assert [sorted(os.listdir(copy.parent)) for _, copy in made] == [["outputs", "placed"]] * 3


def test_run_does_not_take_the_spare_again_after_its_copy_is_complete(shop: Shop) -> None:
    first, _ = shop.begin()
    second, copy = shop.begin()
    shop.end(first)
    (copy / "made").write_text("by the run")
    second.send(shop.files, Report())
    assert (copy / "made").read_text() == "by the run"
    assert shop.spare.exists()


@pytest.mark.parametrize("program", ["comm", "cut", "find", "ln", "mv", "sed", "sort"])
def test_copy_is_made_anew_if_a_program_fails(shop: Shop, gpubox: Machine, program: str) -> None:
    run, _ = shop.begin()
    shop.end(run)
    script = shop.spare / "work" / "tools" / "run.sh"
    shop.change(f"{run.layout.home}/projects/{shop.spare.parent.name}/spare/work", CHANGES["replaced file"])
    reused = script.stat().st_ino
    # `mv` fails only within the folder of the new copy.
    failure = 'case "$*" in *new*) exit 1 ;; esac; exec "$ORIGINAL" "$@"' if program == "mv" else "exit 1"
    with gpubox.replaced(f"/usr/bin/{program}", failure):
        _, copy = shop.begin()
    assert everything(copy) == shop.expected()
    assert (copy / "tools/run.sh").stat().st_ino != reused
    assert not list(copy.parent.glob("copy.*"))


@pytest.mark.parametrize("program", ["find", "sed", "xargs"])
def test_changed_file_is_in_the_copy_if_a_program_fails_while_it_is_sent(
    shop: Shop, gpubox: Machine, program: str
) -> None:
    run, _ = shop.begin()
    shop.end(run)
    (shop.root / "data.txt").write_text("5678")
    # The program fails when the sent files are listed again, and not when the copy is made.
    failure = 'case "$PWD $*" in */tree*maxdepth* | */project-*"./,/"*) exit 1 ;; esac; exec "$ORIGINAL" "$@"'
    with gpubox.replaced(f"/usr/bin/{program}", failure):
        _, copy = shop.begin()
    assert (copy / "data.txt").read_text() == "5678"
    assert everything(copy) == shop.expected()


def test_copy_is_made_anew_after_a_kill(shop: Shop, gpubox: Machine) -> None:
    run, _ = shop.begin()
    shop.end(run)
    shop.change(f"{run.layout.home}/projects/{shop.spare.parent.name}/spare/work", CHANGES["content"])
    with (
        gpubox.replaced("/usr/bin/comm", "kill -KILL -$(ps -o pgid= -p $$ | tr -d ' ')"),
        pytest.raises(WorkbenchError),
    ):
        shop.begin()
    assert not shop.spare.exists()
    _, copy = shop.begin()
    assert everything(copy) == shop.expected()


def test_spare_is_kept_if_the_files_cannot_be_sent(shop: Shop) -> None:
    run, copy = shop.begin()
    inode = (copy / "train.py").stat().st_ino
    shop.end(run)
    entries = shop.entries()
    (shop.root / "new.py").mkdir()
    with pytest.raises(WorkbenchError, match=r"new\.py"):
        HostRun(shop.host, shop.spec()).send(lambda: FileList.of([*entries, Entry("new.py", "1")]), Report())
    (shop.root / "new.py").rmdir()
    _, copy = shop.begin()
    assert everything(copy) == shop.expected()
    assert (copy / "train.py").stat().st_ino == inode


@pytest.mark.parametrize("place", ["spare", "spare/work"])
def test_link_instead_of_the_spare_is_not_followed(shop: Shop, place: str) -> None:
    run, _ = shop.begin()
    shop.end(run)
    precious = shop.elsewhere / "precious"
    shutil.copytree(shop.spare.parent / place, precious, symlinks=True)
    write_files(precious, {"file": "mine"})
    for path in (shop.elsewhere, *shop.elsewhere.rglob("*")):
        os.chown(path, 2001, 2001, follow_symlinks=False)
    before = listing(precious)
    shutil.rmtree(shop.spare.parent / place)
    (shop.spare.parent / place).symlink_to("/home/research/elsewhere/precious")
    run, copy = shop.begin()
    assert everything(copy) == shop.expected()
    shop.end(run)
    assert listing(precious) == before


def test_link_instead_of_the_copy_is_not_kept(shop: Shop) -> None:
    run, copy = shop.begin()
    shop.change(run.directory, "mv work moved; mkdir ../x; touch ../x/precious; ln -s ../x work")
    run.remove_copy()
    assert not shop.spare.exists()
    assert not copy.is_symlink()
    assert os.listdir(copy.parent.parent / "x") == ["precious"]


def test_spare_with_files_of_another_user_is_not_used(shop: Shop) -> None:
    run, _ = shop.begin()
    shop.end(run)
    write_files(shop.spare / "work" / "pkg", {"of root/file": "cannot be removed"})
    run, copy = shop.begin()
    assert everything(copy) == shop.expected()
    with pytest.raises(WorkbenchError, match="cannot remove the run"):
        run.remove_copy()


def test_small_project_has_no_spare(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_run, "SPARE_FILES", 1_000)
    run, copy = shop.begin()
    shop.end(run)
    assert not shop.spare.exists()
    assert sorted(os.listdir(copy.parent)) == ["outputs", "placed"]


def test_copy_on_a_network_disk_is_not_kept(shop: Shop) -> None:
    run = HostRun(shop.host, shop.spec())
    run.send(shop.files, Report(), reuses_copy=False)
    shop.end(run)
    assert not shop.spare.exists()


def test_second_end_keeps_one_spare(shop: Shop) -> None:
    run, _ = shop.begin()
    shop.end(run)
    inode = shop.spare.stat().st_ino
    run.remove_copy()
    assert shop.spare.stat().st_ino == inode
