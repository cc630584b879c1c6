"""Find metrics in the output of a run: `loss: 0.31`, `epoch 3/5 loss 0.04`, progress bars of Keras and tqdm.

Precision is more important than recall. A number is a metric if its name contains a training term (`val_loss`, `top1`)
or its line shows progress (an epoch, a step, a bar). Times, sizes, paths and settings are not metrics. A project can
add patterns for other lines (see `rules`).

A log can have millions of lines. Therefore, the search finds numbers first, and then the names before them: a regular
expression that starts with a name would be tried at each letter.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from tui_workbench.runs.metrics.rules import Rules
from tui_workbench.runs.metrics.tail import Reader
from tui_workbench.runs.metrics.values import LONGEST_LINE, OUTPUT, Found

MAYBE_METRIC = re.compile(
    rb"[:=]\s*[\"']?[-+.]?(?:\d|nan|inf)|[A-Za-z@\d]{2} +[-+.]?\d*\.\d|epoch|step|iter|loss|acc|score", re.IGNORECASE
)
"""A quick test. Output without metrics rarely matches."""

LIMIT = 8 << 20
"""Maximum number of new bytes that one refresh reads, which takes two seconds if each line contains a metric.

If there are more, half of this number is read from their start and half from their end. The bytes in between are
counted.
"""

REST = 1 << 20  # LIMIT for a reader that has followed the log, because the end of the run waits for its last read
PIECE = 128 << 10  # number of bytes that `follow` reads at once, which takes 30 ms

MOST_POINTS = 1_000_000
"""Maximum number of points of a log (24 MB). If there are more, the curves are reduced to their extremes."""


class Output(Reader):
    """The metrics in an output log."""

    source = OUTPUT

    def __init__(self, path: str, rules: Rules, *, at_most: int = 0) -> None:
        super().__init__(path, at_most=at_most or LIMIT)
        self._rules = rules
        self._progress = ProgressLines()

    @property
    def is_long(self) -> bool:
        """True if a new reader would skip a part of the log that this reader has read."""
        return self.tail.offset > LIMIT

    def refresh(self, *, ended: bool = False) -> bool:
        # The lines of a progress bar end with a carriage return.
        return self.read(self.tail.blocks(ends=b"\r\n", ended=ended))

    def follow(self) -> bool:
        """Read the next piece of a growing log. Return False if less than a piece is unread."""
        self.tail.at_most = REST
        return self.tail.unread >= PIECE and self.read(self.tail.blocks(piece=PIECE, ends=b"\r\n"))

    def reset(self) -> None:
        super().reset()
        self._progress = ProgressLines()

    def parse(self, block: bytes) -> None:
        if self._rules.is_default and not MAYBE_METRIC.search(block):
            return
        for line in block.split(b"\n"):
            if _SPARK_LOG.match(line):
                continue
            states = [state for state in line.split(b"\r") if state]
            for state in states:
                self._line(state, refreshed=len(states) > 1)
        if self.columns.points > MOST_POINTS:
            self.columns.thin()

    def _line(self, line: bytes, *, refreshed: bool) -> None:
        if line.startswith(b"[rank"):
            # The ranks of a run with torchrun print the same metrics, so only rank 0 is read.
            rank, _, line = line.partition(b"]: ")
            if rank != b"[rank0":
                return
        by_rules = list(self._rules.metrics(line))
        by_default = self._progress.metrics(line, refreshed=refreshed) if self._rules.output else ()
        names = {found.name for found in by_rules}
        for found in (*by_rules, *(found for found in by_default if found.name not in names)):
            self.columns.add(found.name, found.step, found.value, math.nan, again=found.refreshed)


_SPARK_LOG = re.compile(rb"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (?:TRACE|DEBUG|INFO|WARN|ERROR) ")
"""The beginning of a line of Spark's log, such as `26/01/31 12:00:00 INFO DAGScheduler: ...`."""

_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|[nN][aA][nN]|[iI]nf(?:inity)?)"
# The text that can follow a metric. A unit, a colon (as in a time) and a slash (as in a path) cannot follow it.
_END = r"(?=%?(?:$|[\s,;|)\]}(\"']|\.(?:\s|$)))(?!,\d{3}(?!\d))"
_VALUE = re.compile(rf"(?<!\s)(\s*[:=]\s*|\s+)({_NUMBER})(?:/(\d+))?(%?){_END}")
"""A number after a separator: a colon, an equals sign, or only spaces.

A separator begins with its first space. If each space were tried, a line with many spaces would take very long.
"""

