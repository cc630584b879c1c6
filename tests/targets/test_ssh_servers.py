"""Hardened and limited SSH servers, and unusual accounts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import require
from tests.engines import PYTHON_IMAGE
from tests.machines import Machine, fingerprint, wait_for
from tests.proc import PROC
from tests.targets.conftest import link_processes
from tui_workbench.core.model import ComputeTarget
from tui_workbench.targets.checks.result import DOCKER, ENGINE, HOST_KEY, OK
from tui_workbench.targets.docker.docker_socket import docker_socket
from tui_workbench.targets.hosts.fetching import fetch
from tui_workbench.targets.hosts.host import ConnectionLost, Entry, LoginRefused
from tui_workbench.targets.hosts.manifest import FileList
from tui_workbench.targets.hosts.sending import sync
from tui_workbench.targets.hosts.tools import TOOLS
from tui_workbench.targets.registry import checks_for
from tui_workbench.targets.ssh import ssh_channel
from tui_workbench.targets.ssh.ssh_connection import connect
from tui_workbench.targets.ssh.ssh_host import SshHost
from tui_workbench.targets.ssh.ssh_secrets import Secrets
from tui_workbench.targets.ssh.ssh_wire import Login

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.engines import DockerEngine
    from tui_workbench.targets.ssh import ssh_wire as wire


@pytest.fixture
def start_up(gpubox: Machine) -> Iterator[Path]:
    """`.bashrc` of research, which bash reads at the start of a program over SSH."""
    path = gpubox.home() / ".bashrc"
    yield path
    path.unlink(missing_ok=True)


@pytest.fixture
def shell(gpubox: Machine) -> Iterator[Path]:
    """/etc/passwd of the machine, restored after the test."""
    path = gpubox.folder / "etc" / "passwd"
    before = path.read_text()
    yield path
    path.write_text(before)


def test_banner_in_another_encoding_is_accepted(host: SshHost, gpubox: Machine, tmp_path: Path) -> None:
    banner = gpubox.folder / "banner"
    banner.write_bytes("GPU-Rechner für Physik\n".encode("latin-1"))
    with gpubox.configured(f"Banner {banner}"):
        assert host.run(["echo", "in"]).text == "in"
        host.disconnect()


def test_banner_of_a_jump_host_in_another_encoding_is_accepted(bastion: Machine, gpubox: Machine) -> None:
    banner = bastion.folder / "banner"
    banner.write_bytes("für\n".encode("latin-1"))
    host = SshHost(Login("t", "inner"))
    with bastion.configured(f"Banner {banner}"):
        for machine in (bastion, gpubox):
            host.accept_host_key(fingerprint(machine.folder / "host_key.pub"))
        assert host.run(["hostname"]).text == "gpubox"
        host.disconnect()


# Limits.


@pytest.mark.parametrize("limit", [1, 2])
def test_more_programs_than_sessions_can_run(host: SshHost, gpubox: Machine, limit: int) -> None:
    with gpubox.configured(f"MaxSessions {limit}"):
        processes = [host.open(["cat"]) for _ in range(4)]
        for number, process in enumerate(processes):
            os.write(process.stdin, b"%d" % number)
        assert [os.read(process.stdout, 10) for process in processes] == [b"%d" % number for number in range(4)]
        assert host.run(["echo", "one more"]).text == "one more"
        for process in processes:
            process.close()
        assert host.run(["echo", "still"]).text == "still"
        host.disconnect()


def test_many_callers_share_a_server_with_one_session(host: SshHost, gpubox: Machine) -> None:
    said: list[str] = []
    with gpubox.configured("MaxSessions 1"):
        threads = [threading.Thread(target=lambda: said.append(host.run(["echo", "me too"]).text)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        host.disconnect()
    assert said == ["me too"] * 6


def test_server_without_sessions_is_reported(host: SshHost, gpubox: Machine) -> None:
    with gpubox.configured("MaxSessions 0"), pytest.raises(LoginRefused, match="its SSH server allows no sessions"):
        host.run(["true"])


def test_more_shells_wait_if_they_start_slowly(host: SshHost, gpubox: Machine, start_up: Path) -> None:
    def waiting() -> int:
        commands = []
        for pid in gpubox.processes("sh"):
            with contextlib.suppress(OSError):
                commands.append((PROC / f"{pid}/cmdline").read_bytes())
        return sum(b"workbench-tui ready" in command for command in commands)

    start_up.write_text("sleep 0.5\n")
    host.run(["true"])
    wait_for(lambda: waiting() == 5, "five waiting shells")
    host.disconnect()


def test_server_without_terminals_runs_programs(host: SshHost, gpubox: Machine) -> None:
    with gpubox.configured("PermitTTY no"):
        assert [host.run(["echo", "fine"]).text for _ in range(2)] == ["fine", "fine"]
        host.disconnect()


def test_unsupported_algorithms_are_reported(host: SshHost, login: wire.Login, gpubox: Machine) -> None:
    with gpubox.configured("KexAlgorithms diffie-hellman-group1-sha1"):
        # The server hangs up at once: asyncssh may see that before it has read the server's offer.
        with pytest.raises(ConnectionLost, match=r"No matching key exchange|Connection lost") as lost:
            host.run(["true"])
        assert lost.value.failed_check == HOST_KEY  # the port is open, and no login was tried


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("ForceCommand internal-sftp", "This service allows sftp connections only."),
        ("ForceCommand echo This account is for files.", "This account is for files."),
        ("ForceCommand true", ""),
    ],
)
def test_account_that_cannot_start_programs_is_reported(host: SshHost, gpubox: Machine, line: str, said: str) -> None:
    with gpubox.configured(line), pytest.raises(LoginRefused) as refused:
        host.run(["true"])
    assert refused.value.message.partition("no program can be started")[2] == (said and f": {said}")


def test_account_without_shell_is_reported(host: SshHost, shell: Path) -> None:
    shell.write_text(shell.read_text().replace("/home/research:/bin/bash", "/home/research:/usr/sbin/nologin"))
    with pytest.raises(LoginRefused, match="no program can be started: This account is currently not available"):
        host.run(["true"])


# Start-up files.


def test_slow_and_noisy_start_up_files_do_no_harm(host: SshHost, start_up: Path) -> None:
    start_up.write_text("echo noise; echo more noise >&2; sleep 0.5; echo workbench-tui ready\n")
    assert host.run(["sh", "-c", "cat; echo end >&2"], stdin=b"\0\nx") == (0, b"\0\nx", b"end\n")
    assert host.run(["echo", "again"]).stdout == b"again\n"


def test_start_up_file_that_exits_is_reported(host: SshHost, start_up: Path) -> None:
    start_up.write_text("echo 'please use the queue' >&2; exit 1\n")
    with pytest.raises(LoginRefused, match="no program can be started: please use the queue"):
        host.run(["true"])


def test_endless_output_of_start_up_files_is_reported(host: SshHost, start_up: Path, connections: Path) -> None:
    start_up.write_text("yes\n")
    with pytest.raises(LoginRefused, match="no program can be started: the shell's start-up files print more than"):
        host.run(["true"])
    for pid in link_processes(connections):
        (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        assert int(peak) < 200_000


def test_start_up_files_that_hang_are_reported(
    login: wire.Login, start_up: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_up.write_text("sleep 1000\n")
    monkeypatch.setattr(ssh_channel, "START_SECONDS", 0.2)

    async def start() -> None:
        connection = await connect(login, Secrets(), lambda _error: None)
        async with connection:
            await ssh_channel.Shell.open(connection)

    with pytest.raises(ssh_channel.NoShell, match="did not end within"):
        asyncio.run(start())


@contextlib.contextmanager
def tools_without(gpubox: Machine, start_up: Path, missing: str) -> Iterator[None]:
    """Within the context, the user's PATH on the machine has all programs that runs need except one."""
    folder = gpubox.home() / "tools"
    folder.mkdir()
    for tool in ("sh", "gzip", *TOOLS):
        if tool != missing:
            (folder / tool).symlink_to(require(tool))
    start_up.write_text("PATH=$HOME/tools\n")
    yield
    shutil.rmtree(folder)


