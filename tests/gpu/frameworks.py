"""Stand-ins for frameworks: modules with the part of the interface that reports GPUs.

They test how the workbench reads the answers, not that real frameworks give them. If a CPU build of PyTorch is
installed, tests use it too.
"""

from __future__ import annotations

import json
from pathlib import Path

_TORCH = """
import json, os, warnings
_STATE = json.load(open(os.path.join(os.path.dirname(__file__), "state.json")))
__version__ = _STATE["version"]
class version:
    cuda = _STATE["cuda"]
    hip = _STATE["hip"]
if _STATE["dies"]:
    os._exit(139)
class cuda:
    @staticmethod
    def is_available():
        if _STATE["warning"]:
            warnings.warn(_STATE["warning"])
        return bool(_STATE["capabilities"])
    @staticmethod
    def device_count():
        return len(_STATE["capabilities"])
    @staticmethod
    def get_device_name(index):
        return "Tesla T4"
    @staticmethod
    def get_device_capability(index):
        return tuple(map(int, _STATE["capabilities"][index].split(".")))
    @staticmethod
    def get_arch_list():
        return _STATE["architectures"]
def ones(rows, columns, device):
    said = _STATE["errors"][int(device.rpartition(":")[2])]
    if said:
        raise RuntimeError(said)
    return [[float(columns)] * columns] * rows
class _Product:
    def __init__(self, matrix):
        self._matrix = matrix
    def __getitem__(self, place):
        return self._matrix[place[0]][place[1]]
def mm(one, other):
    print("a framework may print")
    return _Product(one)
"""

_TENSORFLOW = """
__version__ = "2.16.1"
class sysconfig:
    @staticmethod
    def get_build_info():
        return {{"cuda_version": "12.3", "cuda_compute_capabilities": ["sm_75", "compute_90"]}}
class test:
    @staticmethod
    def is_built_with_cuda():
        return True
class _Device:
    name = "/physical_device:GPU:0"
class config:
    class experimental:
        grown = []
        @staticmethod
        def set_memory_growth(device, wanted):
            config.experimental.grown.append(device)
        @staticmethod
        def get_device_details(device):
            return {{"device_name": "Tesla T4", "compute_capability": (7, 5)}}
    @staticmethod
    def list_physical_devices(kind):
        return [_Device()] * {count}
class device:
    def __init__(self, name):
        assert config.experimental.grown, "all of the memory would be taken"
    def __enter__(self): pass
    def __exit__(self, *_): pass
def ones(shape):
    return shape
class _Product:
    def __getitem__(self, place):
        return 64.0
def matmul(one, other):
    return _Product()
"""

_JAX = """
import os
assert os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
__version__ = "0.4.30"
def devices(kind):
    raise RuntimeError("Unknown backend: 'gpu' requested, but no platforms that are instances of gpu are present.")
"""

_CNTK = """
__version__ = "2.7"
class device:
    class DeviceKind:
        GPU = 1
    @staticmethod
    def all_devices():
        return [_Device()]
    @staticmethod
    def get_gpu_properties(device):
        class properties:
            name, version_major, version_minor = "Tesla K80", 3, 7
        return properties
class _Device:
    def type(self): return 1
    def id(self): return 0
class constant:
    def __init__(self, value, device): pass
class times:
    def __init__(self, one, other): pass
    def eval(self, device): return [[64.0]]
"""


def stand_in(folder: Path, name: str, text: str) -> None:
    """Write a stand-in module."""
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / "__init__.py").write_text(text)


def torch(
    folder: Path,
    *,
    version: str = "2.4.0+cu121",
    cuda: str | None = "12.1",
    hip: str | None = None,
    capabilities: tuple[str, ...] = ("7.5",),
    architectures: tuple[str, ...] = ("sm_70", "sm_75", "sm_90", "compute_90"),
    errors: tuple[str, ...] = (),
    warning: str = "",
    dies: bool = False,
) -> None:
    """Write PyTorch: its build, the GPUs that it sees, and its error for a computation on each GPU."""
    stand_in(folder, "torch", _TORCH)
    told = [*errors, *[""] * (len(capabilities) - len(errors))]
    state = {
        "version": version, "cuda": cuda, "hip": hip, "capabilities": capabilities, "architectures": architectures,
        "errors": told, "warning": warning, "dies": dies,
    }  # fmt: skip
    (folder / "torch" / "state.json").write_text(json.dumps(state))


def tensorflow(folder: Path, count: int = 1) -> None:
    """Write TensorFlow 2, which sees this number of GPUs."""
    stand_in(folder, "tensorflow", _TENSORFLOW.format(count=count))


def jax(folder: Path) -> None:
    """Write JAX, which sees no GPU."""
    stand_in(folder, "jax", _JAX)


def cntk(folder: Path) -> None:
    """Write CNTK, which computes on one GPU."""
    stand_in(folder, "cntk", _CNTK)
    stand_in(folder, "numpy", "def ones(shape, dtype): return shape\n")
