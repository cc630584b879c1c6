"""The user's keymap and its errors."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tui_workbench
from tests.ui.test_formatting import make_run
from tests.ui.textual_internals import name_of_character
from tui_workbench.cli import run
from tui_workbench.core import directories
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.model import RunState
from tui_workbench.ui.commands.command import key_label, shown_key, use_keys
from tui_workbench.ui.commands.keymap import key_name, load_keymap, read_keymap
from tui_workbench.ui.commands.registry import COMMANDS, SCOPES
from tui_workbench.ui.formatting import reason_of
from tui_workbench.ui.start import use_keymap

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def keymap_file() -> Iterator[Path]:
    """Return the path of the user's keymap; the default keys are restored afterwards."""
    path = Path(directories.keymap_path())
    path.parent.mkdir(parents=True)
    yield path
    use_keys({})


def complaints(text: str) -> list[tuple[int, int, str]]:
    return [(error.line, error.column, error.message) for error in read_keymap(text, "keys.yaml").errors]


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("?", "question_mark"),
        ("!", "exclamation_mark"),
        ("-", "minus"),
        ("+", "plus"),
        ("Esc", "escape"),
        ("pgup", "pageup"),
        ("page_down", "pagedown"),
        ("Ctrl+R", "ctrl+r"),
        ("shift+ctrl+up", "ctrl+shift+up"),
        ("alt+?", "alt+question_mark"),
        ("ctrl++", "ctrl+plus"),
        ("F5", "f5"),
        ("space", "space"),
        ("question_mark", "question_mark"),
        ("G", "G"),
        ("ä", "ä"),
        ("", ""),
        ("foo", ""),
        ("f25", ""),
        ("hyper+foo", ""),
        ("ctrl+ctrl+a", ""),
        ("wurst+a", ""),
        ("ctrl+", ""),
    ],
)
def test_key_names_accept_common_spellings(written: str, name: str) -> None:
    assert key_name(written) == name


@given(st.characters(codec="ascii", min_codepoint=33, max_codepoint=126))
def test_character_keys_have_textual_names(character: str) -> None:
    assert key_name(character) == name_of_character(character)


def test_keymap_accepts_every_default_key() -> None:
    for command in COMMANDS.values():
        for key in filter(None, command.default_keys.split(",")):
            assert key_name(key) == key, command.id


def test_keymap_replaces_default_keys() -> None:
    text = 'run.start: F5, ctrl+r\nfiles.run: [S, "!"]\nview.zoom: ""\nshell.open:\n'
    keymap = read_keymap(text, "keys.yaml")
    assert keymap.errors == ()
    assert keymap.keys == {
        "run.start": "f5,ctrl+r",
        "files.run": "S,exclamation_mark",
        "view.zoom": "",
        "shell.open": "",
    }


def test_two_commands_can_swap_keys() -> None:
    keymap = read_keymap("jobs.again: x\njobs.cancel: a\n", "keys.yaml")
    assert keymap.errors == ()
    assert keymap.keys == {"jobs.again": "x", "jobs.cancel": "a"}


def test_invalid_entries_are_reported_and_the_rest_applies() -> None:
    text = "run.start: f5\nview.zooom: z\nfiles.run: foo\nfiles.search: ctrl+i\nfile.save: s\nlog_search.mode: r\n"
    keymap = read_keymap(text, "keys.yaml")
    assert keymap.keys == {"run.start": "f5"}
    assert complaints(text) == [
        (2, 13, "unknown command 'view.zooom'"),
        (3, 12, "unknown key 'foo'"),
        (4, 15, "terminals send ctrl+i as tab"),
        (5, 12, "'s' cannot be the key of file.save, which works while you type text"),
        (6, 18, "'r' cannot be the key of log_search.mode, which works while you type text"),
    ]
    assert keymap.errors[0].remedy == "Did you mean 'view.zoom'?"
    assert all(error.remedy for error in keymap.errors)


def test_duplicate_key_in_a_scope_is_an_error() -> None:
    assert complaints("jobs.again: x\n") == [(1, 13, "x is already the key of jobs.cancel in the same pane or dialog")]
    assert complaints("jobs.again: f5\njobs.cancel: f5\n") == [
        (2, 14, "f5 is already the key of jobs.again in the same pane or dialog")
    ]


