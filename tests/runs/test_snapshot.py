"""The working copy is the project as it was, byte for byte, with git and without; nothing of the user's is touched."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.faults.support import until
from tests.runs.support import as_anybody, descriptors, write_files
from tui_workbench.errors import StorageError
from tui_workbench.runs.snapshot import Snapshot, SnapshotStore, is_never_taken

GIT = shutil.which("git") or "git"


class Source:
    """A project folder and the snapshots of it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / 'a project\'s "folder"'
        self.root.mkdir()
        self.state = self.root / ".workbench"
        self.state.mkdir()
        self.taken = 0

    def take(self) -> Path:
        """A working copy of the project as it is now."""
        self.taken += 1
        self.snapshot, copy = self.take_to(f"project_{self.taken}")
        return copy

    def take_to(self, run_id: str) -> tuple[Snapshot, Path]:
        copy = self.state / "runs" / run_id / "work"
        return SnapshotStore(str(self.root), str(self.state)).take(run_id, str(copy)), copy

    def git(self, *arguments: str) -> str:
        """What a git command says about our hidden repository."""
        command = [GIT, "--git-dir", str(self.state / "snapshots.git"), *arguments]
        return subprocess.run(command, capture_output=True, check=True).stdout.decode("utf-8", "surrogateescape")

    def committed(self) -> list[str]:
        """The paths in the last snapshot."""
        return sorted(self.git("ls-tree", "-r", "-z", "--name-only", self.snapshot.commit_id).split("\0")[:-1])


@pytest.fixture(params=["git", "copy"])
def source(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    """A project on a machine with git, and on one without: what a run sees is the same."""
    if request.param == "copy":
        monkeypatch.setenv("PATH", str(tmp_path / "nothing here"))
    return Source(tmp_path)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder in which any user may write."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


@pytest.fixture
def with_git(tmp_path: Path) -> Source:
    return Source(tmp_path)


def git(folder: Path, *arguments: str) -> str:
    """What a git command of the user says in a folder."""
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

    @pytest.mark.parametrize(
        "name", ["a b", "a\nb", "\n", "a\tb", "'", '"', "\\", "a\\b", "-x", "--", "*", "?", "[a]", "!x", "#x", "~",
                 "$x", "\u4f60\u597d", "e\u0301", "\x01", "a:b", "git~1", "CON", ".gitmodules", "a ", " a", "1 x\ty"],
    )  # fmt: skip
    def test_any_name_will_do(self, source: Source, name: str) -> None:
        write_files(source.root, {name: "file", f"in {name}/{name}": "deeper"})
        copy = source.take()
        assert (copy / name).read_text() == "file"
        assert (copy / f"in {name}" / name).read_text() == "deeper"

    def test_names_that_are_no_utf8(self, source: Source) -> None:
        name = os.fsdecode(b"caf\xe9 \xff")
        write_files(source.root, {name: "file"})
        assert (source.take() / name).read_text() == "file"

    def test_executable_bits_stay(self, source: Source) -> None:
        write_files(source.root, {"run.sh": "#!/bin/sh\n", "data": ""})
        (source.root / "run.sh").chmod(0o755)
        copy = source.take()
        assert os.access(copy / "run.sh", os.X_OK)
        assert not (copy / "data").stat().st_mode & 0o111
        (source.root / "run.sh").chmod(0o644)
        assert not (source.take() / "run.sh").stat().st_mode & 0o111

    def test_only_the_user_may_look_into_a_copy(self, source: Source) -> None:
        assert source.take().stat().st_mode & 0o077 == 0

    def test_empty_folders_are_there(self, source: Source) -> None:
        (source.root / "logs" / "of" / "today").mkdir(parents=True)
        assert listing(source.take()) == {"logs": "/", "logs/of": "/", "logs/of/today": "/", "outputs": "/"}

    def test_an_empty_project_is_one(self, source: Source) -> None:
        assert listing(source.take()) == {"outputs": "/"}

    @settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
    @given(
        files=st.dictionaries(
            st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
                lambda name: (
                    name not in (".", "..", ".git", ".workbench", "outputs", "__pycache__", ".gitignore")
                    and name.lower() != ".git"
                    and len(name.encode()) < 200
                )
            ),
            st.binary(max_size=100),
            max_size=5,
        )
    )
    def test_whatever_the_files_are(self, source: Source, files: dict[str, bytes]) -> None:
        for path in source.root.iterdir():
            if path.name != ".workbench":
                path.unlink()
        write_files(source.root, files)
        assert listing(source.take()) == {**files, "outputs": "/"}


