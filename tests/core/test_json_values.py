"""JSON that a project, a machine or a program wrote: every document is a value with limits, or a ValueError."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NamedTuple

import pytest

from tui_workbench.core.json_values import MOST_LEVELS, parse_json, parse_json_lines, read_as

DEEP = ["[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"a":' * 50_000 + "1" + "}" * 50_000, "[[[" * 300 + "]]]" * 300]


@pytest.mark.parametrize("text", ["", "{", "nul", "[1,]", "1 2", '"\n"', *DEEP, "9" * 5000, "-" + "9" * 20, "1" * 20])
def test_invalid_deep_and_huge_documents_raise_value_error(text: str) -> None:
    for data in (text, text.encode()):
        with pytest.raises(ValueError, match=r"."):
            parse_json(data)


@pytest.mark.parametrize("data", [b"\xff\xfe\x80", b"\xef\xbb", b'"\xff"', b"\x00{", b"\xc3"])
def test_bytes_that_are_no_text_raise_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"decode|Expecting|delimiter|Unterminated|Invalid"):
        parse_json(data)


def test_documents_within_the_limits_are_read() -> None:
    number = (1 << 63) - 1
    nested: Any = number
    for _ in range(MOST_LEVELS):
        nested = [nested]
    assert parse_json(json.dumps(nested)) == nested
    assert parse_json(b'\xef\xbb\xbf{"a": "\xc3\xa4"}') == {"a": "ä"}
    assert parse_json('{"a": "[[[' + "[" * 1000 + '"}')["a"].endswith("[[")
    assert parse_json('{"a": 1, "a": 2}') == {"a": 2}


def test_larger_numbers_need_more_bits() -> None:
    inode = (1 << 64) - 1
    assert parse_json(str(inode), bits=64) == inode
    with pytest.raises(ValueError, match="too large"):
        parse_json(str(1 << 65), bits=64)


def test_lines_have_one_value_each() -> None:
    assert parse_json_lines([b'{"step": 1}', b"[2]", b"3.5"]) == [{"step": 1}, [2], 3.5]
    assert parse_json_lines([]) == []
    for lines in ([b"1,2"], [b"1", b""], [b"[1", b"2]"], [b"1],[2"]):
        with pytest.raises(ValueError, match=r"several values|Expecting|Extra data"):
            parse_json_lines(lines)


@pytest.mark.parametrize("text", DEEP)
def test_deep_line_raises_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json_lines([b"1", text.encode()])


def test_large_number_in_a_line_is_a_float() -> None:
    number, infinite, small = parse_json_lines([b"1" * 30, b"9" * 5000, b"-" + b"9" * 17])
    assert (number, infinite, small) == (float("1" * 30), math.inf, -int("9" * 17))
    assert isinstance(small, int)


class Point(NamedTuple):
    at: tuple[int, str]
    tags: tuple[str, ...] = ()
    value: object = None


def test_declared_types_are_checked() -> None:
    assert read_as(Point, {"at": [1, "x"], "tags": ["a", "b"], "value": [{}], "newer": 1}) == Point(
        (1, "x"), ("a", "b"), [{}]
    )


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({}, "`at` is missing"),
        ({"at": [1]}, "`at` is [1], expected a list with a length of 2"),
        ({"at": [1, "x", 2]}, "`at` is [1, 'x', 2], expected a list with a length of 2"),
        ({"at": ["x", 1]}, "`at` is 'x', expected an integer"),
        ({"at": [1, "x"], "tags": [1]}, "`tags` is 1, expected text"),
        ([], "it is [], expected an object"),
    ],
)
def test_value_of_another_type_is_named(value: object, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}$"):
        read_as(Point, value)
