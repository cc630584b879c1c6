"""Train a small convolutional network to read handwritten digits.

    python train.py --epochs 15 --batch-size 64 --lr 0.01 --seed 0 --device auto

The script prints loss and test accuracy for each epoch, and writes `model.pt` and `metrics.json` to `outputs/`. The
training takes seconds on a CPU. On a GPU, the script prints the name of the GPU.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
import warnings
from pathlib import Path
from typing import NamedTuple

# This script does not use NumPy. Hide the warning that it is missing.
warnings.filterwarnings("ignore", message="Failed to initialize NumPy")

import torch  # noqa: E402  after the filter above
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402

try:
    import workbench
except ImportError:
    # Outside the workbench, the script only prints its results.
    workbench = None

HERE = Path(__file__).resolve().parent
DATA = HERE / "data" / "digits.csv.gz"
OUTPUTS = HERE / "outputs"

PIXELS = 8
CLASSES = 10
TEST_IMAGES = 360
"""The last fifth of the file. The lines are ordered by writer, so the training data has no images of these writers."""


class Digits(NamedTuple):
    """Images of shape (n, 1, 8, 8) with values from 0 to 1, and their labels of shape (n,)."""

    images: Tensor
    labels: Tensor

    def to(self, device: torch.device) -> Digits:
        """Return the digits in the memory of `device`."""
        return Digits(self.images.to(device), self.labels.to(device))


class Epoch(NamedTuple):
    """The result of an epoch: mean training loss, and the share of correctly classified test images."""

    loss: float
    accuracy: float


def load_digits(path: Path = DATA) -> tuple[Digits, Digits]:
    """Read training and test digits from a gzipped CSV file: 64 pixels from 0 to 16 and a label per line."""
    with gzip.open(path, "rt", encoding="ascii") as file:
        rows = torch.tensor([[int(value) for value in line.split(",")] for line in file])
    images = (rows[:, :-1].float() / 16).reshape(-1, 1, PIXELS, PIXELS)
    labels = rows[:, -1]
    split = len(rows) - TEST_IMAGES
    return Digits(images[:split], labels[:split]), Digits(images[split:], labels[split:])


def build_network(width: int = 16) -> nn.Sequential:
    """Build three convolutions and one linear layer, about 20,000 parameters."""

    def convolution(inputs: int, outputs: int) -> list[nn.Module]:
        return [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]

    return nn.Sequential(
        *convolution(1, width),
        *convolution(width, 2 * width),
        nn.MaxPool2d(2),
        *convolution(2 * width, 2 * width),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(2 * width * (PIXELS // 2) ** 2, CLASSES),
    )


def shift(images: Tensor) -> Tensor:
    """Shift a batch by up to one pixel in each direction, because people do not center their digits."""
    down, right = torch.randint(0, 3, (2,)).tolist()
    return functional.pad(images, (1, 1, 1, 1))[:, :, down : down + PIXELS, right : right + PIXELS]


def train(network: nn.Module, digits: Digits, test: Digits, *, epochs: int, batch_size: int, lr: float) -> list[Epoch]:
    """Train `network` in place, print one line per epoch, and return the results of all epochs."""
    steps = -(-len(digits.labels) // batch_size)
    optimizer = torch.optim.AdamW(network.parameters(), lr=lr, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=lr, epochs=epochs, steps_per_epoch=steps)
    history = []
    for number in range(1, epochs + 1):
        network.train()
        total = 0.0
        for batch in torch.randperm(len(digits.labels)).to(digits.labels.device).split(batch_size):
            loss = functional.cross_entropy(network(shift(digits.images[batch])), digits.labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(batch)
        epoch = Epoch(total / len(digits.labels), accuracy(network, test))
        history.append(epoch)
        report(epoch, number, epochs)
    return history


def report(epoch: Epoch, number: int, epochs: int) -> None:
    """Print the result of an epoch, and log exact values for the charts of the workbench."""
    print(f"epoch {number}/{epochs}  loss {epoch.loss:.4f}  accuracy {epoch.accuracy:.3f}", flush=True)
    if workbench is not None:
        workbench.log("loss", epoch.loss, number)
        workbench.log("accuracy", epoch.accuracy, number)


@torch.no_grad()
def accuracy(network: nn.Module, digits: Digits) -> float:
    """Return the share of `digits` that `network` classifies correctly."""
    network.eval()
    return (network(digits.images).argmax(dim=1) == digits.labels).float().mean().item()


def choose_device(wanted: str) -> torch.device:
    """Choose and print the device; exit with an error if a GPU is requested but unavailable."""
    if wanted != "cpu" and torch.cuda.is_available():
        device = torch.device("cuda", torch.cuda.current_device())
        print(describe_gpu(device), flush=True)
        return device
    reason = "as requested" if wanted == "cpu" else why_no_gpu()
    if wanted == "cuda":
        sys.exit(f"train.py: no GPU to train on ({reason}). To train on the CPU, use --device auto.")
    print(f"training on the CPU: {reason}", flush=True)
    # The network is so small that more threads would make the training slower.
    torch.set_num_threads(1)
    return torch.device("cpu")


def why_no_gpu() -> str:
    """Return the reason why PyTorch cannot use a GPU."""
    if torch.version.cuda is None and torch.version.hip is None:
        return f"PyTorch {torch.__version__} is a CPU build"
    return f"PyTorch {torch.__version__} finds no GPU on this machine"


def describe_gpu(device: torch.device) -> str:
    """Return the lines that name the GPU in use."""
    gpu = torch.cuda.get_device_properties(device)
    free, total = torch.cuda.mem_get_info(device)
    lines = [
        f"name: {gpu.name}",
        f"major: {gpu.major} minor: {gpu.minor}",
        f"Total memory: {total / 2**30:.2f}GiB",
        f"Free memory: {free / 2**30:.2f}GiB",
    ]
    if hasattr(gpu, "pci_bus_id"):  # PyTorch 2.8 or later
        lines.insert(2, f"pciBusID {gpu.pci_domain_id:04x}:{gpu.pci_bus_id:02x}:{gpu.pci_device_id:02x}.0")
    return "\n".join(lines)


def save(network: nn.Module, history: list[Epoch], settings: dict[str, object]) -> None:
    """Write the weights of the network and its metrics to `outputs/`."""
    OUTPUTS.mkdir(exist_ok=True)
    torch.save(network.state_dict(), OUTPUTS / "model.pt")
    metrics = {**history[-1]._asdict(), "settings": settings, "epochs": [epoch._asdict() for epoch in history]}
    (OUTPUTS / "metrics.json").write_text(json.dumps(metrics, indent=2) + "\n", encoding="utf-8")


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description="Train a small convolutional network to read handwritten digits.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--epochs", type=positive, default=15, help="passes over the training images")
    parser.add_argument("--batch-size", type=positive, default=64, help="images per step")
    parser.add_argument("--lr", type=float, default=0.01, help="highest learning rate")
    parser.add_argument("--seed", type=int, default=0, help="random seed; results are reproducible on the same machine")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to train")
    return parser.parse_args()


def positive(text: str) -> int:
    """Parse a positive whole number, for argparse."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {text}")
    return number


def main() -> None:
    """Train with the given arguments and save the result."""
    arguments = parse_arguments()
    torch.manual_seed(arguments.seed)
    device = choose_device(arguments.device)
    digits, test = (part.to(device) for part in load_digits())
    network = build_network().to(device)
    print(f"{len(digits.labels)} images to learn from, {len(test.labels)} to test with", flush=True)

    started = time.perf_counter()
    history = train(network, digits, test, epochs=arguments.epochs, batch_size=arguments.batch_size, lr=arguments.lr)
    seconds = time.perf_counter() - started

    save(network, history, {**vars(arguments), "device": str(device)})
    print(f"test accuracy {history[-1].accuracy:.3f} in {seconds:.1f} s, model in outputs/model.pt")


if __name__ == "__main__":
    main()
