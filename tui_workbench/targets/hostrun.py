"""A run's directory on the host that executes it: the run's own directory here, or one below our folder over there.

Over there it holds what the container or the interpreter needs (`work/`, the run's copy of the project) and what the
run writes (`output.log`, `pid`, `exit`, `outputs/`). Every call may be made again at any time, by anybody: a copy that
was half made is made anew as long as the script has not been started, and what was brought here once is brought whole.
"""

from __future__ import annotations

import os
import posixpath

from tui_workbench.errors import StorageError, WorkbenchError
from tui_workbench.records import TYPE_CHECKING, NamedTuple
from tui_workbench.targets import supervisor
from tui_workbench.targets.layout import HostLayout
from tui_workbench.targets.local import SDK_FOLDER
from tui_workbench.targets.turns import turn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tui_workbench.model import RunSpec
    from tui_workbench.targets.host import Completed, Entry, Host
    from tui_workbench.targets.live import LiveFiles
    from tui_workbench.targets.mirror import Mirror
    from tui_workbench.targets.protocol import Outcome
    from tui_workbench.targets.report import Report

OUTPUT, OUTPUTS, RECORD, WORKING_COPY, BOOT = "output.log", "outputs", "run.json", "work", "boot"

FULL_BELOW = 64
"""Free kilobytes that count as none: less than any file that a training writes."""

COPY_SECONDS = 600.0
"""Copying a project on the host's own disk; a gigabyte on a slow network disk takes minutes."""

_FOLDERS = 'umask 077; mkdir -p -- "$1" && umask 022 && shift && mkdir -p -- "$@"'

# $1 the run's directory. In a container the number may look like another machine's, so the host itself notes it.
_NOTE_START = 'cat /proc/sys/kernel/random/boot_id >"$1/boot" 2>/dev/null; exit 0'

# $1 the tree, $2 the run's directory, $3 the folder of the SDK. A run has one snapshot: a copy that is whole stays, for
# somebody else may just be starting the script in it.
_PLACE = """\
[ -e "$3" ] || echo absent
[ -e "$2/placed" ] && exit 0
rm -rf -- "$2/work" || exit
cp -a --reflink=auto -- "$1" "$2/work" 2>/dev/null || { rm -rf -- "$2/work"; cp -a -- "$1" "$2/work"; } || exit
mkdir -p -- "$2/work/outputs" && : >"$2/placed"
"""

_WRITE = 'cat >"$1.new" && mv -f -- "$1.new" "$1"'

# $1 the run's directory. `work` keeps what the run made, and its outputs move out of it. Others, who follow the run
# from other machines, may do the same at the same time.
_SETTLE = """\
cd -- "$1" 2>/dev/null && [ -d work ] && [ -e placed ] || exit 0
if [ -d work/outputs ] && [ ! -L work/outputs ] && [ ! -e outputs ]; then
    mv work/outputs outputs 2>/dev/null || [ -d outputs ] || exit
fi
{
    find work -name __pycache__ -type d -prune -exec rm -rf {} +
    find work ! -type d ! -newer placed -exec rm -f {} +
    find work -depth -type d -exec rmdir {} +
} 2>/dev/null
exit 0
"""

# $1 the run's directory. For others who copy it just then, the copy is there as a whole or not at all.
_REMOVE_COPY = """\
cd -- "$1" 2>/dev/null || exit 0
rm -rf removed || exit
[ ! -e work ] || mv work removed || exit
rm -rf removed
"""

# $1 the run's directory; four parts with a line between them that none of them can hold.
_END = """\
cat -- "$1/pid" 2>/dev/null
printf '\\n/\\n'
cat -- "$1/exit" 2>/dev/null
printf '\\n/\\n'
cat -- "$1/boot" 2>/dev/null
printf '\\n/\\n'
cat /proc/sys/kernel/random/boot_id 2>/dev/null
"""


