"""Train a small convolutional network to read handwritten digits, by several processes at once (DDP).

    torchrun --standalone --nproc-per-node 2 train.py --epochs 15 --batch-size 64 --lr 0.01 --seed 0

The workbench starts it so where a run configuration says `ProcessesPerNode: 2`, or `gpus` for a process on each GPU. Each
process learns from its own part of every batch, and they exchange gradients: by NCCL on GPUs, by gloo on CPUs. Rank 0
prints an epoch's loss and accuracy and leaves `model.pt` in `outputs/`. `python train.py` trains with one process.
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
    # A plain `torchrun train.py`: what it prints is all that it tells.
    workbench = None

HERE = Path(__file__).resolve().parent
DATA = HERE / "data" / "digits.csv.gz"
OUTPUTS = HERE / "outputs"

PIXELS = 8
CLASSES = 10
TEST_IMAGES = 360
"""The last fifth of the file, which is in the order of its writers: hands that the training never saw."""


def load_digits(device: torch.device) -> tuple[Tensor, Tensor]:
    """Images of shape (n, 1, 8, 8) with values from 0 to 1, and their labels."""
    with gzip.open(DATA, "rt", encoding="ascii") as file:
        rows = torch.tensor([[int(value) for value in line.split(",")] for line in file])
    images = (rows[:, :-1].float() / 16).reshape(-1, 1, PIXELS, PIXELS)
    return images.to(device), rows[:, -1].to(device)


def build_network(width: int = 16) -> nn.Sequential:
    """Two convolutions and one linear layer. Batch norm counts per process, so there is none."""
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
    """This process's own GPU, or the CPU; says which on the log."""
    rank, world = dist.get_rank(), dist.get_world_size()
    if dist.get_backend() == "nccl":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        gpu = torch.cuda.get_device_properties(device)
        # As other frameworks name their GPU: the workbench takes these lines as evidence.
        print(f"name: {gpu.name}\nmajor: {gpu.major} minor: {gpu.minor}", flush=True)
        print(f"rank {rank} of {world} trains on GPU {device.index}", flush=True)
        return device
    torch.set_num_threads(1)
    print(f"rank {rank} of {world} trains on the CPU", flush=True)
    return torch.device("cpu")


def train(model: nn.Module, images: Tensor, labels: Tensor, arguments: argparse.Namespace) -> None:
    """Train in place; rank 0 tells what each epoch came to."""
    rank, world = dist.get_rank(), dist.get_world_size()
    count = len(labels) - TEST_IMAGES
    steps = -(-count // arguments.batch_size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.lr, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=arguments.lr, epochs=arguments.epochs, steps_per_epoch=steps
    )
    # Every process draws the same order and takes its own part of each batch.
    order = torch.Generator().manual_seed(arguments.seed)
    for epoch in range(1, arguments.epochs + 1):
        model.train()
        total = torch.zeros(1, device=labels.device)
        for batch in torch.randperm(count, generator=order).split(arguments.batch_size):
            part = batch[rank::world].to(labels.device)
            # A last batch may be too small for all: who has no image must take part in the exchange all the same.
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
    """Tell what an epoch came to: a line for people, and exact values for the charts of the workbench."""
    print(f"epoch {epoch}/{epochs}  loss {loss:.4f}  accuracy {right:.3f}", flush=True)
    if workbench is not None:
        workbench.log("loss", loss, epoch)
        workbench.log("accuracy", right, epoch)


@torch.no_grad()
def accuracy(network: nn.Module, images: Tensor, labels: Tensor) -> float:
    """The share of the test images that are read right. Without DDP around it: only rank 0 comes here."""
    network.eval()
    found = network(images[-TEST_IMAGES:]).argmax(dim=1)
    return (found == labels[-TEST_IMAGES:]).float().mean().item()


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=15, help="passes over the training images")
    parser.add_argument("--batch-size", type=int, default=64, help="images a step, of all processes together")
    parser.add_argument("--lr", type=float, default=0.01, help="highest learning rate")
    parser.add_argument("--seed", type=int, default=0, help="makes two trainings on one machine alike")
    return parser.parse_args()


def main() -> None:
    """Train as the command line says; rank 0 saves the result."""
    arguments = parse_arguments()
    for name, alone in (("RANK", "0"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "1")):
        os.environ.setdefault(name, alone)
    if "MASTER_ADDR" not in os.environ:
        # Not under torchrun: a group of one, which meets in a file.
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
    # The others wait for rank 0 to be done with its last test.
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