_CANDIDATE = re.compile(rb"[\w\"'] ?[:=] *[-+.]?[\dniNI]|[A-Za-z@\d] +[-+.]?[\dniNI]|[eE][pP][oO][cC][hH]")
"""A quick test of a line. Most lines do not match."""

_METRIC = frozenset(
    (
        "loss", "losses", "nll", "acc", "accuracy", "auc", "auroc", "f1", "recall", "precision", "perplexity", "ppl",
        "bleu", "rouge", "meteor", "rmse", "mse", "mae", "mape", "rmsle", "logloss", "cer", "wer", "iou", "miou",
        "dice", "map", "map50", "top1", "top5", "psnr", "ssim", "fid", "reward", "score", "r2", "kl", "elbo",
        "error_rate", "grad_norm", "merror",
    )
)  # fmt: skip
"""Words that occur only in names of metrics."""

_QUALIFIERS = frozenset(
    (
        "train", "training", "test", "testing", "val", "valid", "validation", "eval", "evaluation", "average", "avg",
        "mean", "best", "final", "running", "top", "total",
    )
)  # fmt: skip
"""Words that belong to the name of a metric if it follows them after a space: `test accuracy`."""

_OTHERS = (
    "epoch epochs step steps iter iters iteration iterations batch batches eta time elapsed remaining sec secs second "
    "seconds ms s hour hours min mins minutes date line version v num seed pid port rank gpu gpus cuda cpu device node "
    "worker workers size total max n mem memory gb mb shape scale weight weights fn alpha beta gamma file py id "
    "interval every world local index idx count data dataset"
)
_NONE = frozenset(_OTHERS.split())  # words that never occur in the name of a metric, except those of _HARMLESS
_HARMLESS = frozenset(("total", "max", "min", "s", "n"))  # words of _NONE that may occur next to a metric word

_SHARES = frozenset(("accuracy", "acc", "recall", "precision"))
_SPLIT = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z])(?=[A-Z])")
_QUALIFIER = re.compile(r"(?P<word>[\w']+)(?: set)?$")

# A step has at most 15 digits; a longer number is data, and a float could not hold it exactly.
_WHOLE = r"(\d{1,3}(?:,\d{3}){1,4}|\d{1,15})"
_EPOCH = re.compile(r"(?<![\w-])epoch\b[\"']?[\s:#=\[(]*(\d{1,15}(?:\.\d+)?)(?:\s*(?:/|of)\s*(\d+))?(?![\d%])")
_STEP = re.compile(
    r"(?<![\w-])(?:global[_ ]step|step|iteration|iter|round|update|batch)\b[\"']?[\s:#=\[(]*"
    rf"{_WHOLE}(?:\s*(?:/|of)\s*{_WHOLE})?(?![\d%.])"
)
_STEP_WORDS = ("step", "iter", "round", "update", "batch")
_BOOSTING = re.compile(r"\[(\d{1,15})\]\s")
_BAR = r"(\d{1,15})\s*/\s*(\d{1,15})\s*(?=[\[|\](\s━█]|$)"
_BAR_ALONE = re.compile(r"(?:^\s*|[|\[]\s*)" + _BAR)
_BAR_OF_EPOCH = re.compile(r"[\s|\[:]" + _BAR)
MOST_NAMES = 1000  # maximum number of names whose kind and iterations are cached

_ESCAPE = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|[\x08]+")


