"""Metrics in what a script prints: `loss: 0.31`, `epoch 3/5 loss 0.04 accuracy 0.98`, bars of Keras and tqdm.

Careful rather than complete: a number counts when its name is one of a training's words (`val_loss`, `top1`), or when
its line tells how far the training is (an epoch, a step, a bar), and is neither a time, a size, a place nor a setting.
What else a project prints it can teach by patterns of its own (`rules`).
"""

from __future__ import annotations

import math
import re

from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs.metrics.values import LONGEST_LINE, Found

if TYPE_CHECKING:
    from collections.abc import Iterator

_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf(?:inity)?)"
# What may stand behind a number. A unit, a colon (a time) and a slash (a place) may not.
_END = r"(?=%?(?:$|[\s,;|)\]}(\"']|\.(?:\s|$)))(?!,\d{3}(?!\d))"
_QUALIFIER = (
    r"(?:\w+'s |(?:train|training|test|testing|val|valid|validation|eval|evaluation|average|avg|mean|best|final|"
    r"running|top|total) )?"
)
_BEGIN = r"(?<![\w/.:\\@%-])"

_NAMED = re.compile(
    rf"{_BEGIN}(?P<quote>[\"']?)(?P<name>{_QUALIFIER}[A-Za-z_][\w/.@-]*)(?P=quote)\s*[:=]\s*(?P<value>{_NUMBER})"
    rf"(?:/(?P<of>\d+))?(?P<percent>%?){_END}",
    re.IGNORECASE,
)

_WORDS = (
    "loss|losses|nll|acc|accuracy|auc|auroc|f1|recall|precision|perplexity|ppl|bleu|rouge|meteor|rmse|mse|mae|mape|"
    "rmsle|logloss|cer|wer|iou|miou|dice|map|map50|top1|top5|psnr|ssim|fid|reward|score|r2|kl|elbo|error_rate|"
    "grad_norm|merror|binary_logloss|multi_logloss"
)
_SPACED = re.compile(
    rf"{_BEGIN}(?P<name>{_QUALIFIER}(?:[A-Za-z][\w/.-]*[_/.-])?(?:{_WORDS})(?:[@_/-][\w@-]+)?)\s+"
    rf"(?P<value>{_NUMBER})(?P<percent>%?){_END}",
    re.IGNORECASE,
)

_METRIC = frozenset(_WORDS.split("|"))
_STEPS = frozenset(("epoch", "epochs", "step", "steps", "iter", "iters", "iteration", "iterations", "batch", "batches"))
_OTHERS = (
    "eta time elapsed remaining sec secs second seconds ms s hour hours min mins minutes date line version v num seed "
    "pid port rank gpu gpus cuda cpu device node worker workers size total max n mem memory gb mb shape scale weight "
    "weights fn alpha beta gamma file py id interval every world local index idx count data dataset"
)
_NONE = _STEPS | frozenset(_OTHERS.split())
"""A name with one of these among its words is no metric, whatever its line tells."""

_SPLIT = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z])(?=[A-Z])|(?<=[A-Za-z])@")

_WHOLE = r"(\d{1,3}(?:,\d{3})+|\d+)"
_EPOCH = re.compile(
    r"(?<![\w-])epoch\b[\"']?[\s:#=\[(]*(\d+(?:\.\d+)?)(?:\s*(?:/|of)\s*(\d+))?(?![\d%])", re.IGNORECASE
)
_STEP = re.compile(
    r"(?<![\w-])(?:global[_ ]step|step|iteration|iter|round|update|batch)\b[\"']?[\s:#=\[(]*"
    rf"{_WHOLE}(?:\s*(?:/|of)\s*{_WHOLE})?(?![\d%.])",
    re.IGNORECASE,
)
_BOOSTING = re.compile(r"\[(\d+)\]\s")
_BAR = r"(\d+)\s*/\s*(\d+)\s*(?=[\[|\](\s━█]|$)"
_BAR_ALONE = re.compile(r"(?:^\s*|[|\[]\s*)" + _BAR)
_BAR_OF_EPOCH = re.compile(r"[\s|\[:]" + _BAR)
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x08]+")

