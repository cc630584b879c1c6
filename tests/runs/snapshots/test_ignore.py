"""Ignore files work as in git."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.runs.support import as_anybody, let_everybody_in
from tui_workbench.core.errors import StorageError
from tui_workbench.runs.snapshots.ignore import IgnoreFile, is_excluded, parse, read_ignore_file

GIT = shutil.which("git") or "git"

PATTERNS = """\
*.log|keep?.txt|/top|deep/er|build/|**/logs|**/logs/debug|abc/**|a/**/b|**|*|!*.py|!*/|\\#hash|\\!bang|trailing\\ |[abc]
[!abc]x|[a-c]1|[]-]|[^a]|[[:digit:]]|[[:upper:]]y|foo*bar|**foo|foo**|***|a**b|/|//|/*|!|#comment||  |[|[a|x\\|\\*|\\a
"""
NAMES = (
    "a", "b", "abc", "a.log", "x.py", "build", "logs", "debug", "deep", "er", "top", "keep1.txt", "#hash", "!bang", "A",
    "a1", "ax", "zx", "-", "]", "foobar", "foo", "5", "Ay", "*", "x", "\u00e9", "trailing ", "a\nb",
)  # fmt: skip

patterns = st.sampled_from([pattern for pattern in PATTERNS.replace("\n", "|").split("|") if pattern != "trailing\\"])
made_patterns = st.text("abx*?/![]-\\.", max_size=8)
paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)


def ignored_by_git(repository: Path, files: dict[str, str], *paths: str) -> set[str]:
    """Return the paths that git ignores. They are created as files."""
    shutil.rmtree(repository / "tree", ignore_errors=True)
    (repository / "tree").mkdir()
    for path in paths:
        target = repository / "tree" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("")
    for folder, text in files.items():
        if (repository / "tree" / folder).is_dir():
            (repository / "tree" / folder / ".gitignore").write_bytes(text.encode())
    command = [GIT, "--git-dir", str(repository / "git"), "--work-tree", str(repository / "tree")]
    settings = ["-c", "core.excludesFile=/dev/null"]
    listed = subprocess.run(
        [*command, *settings, "ls-files", "--others", "--exclude-standard", "-z"],
        cwd=repository / "tree",
        capture_output=True,
        check=True,
    ).stdout.split(b"\0")
    return {path for path in paths if os.fsencode(path) not in listed}


def is_ignored(files: dict[str, str], path: str) -> bool:
    """Return True if the workbench ignores the path, as found by a walk of the tree."""
    parts = path.split("/")
    read: tuple[IgnoreFile, ...] = ()
    for depth in range(len(parts)):
        folder = "/".join(parts[:depth])
        read = (parse(files.get(folder, "").encode(), folder), *read)
        is_folder = depth < len(parts) - 1
        if is_excluded("/".join(parts[: depth + 1]), is_folder=is_folder, files=read):
            return True
    return False


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    subprocess.run([GIT, "init", "--quiet", "--bare", folder / "git"], check=True)
    return folder


@pytest.mark.slow
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    root=st.lists(patterns | made_patterns, max_size=4),
    nested=st.lists(patterns | made_patterns, max_size=2),
    path=paths,
)
def test_patterns_match_as_in_git(repository: Path, root: list[str], nested: list[str], path: str) -> None:
    files = {"": "\n".join(root)}
    if "/" in path:
        files[path.rpartition("/")[0]] = "\n".join(nested)
    assert is_ignored(files, path) is bool(ignored_by_git(repository, files, path))


@pytest.mark.parametrize("pattern", [p for p in PATTERNS.replace("\n", "|").split("|") if p != "trailing\\"])
def test_each_pattern_matches_as_in_git(repository: Path, pattern: str) -> None:
    paths = ("a.log", "x.py", "deep/er", "a/x/b", "a/b", "logs/debug", "abc/x", "#hash", "A/Ay", "5/-", "foo/bar/x",
             "build/x", "foo/build")  # fmt: skip
    files = {"": pattern}
    assert {path for path in paths if is_ignored(files, path)} == ignored_by_git(repository, files, *paths)


@pytest.mark.parametrize("text", ["data\r\n", "data\n", "data", "\n\ndata\n# end", "data  "])
def test_crlf_line_ends_are_ignored(text: str) -> None:
    assert parse(text.encode()).verdict("data", is_folder=False) is True


def test_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_bytes(b"\xef\xbb\xbfdata\n")
    assert read_ignore_file(str(tmp_path), "", ".gitignore").verdict("data", is_folder=False) is True


def test_missing_ignore_file_excludes_nothing(tmp_path: Path) -> None:
    assert read_ignore_file(str(tmp_path), "", ".gitignore").groups == ()
    assert read_ignore_file(str(tmp_path), "nowhere", ".gitignore").groups == ()


def test_non_utf8_names_can_be_excluded(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_bytes(b"caf\xe9*\n")
    file = read_ignore_file(str(tmp_path), "", ".gitignore")
    assert file.verdict(os.fsdecode(b"caf\xe9.txt"), is_folder=False) is True


@pytest.mark.slow
@pytest.mark.parametrize(
    "pattern",
    [
        "a*" * 30 + "b",
        "**/" * 30 + "x",
        "***" * 20 + "b",
        "?*" * 30 + "b",
        "[ab]*" * 30 + "c",
        "*a" * 30 + "/b",
        "a*" * 2000 + "b",
        "\n".join("a*" * 30 + f"b{number}" for number in range(500)),
        "\n".join(f"!{number}*{number}\n{number}*" for number in range(5_000)),
    ],
)
def test_every_pattern_is_matched_in_short_time(pattern: str) -> None:
    begun = time.process_time()
    file = parse(pattern.encode())
    for path in ("a" * 200, "a/" * 100 + "a", "aa/" * 60):
        file.may_match([path, path])
        file.verdict(path, is_folder=False)
    assert time.process_time() - begun < 5


@pytest.mark.parametrize("name", [".gitignore", ".amlignore"])
@pytest.mark.parametrize("kind", ["zero", "pipe", "sparse", "loop", "folder", "dangling", "denied"])
def test_ignore_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str, kind: str) -> None:
    path = tmp_path / name
    if kind == "zero":
        path.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "sparse":
        with path.open("wb") as file:
            file.truncate(1 << 40)
    elif kind == "loop":
        path.symlink_to(name)
    elif kind == "dangling":
        path.symlink_to("nowhere")
    elif kind == "denied":
        path.write_text("data\n")
        path.chmod(0)
        let_everybody_in(tmp_path)
    else:
        path.mkdir()

    def check() -> None:
        with pytest.raises(StorageError, match="cannot use this ignore file") as caught:
            read_ignore_file(str(tmp_path), "", name)
        assert caught.value.file == str(path)
        assert "4 MiB and 10000 patterns" in caught.value.remedy

    as_anybody(check) if kind == "denied" else check()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("x\n" * 10_001, "it has 10001 patterns, and at most 10000 are possible"),
        ("x" * 4_097, "one of its patterns is longer than 4096 bytes"),
    ],
)
def test_no_pattern_is_dropped_silently(tmp_path: Path, content: str, reason: str) -> None:
    (tmp_path / ".gitignore").write_text(content)
    with pytest.raises(StorageError, match=reason):
        read_ignore_file(str(tmp_path), "", ".gitignore")
    (tmp_path / ".gitignore").write_text(f"x\n# {content[:4095]}\n\n")
    assert read_ignore_file(str(tmp_path), "", ".gitignore").verdict("x", is_folder=False) is True
