"""Metrics in output lines, their steps, and lines that only look like metrics."""

from __future__ import annotations

import math
import time
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies

from tests.runs.metrics.support import curve, end, lasts, read, write
from tui_workbench.runs.metrics import RunMetrics
from tui_workbench.runs.metrics.output import LIMIT
from tui_workbench.runs.metrics.progress import ProgressLines

LINES: list[tuple[str, dict[str, float], float | None]] = [
    ("loss: 0.31", {"loss": 0.31}, None),
    ("epoch 3/5  loss 0.0412  accuracy 0.983", {"loss": 0.0412, "accuracy": 0.983}, 3),
    ("val/loss=2e-1 val.acc=.9 -", {"val/loss": 0.2, "val.acc": 0.9}, None),
    ("Test accuracy: 98.3%", {"Test accuracy": 98.3}, None),
    ("Iteration 20, loss = -0.1234;", {"loss": -0.1234}, 20),
    ("[step 1,500] Loss: 7.", {"Loss": 7}, 1500),
    ("2024-01-01 12:30:45,123 INFO [trainer.py:45] step 100 loss=0.3 lr=0.1 elapsed=12.3s",
     {"loss": 0.3, "lr": 0.1}, 100),
    ("{'loss': 0.31, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 0.5}",  # Hugging Face
     {"loss": 0.31, "grad_norm": 1.2, "learning_rate": 5e-5}, 0.5),
    ('{"epoch": 2, "loss": 0.25, "note": "x"}', {"loss": 0.25}, 2),
    ("Train Epoch: 2 [640/60000 (1%)]\tLoss: 2.300", {"Train Loss": 2.3}, 1 + 640 / 60000),  # PyTorch's examples
    ("Test set: Average loss: 0.0262, Accuracy: 9913/10000 (99%)",
     {"Test Average loss": 0.0262, "Test Accuracy": 0.9913}, None),
    ("Epoch: [1][  10/5000]\tTime  0.212 ( 0.343)\tLoss 6.9e+00 (7.0e+00)\tAcc@1   0.00 (  0.10)",
     {"Loss": 7.0, "Acc@1": 0.1}, 10 / 5000),
    ("[7]\ttrain-rmse:0.5\teval-rmse:0.6", {"train-rmse": 0.5, "eval-rmse": 0.6}, 7),  # XGBoost
    ("[10]\tvalid_0's auc: 0.9\tvalid_1's l2: 0.1", {"valid_0's auc": 0.9, "valid_1's l2": 0.1}, 10),  # LightGBM
    ("| epoch 002:    10 / 100 loss=5.3, ppl=40, wps=3000", {"loss": 5.3, "ppl": 40, "wps": 3000}, 1.1),  # fairseq
    ("Epoch [2][50/1000]  lr: 0.002, eta: 0:10:00, time: 0.3, data_time: 0.01, memory: 3000, loss: 1.2",
     {"lr": 0.002, "loss": 1.2}, 1.05),  # OpenMMLab
    (" 10/40 [=====>.........] - ETA: 5s - loss: 2.1 - accuracy: 0.2", {"loss": 2.1, "accuracy": 0.2}, 10),  # Keras 2
    ("\x1b[1m40/40\x1b[0m \x1b[32m━━━━\x1b[0m\x1b[37m\x1b[0m \x1b[1m3s\x1b[0m 6ms/step - accuracy: 0.92 - loss: 0.25",
     {"accuracy": 0.92, "loss": 0.25}, 40),  # Keras 3
    ("Train:  10%|█         | 10/100 [00:01<00:09,  9.50it/s, loss=0.31, lr=1e-4]", {"loss": 0.31, "lr": 1e-4}, 10),
    ("Epoch 3: 100%|████| 100/100 [00:01<00:00, 80.0it/s, v_num=0, train_loss=0.3]",  # Lightning
     {"train_loss": 0.3}, 3),
    ("====> Test set loss: 105.2", {"Test set loss": 105.2}, None),  # PyTorch's example of a VAE
    ("step 3 \x1b[1mloss\x1b[0m: \x1b[31m0.5\x1b[0m, acc=\x1b[38;5;2m0.9", {"loss": 0.5, "acc": 0.9}, 3),
    ("loss \x1b[31m0.5\x1b[0m", {"loss": 0.5}, None),
    ("test accuracy 0.983 in 1.2 s, model in outputs/model.pt", {"test accuracy": 0.983}, None),
]  # fmt: skip


