"""A run's directory on the host that executes it: the run's own directory here, or one below our folder over there.

Over there it holds what the container or the interpreter needs (`work/`, the run's copy of the project) and what the
run writes (`output.log`, `pid`, `exit`, `outputs/`). Every call may be made again at any time, by anybody: a copy that
was half made is made anew as long as the script has not been started, and what was brought here once is brought whole.
The SDK is sent once a version: it lies there in a folder that is named by its content.
"""

from __future__ import annotations

import hashlib
import io
import os
import posixpath
import shlex
import tarfile
from collections.abc import Sequence
from typing import NamedTuple

from tui_workbench.core.errors import StorageError, WorkbenchError
from tui_workbench.core.files import FOLDER_MODE, make_folders, open_below, read_below, write_below
from tui_workbench.core.locks import lock_file
from tui_workbench.core.model import RunSpec
from tui_workbench.targets.base.run_environment import SDK_FOLDER
from tui_workbench.targets.base.values import Outcome, Report
from tui_workbench.targets.hosts import supervisor
from tui_workbench.targets.hosts.fetching import fetch, forget_partial
from tui_workbench.targets.hosts.host import Completed, ConnectionLost, Entry, Host
from tui_workbench.targets.hosts.host_layout import HostLayout
from tui_workbench.targets.hosts.mirror import LiveFiles, Mirror
from tui_workbench.targets.hosts.sending import report_sending, sync
from tui_workbench.targets.hosts.supervisor import OUTPUT, OUTPUTS, WORKING_COPY

RECORD, BOOT = "run.json", "boot"

FULL_BELOW = 64
"""Free kilobytes that count as none: less than any file that a training writes."""

MOST_NAMES = 10
"""Names that the record of a run lists of those that were left out."""

COPY_SECONDS = 600.0
"""Copying a project on the host's own disk; a gigabyte on a slow network disk takes minutes."""

# $1 our folder, $2 the run's directory, then other folders. A folder of ours that somebody else made stays as it is.
_FOLDERS = """\
umask 077
mkdir -p -- "$1" "$2" || exit
chmod 700 -- "$1" "$2" 2>/dev/null
umask 022
shift
mkdir -p -- "$@"
"""

# $1 the run's directory. In a container the number may look like another machine's, so the host itself notes it.
_NOTE_START = 'umask 077; cat /proc/sys/kernel/random/boot_id >"$1/boot" 2>/dev/null; exit 0'

# $1 the tree, $2 the run's directory, $3 the folder of the SDK. A run has one snapshot: a copy that is whole stays, for
# somebody else may just be starting the script in it.
_PLACE = """\
[ -e "$3" ] || echo absent
[ -e "$2/placed" ] && exit 0
new=$2/copy.$$
trap 'rm -rf -- "$new"' EXIT
[ -e "$2/work" ] || {
    cp -a --reflink=auto -- "$1" "$new" 2>/dev/null || { rm -rf -- "$new"; cp -a -- "$1" "$new"; } || exit
    mkdir -p -- "$new/outputs" || exit
    [ -e "$2/placed" ] || mv -T -- "$new" "$2/work" 2>/dev/null || [ -e "$2/work" ] || mv -- "$new" "$2/work" || exit
}
umask 077
set -C
: 2>/dev/null >"$2/placed" || [ -e "$2/placed" ]
"""
# Each attempt has a copy of its own, which becomes `work` by one rename: an attempt whose connection broke may still be
# copying. Nor is `placed` written twice: what is older than it would not count as made by the run.

# $1 the run's directory, then names of folders, an empty word, and names of files.
_WRITTEN = """\
umask 077
cd -- "$1" && shift || exit
while [ -n "$1" ]; do mkdir -p -- "$1" && shift || exit; done
shift
for name; do
    [ ! -L "$name" ] && : >>"$name" || exit
done
"""

# $1 the file, $2 the size of what comes as input: when the connection breaks, the file stays as it is.
_WRITE = """\
umask 077
cat >"$1.$$" && [ "$(wc -c <"$1.$$")" -eq "$2" ] && mv -f -- "$1.$$" "$1" && exit
rm -f -- "$1.$$"
exit 1
"""

