"""Which NVIDIA GPUs a machine has, asked of its driver by the driver's own tool."""

from __future__ import annotations

from tui_workbench.records import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tui_workbench.targets.host import Host

OLDEST_DRIVER_OF_DEFAULT_IMAGE = 580
"""CUDA 13, which our default image holds, needs this driver."""

_QUERY = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]


class Gpu(NamedTuple):
    """One GPU. `memory` is as the driver writes it, `15360 MiB`."""

    name: str
    driver: str
    memory: str


class Gpus(NamedTuple):
    """The GPUs of a machine; when there are none, `complaint` is the tool's, "" where the tool is missing too."""

    found: tuple[Gpu, ...] = ()
    complaint: str = ""

    @property
    def summary(self) -> tuple[bool, str]:
        """Whether there is one, and the driver's version."""
        return bool(self.found), self.found[0].driver if self.found else ""

    @property
    def text(self) -> str:
        """As in `2 x Tesla T4 (15360 MiB), driver 550.54`."""
        counted = [f"{n} x {gpu.name} ({gpu.memory})" for gpu, n in _counted(self.found)]
        return f"{', '.join(counted)}, driver {self.found[0].driver}" if self.found else "none"


def gpus_of(host: Host) -> Gpus:
    """Ask the machine. Raises TargetUnreachable."""
    done = host.run(_QUERY)
    if done.code == 0:
        rows = [[cell.strip() for cell in line.split(",")] for line in done.text.split("\n")]
        found = tuple(Gpu(*row) for row in rows if len(row) == len(Gpu._fields))
        return Gpus(found, "" if found else "nvidia-smi lists no GPU")
    # nvidia-smi says what is wrong on stdout.
    said = next(filter(None, (line.strip() for line in done.text.split("\n"))), "") or done.complaint
    return Gpus((), "" if done.code == 127 else said)


def _counted(gpus: tuple[Gpu, ...]) -> list[tuple[Gpu, int]]:
    return [(gpu, gpus.count(gpu)) for gpu in dict.fromkeys(gpus)]