@pytest.mark.parametrize(("line", "metrics", "step"), LINES, ids=[line[:40] for line, _, _ in LINES])
def test_metrics_of_a_line_have_their_step(line: str, metrics: dict[str, float], step: float | None) -> None:
    found = list(ProgressLines().metrics(line.encode()))
    assert {one.name: one.value for one in found} == metrics
    assert {one.step for one in found} == {step}


@pytest.mark.parametrize(
    "line",
    [
        "", "hello", "Epoch 1/5", "10000/10000 examples done", "name: NVIDIA H200", "major: 9 minor: 0",
        "pciBusID 0000:01:00.0", "Total memory: 139.00GiB", "Namespace(epochs=15, batch_size=64, lr=0.01, seed=0)",
        "python train.py --epochs 5 --lr 0.1", "1437 images to learn from, 360 to test with", "seed: 42", "lr: 0.01",
        "http://localhost:8080/x=3", "/data/loss=3/file", "C:\\loss=3\\x", "12:30:45 started", "2024-01-01T12:30:45",
        "device=cuda:0 precision=32", "loss_scale=65536", "loss: none", "loss: 3GB", "loss: 1.2.3", "accuracy: 12:30",
        '  File "train.py", line 30, in main', "Epoch 00005: val_loss improved from inf to 0.123", "port: 8080",
        "loss in step 3 of 5", "error: 5", "GPU 0: 50%", "Saved checkpoint at step 500", "eta: 3 time: 4 step 5",
        "requests==2.31", "torch 2.3.0", "[1/5] loading", "x" * 3000 + " loss: 1",
        "INFO - Namespace(data='mnist', accuracy_threshold=0.9, loss=3)", "TrainingArgs(map=3, loss_weight=0.5)",
        "accuracy_threshold: 0.9", "loss_weight = 0.5", "iou_thr: 0.7", "Config: {'loss': 0.5, 'f1': 0.1}",
        "hyperparameters: lr0=0.01, box=0.05, iou_t=0.2, anchor_t=4.0, map=0.1", "args: loss=0.3 score=0.5",
        "task=detect, mode=train, epochs=3, batch=16, cache=False, device=None, iou=0.7, max_det=300, half=False",
        "{'model': {'name': 'resnet', 'pretrained': True, 'loss': 0.5}, 'trainer': {'ckpt': None}}",
        "FrozenTrial(number=3, values=[0.96], distributions={'x': FloatDistribution(high=1.0, low=0.0, log=False)})",
        "[LightGBM] [Info] Start training from score 0.123", "Train: 1 [", "epoch 2 train: 5000 val: 1000",
        "MyLoss(margin=0.5, score=3", "loss_fn(reduction=0.1, acc=0.3)",
    ],
    ids=lambda line: line[:40],
)  # fmt: skip
def test_lines_that_only_look_like_progress_are_ignored(line: str) -> None:
    assert list(ProgressLines().metrics(line.encode())) == []


