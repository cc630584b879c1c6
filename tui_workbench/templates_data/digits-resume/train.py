"""Train a small network to read handwritten digits, and continue after a failure.

    python train.py --epochs 8 --lr 0.01 --seed 0 --fail-at 4

After each epoch, the script writes `outputs/checkpoint.pt` with everything that the next epoch needs. If the workbench
starts the script again, the script continues after the last epoch in the checkpoint. On SIGTERM, which the workbench
sends before the time limit of a run, the script ends after the current epoch.
"""

from __future__ import annotations

import argparse
import gzip
import os
import signal
import sys
import warnings
from pathlib import Path

# This script does not use NumPy. Hide the warning that it is missing.
warnings.filterwarnings("ignore", message="Failed to initialize NumPy")

import torch
from torch import Tensor, nn
from torch.nn import functional

try:
    import workbench
except ImportError:
    # Outside the workbench, the script only prints its metrics.
    workbench = None

HERE = Path(__file__).resolve().parent
DATA = HERE / "data" / "digits.csv.gz"
OUTPUTS = HERE / "outputs"
CHECKPOINT = OUTPUTS / "checkpoint.pt"

PIXELS = 8
CLASSES = 10
BATCH = 64
TEST_IMAGES = 360
"""The last fifth of the file. The lines are ordered by writer, so the training data has no images of these writers."""


class Training:
    """The state of the training: the last epoch, the network and the optimizer."""

    def __init__(self, device: torch.device, lr: float) -> None:
        self.epoch = 0
        self.network = nn.Sequential(
            nn.Flatten(), nn.Linear(PIXELS**2, 128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, CLASSES)
        ).to(device)
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=lr, weight_decay=0.01)

    def save(self) -> None:
        """Write the checkpoint to a new file and rename it, so that a failure never leaves an incomplete checkpoint."""
        OUTPUTS.mkdir(exist_ok=True)
        state = {
            "epoch": self.epoch,
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "random": torch.get_rng_state(),
        }
        new = CHECKPOINT.with_suffix(".new")
        torch.save(state, new)
        new.replace(CHECKPOINT)

    def load(self) -> None:
        """Load the state in the checkpoint."""
        state = torch.load(CHECKPOINT, weights_only=True)
        self.epoch = state["epoch"]
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"])


def load_digits(device: torch.device) -> tuple[Tensor, Tensor]:
    """Return images of shape (n, 64) with values from 0 to 1, and their labels."""
    with gzip.open(DATA, "rt", encoding="ascii") as file:
        rows = torch.tensor([[int(value) for value in line.split(",")] for line in file])
    return (rows[:, :-1].float() / 16).to(device), rows[:, -1].to(device)


def train_epoch(training: Training, images: Tensor, labels: Tensor) -> float:
    """Train the network on all training images once, and return the mean loss."""
    training.network.train()
    count = len(labels) - TEST_IMAGES
    total = 0.0
    for batch in torch.randperm(count).to(labels.device).split(BATCH):
        loss = functional.cross_entropy(training.network(images[batch]), labels[batch])
        training.optimizer.zero_grad()
        loss.backward()
        training.optimizer.step()
        total += loss.item() * len(batch)
    return total / count


@torch.no_grad()
def accuracy(network: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Return the share of correctly classified test images."""
    network.eval()
    found = network(images[-TEST_IMAGES:]).argmax(dim=1)
    return (found == labels[-TEST_IMAGES:]).float().mean().item()


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=8, help="passes over the training images")
    parser.add_argument("--lr", type=float, default=0.003, help="learning rate")
    parser.add_argument("--seed", type=int, default=0, help="random seed")
    parser.add_argument("--fail-at", type=int, default=0, help="fail in this epoch of the first attempt")
    return parser.parse_args()


def main() -> None:
    """Train with the given arguments."""
    arguments = parse_arguments()
    is_ending = False

    def end(_number: int, _frame: object) -> None:
        nonlocal is_ending
        is_ending = True

    signal.signal(signal.SIGTERM, end)
    torch.manual_seed(arguments.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    images, labels = load_digits(device)
    training = Training(device, arguments.lr)
    is_first = "WORKBENCH_RESUME" not in os.environ
    if not is_first and CHECKPOINT.exists():
        training.load()
        print(f"continuing after epoch {training.epoch}", flush=True)
    while training.epoch < arguments.epochs and not is_ending:
        number = training.epoch + 1
        loss = train_epoch(training, images, labels)
        if is_first and number == arguments.fail_at:
            sys.exit(f"train.py: failing in epoch {number}, as requested")
        right = accuracy(training.network, images, labels)
        print(f"epoch {number}/{arguments.epochs}  loss {loss:.4f}  accuracy {right:.3f}", flush=True)
        if workbench is not None:
            workbench.log("loss", loss, number)
            workbench.log("accuracy", right, number)
        training.epoch = number
        training.save()
    if is_ending:
        sys.exit(f"train.py: ended after epoch {training.epoch}, because it received SIGTERM")


if __name__ == "__main__":
    main()
