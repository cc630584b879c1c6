"""Metrics in what a script prints: `loss: 0.31`, `epoch 3/5 loss 0.04 accuracy 0.98`, bars of Keras and tqdm.

Careful rather than complete: a number counts when its name is one of a training's words (`val_loss`, `top1`), or when
its line tells how far the training is (an epoch, a step, a bar), and is neither a time, a size, a place nor a setting.
What else a project prints it can teach by patterns of its own (`rules`).

A log may have millions of lines. So numbers are looked for first, and names only before them: an expression that began
with names would be tried at every letter.
"""

from __future__ import annotations

import math
import re

from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs.metrics.values import LONGEST_LINE, Found

if TYPE_CHECKING:
    from collections.abc import Iterator

_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|[nN][aA][nN]|[iI]nf(?:inity)?)"
# What may stand behind a number. A unit, a colon (a time) and a slash (a place) may not.
_END = r"(?=%?(?:$|[\s,;|)\]}(\"']|\.(?:\s|$)))(?!,\d{3}(?!\d))"
_VALUE = re.compile(rf"(\s*[:=]\s*|\s+)({_NUMBER})(?:/(\d+))?(%?){_END}")
"""A number with what stands before it: a colon or an equals sign, or only space."""

_CANDIDATE = re.compile(rb"[\w\"'] ?[:=] *[-+.]?[\dniNI]|[A-Za-z@\d] +[-+.]?[\dniNI]|[eE][pP][oO][cC][hH]")
"""What a line must hold to be looked at; most lines of most programs do not."""

_METRIC = frozenset(
    (
        "loss", "losses", "nll", "acc", "accuracy", "auc", "auroc", "f1", "recall", "precision", "perplexity", "ppl",
        "bleu", "rouge", "meteor", "rmse", "mse", "mae", "mape", "rmsle", "logloss", "cer", "wer", "iou", "miou",
        "dice", "map", "map50", "top1", "top5", "psnr", "ssim", "fid", "reward", "score", "r2", "kl", "elbo",
        "error_rate", "grad_norm", "merror",
    )
)  # fmt: skip
"""Words that make a name a metric's wherever it stands."""

_QUALIFIERS = frozenset(
    (
        "train", "training", "test", "testing", "val", "valid", "validation", "eval", "evaluation", "average", "avg",
        "mean", "best", "final", "running", "top", "total",
    )
)  # fmt: skip
"""Words before a name, with a space between, that belong to it."""

_OTHERS = (
    "epoch epochs step steps iter iters iteration iterations batch batches eta time elapsed remaining sec secs second "
    "seconds ms s hour hours min mins minutes date line version v num seed pid port rank gpu gpus cuda cpu device node "
    "worker workers size total max n mem memory gb mb shape scale weight weights fn alpha beta gamma file py id "
    "interval every world local index idx count data dataset"
)
_NONE = frozenset(_OTHERS.split())
"""A name with one of these among its words is no metric, whatever its line tells."""

_HARMLESS = frozenset(("total", "max", "min", "s", "n"))
"""Those of them that a metric may have beside its own word."""

_SHARES = frozenset(("accuracy", "acc", "recall", "precision"))
_SPLIT = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z])(?=[A-Z])")
_WORD_END = re.compile(r"[\w']+$")

_WHOLE = r"(\d{1,3}(?:,\d{3})+|\d+)"
_EPOCH = re.compile(r"(?<![\w-])epoch\b[\"']?[\s:#=\[(]*(\d+(?:\.\d+)?)(?:\s*(?:/|of)\s*(\d+))?(?![\d%])")
_STEP = re.compile(
    r"(?<![\w-])(?:global[_ ]step|step|iteration|iter|round|update|batch)\b[\"']?[\s:#=\[(]*"
    rf"{_WHOLE}(?:\s*(?:/|of)\s*{_WHOLE})?(?![\d%.])"
)
_STEP_WORDS = ("step", "iter", "round", "update", "batch")
_BOOSTING = re.compile(r"\[(\d+)\]\s")
_BAR = r"(\d+)\s*/\s*(\d+)\s*(?=[\[|\](\s━█]|$)"
_BAR_ALONE = re.compile(r"(?:^\s*|[|\[]\s*)" + _BAR)
_BAR_OF_EPOCH = re.compile(r"[\s|\[:]" + _BAR)
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x08]+")


