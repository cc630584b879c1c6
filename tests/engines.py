"""Docker engines for tests: real dockerd processes with separate data, sockets and networks.

The engine of the machine is not touched. Images are built from the files of installed Debian packages,
so that no registry and no network is needed.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import itertools
import os
import re
import shutil
import signal
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.conftest import require, require_root
from tests.machines import DOCKER_GROUP, ip
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.machines import Machine

PYTHON_IMAGE = "tests/python:1"
"""Debian's Python with a shell and common tools, without pip and network tools."""

BARE_IMAGE = "tests/bare:1"
"""Debian's Python without a shell."""

EMPTY_IMAGE = "tests/empty:1"
"""A shell without Python."""

IMAGES = (PYTHON_IMAGE, BARE_IMAGE, EMPTY_IMAGE)

TOOLS = ("base-files", "dash", "coreutils", "findutils", "grep", "sed", "tar", "gzip", "libc-bin")
_MERGED = ("bin", "sbin", "lib", "lib64")
_LEFT_OUT = ("/usr/share/doc", "/usr/share/man", "/usr/share/locale", "/usr/share/lintian")
READY_SECONDS = 60.0
_MACHINE_SOCKET = "/run/docker.sock"


@contextlib.contextmanager
def _alone_at_the_firewall(machine: Machine | None) -> Iterator[None]:
    """Start engines on this machine one at a time; otherwise both fail when they add the same firewall chain."""
    if machine is not None:
        yield
        return
    with (Path(tempfile.gettempdir()) / "workbench-tests-engines.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


_NUMBERS = itertools.count(1)


class DockerEngine:
    """A dockerd on this machine or on a machine of the tests.

    `socket` is how it is reached from here, `gateway` the address at which its containers reach its machine.
    """

    def __init__(
        self,
        folder: Path,
        *,
        machine: Machine | None = None,
        environment: dict[str, str] | None = None,
        options: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self._machine = machine
        self._options = list(options)
        self._bridge = ""
        number = next(_NUMBERS)
        # Different numbers for each test process, so that test runs do not collide.
        network = f"100.{64 + os.getpid() // 250 % 64}.{os.getpid() % 250}"
        self.gateway = f"{network}.{16 * (number % 16) + 1}"
        if machine is not None:
            self._options += ["--group", str(DOCKER_GROUP), "--bip", f"{self.gateway}/28"]
        else:
            # Otherwise all engines of a machine would share a bridge and its address.
            self._bridge = f"wbd{os.getpid() % 1_000_000}n{number}"
            self._options += ["--bridge", self._bridge]
        # Hooks of the engine must not see the environment of the tests.
        self._environment = {"PATH": "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
        self._environment.update(environment or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def socket(self) -> str:
        """The path of its socket on this machine."""
        if self._machine is not None:
            return f"/proc/{self._machine.pid}/root{_MACHINE_SOCKET}"
        return str(self.folder / "docker.sock")

    def start(self) -> None:
        """Start it and wait until it answers."""
        folder = self.folder
        folder.mkdir(parents=True, exist_ok=True)
        if self._bridge and not Path("/sys/class/net", self._bridge).exists():
            ip("link", "add", self._bridge, "type", "bridge")
            ip("addr", "add", f"{self.gateway}/28", "dev", self._bridge)
            ip("link", "set", self._bridge, "up")
        # Another machine has a separate /run, which is empty after each start.
        run = "/run/engine" if self._machine is not None else str(folder)
        socket = _MACHINE_SOCKET if self._machine is not None else self.socket
        command = [
            require("dockerd"),
            *("--data-root", str(folder / "data"), "--exec-root", f"{run}/exec"),
            *("--pidfile", f"{run}/pid", "--host", f"unix://{socket}"),
            *self._options,
        ]
        with _alone_at_the_firewall(self._machine), (folder / "log").open("ab") as log:
            if self._machine is not None:
                self._machine.run(["mkdir", "-p", run])
                self._machine.run(["rm", "-f", f"{run}/pid"])
                self._process = self._machine.enter(command, stdout=log, stderr=log, env=self._environment)
            else:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=self._environment,
                    start_new_session=True,
                )
            wait_until(lambda: self._answers() or self._failed(), "dockerd", READY_SECONDS)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it; after SIGKILL its containers continue until the next start."""
        if self._process is None:
            return
        self._signal(number)
        self._process.wait(READY_SECONDS)
        self._process = None
        # A killed dockerd leaves its pid file and its containerd.
        if number == signal.SIGKILL:
            self._end_containerd()
            for name in ("pid", "exec/containerd/containerd.pid"):
                (self.folder / name).unlink(missing_ok=True)

    def pause(self) -> None:
        """Stop answering without ending (SIGSTOP)."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue after `pause`."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        if self._machine is None:
            self._process.send_signal(number)
        else:
            for pid in self._machine.processes("dockerd"):
                os.kill(pid, number)

    def docker(self, *arguments: str, stdin: bytes = b"", check: bool = True) -> str:
        """Run a docker command on this engine and return its output."""
        done = subprocess.run(
            [require("docker"), "--host", f"unix://{self.socket}", *arguments],
            input=stdin,
            capture_output=True,
            check=False,
            env={**os.environ, "DOCKER_CONFIG": str(self.folder / "config")},
        )
        if check and done.returncode:
            raise AssertionError(f"docker {arguments} failed: {done.stderr.decode(errors='replace')}")
        return done.stdout.decode(errors="replace").strip()

    def load(self, image: str, archive: Path, *changes: str) -> None:
        """Create an image from a tar archive."""
        options = [word for change in changes for word in ("--change", change)]
        self.docker("import", *options, str(archive), image)

    def containers(self, *filters: str) -> list[str]:
        """Return the names of all containers, running or not."""
        options = [word for each in filters for word in ("--filter", each)]
        return self.docker("ps", "--all", "--format", "{{.Names}}", *options).split()

    def destroy(self) -> None:
        """End it and its containers, and remove its data."""
        if self._process is not None:
            with contextlib.suppress(AssertionError):
                for name in self.containers():
                    self.docker("rm", "--force", name, check=False)
            self.stop()
        if self._machine is not None:
            return  # it goes with its machine
        self._end_containerd()
        with contextlib.suppress(subprocess.CalledProcessError):
            ip("link", "del", self._bridge)
        for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
            mounted = line.split()[1]
            if mounted.startswith(f"{self.folder}/"):
                subprocess.run(["umount", "--lazy", mounted], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end_containerd(self) -> None:
        """End the containerd of a killed dockerd, and its shims; their working folder identifies them."""
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            with contextlib.suppress(OSError):
                command = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
                mark = f"{self.folder}/".encode()
                if b"containerd" in command[0] and any(mark in word for word in command[1:]):
                    os.kill(int(entry), signal.SIGKILL)

    def make_sure(self) -> None:
        """Start it again if its machine was restarted."""
        if self._process is not None and self._process.poll() is not None:
            self.start()

    def _answers(self) -> bool:
        return bool(self.docker("info", "--format", "{{.ID}}", check=False))

    def _failed(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            raise AssertionError(f"dockerd did not start:\n{(self.folder / 'log').read_text()[-2000:]}")
        return False


@contextlib.contextmanager
def docker_engine(
    *, environment: dict[str, str] | None = None, options: Sequence[str] = (), images: Sequence[str] = (PYTHON_IMAGE,)
) -> Iterator[DockerEngine]:
    """Run an engine with these images of this module within the context."""
    require_root("to start an engine")
    # Not in pytest's folders: the path of a socket has at most 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="wb-", dir="/tmp"))
    engine = DockerEngine(folder / "e", environment=environment, options=options)
    try:
        engine.start()
        load_images(engine, images)
        yield engine
    finally:
        engine.destroy()
        shutil.rmtree(folder, ignore_errors=True)


def load_images(engine: DockerEngine, images: Sequence[str] = (PYTHON_IMAGE,)) -> None:
    """Load images of this module into an engine; the three together take ten seconds."""
    python = python_packages()
    packages = {PYTHON_IMAGE: (*TOOLS, *python), BARE_IMAGE: python, EMPTY_IMAGE: TOOLS}
    with tempfile.TemporaryDirectory() as name:
        for image in images:
            archive = Path(name) / "image.tar"
            _write_archive(archive, packages[image])
            engine.load(image, archive, 'CMD ["/bin/sh"]')


def python_packages() -> tuple[str, ...]:
    version = os.path.basename(os.path.realpath("/usr/bin/python3"))
    return (version, f"{version}-minimal", "python3-minimal")


def _write_archive(path: Path, packages: Sequence[str]) -> None:
    with tarfile.open(path, "w") as archive:
        add_packages(archive, packages)


def add_packages(archive: tarfile.TarFile, packages: Sequence[str]) -> None:
    """Add the files of installed Debian packages and of their libraries to the archive of an image."""
    done = set(_MERGED)
    for link in _MERGED:
        _add(archive, link, link=f"usr/{link}")
    for name in _files_of(_with_libraries(packages)):
        relative = name.lstrip("/")
        if relative.split("/")[0] in _MERGED:
            relative = f"usr/{relative}"
        if relative in done or not os.path.lexists(f"/{relative}"):
            continue
        done.add(relative)
        archive.add(f"/{relative}", relative, recursive=False)
    for name, mode in (("tmp", 0o1777), ("root", 0o700), ("etc", 0o755)):
        if name not in done:
            _add(archive, name, mode=mode)


def _add(archive: tarfile.TarFile, name: str, *, link: str = "", mode: int = 0o755) -> None:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = (tarfile.SYMTYPE, link, 0o777) if link else (tarfile.DIRTYPE, "", mode)
    archive.addfile(info)


def _files_of(packages: Sequence[str]) -> Iterator[str]:
    listing = subprocess.run(["dpkg", "-L", *packages], capture_output=True, text=True, check=True).stdout
    for name in listing.splitlines():
        if name.startswith("/") and name != "/." and not name.startswith(_LEFT_OUT) and "/test/" not in name:
            yield name


def _with_libraries(packages: Sequence[str]) -> list[str]:
    needs = _dependencies()
    found: set[str] = set()
    pending = list(packages)
    while pending:
        name = pending.pop()
        if name not in found and name in needs:
            found.add(name)
            pending += [other for other in needs[name] if other.startswith(("lib", "zlib"))]
    return sorted(found)


@functools.cache
def _dependencies() -> dict[str, list[str]]:
    require("dpkg-query")
    query = ["dpkg-query", "-W", "-f", "${Package}|${Depends}, ${Pre-Depends}\n"]
    listing = subprocess.run(query, capture_output=True, text=True, check=True).stdout
    needs = {}
    for line in listing.splitlines():
        name, _, others = line.partition("|")
        needs[name] = [re.split(r"[ (:|]", other.strip())[0] for other in others.split(",") if other.strip()]
    return needs


NVIDIA_HOOK = """\
#!/usr/bin/python3
# Stands in for NVIDIA's container hook. It proves that the request for GPUs arrives where the real one would see it,
# and nothing about CUDA: no driver, no library and no device is behind it.
import json, os, sys
state = json.load(sys.stdin)
with open(os.path.join(state["bundle"], "config.json")) as file:
    config = json.load(file)
variables = dict(each.split("=", 1) for each in config["process"]["env"])
devices = variables.get("NVIDIA_VISIBLE_DEVICES", "")
with open({record!r}, "a") as file:
    file.write(devices + "\\n")
if os.path.exists({broken!r}):
    sys.exit("nvidia-container-cli: initialization error: nvml error: driver not loaded")
root = os.path.join(state["bundle"], config["root"]["path"])
with open(os.path.join(root, "stand-in-gpus"), "w") as file:
    file.write(devices)
"""


class NvidiaStandIn:
    """A stand-in of NVIDIA's hook for an engine that is started with `environment`."""

    def __init__(self, folder: Path) -> None:
        self._record, self._broken = folder / "requests", folder / "broken"
        hook = folder / "nvidia-container-runtime-hook"
        hook.write_text(NVIDIA_HOOK.format(record=str(self._record), broken=str(self._broken)))
        hook.chmod(0o755)
        self.environment = {"PATH": f"{folder}:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"}

    @property
    def requests(self) -> list[str]:
        """The request of each container: the numbers of GPUs, or `all`."""
        return self._record.read_text().splitlines() if self._record.exists() else []

    def break_driver(self) -> None:
        """Make the hook fail as with a broken driver."""
        self._broken.touch()

    def repair_driver(self) -> None:
        """Make the hook work again."""
        self._broken.unlink()
