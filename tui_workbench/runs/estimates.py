"""Statistics of a metric over several runs: mean and standard deviation, and the comparison of two means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from tui_workbench.runs.metrics.metric_words import goal_of

LARGEST = 1e150  # largest magnitude of a value, so that sums of squares do not overflow
CONFIDENCE = 0.95
_LARGEST_T = 13.0  # more than the quantile for one degree of freedom, 12.71
_INTERVALS, _HALVINGS = 80, 40  # of the numerical integration and of the bisection, for a relative error below 1e-8


class Estimate(NamedTuple):
    """The mean and the sample standard deviation of `n` values; `sd` is None for a single value."""

    n: int
    mean: float
    sd: float | None


class Difference(NamedTuple):
    """A difference of two means; the confidence interval is `value` ± `margin`."""

    value: float
    margin: float
    degrees: float  # of freedom

    @property
    def is_distinguishable(self) -> bool:
        """True if the confidence interval does not contain 0."""
        return abs(self.value) > self.margin


def finite(value: object) -> float | None:
    """Return a number whose magnitude is less than LARGEST; None for any other value."""
    return float(value) if isinstance(value, int | float) and abs(value) < LARGEST else None


def estimate(values: Sequence[float]) -> Estimate | None:
    """Return the mean and the standard deviation of finite values; None without values."""
    if not values:
        return None
    n, mean = len(values), math.fsum(values) / len(values)
    if n > 1 and min(values) == max(values):
        return Estimate(n, values[0], 0.0)  # the quotient can differ from the values in its last digit
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1)) if n > 1 else None
    return Estimate(n, mean, sd)


def difference(first: Estimate | None, second: Estimate | None) -> Difference | None:
    """Return the difference of two means with its 95% confidence interval, for unequal variances.

    Return None if an estimate has fewer than two values, or if both standard deviations are 0. Source: B. L. Welch,
    "The generalization of 'Student's' problem when several different population variances are involved", Biometrika 34,
    1947; the degrees of freedom follow Satterthwaite.
    """
    if first is None or second is None or first.sd is None or second.sd is None:
        return None
    variances = first.sd**2 / first.n, second.sd**2 / second.n
    if not sum(variances):
        return None
    share = variances[0] / sum(variances)
    degrees = 1 / (share**2 / (first.n - 1) + (1 - share) ** 2 / (second.n - 1))
    return Difference(first.mean - second.mean, t_quantile(degrees) * math.sqrt(sum(variances)), degrees)


def t_quantile(degrees: float) -> float:
    """Return the t for which Student's distribution has a probability of 95% between -t and t.

    `degrees` is at least 1. The density (Abramowitz and Stegun, 26.7.1) is integrated by Simpson's rule after the
    substitution t = sqrt(degrees) tan(angle), which makes the density a power of a cosine.
    """
    factor = 2 * math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(math.pi)

    def probability(angle: float) -> float:
        step = angle / _INTERVALS
        heights = [math.pow(math.cos(n * step), degrees - 1) for n in range(_INTERVALS + 1)]
        return factor * step / 3 * (heights[0] + 4 * sum(heights[1:-1:2]) + 2 * sum(heights[2:-1:2]) + heights[-1])

    low, high = 0.0, math.atan(_LARGEST_T / math.sqrt(degrees))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if probability(middle) < CONFIDENCE else (low, middle)
    return math.sqrt(degrees) * math.tan(low)


def plus_minus(value: float, spread: float) -> str:
    """Format a value with its spread, such as `0.9123 ± 0.0042`. The spread determines the number of decimals."""
    if spread and 1e-6 <= spread < 1e6:
        decimals = max(0, 1 - math.floor(math.log10(spread)))
        return f"{value:.{decimals}f} ± {spread:.{decimals}f}"
    return f"{value:.6g} ± {spread:.2g}"


def estimate_text(statistics: Estimate | None) -> str:
    """Format a mean, with its standard deviation if there is one; "" without an estimate."""
    if statistics is None:
        return ""
    return f"{statistics.mean:.6g}" if statistics.sd is None else plus_minus(statistics.mean, statistics.sd)


def verdict(names: tuple[str, str], metric: str, estimates: tuple[Estimate | None, Estimate | None]) -> str:
    """Return a sentence that says which family has the better or higher mean, or why the means cannot be compared."""
    for name, statistics in zip(names, estimates, strict=True):
        if statistics is None or statistics.n < 2:
            have = "no value" if statistics is None else "only 1 value"
            return f"not distinguishable yet: {name} has {have} of {metric}, but 2 are needed"
    first, second = (statistics for statistics in estimates if statistics is not None)
    counts = f"n = {first.n} each" if first.n == second.n else f"n = {first.n} and {second.n}"
    compared = difference(first, second)
    if compared is None:
        return f"not comparable: {metric} does not vary within the families; check that the script uses the seed"
    if not compared.is_distinguishable:
        return f"not distinguishable yet: the difference is {plus_minus(compared.value, compared.margin)}, {counts}"
    goal = goal_of(metric)
    higher, lower = names if compared.value > 0 else names[::-1]
    winner, word = (lower if goal == "min" else higher), "better" if goal else "higher"
    note = {"min": f", lower {metric} is better", "max": f", higher {metric} is better", "": ""}[goal]
    return f"{winner} is {word} by {plus_minus(abs(compared.value), compared.margin)}, {counts}{note}"
