"""Check that the frameworks of a Python interpreter compute on a GPU, with one process for each framework.

The process loads the framework, reports its build and the GPUs that it sees, and multiplies two small matrices on them.
The processes run at the same time, and a framework that crashes, hangs or prints text does not affect the others. The
program runs in any Python from 2.7 on, reads nothing of the project, and uses no more GPU memory than the framework
itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from tui_workbench.core.json_values import parse_json

FORM = 1  # version of the report's format; cached reports of another version are not used
SECONDS = 120  # timeout of one framework; the first start from a network disk can take a minute
ALL, ONE = "all", "one"  # the GPUs that compute a product: all, or only the first that works
# Frameworks by import name.
NAMES = {"torch": "PyTorch", "tensorflow": "TensorFlow", "jax": "JAX", "cntk": "CNTK"}
MARK = b"workbench-gpu:"

LAUNCH = "import sys; sys.path[:] = [path for path in sys.path if path]; exec(sys.argv[1])"
"""The program for `python -c`. Its arguments are PROGRAM, a number of seconds, ALL or ONE, and WATCHED or ALONE.

It keeps the interpreter from importing modules of the current folder.
"""

WATCHED, ALONE = "watched", "alone"  # end when the input is closed, or run without input, as in a container
PROGRAM = r"""
import json, os, subprocess, sys, threading, warnings
PROGRAM, SECONDS, WHICH, MODE = sys.argv[1:5]
LAUNCH = "import sys; sys.path[:] = [path for path in sys.path if path]; exec(sys.argv[1])"
MARK = "workbench-gpu:"
SIZE = 64

def products(report, count, product):
    for index in range(count):
        try:
            if abs(product(index) - SIZE) > 0.5:
                raise RuntimeError("a matrix product on it was wrong")
        except Exception as error:
            report["problem"] = "GPU %d: %s" % (index, error)
        else:
            report["computed"] += 1
            if WHICH == "one":
                report["problem"] = ""
                return

def of_torch(report):
    import torch
    report["version"] = str(torch.__version__)
    report["cuda"] = torch.version.cuda or ""
    if getattr(torch.version, "hip", None):
        report["cuda"] = "ROCm " + torch.version.hip
    with warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("always")
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if messages and not count:
        report["problem"] = str(messages[-1].message)
    report["architectures"] = list(getattr(torch.cuda, "get_arch_list", list)()) if count else []
    for index in range(count):
        report["devices"].append(torch.cuda.get_device_name(index))
        report["capabilities"].append("%d.%d" % torch.cuda.get_device_capability(index))
    def product(index):
        matrix = torch.ones(SIZE, SIZE, device="cuda:%d" % index)
        return float(torch.mm(matrix, matrix)[0, 0])
    products(report, count, product)

def of_tensorflow(report):
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    import tensorflow as tf
    report["version"] = tf.__version__
    built = {}
    if hasattr(tf, "sysconfig") and hasattr(tf.sysconfig, "get_build_info"):
        built = tf.sysconfig.get_build_info()
    if tf.test.is_built_with_cuda():
        report["cuda"] = str(built.get("cuda_version") or "unknown")
    elif built.get("is_rocm_build"):
        report["cuda"] = "ROCm"
    report["architectures"] = [str(capability) for capability in built.get("cuda_compute_capabilities", [])]
    if tf.__version__.startswith("1."):
        return of_tensorflow_1(report, tf)
    config = tf.config if hasattr(tf.config, "list_physical_devices") else tf.config.experimental
    gpus = config.list_physical_devices("GPU")
    for device in gpus:
        tf.config.experimental.set_memory_growth(device, True)
        details = getattr(tf.config.experimental, "get_device_details", lambda device: {})(device)
        report["devices"].append(str(details.get("device_name", device.name)))
        report["capabilities"].append("%d.%d" % tuple(details.get("compute_capability", (0, 0))))
    def product(index):
        with tf.device("/GPU:%d" % index):
            matrix = tf.ones((SIZE, SIZE))
            return float(tf.matmul(matrix, matrix)[0, 0])
    products(report, len(gpus), product)