_CANDIDATE = re.compile(rb"[\w\"'] ?[:=] *[-+.]?(?:\d|nan|inf|NaN|Inf)|[A-Za-z@\d] +[-+.]?\d|(?i:epoch)")
"""What a line must hold to be looked at; most lines of most programs do not."""


class Progress:
    """Reads lines in their order: a bar belongs to the epoch that an earlier line named."""

    def __init__(self) -> None:
        self._epoch: float | None = None
        self._from_zero = False
        self._bar = (0, 0)
        self._done = 0

    def metrics(self, line: bytes, *, refreshed: bool = False) -> Iterator[Found]:
        """The metrics in a line; `refreshed` tells that a bar wrote it, which will write it again."""
        if len(line) > LONGEST_LINE or not _CANDIDATE.search(line):
            return
        text = _ESCAPE.sub("", line.decode("utf-8", "replace"))
        step, is_progress = self._place(text)
        names: set[str] = set()
        for pattern in (_NAMED, _SPACED):
            for match in pattern.finditer(text):
                name, value = match["name"].strip("."), _value(match)
                if value is None or name in names or not _counts(name, value, match["percent"], is_progress):
                    continue
                names.add(name)
                yield Found(name, value, step, refreshed)

    def _place(self, text: str) -> tuple[float | None, bool]:
        """The step that the line is about, when it names one, and whether it tells how far the training is."""
        epoch, step, bar = _EPOCH.search(text), _STEP.search(text), None
        if epoch:
            number = float(epoch[1])
            self._from_zero = self._from_zero or number == 0
            if number != self._epoch:
                self._epoch, self._bar, self._done = number, (0, 0), 0
            bar = _BAR_OF_EPOCH.search(text, epoch.end())
        elif not step:
            bar = _BAR_ALONE.search(text)
        if step and step[2]:
            bar = step
        if bar and 0 < _whole(bar[2]) >= _whole(bar[1]):
            return self._of_bar(_whole(bar[1]), _whole(bar[2])), True
        if step:
            return float(_whole(step[1])), True
        if epoch:
            return float(epoch[1]), True
        boosting = _BOOSTING.match(text)
        return (float(boosting[1]), True) if boosting else (None, False)

    def _of_bar(self, done: int, total: int) -> float:
        """The step of a bar's line: epochs and the part of one, or all that bars have counted so far."""
        if self._epoch is not None:
            if not self._epoch.is_integer():
                return self._epoch
            return self._epoch - (0 if self._from_zero else 1) + done / total
        if total != self._bar[1] or done < self._bar[0]:
            self._done += self._bar[0]
        self._bar = (done, total)
        return float(self._done + done)


def _whole(text: str) -> int:
    return int(text.replace(",", ""))


def _value(match: re.Match[str]) -> float | None:
    value = float(match["value"])
    of = match.groupdict().get("of")
    if of is None:
        return value
    # `Accuracy: 9913/10000`; of anything else a slash makes a place or a bar.
    is_share = _words(match["name"]) & {"accuracy", "acc", "recall", "precision"} and float(of) > 0
    return value / float(of) if is_share else None


def _words(name: str) -> set[str]:
    return {word.lower() for word in _SPLIT.split(name.replace("'s ", " ")) if word}


def _counts(name: str, value: float, percent: str, is_progress: bool) -> bool:
    """Whether a name with a number is a metric."""
    words = _words(name)
    lower = name.lower()
    is_metric = bool(words & _METRIC) or lower in _METRIC
    if words & _NONE and not (is_metric and words & _NONE <= {"total", "max", "min", "s", "n"}):
        return False
    if "precision" in words and value > 1 and not (is_progress or percent):
        return False  # of arithmetic, in bits
    return is_metric or (is_progress and not percent and len(lower) > 1 and not math.isinf(value))
