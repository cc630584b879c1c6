"""What a snapshot leaves out, and what becomes of links."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.runs.sources import Source, listing
from tests.runs.support import as_anybody, write_files


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
