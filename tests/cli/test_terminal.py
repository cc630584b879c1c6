"""A terminal shows all output of scripts, but interprets only colors and line erasing."""

from __future__ import annotations

import re
import unicodedata

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_workbench.cli.shared import terminal
from tui_workbench.cli.shared.terminal import TerminalFilter
from tui_workbench.core.plaintext import glyph, visible

PASSED = re.compile("\x1b\\[(?:[0-9;:]*m|[0-2]?K)")

pieces = st.sampled_from(
    [b"\x1b", b"[", b"m", b"K", b"31", b";", b"\x1b[31m", b"\x1b[0m", b"\x1b[2K", b"\x1b]0;title\x07", b"\x1bc",
     b"\x1b]52;c;aGk=\x07", b"\x1b[2J", b"\x1b[6n", b"\x1bP1$r\x1b\\", b"\x9b31m", b"\xc2\x9b2J", b"\xe2\x80\xae",
     b"\xe2\x80", b"\xff", b"\r", b"\n", b"\t", b"\b", b"\0", b"text", "\u00e9\u4f60\U0001f600".encode(),
     b"\xed\xa0\x80", b"\x1b[?1049h", b"\x1b[" + b"1;" * 50 + b"m", b"\x1b(0", b"\x0e", b"\x07"]
)  # fmt: skip
streams = st.lists(pieces | st.binary(max_size=6), max_size=30)


def is_text(character: str) -> bool:
    """Return False for control characters, surrogates and line separators."""
    return unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp")


def passed(*data: bytes) -> str:
    """Filter a stream that arrives in these chunks."""
    output = TerminalFilter()
    return (b"".join(output.feed(piece) for piece in data) + output.flush()).decode()


@given(streams)
def test_terminal_gets_text_colors_and_line_erasing(data: list[bytes]) -> None:
    left = PASSED.sub("", passed(*data))
    assert "\x1b" not in left
    assert all(is_text(character) or character in "\n\r\t" for character in left), ascii(left)


@given(streams, st.randoms())
def test_chunks_make_no_difference(data: list[bytes], random: object) -> None:
    whole = b"".join(data)
    assert passed(*data) == passed(whole) == passed(*(whole[i : i + 1] for i in range(len(whole))))


@given(st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp", "Cn"])))
def test_plain_text_passes_unchanged(text: str) -> None:
    shown = "".join(character if visible(character) == character else visible(character) for character in text)
    assert passed(text.encode()) == shown


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"plain\n", "plain\n"),
        (b"a\tb\r\n", "a\tb\r\n"),
        (b"\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m\x1b[0m"),
        (b"\x1b[38:2::1:2:3mx", "\x1b[38:2::1:2:3mx\x1b[0m"),
        (b"\x1b]0;title\x07", "\u241b]0;title\u2407"),
        (b"\x1b]52;c;aGk=\x1b\\", "\u241b]52;c;aGk=\u241b\\"),
        (b"\x1b[2J", "\u241b[2J"),
        (b"secret\b\b\b\b\b\bpublic", "secret\u2408\u2408\u2408\u2408\u2408\u2408public"),
        (b"10/10 [==]\b\b\b\b\b\b\r20/20", "10/10 [==]\r20/20"),
        (b"\x1b[6n", "\u241b[6n"),
        (b"\x1b[H", "\u241b[H"),
        (b"\x1b[3K", "\u241b[3K"),
        (b"\x1b[1A", "\u241b[1A"),
        (b"\x1bc", "\u241bc"),
        (b"\x1b[?1049h", "\u241b[?1049h"),
        (b"\x1b]8;;http://x\x07link", "\u241b]8;;http://x\u2407link"),
        (b"\x9b2J", "<9B>2J"),
        (b"\xc2\x9b2J", "<U+009B>2J"),
        (b"\xff\xfe", "<FF><FE>"),
        (b"\xe2\x80\xaeevil", "<U+202E>evil"),
        (b"\xe2\x80", "<E2><80>"),
        (b"\x1b", "\u241b"),
        (b"\x1b[", "\u241b["),
        (b"\x1b[" + b"1" * 70 + b"m", "\u241b[" + "1" * 70 + "m"),
        (b"\x00\x07\x7f", "\u2400\u2407\u2421"),
        (b"", ""),
    ],
)
def test_unsafe_sequences_are_shown_as_glyphs(data: bytes, shown: str) -> None:
    assert passed(data) == shown


def test_incomplete_sequence_is_held_back() -> None:
    output = TerminalFilter()
    assert output.feed(b"a\x1b[3") == b"a"
    assert output.feed(b"1mb") == b"\x1b[31mb"
    assert output.feed("\u4f60".encode()[:2]) == b""
    assert output.feed("\u4f60".encode()[2:]) == "\u4f60".encode()


def test_colors_are_reset_only_if_used() -> None:
    assert passed(b"plain").endswith("plain")
    assert passed(b"\x1b[31mred").endswith("\x1b[0m")


def screen(data: str) -> list[str]:
    """Return the lines that a terminal shows at the end."""
    terminal = pyte.Screen(60, 5)
    pyte.Stream(terminal).feed(data.replace("\n", "\r\n"))
    return [line.rstrip() for line in terminal.display]


@pytest.mark.parametrize(
    "bar",
    [
        b"downloading 100 %\r\x1b[Kdone\n",
        b"downloading 100 %\x1b[2K\rdone\n",
        b"downloading 100 %\r\x1b[0Kdone",
        b"a\tb\tc\ra\t\x1b[Kx\n",
        b"12345\r123\x1b[1Kx\n",
        b"one\ntwo long\r\x1b[Ktwo\nthree\n",
        b"\x1b[K\x1b[2K\x1b[1Knothing\n",
        b"\x1b[32mgreen and long\x1b[0m\r\x1b[Kshort\n",
    ],
)
def test_progress_bars_look_unfiltered(bar: bytes) -> None:
    obeyed = screen(bar.decode())
    assert screen(passed(bar)) == obeyed
    assert screen(passed(*(bar[i : i + 1] for i in range(len(bar))))) == obeyed


@given(st.characters())
def test_every_character_is_visible(character: str) -> None:
    shown = visible(character)
    assert shown in (character, glyph(character))
    assert all(map(is_text, shown))
    assert visible(shown) == shown


@pytest.mark.processes
@given(st.text())
def test_visible_text_is_one_line(text: str) -> None:
    assert "\n" not in visible(text)
    assert visible(visible(text)) == visible(text)


def test_rest_of_an_overlong_line_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "LONGEST_LINE", 10)
    data = b"short\n" + b"x" * 10 + b"\n" + b"y" * 11 + b"\rbehind\n" + b"z" * 100
    shown = f"short\n{'x' * 10}\n{'y' * 10} … the rest of the line is left out\rbehind\n"
    shown += f"{'z' * 10} … the rest of the line is left out"
    assert passed(data) == passed(*(data[i : i + 1] for i in range(len(data)))) == shown