class Progress:
    """Reads lines in their order: a bar belongs to the epoch that an earlier line named."""

    def __init__(self) -> None:
        self._epoch: float | None = None
        self._from_zero = False
        self._bar = (0, 0)
        self._done = 0
        self._known: dict[str, tuple[bool, bool, bool]] = {}

    def metrics(self, line: bytes, *, refreshed: bool = False) -> Iterator[Found]:
        """The metrics in a line; `refreshed` tells that a bar wrote it, which will write it again."""
        if len(line) > LONGEST_LINE or not _CANDIDATE.search(line):
            return
        text = line.decode("utf-8", "replace")
        if "\x1b" in text or "\x08" in text:
            text = _ESCAPE.sub("", text)
        step, is_progress = self._place(text)
        names: set[str] = set()
        for match in _VALUE.finditer(text):
            name = _name_before(text, match.start())
            if not name or name in names:
                continue
            between, number, of, percent = match.groups()
            value = self._value(name, between.isspace(), number, of, percent, is_progress)
            if value is not None:
                names.add(name)
                yield Found(name, value, step, refreshed)

    def _place(self, text: str) -> tuple[float | None, bool]:
        """The step that the line is about, when it names one, and whether it tells how far the training is."""
        lower = text.lower()
        epoch = _EPOCH.search(lower) if "epoch" in lower else None
        step = _STEP.search(lower) if any(word in lower for word in _STEP_WORDS) else None
        bar = None
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
            return float(_whole(step[1])), True
        if epoch:
            return float(epoch[1]), True
        boosting = _BOOSTING.match(text) if text.startswith("[") else None
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

    def _value(
        self, name: str, is_spaced: bool, number: str, of: str | None, percent: str, is_progress: bool
    ) -> float | None:
        """The number when it is a metric's, else None; `is_spaced` tells that only space stands before it."""
        known = self._known.get(name)
        if known is None:
            known = _judge(name)
            if len(self._known) < 1000:
                self._known[name] = known
        is_metric, is_share, is_precision = known
        if not is_metric and (known is _IMPOSSIBLE or is_spaced or not is_progress or percent):
            return None
        value = float(number)
        if of is not None:
            # `Accuracy: 9913/10000`; of anything else a slash makes a place or a bar.
            return value / float(of) if is_share and float(of) > 0 else None
        if is_precision and value > 1 and not (is_progress or percent):
            return None  # of arithmetic, in bits
        return None if not is_metric and math.isinf(value) else value


_IMPOSSIBLE = (False, False, False)
"""What `_judge` says of a name that is no metric's in any line; compared by identity."""


def _judge(name: str) -> tuple[bool, bool, bool]:
    """Whether a name is a metric's wherever it stands, that of a share of a whole, and that of a precision."""
    words = {word.lower() for word in _SPLIT.split(name.replace("'s ", " ")) if word}
    is_metric = bool(words & _METRIC) or name.lower() in _METRIC
    others = words & _NONE
    if others and not (is_metric and others <= _HARMLESS):
        return _IMPOSSIBLE
    if not is_metric and len(name) < 2:
        return _IMPOSSIBLE
    return is_metric, bool(words & _SHARES), "precision" in words


def _name_before(text: str, end: int) -> str:
    """The name that ends at a place of the text, with a qualifying word before it; nothing when there is none."""
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
        word = _WORD_END.search(text, max(0, begin - 20), begin - 1)
        if word and (word[0].lower() in _QUALIFIERS or word[0].endswith("'s")):
            name = f"{word[0]} {name}"
    return name.rstrip(".")


def _whole(text: str) -> int:
    return int(text.replace(",", ""))
