"""A run's directory on the host that executes it.

On another machine the directory holds the run's copy of the project (`work/`) and the files that the run writes
(`output.log`, `pid`, `exit`, `outputs/`). Every call can be repeated at any time, from any process: an incomplete copy
is replaced until the script has started. Each version of the SDK is sent to a host once.

Making and removing a copy of many files takes long. The copy of an ended run is therefore kept as the *spare*, beside
the last sent files of the project (the *tree*). The next run takes it by a rename, and replaces only what differs from
the tree. A copy has two lists, made when it was complete and equal to the tree: `placed.copy` of its files, and
`placed.tree` of those of the tree. A file of the spare is reused if neither it nor the file in the tree has changed
since; the change time and the inode are compared. Everything else is replaced, also folders in which the run created or
removed something, because a run may have given them other attributes. The result is listed again and compared with the
tree. After any doubt or error, the run gets a new copy of the tree.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple
from urllib.parse import quote

from tui_workbench.config.schema.data_references import data_beside
from tui_workbench.core import system
from tui_workbench.core.causes import DISK_FULL, Cause
from tui_workbench.core.errors import StorageError, WorkbenchError, storage_errors
from tui_workbench.core.files import (
    FOLDER_MODE,
    LARGEST_RECORD,
    make_folders,
    open_below,
    read_below,
    read_regular,
    write_below,
)
from tui_workbench.core.locks import lock_file
from tui_workbench.core.masking import is_secret_file
from tui_workbench.core.model import RunSpec
from tui_workbench.core.numbers import whole_number
from tui_workbench.core.shell_scripts import shell_script
from tui_workbench.projects.project import state_of_run
from tui_workbench.targets.hosts import supervisor
from tui_workbench.targets.hosts.fetching import fetch, forget_partial
from tui_workbench.targets.hosts.host import Completed, ConnectionLost, Host, disk_full, is_disk_full
from tui_workbench.targets.hosts.host_layout import HostLayout, run_directory, try_to_write
from tui_workbench.targets.hosts.manifest import FileList, digest_of
from tui_workbench.targets.hosts.mirror import LiveFiles, Mirror
from tui_workbench.targets.hosts.run_times import difference, seconds_of, times_here, times_there
from tui_workbench.targets.hosts.sdk import sdk_archive, sdk_version
from tui_workbench.targets.hosts.sending import SyncReport, report_sending, sync
from tui_workbench.targets.hosts.supervisor import OUTPUT, OUTPUTS, WORKING_COPY
from tui_workbench.targets.values import SDK_FOLDER, Outcome, Report, Times

RECORD, BOOT, PLACED = "run.json", "boot", "placed"

MOST_NAMES = 10
"""Maximum number of skipped files that the run's record names."""

_AGAIN = "Try again. If the answer is incomplete again, check the load and the disk of that machine."

LARGE_MANIFEST = 1 << 20
"""Size in bytes of the manifest of a project with about 15,000 files."""

COPY_SECONDS = 600.0
"""Time limit in seconds for copying a project on the host; a gigabyte on a slow network disk takes minutes."""

SPARE_FILES = 2_000
"""Minimum number of files of a copy that is kept. A smaller copy is created and removed quickly."""

_PLACE = shell_script("targets/hosts/scripts/place.sh")
_COLLECT = shell_script("targets/hosts/scripts/collect_outputs.sh")
_REMOVE_COPY = shell_script("targets/hosts/scripts/remove_copy.sh")

_FOLDERS = shell_script("targets/hosts/scripts/make_folders.sh")

# $1: the run's directory.
_RESET = 'cd -- "$1" && rm -f -- pid exit boot'

LOG_REMOVED = 9  # exit code of reset_anew.sh if the log is missing or too short

_RESET_ANEW = shell_script("targets/hosts/scripts/reset_anew.sh")

# $1: the run's directory. Executed on the host, because a container may see another boot ID.
_NOTE_START = 'umask 077; cat /proc/sys/kernel/random/boot_id >"$1/boot" 2>/dev/null; exit 0'

_WRITABLE = shell_script("targets/hosts/scripts/make_writable.sh")

_PLACE_SENT = shell_script("targets/hosts/scripts/place_sent.sh")

_WRITE = shell_script("targets/hosts/scripts/write_file.sh")

_STATE = shell_script("targets/hosts/scripts/run_state.sh")

_SEND_SDK = shell_script("targets/hosts/scripts/receive_sdk.sh")


def _describe_skipped(folder: str, names: Sequence[str]) -> str:
    shown = ", ".join(posixpath.join(folder, posixpath.normpath(name)) for name in names[:MOST_NAMES])
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"not fetched: {shown}{more} (not readable, not a file, or a link that leaves {folder}/)"


