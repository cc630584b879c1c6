from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tui_workbench.ui.editor.languages import language_of
from tui_workbench.ui.terminal.code_document import MAX_PARSED_LINES, SourceDocument
from tui_workbench.ui.terminal.safetext import is_safe
from tui_workbench.ui.terminal.stand_ins import has_stand_ins, name_of, to_document, to_screen, to_source

NASTY = st.text(
    st.sampled_from("ab \t\n\r\x00\x1b\x07\x7f\x9b\x85\x0b\x0c\x1c\u2028\u202e\u200b\ufeff\ufe0fé中e\u0301🎉")
)


class TestStandIns:
    @given(st.text(st.characters(exclude_categories=["Cs", "Co"])) | NASTY)
    def test_source_round_trips(self, source: str) -> None:
        assert to_source(to_document(source)) == source

    @given(NASTY)
    def test_displayed_text_is_safe(self, source: str) -> None:
        for line in to_screen(to_document(source)).split("\n"):
            assert is_safe("a" + line.replace("\t", ""))

    @given(NASTY)
    def test_lines_end_only_at_line_feeds(self, source: str) -> None:
        document = SourceDocument(to_document(source))
        assert [to_source(line) for line in document.lines] == source.split("\n")

    @pytest.mark.parametrize("character", ["\x1b", "\u202e", "\x9b", "\ufe0f", "\r"])
    def test_glyph_is_one_cell_wide_like_its_stand_in(self, character: str) -> None:
        stand_in = to_document(character)
        assert cell_len(stand_in) == cell_len(to_screen(stand_in)) == 1

    def test_stand_ins_have_names(self) -> None:
        assert name_of(to_document("\u202e")) == "U+202E"
        assert name_of("a") == ""

    def test_ordinary_text_is_unchanged(self) -> None:
        text = "größer 中文 e\u0301\tx\n\uf0f1 icons \U000f0001\n"
        assert to_document(text) == text
        assert not has_stand_ins(text)
        assert has_stand_ins("\U000fb000")


class TestLanguage:
    @pytest.mark.parametrize(
        ("path", "first_line", "language"),
        [
            ("/p/train.py", "", "python"),
            ("/p/gpu box.compute", "", "yaml"),
            ("/p/local.runconfig", "", "yaml"),
            ("/p/README.MD", "", "markdown"),
            ("/p/run", "#!/usr/bin/env python3", "python"),
            ("/p/run", "#!/bin/sh -e", "bash"),
            ("/p/data.csv", "a,b", ""),
            ("/p/noext", "", ""),
        ],
    )
    def test_language_follows_the_name_or_the_interpreter(self, path: str, first_line: str, language: str) -> None:
        assert language_of(path, first_line) == language


def spans(document: SourceDocument) -> dict[str, list[tuple[int, int]]]:
    found = document.highlights(0, document.line_count)
    return {name: sorted((node.start_byte, node.end_byte) for node in nodes) for name, nodes in found.items()}


class TestHighlights:
    @pytest.mark.parametrize("language", ["yaml", "python", "json", "markdown", "toml", "bash"])
    def test_every_language_is_highlighted(self, language: str) -> None:
        sample = {"json": '{"a": 1}', "markdown": "# a\n", "toml": "a = 1\n", "bash": "# a\n", "python": "a = 1\n"}
        assert SourceDocument(sample.get(language, "a: 1\n"), language).highlights(0, 1)

    @given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 12), st.integers(0, 3), st.integers(0, 12), NASTY)))
    def test_highlights_after_edits_equal_those_of_a_new_document(
        self, edits: list[tuple[int, int, int, int, str]]
    ) -> None:
        document = SourceDocument("type: local\n# größer\nlist:\n  - a: 'b'\n  - \"c\"\n", "yaml")
        document.highlights(0, 1)
        for row, column, down, end_column, text in edits:
            row = min(row, document.line_count - 1)
            end_row = min(row + down, document.line_count - 1)
            start = (row, min(column, len(document[row])))
            end = (end_row, min(end_column, len(document[end_row])))
            document.replace_range(start, end, to_document(text))
        assert spans(document) == spans(SourceDocument(document.text, "yaml"))

    def test_too_long_text_is_not_highlighted(self) -> None:
        assert SourceDocument("a: 1\n" * MAX_PARSED_LINES, "yaml").highlights(0, 1) == {}
        assert SourceDocument("a: 1\n" * (MAX_PARSED_LINES - 1), "yaml").highlights(0, 1)


class TestSize:
    def test_width_is_that_of_the_widest_line_after_edits(self) -> None:
        document = SourceDocument("ab\nabcd")
        assert document.get_size(4) == (4, 2)
        document.replace_range((0, 2), (0, 2), "\t中")
        assert document.get_size(4) == (6, 2)
        document.replace_range((0, 0), (1, 0), "")
        assert document.get_size(4) == (4, 1)