@pytest.mark.parametrize("missing", ["tail", "setsid"])
def test_missing_program_is_named(host: SshHost, gpubox: Machine, start_up: Path, missing: str) -> None:
    target = ComputeTarget(
        name="gpubox", path="gpubox.compute", type="remote", address=gpubox.address, username="research"
    )
    with tools_without(gpubox, start_up, missing):
        *_, last = checks_for(target).run()
    assert (last.name, last.state) == ("tools", "broken")
    assert f"lacks programs that runs need: {missing}" in last.message


def test_files_are_copied_without_gzip(host: SshHost, gpubox: Machine, start_up: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content" * 1000)
    wanted = FileList.of([Entry("file", "1", 7000)])
    with tools_without(gpubox, start_up, "gzip"):
        there = "/home/research/.workbench-tui/projects/x/tree"
        sync(host, wanted, str(tmp_path), there, packed=True)
        fetch(host, there, str(tmp_path / "back"))
    assert (tmp_path / "back" / "file").read_text() == "content" * 1000
    shutil.rmtree(gpubox.home() / ".workbench-tui")


# Forwarding.


@pytest.fixture
def hardened(gpubox: Machine, host: SshHost, gpubox_engine: DockerEngine) -> Iterator[str]:
    """Return the engine's socket as it appears here, although the SSH server forwards nothing."""
    with gpubox.configured("DisableForwarding yes"):
        yield docker_socket(host)
        host.disconnect()


def docker(socket: str, *words: str) -> subprocess.Popen[bytes]:
    """Run a docker command on the engine of a socket."""
    return subprocess.Popen(
        [require("docker"), "--host", f"unix://{socket}", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def test_streams_are_passed_in_both_directions(hardened: str) -> None:
    data = os.urandom(3_000_000)
    copy = "import shutil, sys; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)"
    with docker(hardened, "run", "--rm", "--interactive", PYTHON_IMAGE, "python3", "-c", copy) as process:
        assert process.communicate(data)[0] == data
    assert process.returncode == 0


def test_disconnected_caller_leaves_no_program(hardened: str, gpubox: Machine) -> None:
    with docker(hardened, "events") as process:
        wait_for(lambda: gpubox.processes("docker"), "the bridge")
        process.kill()
    wait_for(lambda: not gpubox.processes("docker"), "the bridge to end")


def test_docker_checks_pass_without_forwarding(hardened: str, gpubox: Machine) -> None:
    target = ComputeTarget(
        name="gpubox", path="gpubox.compute", type="remotedocker", address=gpubox.address, username="research"
    )
    states = {found.name: found.state for found in checks_for(target).run()}
    assert (states[DOCKER], states[ENGINE]) == (OK, OK)