class _Iterations:
    """Converts the iteration numbers of a metric to global ones if they restart with each epoch."""

    def __init__(self) -> None:
        self._epoch: float | None = None
        self._bases: dict[float | None, float] = {}
        self._first = self._last = -1.0
        self._stride = 1.0

    def global_step(self, epoch: float | None, iteration: float) -> float:
        if self._last < 0:
            self._begin(epoch, 0.0, iteration)
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

    def _begin(self, epoch: float | None, base: float, iteration: float) -> None:
        before = {} if self._last < 0 else {self._epoch: self._bases[self._epoch]}
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

    def metrics(self, line: bytes, *, refreshed: bool = False) -> Iterator[Found]:
        """Yield the metrics in a line. `refreshed` is True for a progress bar, which rewrites its line."""
        if len(line) > LONGEST_LINE:
            return
        if b"\x1b" in line or b"\x08" in line:
            line = _ESCAPE.sub(b"", line)
        if not _CANDIDATE.search(line):
            return
        text = line.decode("utf-8", "replace")
        step, is_progress = self._step(text)
        names: set[str] = set()
        for match in _VALUE.finditer(text):
            name = _name_before(text, match.start())
            if not name or name in names:
                continue
            between, number, of, percent = match.groups()
            value = self._value(name, between.isspace(), number, of, percent, is_progress)
            if value is not None:
                names.add(name)
                yield Found(name, value, self._global(name, step), refreshed)

    def _global(self, name: str, step: float | None) -> float | None:
        if step is None or not self._is_iteration:
            return step
        iterations = self._iterations.get(name)
        if iterations is None:
            if len(self._iterations) >= MOST_NAMES:
                return step
            iterations = self._iterations[name] = _Iterations()
        return iterations.global_step(self._epoch, step)

    def _step(self, text: str) -> tuple[float | None, bool]:
        """Return the step in the line, or None, and whether the line shows progress."""
        lower = text.lower()
        epoch = _EPOCH.search(lower) if "epoch" in lower else None
        step = _STEP.search(lower) if any(word in lower for word in _STEP_WORDS) else None
        bar = None
        self._is_iteration = False
        if epoch:
            number = float(epoch[1])
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
            self._is_iteration = not step[0].startswith("global")
            return float(_whole(step[1])), True
        if epoch:
            return float(epoch[1]), True
        boosting = _BOOSTING.match(text) if text.startswith("[") else None
        return (float(boosting[1]), True) if boosting else (None, False)

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

    def _value(
        self, name: str, is_spaced: bool, number: str, of: str | None, percent: str, is_progress: bool
    ) -> float | None:
        """Return the value of the metric `name`, or None if the number is not a metric.

        `is_spaced` is True if only spaces separate the number from the name.
        """
        is_possible, is_metric, is_share, is_precision = _judge(name)
        if not is_metric and (not is_possible or is_spaced or not is_progress or percent):
            return None
        value = float(number)
        if of is not None:
            # `Accuracy: 9913/10000` is a fraction. After other names, a slash is part of a path or a bar.
            return value / float(of) if is_share and float(of) > 0 else None
        if is_precision and value > 1 and not (is_progress or percent):
            return None  # the number is the arithmetic precision in bits
        return None if not is_metric and math.isinf(value) else value


class _Kind(NamedTuple):
    is_possible: bool = False  # a metric if the line shows progress
    is_metric: bool = False  # a metric in any line
    is_share: bool = False  # a value from 0 to 1
    is_precision: bool = False


@functools.lru_cache(MOST_NAMES)
def _judge(name: str) -> _Kind:
    words = {word.lower() for word in _SPLIT.split(name.replace("'s ", " ")) if word}
    is_metric = bool(words & _METRIC) or name.lower() in _METRIC
    others = words & _NONE
    if (others and not (is_metric and others <= _HARMLESS)) or (not is_metric and len(name) < 2):
        return _Kind()
    return _Kind(True, is_metric, bool(words & _SHARES), "precision" in words)


def _name_before(text: str, end: int) -> str:
    """Return the name that ends at the offset `end`, with a qualifier before it if there is one, or ""."""
    quote = text[end - 1] if end and text[end - 1] in "\"'" else ""
    end -= len(quote)
    begin = end
    while begin and (text[begin - 1].isalnum() or text[begin - 1] in "_/.@-"):
        begin -= 1
    name = text[begin:end]
    before = text[begin - 1] if begin else " "
    if not name or not (name[0].isalpha() or name[0] == "_") or before in ":\\%" or (quote and before != quote):
        return ""
    if before == " " and begin > 1:
        qualifier = _QUALIFIER.search(text, max(0, begin - 30), begin - 1)
        if qualifier and (qualifier["word"].lower() in _QUALIFIERS or qualifier["word"].endswith("'s")):
            name = f"{qualifier[0]} {name}"
    return name.rstrip(".")


def _whole(text: str) -> int:
    return int(text.replace(",", ""))
