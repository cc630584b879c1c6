"""Working copies equal the project byte for byte, with and without git, and user files stay untouched."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.faults.support import until
from tests.runs.sources import GIT, Source, git, listing
from tests.runs.support import descriptors, write_files
from tui_workbench.core.errors import StorageError
from tui_workbench.core.progress import Progress, listening
from tui_workbench.runs.snapshots.project_files import APPLE_DOUBLE, NEVER_TAKEN, is_never_taken


class TestContent:
    def test_files_come_back_byte_for_byte(self, source: Source) -> None:
        content = {
            "text.txt": b"one\ntwo\n",
            "crlf.txt": b"one\r\ntwo\r\n",
            "mixed.bin": bytes(range(256)) * 40,
            "empty": b"",
            "deep/er/still.py": b"print(1)",
            "ident.c": b"$Id$ $Id: 123 $\n",
            "utf16.txt": "two\n".encode("utf-16"),
            "pointer.bin": b"version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 1\n",
            ".hidden": b"h",
            ".gitattributes": (
                b"* text=auto eol=crlf ident\n*.bin filter=lfs diff=lfs merge=lfs -text\n"
                b"utf16.txt working-tree-encoding=UTF-16\ndeep/** export-ignore\n"
            ),
        }
        write_files(source.root, content)
        assert listing(source.take()) == {**content, "deep": "/", "deep/er": "/", "outputs": "/"}

    def test_any_file_name_works(self, source: Source) -> None:
        names = [
            "a b", "a\nb", "\n", "a\tb", "'", '"', "\\", "a\\b", "-x", "--", "*", "?", "[a]", "!x", "#x", "~", "$x",
            "\u4f60\u597d", "e\u0301", "\x01", "a:b", "git~1", "CON", ".gitmodules", "a ", " a", "1 x\ty",
            os.fsdecode(b"caf\xe9 \xff"),
        ]  # fmt: skip
        files = {path: f"content of {path!a}" for name in names for path in (name, f"in {name}/{name}")}
        write_files(source.root, files)
        copy = source.take()
        assert {path: (copy / path).read_text() for path in files} == files
        for name in names:
            (source.root / name).unlink()
        copy = source.take()
        assert not [name for name in names if (copy / name).exists()]
        assert all((copy / f"in {name}" / name).exists() for name in names)

    def test_executable_bits_are_kept(self, source: Source) -> None:
        write_files(source.root, {"run.sh": "#!/bin/sh\n", "data": ""})
        (source.root / "run.sh").chmod(0o755)
        copy = source.take()
        assert os.access(copy / "run.sh", os.X_OK)
        assert not (copy / "data").stat().st_mode & 0o111
        (source.root / "run.sh").chmod(0o644)
        assert not (source.take() / "run.sh").stat().st_mode & 0o111

    def test_only_the_user_can_read_a_working_copy(self, source: Source) -> None:
        assert source.take().stat().st_mode & 0o077 == 0

    def test_empty_folders_are_copied(self, source: Source) -> None:
        (source.root / "logs" / "of" / "today").mkdir(parents=True)
        assert listing(source.take()) == {"logs": "/", "logs/of": "/", "logs/of/today": "/", "outputs": "/"}

    def test_empty_project_has_a_snapshot(self, source: Source) -> None:
        assert listing(source.take()) == {"outputs": "/"}

    @pytest.mark.slow
    @settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
    @given(
        files=st.dictionaries(
            st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
                lambda name: (
                    name not in (".", "..", "outputs", ".gitignore", *NEVER_TAKEN)
                    and not name.startswith(APPLE_DOUBLE)
                    and name.lower() != ".git"
                    and len(name.encode()) < 200
                )
            ),
            st.binary(max_size=100),
            max_size=5,
        )
    )
    def test_any_files_come_back(self, source: Source, files: dict[str, bytes]) -> None:
        for path in source.root.iterdir():
            if path.name != ".workbench":
                path.unlink()
        write_files(source.root, files)
        assert listing(source.take()) == {**files, "outputs": "/"}


class TestChanges:
    def test_each_copy_is_the_project_at_its_submission(self, source: Source) -> None:
        write_files(source.root, {"kept": "1", "changed": "1", "removed": "1", "folder/file": "1", "becomes": "file"})
        first = source.take()
        write_files(source.root, {"changed": "2", "new": "2"})
        (source.root / "removed").unlink()
        shutil.rmtree(source.root / "folder")
        (source.root / "folder").write_text("now a file")
        (source.root / "becomes").unlink()
        write_files(source.root, {"becomes/a/folder": "2"})
        second = source.take()
        assert listing(first) == {
            "kept": b"1", "changed": b"1", "removed": b"1", "folder": "/", "folder/file": b"1", "becomes": b"file",
            "outputs": "/",
        }  # fmt: skip
        assert listing(second) == {
            "kept": b"1", "changed": b"2", "new": b"2", "folder": b"now a file", "becomes": "/", "becomes/a": "/",
            "becomes/a/folder": b"2", "outputs": "/",
        }  # fmt: skip

    def test_change_of_same_size_and_time_is_detected(self, source: Source) -> None:
        for content in ("one", "two", "six", "ten"):
            write_files(source.root, {"file": content})
            assert (source.take() / "file").read_text() == content

    def test_edits_of_a_copy_stay_in_that_copy(self, source: Source) -> None:
        write_files(source.root, {"file": "one", "folder/file": "one"})
        copy = source.take()
        (copy / "file").write_text("two")
        (copy / "folder" / "file").unlink()
        assert (source.root / "file").read_text() == "one"
        assert listing(source.take()) == {"file": b"one", "folder": "/", "folder/file": b"one", "outputs": "/"}


class TestRepositories:
    def test_user_repository_is_untouched(self, source: Source) -> None:
        write_files(source.root, {"a.py": "1", "b.py": "1", ".gitignore": ".workbench\n"})
        git(source.root, "init", "--quiet")
        git(source.root, "add", "a.py")
        git(source.root, "commit", "--quiet", "-m", "first")
        (source.root / "a.py").write_text("2")
        before = (git(source.root, "status", "--porcelain"), listing(source.root / ".git"))
        copy = source.take()
        assert (git(source.root, "status", "--porcelain"), listing(source.root / ".git")) == before
        assert listing(copy) == {"a.py": b"2", "b.py": b"1", ".gitignore": b".workbench\n", "outputs": "/"}

    def test_git_worktree_can_be_a_project(self, source: Source) -> None:
        write_files(source.root, {".git": "gitdir: /nowhere\n", "a.py": "1"})
        assert listing(source.take())["a.py"] == b"1"

    def test_git_variables_of_the_caller_are_ignored(
        self, source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write_files(source.root, {"a.py": "1"})
        for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_TEMPLATE_DIR"):
            monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
        assert (source.take() / "a.py").read_text() == "1"
        assert not (tmp_path / "elsewhere").exists()

    def test_nested_repositories_are_plain_folders(self, source: Source) -> None:
        nested = {
            "with commit/code.py": "1", "with commit/.gitignore": "*.tmp\n", "with commit/x.tmp": "t",
            "unborn/code.py": "1", "with commit/inner/deep.py": "1", "with commit/inner/a\nb": "1",
            "broken/.git/HEAD": "nonsense", "broken/code.py": "1", "as file/.git": "gitdir: ../nowhere\n",
            "as file/code.py": "1", "top.py": "1", "root.ckpt": "", "unborn/nested.ckpt": "", ".gitignore": "*.ckpt\n",
        }  # fmt: skip
        write_files(source.root, nested)
        for folder in ("unborn", "with commit", "with commit/inner"):
            git(source.root / folder, "init", "--quiet")
        for folder in ("with commit/inner", "with commit"):
            git(source.root / folder, "add", "--all")
            git(source.root / folder, "commit", "--quiet", "-m", "first")
        write_files(source.root, {"with commit/new.py": "uncommitted", "with commit/code.py": "changed"})
        copy = source.take()
        what = listing(copy)
        assert {name for name, content in what.items() if isinstance(content, bytes)} == {
            ".gitignore", "top.py", "unborn/code.py", "broken/code.py", "as file/code.py", "with commit/code.py",
            "with commit/new.py", "with commit/.gitignore", "with commit/inner/deep.py", "with commit/inner/a\nb",
            "root.ckpt", "with commit/x.tmp", "unborn/nested.ckpt",
        }  # fmt: skip
        assert what["with commit/code.py"] == b"changed"
        if source.snapshot.kind == "git":
            assert "with commit/x.tmp" not in source.committed()
        assert not any(".git" in Path(name).parts for name in what)

    def test_changes_of_a_nested_repository_are_tracked(self, source: Source) -> None:
        write_files(source.root, {"lib/a.py": "1", "top.py": "1"})
        assert (source.take() / "lib" / "a.py").read_text() == "1"
        git(source.root / "lib", "init", "--quiet")
        write_files(source.root, {"lib/a.py": "2", "lib/b.py": "2"})
        copy = source.take()
        assert [(copy / "lib" / name).read_text() for name in ("a.py", "b.py")] == ["2", "2"]
        git(source.root / "lib", "add", "--all")
        git(source.root / "lib", "commit", "--quiet", "-m", "first")
        (source.root / "lib" / "b.py").unlink()
        write_files(source.root, {"lib/a.py": "3", "lib/c.py": "3"})
        assert listing(source.take() / "lib") == {"a.py": b"3", "c.py": b"3"}
        shutil.rmtree(source.root / "lib")
        assert "lib" not in listing(source.take())


class TestStore:
    def test_snapshot_of_every_run_can_be_checked_out(self, with_git: Source) -> None:
        for content in ("one", "two", "three"):
            write_files(with_git.root, {"file": content})
            with_git.take()
        shown = [with_git.git("show", f"refs/runs/project_{number}:file") for number in (1, 2, 3)]
        assert shown == ["one", "two", "three"]
        assert with_git.git("rev-parse", "refs/runs/project_3").strip() == with_git.snapshot.commit_id

    def test_repository_has_no_hooks_and_is_private(self, with_git: Source) -> None:
        with_git.take()
        repository = with_git.state / "snapshots.git"
        assert not (repository / "hooks").exists()
        assert repository.stat().st_mode & 0o077 == 0

    @pytest.mark.slow
    def test_concurrent_snapshots_wait_for_each_other(self, with_git: Source) -> None:
        write_files(with_git.root, {f"file{number}": "x" * number for number in range(100)})
        failures: list[BaseException] = []

        def take(number: int) -> None:
            try:
                for turn in range(3):
                    write_files(with_git.root, {f"of {number}": str(turn)})
                    _, copy = with_git.take_to(f"project_{number}{turn}")
                    assert (copy / f"of {number}").read_text() == str(turn)
                    assert (copy / "file99").read_text() == "x" * 99
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=take, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures

    @pytest.mark.parametrize("left", ["index.lock", "packed-refs.lock"])
    def test_lock_files_of_a_killed_submit_are_removed(self, with_git: Source, left: str) -> None:
        write_files(with_git.root, {"file": "1"})
        with_git.take()
        (with_git.state / "snapshots.git" / left).write_text("left behind")
        write_files(with_git.root, {"file": "2", ".amlignore": "x\n"})
        assert (with_git.take() / "file").read_text() == "2"

    @pytest.mark.parametrize("damage", [b"", b"DIRC", b"nonsense" * 100])
    def test_damaged_index_is_created_again(self, with_git: Source, damage: bytes) -> None:
        write_files(with_git.root, {"file": "1", "other": "1"})
        with_git.take()
        (with_git.state / "snapshots.git" / "index").write_bytes(damage)
        write_files(with_git.root, {"file": "2"})
        assert listing(with_git.take()) == {"file": b"2", "other": b"1", "outputs": "/"}

    def test_broken_repository_is_reported_with_a_remedy(self, with_git: Source) -> None:
        write_files(with_git.root, {"file": "1"})
        with_git.take()
        shutil.rmtree(with_git.state / "snapshots.git" / "objects")
        (with_git.state / "snapshots.git" / "objects").write_text("in the way")
        with pytest.raises(StorageError, match=r"snapshots\.git") as raised:
            with_git.take()
        assert raised.value.remedy

    def test_git_of_a_killed_submit_is_waited_for(self, with_git: Source, tmp_path: Path) -> None:
        write_files(with_git.root, {"file": "1"})
        slow = tmp_path / "bin" / "git"
        slow.parent.mkdir()
        gate, began = tmp_path / "gate", tmp_path / "began"
        os.mkfifo(gate)
        slow.write_text(f'#!/bin/sh\ncase "$*" in *add*) : >{began}; read line <{gate};; esac\nexec {GIT} "$@"\n')
        slow.chmod(0o755)
        killed = os.fork()
        if killed == 0:
            os.environ["PATH"] = f"{slow.parent}:{os.environ['PATH']}"
            with_git.take_to("killed")
            os._exit(0)
        until(began.exists)
        os.kill(killed, signal.SIGKILL)
        os.waitpid(killed, 0)
        with open(with_git.state / "snapshots.git" / "workbench.lock") as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        thread = threading.Thread(target=with_git.take)
        thread.start()
        gate.write_text("go\n")
        thread.join(120)
        assert (with_git.state / "runs" / "project_1" / "work" / "file").read_text() == "1"

    def test_slow_git_reports_its_progress(
        self, with_git: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write_files(tmp_path, {"bin/git": f'#!/bin/sh\ncase "$*" in *add*) sleep 0.4;; esac\nexec {GIT} "$@"\n'})
        (tmp_path / "bin/git").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
        write_files(with_git.root, {"file": "1"})
        shown: list[Progress | None] = []
        with listening(shown.append):
            with_git.take()
        assert "snapshot" in {each.label for each in shown if each is not None}
        assert shown[-1] is None

    def test_small_change_hashes_only_changed_files(self, with_git: Source) -> None:
        write_files(with_git.root, {f"{number}": f"file {number}" for number in range(300)})
        with_git.take()
        objects = int(with_git.git("count-objects").split()[0])
        write_files(with_git.root, {"7": "changed"})
        with_git.take()
        # One file, one folder, one commit.
        assert int(with_git.git("count-objects").split()[0]) == objects + 3

    def test_temporary_objects_of_a_killed_git_are_removed(self, with_git: Source) -> None:
        write_files(with_git.root, {"file": "1"})
        with_git.take()
        objects = with_git.state / "snapshots.git" / "objects"
        write_files(objects, {"pack/tmp_pack_x": bytes(100), "tmp_objdir-bulk-fsync-x/12/345": "half"})
        write_files(with_git.state / "snapshots.git", {"index.lock": "", "config.lock": ""})
        with_git.take()
        assert not (objects / "pack" / "tmp_pack_x").exists()
        assert not (objects / "tmp_objdir-bulk-fsync-x").exists()

    @pytest.mark.parametrize("missing", ["HEAD", "config", "objects", "refs"])
    def test_incomplete_repository_is_completed(self, with_git: Source, missing: str) -> None:
        write_files(with_git.root, {"file": "1"})
        repository = with_git.state / "snapshots.git"
        git(with_git.root, "init", "--quiet", "--bare", "--template=", str(repository))
        path = repository / missing
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
        assert (with_git.take() / "file").read_text() == "1"

    def test_no_descriptors_stay_open(self, source: Source) -> None:
        write_files(source.root, {"file": "1"})
        source.take()
        before = descriptors()
        source.take()
        assert descriptors() == before

    def test_read_only_folder_is_reported(self, source: Source) -> None:
        (source.state / "runs").write_text("in the way")
        with pytest.raises(StorageError, match="runs"):
            source.take()


@pytest.mark.parametrize(
    ("path", "never"),
    [
        ("train.py", False), ("outputs", True), ("outputs/model", True), ("src/outputs/model", False),
        ("outputs.py", False), (".git", True), ("sub/.git/config", True), (".gitignore", False),
        (".workbench/runs/1/run.json", True), ("pkg/__pycache__/a.pyc", True), ("__pycache__.py", False),
        ("data/.DS_Store", True), ("data/._train.csv", True), (".data", False), ("a._b", False),
    ],
)  # fmt: skip
def test_paths_that_no_copy_holds(path: str, never: bool) -> None:
    assert is_never_taken(path) is never


@pytest.mark.parametrize("source", ["git"], indirect=True)
@pytest.mark.parametrize("name", ["", "objects", "objects/pack", "refs", "refs/runs"])
def test_repository_that_leads_elsewhere_through_a_link_is_refused(source: Source, tmp_path: Path, name: str) -> None:
    write_files(source.root, {"a": "one"})
    source.take()
    place = source.state / "snapshots.git" / name
    outside = tmp_path / "outside"
    place.rename(outside)
    place.symlink_to(outside)
    before = listing(outside)
    write_files(source.root, {"a": "two"})
    with pytest.raises(StorageError, match="a symbolic link is not allowed here"):
        source.take()
    assert listing(outside) == before


@pytest.mark.parametrize("source", ["git"], indirect=True)
def test_link_to_an_empty_folder_is_no_repository(source: Source, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (source.state / "snapshots.git").symlink_to(outside)
    with pytest.raises(StorageError, match="a symbolic link is not allowed here"):
        source.take()
    assert listing(outside) == {}
