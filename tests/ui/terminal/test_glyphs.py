"""What is drawn where there is nothing but ASCII."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

import tui_workbench
from tui_workbench.ui.charts.chart_drawing import MARKS
from tui_workbench.ui.formatting import BROKEN, READY, RUN_STATES, UNCHECKED
from tui_workbench.ui.terminal.glyphs import to_ascii
from tui_workbench.ui.terminal.safetext import safe_text

PACKAGE = Path(tui_workbench.__file__).parent


@given(st.text().map(safe_text))
def test_a_text_keeps_its_width_and_becomes_printable_ascii(text: str) -> None:
    shown = to_ascii(text)
    assert shown.isascii()
    assert shown.isprintable()
    assert len(shown) == cell_len(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("café über", "cafe uber"),
        ("cafe\u0301", "cafe"),
        ("日本", "????"),
        ("╭─ 1 Files ─╮", "+- 1 Files -+"),
        ("│ a…z │", "| a~z |"),
        ("▁▂▃▄▅▆▇█", "_,-:=%##"),
        ("⠁⠈⠂⠄⡀⣀⣿⠉⠛⡇", "''--..|'\"|"),
        ("[✓] nvidiaDocker", "[+] nvidiaDocker"),
    ],
)
def test_glyphs_and_letters_have_likenesses(text: str, shown: str) -> None:
    assert to_ascii(text) == shown


def test_states_that_differ_stay_different() -> None:
    looks = [*RUN_STATES.values()]
    assert len({to_ascii(look.glyph) for look in looks}) == len({look.glyph for look in looks}) == len(looks)
    assert len({to_ascii(look.glyph) for look in (READY, UNCHECKED, BROKEN)}) == 3


@pytest.mark.parametrize("glyphs", [MARKS[:10], "▤▧▦", "☐☑☒"], ids=["curves", "fills", "boxes"])
def test_marks_that_tell_things_apart_still_do(glyphs: str) -> None:
    assert len(set(map(to_ascii, glyphs))) == len(glyphs)


def drawn_in(path: Path) -> set[str]:
    """The characters of all texts in a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    constants = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return {
        character for value in constants if isinstance(value, str) for character in value if character.isprintable()
    }


def test_every_glyph_that_we_draw_has_a_form_of_its_own() -> None:
    """One that has none is drawn as `?`: give it one in `glyphs._FORMS`."""
    # The one that stands for what cannot be shown is a question mark indeed; the other modules list what others send.
    paths = [path for path in sorted(PACKAGE.glob("ui/**/*.py")) if path.name not in ("glyphs.py", "safetext.py")]
    unknown = {
        path.name: sorted(
            character
            for character in drawn_in(path) - {"\ufffd"}
            if to_ascii(character) in ("?", "") and character != "?"
        )
        for path in paths
    }
    assert {name: characters for name, characters in unknown.items() if characters} == {}
