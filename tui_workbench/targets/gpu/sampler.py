"""The process that samples the GPUs of one machine, as long as it has readers (see `feed`).

It holds the lock `sampler.lock` in its folder, so only one sampler runs. The samples file starts with a description of
the machine. When the file has grown too large, a new file replaces it, and readers continue there. The process
ends if it has no readers, if the machine has no GPU, or if waiting is useless, for example after a refused login.
"""

from __future__ import annotations

import os
import sys
import time

from tui_workbench.core import locks, trace
from tui_workbench.core.errors import TargetUnreachable, WorkbenchError
from tui_workbench.core.files import load_json
from tui_workbench.core.model import ComputeTarget
from tui_workbench.core.waiting import BackgroundCall
from tui_workbench.targets.gpu.feed import LISTENERS, NO_SAMPLER, SAMPLES, TARGET
from tui_workbench.targets.gpu.nvml import NoLibrary, Nvml
from tui_workbench.targets.gpu.sample import Machine, Note, Sample, encode
from tui_workbench.targets.gpu.smi import Smi
from tui_workbench.targets.hosts.host import Host
from tui_workbench.targets.ssh.host_for import host_of

INTERVAL = 1.0
# Seconds without readers after which this process ends. A screen that is soon opened again finds the same process.
PATIENCE_SECONDS = 5.0
# Bytes after which a new file is started. They hold an hour of samples of one GPU, or some minutes of eight GPUs.
LARGEST = 4 << 20


class Sampler:
    """The main loop that writes the samples of a machine to the file in `folder`."""

    def __init__(self, folder: str, target: ComputeTarget) -> None:
        self._folder = folder
        self._target = target
        self._machine = Machine()
        self._file = -1
        self._listeners = os.open(os.path.join(folder, LISTENERS), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._alone_since = 0.0

    def run(self) -> int:
        """Take samples until no reader is left; stop at once if there is no GPU. Return the exit code."""
        try:
            host = host_of(self._target)
        except WorkbenchError as error:
            self.start_file(Machine(problem=str(error)))
            return NO_SAMPLER
        while True:
            try:
                return self._watch(host)
            except TargetUnreachable as error:
                self.write([Note(time.time(), f"unreachable: {error.message}")])
                if not self._until_reachable(host):
                    return 0

    def _watch(self, host: Host) -> int:
        source = _source(host)
        try:
            self.start_file(source.machine())
            if not self._machine.devices:
                return NO_SAMPLER
            return self._sample(source)
        finally:
            source.close()

    def _sample(self, source: Nvml | Smi) -> int:
        due = time.monotonic()
        while self._is_wanted():
            if isinstance(source, Smi):
                self.write(source.look(INTERVAL))
                continue
            self.write(source.look())
            # Keep to the clock, but do not catch up after a sample that took longer than the interval.
            due = max(due + INTERVAL, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))
        return 0

    def _until_reachable(self, host: Host) -> bool:
        """Wait until the machine answers. Return False if no reader is left, or if waiting is useless."""
        with BackgroundCall(lambda: host.wait_until_reachable()) as reached:
            while self._is_wanted():
                try:
                    if reached.wait(timeout=INTERVAL):
                        return True
                except TargetUnreachable as error:
                    self.write([Note(time.time(), f"unreachable: {error.message}")])
                    return False
        return False

    def _is_wanted(self) -> bool:
        """Return False after PATIENCE_SECONDS without readers; then the lock makes new readers wait."""
        if not locks.try_lock(self._listeners):
            self._alone_since = 0.0
            return True
        now = time.monotonic()
        self._alone_since = self._alone_since or now
        if now - self._alone_since > PATIENCE_SECONDS:
            return False
        locks.unlock(self._listeners)
        return True

    def start_file(self, machine: Machine) -> None:
        self._machine = machine
        new = os.path.join(self._folder, f"{SAMPLES}.new")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.write(descriptor, encode(machine))
        os.rename(new, os.path.join(self._folder, SAMPLES))
        if self._file >= 0:
            os.close(self._file)
        self._file = descriptor

    def write(self, records: list[Sample | Note]) -> None:
        if not records:
            return
        if self._file < 0:
            self.start_file(self._machine)
        try:
            os.write(self._file, b"".join(map(encode, records)))
            if os.fstat(self._file).st_size > LARGEST:
                self.start_file(self._machine)
        except OSError:
            return  # the disk is full; there may be space for later samples


def _source(host: Host) -> Nvml | Smi:
    """Return NVML if the host is this machine and has it, else the tool of the vendor on the host."""
    if host.is_local:
        try:
            return Nvml()
        except (NoLibrary, ImportError):
            pass
    return Smi(host)


def main(arguments: list[str]) -> int:
    """Take samples until no reader is left: `python -m tui_workbench.targets.gpu.sampler LOCK_FD FOLDER`."""
    os.set_inheritable(int(arguments[0]), False)
    os.chdir("/")
    trace.forget_agent()
    target = ComputeTarget(**load_json(os.path.join(arguments[1], TARGET)))
    return Sampler(arguments[1], target).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
