"""The program in many kinds of terminals."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from benchmarks.terminal import Terminal
from tests.conftest import require
from tests.terminal.tmux import Tmux, workbench

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tui_workbench.projects.project import Project

SGR = re.compile(rb"\x1b\[([\d;]*)m")


class Seen:
    """The complete main screen in a kind of terminal."""

    def __init__(self, project: Project, environment: dict[str, str], *arguments: str) -> None:
        variables = [f"{name}={value}" for name, value in environment.items()]
        # The pseudo-terminal removes NO_COLOR, as the benchmarks require.
        command = ["env", *variables, *workbench(*arguments, project.root)]
        self.raw = b""
        self.terminal = Terminal(command, changes={"COLORTERM": "", "LANG": "C.UTF-8", "LC_ALL": ""})
        self.terminal.watch = self._take
        self.terminal.until(lambda: all(text in self.terminal.text() for text in ("hello.py", "ready", "No runs yet")))
        self.terminal.send("1")
        self.terminal.until(lambda: "Open" in self.terminal.text().splitlines()[-1])
        self.terminal.settle(0.05)

    def _take(self, data: bytes, when: float) -> None:
        self.raw += data

    @property
    def colors(self) -> set[str]:
        """The kinds of color sequences that were written."""
        kinds = set()
        for codes in SGR.findall(self.raw):
            parts = codes.decode().split(";")
            while parts:
                code = parts.pop(0)
                if code in ("38", "48"):
                    kinds.add("truecolor" if parts[0] == "2" else "256")
                    del parts[: 4 if parts[0] == "2" else 2]
                elif (
                    code.isdecimal() and (30 <= int(code) <= 49 or 90 <= int(code) <= 107) and code not in ("39", "49")
                ):
                    kinds.add("16")
        return kinds

    def row_of(self, text: str) -> int:
        """Return the screen row with the text."""
        return next(row for row, line in enumerate(self.terminal.screen.display) if text in line)


@pytest.fixture
def seen(project: Project) -> Iterator[Callable[..., Seen]]:
    """Opens the program in a kind of terminal."""
    opened: list[Seen] = []

    def open_it(environment: dict[str, str], *arguments: str) -> Seen:
        opened.append(Seen(project, environment, *arguments))
        return opened[-1]

    yield open_it
    for one in opened:
        one.terminal.close()


@pytest.mark.processes
@pytest.mark.parametrize(
    ("environment", "arguments", "colors", "unicode"),
    [
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, (), {"truecolor"}, True),
        ({"TERM": "xterm-256color"}, (), {"256"}, True),
        ({"TERM": "xterm"}, (), {"16"}, True),
        ({"TERM": "screen"}, (), {"16"}, True),
        ({"TERM": "tmux-256color"}, ("--ascii",), {"256"}, False),
        ({"TERM": "linux"}, (), {"16"}, False),
        ({"TERM": "vt100"}, (), set(), False),
        ({"TERM": "xterm-256color", "LANG": "C"}, (), {"256"}, False),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, (), set(), True),
    ],
    ids=["truecolor", "256", "xterm", "screen", "tmux-ascii", "linux", "vt100", "locale-C", "no-color"],
)
def test_output_suits_the_terminal(
    seen: Callable[..., Seen], environment: dict[str, str], arguments: tuple[str, ...], colors: set[str], unicode: bool
) -> None:
    one = seen(environment, *arguments)
    assert one.colors == colors
    assert one.raw.isascii() is not unicode
    text = one.terminal.text()
    assert ("╭─ 1 Files" in text or "┏━ 1 Files" in text) is unicode
    # The row under the cursor is distinct in every kind of terminal.
    left, other = (one.terminal.screen.buffer[one.row_of(text)][4] for text in ("aml_config", "local.compute"))
    assert (left.bg, left.reverse, left.underscore) != (other.bg, other.reverse, other.underscore)


@pytest.mark.processes
def test_focused_pane_has_another_frame_without_color(seen: Callable[..., Seen]) -> None:
    one = seen({"TERM": "vt100"})
    lines = one.terminal.text().splitlines()
    assert any(line.startswith("#= 1 Files") for line in lines)
    one.terminal.send("2")
    one.terminal.until(lambda: "#= 2 Compute" in one.terminal.text() and "+- 1 Files" in one.terminal.text())


@pytest.mark.parametrize(
    ("environment", "size", "said"),
    [
        ({"TERM": "dumb"}, (80, 24), "TERM is 'dumb', a terminal that cannot position the cursor"),
        ({"TERM": ""}, (80, 24), "TERM is not set"),
        ({"TERM": "xterm"}, (30, 24), "the terminal has 30 columns and 24 lines; the screens need at least 40 and 10"),
    ],
    ids=["dumb", "unset", "small"],
)
def test_unsupported_terminal_gets_an_error_only(
    project: Project, environment: dict[str, str], size: tuple[int, int], said: str
) -> None:
    raw: list[bytes] = []
    columns, rows = size
    with Terminal(workbench(project.root), columns=columns, rows=rows, changes=environment) as terminal:
        terminal.watch = lambda data, when: raw.append(data)
        while terminal.pump(10):
            pass
        assert os.waitstatus_to_exitcode(terminal.close()) == 2
    text = b"".join(raw).decode()
    assert "\x1b" not in text
    assert said in text.replace("\r\n", " ")
    assert text.count("\n") == 1


@pytest.mark.parametrize("redirected", ["stdin", "stdout", "stderr"])
def test_redirection_gets_an_error(project: Project, redirected: str) -> None:
    """Textual draws on stderr, so the screens would be invisible, and their keys would act."""
    ours, theirs = os.openpty()
    try:
        streams: dict[str, int] = {"stdin": theirs, "stdout": theirs, "stderr": subprocess.PIPE}
        if redirected != "stderr":
            streams[redirected] = subprocess.DEVNULL
        done = subprocess.run(workbench(project.root), **streams, text=True, check=False)  # type: ignore[call-overload]
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 2
    assert f"{redirected} is not a terminal" in done.stderr


@pytest.mark.tmux
@pytest.mark.parametrize("name", ["tmux-256color", "screen"])
def test_tmux_shows_the_screen(project: Project, home: Path, name: str) -> None:
    command = ["env", f"TERM={name}", "COLORTERM=", *workbench(project.root)]
    with Tmux(command, size=(100, 30), name=f"{os.getpid()}-{name}", environment={"HOME": str(home)}) as terminal:
        terminal.until_text("╭─ 1 Files", "hello.py", "✓ local", "No runs yet")


@pytest.mark.tmux
def test_gnu_screen_shows_the_screen(project: Project, tmp_path: Path) -> None:
    folder = tmp_path / "screens"
    folder.mkdir(mode=0o700)
    changes = {"SCREENDIR": str(folder), "LC_ALL": "C.UTF-8"}
    command = [require("screen"), "-c", "/dev/null", "-U", "-S", "workbench-see", *workbench(project.root)]
    with Terminal(command, changes=changes) as terminal:
        try:
            terminal.until(lambda: all(text in terminal.text() for text in ("1 Files", "hello.py", "✓ local")))
            # GNU screen does not support true color and shows blinking text instead.
            assert not any(cell.blink for row in terminal.screen.buffer.values() for cell in row.values())
        finally:
            quit_it = [command[0], "-S", "workbench-see", "-X", "quit"]
            subprocess.run(quit_it, env={**os.environ, **changes}, check=False)
