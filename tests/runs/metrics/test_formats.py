"""Metrics in the output of real libraries: every metric is found, with its step, and nothing else is.

The outputs are in `data/output`, in the formats of the libraries.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runs.metrics.support import curve, end, read, write

OUTPUTS = Path(__file__).parent / "data" / "output"

FORMATS: dict[str, dict[str, list[tuple[float, float]]]] = {
    "pytorch-mnist-example": {
        "Train Loss": [(0, 2.3054), (0.5, 0.25), (1, 0.1)],
        "Test Average loss": [(0, 0.05), (1, 0.04)],
        "Test Accuracy": [(0, 0.9833), (1, 0.985)],
    },
    "pytorch-imagenet-example": {
        "Loss": [(0.0001998, 7.1), (1, 7.0)],
        "Acc@1": [(0.0001998, 0.1), (1, 0.2)],
        "Acc@5": [(0.0001998, 0.4), (1, 1.4)],
        "Test Loss": [(0.005102041, 4.5)],
        "Test Acc@1": [(0.005102041, 10), (1, 15)],
        "Test Acc@5": [(0.005102041, 40), (1, 45.5)],
    },
    "torchvision-references": {
        "lr": [(0, 0.1), (0.5, 0.1)],
        "loss": [(0, 6.95), (0.5, 6.25)],
        "acc1": [(0, 0.2), (0.5, 1.2)],
        "Test loss": [(0, 4.6)],
        "Test acc1": [(0, 11.5)],
        "Test Acc@1": [(0, 10.25)],
        "Test Acc@5": [(0, 30.5)],
    },
    "timm": {
        "Train Loss": [(0, 6.92), (0.98, 6.4)],
        "Train LR": [(0, 1e-05), (0.98, 1e-05)],
        "Test Loss": [(0, 4.5), (1, 4.25)],
        "Test Acc@1": [(0, 25), (1, 50)],
        "Test Acc@5": [(0, 50), (1, 75)],
        "Best metric": [(0, 50)],
    },
    "transformers-4": {
        "loss": [(1, 0.52)],
        "grad_norm": [(1, 1.5)],
        "learning_rate": [(1, 4e-05)],
        "eval_loss": [(1, 0.41)],
        "eval_accuracy": [(1, 0.82)],
        "train_loss": [(2, 0.45), (2, 0.45)],
    },
    "transformers-5": {
        "loss": [(0.25, 4.465), (0.5, 3.9)],
        "grad_norm": [(0.25, 2.1), (0.5, 1.9)],
        "learning_rate": [(0.25, 4e-05), (0.5, 3e-05)],
        "eval_loss": [(0.5, 3.5)],
    },
    "lightning": {
        "train_loss": [(1, 0.31), (2, 0.25)],
        "val_loss": [(2, 0.3)],
        "test_acc": [(0, 0.9300000071525574)],
        "test_loss": [(0, 0.2800000011920929)],
    },
    "keras-3": {
        "accuracy": [(0.025, 0.1), (1, 0.5), (2, 0.7)],
        "loss": [(0.025, 2.4), (1, 1.4), (2, 0.9)],
        "val_accuracy": [(1, 0.6), (2, 0.75)],
        "val_loss": [(1, 1.1), (2, 0.8)],
    },
    "fastai": {
        "train_loss": [(0, 1.5), (1, 0.9)],
        "valid_loss": [(0, 1.2), (1, 0.8)],
        "accuracy": [(0, 0.6), (1, 0.75)],
    },
    "ultralytics": {
        "box_loss": [(1, 1.13), (2, 1.03)],
        "cls_loss": [(1, 2.14), (2, 1.94)],
        "dfl_loss": [(1, 1.11), (2, 1.01)],
    },
    "yolov5": {},
    "xgboost": {
        "train-rmse": [(0, 0.5), (1, 0.4)],
        "eval-rmse": [(0, 0.6), (1, 0.55)],
    },
    "lightgbm": {
        "valid_0's auc": [(10, 0.98), (15, 0.99)],
        "valid_0's binary_logloss": [(10, 0.21), (15, 0.15)],
    },
    "catboost": {
        "learn": [(0, 0.65), (100, 0.25)],
        "test": [(0, 0.66), (100, 0.36)],
        "best": [(0, 0.66), (100, 0.35)],
    },
    "scikit-learn": {
        "Train Loss": [(1, 1.2613), (2, 1.1715)],
        "loss": [(1, 0.69314718), (2, 0.5)],
        "Validation score": [(0, 0.9)],
    },
    "nanogpt": {
        "train loss": [(0, 4.2874), (250, 1.9664)],
        "val loss": [(0, 4.2823), (250, 2.0658)],
        "loss": [(0, 4.2639), (10, 3.1437)],
        "mfu": [(0, -100), (10, 14.83)],
    },
    "nanochat": {
        "Validation bpb": [(0, 3.2052), (250, 1.35)],
        "loss": [(0, 11.090391), (250, 5.12)],
        "lrm": [(0, 1), (250, 1)],
        "mfu": [(0, 2.07), (250, 48.2)],
        "validation bpb": [(0, 0.812)],
    },
    "autoresearch": {
        "loss": [(953, 2.901)],
        "lrm": [(953, 0.01)],
        "mfu": [(953, 39.8)],
        "val_bpb": [(0, 0.994371)],
        "training_seconds": [(0, 300.1)],
        "peak_vram_mb": [(0, 45060.2)],
        "mfu_percent": [(0, 39.8)],
        "total_tokens_M": [(0, 499.6)],
        "num_steps": [(0, 953)],
        "depth": [(0, 8)],
    },
    "evaluation-of-a-language-model": {
        "eval/exact_match": [(0, 0.41)],
        "win_rate": [(0, 0.63)],
        "pass@1": [(0, 0.285)],
        "elo": [(0, 1212)],
        "bits_per_byte": [(0, 0.91)],
        "tok/s": [(0, 51234.5)],
    },
    "detectron2": {
        "total_loss": [(19, 1.2), (39, 1.1)],
        "loss_cls": [(19, 0.5), (39, 0.4)],
        "loss_box_reg": [(19, 0.3), (39, 0.2)],
        "lr": [(19, 0.0004), (39, 0.0008)],
    },
    "mmengine": {
        "train lr": [(0.5, 0.01), (1, 0.01)],
        "train loss": [(0.5, 2.3), (1, 2)],
        "train loss_cls": [(0.5, 1.3), (1, 1.1)],
        "val accuracy/top1": [(1, 50.5)],
    },
    "fairseq": {
        "loss": [(0.5, 10.5)],
        "nll_loss": [(0.5, 10.1)],
        "ppl": [(0.5, 1100)],
        "wps": [(0.5, 3000)],
        "lr": [(0.5, 0.0001)],
        "train loss": [(1, 9.5)],
        "train nll_loss": [(1, 9.1)],
        "train ppl": [(1, 550)],
        "valid loss": [(1, 8.5)],
        "valid nll_loss": [(1, 8.1)],
        "valid ppl": [(1, 275)],
        "valid bleu": [(1, 12.5)],
    },
    "deepspeed": {
        "lr": [(10, 0.001)],
    },
    "megatron": {
        "samples": [(10, 160)],
        "learning rate": [(10, 0.00015)],
        "lm loss": [(10, 10.34)],
        "grad norm": [(10, 2.345)],
    },
    "accelerate": {
        "accuracy": [(0, 0.68), (1, 0.72)],
        "f1": [(0, 0.81), (1, 0.83)],
    },
    "evaluate": {
        "accuracy": [(0, 0.93), (1, 0.94)],
        "f1": [(0, 0.91), (1, 0.92)],
    },
    "optuna": {
        "value": [(0, 0.91), (1, 0.96)],
    },
    "stable-baselines3": {
        "rollout/ep_len_mean": [(2048, 22.2), (4096, 27.6)],
        "rollout/ep_rew_mean": [(2048, 21.5), (4096, 27.4)],
        "train/approx_kl": [(4096, 0.0085)],
        "train/loss": [(4096, 6.5)],
        "episode_reward": [(4096, 200)],
    },
    "cleanrl": {
        "episodic_return": [(22, 22), (40, 18)],
    },
    "flax": {
        "train loss": [(1, 0.25)],
        "train accuracy": [(1, 92.5)],
        "eval loss": [(1, 0.2)],
        "eval accuracy": [(1, 94)],
        "train_loss": [(2, 0.15)],
        "train_accuracy": [(2, 95)],
        "test_loss": [(2, 0.18)],
        "test_accuracy": [(2, 95.5)],
    },
    "jax-arrays": {
        "loss": [(1, 0.5), (2, 0.25)],
    },
    "pytorch-tensors": {
        "loss": [(1, 0.3333), (2, 0.25)],
    },
    "spacy": {
        "LOSS TOK2VEC": [(0, 0), (200, 12.5)],
        "LOSS NER": [(0, 45.98), (200, 1200.5)],
        "ENTS_F": [(0, 0), (200, 65.1)],
        "ENTS_P": [(0, 0), (200, 70.2)],
        "ENTS_R": [(0, 0), (200, 60.7)],
        "SCORE": [(0, 0), (200, 0.65)],
    },
    "transfer-learning-tutorial": {
        "train Loss": [(0, 0.582), (1, 0.382)],
        "val Loss": [(0, 0.202), (1, 0.182)],
        "train Acc": [(0, 0.7008), (1, 0.8508)],
        "val Acc": [(0, 0.9216), (1, 0.9416)],
        "Best val Acc": [(0, 0.9416)],
    },
    "two-parts-in-a-line": {
        "train loss": [(1, 0.5), (2, 0.4)],
        "train acc": [(1, 0.8), (2, 0.9)],
        "valid loss": [(1, 0.6)],
        "valid acc": [(1, 0.7)],
        "val loss": [(2, 0.5)],
        "val acc": [(2, 0.8)],
    },
    "settings-only": {},
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_metric_of_a_library_is_found_and_nothing_else(name: str, tmp_path: Path) -> None:
    write(tmp_path / "output.log", (OUTPUTS / f"{name}.txt").read_bytes())
    end(tmp_path)
    metrics = read(tmp_path)
    found = {each: [(round(step, 9), value) for step, value in curve(metrics, each)] for each in metrics.summary()}
    assert found == FORMATS[name]


def test_each_output_has_its_metrics() -> None:
    assert {path.stem for path in OUTPUTS.iterdir()} == set(FORMATS)
    assert len(FORMATS) >= 30
