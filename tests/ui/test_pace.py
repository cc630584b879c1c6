"""How often is drawn: the environment says whether the terminal is near, but for tmux, which is asked."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.conftest import require
from tui_workbench.ui.pace import FAR, NEAR, is_far, tmux_is_far

if TYPE_CHECKING:
    from collections.abc import Iterator

SHOW = """
import os
from tui_workbench.ui.pace import Pace
pace = Pace(os.environ)
pace.tell_textual()
from textual.app import App
app = App()
pace.settle(app)
import textual.screen
print(round(1 / textual.screen.UPDATE_PERIOD), app.animation_level, "TEXTUAL_FPS" in os.environ)
"""


def paced(**variables: str) -> str:
    dropped = ("SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT", "TMUX", "TEXTUAL_FPS", "TEXTUAL_ANIMATIONS")
    clean = {name: value for name, value in os.environ.items() if name not in dropped}
    done = subprocess.run(
        [sys.executable, "-c", SHOW], env={**clean, **variables}, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def tmux() -> Iterator[tuple[list[str], str]]:
    """A tmux server: how to command it, and what TMUX says inside of it."""
    base = [require("tmux"), "-L", f"workbench-pace-{os.getpid()}", "-f", "/dev/null"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("SSH_", "TMUX"))}
    subprocess.run([*base, "new-session", "-d", "cat"], env=clean, check=True)
    told = subprocess.run(
        [*base, "display-message", "-p", "#{socket_path},#{pid},0"], stdout=subprocess.PIPE, text=True, check=True
    )
    yield base, told.stdout.strip()
    subprocess.run([*base, "kill-server"], check=True)


@pytest.mark.parametrize(
    ("variables", "far"),
    [({}, False), ({"SSH_CONNECTION": "a 1 b 2"}, True), ({"SSH_TTY": "/dev/pts/1"}, True), ({"SSH_TTY": ""}, False)],
    ids=str,
)
def test_ssh_is_seen_in_the_environment(variables: dict[str, str], far: bool) -> None:
    assert is_far(variables) is far


def test_over_ssh_less_is_drawn_and_nothing_moves_step_by_step() -> None:
    assert paced() == f"{NEAR} full False"
    assert paced(SSH_CONNECTION="a 1 b 2") == f"{FAR} none False"


def test_what_a_person_chose_counts() -> None:
    assert paced(SSH_CONNECTION="a 1 b 2", TEXTUAL_FPS="50") == "50 none True"


def test_tmux_knows_where_its_viewer_came_from(tmux: tuple[list[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    base, inside = tmux
    monkeypatch.setenv("TMUX", inside)
    subprocess.run([*base, "set-environment", "SSH_CONNECTION", "a 1 b 2"], check=True)
    assert tmux_is_far() is True
    assert paced(TMUX=inside) == f"{FAR} none False"
    subprocess.run([*base, "set-environment", "-r", "SSH_CONNECTION"], check=True)
    assert tmux_is_far() is False
    assert paced(TMUX=inside, SSH_CONNECTION="from when tmux was started") == f"{NEAR} full False"


def test_without_an_answer_of_tmux_the_environment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMUX", "/nowhere,1,0")
    assert tmux_is_far() is None
