"""`safetext` removes everything unsafe and keeps everything readable."""

from __future__ import annotations

import io
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.color import Color
from rich.console import Console
from rich.text import Text

from tui_workbench.ui.terminal.safetext import MAX_COLUMN, SafeLine, is_safe, safe_line, safe_text, truncate_middle

# Format characters that are visible signs, or that shape the visible letters beside them.
VISIBLE_FORMAT = set(range(0x600, 0x606)) | {0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}

ESCAPES = (
    b"\x1b]0;title\x07",
    b"\x1b]52;c;aGVsbG8=\x07",
    b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\",
    b"\x1b[2J",
    b"\x1b[6n",
    b"\x1bc",
    b"\x1b[?1049h",
    b"\x1bP1;2|dcs\x1b\\",
    b"\x9b31m",
    b"\xc2\x9b31m",
    b"\xc2\x9d0;title\xc2\x9c",
    b"\x1b]0;never ends",
    b"\x1b[",
    b"\x1b[31",
    b"\x1b[3;A",
    b"\x1b[38;5m",
    b"\x1b[1;38;2;1;2;3;4mx",
    b"\x1b[" + b"9" * 5000 + b"m",
    b"\x1b[?25l",
    b"\x1b[10A",
    b"\x1b(0",
    b"\x0e\x0f",
)

# Lines of parts that occur in logs: text, colors, cursor movements, random bytes.
pieces = st.one_of(
    st.binary(max_size=12),
    st.text(max_size=8).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.sampled_from(
        [*ESCAPES, b"\r", b"\b", b"\t", b"\x1b[K", b"\x1b[2K", b"\x1b[1K", b"\x1b[5C", b"\x1b[9D", b"\x1b[3G"]
    ),
    st.sampled_from([b"\x1b[0m", b"\x1b[m", b"\x1b[1;31m", b"\x1b[48;5;200m", b"\x1b[38:2::1:2:3m", "漢字".encode()]),
)
lines = st.lists(pieces, max_size=12).map(b"".join)


def assert_safe(text: str) -> None:
    for character in text:
        category = unicodedata.category(character)
        assert category not in {"Cc", "Cs", "Zl", "Zp"}, repr(character)
        assert category != "Cf" or ord(character) in VISIBLE_FORMAT, repr(character)
        assert not 0xFE00 <= ord(character) <= 0xFE0F
    assert not text or cell_len(text[0]) > 0, "a combining mark would sit on its neighbor's cell"


def assert_well_formed(line: SafeLine) -> None:
    position = 0
    for start, end, _ in line.spans:
        assert position <= start < end <= len(line.plain)
        position = end


def as_text(line: SafeLine) -> Text:
    text = Text(line.plain, no_wrap=True, end="")
    for start, end, style in line.spans:
        text.stylize(style, start, end)
    return text


class TestSafeText:
    @given(st.text() | st.binary().map(lambda data: data.decode("utf-8", "surrogateescape")))
    def test_no_control_or_invisible_character_passes(self, text: str) -> None:
        assert_safe(safe_text(text))

    @given(st.characters(min_codepoint=0, max_codepoint=0x10FFFF))
    def test_every_character_is_visible(self, character: str) -> None:
        shown = safe_text(character)
        assert_safe(shown)
        assert cell_len(shown) > 0 or 0xFE00 <= ord(character) <= 0xFE0F

    @given(st.text())
    def test_safe_text_is_idempotent(self, text: str) -> None:
        assert safe_text(safe_text(text)) == safe_text(text)
        assert is_safe(safe_text(text))

    @pytest.mark.parametrize("text", ["", "train.py", "Übung – 漢字 ✓ 🚀", "قائمة", "e\u0301"])
    def test_readable_text_is_unchanged(self, text: str) -> None:
        assert safe_text(text) == text

    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("a\nb", "a␊b"),
            ("\x1b]0;x\x07", "␛]0;x␇"),
            ("\x7f\x00", "␡␀"),
            ("\x9b31m", "<U+009B>31m"),
            ("a\u202eb", "a<U+202E>b"),
            ("a\u200bb", "a<U+200B>b"),
            ("\u2028", "<U+2028>"),
            ("\ud800", "<U+D800>"),
            (b"caf\xe9".decode("utf-8", "surrogateescape"), "caf<E9>"),
            ("\u26a0\ufe0f", "\u26a0"),
            ("a\tb", "a       b"),
            ("漢\tb", "漢      b"),
            ("\u0301x", "◌\u0301x"),
            ("\U000e0041", "<U+E0041>"),
        ],
    )
    def test_replacements_name_the_character(self, text: str, shown: str) -> None:
        assert safe_text(text) == shown

    def test_line_ends_are_kept_on_request(self) -> None:
        assert safe_text("a\r\nb\n\x1b", multiline=True) == "a\nb\n␛"


class TestTruncateMiddle:
    @given(st.text(), st.integers(-1, 40))
    def test_result_fits_the_width(self, text: str, width: int) -> None:
        shown = truncate_middle(text, width)
        assert cell_len(shown) <= max(0, width)
        assert_safe(shown)

    @pytest.mark.parametrize(
        ("width", "shown"), [(20, "aml_config/gpu.comp"), (11, "aml_c….comp"), (2, "a…"), (1, "…"), (0, "")]
    )
    def test_both_ends_are_kept(self, width: int, shown: str) -> None:
        assert truncate_middle("aml_config/gpu.comp", width) == shown

    def test_wide_characters_are_not_cut(self) -> None:
        assert truncate_middle("漢字漢字", 6) == "漢…字"

    def test_combining_mark_stays_with_its_letter(self) -> None:
        assert truncate_middle("xxxxxxe\u0301", 3) == "x…e\u0301"