# $1 the run's directory. `work` keeps what the run made, and its outputs move out of it. Others, who follow the run
# from other machines, may do the same at the same time.
_SETTLE = """\
cd -- "$1" 2>/dev/null && [ -d work ] && [ -e placed ] || exit 0
if [ -d work/outputs ] && [ ! -L work ] && [ ! -L work/outputs ] && [ ! -e outputs ] && [ ! -L outputs ]; then
    mv work/outputs outputs 2>/dev/null || [ -d outputs ] || exit
fi
# Not the time of modification, where find knows another: that one can be set to anything, and copying does set it.
newer=-cnewer
find placed -cnewer placed >/dev/null 2>&1 || newer=-newer
{
    find work -name __pycache__ -type d -prune -exec rm -rf {} +
    find work ! -type d ! "$newer" placed -exec rm -f {} +
    find work -depth -type d -exec rmdir {} +
} 2>/dev/null
exit 0
"""

# $1 the run's directory. For others who copy it just then, the copy is there as a whole or not at all.
_REMOVE_COPY = """\
cd -- "$1" 2>/dev/null || exit 0
rm -rf removed copy.* || exit
[ ! -e work ] || mv work removed || exit
rm -rf removed
"""

# $1 the run's directory; four parts with a line between them that none of them can hold.
_END = """\
show() { [ -f "$1" ] && head -c 4096 <"$1"; } 2>/dev/null
show "$1/pid"
printf '\\n/\\n'
show "$1/exit"
printf '\\n/\\n'
show "$1/boot"
printf '\\n/\\n'
cat /proc/sys/kernel/random/boot_id 2>/dev/null
"""


# $1 the folder of the SDK in this version; the archive comes as input.
_SEND_SDK = """\
umask 022
if [ ! -e "$1" ]; then
    mkdir -p -- "$1.$$" && tar -xf - -C "$1.$$" || exit
    [ -e "$1" ] || mv -- "$1.$$" "$1"
fi
cat >/dev/null
"""


def _left_out(folder: str, names: Sequence[str]) -> str:
    """A sentence on what of a folder stays on the host."""
    shown = ", ".join(posixpath.join(folder, posixpath.normpath(name)) for name in names[:MOST_NAMES])
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{shown}{more} stayed there: not a file, or a link that leads out of {folder}/"


def sdk_files() -> dict[str, bytes]:
    """Every file of the SDK by its relative path."""
    found = {}
    for folder, folders, names in os.walk(SDK_FOLDER):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, SDK_FOLDER)] = file.read()
    return found


def sdk_version() -> str:
    """What tells the SDK's content from any other."""
    digest = hashlib.sha256()
    for name, content in sdk_files().items():
        digest.update(b"%s\0%d\0%s" % (name.encode(), len(content), content))
    return digest.hexdigest()[:12]


def sdk_archive() -> bytes:
    """The SDK as a tar archive."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:") as tar:
        for name, content in sdk_files().items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o644
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


class HostRunState(NamedTuple):
    """What the run's directory on the host says about its end."""

    started: bool
    exit_code: int | None  # None when it was not written down
    restarted: bool  # the machine was started anew since the script began


