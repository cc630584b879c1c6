"""Values of a sweep: parsing, combinations and seeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tui_workbench.core.errors import StorageError, UsageError
from tui_workbench.runs.sweeps.sweep_values import chosen, grid, listed, parse_parameter


def test_grid_lists_all_combinations() -> None:
    sets = grid([parse_parameter("lr=0.1,0.01"), parse_parameter("batch=32,64")])
    assert sets == [
        {"lr": "0.1", "batch": "32"},
        {"lr": "0.1", "batch": "64"},
        {"lr": "0.01", "batch": "32"},
        {"lr": "0.01", "batch": "64"},
    ]


def test_values_are_unique_and_without_commas() -> None:
    assert parse_parameter("path=a b,x=y,a b").values == ("a b", "x=y")
    assert parse_parameter("lr=1 , 2,\t3 ").values == ("1", "2", "3")
    assert parse_parameter("f=round(3)").values == ("round(3)",)


def test_quoted_values_can_contain_commas() -> None:
    assert parse_parameter('lr="a,b",c').values == ("a,b", "c")
    assert parse_parameter('f="f(1,2)", "say ""hi"""').values == ("f(1,2)", 'say "hi"')
    assert parse_parameter('size=5"').values == ('5"',)


@pytest.mark.parametrize("text", ['lr="a,b', 'lr="a"b,c'])
def test_incomplete_quotation_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="cannot read the quotation marks") as raised:
        parse_parameter(text)
    assert repr(text) in raised.value.message


@pytest.mark.parametrize("text", ["lr=", "lr= ", "lr=1,,2", "lr=1,2,", "lr=,1", 'lr=""'])
def test_empty_value_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="has an empty value"):
        parse_parameter(text)


@pytest.mark.parametrize("text", ["lr=gauss(1,2)", "lr=0.1,gauss(1,2)", "lr=Uniform(0,1)"])
def test_unknown_distribution_is_named(text: str) -> None:
    with pytest.raises(UsageError, match=r"unknown distribution '(gauss|Uniform)'") as raised:
        parse_parameter(text)
    assert "`uniform(0,0.5)`, `loguniform(1e-5,1e-1)` or `randint(1,4)`" in raised.value.remedy


def test_list_in_brackets_is_refused_with_the_right_form() -> None:
    with pytest.raises(UsageError, match="a list of values has no brackets") as raised:
        parse_parameter("lr=[1,2]")
    assert "`--param lr=1,2`" in raised.value.remedy


@pytest.mark.parametrize("text", ["", "lr", "=1", "-lr=1", "a b=1", "{x}=1"])
def test_parameter_without_a_name_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="needs a valid name and values"):
        parse_parameter(text)


@pytest.mark.parametrize(
    "text",
    ["a=uniform(1)", "a=uniform(2,1)", "a=uniform(x,1)", "a=loguniform(0,1)", "a=randint(0.5,2)", "a=uniform(0,inf)"],
)
def test_invalid_distribution_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="the smaller first"):
        parse_parameter(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("a=uniform(1,2", "uniform(1"), ("a=[1,2],3", "[1"), ("a=uniform(1,2)x", "uniform(1"), ("a=1,{x", "{x")],
)
def test_value_with_an_open_bracket_is_refused(text: str, value: str) -> None:
    with pytest.raises(UsageError, match="unbalanced brackets") as raised:
        parse_parameter(text)
    assert repr(value) in raised.value.message


def test_random_combinations_are_unique_and_repeatable() -> None:
    parameters = [parse_parameter("lr=0.1,0.01,0.001"), parse_parameter("batch=32,64")]
    assert chosen(parameters, 4, 7) == chosen(parameters, 4, 7) != chosen(parameters, 4, 8)
    everything = chosen(parameters, 100, 1)
    assert sorted(map(str, everything)) == sorted(map(str, grid(parameters)))


def test_drawn_values_are_in_range() -> None:
    sets = chosen(
        [
            parse_parameter("lr=loguniform(1e-5,0.1)"),
            parse_parameter("layers=randint(1,3)"),
            parse_parameter("p=uniform(0,1)"),
        ],
        50,
        0,
    )
    assert len(sets) == 50
    assert all(1e-5 <= float(each["lr"]) <= 0.1 and 0 <= float(each["p"]) <= 1 for each in sets)
    assert {each["layers"] for each in sets} == {"1", "2", "3"}
    assert sum(float(each["lr"]) < 1e-3 for each in sets) > 15, "small rates are drawn as often as large ones"


def test_small_range_gives_fewer_values() -> None:
    assert len(chosen([parse_parameter("n=randint(1,3)")], 50, 0)) == 3


def test_distribution_needs_random() -> None:
    with pytest.raises(UsageError, match="--random N"):
        grid([parse_parameter("lr=uniform(0,1)")])


def test_duplicate_name_is_refused() -> None:
    for combine in (grid, lambda parameters: chosen(parameters, 1, 0)):
        with pytest.raises(UsageError, match="given more than once"):
            combine([parse_parameter("lr=1"), parse_parameter("lr=2")])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("v.csv", "lr,batch\n0.1, 32\n\n0.01,\n"),
        ("v.csv", '\ufefflr,batch\r\n"0.1",32\r\n0.01,\r\n'),
        ("v.tsv", "lr\tbatch\n0.1\t32\n0.01\t\n"),
        ("v.jsonl", '{"lr": "0.1", "batch": 32}\n\n{"lr": 0.01, "batch": null}\n'),
        ("v.json", '[{"lr": 0.1, "batch": 32}, {"lr": 0.01}]'),
    ],
)
def test_list_file_formats(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_bytes(text.encode())
    assert listed(str(path)) == [{"lr": "0.1", "batch": "32"}, {"lr": "0.01"}]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("v.csv", "lr,batch\n1,2\n1\n", r"v.csv:3: expected 2 values, found 1"),
        ("v.csv", "lr,lr\n1,2\n", "v.csv:1: two columns are named 'lr'"),
        ("v.csv", "lr,--x\n1,2\n", "v.csv:2: invalid parameter name '--x'"),
        ("v.jsonl", '{"a": 1}\n{"a"\n', "v.jsonl:2: not JSON"),
        ("v.jsonl", "[1]\n", "v.jsonl:1: not a JSON object"),
        ("v.json", "[" * 100_000, "v.json: not JSON"),
        ("v.json", '[{"a": 1},\n{"--b": 2}]', "v.json: item 2: invalid parameter name '--b'"),
    ],
)
def test_invalid_list_is_refused_with_its_place(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=said):
        listed(str(tmp_path / name))


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [("v.csv", 'a,b\n"one\ntwo",2\n', "one\ntwo"), ("v.jsonl", '{"a": "one\u2028two", "b": 2}\n', "one\u2028two")],
)
def test_line_break_in_a_value_is_kept(tmp_path: Path, name: str, text: str, value: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert listed(str(tmp_path / name)) == [{"a": value, "b": "2"}]


def test_unreadable_list_is_named(tmp_path: Path) -> None:
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=r"--list .*binary\.csv is not UTF-8 text"):
        listed(str(tmp_path / "binary.csv"))
    with pytest.raises(StorageError, match=r"none\.csv: cannot read: "):
        listed(str(tmp_path / "none.csv"))
