"""Train a small convolutional network to read handwritten digits with several processes (DDP).

    torchrun --standalone --nproc-per-node 2 train.py --epochs 15 --batch-size 64 --lr 0.01 --seed 0

The workbench uses this command if the run configuration has `ProcessesPerNode: 2`, or `gpus` for one process per
GPU. Each process trains on a part of every batch, and the processes exchange gradients: with NCCL on GPUs, with Gloo
on CPUs. Rank 0 prints loss and accuracy after each epoch and writes `outputs/model.pt`. `python train.py` trains with
one process.
"""

from __future__ import annotations

import argparse
import gzip
import os
import time
import warnings
from pathlib import Path

# This script does not use NumPy. Hide the warning that it is missing.
warnings.filterwarnings("ignore", message="Failed to initialize NumPy")

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

try:
    import workbench
except ImportError:
    # Outside the workbench, the script only prints its metrics.
    workbench = None

HERE = Path(__file__).resolve().parent
DATA = HERE / "data" / "digits.csv.gz"
OUTPUTS = HERE / "outputs"

PIXELS = 8
CLASSES = 10
TEST_IMAGES = 360
"""The last fifth of the file. The lines are ordered by writer, so the training data has no images of these writers."""


def load_digits(device: torch.device) -> tuple[Tensor, Tensor]:
    """Return images of shape (n, 1, 8, 8) with values from 0 to 1, and their labels."""
    with gzip.open(DATA, "rt", encoding="ascii") as file:
        rows = torch.tensor([[int(value) for value in line.split(",")] for line in file])
    images = (rows[:, :-1].float() / 16).reshape(-1, 1, PIXELS, PIXELS)
    return images.to(device), rows[:, -1].to(device)


def build_network(width: int = 16) -> nn.Sequential:
    """Build two convolutions and one linear layer. Batch norm statistics would differ between processes."""
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(2 * width * (PIXELS // 2) ** 2, CLASSES),
    )


def choose_device() -> torch.device:
    """Return the GPU of this process, or the CPU, and print it."""
    rank, world = dist.get_rank(), dist.get_world_size()
    if dist.get_backend() == "nccl":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        gpu = torch.cuda.get_device_properties(device)
        # The workbench reads these lines as evidence that the run uses a GPU.
        print(f"name: {gpu.name}\nmajor: {gpu.major} minor: {gpu.minor}", flush=True)
        print(f"rank {rank} of {world} trains on GPU {device.index}", flush=True)
        return device
    torch.set_num_threads(1)
    print(f"rank {rank} of {world} trains on the CPU", flush=True)
    return torch.device("cpu")


def train(model: nn.Module, images: Tensor, labels: Tensor, arguments: argparse.Namespace) -> None:
    """Train the model in place; rank 0 reports each epoch."""
    rank, world = dist.get_rank(), dist.get_world_size()
    count = len(labels) - TEST_IMAGES
    steps = -(-count // arguments.batch_size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.lr, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=arguments.lr, epochs=arguments.epochs, steps_per_epoch=steps
    )
    # All processes draw the same order, and each takes a different part of every batch.
    order = torch.Generator().manual_seed(arguments.seed)
    for epoch in range(1, arguments.epochs + 1):
        model.train()
        total = torch.zeros(1, device=labels.device)
        for batch in torch.randperm(count, generator=order).split(arguments.batch_size):
            part = batch[rank::world].to(labels.device)
            # The last batch may have fewer images than processes. A process without images still takes part in the
            # exchange of gradients.
            loss = functional.cross_entropy(model(images[part]), labels[part], reduction="sum") / len(batch) * world
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.detach() * len(batch) / world
        dist.all_reduce(total)
        if rank == 0:
            report(epoch, arguments.epochs, total.item() / count, accuracy(model.module, images, labels))


def report(epoch: int, epochs: int, loss: float, right: float) -> None:
    """Print the metrics of an epoch, and log exact values for the charts of the workbench."""
    print(f"epoch {epoch}/{epochs}  loss {loss:.4f}  accuracy {right:.3f}", flush=True)
    if workbench is not None:
        workbench.log("loss", loss, epoch)
        workbench.log("accuracy", right, epoch)


@torch.no_grad()
def accuracy(network: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Return the share of correctly classified test images. Only rank 0 calls this function, so it does not use DDP."""
    network.eval()
    found = network(images[-TEST_IMAGES:]).argmax(dim=1)
    return (found == labels[-TEST_IMAGES:]).float().mean().item()


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=15, help="passes over the training images")
    parser.add_argument("--batch-size", type=int, default=64, help="images per step, over all processes")
    parser.add_argument("--lr", type=float, default=0.01, help="highest learning rate")
    parser.add_argument("--seed", type=int, default=0, help="random seed; results are reproducible on the same machine")
    return parser.parse_args()


def main() -> None:
    """Train with the given arguments; rank 0 saves the result."""
    arguments = parse_arguments()
    for name, alone in (("RANK", "0"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "1")):
        os.environ.setdefault(name, alone)
    if "MASTER_ADDR" not in os.environ:
        # Without torchrun, create a group of one process, which needs a file to initialize.
        import tempfile

        meeting = Path(tempfile.mkdtemp(), "meeting").as_uri()
        dist.init_process_group("gloo", init_method=meeting, rank=0, world_size=1)
    else:
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    torch.manual_seed(arguments.seed)
    device = choose_device()
    images, labels = load_digits(device)
    model = DistributedDataParallel(build_network().to(device))
    started = time.perf_counter()
    train(model, images, labels, arguments)
    if dist.get_rank() == 0:
        OUTPUTS.mkdir(exist_ok=True)
        torch.save(model.module.state_dict(), OUTPUTS / "model.pt")
        print(f"trained in {time.perf_counter() - started:.1f} s, model in outputs/model.pt")
    # Wait until rank 0 has finished the last test.
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
