"""Control sequences in names, values and errors have no effect in a real terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.runs.support import make_run
from tests.terminal.tmux import Tmux, workbench
from tui_workbench.projects.project import Project

HOSTILE = "\x1b]2;evil\x07\x1b[2J\u202eloss\x1b[c"
"""Sets the title, clears the screen, reverses the text direction and requests the device attributes."""

CRASH = """\
import sys
from tui_workbench import __main__, cli
def crash(arguments):
    raise RuntimeError({hostile!r})
cli.run = crash
__main__.main()
"""

CRASH_OF_SCREENS = """\
import sys
from tui_workbench import __main__
from tui_workbench.ui.app import WorkbenchApp
def crash(self):
    raise RuntimeError({hostile!r})
WorkbenchApp.on_mount = crash
sys.argv = ["workbench-tui", {root!r}]
__main__.main()
"""


@contextmanager
def terminal(command: list[str]) -> Iterator[Tmux]:
    name = f"hostile-{os.getpid()}"
    with Tmux(command, size=(120, 40), name=name, environment={"HOME": os.environ["HOME"]}) as tmux:
        yield tmux


def is_untouched(tmux: Tmux) -> bool:
    """Check that the title is unchanged and that the terminal answered nothing."""
    return "evil" not in tmux.title and "\u202e" not in tmux.text()


@pytest.fixture
def hostile_run(project: Project) -> None:
    directory = make_run(project, "project_1700000000001", 1, state="failed", exit_code=1, reason=f"bad {HOSTILE}")
    line = {"name": HOSTILE, "step": 0, "value": 0.5, "time": 1.0}
    Path(directory.file("metrics.jsonl")).write_text(json.dumps(line) + "\n")
    Path(directory.file("output.log")).write_text(f"before {HOSTILE}\b\b\b after\n")


@pytest.mark.tmux
@pytest.mark.usefixtures("hostile_run")
@pytest.mark.parametrize(
    "command",
    [
        ("history", "list", "-o", "table"), ("history", "list", "-o", "table", "--query", "[]"),
        ("history", "info", "-r", "1", "-o", "table"), ("history", "info", "-r", "1", "-o", "tsv"),
        ("history", "info", "-r", "1"), ("history", "info", "-r", "1", "--plain"), ("logs", "1"), ("status",),
    ],
    ids=" ".join,
)  # fmt: skip
def test_control_sequences_in_names_are_shown(project_root: Path, command: tuple[str, ...]) -> None:
    with terminal(workbench(*command, "--project", str(project_root))) as tmux:
        tmux.until_text("left-with-0")
        assert is_untouched(tmux)


@pytest.mark.tmux
@pytest.mark.parametrize(
    ("script", "said"), [(CRASH, "RuntimeError"), (CRASH_OF_SCREENS, "Report:")], ids=["command", "screens"]
)
def test_control_sequences_in_tracebacks_are_shown(project_root: Path, script: str, said: str) -> None:
    code = script.format(hostile=HOSTILE, root=str(project_root))
    with terminal([sys.executable, "-c", code]) as tmux:
        tmux.until_text("left-with-", said)
        assert is_untouched(tmux)


@pytest.mark.tmux
def test_doctor_shows_a_hostile_environment(project_root: Path) -> None:
    command = ["env", f"LANG={HOSTILE}", f"PATH={os.environ['PATH']}:/{HOSTILE}", *workbench("doctor")]
    with terminal([*command, "--project", str(project_root)]) as tmux:
        tmux.until_text("left-with-")
        assert is_untouched(tmux)
