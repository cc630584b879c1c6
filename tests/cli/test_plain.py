"""`--plain`: one `name: value` per line, without colors, boxes and columns."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.support import Installed, InTerminal, options_of
from tests.runs.support import make_run
from tui_workbench.cli import COMMANDS, parse
from tui_workbench.cli.shared.output import PLAIN, plain_text
from tui_workbench.cli.shared.terminal import PlainFilter
from tui_workbench.projects.project import Project


@pytest.fixture
def workbench(project_root: Path) -> Installed:
    return Installed(project_root)


class TestFormat:
    def test_record_has_no_empty_values(self) -> None:
        record: dict[str, object] = {
            "id": 1,
            "reason": None,
            "note": "",
            "pinned": False,
            "tags": [],
            "loss": 0.123456789012,
        }
        assert plain_text(record) == "id: 1\npinned: false\nloss: 0.123457\n"

    def test_list_begins_with_its_length(self) -> None:
        assert plain_text([{"a": 1, "b": 2}, {"a": 3, "b": 4}], ["a"]) == "results: 2\n\na: 1\n\na: 3\n"
        assert plain_text([]) == "results: 0\n"
        assert plain_text(["x", "y"]) == "x\ny\n"

    def test_nested_values_have_their_path(self) -> None:
        record = {"properties": {"CommitId": "1f"}, "steps": [{"title": "a"}, {"title": "b"}]}
        assert plain_text(record) == "properties CommitId: 1f\nstep 1 title: a\nstep 2 title: b\n"

    def test_arguments_are_quoted_and_lists_have_commas(self) -> None:
        assert plain_text({"arguments": ["--name", "a b"], "files": ["a b", "c"]}) == (
            "arguments: --name 'a b'\nfiles: a b, c\n"
        )

    def test_control_characters_become_glyphs(self) -> None:
        assert plain_text({"diff": "-a\n+\x1b[2Jb\n"}) == "diff: -a\n  +␛[2Jb\n"

    def test_lines_of_a_text_are_indented(self) -> None:
        assert plain_text({"note": "fine\nstatus: Completed"}) == "note: fine\n  status: Completed\n"


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.words[0] != "shell"], ids=lambda c: " ".join(c.words))
def test_every_command_with_output_has_plain(command: object) -> None:
    from tui_workbench.cli import Command

    assert isinstance(command, Command)
    assert "--output" not in options_of(command) or "--plain" in options_of(command)


def test_plain_overrides_other_formats() -> None:
    command = next(command for command in COMMANDS if command.words == ("history", "list"))
    assert parse(command, ["--plain"]).output == parse(command, ["-o", "tsv", "--plain"]).output == PLAIN
    assert parse(command, []).output == "json"


@pytest.mark.usefixtures("home")
def test_history_is_printed_run_by_run(project: Project, workbench: Installed) -> None:
    make_run(project, "project_1700000000001", 1, state="completed", exit_code=0)
    make_run(project, "project_1700000000002", 2, state="failed", exit_code=3, reason="exit code 3")
    out = workbench.run("history", "list", "--plain").out
    first, *runs = out.split("\n\n")
    assert first == "results: 2"
    assert [run.splitlines()[0] for run in runs] == ["run_number: 2", "run_number: 1"]
    assert "reason: exit code 3" in runs[0].splitlines()
    assert all(re.fullmatch(r"[^:]+: .+", line) for run in runs for line in run.splitlines())


def test_run_is_followed_in_plain_lines(workbench: Installed) -> None:
    (workbench.folder / "hello.py").write_text(
        r"""print("\x1b[31mred\x1b[0m"); print(" 10 %\r 50 %\r100 %"); print("half", end="")"""
    )
    result = workbench.run("experiment", "submit", "-c", "local", "--plain", "hello.py")
    assert result.code == 0
    assert result.out.splitlines()[1:] == ["red", "100 %", "half"]
    assert workbench.run("logs", "--plain", "1").out.splitlines() == ["red", "100 %", "half"]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (b"a\tb\n", "a b\n"),
        (b"ab\b\bcd\n", "cd\n"),
        (b"done\r\nnext\n", "done\nnext\n"),
        (b"\x1b]0;title\x07x\x1b[?25l\n", "x\n"),
        (b"\xff\n", "<FF>\n"),
        (b"no end", "no end\n"),
        (b"", ""),
    ],
)
def test_overwritten_text_is_left_out(written: bytes, said: str) -> None:
    shown = PlainFilter()
    assert (shown.feed(written) + shown.flush()).decode() == said


@pytest.mark.processes
@settings(max_examples=60)
@given(st.lists(st.sampled_from([b"abc", b"\r", b"\n", b"\x1b[31m", b"\x1b", b"[", b"m", b"\xc3", b"\xa4", b"\b"])))
def test_chunks_make_no_difference(pieces: list[bytes]) -> None:
    one, many = PlainFilter(), PlainFilter()
    whole = one.feed(b"".join(pieces)) + one.flush()
    assert b"".join(map(many.feed, pieces)) + many.flush() == whole
    assert not re.search(rb"[\x00-\x09\x0b-\x1f]", whole)


BAR = """\
from tui_workbench.cli import COMMANDS, find_command, parse
from tui_workbench.cli.shared.progress_bar import shared
from tui_workbench.core.progress import Progress
import sys
command, rest = find_command(sys.argv[1:])
parse(command, rest)
shared().show(Progress("sending", 40.0, 100.0, "files", 0.0, 10.0, 5.0))
print("shown")
"""


@pytest.mark.processes
@pytest.mark.parametrize(("options", "bars"), [(("--plain",), 0), ((), 1)], ids=["plain", "usual"])
def test_plain_draws_no_progress_bar(options: tuple[str, ...], bars: int, tmp_path: Path) -> None:
    command = [sys.executable, "-c", BAR, "history", "export", "--format", "csv", *options, "there"]
    with InTerminal(command, changes={"TERM": "xterm"}, directory=str(tmp_path)) as terminal:
        terminal.until_text("shown")
        assert terminal.raw.count(b"\x1b[K") == bars