def of_tensorflow_1(report, tf):
    from tensorflow.python.client import device_lib
    options = tf.ConfigProto(gpu_options=tf.GPUOptions(allow_growth=True))
    gpus = [device for device in device_lib.list_local_devices(options) if device.device_type == "GPU"]
    for device in gpus:
        words = dict(part.strip().split(": ", 1) for part in device.physical_device_desc.split(",") if ": " in part)
        report["devices"].append(words.get("name", device.name))
        report["capabilities"].append(words.get("compute capability", ""))
    def product(index):
        with tf.Graph().as_default(), tf.device("/gpu:%d" % index):
            matrix = tf.ones((SIZE, SIZE))
            with tf.Session(config=options) as session:
                return float(session.run(tf.matmul(matrix, matrix))[0][0])
    products(report, len(gpus), product)

def of_jax(report):
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax
    report["version"] = jax.__version__
    try:
        from importlib.metadata import distributions
        for package in distributions():
            name = (package.metadata["Name"] or "").replace("_", "-").lower()
            if name.startswith("jax-cuda") or (name == "jaxlib" and "cuda" in package.version):
                digits = "".join((name + package.version).partition("cuda")[2])[:2]
                report["cuda"] = digits if digits.isdigit() else "unknown"
            elif name.startswith("jax-rocm"):
                report["cuda"] = "ROCm"
    except ImportError:
        pass
    try:
        gpus = jax.devices("gpu")
    except RuntimeError as error:
        report["problem"] = str(error).split("\n")[0]
        gpus = []
    for device in gpus:
        report["devices"].append(str(device.device_kind))
        report["capabilities"].append(str(getattr(device, "compute_capability", "")))
    def product(index):
        import numpy
        matrix = jax.device_put(numpy.ones((SIZE, SIZE), dtype="float32"), gpus[index])
        return float(jax.numpy.dot(matrix, matrix)[0, 0])
    products(report, len(gpus), product)

def of_cntk(report):
    import cntk, numpy
    report["version"] = cntk.__version__
    gpus = [device for device in cntk.device.all_devices() if device.type() == cntk.device.DeviceKind.GPU]
    report["cuda"] = "unknown" if gpus else ""
    for device in gpus:
        properties = cntk.device.get_gpu_properties(device)
        report["devices"].append(str(getattr(properties, "name", "GPU %d" % device.id())))
        report["capabilities"].append("%s.%s" % (properties.version_major, properties.version_minor))
    def product(index):
        matrix = cntk.constant(value=numpy.ones((SIZE, SIZE), dtype="float32"), device=gpus[index])
        return float(cntk.times(matrix, matrix).eval(device=gpus[index])[0][0])
    products(report, len(gpus), product)

def location_of(name):
    try:
        import importlib.util
        spec = importlib.util.find_spec(name)
        # An uninstalled package may leave a folder without modules.
        return os.path.dirname(spec.origin) if spec is not None and spec.origin else ""
    except ImportError:
        pass
    try:
        import imp
        return imp.find_module(name)[1]
    except ImportError:
        return ""

def of_one(name):
    report = {"name": name, "version": "", "cuda": "", "devices": [], "capabilities": [], "architectures": [],
            "computed": 0, "problem": ""}
    try:
        globals()["of_" + name](report)
    except Exception as error:
        report["problem"] = "%s: %s" % (type(error).__name__, error)
    sys.stdout.flush()
    sys.stdout.write("\n" + MARK + json.dumps(report) + "\n")
    sys.stdout.flush()
    os._exit(0)

started = []

