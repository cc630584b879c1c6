"""Which NVIDIA GPUs a machine has, asked of its driver by the driver's own tool; and which runs ask for one."""

from __future__ import annotations

import os
import shutil
import zlib
from typing import NamedTuple

from tui_workbench.core.model import ComputeTarget, RunConfiguration
from tui_workbench.targets.hosts.host import ConnectionLost, Host

_DRIVER = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg")

OLDEST_DRIVER_OF_DEFAULT_IMAGE = 580
"""CUDA 13, which our default image holds, needs this driver."""

SECONDS = 60.0
"""Without persistence mode a driver wakes every device before it answers; one that takes longer hangs."""

# Versions of nvidia-smi that do not know the last fields answer without them. $1 is 1 when the CUDA version is wanted.
_ASK = """\
PATH=$PATH:/usr/bin:/usr/local/bin:/usr/lib/wsl/lib
export LC_ALL=C
fields=name,driver_version,memory.total,uuid
said=$(nvidia-smi --query-gpu=$fields,compute_cap,mig.mode.current --format=csv,noheader)
code=$?
case $said in *'not a valid field'*) said=$(nvidia-smi --query-gpu=$fields --format=csv,noheader); code=$? ;; esac
printf '%s\\n' "$said"
[ $code = 0 ] || exit $code
[ "$1" = 1 ] || exit 0
echo .
nvidia-smi 2>/dev/null | sed -n 's/.*CUDA[A-Z ]*Version *: *\\([0-9.]*\\).*/\\1/p' | head -n 1
"""


class Gpu(NamedTuple):
    """One GPU. `memory` is as the driver writes it, `15360 MiB`; "" for what it does not tell."""

    name: str
    driver: str
    memory: str
    uuid: str = ""
    capability: str = ""  # its CUDA compute capability, as 7.5
    sliced: bool = False  # MIG is on


class Gpus(NamedTuple):
    """The GPUs of a machine; when there are none, `complaint` is the tool's, "" where the tool is missing too."""

    found: tuple[Gpu, ...] = ()
    complaint: str = ""
    cuda: str = ""  # the newest CUDA that the driver serves; "" when it was not asked for, or is not told

    @property
    def summary(self) -> tuple[bool, str]:
        """Whether there is one, and the driver's version."""
        return bool(self.found), self.driver

    @property
    def driver(self) -> str:
        """The driver's version; "" without a GPU."""
        return self.found[0].driver if self.found else ""

    @property
    def devices(self) -> str:
        """As in `2 x Tesla T4 (15360 MiB)`."""
        return ", ".join(f"{n} x {gpu.name} ({gpu.memory})" for gpu, n in _counted(self.found)) or "none"

    @property
    def text(self) -> str:
        """As in `2 x Tesla T4 (15360 MiB), driver 550.54`."""
        return f"{self.devices}, driver {self.driver}" if self.found else "none"


def gpus_of(host: Host, *, with_cuda: bool = False) -> Gpus:
    """Ask the machine; `with_cuda` costs a second question there. Raises TargetUnreachable."""
    try:
        done = host.run(["sh", "-c", _ASK, "sh", str(int(with_cuda))], timeout=SECONDS)
    except ConnectionLost:
        # Either the machine is out of reach, which this question finds as well, or the driver keeps its tool waiting.
        host.run(["true"])
        return Gpus((), f"nvidia-smi did not answer within {SECONDS:g} s")
    listed, _, cuda = done.text.partition("\n.\n")
    if done.code == 0:
        found = tuple(gpu for gpu in map(_gpu, listed.split("\n")) if gpu is not None)
        return Gpus(found, "" if found else "nvidia-smi lists no GPU", cuda.strip())
    # nvidia-smi says what is wrong on stdout.
    said = next(filter(None, (line.strip() for line in listed.split("\n"))), "") or done.complaint
    return Gpus((), "" if done.code == 127 else said)


def _gpu(line: str) -> Gpu | None:
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) < 3 or not cells[1][:1].isdigit():
        return None
    uuid, capability, mig = (*cells[3:6], "", "", "")[:3]
    name, driver, memory = cells[:3]
    return Gpu(name, driver, memory, uuid, capability if capability[:1].isdigit() else "", mig == "Enabled")


def _counted(gpus: tuple[Gpu, ...]) -> list[tuple[Gpu, int]]:
    alike = [gpu._replace(uuid="") for gpu in gpus]
    return [(gpu, alike.count(gpu)) for gpu in dict.fromkeys(alike)]


def may_have_gpu_here() -> bool:
    """True where there is a driver, or its tool on the PATH. Whether it works is another question."""
    return any(map(os.path.exists, _DRIVER)) or shutil.which("nvidia-smi") is not None


def asked_for(target: ComputeTarget, configuration: RunConfiguration) -> str:
    """What in its files asks for a GPU for a run, as in `gpus is all`; "" when nothing does.

    An image with CUDA alone asks for none: it runs on a CPU as well, and `config check` mentions it.
    """
    if configuration.require_gpu:
        return "RequireGpu is true"
    if target.gpus:
        return f"gpus is {target.gpus}" if target.gpus != "0" else ""
    if target.kind.runs_in_container and target.gives_gpus:
        return "nvidiaDocker is true"
    return "ProcessesPerNode is gpus" if configuration.processes_per_node == "gpus" else ""


def machine_key(target: ComputeTarget) -> str:
    """A folder's name, the same for all targets on the same machine with the same login."""
    if not target.kind.is_remote:
        return "here"
    login = f"{target.username}@{target.address}"
    word = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in login)
    return f"{word[:60]}-{zlib.crc32(os.fsencode(login)):08x}"
