r"""Read `aml_config/metrics.yml`, which names lines and files with metrics in addition to the defaults.

```yaml
output: true                    # progress lines of the output; false ignores them
tensorboard: true               # event files
files:                          # tables (CSV, JSON lines) in addition to the default names; false: no tables
  - stats/*.csv
lines:                          # more lines: regular expressions whose named groups are the metrics
  - 'top-1 (?P<top1>[0-9.]+) after (?P<step>[0-9]+)'
  - pattern: 'validation (\d+): ([0-9.]+)'
    names: [step, val/quality]  # names of the groups, in order: they may contain any character
ignore: [lr, gpu_*]             # names of metrics to hide, from all sources except the SDK
```

Invalid entries are reported and ignored. The other entries apply.
"""

from __future__ import annotations

import fnmatch
import math
import os
import re
from collections.abc import Iterator
from typing import Any

from tui_workbench.core.files import open_regular
from tui_workbench.core.patterns import compile_text
from tui_workbench.runs.metrics.values import LONGEST_LINE, LineMetric

NAME = os.path.join("aml_config", "metrics.yml")
LARGEST = 1 << 20
STEP = "step"
KEYS = ("output", "tensorboard", "files", "lines", "ignore")

DEFAULT_FILES = (
    "metrics*.jsonl", "*metrics.jsonl", "metrics*.csv", "*metrics.csv", "log.jsonl", "log.csv",
    "logs.jsonl", "logs.csv",
    "history.jsonl", "history.csv", "progress.jsonl", "progress.csv", "results.csv", "training.jsonl", "training.csv",
    "training_log.jsonl", "training_log.csv", "train_log.jsonl", "train_log.csv", "loss.csv", "losses.csv",
    "summary.csv",
)  # fmt: skip
"""Names of metric tables that Lightning, Keras, YOLO, RLlib, timm and other frameworks write."""

_WILDCARD = re.compile(r"[*?\]]")


class Pattern:
    """A regular expression of the user, with a metric name for each group."""

    def __init__(self, expression: str, names: list[str] | None) -> None:
        self._expression = compile_text(expression)
        self._names = dict(self._expression.groupindex)
        if names is not None:
            self._names = {name: number for number, name in enumerate(names, 1)}
        if len(self._names) > self._expression.groups or not set(self._names) - {STEP}:
            raise ValueError("the pattern needs a group such as `(?P<loss>[0-9.]+)` for each metric")

    def metrics(self, text: str) -> Iterator[LineMetric]:
        match = self._expression.search(text)
        if match is None:
            return
        step = _number(match[self._names[STEP]]) if STEP in self._names else None
        for name, group in self._names.items():
            value = _number(match[group])
            if name != STEP and value is not None:
                yield LineMetric(name, value, step, refreshed=False)


class Rules:
    """The content of `metrics.yml`, or the defaults."""

    def __init__(self) -> None:
        self.output = True
        self.tensorboard = True
        self.mistakes: list[str] = []
        self.text = b""  # the content of the file, to detect changes
        self._patterns: list[Pattern] = []
        self._ignored: list[str] = []
        self._set_files(DEFAULT_FILES)

    def _set_files(self, files: tuple[str, ...]) -> None:
        self.files = files
        self._endings = tuple({_WILDCARD.split(pattern.rpartition("/")[2])[-1] for pattern in files})

    @property
    def is_default(self) -> bool:
        """True if metrics in the output are found only by the default patterns."""
        return self.output and not self._patterns

    def metrics(self, line: bytes) -> Iterator[LineMetric]:
        """Yield the metrics that the user's patterns find in a line of the output."""
        if self._patterns and len(line) <= LONGEST_LINE:
            text = line.decode("utf-8", "replace")
            for pattern in self._patterns:
                yield from pattern.metrics(text)

    def ignores(self, name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self._ignored)

    def is_table(self, name: str, path: str) -> bool:
        """Return True if a file is a table of metrics.

        `path` is relative to the working directory of the script. If it is empty, return True if files of this name
        are tables in any folder.
        """
        # Compare the endings first, because they rarely match, and a run may have many thousands of files.
        if not (name.endswith(self._endings) or name.lower().endswith(self._endings)):
            return False
        for pattern in self.files:
            folder, _, last = pattern.rpartition("/")
            if fnmatch.fnmatchcase(name if folder else name.lower(), last) and (
                not folder
                or not path
                or fnmatch.fnmatchcase(path, pattern)
                or fnmatch.fnmatchcase(path, f"*/{pattern}")
            ):
                return True
        return False

    def apply(self, values: Any) -> None:
        if not isinstance(values, dict):
            self.mistakes.append("expected a mapping")
            return
        for key, value in values.items():
            if key in ("output", "tensorboard") and isinstance(value, bool):
                setattr(self, key, value)
            elif key == "files" and value in (True, False, None):
                self._set_files(() if value is False else self.files)
            elif key == "files" and _is_texts(value):
                self._set_files((*self.files, *value))
            elif key == "ignore" and _is_texts(value):
                self._ignored = list(value)
            elif key == "lines" and isinstance(value, list):
                for number, entry in enumerate(value, 1):
                    self._add_line(number, entry)
            else:
                unknown = f"unknown key {key!r}. Known keys: {', '.join(KEYS)}"
                self.mistakes.append(f"invalid value of {key!r}" if key in KEYS else unknown)

    def _add_line(self, number: int, entry: Any) -> None:
        names = None
        if isinstance(entry, dict):
            names = entry.get("names")
            entry = entry.get("pattern")
        if not isinstance(entry, str) or not (names is None or _is_texts(names)):
            self.mistakes.append(f"lines, entry {number}: expected a regular expression, or `pattern` and `names`")
            return
        try:
            self._patterns.append(Pattern(entry, names))
        except ValueError as error:
            self.mistakes.append(f"lines, entry {number}: {error}")


def read_rules(project_root: str) -> Rules:
    """Read the rules of a project. If the file is missing or cannot be read or parsed, return the default rules."""
    rules = Rules()
    if not project_root:
        return rules
    path = os.path.join(project_root, NAME)
    try:
        with open_regular(os.path.realpath(path)) as file:
            rules.text = file.read(LARGEST + 1)
    except OSError:
        return rules
    if len(rules.text) > LARGEST:
        rules.mistakes.append(f"the file is larger than {LARGEST >> 20} MiB and is ignored")
        return rules
    import yaml

    try:
        # PyYAML may be built without libyaml.
        values = yaml.load(rules.text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or error
        rules.mistakes.append(
            f"line {mark.line + 1}: {problem}" if mark is not None else " ".join(str(problem).split())
        )
        return rules
    if values is not None:
        rules.apply(values)
    return rules


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return math.nan if text == "NaN" else None
