"""Positions of values in a text, and refused harmful texts."""

from __future__ import annotations

import pytest
import yaml

from tui_workbench.config.yaml_edit.syntax import Path, find, parse, plain_value
from tui_workbench.core.errors import ConfigurationError

BOMB = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
)


@pytest.fixture(params=["libyaml", "python"], autouse=True)
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test with and without libyaml."""
    if request.param == "python":
        monkeypatch.setattr(yaml, "__with_libyaml__", False)
    else:
        assert yaml.__with_libyaml__


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("a: b  # c\n", ("a",), "b"),
        ("a:   'it''s'  \n", ("a",), "'it''s'"),
        ("é: 🙂x # c\n", ("é",), "🙂x"),
        ("a:\n  - b\n  - c\n\n# end\n", ("a",), "- b\n  - c"),
        ("a:\n- b # x\n- c\nd: e\n", ("a", 0), "b"),
        ("a: [b, c]  # x\n", ("a",), "[b, c]"),
        ('{"a":{"b":null}}', ("a", "b"), "null"),
        ("a: |\n  x\n  y\n\n# c\nb: 1\n", ("a",), "|\n  x\n  y"),
        ("a: |+\n  x\n\n\nb: 1\n", ("a",), "|+\n  x\n\n"),
        ("a: >-\n  x\n  y", ("a",), ">-\n  x\n  y"),
        ("a: b\n  c\n  d\ne: f\n", ("a",), "b\n  c\n  d"),
        ("a: &x !!str b\n", ("a",), "&x !!str b"),
        ("a: &x b\nc: *x\n", ("c",), "*x"),
        ("a:\nb: c\n", ("a",), ""),
        ("a:\n-\n- b\n", ("a", 0), ""),
        ("a: b\x85c: d\n", ("c",), "d"),
    ],
)
def test_span_of_a_value_is_exact(text: str, path: Path, value: str) -> None:
    node = find(parse(text), path)
    assert node is not None
    assert text[node.start : node.end] == value


def test_values_without_a_schema_follow_yaml_1_2() -> None:
    root = parse("{a: no, b: 0022, c: 22, d: 1.5, e: true, f: ~, g: on, h: '1', i: 1e3, j: 0x1F, k: 2018-01-01}").root
    assert plain_value(root) == {
        "a": "no", "b": "0022", "c": 22, "d": 1.5, "e": True, "f": None, "g": "on", "h": "1", "i": 1000.0, "j": "0x1F",
        "k": "2018-01-01",
    }  # fmt: skip


def test_merge_key_adds_only_missing_keys() -> None:
    root = parse("base: &b {x: 1, y: 2}\nown:\n  <<: *b\n  y: 3\n").root
    assert plain_value(root)["own"] == {"x": 1, "y": 3}


def test_empty_document_has_no_root() -> None:
    for text in ("", "\n", "# c\n", "---\n", "---\n# c\n...\n", "...\n"):
        assert parse(text).root is None


def test_positions_are_those_of_an_editor() -> None:
    tree = parse("a: b\x85c: d\n\u2028# é\ne: f\n".replace("\u2028", ""))
    node = find(tree, ("e",))
    assert node is not None
    assert tree.position(node.start) == (3, 4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BOMB, "more than 20,000 values"),
        ("a: &x [*x]\n", "is inside the value of its anchor &x"),
        ("a: *x\n", "refers to an unknown anchor"),
        ("[" * 60 + "]" * 60, "more than 40 levels of nesting"),
        ("[" * 100_000, "more than 40 levels of nesting"),
        ("- " * 50_000, "more than 40 levels of nesting"),
        ("? " * 50_000, "more than 40 levels of nesting"),
        ("{[a]: b}\n", "a key must be text"),
        ("x" * 1_000_001, "at most 1,000,000"),
        ("ü" * 500_001, "has 1,000,002 bytes"),
        ("[" + "x," * 30_000 + "]", "more than 20,000 values"),
    ],
)
def test_harmful_text_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        parse(text, "f.yml")


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("a: b\n\tc: d\n", (2, 1), "this line is indented with a tab"),
        ("a:\n  b: c\n\td: e\n", (3, 1), "this line is indented with a tab"),
        ("Target: x\nFramework:Python\nTrackedRun: true\n", (2, 11), "no space after the colon"),
        ("a: 'b\nc: d\n", (1, 4), "the quote that begins here"),
        ("a: [b, c\nd: e\n", (1, 4), "`[` is not closed"),
        ("a: {b: c\n", (1, 4), "`{` is not closed"),
        ("a: b: c\n", (1, 5), "this line has a second `key: value`"),
        ("a: b\x07\n", (1, 5), "U+0007"),
        ("a: é\x07\n", (1, 5), "U+0007"),
        ("a: @b\n", (1, 4), "value cannot begin with"),
        ('a: "\\q"\n', (1, 5), "escape"),
        ("a:\n  b: c\n d: e\n", (3, 2), "indentation"),
        ("a: !x!y b\n", (1, 4), "tag"),
    ],
)
def test_syntax_error_is_at_the_mistake(text: str, place: tuple[int, int], said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse(text, "f.yml")
    error = caught.value
    assert said in error.message
    assert (error.line, error.column) == place
    assert error.file == "f.yml"
    assert error.remedy


@pytest.mark.parametrize("value", ["9" * 5000, "[" * 20_000, "1e999"])
def test_any_value_before_a_mistake_in_a_json_file_is_accepted(value: str) -> None:
    with pytest.raises(ConfigurationError):
        parse(f'{{"a": {value}\n"b": 1}}', "f.runconfig")
