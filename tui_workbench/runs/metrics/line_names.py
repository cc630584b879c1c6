"""The names of numbers in lines of output: which of them are metrics, and to which part of the data they belong."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from tui_workbench.runs.metrics.metric_words import is_metric, phrase_goal, words_of

MOST_NAMES = 1000  # maximum number of names whose kind and iterations are cached

SPLITS = frozenset(("train", "training", "test", "testing", "val", "valid", "validation", "dev", "eval", "evaluation"))
"""Words that name a part of the data. Metrics of different parts are different curves."""

_QUALIFIERS = SPLITS | {
    "average", "avg", "mean", "best", "final", "running", "top", "total", "lm", "learning", "grad",
}  # fmt: skip
"""Words that belong to the name of a metric if it follows them after a space: `test accuracy`."""

_OTHERS = (
    "epoch epochs step steps iter iters iteration iterations batch batches eta time elapsed remaining sec secs second "
    "seconds ms s hour hours min mins minutes date line version v num seed pid port rank gpu gpus cuda cpu device node "
    "worker workers size total max n mem memory gb mb shape scale weight weights fn alpha beta gamma file py id "
    "interval every world local index idx count data dataset timestep timesteps instances images skipped runtime value"
)
_NONE = frozenset(_OTHERS.split())  # words that never occur in the name of a metric, except those of _HARMLESS
_HARMLESS = frozenset(("total", "max", "min", "s", "n", "value"))  # words of _NONE that may occur next to a metric word

_SETTINGS = frozenset(
    (
        "threshold", "thresh", "thr", "coef", "coeff", "coefficient", "lambda", "delta", "margin", "smoothing",
        "reduction", "tolerance", "tol", "patience", "warmup", "decay", "dropout", "factor", "cutoff", "freq",
        "frequency", "clip", "clipping", "eps", "epsilon", "tau", "momentum", "limit", "target", "goal", "type",
    )
)  # fmt: skip
"""Words of settings. A name such as `accuracy_threshold` is a metric only if its line shows progress."""

_SHARES = frozenset(("accuracy", "acc", "recall", "precision"))
_QUALIFIER = re.compile(r"(?P<word>[\w']+)(?: set)?$")
MOST_QUALIFIERS = 2  # as in `best val accuracy`
_NOT_BEFORE = frozenset(("from", "than"))  # as in `Start training from score 0.5`

_SPLIT_WORD = "train(?:ing)?|test(?:ing)?|val(?:id(?:ation)?)?|dev|eval(?:uation)?"
_PART = re.compile(
    rf"(?<![\w/.@-])({_SPLIT_WORD})(?: epoch\b|(?: (?:set|results?|metrics|summary|stats))?[\"']?"
    r" ?(?:[|\])]|- (?!\d)|:(?=\s*\d+\s+\[)|:(?!\s*[-+.]?\d)))",
    re.IGNORECASE,
)
"""The beginning of the part of a line that belongs to a part of the data: `Test: [1/5] loss 3`, `| valid | loss 3`."""

_SETTINGS_BEGIN = re.compile(
    r"(?<![\w/.-])(?:hyper-?param(?:eter)?s?|hparams?|hyp|param(?:eter)?s|config(?:uration)?|cfg|args|arguments|settings|"
    r"options|opts?|flags)[\"']?\s*[:=]\s*(?=[{\[(<]|[\w.]+\s*[=:])",
    re.IGNORECASE,
)
_CONSTANT = re.compile(r"[=:]\s*(?:None|True|False|null|true|false)\b")
MOST_CONSTANTS = 2  # maximum number of texts such as `None` and `False` in a line that shows progress
_PARENTHESIS = re.compile(r"[()]")


class Kind(NamedTuple):
    """The kind of the numbers with a name."""

    is_possible: bool = False  # a metric if the line shows progress
    is_metric: bool = False  # a metric in any line
    is_share: bool = False  # a value from 0 to 1
    is_precision: bool = False
    is_qualifier: bool = False  # the name is only `train` or `test`, so that an integer is probably a count


@functools.lru_cache(MOST_NAMES)
def judge(name: str) -> Kind:
    """Return the kind of the numbers with this name."""
    words = words_of(name)
    has_metric_word = is_metric(name)
    others = words & _NONE
    if (others and not (has_metric_word and (others <= _HARMLESS or phrase_goal(name) is not None))) or (
        not has_metric_word and len(name) < 2
    ):
        return Kind()
    certain = has_metric_word and not words & _SETTINGS
    return Kind(True, certain, bool(words & _SHARES), "precision" in words, bool(words) and words <= _QUALIFIERS)


def name_before(text: str, end: int) -> str:
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
    for _ in range(MOST_QUALIFIERS):
        if before != " " or begin < 2:
            break
        qualifier = _QUALIFIER.search(text, max(0, begin - 30), begin - 1)
        word = qualifier["word"].lower() if qualifier else ""
        if word in _NOT_BEFORE:
            return ""
        if not qualifier or not (word in _QUALIFIERS or word.endswith("'s")):
            break
        name, begin = f"{qualifier[0]} {name}", qualifier.start()
        before = text[begin - 1] if begin else ""
    return name.rstrip(".")


def split_in(name: str) -> str:
    """Return the word in a name that names a part of the data, as it is written there; "" without such a word."""
    if not words_of(name) & SPLITS:
        return ""
    return next((word for word in re.findall(r"[A-Za-z]+", name.replace("_", " ")) if word.lower() in SPLITS), "")


def parts_of(text: str) -> list[tuple[int, str]]:
    """Return the offset and the word of each part of the data in a line: `train: loss 3 valid: loss 4`."""
    return [(match.start(), match[1]) for match in _PART.finditer(text)]


def settings_in(text: str, *, is_progress: bool) -> list[tuple[int, int]]:
    """Return the ranges of a line that are settings or the representation of an object, such as `Namespace(lr=0.1)`."""
    if sum(1 for _ in _CONSTANT.finditer(text)) > (MOST_CONSTANTS if is_progress else 1):
        return [(0, len(text))]
    ranges = _calls(text) if "(" in text else []
    if settings := _SETTINGS_BEGIN.search(text):
        ranges.append((settings.start(), len(text)))
    return ranges


def _calls(text: str) -> list[tuple[int, int]]:
    """Return the ranges of the outermost parentheses that follow a word directly."""
    ranges = []
    open_parentheses: list[bool] = []  # True for those that follow a word
    begin = calls = 0  # the offset of the outermost call, and the number of open calls
    for match in _PARENTHESIS.finditer(text):
        at = match.start()
        if match[0] == "(":
            is_call = at > 0 and (text[at - 1].isalnum() or text[at - 1] == "_")
            open_parentheses.append(is_call)
            begin, calls = (begin if calls else at, calls + 1) if is_call else (begin, calls)
        elif open_parentheses and open_parentheses.pop():
            calls -= 1
            if not calls:
                ranges.append((begin, at))
    return [*ranges, (begin, len(text))] if calls else ranges