class HostRun:
    """The directory of one run on one host."""

    def __init__(self, host: Host, spec: RunSpec) -> None:
        self._host = host
        self._spec = spec
        self.layout = HostLayout(host.home())
        self.directory = spec.run_directory if host.is_local else self.layout.run(spec.run_id)

    @property
    def _lock(self) -> str:
        """Held while a project's mirror is brought up to date and copied: what a run copies is what it sent."""
        state = os.path.dirname(os.path.dirname(self._spec.run_directory))
        return os.path.join(state, f"sync-{self._spec.target.name}.lock")

    def file(self, name: str) -> str:
        """The path, on the host, of a file in the directory."""
        return posixpath.join(self.directory, name)

    def make_folders(self, *others: str) -> None:
        """Make the run's directory and `others`, with our folder readable to nobody else."""
        folders = [self.directory, *others]
        if self._host.is_local:
            for folder in folders:
                try:
                    os.makedirs(folder, FOLDER_MODE if folder == self.directory else 0o777, exist_ok=True)
                except OSError as error:
                    raise StorageError(
                        f"cannot make the folder: {error.strerror}",
                        remedy="Make its parent writable, or set nativeSharedDirectory to a folder that is.",
                        file=folder,
                    ) from error
            return
        self.require(self._host.run(["sh", "-c", _FOLDERS, "sh", self.layout.home, *folders]), "make the run's folder")

    def make_written(self, folders: Sequence[str], files: Sequence[str]) -> None:
        """Make what a container is given of the run's directory to write, for this user alone; what is there stays."""
        if not self._host.is_local:
            command = ["sh", "-c", _WRITTEN, "sh", self.directory, *folders, "", *files]
            self.require(self._host.run(command), "make the files of the run")
            return
        try:
            for name in folders:
                make_folders(self.directory, name)
            for name in files:
                os.close(open_below(self.directory, name, os.O_WRONLY | os.O_CREAT))
        except OSError as error:
            raise StorageError(
                f"cannot make the files of the run: {error.strerror}",
                remedy="Free space and make the folder writable.",
                file=self.directory,
            ) from error

    def send(self, tree: Sequence[Entry], report: Report) -> None:
        """Bring the project's mirror on the host up to date and make the run's own copy of it; nothing on this machine.

        Raises Interrupted, TargetUnreachable or StorageError.
        """
        if self._host.is_local:
            return
        spec = self._spec
        destination = self.layout.project_tree(spec.project_root, spec.project_name)
        self.make_folders(posixpath.dirname(destination))
        with lock_file(self._lock, report.interrupted):
            report.begin("sync", f"send what changed to {self._host.label}")
            with report_sending(report.line) as progress:
                sent = sync(self._host, tree, spec.working_directory, destination, progress)
            report.line(f"  {sent.text}")
            report.done("sync", files=len(tree), **sent._asdict())
            report.begin("copy", "make the run's own copy there")
            place = ["sh", "-c", _PLACE, "sh", destination, self.directory, self.sdk_folder]
            done = self._host.run(place, timeout=COPY_SECONDS)
            if self.require(done, "copy the project").text:
                self.send_sdk()
        report.done("copy")

    @property
    def sdk_folder(self) -> str:
        """What the script may import to log, as a folder of the host."""
        return SDK_FOLDER if self._host.is_local else self.layout.sdk(sdk_version())

    def send_sdk(self) -> None:
        """Have that folder on the host."""
        if not self._host.is_local:
            command = ["sh", "-c", _SEND_SDK, "sh", self.sdk_folder]
            self.require(self._host.run(command, stdin=sdk_archive()), "send what scripts may import")

    def note_start(self) -> None:
        """Note which start of the machine this is, for `ending` to tell whether it is another then."""
        if self._host.is_local:
            write_below(self.directory, BOOT, supervisor.current_boot_id().encode("ascii"))
            return
        self._host.run(["sh", "-c", _NOTE_START, "sh", self.directory])

    def write(self, name: str, data: bytes) -> None:
        """Write a file of the directory, readable to this user only and whole or not at all."""
        command = ["sh", "-c", _WRITE, "sh", self.file(name), str(len(data))]
        self.require(self._host.run(command, stdin=data), f"write {name}")

    def note_end(self, exit_code: int | None) -> None:
        """Note the exit code here as well, where the supervising shell has not written it itself."""
        if exit_code is not None and supervisor.read_exit_code(self._spec.run_directory) is None:
            write_below(self._spec.run_directory, supervisor.EXIT, b"%-4d\n" % exit_code)

    def state(self) -> HostRunState:
        """How far the run came, as its directory on the host tells."""
        if self._host.is_local:
            return self._local_state()
        parts = (
            self._host.run(["sh", "-c", _END, "sh", self.directory]).stdout.decode("utf-8", "replace").split("\n/\n")
        )
        if len(parts) != 4:
            raise ConnectionLost(f"{self._host.label}: the answer about the run was cut off", remedy="Try again.")
        pid, exit_code, then, now = parts
        code = exit_code.strip() if exit_code.endswith("\n") else ""
        return HostRunState(
            started=bool(pid.strip()),
            exit_code=int(code) if code.isdigit() else None,
            restarted=bool(then.strip() and now.strip()) and then.strip() != now.strip(),
        )

    def add_full_disk_reason(self, outcome: Outcome) -> Outcome:
        """The outcome of a script that failed, with the disk named when it is full. Raises TargetUnreachable."""
        if not outcome.exit_code or not self._is_full():
            return outcome
        reason = f"{outcome.reason}; the disk of {self._host.label} is full"
        return outcome._replace(reason=f"{reason}: {self._clean} removes what runs left there")

    @property
    def _clean(self) -> str:
        return f"`workbench-tui experiment clean -t {shlex.quote(self._spec.target.name)}`"

    def _is_full(self) -> bool:
        done = self._host.run(["df", "-Pk", "--", self.directory])
        words = done.text.split("\n")[-1].split() if done.code == 0 else []
        # From behind: a device's name may hold spaces, as may the place where it is mounted, but seldom both.
        return len(words) >= 6 and words[3].isdigit() and int(words[3]) < FULL_BELOW

    def _local_state(self) -> HostRunState:
        try:
            then = read_below(self.directory, BOOT, supervisor.LARGEST).decode("ascii", "replace").strip()
        except OSError:
            then = ""
        started = supervisor.read_supervisor(self.directory) is not None
        restarted = bool(then) and then != supervisor.current_boot_id()
        return HostRunState(started, supervisor.read_exit_code(self.directory), restarted)

    def fetch(self, report: Report) -> None:
        """Bring here what the run made: `outputs/`, and in `work/` every other file it left. Idempotent.

        `report` is told what was left out.
        """
        if self._host.is_local:
            return
        self.require(
            self._host.run(["sh", "-c", _SETTLE, "sh", self.directory], timeout=COPY_SECONDS), "settle the run"
        )
        for name in (OUTPUTS, WORKING_COPY):
            if name in self._names():
                try:
                    fetched = fetch(self._host, self.file(name), os.path.join(self._spec.run_directory, name))
                    if fetched.skipped:
                        report.done("left out", reason=_left_out(name, fetched.skipped))
                except StorageError:
                    # The machine that the run belongs to clears away the copy when it has what it wants of it.
                    if name in self._names():
                        raise
                    forget_partial(os.path.join(self._spec.run_directory, name))
        self.finish_live()

    def finish_live(self) -> None:
        """Bring here the rest of what the run told of its metrics. Idempotent."""
        live = self.live()
        if live is not None:
            live.finish()

    def _names(self) -> list[str]:
        done = self._host.run(["ls", "-a", "--", self.directory])
        return self.require(done, "list the run's folder").text.split("\n")

    def mirror(self) -> Mirror:
        """The host's output.log as a copy in the run's directory here."""
        return Mirror(self._host, self.file(OUTPUT), self._spec.run_directory, OUTPUT)

    def live(self) -> LiveFiles | None:
        """What the run tells of its metrics, to be brought here while it goes on; nothing where it is here anyway."""
        return None if self._host.is_local else LiveFiles(self._host, self.directory, self._spec.run_directory)

    def remove_copy(self) -> None:
        """Remove the run's copy of the project there. Its log and its outputs stay, for other machines to find."""
        if not self._host.is_local:
            done = self._host.run(["sh", "-c", _REMOVE_COPY, "sh", self.directory], timeout=COPY_SECONDS)
            self.require(done, "remove the copy")

    def require(self, done: Completed, action: str) -> Completed:
        """The program's result. Raises StorageError when it failed, WorkbenchError when the reason is another."""
        if done.code == 0:
            return done
        label = self._host.label
        if "No space left" in done.complaint or "quota exceeded" in done.complaint.lower():
            raise StorageError(
                f"the disk of {label} is full: cannot {action}",
                remedy=f"{self._clean} removes what runs left there; `df -h` there shows the rest.",
            )
        raise WorkbenchError(f"cannot {action} on {label}: {done.complaint}")

    def keep_record(self) -> None:
        """Put run.json into the directory over there, so that every machine can tell what this run is."""
        if self._host.is_local:
            return
        path = os.path.join(self._spec.run_directory, RECORD)
        if os.path.exists(path):
            with open(path, "rb") as file:
                data = file.read()
            self.write(RECORD, data)
