"""Files that snapshots omit, and the targets of links."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.runs.sources import Source, listing
from tests.runs.support import as_anybody, write_files
from tui_workbench.core.errors import StorageError


class TestExclusion:
    def test_gitignored_files_are_copied_and_amlignored_left_out(self, source: Source) -> None:
        write_files(
            source.root,
            {
                ".gitignore": "data/\n*.ckpt\n/secret.txt\n",
                ".amlignore": "docs/\n# a comment\n\nraw?.csv\ndata/raw/\n",
                "data/set.bin": "large",
                "data/raw/huge.bin": "huge",
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
        what = listing(copy)
        assert not [name for name, content in what.items() if str(content).startswith("->")]
        assert not {"docs", "raw1.csv", "data/raw"} & set(what)
        assert what["data/set.bin"] == b"large"
        assert what["model.ckpt"] == what["deep/old.ckpt"] == b"weights"
        assert (what["secret.txt"], what["deep/secret.txt"]) == (b"s", b"taken")
        if source.snapshot.kind == "git":
            assert source.committed() == [".amlignore", ".gitignore", "deep/secret.txt", "train.py"]

    def test_writing_an_ignored_file_does_not_change_the_project(self, source: Source) -> None:
        write_files(source.root, {".gitignore": "*.pt\ncheckpoints/\n", "out/ckpt.pt": "old", "checkpoints/1": "old"})
        first, second = source.take(), source.take()
        for name in ("out/ckpt.pt", "checkpoints/1"):
            (first / name).write_text("new")
            assert (source.root / name).read_text() == (second / name).read_text() == "old"

    def test_copy_keeps_time_mode_and_holes(self, source: Source) -> None:
        write_files(source.root, {".gitignore": "*.bin\n", "a.bin": "x", "sparse.bin": "begin"})
        os.utime(source.root / "a.bin", (1e9, 1e9))
        (source.root / "a.bin").chmod(0o640)
        with (source.root / "sparse.bin").open("r+b") as file:
            file.truncate(40 << 20)
            file.seek(30 << 20)
            file.write(b"middle")
        copy = source.take()
        assert (copy / "a.bin").stat().st_mtime == 1e9
        assert (copy / "a.bin").stat().st_mode & 0o777 == 0o640
        assert (copy / "sparse.bin").read_bytes() == (source.root / "sparse.bin").read_bytes()
        assert (copy / "sparse.bin").stat().st_blocks * 512 < 1 << 20

    def test_nested_ignore_files_apply_and_can_include_again(self, source: Source) -> None:
        write_files(
            source.root,
            {
                ".gitignore": "*.log\nbuild/\n",
                "sub/.gitignore": "!keep.log\nlocal/\n*.tmp\n",
                "sub/keep.log": "kept",
                "sub/other.log": "ignored",
                "sub/local/x": "ignored",
                "sub/a.tmp": "ignored",
                "a.tmp": "kept",
            },
        )
        what = listing(source.take())
        assert {name for name, content in what.items() if content == b"kept"} == {"sub/keep.log", "a.tmp"}
        ignored = {"sub/other.log", "sub/local/x", "sub/a.tmp"}
        assert {name for name, content in what.items() if content == b"ignored"} == ignored
        if source.snapshot.kind == "git":
            assert not ignored & set(source.committed())

    def test_allow_list_does_not_include_workbench_files(self, source: Source) -> None:
        write_files(source.root, {".gitignore": "*\n!*/\n!*.py\n!.gitignore\n", "train.py": "1", "notes.txt": "copied"})
        write_files(source.root, {"outputs/old.py": "of another run", "pkg/__pycache__/x.py": "cache", "pkg/a.py": "2"})
        source.take()
        what = listing(source.take())
        assert {name for name, content in what.items() if isinstance(content, bytes)} == {
            ".gitignore",
            "train.py",
            "pkg/a.py",
            "notes.txt",
        }
        assert not any(name.startswith((".workbench", "outputs/")) or "__pycache__" in name for name in what)

    def test_gitignore_cannot_override_amlignore(self, source: Source) -> None:
        write_files(source.root, {".gitignore": "!huge.bin\n", ".amlignore": "huge.bin\n", "huge.bin": "huge"})
        assert not (source.take() / "huge.bin").exists()

    def test_newly_excluded_file_leaves_the_snapshot(self, source: Source) -> None:
        write_files(source.root, {"data/set.bin": "1", "other": "1"})
        assert (source.take() / "other").exists()
        write_files(source.root, {".gitignore": "data/\n", ".amlignore": "other\n"})
        copy = source.take()
        if source.snapshot.kind == "git":
            assert source.committed() == [".amlignore", ".gitignore"]
        assert (copy / "data" / "set.bin").read_text() == "1"
        assert not (copy / "other").exists()
        write_files(source.root, {".gitignore": "", ".amlignore": ""})
        copy = source.take()
        assert (copy / "data" / "set.bin").read_text() == (copy / "other").read_text() == "1"
        if source.snapshot.kind == "git":
            assert source.committed() == [".amlignore", ".gitignore", "data/set.bin", "other"]

    @pytest.mark.parametrize(
        "content", [b"data\r\n", b"\xef\xbb\xbfdata\n", b"data", b"\xff\xfe\ndata\n", b"data   \n"]
    )
    def test_ignore_files_of_other_systems_work(self, source: Source, content: bytes) -> None:
        write_files(source.root, {".amlignore": content, "data": "1"})
        assert not (source.take() / "data").exists()

    @pytest.mark.parametrize("name", [".amlignore", ".gitignore", "sub/.gitignore"])
    def test_project_with_an_unusable_ignore_file_is_refused(self, source: Source, name: str) -> None:
        write_files(source.root, {name: b"secret.txt\n" + bytes(4 << 20), "sub/secret.txt": "1"})
        with pytest.raises(StorageError, match="larger than 4 MiB") as caught:
            source.take()
        assert caught.value.file == os.path.join(source.root, name)

    def test_virtual_environment_is_left_out_in_any_folder(self, source: Source) -> None:
        write_files(source.root, {"my env/pyvenv.cfg": "", "my env/lib/a.py": "", "sub/conda/conda-meta/history": ""})
        write_files(source.root, {".gitignore": "ignored/\n", "ignored/venv/pyvenv.cfg": "", "ignored/a": "1"})
        write_files(source.root, {"code.py": "1", ".mypy_cache/x": "1"})
        copy = source.take()
        assert listing(copy) == {
            ".gitignore": b"ignored/\n", "code.py": b"1", "ignored": "/", "ignored/a": b"1", "sub": "/", "outputs": "/"
        }  # fmt: skip
        if source.snapshot.kind == "git":
            assert source.committed() == [".gitignore", "code.py"]

    def test_data_is_linked_and_not_copied(self, source: Source) -> None:
        write_files(source.root, {"data/set.bin": "large", "deep/a[1]*.bin": "large", "deep/code.py": "1"})
        copy = source.take(data=("data", "deep/a[1]*.bin"))
        assert (copy / "data").readlink() == source.root / "data"
        assert (copy / "deep/a[1]*.bin").readlink() == source.root / "deep/a[1]*.bin"
        if source.snapshot.kind == "git":
            assert source.committed() == ["deep/code.py"]

    def test_too_long_path_is_left_out(self, source: Source) -> None:
        folder = os.open(source.root, os.O_RDONLY)
        for _ in range(16):
            os.mkdir("d" * 240, dir_fd=folder)
            deeper = os.open("d" * 240, os.O_RDONLY, dir_fd=folder)
            os.close(folder)
            folder = deeper
        os.close(os.open("file", os.O_CREAT, dir_fd=folder))
        os.close(folder)
        write_files(source.root, {"train.py": "1"})
        assert (source.take() / "train.py").read_text() == "1"

    def test_project_outputs_are_left_out(self, source: Source) -> None:
        write_files(source.root, {"outputs/model.bin": "old", "src/outputs/fixture": "code", "src/.keep": ""})
        what = listing(source.take())
        assert what["outputs"] == "/"
        assert "outputs/model.bin" not in what
        assert what["src/outputs/fixture"] == b"code"

    def test_nested_outputs_folder_can_be_excluded(self, source: Source) -> None:
        write_files(source.root, {".gitignore": "src/outputs/\n", "src/outputs/fixture": "data", "src/a.py": ""})
        assert (source.take() / "src" / "outputs" / "fixture").read_text() == "data"

    def test_bytecode_is_left_out(self, source: Source) -> None:
        write_files(source.root, {"pkg/__pycache__/a.pyc": "x", "pkg/a.py": "x", "only/__pycache__/b.pyc": "x"})
        assert not any("__pycache__" in name for name in listing(source.take()))

    def test_user_ignore_file_does_not_apply(self, source: Source, home: Path) -> None:
        write_files(home, {".config/git/ignore": "*.txt\n", ".config/git/attributes": "* text eol=crlf\n"})
        write_files(home, {".gitconfig": "[core]\n\tautocrlf = true\n\texcludesFile = ~/.config/git/ignore\n"})
        write_files(source.root, {"notes.txt": "a\nb\n"})
        assert listing(source.take())["notes.txt"] == b"a\nb\n"

    @pytest.mark.usefixtures("source")  # with git and without
    def test_unreadable_files_are_left_out(self, open_folder: Path) -> None:
        def check() -> None:
            source = Source(open_folder)
            write_files(source.root, {".gitignore": "/ignored\n", "ignored": "x"})
            write_files(source.root, {"secret": "x", "folder/file": "x", "train.py": "x"})
            (source.root / "ignored").chmod(0)
            (source.root / "secret").chmod(0)
            (source.root / "folder").chmod(0)
            copy = source.take()
            (source.root / "folder").chmod(0o755)
            assert not os.path.lexists(copy / "secret")
            assert not os.path.lexists(copy / "ignored")
            assert (copy / "train.py").read_text() == "x"

        as_anybody(check)

    def test_special_files_are_left_out(self, source: Source) -> None:
        os.mkfifo(source.root / "pipe")
        write_files(source.root, {"train.py": "x"})
        assert listing(source.take())["train.py"] == b"x"


class TestLinks:
    def test_links_keep_their_targets(self, source: Source, tmp_path: Path) -> None:
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

    def test_ignored_link_keeps_its_target(self, source: Source, tmp_path: Path) -> None:
        write_files(tmp_path, {"outside/data.txt": "outside"})
        write_files(source.root, {".gitignore": "data\n"})
        (source.root / "data").symlink_to("../outside")
        assert (source.take() / "data" / "data.txt").read_text() == "outside"

    @pytest.mark.parametrize("ignored", [False, True])
    def test_link_into_the_project_points_into_the_copy(self, source: Source, tmp_path: Path, ignored: bool) -> None:
        write_files(source.root, {".gitignore": "*.pt\n" + "*link\n" * ignored, "out/a.pt": "project"})
        (tmp_path / "roundabout").symlink_to(source.root)
        links = {
            "absolute link": str(source.root / "out" / "a.pt"),
            "deep/absolute link": str(source.root / "out" / "a.pt"),
            "out and in link": f"../{source.root.name}/out/a.pt",
            "by another link": f"{tmp_path}/roundabout/out/a.pt",
        }
        (source.root / "deep").mkdir()
        for name, leads in links.items():
            (source.root / name).symlink_to(leads)
        copy = source.take()
        for name in links:
            (copy / name).write_text(name)
            assert (copy / "out/a.pt").read_text() == name
        assert (source.root / "out/a.pt").read_text() == "project"
