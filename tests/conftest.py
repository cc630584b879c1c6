"""Fixtures of all tests: an empty home and a small project.

No test sees the real home directory or the user's git configuration. If a program that `.ci/run` installs is missing,
tests are skipped with the reason on a developer's machine, and fail on CI.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import itertools
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import hypothesis
import pytest

from tests import rings

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from tui_workbench.projects.project import Project

REPOSITORY = Path(__file__).resolve().parent.parent

# A shell starts background jobs with some signals ignored, and child processes inherit this: Ctrl-C in a terminal of a
# test would have no effect.
for _number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)

LONGEST_FILES = (
    "tests/targets/test_conformance.py",
    "tests/targets/docker/test_docker_watcher.py",
    "tests/targets/test_remote_docker.py",
    "tests/targets/slurm/test_slurm_faults.py",
    "tests/targets/slurm/test_bad_input.py",
    "tests/trust/test_executed_programs.py",
    "tests/gpu/test_real.py",
    "tests/targets/test_spark_runs.py",
    "tests/targets/slurm/test_several_nodes.py",
    "tests/targets/slurm/test_retry.py",
    "tests/targets/test_group.py",
    "tests/targets/slurm/test_requeue.py",
    "tests/targets/slurm/test_soak.py",
    "tests/targets/slurm/test_gpu_samples.py",
    "tests/packaging/test_distributions.py",
    "tests/targets/docker/test_docker_target.py",
    "tests/trust/test_looking.py",
    "tests/targets/remote/test_remote.py",
    "tests/targets/hosts/test_spare_copy.py",
    "tests/ui/dashboard/test_dashboard.py",
    "tests/targets/docker/test_images.py",
    "tests/targets/test_group_containers.py",
    "tests/targets/slurm/test_cluster.py",
    "tests/runs/gpu/test_taking_over.py",
    "tests/projects/test_templates.py",
    "tests/targets/base/test_torchrun.py",
    "tests/targets/hosts/test_sending.py",
    "tests/targets/test_run_files.py",
    "tests/gpu/test_containers.py",
    "tests/targets/test_host_keys_like_ssh.py",
    "tests/targets/remote/test_remote_watcher.py",
    "tests/runs/gpu/test_stall.py",
    "tests/runs/gpu/test_recording.py",
    "tests/runs/notify/test_failures.py",
    "tests/runs/lifecycle/test_watcher.py",
    "tests/ui/test_key_walk.py",
    "tests/targets/test_spark_cluster.py",
    "tests/targets/test_ssh_login.py",
    "tests/terminal/test_ssh_sessions.py",
    "tests/gpu/test_tutorial.py",
)
"""Files that take the longest, in this order. Each runs in one process, so the last file should be a short one."""

_HOMES = itertools.count(1)

_running: list[pytest.Item] = []  # the running test

# Many systems have no program `python`.
if shutil.which("python") is None:
    os.environ["PATH"] += os.pathsep + os.path.dirname(sys.executable)

# Benchmarks measure time; a busy machine must not fail a property test.
hypothesis.settings.register_profile("workbench", deadline=None, print_blob=True)
hypothesis.settings.load_profile("workbench")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks of the rings."""
    config.addinivalue_line("markers", f"{rings.FIRST}: needs only Python and git")
    config.addinivalue_line("markers", f"{rings.SMOKE}: goes through the whole program, so it may take longer")
    config.addinivalue_line("markers", f"{rings.SOAK}: kills processes at many moments (`make soak`)")
    for mark, description in rings.MARKS.items():
        config.addinivalue_line("markers", f"{mark}(reason): {description}")


def ring_marks(item: pytest.Item) -> set[str]:
    """Return the marks of the second ring of a test; the set is empty for a test of the first ring."""
    return {mark.name for mark in item.iter_markers()} & set(rings.MARKS)


@pytest.hookimpl(tryfirst=True)  # before pytest applies `-m`
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test the marks of its ring, and run the longest files first."""
    for item in items:
        fixtures = item.fixturenames if isinstance(item, pytest.Function) else ()
        for mark in rings.marks_of(fixtures) or (() if ring_marks(item) else (rings.FIRST,)):
            item.add_marker(mark)
    order = {name: number for number, name in enumerate(LONGEST_FILES)}
    items.sort(key=lambda item: order.get(item.nodeid.partition("::")[0], len(order)))


def pytest_collection() -> None:
    """Disable garbage collection while tests are collected: it takes a fifth of the time and frees nothing."""
    gc.disable()
    # Hypothesis stores the categories of all characters in a file; the first test that needs them would make it.
    hypothesis.strategies.text().validate()


def pytest_collection_finish() -> None:
    """Exclude the thousands of collected tests from garbage collection, which would take a quarter of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


