"""A rehearsal of the suite: `python -m tests.gpu.real.rehearsal OUT`.

The stand-ins are GPUs, and a PyTorch whose tensors appear on them.

A process of the stand-in PyTorch has a file in the folder `users`. The keeper writes the state of the GPU from these
files: a process holds memory while its file exists, and computes while it changes its file.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.gpu import frameworks
from tests.gpu.standin import REST, T4, Standin, build, gpu, process

if TYPE_CHECKING:
    from collections.abc import Iterator

MEMORY = 900
"""MiB that each process holds."""

BUSY_SECONDS, PERIOD = 0.5, 0.05

_TENSORS = """
import time
_USERS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(__file__))), "users")
_visible = os.environ.get("CUDA_VISIBLE_DEVICES") != ""
_file = os.path.join(_USERS, str(os.getpid()))
cuda.is_available = staticmethod(lambda: _visible)
cuda.synchronize = staticmethod(lambda: None)
class _Tensor:
    def __init__(self, device):
        self.device = device
        if device != "cpu":
            open(_file, "w").close()
    def __matmul__(self, other):
        time.sleep(0.01)
        if self.device != "cpu":
            os.utime(_file)
        return self
def rand(rows, columns, device):
    return _Tensor(device)
"""


@contextlib.contextmanager
def stand_ins(folder: Path) -> Iterator[Path]:
    """Provide stand-ins within the context; yield the folder of the stand-in PyTorch."""
    users, packages = folder / "users", folder / "packages"
    for each in (users, packages):
        each.mkdir(parents=True)
    frameworks.torch(packages)
    module = packages / "torch" / "__init__.py"
    module.write_text(module.read_text() + _TENSORS)
    gpus = Standin(folder / "gpus", build(folder))
    gpus.write(gpu(0, REST))
    os.environ.update(gpus.variables)
    is_over = threading.Event()
    keeper = threading.Thread(target=_keep, args=(gpus, users, is_over))
    keeper.start()
    try:
        yield packages
    finally:
        is_over.set()
        keeper.join()


def _keep(gpus: Standin, users: Path, is_over: threading.Event) -> None:
    while not is_over.wait(PERIOD):
        holders, is_busy = [], False
        for file in users.iterdir():
            if not Path("/proc", file.name).exists() or _is_zombie(int(file.name)):
                file.unlink()
                continue
            holders.append(int(file.name))
            is_busy |= time.time() - file.stat().st_mtime < BUSY_SECONDS
        words = {"mem": 3 + MEMORY * len(holders)} | ({"util": 97} if is_busy else {})
        gpus.write(gpu(0, T4 if is_busy else REST, **words), *(process(pid, 0, MEMORY) for pid in holders))


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def main(out: Path) -> int:
    """Rehearse the suite in another process, because a process finds its libraries when it starts."""
    with stand_ins(out / "stand-ins") as packages:
        words = [sys.executable, "-m", "tests.gpu.real.suite", str(out), sys.executable, str(packages)]
        return subprocess.run(words).returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute()))