def ask(name):
    report = {"name": name, "problem": "it did not answer within %s s" % SECONDS}
    process = subprocess.Popen([sys.executable, "-c", LAUNCH, PROGRAM, SECONDS, WHICH, name],
                               stdin=open(os.devnull), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    started.append(process)
    answer = []
    def read():
        out, err = process.communicate()
        answer.append((out.decode("utf-8", "replace"), err.decode("utf-8", "replace")))
    reading = threading.Thread(target=read)
    reading.daemon = True
    reading.start()
    reading.join(float(SECONDS))
    if reading.is_alive():
        process.kill()
    elif MARK in answer[0][0]:
        report = json.loads(answer[0][0].rpartition(MARK)[2])
    else:
        messages = [line for line in answer[0][1].split("\n") if line.strip()]
        cause = ": " + messages[-1].strip() if messages else ""
        report["problem"] = "it ended with exit code %d%s" % (process.returncode, cause)
    return report

def changed(path):
    try:
        return [path, int(os.stat(path).st_mtime)]
    except OSError:
        return [path, 0]

def end_with_input():
    sys.stdin.read()
    for process in started:
        process.kill()
    os._exit(1)

if MODE == "watched":
    watching = threading.Thread(target=end_with_input)
    watching.daemon = True
    watching.start()
elif MODE != "alone":
    of_one(MODE)
locations = dict((name, location_of(name)) for name in ("torch", "tensorflow", "jax", "cntk"))
installed = [name for name in sorted(locations) if locations[name]]
roots = [os.path.dirname(locations[name]) for name in installed] + [path for path in sys.path if "-packages" in path]
asked = {}
asking = [threading.Thread(target=lambda name=name: asked.update({name: ask(name)})) for name in installed]
for thread in asking:
    thread.start()
for thread in asking:
    thread.join()
answer = {"python": sys.executable, "version": "%d.%d.%d" % sys.version_info[:3],
          "frameworks": [asked[name] for name in installed],
          "paths": [changed(path) for path in sorted(set(roots + [locations[name] for name in installed]))]}
sys.stdout.write("\n" + MARK + json.dumps(answer) + "\n")
sys.stdout.flush()
os._exit(0)
"""

_BUSY = re.compile(r"out of memory|OUT_OF_MEMORY|RESOURCE_EXHAUSTED|busy or unavailable|ALLOC_FAILED", re.IGNORECASE)


class Framework(NamedTuple):
    """A report on one framework. `cuda` is the CUDA or ROCm version of the build, `unknown`, or "" for a CPU build."""

    name: str
    version: str
    cuda: str
    devices: tuple[str, ...]  # the GPUs that it sees
    capabilities: tuple[str, ...]  # of each GPU, for example 7.5
    architectures: tuple[str, ...]  # of the build, for example sm_75; empty if it does not report them
    computed: int  # the number of GPUs with a correct matrix product
    problem: str  # the framework's error message

    @property
    def is_for_amd(self) -> bool:
        return self.cuda.startswith("ROCm")

    @property
    def is_busy(self) -> bool:
        return bool(_BUSY.search(self.problem))

    @property
    def title(self) -> str:
        """Name, version and build, for example `PyTorch 2.4.0 for CUDA 12.1`."""
        build = self.cuda if self.is_for_amd else f"CUDA {self.cuda}"
        built = "" if self.cuda == "unknown" else f" for {build}" if self.cuda else ""
        return f"{self.name} {self.version}{built}".replace("  ", " ")


class FrameworkReport(NamedTuple):
    """A report on a Python interpreter and its frameworks."""

    python: str
    version: str
    frameworks: tuple[Framework, ...]
    paths: tuple[tuple[str, int], ...]  # folders that change with the packages, and their modification times


def parse_report(output: bytes) -> FrameworkReport | None:
    """Return the report in the output of PROGRAM; None if it is missing or invalid."""
    _, mark, rest = output.rpartition(MARK)
    if not mark:
        return None
    try:
        return from_json(parse_json(rest.partition(b"\n")[0]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def to_json(report: FrameworkReport) -> dict[str, Any]:
    """Return the report in the format of PROGRAM's output."""
    return {**report._asdict(), "frameworks": [framework._asdict() for framework in report.frameworks]}


def from_json(answer: Mapping[str, Any]) -> FrameworkReport:
    """Convert JSON to a report. Raises KeyError, TypeError, ValueError or AttributeError if it is not a report."""
    paths = tuple((str(path), int(changed)) for path, changed in answer["paths"])
    frameworks = tuple(_framework(values) for values in answer["frameworks"])
    return FrameworkReport(str(answer["python"]), str(answer["version"]), frameworks, paths)


def _framework(values: Mapping[str, Any]) -> Framework:
    name = str(values["name"])
    devices, capabilities, architectures = (
        tuple(map(str, values.get(key, ()))) for key in ("devices", "capabilities", "architectures")
    )
    return Framework(
        NAMES.get(name, name), str(values.get("version", "")), str(values.get("cuda", "")), devices, capabilities,
        architectures, int(values.get("computed", 0)), " ".join(str(values["problem"]).split()),
    )  # fmt: skip