NUMBERS = {
    "0.31": 0.31, "-0.31": -0.31, "+2": 2, ".5": 0.5, "7.": 7, "1e-3": 0.001, "1E+3": 1000, "98.3%": 98.3,
    "0.31,": 0.31, "0.31;": 0.31, "0.31)": 0.31, "0.31 s": 0.31, "0.31, 0.2": 0.31, "0.31,acc": 0.31, "0.31|": 0.31,
    "'0.31'": 0.31, '"0.31"': 0.31, "0.31 ± 0.02": 0.31, "0.31 +/- 0.02": 0.31, "0.31 (0.29)": 0.29,
    "0.310(0.290)": 0.29, "0.31 ( 0.29)": 0.29, "98.3% (97.1%)": 97.1, "0.31 (7)": 0.31, "31 (7)": 31,
    "0.31 (7 epochs)": 0.31, "0.31 (0.28, 0.34)": 0.31, "0.123(4)": 0.123, "tensor(0.31)": 0.31,
    "tensor(0.31, grad_fn=<NllLossBackward0>)": 0.31, "tensor(0.31, device='cuda:0')": 0.31,
    "tensor(0.31, device='cuda:0', grad_fn=<DivBackward0>)": 0.31, "tensor([0.31])": 0.31,
    "np.float64(0.31)": 0.31, "numpy.float32(0.31)": 0.31, "array(0.31, dtype=float32)": 0.31,
    "Array(0.31, dtype=float32)": 0.31, "DeviceArray(0.31, dtype=float32)": 0.31,
    "tf.Tensor(0.31, shape=(), dtype=float32)": 0.31, "tensor(nan)": math.nan,
    # Text that makes another number of it
    "0,31": None, "1,5": None, "1.234,5": None, "1,234.5": None, "1,234": None, "1'234": None, "1'234.5": None,
    "1_000": None, "1 234.5": None, "1 234 567": None,
    "1\u00a0234": None, "1\u202f234,5": None, "12.3M": None, "0.5x": None, "3e4f": None, "3GB": None,
    "0.31D-02": None, "1.2.3": None, "12:30": None, "0x1F": None, "2 x 10^-3": None, "2 × 10^-3": None,
    "2*10**-3": None, "1/3": None, "2024-01-01": None, "1.#INF": None, "0.3+0.1j": None, "tensor(0.3+0.1j)": None,
    "tensor([0.3, 0.2])": None, "[0.3, 0.2]": None, "0,31, 0,29": None, "0,31 (0,29)": None, "0.31,0.29": None,
    "'0.31": None, "~0.3": None, "<0.3": None, "\u22120.3": None, "0.3…": None, "½": None, "3²": None,
}  # fmt: skip


@pytest.mark.parametrize("form", ["epoch 5 loss {}", "epoch 5 loss: {}", "epoch 5 loss={}"])
@pytest.mark.parametrize("text", NUMBERS)
def test_number_is_read_as_it_is_written_or_not_at_all(form: str, text: str) -> None:
    found = [one.value for one in ProgressLines().metrics(form.format(text).encode())]
    expected = NUMBERS[text]
    assert repr(found) == repr([] if expected is None else [float(expected)])


@pytest.mark.parametrize(
    "line", ["step {}", "step 1 of {}", "step {0}/{0}", "epoch {}", "[{}]\t", "epoch 1: {0}/{0} [", "{0}/{0} ["]
)
def test_number_with_hundreds_of_digits_is_no_step(line: str) -> None:
    (found,) = ProgressLines().metrics(f"{line.format('1' * 400)} loss: 0.5".encode())
    assert found.value == 0.5
    assert found.step in (None, 1)


