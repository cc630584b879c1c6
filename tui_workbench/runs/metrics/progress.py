"""Parse lines of output: `loss: 0.31`, `epoch 3/5 loss 0.04`, progress bars of Keras and tqdm.

Precision is more important than recall. A number is a metric if its name contains a word of `metric_words` (`val_loss`,
`top1`) or its line shows progress (an epoch, a step, a bar). Times, sizes, paths and settings are not metrics.
`line_tables` finds the metrics of tables and summaries.

A log can have millions of lines. Therefore, the search finds numbers first, and then the names before them: a regular
expression that starts with a name would be tried at each letter.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from tui_workbench.runs.metrics.line_names import (
    MOST_NAMES,
    judge,
    name_before,
    parts_of,
    settings_in,
    split_in,
)
from tui_workbench.runs.metrics.line_tables import LineTables
from tui_workbench.runs.metrics.number_text import END, NUMBER, average_after, is_grouped, unwrapped
from tui_workbench.runs.metrics.values import LONGEST_LINE, LineMetric

_VALUE = re.compile(rf"(?<!\s)(\s*[:=]\s*|\s+)([\"']?)({NUMBER})(?:/(\d+))?(%?)\2{END}")
"""A number after a separator: a colon, an equals sign, or only spaces.

A separator begins with its first space. If each space were tried, a line with many spaces would take very long.
"""

_CANDIDATE = re.compile(
    rb"[\w\"'] *[:=] *[\"'\[]?[-+.]?[\dniNI]|[A-Za-z@\d] +[-+.]?[\dniNI]|(?i:epoch|(?:iter|step)  |e +#)"
    rb"|(?:[tT]ensor|[aA]rray|float\d*)\(|(?:\||\xe2\x94[\x82\x83]) *[-+.]?\d"
)
"""A quick test of a line. Most lines do not match."""

# A step has at most 15 digits; a longer number is data, and a float could not hold it exactly.
_WHOLE = r"(\d{1,3}(?:,\d{3}){1,4}|\d{1,15})"
_OF_PART = r"(?:\((?:train|val|valid|test)\)|\b)"  # MMEngine: `Epoch(train) [1]`
_EPOCH = re.compile(
    rf"(?<![\w-])epoch{_OF_PART}[\"']?[\s:#=\[(\"']*(\d{{1,15}}(?:\.\d+)?)(?:\s*(?:/|of)\s*(\d+))?(?![\d%])"
    r"|(?<![\w-])train(?:ing)?:\s*(\d{1,15})\s+(?=\[\s*\d)"  # timm: `Train: 3 [ 50/1000 ( 5%)]`
)
_STEP = re.compile(
    rf"(?<![\w-])(?:global[_ ]step|step|iteration|iter|round|update|batch|(?:num_|total_)timesteps){_OF_PART}"
    rf"[\"']?[\s:#=\[(\"']*{_WHOLE}(?:\s*(?:/|of)\s*{_WHOLE})?(?![\d%.])"
)
_STEP_WORDS = ("step", "iter", "round", "update", "batch")
_NEVER_RESTART = ("global", "num_", "total_")
_BOOSTING = re.compile(r"\[(\d{1,15})\]\s|(\d{1,15}):\s+learn:")  # XGBoost and LightGBM; CatBoost
_BAR = r"(\d{1,15})\s*/\s*(\d{1,15})\s*(?=[\[|\](\s━█]|$)"
_BAR_ALONE = re.compile(r"(?:^\s*|[|\[]\s*)" + _BAR)
_BAR_OF_EPOCH = re.compile(r"[\s|\[:]" + _BAR)
_TRIAL = re.compile(rf"\bTrial (\d{{1,15}}) finished with value: ({NUMBER})(?=\s)")  # Optuna

_ESCAPE = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|[\x08]+")


MOST_EPOCHS = 10_000  # maximum number of epochs whose first iteration is remembered


class _Number(NamedTuple):
    """A number in a line. `is_spaced` is True if only spaces separate it from its name."""

    text: str
    of: str | None
    percent: str
    is_spaced: bool


class _Iterations:
    """Converts the iteration numbers of a metric to global ones if they restart with each epoch."""

    def __init__(self) -> None:
        self._epoch: float | None = None
        self._bases: dict[float | None, float] = {}
        self._first = self._last = -1.0
        self._stride = 1.0
        self._earlier: dict[float | None, float] = {}  # the bases of earlier epochs

    def global_step(self, epoch: float | None, iteration: float) -> float:
        if self._last < 0:
            self._begin(epoch, 0.0 if epoch is None else self._earlier.get(epoch, 0.0), iteration)
        elif self._restarts(epoch, iteration):
            # If a script counts from 0 and prints 0, 100, ..., 900, the next epoch starts at 1000.
            length = self._last + (self._stride if self._first == 0 else 0)
            self._begin(epoch, self._bases[self._epoch] + length, iteration)
        elif epoch != self._epoch and epoch not in self._bases:
            self._begin(epoch, self._bases[self._epoch], iteration)
        elif epoch == self._epoch and iteration > self._last:
            self._stride, self._last = iteration - self._last, iteration
        # A late line of another process may belong to the previous epoch.
        return self._bases[epoch] + iteration

    def restarted(self) -> _Iterations:
        """Return the state for another attempt, which repeats epochs or continues with the next one."""
        following = _Iterations()
        following._earlier = {**self._earlier, **self._bases}
        if self._epoch is not None and self._last >= 0:
            length = self._last + (self._stride if self._first == 0 else 0)
            following._earlier[self._epoch + 1] = self._bases[self._epoch] + length
        return following

    def _begin(self, epoch: float | None, base: float, iteration: float) -> None:
        before = {} if self._last < 0 else {self._epoch: self._bases[self._epoch]}
        if len(self._earlier) < MOST_EPOCHS:
            self._earlier[epoch] = base
        self._bases = {**before, epoch: base}
        self._epoch, self._first, self._last = epoch, iteration, iteration

    def _restarts(self, epoch: float | None, iteration: float) -> bool:
        if epoch is None or self._epoch is None:
            return iteration < self._last and iteration <= self._first
        return epoch > self._epoch and iteration <= self._last


class ProgressLines:
    """A parser of output lines. It remembers the last epoch, to which the progress bars in later lines belong."""

    def __init__(self) -> None:
        self._epoch: float | None = None
        self._from_zero = False
        self._bar = (0, 0)
        self._done = 0
        self._iterations: dict[str, _Iterations] = {}
        self._is_iteration = False
        """True if the step of the current line is an iteration, which may restart with each epoch."""
        self._tables = LineTables()
        self._part = ""  # the part of the data of the last line that shows progress
        self._lasts: dict[str, float] = {}  # the last step of each metric

    def metrics(self, line: bytes, *, refreshed: bool = False) -> Iterator[LineMetric]:
        """Yield the metrics in a line. `refreshed` is True for a progress bar, which rewrites its line."""
        if len(line) > LONGEST_LINE:
            return
        if b"\x1b" in line or b"\x08" in line:
            line = _ESCAPE.sub(b"", line)
        is_candidate = _CANDIDATE.search(line) is not None
        if not is_candidate and not self._tables.is_open and not line.startswith((b"---", b"|")):
            return
        text = unwrapped(line.decode("utf-8", "replace"))
        yield from self._tables.take(text)
        if not is_candidate:
            return
        if trial := _TRIAL.search(text):
            yield LineMetric("value", float(trial[2]), float(trial[1]), refreshed=False)
            return
        step, is_progress = self._step(text)
        for name, value in self._values(text, is_progress):
            yield LineMetric(name, value, self._overall_step(name, step), refreshed)

    def restarted(self) -> ProgressLines:
        """Return a parser of the output of another attempt. Its epochs and iterations continue those of this parser."""
        following = ProgressLines()
        following._from_zero = self._from_zero
        following._iterations = {name: iterations.restarted() for name, iterations in self._iterations.items()}
        return following

    def end(self) -> Iterator[LineMetric]:
        """Yield the metrics that are known only at the end of the log."""
        yield from self._tables.end()

    def _values(self, text: str, is_progress: bool) -> Iterator[tuple[str, float]]:
        values = list(_VALUE.finditer(text))
        parts = parts_of(text) if values or is_progress else []
        if is_progress:
            self._part = parts[-1][1] if parts else ""
        if not values:
            return
        settings: list[tuple[int, int]] | None = None
        # A line such as ` * Acc@1 50.0` sums up the lines before it.
        part = self._part if text.lstrip().startswith("* ") else ""
        context, is_word = part, False
        names: set[str] = set()
        for match in values:
            between, _, number, of, percent = match.groups()
            name = name_before(text, match.start())
            if not name or is_grouped(text, number, match.end()):
                continue
            value = _value(name, _Number(number, of, percent, between.isspace()), is_progress)
            if value is None:
                continue
            if settings is None:
                settings = settings_in(text, is_progress=is_progress)
            if any(begin <= match.start() < end for begin, end in settings):
                continue
            if average := average_after(text, number, match.end()):
                value = float(average)
            while parts and parts[0][0] < match.start():
                part = context = parts.pop(0)[1]
            if own := split_in(name):
                context, is_word = own, " " in name
            elif part or (context and (name in names or (is_word and judge(name).is_metric))):
                name = f"{part or context} {name}"  # `train loss 3, acc 0.5, val loss 4, acc 0.4`
            if name not in names:
                names.add(name)
                yield name, value

    def _overall_step(self, name: str, step: float | None) -> float | None:
        """Return the step of a metric over all epochs; None if the value has no step."""
        if step is None:
            # A value after those of an epoch, such as the accuracy on all test data, belongs to the end of this epoch.
            # Further values without a step are counted.
            last = self._lasts.pop(name, None)
            return None if last is None else float(math.ceil(last))
        if self._is_iteration:
            iterations = self._iterations.get(name)
            if iterations is None and len(self._iterations) < MOST_NAMES:
                iterations = self._iterations[name] = _Iterations()
            step = step if iterations is None else iterations.global_step(self._epoch, step)
        if name in self._lasts or len(self._lasts) < MOST_NAMES:
            self._lasts[name] = step
        return step

    def _step(self, text: str) -> tuple[float | None, bool]:
        """Return the step in the line, or None, and whether the line shows progress."""
        lower = text.lower()
        epoch = _EPOCH.search(lower) if "epoch" in lower or "train" in lower else None
        step = _STEP.search(lower) if any(word in lower for word in _STEP_WORDS) else None
        bar = None
        self._is_iteration = False
        if epoch:
            number = float(epoch[1] or epoch[3])
            self._from_zero = self._from_zero or number == 0
            if number != self._epoch:
                self._epoch, self._bar, self._done = number, (0, 0), 0
            bar = _BAR_OF_EPOCH.search(text, epoch.end()) if "/" in text else None
        elif not step and "/" in text:
            bar = _BAR_ALONE.search(text)
        if step and step[2]:
            bar = step
        if bar and 0 < _whole(bar[2]) >= _whole(bar[1]):
            return self._of_bar(_whole(bar[1]), _whole(bar[2])), True
        if step:
            self._is_iteration = not step[0].startswith(_NEVER_RESTART)
            return float(_whole(step[1])), True
        if epoch:
            return float(epoch[1] or epoch[3]), True
        boosting = _BOOSTING.match(text)
        return (float(boosting[1] or boosting[2]), True) if boosting else (None, False)

    def _of_bar(self, done: int, total: int) -> float:
        """Return the step of a bar: a fractional epoch, or the number of iterations of all bars so far."""
        if self._epoch is not None:
            if not self._epoch.is_integer():
                return self._epoch
            return self._epoch - (0 if self._from_zero else 1) + done / total
        if total != self._bar[1] or done < self._bar[0]:
            self._done += self._bar[0]
        self._bar = (done, total)
        return float(self._done + done)


def _value(name: str, number: _Number, is_progress: bool) -> float | None:
    """Return the value of the metric `name`, or None if the number is not a metric."""
    kind = judge(name)
    if not kind.is_metric and (not kind.is_possible or number.is_spaced or not is_progress or number.percent):
        return None
    if kind.is_qualifier and number.text.lstrip("+-").isdigit():
        return None  # a count, as in `train: 5000`
    value = float(number.text)
    if number.of is not None:
        # `Accuracy: 9913/10000` is a fraction. After other names, a slash is part of a path or a bar.
        return value / float(number.of) if kind.is_share and float(number.of) > 0 else None
    if kind.is_precision and value > 1 and not (is_progress or number.percent):
        return None  # the number is the arithmetic precision in bits
    return None if not kind.is_metric and math.isinf(value) else value


def _whole(text: str) -> int:
    return int(text.replace(",", ""))
