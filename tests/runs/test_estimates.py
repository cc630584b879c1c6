"""Statistics of several runs, against published values."""

from __future__ import annotations

import pytest

from tui_workbench.runs.estimates import difference, estimate, finite, plus_minus, t_quantile, verdict
from tui_workbench.runs.metrics.metric_words import goal_of

# Student's sleep data and the result of R's `t.test(extra ~ group, data = sleep)`, from R's documentation.
SLEEP = (0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0), (1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4)
NAMES = ("a", "b")


@pytest.mark.parametrize(
    ("degrees", "t"), [(1, 12.706), (2, 4.303), (4, 2.776), (10, 2.228), (30, 2.042), (120, 1.980), (1e6, 1.960)]
)
def test_quantiles_agree_with_published_tables(degrees: float, t: float) -> None:
    assert t_quantile(degrees) == pytest.approx(t, abs=5e-4)


def test_welch_interval_agrees_with_r() -> None:
    first, second = map(estimate, SLEEP)
    assert first is not None
    assert (first.n, first.mean, first.sd) == pytest.approx((10, 0.75, 1.789010), abs=1e-6)
    found = difference(first, second)
    assert found is not None
    assert found.degrees == pytest.approx(17.776, abs=5e-4)
    assert (found.value - found.margin, found.value + found.margin) == pytest.approx((-3.3654832, 0.2054832), abs=1e-7)
    assert not found.is_distinguishable


def test_mean_and_deviation_of_few_values() -> None:
    assert estimate([]) is None
    assert estimate([2.0]) == (1, 2.0, None)
    assert tuple(estimate([1.0, 3.0]) or ()) == pytest.approx((2, 2.0, 2**0.5))
    assert difference(estimate([1.0]), estimate([1.0, 2.0])) is None


@pytest.mark.parametrize("value", [45060.2, 0.1, 1e-9, -3.3, 0.0])
@pytest.mark.parametrize("count", [2, 3, 7])
def test_equal_values_do_not_vary(value: float, count: int) -> None:
    equal = estimate([value] * count)
    assert equal is not None
    assert tuple(equal) == (count, value, 0.0)
    assert verdict(NAMES, "peak_vram_mb", (equal, equal)).startswith("not comparable: peak_vram_mb does not vary")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e200, "0.5", None])
def test_text_and_numbers_out_of_range_are_left_out(value: object) -> None:
    assert finite(value) is None


@pytest.mark.parametrize(
    ("metric", "first", "second", "sentence"),
    [
        # By hand: sd 1 each, standard error sqrt(2/3), 4 degrees of freedom: 2.776 * 0.8165 = 2.267.
        ("loss", (1, 2, 3), (6, 7, 8), "a is better by 5.0 ± 2.3, n = 3 each, lower loss is better"),
        ("accuracy", (1, 2, 3), (6, 7, 8), "b is better by 5.0 ± 2.3, n = 3 each, higher accuracy is better"),
        ("width", (1, 2, 3), (6, 7, 8), "b is higher by 5.0 ± 2.3, n = 3 each"),
        ("loss", (1, 2, 3), (2, 3, 4), "not distinguishable yet: the difference is -1.0 ± 2.3, n = 3 each"),
        ("loss", (1, 2), (), "not distinguishable yet: b has no value of loss, but 2 are needed"),
        ("loss", (1,), (1, 2), "not distinguishable yet: a has only 1 value of loss, but 2 are needed"),
        ("loss", (1, 1), (2, 2), "not comparable: loss does not vary within the families; check that the script uses"),
    ],
)
def test_sentence_says_which_family_is_better(
    metric: str, first: tuple[float, ...], second: tuple[float, ...], sentence: str
) -> None:
    assert verdict(NAMES, metric, (estimate(first), estimate(second))).startswith(sentence)


@pytest.mark.parametrize(
    ("value", "spread", "text"),
    [
        (0.91234, 0.0042, "0.9123 ± 0.0042"), (0.8, 0.3, "0.80 ± 0.30"), (12345.6, 120.0, "12346 ± 120"),
        (1.5, 0.0, "1.5 ± 0"), (3e-9, 1e-9, "3e-09 ± 1e-09"),
    ],
)  # fmt: skip
def test_value_and_spread_have_the_same_digits(value: float, spread: float, text: str) -> None:
    assert plus_minus(value, spread) == text


@pytest.mark.parametrize(
    ("metric", "goal"),
    [
        ("loss", "min"), ("val_loss", "min"), ("valLoss", "min"), ("test/error_rate", "min"), ("Accuracy", "max"),
        ("f1", "max"), ("eval.bleu-4", "max"), ("learning_rate", ""), ("closeness", ""), ("loss_score", ""),
        ("neg_log_loss", ""), ("negative_error", ""), ("test_score_time", ""), ("loss_scale", ""), ("mAPE", ""),
        ("val_bpb", "min"), ("pass@1", "max"), ("eval/exact_match", "max"), ("win_rate", "max"), ("tok/s", "max"),
        ("bits_per_byte", "min"), ("elo", "max"), ("mfu_percent", "max"), ("acc1", "max"), ("grad_norm", ""),
        ("val_mAP", "max"), ("metrics/mAP50-95(B)", "max"), ("mIoU", "max"),
    ],
)  # fmt: skip
def test_better_direction_follows_from_the_name(metric: str, goal: str) -> None:
    assert goal_of(metric) == goal
