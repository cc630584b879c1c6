"""Drawing in ASCII."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color

import tui_workbench
from tui_workbench.ui.charts.chart_drawing import MARKS
from tui_workbench.ui.formatting import BROKEN, READY, RUN_STATES, UNCHECKED
from tui_workbench.ui.terminal.glyphs import AsciiOnly
from tui_workbench.ui.terminal.safetext import safe_text

PACKAGE = Path(tui_workbench.__file__).parent


def to_ascii(text: str) -> str:
    (segment,) = AsciiOnly().apply([Segment(text)], Color(0, 0, 0))
    return segment.text


@given(st.text().map(safe_text))
def test_text_keeps_its_width_and_becomes_printable_ascii(text: str) -> None:
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
def test_glyphs_and_letters_have_ascii_forms(text: str, shown: str) -> None:
    assert to_ascii(text) == shown


def test_states_stay_distinct() -> None:
    looks = [*RUN_STATES.values()]
    assert len({to_ascii(look.glyph) for look in looks}) == len({look.glyph for look in looks}) == len(looks)
    assert len({to_ascii(look.glyph) for look in (READY, UNCHECKED, BROKEN)}) == 3


@pytest.mark.parametrize("glyphs", [MARKS[:10], "▤▧▦", "☐☑☒"], ids=["curves", "fills", "boxes"])
def test_marks_stay_distinct(glyphs: str) -> None:
    assert len(set(map(to_ascii, glyphs))) == len(glyphs)


def drawn_in(path: Path) -> set[str]:
    """Return the characters of all strings in a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    constants = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return {
        character for value in constants if isinstance(value, str) for character in value if character.isprintable()
    }


@pytest.mark.slow
def test_every_glyph_of_the_package_has_a_form() -> None:
    """To fix a failure, add the glyph to `glyphs._FORMS`."""
    # The excluded modules list foreign characters; U+FFFD is drawn as a question mark.
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