def test_scopes_can_share_a_key() -> None:
    assert complaints("files.run: x\n") == []  # x cancels in Jobs


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("- a\n", 1, "expected lines of `command: key`"),
        ("run.start: [a\n", 2, "invalid YAML"),
        ("view.zoom: @\n", 1, "invalid YAML"),
        ("view.zoom: {a: b}\n", 1, "expected a key or a list of keys for view.zoom"),
        ("view.zoom: a\nview.zoom: b\n", 2, "view.zoom already has keys on line 1"),
    ],
)
def test_invalid_file_is_reported(text: str, line: int, message: str) -> None:
    ((at, _, said),) = complaints(text)
    assert (at, said[: len(message)]) == (line, message)


LINES = st.tuples(
    st.sampled_from([name for name in COMMANDS if name.startswith(("files.", "jobs.", "log."))]),
    st.sampled_from(["a", "x", "r", "f5", "ctrl+r", "[a, x]", "''"]),
)


@settings(max_examples=30)
@given(st.lists(LINES.map(": ".join), max_size=12).map("\n".join) | st.text(max_size=200))
def test_any_text_is_read_without_duplicate_keys(text: str) -> None:
    keymap = read_keymap(text, "keys.yaml")
    use_keys(keymap.keys)
    try:
        for scope in SCOPES.values():
            keys = [key for command in scope for key in command.keys.split(",") if key]
            assert len(keys) == len(set(keys))
    finally:
        use_keys({})


def test_missing_file_gives_an_empty_keymap(keymap_file: Path) -> None:
    assert load_keymap().keys == {}
    assert use_keymap() is None


def test_unreadable_file_is_reported(keymap_file: Path) -> None:
    keymap_file.write_bytes(b"\xff\xfe\xff")
    trouble = use_keymap()
    assert trouble is not None
    assert str(trouble).startswith(f"{keymap_file}: cannot read the keymap")


def test_commands_and_bindings_use_the_keymap(keymap_file: Path) -> None:
    keymap_file.write_text("run.start: f5\nview.zoom: [z, alt+z]\n")
    assert use_keymap() is None
    assert COMMANDS["run.start"].keys == COMMANDS["run.start"].binding.key == "f5"
    assert COMMANDS["view.zoom"].keys == "z,alt+z"


def test_screens_show_the_first_error_and_count_the_others(keymap_file: Path) -> None:
    keymap_file.write_text("a.b: x\nc.d: y\nrun.start: f5\n")
    trouble = use_keymap()
    assert isinstance(trouble, ConfigurationError)
    assert (trouble.line, trouble.message) == (1, "unknown command 'a.b'")
    assert trouble.remedy.endswith("`workbench-tui keys` lists all 2 errors.")
    assert COMMANDS["run.start"].keys == "f5"


def test_keys_command_lists_keys_and_errors(keymap_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keymap_file.write_text("run.start: f5\nview.zooom: z\n")
    assert run(["keys", "--query", "[?id=='run.start'].keys | [0]", "--json"]) == 3
    told = capsys.readouterr()
    assert told.out == '"f5"\n'
    assert told.err == (f"workbench-tui: {keymap_file}:2:13: unknown command 'view.zooom'. Did you mean 'view.zoom'?\n")
    keymap_file.unlink()
    assert run(["keys"]) == 0
    assert "Run the selected script." in capsys.readouterr().out


def test_shown_key_follows_the_keymap(keymap_file: Path) -> None:
    assert shown_key("run.start", "ctrl+r") == "ctrl+r"
    keymap_file.write_text('run.start: "?"\nhelp.show: f1\nview.zoom: ""\n')
    assert use_keymap() is None
    assert shown_key("run.start", "ctrl+r") == "?"
    assert shown_key("view.zoom", "z") == "ctrl+p view.zoom"
    assert shown_key("jobs.cancel", "x") == "x"


def test_hint_to_retry_follows_the_keymap(keymap_file: Path) -> None:
    keymap_file.write_text("jobs.reconnect: f6\n")
    assert use_keymap() is None
    run = make_run(RunState.UNKNOWN)._replace(reason="unreachable since 14:03:12: no route to host")
    assert reason_of(run).endswith("press f6 in Jobs to retry now.")


@pytest.mark.slow
def test_hints_have_the_default_keys_of_their_commands() -> None:
    package = Path(tui_workbench.__file__).parent
    shown = {
        (ast.literal_eval(call.args[0]), ast.literal_eval(call.args[1]))
        for path in package.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "shown_key"
    }
    assert len(shown) > 10
    assert shown == {(name, key_label(COMMANDS[name].default_keys)) for name, _ in shown}