class Ending(NamedTuple):
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
                    os.makedirs(folder, exist_ok=True)
                except OSError as error:
                    raise StorageError(
                        f"cannot make the folder: {error.strerror}",
                        remedy="Make its parent writable, or set nativeSharedDirectory to a folder that is.",
                        file=folder,
                    ) from error
            return
        self.must(self._host.run(["sh", "-c", _FOLDERS, "sh", self.layout.home, *folders]), "make the run's folder")

    def send(self, tree: Sequence[Entry], report: Report) -> None:
        """Bring the project's mirror on the host up to date and make the run's own copy of it; nothing on this machine.

        Raises Interrupted, TargetUnreachable or StorageError.
        """
        if self._host.is_local:
            return
        from tui_workbench.targets.sending import telling_and_metered

        spec = self._spec
        destination = self.layout.project_tree(spec.project_root, spec.project_name)
        self.make_folders(posixpath.dirname(destination))
        with turn(self._lock, report.interrupted):
            report.begin("sync", f"send what changed to {self._host.label}")
            with telling_and_metered(report.line) as progress:
                sent = self._host.sync(tree, spec.working_directory, destination, progress)
            report.line(f"  {sent.text}")
            report.done("sync", files=len(tree), **sent._asdict())
            report.begin("copy", "make the run's own copy there")
            place = ["sh", "-c", _PLACE, "sh", destination, self.directory, self.sdk_folder]
            done = self._host.run(place, timeout=COPY_SECONDS)
            if self.must(done, "copy the project").text:
                self.send_sdk()
        report.done("copy")

    @property
    def sdk_folder(self) -> str:
        """What the script may import to log, as a folder of the host."""
        from tui_workbench.targets import sdk

        return SDK_FOLDER if self._host.is_local else self.layout.sdk(sdk.version())

    def send_sdk(self) -> None:
        """Have that folder on the host."""
        from tui_workbench.targets import sdk

        if not self._host.is_local:
            command = ["sh", "-c", sdk.SEND, "sh", self.sdk_folder]
            self.must(self._host.run(command, stdin=sdk.archive()), "send what scripts may import")

    def note_start(self) -> None:
        """Note which start of the machine this is, for `ending` to tell whether it is another then."""
        if self._host.is_local:
            with open(self.file(BOOT), "w", encoding="ascii") as file:
                file.write(supervisor.current_boot_id())
            return
        self._host.run(["sh", "-c", _NOTE_START, "sh", self.directory])

    def write(self, name: str, data: bytes) -> None:
        """Write a file of the directory, readable to this user only and whole or not at all."""
        command = ["sh", "-c", f"umask 077; {_WRITE}", "sh", self.file(name)]
        self.must(self._host.run(command, stdin=data), f"write {name}")

    def note_end(self, exit_code: int | None) -> None:
        """Note the exit code here as well, where the supervising shell has not written it itself."""
        if exit_code is not None and supervisor.read_exit_code(self._spec.run_directory) is None:
            path = os.path.join(self._spec.run_directory, supervisor.EXIT)
            with open(path, "w", encoding="ascii") as file:
                file.write(f"{exit_code:<4}\n")

    def ending(self) -> Ending:
        """How far the run came, as its directory on the host tells."""
        if self._host.is_local:
            return self._ending_here()
        text = self._host.run(["sh", "-c", _END, "sh", self.directory]).stdout.decode("utf-8", "replace")
        pid, exit_code, then, now = (*text.split("\n/\n"), "", "", "", "")[:4]
        code = exit_code.strip() if exit_code.endswith("\n") else ""
        return Ending(
            started=bool(pid.strip()),
            exit_code=int(code) if code.isdigit() else None,
            restarted=bool(then.strip() and now.strip()) and then.strip() != now.strip(),
        )

    def told_of_disk(self, outcome: Outcome) -> Outcome:
        """The outcome of a script that failed, with the disk named when it is full. Raises TargetUnreachable."""
        if not outcome.exit_code or not self._is_full():
            return outcome
        reason = f"{outcome.reason}; the disk of {self._host.label} is full"
        return outcome._replace(reason=f"{reason}: {self._clean} removes what runs left there")

    @property
    def _clean(self) -> str:
        import shlex

        return f"`workbench-tui experiment clean -t {shlex.quote(self._spec.target.name)}`"

    def _is_full(self) -> bool:
        done = self._host.run(["df", "-Pk", "--", self.directory])
        words = done.text.split("\n")[-1].split() if done.code == 0 else []
        # From behind: a device's name may hold spaces, as may the place where it is mounted, but seldom both.
        return len(words) >= 6 and words[3].isdigit() and int(words[3]) < FULL_BELOW

    def _ending_here(self) -> Ending:
        try:
            with open(self.file(BOOT), encoding="ascii", errors="replace") as file:
                then = file.read().strip()
        except OSError:
            then = ""
        started = supervisor.read_supervisor(self.directory) is not None
        restarted = bool(then) and then != supervisor.current_boot_id()
        return Ending(started, supervisor.read_exit_code(self.directory), restarted)

    def fetch(self) -> None:
        """Bring here what the run made: `outputs/`, and in `work/` every other file it left. Idempotent."""
        if self._host.is_local:
            return
        from tui_workbench.targets.fetching import forget_partial

        self.must(self._host.run(["sh", "-c", _SETTLE, "sh", self.directory], timeout=COPY_SECONDS), "settle the run")
        for name in (OUTPUTS, WORKING_COPY):
            if name in self._names():
                try:
                    self._host.fetch(self.file(name), os.path.join(self._spec.run_directory, name))
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
        """What lies in the directory."""
        done = self._host.run(["ls", "-a", "--", self.directory])
        return self.must(done, "list the run's folder").text.split("\n")

    def mirror(self) -> Mirror:
        """The host's output.log as a copy in the run's directory here."""
        from tui_workbench.targets.mirror import Mirror

        return Mirror(self._host, self.file(OUTPUT), os.path.join(self._spec.run_directory, OUTPUT))

    def live(self) -> LiveFiles | None:
        """What the run tells of its metrics, to be brought here while it goes on; nothing where it is here anyway."""
        from tui_workbench.targets.live import LiveFiles

        return None if self._host.is_local else LiveFiles(self._host, self.directory, self._spec.run_directory)

    def remove_copy(self) -> None:
        """Remove the run's copy of the project there. Its log and its outputs stay, for other machines to find."""
        if not self._host.is_local:
            done = self._host.run(["sh", "-c", _REMOVE_COPY, "sh", self.directory], timeout=COPY_SECONDS)
            self.must(done, "remove the copy")

    def must(self, done: Completed, action: str) -> Completed:
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