class Placing(NamedTuple):
    """A shell script that makes a run's copy of previously sent files, with its arguments and its input.

    If the copy was made and the SDK exists, the script prints `placed` and nothing else. Otherwise the caller must send
    the files.
    """

    script: str
    arguments: tuple[str, ...]  # the last is the size of the input
    input: bytes


class HostRunState(NamedTuple):
    """The state of a run, according to the files in its directory on the host."""

    started: bool
    exit_code: int | None  # None if not written
    restarted: bool  # the machine was restarted after the script began
    times: Times = Times()
    ahead: float = 0.0  # seconds to add to a time of the host's clock


class HostRun:
    """The directory of one run on one host.

    Calls raise TargetUnreachable, StorageError or another WorkbenchError; those for this machine can raise OSError.
    """

    def __init__(self, host: Host, spec: RunSpec) -> None:
        self._host = host
        self._spec = spec
        self.layout = HostLayout(host.home())
        self.directory = run_directory(host, spec)

    def _state_file(self, kind: str) -> str:
        state, target = state_of_run(self._spec.whole_directory), self._spec.target
        # Several targets can have the same login. They share the tree.
        machine = f"{target.username}@{target.address}" if target.address else target.name
        return os.path.join(state, f"sync-{quote(machine, safe='@')}.{kind}")

    @property
    def _tree(self) -> str:
        return self.layout.project_tree(self._spec.project_root, self._spec.project_name)

    def file(self, name: str) -> str:
        """Return the path of a file in the directory."""
        return posixpath.join(self.directory, name)

    def make_folders(self, *others: str) -> None:
        """Create the run's directory, private to this user, and other folders."""
        folders = [self.directory, *others]
        if not self._host.is_local:
            done = self._host.run(["sh", "-c", _FOLDERS, "sh", self.layout.home, *folders])
            self.require(done, "create the run's folder")
            return
        for folder in folders:
            with storage_errors("create", folder):
                os.makedirs(folder, FOLDER_MODE if folder == self.directory else 0o777, exist_ok=True)

    def make_writable(self, folders: Sequence[str], files: Sequence[str]) -> None:
        """Create the folders and files that a container may write, private to this user. Existing files are kept."""
        if not self._host.is_local:
            command = ["sh", "-c", _WRITABLE, "sh", self.directory, *folders, "", *files]
            self.require(self._host.run(command), "create the files of the run")
            return
        with storage_errors("create files", self.directory):
            for name in folders:
                make_folders(self.directory, name)
            for name in files:
                os.close(open_below(self.directory, name, os.O_WRONLY | os.O_CREAT))

    def send(self, tree: Callable[[], FileList], report: Report, *, reuses_copy: bool = True) -> None:
        """Create the run's directory on another machine with run.json, update the project's tree, and copy it.

        `tree` returns the files of the project. Does nothing on this machine. `reuses_copy` allows that the copy is
        made from that of an ended run, if the project is large. The folder must not be on a network disk that another
        machine changes, because its changes may be seen late. Raises Interrupted or WorkbenchError.
        """
        if self._host.is_local:
            return
        files = cache(tree)

        def spare() -> str:
            return "spare" if reuses_copy and len(files().identities) >= SPARE_FILES else ""

        with self.locked(report):
            report.begin("sync", f"send changed files to {self._host.label}")
            # If nothing has changed, one request makes the copy. But the files of a large project are listed here and
            # on the machine at the same time, because that takes longer than a request.
            is_large = self._is_large()
            words = self._place_sent(b"", "") if is_large else self._place_sent(files().manifest, spare())
            is_placed = "placed" in words
            sent = SyncReport() if is_placed else self._sync(files if is_large else files(), report)
            report.line(f"  {sent.text}")
            report.done("sync", files=len(files().identities), **sent._asdict())
            report.begin("copy", "make the run's working copy")
            if not is_placed:
                words = self._place(spare())
            if "absent" in words:
                self.send_sdk()
        report.done("copy")

    def _is_large(self) -> bool:
        """Return True if the last sent manifest is so large that listing the files takes longer than a request."""
        try:
            return os.stat(self._state_file("manifest")).st_size >= LARGE_MANIFEST
        except OSError:
            return False

    def _place_sent(self, manifest: bytes, spare: str) -> list[str]:
        """Create the run's directory, and make the copy if the tree is up to date; return the words of the script."""
        placing = self.placing(manifest)
        command = ["sh", "-c", placing.script, "sh", *placing.arguments, spare]
        done = self._host.run(command, stdin=placing.input, timeout=COPY_SECONDS)
        return self.require(done, "create the run's folder").text.split()

    def _sync(self, files: FileList | Callable[[], FileList], report: Report) -> SyncReport:
        with report_sending(report.line) as progress:
            return sync(
                self._host,
                files,
                self._spec.working_directory,
                self._tree,
                progress,
                manifest_copy=self._state_file("manifest"),
            )

    def _place(self, spare: str) -> list[str]:
        command = ["sh", "-c", _PLACE, "sh", self._tree, self.directory, self.sdk_folder, spare]
        return self.require(self._host.run(command, timeout=COPY_SECONDS), "copy the project").text.split()

    def placing(self, manifest: bytes) -> Placing:
        """Return the script that makes the run's copy of the files in a manifest. Execute it within `locked`."""
        record, digest = self._record(), digest_of(manifest)
        arguments = (self.layout.home, self.directory, self._tree, self.sdk_folder, digest, str(len(record)))
        return Placing(_PLACE_SENT, arguments, record)

    @contextlib.contextmanager
    def locked(self, report: Report) -> Iterator[None]:
        """Hold the lock for sending and copying the files of a project, so that a run copies the tree that it has sent.

        Raises Interrupted.
        """
        with lock_file(self._state_file("lock"), report.interrupted):
            yield

    @property
    def sdk_folder(self) -> str:
        return SDK_FOLDER if self._host.is_local else self.layout.sdk(sdk_version())

    def send_sdk(self) -> None:
        """Send the SDK to the run's machine, unless it is already there. Does nothing for this machine."""
        if not self._host.is_local:
            command = ["sh", "-c", _SEND_SDK, "sh", self.sdk_folder]
            self.require(self._host.run(command, stdin=sdk_archive()), "send the SDK")

    def note_start(self) -> None:
        """Record the boot ID, so that `state` can detect a restart of the machine."""
        if self._host.is_local:
            write_below(self.directory, BOOT, system.boot_id().encode("ascii"))
            return
        self._host.run(["sh", "-c", _NOTE_START, "sh", self.directory])

    def reset(self, *, anew: bool = False) -> None:
        """Make it possible to start the run again. Set `anew` if `remove_copy` was called. Raises WorkbenchError."""
        if not self._host.is_local:
            self.finish_reset(self._host.run(self.reset_command(anew=anew)))
        else:
            supervisor.forget(self._spec.run_directory)

    def reset_command(self, *, anew: bool) -> list[str]:
        """Return the command of `reset` for another machine. Pass its result to `finish_reset`."""
        if not anew:
            return ["sh", "-c", _RESET, "sh", self.directory]
        path = os.path.join(self._spec.run_directory, OUTPUT)
        size = os.stat(path).st_size if os.path.exists(path) else 0
        return ["sh", "-c", _RESET_ANEW, "sh", self.directory, str(size)]

    def finish_reset(self, done: Completed) -> None:
        """Remove the files of the supervising shell from this machine. Raises WorkbenchError if the command failed."""
        if done.code == LOG_REMOVED:
            raise WorkbenchError(
                f"cannot start the run again: its log was removed from {self._host.label}, or truncated",
                remedy=f"Run it again as a new run: `workbench-tui experiment rerun -r {self._spec.run_id}`.",
            )
        self.require(done, "start the run again")
        supervisor.forget(self._spec.run_directory)

    def write(self, name: str, data: bytes) -> None:
        """Write a file in the directory atomically, readable only by this user."""
        command = ["sh", "-c", _WRITE, "sh", self.file(name), str(len(data))]
        self.require(self._host.run(command, stdin=data), f"write {name}")

    def note_end(self, exit_code: int | None) -> None:
        """Write the exit code on this machine, unless it is None or was already written."""
        if exit_code is not None and supervisor.read_exit_code(self._spec.run_directory) is None:
            write_below(self._spec.run_directory, supervisor.EXIT, b"%-4d\n" % exit_code)

    def state(self) -> HostRunState:
        """Return the state of the run, according to the files in its directory. Raises TargetUnreachable."""
        if self._host.is_local:
            return self._local_state()
        before = time.time()
        done = self._host.run(["sh", "-c", _STATE, "sh", self.directory])
        after = time.time()
        parts = done.stdout.decode("utf-8", "replace").split("\n/\n")
        if len(parts) != 5:
            raise ConnectionLost(
                f"{self._host.label}: the answer about the state of the run was incomplete", remedy=_AGAIN
            )
        pid, exit_text, *boots, times = parts
        boot, boot_now = (text.strip() for text in boots)
        # Without its line ending, the file `exit` is incomplete.
        exit_code = whole_number(exit_text.strip()) if exit_text.endswith("\n") else None
        ahead = difference(seconds_of(times), before, after)
        restarted = bool(boot and boot_now) and boot != boot_now
        has_ended = exit_code is not None
        return HostRunState(
            started=bool(pid.strip()),
            exit_code=exit_code,
            restarted=restarted,
            times=times_there(times, pid, boot_now, has_ended=has_ended, restarted=restarted, ahead=ahead),
            ahead=ahead,
        )

    def with_full_disk(self, outcome: Outcome) -> Outcome:
        """Return the outcome; if the script failed on a full disk, its causes say so. Raises TargetUnreachable."""
        if not outcome.exit_code or not try_to_write(self._host, self.directory).is_full:
            return outcome
        cause = Cause(DISK_FULL, {"host": self._host.label, "command": self._clean})
        return outcome._replace(causes=(*outcome.causes, cause))

    @property
    def _clean(self) -> str:
        return f"`workbench-tui experiment clean -t {shlex.quote(self._spec.target.name)}`"

    def _local_state(self) -> HostRunState:
        try:
            boot = read_below(self.directory, BOOT, supervisor.LARGEST).decode("ascii", "replace").strip()
        except OSError:
            boot = ""
        started = supervisor.read_supervisor(self.directory) is not None
        restarted = bool(boot) and boot != system.boot_id()
        code, times = supervisor.read_exit_code(self.directory), times_here(self.directory, restarted=restarted)
        return HostRunState(started, code, restarted, times)

    def fetch(self, report: Report) -> None:
        """Fetch the files that the run made: `outputs/`, and those of `work/` that are newer than `placed`.

        The call can be repeated. If an ended run was started again, only this machine has the files that earlier
        attempts wrote to `work/`. Therefore these files are kept here, and so are files with secrets in `outputs/`,
        which were never sent. Raises WorkbenchError.
        """
        if self._host.is_local:
            return
        done = self._host.run(["sh", "-c", _COLLECT, "sh", self.directory], timeout=COPY_SECONDS)
        self.require(done, "collect the files of the run")
        self._fetch_folder(OUTPUTS, is_secret_file, report)
        self._fetch_folder(WORKING_COPY, lambda path: True, report, since=PLACED)
        self.finish_live()

    def _fetch_folder(self, name: str, is_kept: Callable[[str], bool], report: Report, *, since: str = "") -> None:
        destination = os.path.join(self._spec.run_directory, name)
        try:
            fetched = fetch(self._host, self.file(name), destination, is_kept, since=since)
            if fetched.skipped:
                report.done("left out", reason=_describe_skipped(name, fetched.skipped))
        except StorageError:
            # The folder may be missing: the machine that submitted the run removes the copy after fetching it.
            done = self._host.run(["ls", "-a", "--", self.directory])
            if name in self.require(done, "list the run's folder").text.split("\n"):
                raise
            forget_partial(destination)

    def finish_live(self) -> None:
        """Fetch the rest of the files of `live`, such as the metrics. Can be repeated."""
        live = self.live()
        if live is not None:
            live.finish()

    def mirror(self) -> Mirror:
        """Return a Mirror that copies output.log to the run's directory on this machine."""
        return Mirror(self._host, self.file(OUTPUT), self._spec.run_directory, OUTPUT)

    def live(self) -> LiveFiles | None:
        """Return the files to fetch while the run continues; None if the host is this machine."""
        if self._host.is_local:
            return None
        return LiveFiles(self._host, self.directory, self._spec.run_directory, is_member=self._spec.members > 0)

    def remove_copy(self) -> None:
        """Remove the run's copy of the project on another machine, and links to data. Its log and outputs stay."""
        if not self._host.is_local:
            links = data_beside(self._spec.project_root, self._spec.run_configuration.data_references)
            command = ["sh", "-c", _REMOVE_COPY, "sh", self.directory, self._tree, *links]
            done = self._host.run(command, timeout=COPY_SECONDS)
            self.require(done, "remove the run's working copy")

    def require(self, done: Completed, action: str) -> Completed:
        """Return the result of a program. Raises StorageError for a full disk, WorkbenchError for any other failure."""
        if done.code == 0:
            return done
        label = self._host.label
        if is_disk_full(done.complaint):
            raise disk_full(label, f"cannot {action}", self._clean)
        remedy = f"Check the disk, and the permissions of {self.layout.home}, on that machine."
        raise WorkbenchError(f"cannot {action} on {label}: {done.complaint}", remedy=remedy)

    def keep_record(self) -> None:
        """Send run.json to another machine, so that all machines can identify the run."""
        record = self._record()
        if record and not self._host.is_local:
            self.write(RECORD, record)

    def _record(self) -> bytes:
        """Return the content of run.json of the whole run; empty for a run without a record."""
        path = os.path.join(self._spec.whole_directory, RECORD)
        if not os.path.exists(path):
            return b""
        return read_regular(path, LARGEST_RECORD)
