"""The owner of a process, from the real /proc."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.support import until
from tests.targets.harness import Harness, Script
from tui_workbench.core.files import read_file
from tui_workbench.targets.docker.docker_target import DockerTarget
from tui_workbench.targets.gpu import nvml
from tui_workbench.targets.gpu.activity import facts_of
from tui_workbench.targets.gpu.nvml import Owners, hides_processes
from tui_workbench.targets.gpu.sample import Owner
from tui_workbench.targets.hosts.host import LocalHost
from tui_workbench.targets.hosts.processes import processes_of_run


def sleeper(**variables: str) -> subprocess.Popen[bytes]:
    """Start `sleep` with these variables, and return its process when the program runs."""
    made = subprocess.Popen(["sleep", "60"], env={**os.environ, **variables})
    until(lambda: Path(f"/proc/{made.pid}/comm").read_text() == "sleep\n", "its program")
    return made


def test_owner_has_user_program_run_session_and_rank() -> None:
    process = sleeper(WORKBENCH_RUN_ID="of_test_owners_1", RANK="3")
    try:
        owner = Owners().of(process.pid)
    finally:
        process.kill()
        process.wait()
    user = pwd.getpwuid(os.getuid()).pw_name
    assert owner._replace(container="") == Owner(user, "sleep", "of_test_owners_1", "", os.getsid(0), 3)


def test_ended_process_has_no_owner() -> None:
    known = Owners()
    process = sleeper()
    assert known.of(process.pid) != Owner()
    process.kill()
    process.wait()
    assert known.of(process.pid) == Owner()


@pytest.mark.parametrize(
    "line",
    [
        "0::/system.slice/docker-{id}.scope",
        "12:devices:/docker/{id}",
        "0::/user.slice/user@1000.service/docker-{id}.scope/init",
    ],
)
def test_container_id_is_read_from_any_cgroup(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    container = "0123456789abcdef" * 4
    cgroup = tmp_path / "cgroup"
    cgroup.write_text(line.format(id=container))

    def read(path: str) -> bytes:
        return read_file(str(cgroup) if path.endswith("/cgroup") else path)

    monkeypatch.setattr(nvml, "read_file", read)
    assert Owners().of(os.getpid()).container == container


def test_pid_namespace_hides_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    for link, hides in (("pid:[4026531836]", False), ("pid:[4026532221]", True)):
        monkeypatch.setattr(os, "readlink", lambda path, link=link: link)
        assert hides_processes() is hides


def test_facts_of_finds_processes_with_cuda(tmp_path: Path) -> None:
    run_id = "of_test_owners_2"
    assert facts_of(LocalHost(), run_id) == {}
    plain = sleeper(WORKBENCH_RUN_ID=run_id, CUDA_VISIBLE_DEVICES="")
    try:
        assert facts_of(LocalHost(), run_id) == {"cuda": False, "visible": ""}
    finally:
        plain.kill()
        plain.wait()
    library = tmp_path / "libcuda.so.1"
    library.write_bytes(b"\0" * 4096)
    script = "import mmap, sys, time\nf = open(sys.argv[1])\n" \
        "m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)\nprint('up', flush=True)\ntime.sleep(60)"  # fmt: skip
    loaded = subprocess.Popen(
        [sys.executable, "-c", script, str(library)],
        env={**os.environ, "WORKBENCH_RUN_ID": run_id},
        stdout=subprocess.PIPE,
    )
    try:
        assert loaded.stdout
        loaded.stdout.readline()
        assert facts_of(LocalHost(), run_id) == {"cuda": True}
    finally:
        loaded.kill()
        loaded.communicate()


def test_process_in_a_container_has_run_and_container(localdocker_harness: Harness) -> None:
    spec = localdocker_harness.spec(Script(output="up", waits=True))
    localdocker_harness.start(spec)
    localdocker_harness.until_written(spec, "up")
    target = localdocker_harness.target()
    assert isinstance(target, DockerTarget)
    (container,) = {Owners().of(pid).container for pid in processes_of_run(spec.run_id)}
    assert container == target.container_id(spec) != ""