class TestChanges:
    def test_each_copy_is_the_project_of_its_moment(self, source: Source) -> None:
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

    def test_a_change_of_the_same_size_in_the_same_moment_is_seen(self, source: Source) -> None:
        for content in ("one", "two", "six", "ten"):
            write_files(source.root, {"file": content})
            assert (source.take() / "file").read_text() == content

    def test_editing_the_copy_changes_nothing_in_the_project_nor_in_the_next_copy(self, source: Source) -> None:
        write_files(source.root, {"file": "one", "folder/file": "one"})
        copy = source.take()
        (copy / "file").write_text("two")
        (copy / "folder" / "file").unlink()
        assert (source.root / "file").read_text() == "one"
        assert listing(source.take()) == {"file": b"one", "folder": "/", "folder/file": b"one", "outputs": "/"}


class TestExclusion:
    def test_what_the_ignore_files_exclude_is_linked(self, source: Source) -> None:
        write_files(
            source.root,
            {
                ".gitignore": "data/\n*.ckpt\n/secret.txt\n",
                ".amlignore": "docs/\n# a comment\n\nraw?.csv\n",
                "data/set.bin": "large",
                "model.ckpt": "weights",
                "deep/old.ckpt": "weights",
                "secret.txt": "s",
                "deep/secret.txt": "taken",
                "docs/page.md": "page",
                "raw1.csv": "1",
                "train.py": "pass",
            },
        )
        copy = source.take()
        linked = {name for name, what in listing(copy).items() if isinstance(what, str) and what.startswith("->")}
        assert linked == {"data", "model.ckpt", "deep/old.ckpt", "secret.txt", "docs", "raw1.csv"}
        assert (copy / "data" / "set.bin").read_text() == "large"
        assert (copy / "model.ckpt").resolve() == source.root / "model.ckpt"
        assert (copy / "deep" / "secret.txt").read_text() == "taken"
        if source.snapshot.kind == "git":
            assert source.committed() == [".amlignore", ".gitignore", "deep/secret.txt", "train.py"]

    def test_ignore_files_in_folders_count_and_can_bring_back(self, source: Source) -> None:
        write_files(
            source.root,
            {
                ".gitignore": "*.log\nbuild/\n",
                "sub/.gitignore": "!keep.log\nlocal/\n*.tmp\n",
                "sub/keep.log": "kept",
                "sub/other.log": "linked",
                "sub/local/x": "linked",
                "sub/a.tmp": "linked",
                "a.tmp": "kept",
            },
        )
        what = listing(source.take())
        assert what["sub/keep.log"] == b"kept"
        assert what["a.tmp"] == b"kept"
        linked = {name for name, content in what.items() if str(content).startswith("->")}
        assert linked == {"sub/other.log", "sub/local", "sub/a.tmp"}

    def test_a_list_of_what_is_wanted_brings_nothing_of_ours_back(self, source: Source) -> None:
        write_files(source.root, {".gitignore": "*\n!*/\n!*.py\n!.gitignore\n", "train.py": "1", "notes.txt": "linked"})
        write_files(source.root, {"outputs/old.py": "of another run", "pkg/__pycache__/x.py": "cache", "pkg/a.py": "2"})
        source.take()
        what = listing(source.take())
        assert {name for name, content in what.items() if isinstance(content, bytes)} == {
            ".gitignore",
            "train.py",
            "pkg/a.py",
        }
        assert what["notes.txt"] == f"-> {source.root}/notes.txt"
        assert not any(name.startswith((".workbench", "outputs/")) or "__pycache__" in name for name in what)

    def test_a_pattern_of_amlignore_cannot_be_overruled_by_gitignore(self, source: Source) -> None:
        write_files(source.root, {".gitignore": "!huge.bin\n", ".amlignore": "huge.bin\n", "huge.bin": "huge"})
        assert (source.take() / "huge.bin").is_symlink()

    def test_what_is_excluded_from_now_on_is_linked_from_now_on(self, source: Source) -> None:
        write_files(source.root, {"data/set.bin": "1", "other": "1"})
        assert not (source.take() / "data").is_symlink()
        write_files(source.root, {".gitignore": "data/\n", ".amlignore": "other\n"})
        copy = source.take()
        assert (copy / "data").is_symlink()
        assert (copy / "other").is_symlink()
        write_files(source.root, {".gitignore": "", ".amlignore": ""})
        copy = source.take()
        assert not (copy / "data").is_symlink()
        assert (copy / "data" / "set.bin").read_text() == "1"

    @pytest.mark.parametrize(
        "content", [b"data\r\n", b"\xef\xbb\xbfdata\n", b"data", b"\xff\xfe\ndata\n", b"data   \n"]
    )
    @pytest.mark.parametrize("name", [".gitignore", ".amlignore"])
    def test_ignore_files_of_other_systems_are_understood(self, source: Source, name: str, content: bytes) -> None:
        write_files(source.root, {name: content, "data": "1"})
        assert (source.take() / "data").is_symlink()

    def test_outputs_of_the_project_belong_to_no_run(self, source: Source) -> None:
        write_files(source.root, {"outputs/model.bin": "old", "src/outputs/fixture": "code", "src/.keep": ""})
        what = listing(source.take())
        assert what["outputs"] == "/"
        assert "outputs/model.bin" not in what
        assert what["src/outputs/fixture"] == b"code"

    def test_a_deeper_folder_of_that_name_can_be_excluded_like_any_other(self, source: Source) -> None:
        write_files(source.root, {".gitignore": "src/outputs/\n", "src/outputs/fixture": "data", "src/a.py": ""})
        assert (source.take() / "src" / "outputs" / "fixture").read_text() == "data"

    def test_bytecode_is_neither_taken_nor_linked(self, source: Source) -> None:
        write_files(source.root, {"pkg/__pycache__/a.pyc": "x", "pkg/a.py": "x", "only/__pycache__/b.pyc": "x"})
        assert not any("__pycache__" in name for name in listing(source.take()))

    def test_the_user_s_own_ignore_file_is_not_the_project_s(self, source: Source, home: Path) -> None:
        write_files(home, {".config/git/ignore": "*.txt\n", ".config/git/attributes": "* text eol=crlf\n"})
        write_files(home, {".gitconfig": "[core]\n\tautocrlf = true\n\texcludesFile = ~/.config/git/ignore\n"})
        write_files(source.root, {"notes.txt": "a\nb\n"})
        assert listing(source.take())["notes.txt"] == b"a\nb\n"

    @pytest.mark.usefixtures("source")  # with git and without
    def test_a_file_that_cannot_be_read_is_linked_and_a_folder_stands_in_nobody_s_way(self, open_folder: Path) -> None:
        def check() -> None:
            source = Source(open_folder)
            write_files(source.root, {"secret": "x", "folder/file": "x", "train.py": "x"})
            (source.root / "secret").chmod(0)
            (source.root / "folder").chmod(0)
            copy = source.take()
            (source.root / "folder").chmod(0o755)
            assert (copy / "secret").is_symlink()
            assert (copy / "train.py").read_text() == "x"

        as_anybody(check)

    def test_what_is_no_file_stands_in_nobody_s_way(self, source: Source) -> None:
        os.mkfifo(source.root / "pipe")
        write_files(source.root, {"train.py": "x"})
        assert listing(source.take())["train.py"] == b"x"


