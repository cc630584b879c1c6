"""`aml_config/metrics.yml`: additions, switches, ignored names and mistakes."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tests.runs.metrics.support import curve, events, lasts, read, write
from tui_workbench.runs.metrics.rules import read_rules


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a project."""
    return tmp_path / "project"


@pytest.fixture
def run(root: Path) -> Path:
    """Return a tracked run of the project with metrics from every source."""
    run = root / ".workbench" / "runs" / "project_1"
    record = {
        "project_root": str(root),
        "working_directory": str(run / "work"),
        "run_configuration": {"tracked_run": True},
        "snapshot": "git",
    }
    write(run / "run.json", json.dumps(record))
    write(run / "output.log", "epoch 1 loss 3 top-1 0.5 after 7\nvalidation 2: 0.75\n")
    write(run / "outputs" / "metrics.csv", "epoch,csv\n1,2\n")
    write(run / "outputs" / "stats" / "odd.csv", "epoch,odd\n1,4\n")
    write(run / "outputs" / "tb" / "events.out.tfevents.1.machine", events("tb", [5]))
    return run


DEFAULTS = {"tb": 5, "csv": 2, "loss": 3}


def rules(root: Path, text: str) -> None:
    write(root / "aml_config" / "metrics.yml", text)


def test_without_the_file_defaults_apply(run: Path) -> None:
    assert lasts(read(run)) == DEFAULTS


def test_rules_are_read_without_libyaml(root: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("yaml.CSafeLoader", raising=False)
    rules(root, "output: false")
    assert "loss" not in lasts(read(run))


@pytest.mark.parametrize(
    ("text", "gone"),
    [("output: false", "loss"), ("tensorboard: false", "tb"), ("files: false", "csv"), ("ignore: ['l*s']", "loss")],
)
def test_each_source_and_name_can_be_switched_off(root: Path, run: Path, text: str, gone: str) -> None:
    rules(root, text)
    metrics = read(run)
    assert lasts(metrics) == {name: value for name, value in DEFAULTS.items() if name != gone}
    assert not metrics.notes()


def test_logged_metrics_cannot_be_switched_off(root: Path, run: Path) -> None:
    rules(root, "ignore: ['*']")
    write(run / "metrics.jsonl", '{"name":"mine","step":1,"value":1,"time":1}\n')
    assert lasts(read(run)) == {"mine": 1}


def test_additional_tables_match_by_path(root: Path, run: Path) -> None:
    rules(root, "files: ['elsewhere/*.csv', 'tats/*.csv']")
    assert lasts(read(run)) == DEFAULTS
    for pattern in ("stats/*.csv", "outputs/stats/*.csv", "odd.csv"):
        rules(root, f"files: ['{pattern}']")
        assert lasts(read(run)) == {**DEFAULTS, "odd": 4}


def test_additional_lines_match_by_expression(root: Path, run: Path) -> None:
    rules(
        root,
        """
lines:
  - 'top-1 (?P<top1>[0-9.]+) after (?P<step>[0-9]+)'
  - pattern: 'validation (\\d+): ([0-9.]+)'
    names: [step, val/quality]
output: false
""",
    )
    metrics = read(run)
    assert lasts(metrics) == {"tb": 5, "csv": 2, "top1": 0.5, "val/quality": 0.75}
    assert curve(metrics, "top1") == [(7, 0.5)]
    assert curve(metrics, "val/quality") == [(2, 0.75)]


def test_metric_of_a_rule_wins_over_the_default(root: Path, run: Path) -> None:
    rules(root, "lines: ['top-1 (?P<loss>[0-9.]+)']")
    assert curve(read(run), "loss") == [(0, 0.5)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("output: [", "line 2: "),
        ("- a", "expected a mapping"),
        ("outputs: true", "unknown key 'outputs'. Known keys: output, tensorboard"),
        ("output: 7", "'output'"),
        ("files: [1]", "'files'"),
        ("lines: ['(unclosed']", "lines, entry 1: missing )"),
        ("lines: ['no group']", "lines, entry 1: the pattern needs a group"),
        ("lines: ['(?P<step>x)']", "lines, entry 1: the pattern needs a group"),
        ("lines: [{pattern: '(x)', names: [a, b]}]", "lines, entry 1: the pattern needs a group"),
        ("lines: [7]", "lines, entry 1: expected a regular expression"),
        ("a: !!python/object/apply:os.system ['false']", "line 1: could not determine a constructor"),
        ("\x00", "control characters are not allowed in"),
    ],
)
def test_mistake_is_reported_and_other_entries_apply(root: Path, run: Path, text: str, words: str) -> None:
    rules(root, text)
    metrics = read(run)
    assert lasts(metrics) == DEFAULTS
    (note,) = metrics.notes()
    assert note.startswith("aml_config/metrics.yml: ")
    assert words in note


def test_oversized_rules_file_is_not_read(root: Path) -> None:
    rules(root, "ignore: [" + "a, " * 400_000 + "a]")
    assert read_rules(str(root)).mistakes == ["the file is larger than 1 MiB and is ignored"]


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("(?P<loss>(x+x+)+)y", "x" * 60_000),
        ("(?P<loss>(a|a)*)b", "a" * 60_000),
        ("(?P<loss>(a*)*)c", "a" * 60_000),
        ("(?P<loss>(.*)*.*=.*)z", "=" * 60_000),
        ("(?P<loss>([0-9]+)+)x", "9" * 60_000),
        (r"(?P<loss>(\w+\s?)+)!", "word " * 10_000),
        ("(?P<loss>(a|aa)+)$b", "a" * 60_000),
        ("(?P<loss>x{0,1000}){0,1}y", "x" * 60_000),
    ],
)
def test_every_expression_is_matched_in_short_time(root: Path, pattern: str, line: str) -> None:
    rules(root, json.dumps({"lines": [pattern]}))
    begun = time.process_time()
    assert list(read_rules(str(root)).metrics(line.encode())) == []
    assert time.process_time() - begun < 5


@pytest.mark.parametrize("pattern", ["(?P<loss>x)(?=y)", r"(?P<loss>x)\1", "(?P<loss>((a{1000}){1000}){1000})"])
def test_unsupported_expression_is_reported(root: Path, pattern: str) -> None:
    rules(root, json.dumps({"lines": [pattern]}))
    (mistake,) = read_rules(str(root)).mistakes
    assert mistake.startswith("lines, entry 1: ")


@pytest.mark.parametrize("kind", ["zero", "pipe", "sparse"])
def test_special_files_have_no_rules(root: Path, kind: str) -> None:
    path = root / "aml_config" / "metrics.yml"
    path.parent.mkdir(parents=True)
    if kind == "zero":
        path.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        with path.open("wb") as file:
            file.truncate(1 << 40)
    assert read_rules(str(root)).is_default
