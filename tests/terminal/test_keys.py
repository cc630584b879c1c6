"""Keys that start another program in the terminal, and the user's keymap, in the real program."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.terminal.test_main_screen import open_project as open_project

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.terminal.tmux import Tmux

EDITOR = """#!/bin/sh
for word do echo "word: $word"; done
for file do :; done
test -w "$file" && echo '# edited there' >> "$file" || echo "read-only: $(head -1 "$file")"
echo 'enter comes back'
read answer
"""


@pytest.fixture
def vim(tmp_path: Path) -> Path:
    """Return an editor that prints its arguments, adds a line to a writable file, and waits for enter."""
    path = tmp_path / "bin" / "vim"
    path.parent.mkdir()
    path.write_text(EDITOR)
    path.chmod(0o755)
    return path


@pytest.mark.tmux
def test_e_opens_the_external_editor_at_the_line(
    open_project: Callable[..., Tmux], project_root: Path, vim: Path
) -> None:
    (project_root / "hello.py").write_text("print('one')\nprint('two')\n")
    terminal = open_project(EDITOR=str(vim))
    terminal.until_text("hello.py", "ready")
    terminal.press("1", "G", "Enter")
    terminal.until_text("print('two')")
    terminal.press("Down", "End", "#", "M-e")
    terminal.until_text("word: +call cursor(2,14)", f"word: {project_root}/hello.py", "enter comes back")
    assert (project_root / "hello.py").read_text() == "print('one')\nprint('two')#\n# edited there\n"
    terminal.press("Enter")
    terminal.until_text("1 Files", "5 Jobs", "# edited there")
    assert "enter comes back" not in terminal.text()


@pytest.mark.tmux
def test_e_in_files_opens_the_file_without_a_line(
    open_project: Callable[..., Tmux], project_root: Path, vim: Path
) -> None:
    terminal = open_project(VISUAL=str(vim), EDITOR="false")
    terminal.until_text("hello.py", "ready")
    terminal.press("1", "G", "e")
    terminal.until_text(f"word: {project_root}/hello.py", "enter comes back")
    assert "cursor" not in terminal.text()
    terminal.press("Enter")
    terminal.until_text("1 Files", "5 Jobs")


@pytest.mark.tmux
def test_e_in_the_log_opens_a_read_only_copy(open_project: Callable[..., Tmux], project_root: Path, vim: Path) -> None:
    vim.write_text(EDITOR.replace('test -w "$file"', "false"))  # root may write anything
    terminal = open_project(EDITOR=str(vim))
    terminal.until_text("hello.py", "ready")
    terminal.press("C-r")
    terminal.until_text("completed", "1 line")
    terminal.press("4", "e")
    terminal.until_text("word: +call cursor(1,1)", "output.log", "read-only: hello")
    copy = next(line for line in terminal.lines() if line.endswith("output.log")).removeprefix("word: ")
    assert not copy.startswith(str(project_root))
    assert os.stat(copy).st_mode & 0o777 == 0o400
    terminal.press("Enter")
    terminal.until_text("1 Files", "5 Jobs")
    terminal.until(lambda: not os.path.exists(os.path.dirname(copy)))


@pytest.mark.tmux
def test_keymap_sets_keys_and_labels(open_project: Callable[..., Tmux], project_root: Path, home: Path) -> None:
    keymap = home / ".config" / "workbench-tui" / "keys.yaml"
    keymap.parent.mkdir(parents=True)
    keymap.write_text('run.start: f5\nfiles.open: [f4, enter]\nlist.down: "!"\nshell.open: ""\nview.zooom: z\n')
    terminal = open_project()
    terminal.until_text("keys.yaml", "unknown command", "'view.zooom'", "f5 Run", "Select a file and press f4")
    terminal.press("1", "!", "!", "!", "Enter")
    terminal.until_text("3 hello.py")
    # A terminal reads a key directly after escape as another key.
    terminal.press("Escape")
    terminal.until_text("f4 Open")
    terminal.press("C-p", *"run.start")
    terminal.until_text("Run the selected script", "f5")
    terminal.press("Escape")
    terminal.until(lambda: "Run the selected script" not in terminal.text())
    terminal.press("F5")
    terminal.until_text("completed", "1 line")
    assert (project_root / "hello.py").read_text() == 'print("hello")\n'


@pytest.mark.tmux
def test_e_on_a_target_opens_its_file(open_project: Callable[..., Tmux], project_root: Path, vim: Path) -> None:
    terminal = open_project(EDITOR=str(vim))
    terminal.until_text("hello.py", "ready")
    terminal.press("2", "e")
    terminal.until_text(f"word: {project_root}/aml_config/local.compute", "enter comes back")
    terminal.press("Enter")
    terminal.until_text("1 Files", "5 Jobs")


@pytest.mark.tmux
def test_shell_opens_in_the_project(open_project: Callable[..., Tmux], project_root: Path) -> None:
    terminal = open_project()
    terminal.until_text("hello.py", "ready")
    terminal.press("1", "!")
    terminal.until_text("returns to the workbench")
    terminal.press(*"echo in:$(basename $PWD)", "Enter")
    terminal.until_text(f"in:{project_root.name}\n")
    terminal.press(*"exit", "Enter")
    terminal.until_text("1 Files", "5 Jobs", "ready")


@pytest.mark.tmux
def test_shell_opens_in_the_copy_of_a_run(open_project: Callable[..., Tmux], project_root: Path) -> None:
    terminal = open_project()
    terminal.until_text("hello.py", "ready")
    terminal.press("C-r")
    terminal.until_text("completed", "1 line")
    (project_root / "hello.py").write_text("print('changed')\n")
    terminal.press("6")
    terminal.until_text("1 run", "Details")
    terminal.press("w")
    terminal.until_text("returns to the workbench")
    terminal.press(*"cat hello.py; read x", "Enter")
    terminal.until(lambda: any(line.startswith("print(") for line in terminal.lines()))
    terminal.press("Enter", *"exit", "Enter")
    terminal.until_text("1 run", "Details")


@pytest.mark.tmux
def test_ctrl_l_redraws_over_foreign_output(open_project: Callable[..., Tmux]) -> None:
    terminal = open_project()
    for key, shown in (("", "ready"), ("7", "of the targets of")):
        if key:
            terminal.press(key)
        terminal.until_text(shown)
        Path(terminal.call("display-message", "-p", "#{pane_tty}").strip()).write_text("\x1b[8;8HSomebody wrote this.")
        terminal.until_text("Somebody wrote this.")
        terminal.press("C-l")
        terminal.until(lambda: "Somebody wrote this." not in terminal.text())
        terminal.until_text(shown)
