"""The GPUs of a machine according to `nvidia-smi` or the tools of AMD, and the settings that request a GPU."""

from __future__ import annotations

import os
import zlib
from typing import NamedTuple

from tui_workbench.core.model import ComputeTarget, RunConfiguration
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.targets.gpu.vendors import Vendor, vendor_of, vendor_of_tool, with_smi
from tui_workbench.targets.hosts.host import ConnectionLost, Host

OLDEST_DRIVER_OF_DEFAULT_IMAGE = 580  # CUDA 13 in the default image needs this driver
# Timeout of the tool in seconds. Without persistence mode, the driver wakes every device before it answers.
SECONDS = 60.0
_ASK = with_smi(shell_script("targets/gpu/scripts/ask_gpus.sh"))


class Gpu(NamedTuple):
    """One GPU. `memory` is in the driver's format, `15360 MiB`; "" for values that it does not report."""

    name: str
    driver: str
    memory: str
    uuid: str = ""
    capability: str = ""  # CUDA compute capability, for example 7.5
    sliced: bool = False  # MIG is on


class Gpus(NamedTuple):
    """The GPUs of a machine. If `listed` is empty, `complaint` is the error of `tool`, or "" if the tool is missing."""

    listed: tuple[Gpu, ...] = ()
    complaint: str = ""
    cuda: str = ""  # the newest CUDA version that the driver supports; "" if it was not requested or is not known
    tool: str = ""

    @property
    def vendor(self) -> Vendor:
        return vendor_of_tool(self.tool)

    @property
    def driver(self) -> str:
        return self.listed[0].driver if self.listed else ""

    @property
    def devices(self) -> str:
        """The GPUs in one line, for example `2 x Tesla T4 (15360 MiB)`."""
        models = [gpu._replace(uuid="") for gpu in self.listed]
        return ", ".join(f"{models.count(gpu)} x {gpu.name} ({gpu.memory})" for gpu in dict.fromkeys(models)) or "none"

    @property
    def text(self) -> str:
        """The GPUs and the driver in one line, for example `2 x Tesla T4 (15360 MiB), driver 550.54`."""
        return f"{self.devices}, driver {self.driver}" if self.listed else "none"


def gpus_of(host: Host, *, with_cuda: bool = False) -> Gpus:
    """Return the GPUs of a machine; with `with_cuda`, also the CUDA version. Raises TargetUnreachable."""
    try:
        done = host.run(["sh", "-c", _ASK, "sh", str(int(with_cuda))], timeout=SECONDS)
    except ConnectionLost:
        # Raises TargetUnreachable, unless only the tool hangs.
        tool = vendor_of(host).tool
        return Gpus((), f"{tool} did not answer within {SECONDS:g} s", tool=tool)
    tool, _, text = done.text.partition("\n")
    rows, _, cuda = text.partition("\n.\n")
    if done.code == 0:
        gpus = tuple(gpu for gpu in map(_gpu, rows.split("\n")) if gpu is not None)
        return Gpus(gpus, "" if gpus else f"{tool} lists no GPU", cuda.strip(), tool)
    # The tools write errors to stdout.
    complaint = next(filter(None, (line.strip() for line in rows.split("\n"))), "") or done.complaint
    return Gpus((), "" if done.code == 127 else complaint, tool=tool)


def _gpu(line: str) -> Gpu | None:
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) < 3 or not cells[1][:1].isdigit():
        return None
    uuid, capability, mig = (*cells[3:6], "", "", "")[:3]
    name, driver, memory = cells[:3]
    return Gpu(name, driver, memory, uuid, capability if capability[:1].isdigit() else "", mig == "Enabled")


def asked_for(target: ComputeTarget, configuration: RunConfiguration) -> str:
    """Return the setting that requests a GPU for a run, for example `gpus is all`; "" if no setting does.

    An image with CUDA does not request a GPU, because it runs on a CPU too; `config check` reports this case. With a
    scheduler, the GPUs are on a node that is not known yet, so only an explicit requirement can be checked.
    """
    if configuration.require_gpu:
        return "RequireGpu is true"
    if target.kind.has_scheduler:
        return ""
    if target.gpus:
        return f"gpus is {target.gpus}" if target.gpus != "0" else ""
    if target.kind.runs_in_container and target.gives_gpus:
        return "nvidiaDocker is true"
    return "ProcessesPerNode is gpus" if configuration.processes_per_node == "gpus" else ""


def machine_key(target: ComputeTarget) -> str:
    """Return a folder name that is the same for all targets on the same machine with the same login."""
    if not target.kind.is_remote:
        return "here"
    login = f"{target.username}@{target.address}"
    word = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in login)
    return f"{word[:60]}-{zlib.crc32(os.fsencode(login)):08x}"