@pytest.hookimpl(tryfirst=True)  # before the fixtures of the test
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Remember the test for `needs_second_ring`."""
    _running[:] = [item]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """On CI, fail a test of the first ring that takes too long. Other machines may be slower."""
    began, before = time.monotonic(), processor_time()
    yield
    # Child processes of earlier tests may end during this one.
    seconds = min(processor_time() - before, time.monotonic() - began)
    # Without the features of Linux (`make test-portable`), the tests take longer.
    is_limited = item.config.getoption("markexpr") == rings.FIRST and rings.SMOKE not in item.keywords
    if on_ci() and is_limited and seconds > rings.SECONDS and seconds > rings.SECONDS * slowness():
        reason = "make the test faster, or give it the mark `processes` or `slow`"
        pytest.fail(f"the test took {seconds:.1f} s of processor time: {reason}", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """On CI, a skipped test of the first ring is a failed test: this ring needs nothing that can be missing."""
    report = yield
    if on_ci() and report.skipped and rings.FIRST in item.keywords:
        report.outcome = "failed"
        report.longrepr = f"a test of the first ring was skipped: {report.longrepr}"
    return report


def processor_time() -> float:
    """Return the processor time of this process and of its ended child processes, in seconds."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def slowness() -> float:
    """Return the processor time that fixed work takes here and now, divided by the time on an idle machine of CI."""
    source = Path(argparse.__file__).read_text(encoding="utf-8")
    before = time.process_time()
    for _ in range(5):
        compile(source, "argparse.py", "exec")
    return (time.process_time() - before) / rings.BASELINE_SECONDS


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown() -> None:
    """Forget the test: the fixtures that end now may be those of earlier tests."""
    _running.clear()


def needs_second_ring(reason: str) -> None:
    """Fail the running test if its marks say that it needs only Python and git."""
    if any(ring_marks(item) <= rings.TIME_ONLY for item in _running):
        pytest.fail(f"{reason}: give the test a mark of tests/rings.py", pytrace=False)


def on_ci() -> bool:
    """Return True if a missing program fails tests instead of skipping them."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def missing(reason: str) -> NoReturn:
    """End the test because something is missing: skip it on a developer's machine, fail it on CI."""
    needs_second_ring(reason)
    if on_ci():
        pytest.fail(f"{reason}; on CI, .ci/run must install it", pytrace=False)
    pytest.skip(reason)


def require(command: str) -> str:
    """Return the path of a command; end the test if it is not installed (see `missing`)."""
    if command not in ("sh", "bash", "diff", "make", "setsid"):
        needs_second_ring(f"the test needs {command}")
    # sshd and similar programs are not on the PATH of ordinary users.
    path = shutil.which(command) or shutil.which(command, path="/usr/local/sbin:/usr/sbin:/sbin")
    if path is None:
        missing(f"{command} is not installed")
    return path


def require_root(purpose: str) -> None:
    """End the test if it is not executed by root (see `missing`). `purpose` begins with "to"."""
    needs_second_ring(f"the test needs root, {purpose}")
    if os.geteuid() != 0:
        missing(f"root is needed {purpose}")


@contextlib.contextmanager
def open_folder(prefix: str = "wb-") -> Iterator[Path]:
    """Create a temporary folder that other users can reach, and remove it at the end of the context.

    pytest's folders are not enough: each session of pytest makes their parent private again, for other sessions too.
    """
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        folder.chmod(0o755)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def corpus() -> Path:
    """Return the folder of real configuration files beside the repository; it may be missing, on CI too."""
    path = REPOSITORY.parent / "shared" / "corpus"
    if not path.is_dir():
        pytest.skip(f"the collection of real configuration files is not at {path}")
    return path


def write_project(root: Path, *, python: str = sys.executable, tracked: bool = False) -> Path:
    """Create a project in `root` with the target and run configuration `local` and `hello.py`; return `root`."""
    configuration = root / "aml_config"
    configuration.mkdir(parents=True)
    (configuration / "local.compute").write_text(
        f'type: "local"\npythonLocation: {json.dumps(python)}\n', encoding="utf-8"
    )
    (configuration / "local.runconfig").write_text(
        'Target: "local"\nArgumentVector:\n  - "$file"\nFramework: "Python"\n'
        f"EnvironmentVariables: {{}}\nTrackedRun: {json.dumps(tracked)}\n",
        encoding="utf-8",
    )
    (root / "hello.py").write_text('print("hello")\n', encoding="utf-8")
    return root


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home directory, also for child processes."""
    # Not `mktemp`, which lists the folders of all earlier tests to number a folder.
    path = tmp_path_factory.getbasetemp() / "home" / str(next(_HOMES))
    path.mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("HOME", str(path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    # Text that a test copies must not reach the clipboard of the user who runs the tests.
    for name in ("TMUX", "TMUX_PANE", "STY", "VTE_VERSION", "TERM_PROGRAM", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name in list(os.environ):
        if name.startswith(("XDG_", "AZUREML_")) or (name.startswith("GIT_") and name != "GIT_CONFIG_NOSYSTEM"):
            monkeypatch.delenv(name)
    return path


@pytest.fixture
def project_root(tmp_path: Path) -> Path:
    """Return the folder of a small project with `local`, which uses this Python, and `hello.py`."""
    return write_project(tmp_path / "project")


@pytest.fixture
def project(project_root: Path) -> Project:
    """Return the project in `project_root`."""
    from tui_workbench.projects.project import Project

    return Project.find(str(project_root))