@pytest.mark.parametrize(
    "text",
    [
        " " * 1500, "\t" * 1500, f"{' ' * 700}:{' ' * 700}", "1" * 1500, f"{'1' * 700}/{'1' * 700}", "f(" * 750,
        "tensor(0,a=" * 130, "tensor(0,a=()" * 110, "tensor(0,a=" + "()" * 700, "=[" * 750, "train: " * 210, "a|" * 750,
        "config=" * 200, "'" * 1500, "a " * 750, "(1.0 " * 300, "epoch(train) [" * 100, "1,234," * 250,
        "epoch  loss  " * 110,
    ],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_crafted_line_is_read_quickly(text: str) -> None:
    begin = time.process_time()
    for _ in range(10):
        list(ProgressLines().metrics(f"accuracy: 1 accuracy: {text}x".encode()))
    assert time.process_time() - begin < 0.3


@pytest.mark.parametrize(
    ("text", "value"), [("nan", math.nan), ("NaN", math.nan), ("inf", math.inf), ("-inf", -math.inf)]
)
def test_diverged_loss_is_read(text: str, value: float) -> None:
    (found,) = ProgressLines().metrics(f"loss: {text}".encode())
    assert repr(found.value) == repr(value)


def test_bar_belongs_to_the_epoch_of_an_earlier_line() -> None:
    progress = ProgressLines()
    steps = []
    for line in (
        "Epoch 1/2",
        " 20/40 [==>..] - loss: 4",
        "40/40 [====] - loss: 3",
        "Epoch 2/2",
        " 10/40 [>] - loss: 2",
    ):
        steps += [found.step for found in progress.metrics(line.encode())]
    assert steps == [0.5, 1, 1.25]


def test_epochs_can_count_from_zero() -> None:
    progress = ProgressLines()
    lines = ("Epoch 0: 50%|██  | 5/10 [00:01<00:01, loss=3]", "Epoch 1: 50%|██  | 5/10 [00:01<00:01, loss=2]")
    assert [found.step for line in lines for found in progress.metrics(line.encode())] == [0.5, 1.5]


def test_bars_without_epochs_continue_each_other() -> None:
    progress = ProgressLines()
    lines = [f"{done}/4 [..] - loss: 1" for done in (2, 4, 1, 4, 2)]
    assert [found.step for line in lines for found in progress.metrics(line.encode())] == [2, 4, 5, 8, 10]


@pytest.mark.slow
@hypothesis.given(strategies.text(max_size=200))
@hypothesis.settings(max_examples=150)
def test_any_line_can_be_parsed(text: str) -> None:
    for found in ProgressLines().metrics(f"epoch 1 {text}".encode("utf-8", "surrogatepass")):
        assert found.name


# Steps that begin again with each epoch


def steps_of(lines: str) -> dict[str, list[float | None]]:
    """Return the steps of each metric in these lines."""
    progress = ProgressLines()
    found: dict[str, list[float | None]] = {}
    for line in lines.splitlines():
        for one in progress.metrics(line.encode()):
            found.setdefault(one.name, []).append(one.step)
    return found


def test_iterations_of_mingpt_ddp_become_global_steps() -> None:
    lines = "".join(
        f"[GPU0] Epoch {epoch} | Iter {iteration} | {kind} Loss {1 / epoch:.5f}\n"
        for epoch in (1, 2, 3)
        for kind, count in (("Train", 3), ("Eval", 2))
        for iteration in range(0, 100 * count, 100)
    )
    assert steps_of(lines) == {
        "Train Loss": [0, 100, 200, 300, 400, 500, 600, 700, 800],
        "Eval Loss": [0, 100, 200, 300, 400, 500],
    }


def test_late_line_of_another_process_keeps_its_epoch() -> None:
    lines = (
        "[GPU0] Epoch 1 | Iter 0 | Train Loss 3\n[GPU1] Epoch 1 | Iter 0 | Train Loss 3\n"
        "[GPU0] Epoch 1 | Iter 100 | Train Loss 2\n[GPU0] Epoch 2 | Iter 0 | Train Loss 2\n"
        "[GPU1] Epoch 1 | Iter 100 | Train Loss 2\n[GPU0] Epoch 2 | Iter 100 | Train Loss 1\n"
    )
    assert steps_of(lines) == {"Train Loss": [0, 0, 100, 200, 100, 300]}


@pytest.mark.parametrize(
    ("lines", "steps"),
    [
        ("epoch 1 step 100 loss 3\nepoch 1 step 200 loss 2\nepoch 2 step 100 loss 1\n", [100, 200, 300]),
        ("epoch 1 step 900 loss 3\nepoch 2 step 900 loss 2\nepoch 3 step 900 loss 1\n", [900, 1800, 2700]),
        ("epoch 0 step 0 loss 3\nepoch 1 step 0 loss 2\nepoch 2 step 0 loss 1\n", [0, 1, 2]),
        ("Epoch 1\nstep 1 loss 3\nstep 2 loss 2\nEpoch 2\nstep 1 loss 1\nstep 2 loss 1\n", [1, 2, 3, 4]),
        ("step 0 loss 3\nstep 50 loss 2\nstep 0 loss 1\nstep 50 loss 1\n", [0, 50, 100, 150]),
        ("epoch 1 step 900 loss 3\nepoch 2 step 1800 loss 2\nepoch 3 step 2700 loss 1\n", [900, 1800, 2700]),
        ("epoch 1 global_step 900 loss 3\nepoch 2 global_step 800 loss 2\n", [900, 800]),
        ("iter 0: loss 10.9, time 12.3ms\niter 10: loss 9.1, time 9ms\n", [0, 10]),  # nanoGPT
        ("iter_dt 0.00ms; iter 0: train loss 3.1\niter_dt 9.10ms; iter 100: train loss 2.1\n", [0, 100]),  # minGPT
        (
            "| epoch   1 |   200/ 1000 batches | lr 20.00 | loss  7.66\n"
            "| epoch   2 |   200/ 1000 batches | lr 20.00 | loss  6.66\n",  # word_language_model
            [0.2, 1.2],
        ),
        (
            "Train Epoch: 1 [0/60000 (0%)]\tLoss: 2.3\nTrain Epoch: 2 [0/60000 (0%)]\tLoss: 1.1\n",  # mnist
            [0, 1],
        ),
        ("Epoch: [0][ 10/100]\tLoss 6.9e+00\nEpoch: [1][ 10/100]\tLoss 5.9e+00\n", [0.1, 1.1]),  # imagenet
    ],
)
def test_steps_grow_over_all_epochs(lines: str, steps: list[float]) -> None:
    (found,) = [found for name, found in steps_of(lines).items() if "loss" in name.lower()]
    assert found == pytest.approx(steps)


# The whole log


def test_growing_log_is_read(tmp_path: Path) -> None:
    metrics = RunMetrics(str(tmp_path))
    write(tmp_path / "output.log", "starting\nepoch 1/3 loss 0.5\nepoch 2/3 lo")
    assert metrics.refresh()
    assert curve(metrics, "loss") == [(1, 0.5)]
    write(tmp_path / "output.log", "ss 0.4\n", append=True)
    assert metrics.refresh()
    assert curve(metrics, "loss") == [(1, 0.5), (2, 0.4)]
    assert metrics.summary()["loss"].source == "output"
    assert not metrics.refresh()


def test_bar_is_read_while_it_grows_and_at_the_end(tmp_path: Path) -> None:
    metrics = RunMetrics(str(tmp_path))
    for done in range(1, 4):
        write(tmp_path / "output.log", f"\r {done}/4 [=>..] - loss: {5 - done}", append=True)
    metrics.refresh()
    assert curve(metrics, "loss") == [(1, 4), (2, 3)]
    write(tmp_path / "output.log", "\r 4/4 [====] - loss: 1 - val_loss: 2", append=True)
    end(tmp_path)
    metrics.refresh()
    assert curve(metrics, "loss") == [(1, 4), (2, 3), (3, 2), (4, 1)]
    assert curve(metrics, "val_loss") == [(4, 2)]


def test_last_value_of_a_repeated_bar_step_counts(tmp_path: Path) -> None:
    write(tmp_path / "output.log", "\r 1/4 [..] - loss: 9\r 1/4 [..] - loss: 3\r 2/4 [..] - loss: 2\n")
    metrics = read(tmp_path)
    assert curve(metrics, "loss") == [(1, 3), (2, 2)]
    assert metrics.summary()["loss"].maximum == 3


def test_carriage_return_and_newline_end_a_line(tmp_path: Path) -> None:
    write(tmp_path / "output.log", "epoch 1 loss 3\r\nepoch 2 loss 2\r\n")
    assert curve(read(tmp_path), "loss") == [(1, 3), (2, 2)]


FILLER = b"the quick brown fox jumps over the lazy dog" * 20 + b"\n"


def long_log(run: Path, megabytes: int) -> None:
    """Write a log of many megabytes with a few values at its start and end."""
    write(run / "output.log", b"step 1 loss: 7.7\nstep 2 loss: 7.6\n")
    write(run / "output.log", FILLER * (megabytes * 1_000_000 // len(FILLER)), append=True)
    write(run / "output.log", b"step 8 loss: 0.6\nstep 9 loss: 0.5\n", append=True)


@pytest.mark.slow
def test_long_log_has_its_last_value_and_a_note(tmp_path: Path) -> None:
    long_log(tmp_path, 20)
    metrics = read(tmp_path)
    assert curve(metrics, "loss") == [(1, 7.7), (2, 7.6), (8, 0.6), (9, 0.5)]
    assert metrics.notes() == ["output.log: too long to read at once; 11.6 MB were not searched for metrics"]
    assert not metrics.refresh()
    write(tmp_path / "output.log", b"step 10 loss: 0.4\n", append=True)
    metrics.refresh()
    assert curve(metrics, "loss")[-1] == (10, 0.4)


@pytest.mark.slow
def test_long_bar_has_its_last_value(tmp_path: Path) -> None:
    bar = b"".join(b"\r%6d/100000 [..] - loss: %d" % (step, 100_000 - step) for step in range(100_001))
    write(tmp_path / "output.log", bar + b"\r" * 3_000_000 + bar[-20_000:])
    assert curve(read(tmp_path, ended=True), "loss")[-1][1] == 0


@pytest.mark.slow
def test_followed_log_of_any_size_is_read_whole(tmp_path: Path) -> None:
    metrics = RunMetrics(str(tmp_path), use_stored=False)
    lines = b"".join(b"step %d loss: %d\n%s\n" % (step, step, b"." * 180) for step in range(50_000))
    assert len(lines) > LIMIT
    write(tmp_path / "output.log", lines)
    while metrics.follow():
        pass
    metrics.refresh(ended=True)
    assert metrics.notes() == []
    assert metrics.summary()["loss"].count == 50_000
    assert curve(metrics, "loss")[-1] == (49_999, 49_999)


@pytest.mark.slow
def test_curves_of_endless_output_are_thinned_to_their_extremes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui_workbench.runs.metrics.output.MOST_POINTS", 2000)
    metrics = RunMetrics(str(tmp_path))
    for start in range(0, 20_000, 1000):
        lines = (f"step {step} loss: {-5 if step == 7777 else step % 100}\n" for step in range(start, start + 1000))
        write(tmp_path / "output.log", "".join(lines) + "accuracy: 1\n", append=True)
        metrics.refresh()
    found = metrics.summary()["loss"]
    assert (found.count, found.last, found.minimum, found.maximum) == (20_000, 99, -5, 99)
    assert len(curve(metrics, "loss")) <= 3000
    assert (7777, -5) in curve(metrics, "loss")
    assert metrics.summary()["accuracy"].count == len(curve(metrics, "accuracy")) == 20
    assert [note.endswith("curves show only minima and maxima") for note in metrics.notes()] == [True]


def test_logged_metric_wins_over_printed_one(tmp_path: Path) -> None:
    write(tmp_path / "output.log", "epoch 1 loss 3 accuracy 0.5\n")
    write(tmp_path / "metrics.jsonl", '{"name":"loss","step":1,"value":2.99,"time":1}\n')
    metrics = read(tmp_path)
    assert lasts(metrics) == {"loss": 2.99, "accuracy": 0.5}
    assert [found.source for found in metrics.summary().values()] == ["sdk", "output"]
