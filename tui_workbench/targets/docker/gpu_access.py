"""The options with which a container gets GPUs: a device request for NVIDIA, device files and their groups for AMD.

Source for AMD: "Running ROCm Docker containers" (rocm.docs.amd.com). Programs in the container open KFD and the files
in DRI, which belong to the groups `render` and `video` of the machine. A container gets the files of all AMD GPUs, and
HIP_VISIBLE_DEVICES selects the GPUs of the run. Unlike device files, this variable can also select partitions of a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tui_workbench.targets.gpu.vendors import AMD, KFD, NVIDIA, Vendor, vendor_of
from tui_workbench.targets.hosts.host import Host

DRI = "/dev/dri"

_GROUPS = f"stat -L -c %g {KFD} {DRI}/renderD* {DRI}/card* 2>/dev/null | sort -un"


class GpuAccess(NamedTuple):
    """The way in which containers of a machine get GPUs."""

    vendor: Vendor = NVIDIA
    groups: tuple[str, ...] = ()  # numbers of the groups of the device files, which the image need not know

    @property
    def check(self) -> list[str]:
        """A program that fails in a container without GPUs."""
        return ["sh", "-c", f"[ -r {KFD} ] && [ -w {KFD} ]"] if self.vendor is AMD else ["nvidia-smi", "-L"]

    def host_config(self, ids: Sequence[str]) -> dict[str, Any]:
        """Return the part of HostConfig of the Engine API for the GPUs with these IDs, or for all if `ids` is empty."""
        if self.vendor is NVIDIA:
            selection = {"DeviceIDs": list(ids)} if ids else {"Count": -1}
            return {"DeviceRequests": [{"Driver": "", **selection, "Capabilities": [["gpu"]]}]}
        devices = [
            {"PathOnHost": path, "PathInContainer": path, "CgroupPermissions": "rwm"} for path in (KFD, DRI)
        ]  # the engine replaces a folder by its device files
        return {"Devices": devices, "GroupAdd": list(self.groups)}

    def options(self, nvidia: str) -> list[str]:
        """Return the options of `docker run`; `nvidia` is the value of `--gpus`."""
        if self.vendor is NVIDIA:
            return ["--gpus", nvidia]
        groups = [word for group in self.groups for word in ("--group-add", group)]
        return ["--device", KFD, "--device", DRI, *groups]

    def variables(self, ids: Sequence[str], own: Mapping[str, str]) -> dict[str, str]:
        """Return the variable that selects the AMD GPUs `ids` in the container.

        The result is empty without `ids`, or if the run's own variables `own` select GPUs. It is also empty for NVIDIA,
        because the device request selects the GPUs.
        """
        is_set = not ids or any(name in own for name in AMD.visible)
        return {AMD.visible[0]: ",".join(ids)} if self.vendor is AMD and not is_set else {}


def gpu_access(host: Host) -> GpuAccess:
    """Return the way in which containers of a machine get GPUs. Raises TargetUnreachable."""
    if vendor_of(host) is NVIDIA:
        return GpuAccess()
    return GpuAccess(AMD, tuple(host.run(["sh", "-c", _GROUPS]).text.split()))