class TestLinks:
    def test_links_lead_where_they_led(self, source: Source, tmp_path: Path) -> None:
        write_files(tmp_path, {"outside/data.txt": "outside"})
        write_files(source.root, {"inside.txt": "inside", "folder/file": "file", ".gitignore": "excluded\n"})
        write_files(source.root, {"excluded": "linked"})
        links = {
            "to file": "inside.txt",
            "to folder": "folder",
            "broken": "nowhere",
            "out": "../outside/data.txt",
            "folder/out": "../../outside/data.txt",
            "out folder": "../outside",
            "absolute": str(tmp_path / "outside"),
            "to excluded": "excluded",
            "to outputs": "outputs/best",
            "roundabout": "folder/../inside.txt",
            "myself": "myself",
        }
        for name, leads in links.items():
            (source.root / name).symlink_to(leads)
        copy = source.take()
        assert all((copy / name).is_symlink() for name in links)
        assert (copy / "to file").resolve() == copy / "inside.txt"
        assert (copy / "to folder" / "file").resolve() == copy / "folder" / "file"
        assert os.readlink(copy / "broken") == "nowhere"
        for name in ("out", "folder/out"):
            assert (copy / name).read_text() == "outside"
        assert (copy / "out folder" / "data.txt").read_text() == "outside"
        assert (copy / "absolute" / "data.txt").read_text() == "outside"
        assert (copy / "to excluded").read_text() == "linked"
        (copy / "outputs" / "best").write_text("of this run")
        assert (copy / "to outputs").read_text() == "of this run"
        assert (copy / "roundabout").read_text() == "inside"

    def test_an_excluded_link_leads_where_it_led(self, source: Source, tmp_path: Path) -> None:
        write_files(tmp_path, {"outside/data.txt": "outside"})
        write_files(source.root, {".gitignore": "data\n"})
        (source.root / "data").symlink_to("../outside")
        assert (source.take() / "data" / "data.txt").read_text() == "outside"


