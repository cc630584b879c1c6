"""Find metrics that the output shows in several lines: tables with a header, boxed tables, and final summaries.

- A table has a header such as `epoch  train_loss  accuracy  time`, and rows with a cell for each column (fastai,
  spaCy, scikit-learn, Ultralytics).
- A boxed table has a name and a number in each row: `| loss | 0.3 |` (Stable-Baselines3, Lightning). A title row such
  as `| train/ | |` belongs to the names of the rows after it.
- A summary is at least three lines `name: number` at the end of the log or after a line `---`. If one of them is a
  metric, all of them are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tui_workbench.runs.metrics.line_names import judge
from tui_workbench.runs.metrics.number_text import NUMBER
from tui_workbench.runs.metrics.values import LineMetric

_STEP_COLUMNS = ("#", "epoch", "ep", "e", "iter", "iteration", "step", "round")
"""Names of the first column of a table. The first of these that a table has contains the step."""

_COLUMN = re.compile(r"\S+(?: \S+)*")  # columns are separated by at least two spaces, or by a tab
_CELL = re.compile(rf"({NUMBER})(?:/\d+)?")
_BOX = re.compile(r"[|│┃]")
_NUMBER = re.compile(rf"({NUMBER})%?")
_RULE = re.compile(r"[-─━└┘┴╇┻┗┛┡┩┢┪├┤┼ ]{3,}")
_DASHES = re.compile(r"\s*-{3,}\s*")
_WORD = r"[A-Za-z][\w/.@%-]*"
_SUMMARY = re.compile(rf"\s*({_WORD}(?: {_WORD}){{0,3}}) ?[:=]\s*({NUMBER})%?\s*")
_TIMESTEPS = "time/total_timesteps"  # the row with the step of a table of Stable-Baselines3

LEAST_SUMMARY = 3  # lines
MOST_ROWS = 200
LONGEST_GAP = 20  # maximum number of other lines between two rows of a table with a header


class LineTables:
    """The tables and the summary in the output. Pass each line to `take`, and call `end` at the end of the log."""

    def __init__(self) -> None:
        self._header: list[str] = []
        self._gap = 0  # number of lines since the last row of this table
        self._title = ""  # of the rows of a boxed table
        self._rows: dict[str, float] = {}  # rows of a boxed table that are not returned yet
        self._summary: list[tuple[str, float]] = []
        self._is_after_dashes = False

    @property
    def is_open(self) -> bool:
        """True if the next line can belong to a table or summary."""
        return bool(self._header or self._rows or self._title or self._summary or self._is_after_dashes)

    def take(self, text: str) -> Iterator[LineMetric]:
        """Yield the metrics that are known with this line."""
        if not text.strip():
            return
        if _BOX.search(text):
            yield from self._boxed(text)
        elif self._rows or self._title:
            yield from self._box_end(text)
        yield from self._lines(text)
        yield from self._row(text)

    def end(self) -> Iterator[LineMetric]:
        """Yield the metrics that are known if there are no more lines."""
        yield from self._box_end("---")
        yield from self._summary_end(is_last=True)

    # --- Tables with a header

    def _row(self, text: str) -> Iterator[LineMetric]:
        if header := _header_of(text):
            self._header, self._gap = header, 0
            return
        names = self._header
        if not names:
            return
        self._gap += 1
        if self._gap > LONGEST_GAP:
            self._header = []
        cells = text.split()
        # A progress bar can follow the last cell, which then ends with a colon.
        if (
            not names
            or len(cells) < len(names)
            or not (cells[len(names) - 1].endswith(":") or len(cells) == len(names))
        ):
            return
        numbers = [_CELL.fullmatch(cell) for cell in cells[: len(names)]]
        step = numbers[min(range(len(names)), key=lambda index: _rank(names[index]))]
        if step is None or numbers[0] is None:
            return
        self._gap = 0
        for name, cell, match in zip(names, cells, numbers, strict=False):
            if match is not None and match[1] == cell and _rank(name) == len(_STEP_COLUMNS) and judge(name).is_possible:
                yield LineMetric(name, float(cell), float(step[1]), refreshed=True)

    # --- Boxed tables

    def _boxed(self, text: str) -> Iterator[LineMetric]:
        cells = [cell.strip() for cell in _BOX.split(text.strip())]
        if len(cells) != 4 or cells[0] or cells[3] or not cells[1]:
            return
        name, value = cells[1], _NUMBER.fullmatch(cells[2])
        if value is None:
            is_title = not cells[2] and name.endswith("/")
            self._title = name if is_title else "" if not cells[2] else self._title
        elif self._title and len(self._rows) < MOST_ROWS:
            self._rows[f"{self._title}{name}"] = float(value[1])
        elif judge(name).is_metric:
            yield LineMetric(name, float(value[1]), None, refreshed=False)

    def _box_end(self, text: str) -> Iterator[LineMetric]:
        if self._rows and _RULE.match(text):
            step = self._rows.get(_TIMESTEPS)
            for name, value in self._rows.items():
                if not name.startswith("time/") or judge(name).is_metric:
                    yield LineMetric(name, value, step, refreshed=False)
        self._rows, self._title = {}, ""

    # --- Summaries

    def _lines(self, text: str) -> Iterator[LineMetric]:
        line = _SUMMARY.fullmatch(text)
        if line is not None and len(self._summary) < MOST_ROWS:
            self._summary.append((line[1], float(line[2])))
            return
        if self._summary:
            yield from self._summary_end(is_last=False)
        self._is_after_dashes = _DASHES.fullmatch(text) is not None

    def _summary_end(self, *, is_last: bool) -> Iterator[LineMetric]:
        """Yield the numbers of the summary that are not metrics by their names, which are known already."""
        summary, is_shown = self._summary, is_last or self._is_after_dashes
        self._summary, self._is_after_dashes = [], False
        is_summary = len(dict(summary)) == len(summary) >= LEAST_SUMMARY  # repeated names belong to several steps
        if is_shown and is_summary and any(judge(name).is_metric for name, _ in summary):
            for name, value in summary:
                if not judge(name).is_metric:
                    yield LineMetric(name, value, None, refreshed=False)


def _header_of(text: str) -> list[str]:
    """Return the names of the columns if a line is the header of a table; else []."""
    if _rank(text.split(maxsplit=1)[0]) == len(_STEP_COLUMNS):
        return []
    names = _COLUMN.findall(text.replace("\t", "  "))
    if len(names) < 3 or _rank(names[0]) == len(_STEP_COLUMNS) or any(not _is_name(name) for name in names):
        return []
    return names if any(judge(name).is_metric for name in names) else []


def _is_name(text: str) -> bool:
    return (text[0].isalpha() or text == "#") and not any(mark in text for mark in ":=,;")


def _rank(name: str) -> int:
    """Return the place of a column in _STEP_COLUMNS, or its length."""
    return _STEP_COLUMNS.index(name.lower()) if name.lower() in _STEP_COLUMNS else len(_STEP_COLUMNS)