class TestSafeLine:
    @given(lines)
    def test_no_control_or_invisible_character_passes(self, data: bytes) -> None:
        line = safe_line(data)
        assert_safe(line.plain)
        assert_well_formed(line)

    @given(lines)
    def test_console_writes_only_colors_and_text(self, data: bytes) -> None:
        out = io.StringIO()
        Console(file=out, force_terminal=True, color_system="truecolor", width=10**6).print(as_text(safe_line(data)))
        written = out.getvalue().removesuffix("\n")
        while (start := written.find("\x1b")) >= 0:
            end = written.index("m", start)
            assert set(written[start + 2 : end]) <= set("0123456789;")
            written = written[:start] + written[end + 1 :]
        assert_safe(written)

    @pytest.mark.parametrize("escape", ESCAPES)
    def test_ignored_sequences_are_visible(self, escape: bytes) -> None:
        line = safe_line(b"before " + escape + b" after")
        assert line.plain.startswith("before ")
        assert line.plain.endswith(" after")
        assert_safe(line.plain)

    @pytest.mark.parametrize(
        ("data", "shown"),
        [
            (b"plain", "plain"),
            (b"dos line\r", "dos line"),
            (b"  1%\r 50%\r100%", "100%"),
            (b"longer text\rshort", "shortr text"),
            (b"longer text\r\x1b[Kshort", "short"),
            (b"longer text\x1b[2K\rshort", "short"),
            (b"abc\x1b[1K", "   "),
            (b"abcdef\x1b[3D\x1b[1KX", "   Xef"),
            (b"abc\b\bX", "aXc"),
            (b"\b\bx", "x"),
            (b"a\tb\tc", "a       b       c"),
            (b"abcdefghij\r\tX", "abcdefghXj"),
            (b"ab\x1b[3Cx", "ab   x"),
            (b"abcdef\x1b[2Gx", "axcdef"),
            (b"\x1b[9999Gx", " " * (MAX_COLUMN - 1) + "x"),
            ("漢字\rx".encode(), "x 字"),
            ("漢字\r\x1b[Cx".encode(), " x字"),
            ("abcd\r\x1b[C漢".encode(), "a漢d"),
            ("e\u0301\rx".encode(), "x"),
            (b"a\x00\x07b", "a␀␇b"),
            (b"\xff\xfe", "<FF><FE>"),
            (b"\xed\xa0\x80", "<ED><A0><80>"),
            (b"50%|\xe2\x96\x88\xe2\x96", "50%|█<E2><96>"),
            (b"\x1b[?25lx", "␛[?25lx"),
            (b"\x1b[8mhidden", "hidden"),
            (b"bold\bd", "bold"),
        ],
    )
    def test_carriage_returns_overwrite_like_in_a_terminal(self, data: bytes, shown: str) -> None:
        assert safe_line(data).plain == shown

    def test_colors_stay_in_place(self) -> None:
        line = safe_line(b"a\x1b[31mred\x1b[0m b\x1b[1;38;5;208mx\x1b[22my\x1b[48;2;1;2;3mz\x1b[39;49mw")
        assert line.plain == "ared bxyzw"
        styles = [(line.plain[start:end], style.bold, style.color, style.bgcolor) for start, end, style in line.spans]
        assert styles == [
            ("red", None, Color.from_ansi(1), None),
            ("x", True, Color.from_ansi(208), None),
            ("y", None, Color.from_ansi(208), None),
            ("z", None, Color.from_ansi(208), Color.from_rgb(1, 2, 3)),
        ]

    @pytest.mark.parametrize(
        ("sgr", "color"),
        [
            (b"38:5:9", Color.from_ansi(9)),
            (b"38:2:1:2:3", Color.from_rgb(1, 2, 3)),
            (b"38:2::1:2:3", Color.from_rgb(1, 2, 3)),
            (b"0;97", Color.from_ansi(15)),
            (b"58;5;1;32", Color.from_ansi(2)),
            (b"4:3;32", Color.from_ansi(2)),
        ],
    )
    def test_all_spellings_of_a_color_are_read(self, sgr: bytes, color: Color) -> None:
        (span,) = safe_line(b"\x1b[" + sgr + b"mx").spans
        assert span[2].color == color

    @pytest.mark.parametrize("sgr", [b"38;5;256", b"38;2;1;2;999", b"38", b"38;5", b"999", b"5", b"8", b""])
    def test_invalid_colors_are_ignored(self, sgr: bytes) -> None:
        assert safe_line(b"\x1b[" + sgr + b"mx") == SafeLine("x")

    def test_color_ends_with_its_line(self) -> None:
        assert safe_line(b"\x1b[31mred").spans
        assert not safe_line(b"plain").spans

    def test_replacements_are_marked(self) -> None:
        line = safe_line(b"a\x1b[31mb\x07c")
        assert [(line.plain[start:end], style.dim) for start, end, style in line.spans] == [
            ("b", None),
            ("␇", True),
            ("c", None),
        ]

    @given(st.lists(st.sampled_from([b"\x1b[31m", b"\x1b[1m", b"\x1b[0m", b"\x1b[44m", b"text", "漢字 ".encode()])))
    def test_colors_are_the_same_with_and_without_a_cursor(self, parts: list[bytes]) -> None:
        data = b"".join(parts)
        assert safe_line(b"\b" + data) == safe_line(data)

    def test_megabyte_of_escapes_takes_bounded_time(self) -> None:
        assert len(safe_line(b"\x1b[999Cx" * 1000).plain) <= MAX_COLUMN + 1000