class TestRepositories:
    def test_the_user_s_repository_is_untouched(self, source: Source) -> None:
        write_files(source.root, {"a.py": "1", "b.py": "1", ".gitignore": ".workbench\n"})
        git(source.root, "init", "--quiet")
        git(source.root, "add", "a.py")
        git(source.root, "commit", "--quiet", "-m", "first")
        (source.root / "a.py").write_text("2")
        before = (git(source.root, "status", "--porcelain"), listing(source.root / ".git"))
        copy = source.take()
        assert (git(source.root, "status", "--porcelain"), listing(source.root / ".git")) == before
        assert listing(copy) == {"a.py": b"2", "b.py": b"1", ".gitignore": b".workbench\n", "outputs": "/"}

    def test_a_worktree_whose_git_is_a_file_is_a_project_like_any_other(self, source: Source) -> None:
        write_files(source.root, {".git": "gitdir: /nowhere\n", "a.py": "1"})
        assert listing(source.take())["a.py"] == b"1"

    def test_variables_of_a_surrounding_git_do_not_lead_astray(
        self, source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write_files(source.root, {"a.py": "1"})
        for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_TEMPLATE_DIR"):
            monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
        assert (source.take() / "a.py").read_text() == "1"
        assert not (tmp_path / "elsewhere").exists()

    def test_repositories_in_the_project_are_folders_like_any_other(self, source: Source) -> None:
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
        }  # fmt: skip
        assert what["with commit/code.py"] == b"changed"
        assert (copy / "with commit" / "x.tmp").is_symlink()
        assert (copy / "unborn" / "nested.ckpt").is_symlink()
        assert not any(".git" in Path(name).parts for name in what)

    def test_a_repository_that_appears_changes_and_goes_is_followed(self, source: Source) -> None:
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
    def test_every_run_s_snapshot_can_be_had_again(self, with_git: Source) -> None:
        for content in ("one", "two", "three"):
            write_files(with_git.root, {"file": content})
            with_git.take()
        shown = [with_git.git("show", f"refs/runs/project_{number}:file") for number in (1, 2, 3)]
        assert shown == ["one", "two", "three"]
        assert with_git.git("rev-parse", "refs/runs/project_3").strip() == with_git.snapshot.commit_id

    def test_it_has_no_hooks_and_is_the_user_s_alone(self, with_git: Source) -> None:
        with_git.take()
        repository = with_git.state / "snapshots.git"
        assert not (repository / "hooks").exists()
        assert repository.stat().st_mode & 0o077 == 0

    def test_two_at_once_take_turns(self, with_git: Source) -> None:
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

    @pytest.mark.parametrize("left", ["index.lock", "info/exclude.new"])
    def test_what_a_killed_submit_left_stands_in_nobody_s_way(self, with_git: Source, left: str) -> None:
        write_files(with_git.root, {"file": "1"})
        with_git.take()
        (with_git.state / "snapshots.git" / left).write_text("left behind")
        write_files(with_git.root, {"file": "2", ".amlignore": "x\n"})
        assert (with_git.take() / "file").read_text() == "2"

    @pytest.mark.parametrize("damage", [b"", b"DIRC", b"nonsense" * 100])
    def test_a_damaged_index_is_made_anew(self, with_git: Source, damage: bytes) -> None:
        write_files(with_git.root, {"file": "1", "other": "1"})
        with_git.take()
        (with_git.state / "snapshots.git" / "index").write_bytes(damage)
        write_files(with_git.root, {"file": "2"})
        assert listing(with_git.take()) == {"file": b"2", "other": b"1", "outputs": "/"}

    def test_a_store_that_cannot_be_mended_is_named_with_what_to_do(self, with_git: Source) -> None:
        write_files(with_git.root, {"file": "1"})
        with_git.take()
        shutil.rmtree(with_git.state / "snapshots.git" / "objects")
        (with_git.state / "snapshots.git" / "objects").write_text("in the way")
        with pytest.raises(StorageError, match=r"snapshots\.git") as raised:
            with_git.take()
        assert raised.value.remedy

    def test_a_git_that_outlives_a_killed_submit_is_waited_for(self, with_git: Source, tmp_path: Path) -> None:
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
        thread.join(30)
        assert (with_git.state / "runs" / "project_1" / "work" / "file").read_text() == "1"

    def test_a_small_change_to_a_large_project_hashes_only_that(self, with_git: Source) -> None:
        write_files(with_git.root, {f"{number}": f"file {number}" for number in range(300)})
        with_git.take()
        objects = int(with_git.git("count-objects").split()[0])
        write_files(with_git.root, {"7": "changed"})
        with_git.take()
        # One file, one folder, one commit.
        assert int(with_git.git("count-objects").split()[0]) == objects + 3

    def test_nothing_stays_open(self, source: Source) -> None:
        write_files(source.root, {"file": "1"})
        source.take()
        before = descriptors()
        source.take()
        assert descriptors() == before

    def test_the_plan_shows_the_commands(self, with_git: Source) -> None:
        add, checkout = SnapshotStore(str(with_git.root), str(with_git.state)).commands("/run/work")
        assert add[1:] == ("add", "--all")
        assert checkout[-1] == "--prefix=/run/work/"

    def test_a_folder_that_cannot_be_written_is_named(self, source: Source) -> None:
        (source.state / "runs").write_text("in the way")
        with pytest.raises(StorageError, match="runs"):
            source.take()


@pytest.mark.parametrize(
    ("path", "never"),
    [
        ("train.py", False), ("outputs", True), ("outputs/model", True), ("src/outputs/model", False),
        ("outputs.py", False), (".git", True), ("sub/.git/config", True), (".gitignore", False),
        (".workbench/runs/1/run.json", True), ("pkg/__pycache__/a.pyc", True), ("__pycache__.py", False),
    ],
)  # fmt: skip
def test_what_no_copy_ever_holds(path: str, never: bool) -> None:
    assert is_never_taken(path) is never
