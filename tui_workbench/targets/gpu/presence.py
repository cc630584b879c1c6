"""Whether this machine may have a GPU, in microseconds: asked at the start of every run."""

from __future__ import annotations

import os

_DRIVER = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg")


def may_have_gpu_here() -> bool:
    """True where there is a driver, or its tool on the PATH. Whether it works is another question."""
    if any(map(os.path.exists, _DRIVER)):
        return True
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return any(os.access(os.path.join(folder, "nvidia-smi"), os.X_OK) for folder in folders)
