"""The vendors of GPUs, and the shell function `smi`, which answers the queries of nvidia-smi for GPUs of both vendors.

If a machine has tools of both vendors, its NVIDIA GPUs are used, and its AMD GPUs are not shown.
"""

from __future__ import annotations

import os
import shlex
from typing import NamedTuple

from tui_workbench.core.files import read_file
from tui_workbench.core.processes import has_program
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.targets.hosts.host import Host

_PROGRAM = read_file(os.path.join(os.path.dirname(__file__), "amd_program.py")).decode()

KFD = "/dev/kfd"
"""The device that every program for AMD GPUs opens. Processors with integrated graphics have it too."""


class Vendor(NamedTuple):
    """A vendor of GPUs: its programs, names and variables. The first program is preferred."""

    name: str
    tools: tuple[str, ...]
    platform: str
    visible: tuple[str, ...]  # variables that select the GPUs of a process; the workbench sets the first
    files: tuple[str, ...]  # files that indicate a GPU, even if no tool is on the search path

    @property
    def tool(self) -> str:
        return self.tools[0]


NVIDIA = Vendor(
    "NVIDIA",
    ("nvidia-smi",),
    "CUDA",
    ("CUDA_VISIBLE_DEVICES",),
    ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg"),
)
AMD = Vendor(
    "AMD",
    ("amd-smi", "rocm-smi"),
    "ROCm",
    # The HIP runtime reads CUDA_VISIBLE_DEVICES too.
    ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
    # Not KFD, because the driver alone does not count as a GPU.
    ("/opt/rocm/bin/amd-smi", "/opt/rocm/bin/rocm-smi"),
)

VISIBLE = tuple(dict.fromkeys((*NVIDIA.visible, *AMD.visible)))
"""The variables of all vendors that select the GPUs of a process."""

FIND_TOOL = shell_script("targets/gpu/scripts/find_tool.sh")
"""Shell code that sets `tool` to the program that lists the GPUs of the machine, or to ""."""

_AMD = f"amd={shlex.quote(_PROGRAM)}\n"


def with_smi(script: str) -> str:
    """Return a script that uses smi.sh, together with the program that it executes for AMD GPUs."""
    return _AMD + script


def vendor_of_tool(tool: str) -> Vendor:
    """Return the vendor of a program, or of a source of samples; NVIDIA if `tool` is unknown."""
    return AMD if tool in AMD.tools else NVIDIA


def vendor_of(host: Host) -> Vendor:
    """Return the vendor whose tools are on the machine; NVIDIA without such tools. Raises TargetUnreachable."""
    return vendor_of_tool(host.run(["sh", "-c", f'{FIND_TOOL}printf %s "$tool"']).text)


def may_have_gpu(host: Host) -> bool:
    """Return True if the machine has a tool of a vendor, working or not. Raises TargetUnreachable.

    On this machine, files that indicate a GPU count too.
    """
    if not host.is_local:
        return host.run(["sh", "-c", f'{FIND_TOOL}[ -n "$tool" ]']).code == 0
    return may_have_gpu_here()


def may_have_gpu_here() -> bool:
    """Return True if this machine has a tool of a vendor, working or not, or a file that indicates a GPU."""
    vendors = (NVIDIA, AMD)
    return any(os.path.exists(path) for vendor in vendors for path in vendor.files) or any(
        has_program(tool) for vendor in vendors for tool in vendor.tools
    )
