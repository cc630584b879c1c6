"""The words in the names of metrics: which names are metrics, and whether low or high values are better.

There is one table for both questions, so that each metric that is found in the output can also be compared.
"""

from __future__ import annotations

import functools
import re

# fmt: off
LOWER = frozenset((
    "loss", "losses", "error", "errors", "err", "mse", "rmse", "mae", "mape", "rmsle", "logloss", "merror", "nll",
    "perplexity", "ppl", "wer", "cer", "fid", "bpb", "bpc", "regret", "latency",
))
"""Words of metrics whose low values are better."""

HIGHER = frozenset((
    "accuracy", "acc", "precision", "recall", "f1", "auc", "auroc", "auprc", "map", "map50", "score", "reward",
    "return", "bleu", "rouge", "meteor", "iou", "miou", "dice", "r2", "psnr", "ssim", "throughput", "top1", "top5",
    "kappa", "mcc", "elbo", "elo", "mfu",
))
"""Words of metrics whose high values are better."""

_NO_GOAL = frozenset(("kl",))  # words of other metrics

_COMMON = frozenset(("error", "errors", "err", "latency", "return", "throughput", "regret"))
"""Words of the table that other texts contain as well. A name with such a word is a metric if its line shows progress.
"""

_PHRASES = {
    "error_rate": "min", "bits_per_byte": "min", "bits_per_char": "min", "bits_per_character": "min", "grad_norm": "",
    "exact_match": "max", "win_rate": "max", "success_rate": "max", "pass_rate": "max", "tok_s": "max",
    "tok_sec": "max", "tokens_s": "max", "tokens_sec": "max", "tokens_per_s": "max", "tokens_per_sec": "max",
    "tokens_per_second": "max",
}
"""Consecutive words that are the name of a metric only together, with the better direction."""
# fmt: on

_DIRECTED = LOWER | HIGHER
_CERTAIN = (_DIRECTED | _NO_GOAL) - _COMMON
_UNKNOWN = frozenset(("neg", "negative", "time", "scale"))  # as in neg_log_loss, score_time and loss_scale
_PASS_AT = re.compile(r"_pass_\d")  # `pass@1`, the share of solved tasks
_ABBREVIATION = re.compile(r"(mAP|m?IoU)(?![A-Za-z])")  # words whose case does not show where they end
_SPLIT = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z])(?=[A-Z])")


@functools.lru_cache(2000)
def words_of(name: str) -> frozenset[str]:
    """Return the words in the name of a metric, in lower case."""
    words: set[str] = set()
    for word in _split(name):
        # `loss2` and `loss` are the same word; `f1` and `top5` are different words.
        words |= {word, *({word.rstrip("0123456789")} & _DIRECTED)}
    return frozenset(words)


@functools.lru_cache(2000)
def phrase_goal(name: str) -> str | None:
    """Return the better direction of the phrase in a name, `min`, `max` or "" (unknown); None without a phrase."""
    joined = f"_{'_'.join(_split(name))}_"
    goals = [goal for phrase, goal in _PHRASES.items() if f"_{phrase}_" in joined]
    return goals[0] if goals else "max" if _PASS_AT.search(joined) else None


def is_metric(name: str) -> bool:
    """Return True if a number with this name is a metric, whatever the rest of its line is."""
    return bool(words_of(name) & _CERTAIN) or phrase_goal(name) is not None


def goal_of(metric: str) -> str:
    """Return `min` or `max`, the better direction of a metric according to the words in its name; "" if unknown."""
    words, phrase = words_of(metric), phrase_goal(metric)
    lower, higher = bool(words & LOWER) or phrase == "min", bool(words & HIGHER) or phrase == "max"
    if words & _UNKNOWN or lower == higher:
        return ""
    return "min" if lower else "max"


def _split(name: str) -> list[str]:
    name = _ABBREVIATION.sub(lambda match: f" {match[0].lower()} ", name.replace("'s ", " "))
    return [word.lower() for word in _SPLIT.split(name) if word]
