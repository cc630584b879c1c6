"""The screens to attach a machine and to check a target.

Nothing is written before the login succeeds. An unknown host key is shown and must be accepted. A secret is kept
only in the view, the connection and the keyring. Closing a screen never waits for the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import partial

from rich.cells import set_cell_size

from tui_workbench.config.changes.change_set import ChangeHistory
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import ComputeTarget
from tui_workbench.projects.project import Project
from tui_workbench.targets.attaching.attach import Attached, Attachment
from tui_workbench.targets.checks.result import BROKEN, OK, UNNEEDED, WARNING, CheckResult
from tui_workbench.targets.hosts.host import HostKeyRefused, LoginRefused, SecretNeeded
from tui_workbench.targets.hosts.secrets import KeyringResult, is_reference
from tui_workbench.targets.registry import checks_for
from tui_workbench.targets.ssh.login_secrets import ssh_host_of, store_typed
from tui_workbench.targets.ssh.ssh_wire import login_of
from tui_workbench.ui.blocking import in_thread
from tui_workbench.ui.commands.command import shown_key
from tui_workbench.ui.commands.screen_commands import MACHINE, MACHINE_RESULT
from tui_workbench.ui.formatting import capitalized, error_text
from tui_workbench.ui.machines.machine_fields import ANSWER, PASSWORD, SECRET, AttachForm, answer_field
from tui_workbench.ui.machines.target_checks import Checked
from tui_workbench.ui.terminal.clipboard import copy
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.widgets.dialog import DialogField, DialogLine, DialogScreen, DialogView, box_of
from tui_workbench.ui.widgets.pieces import Piece, hanging

NAME_WIDTH = 16

LOOKS = {OK: ("✓", "success"), WARNING: ("▲", "warning"), UNNEEDED: ("·", "muted"), BROKEN: ("✗", "error")}
"""Glyphs and colors of check results."""

Remark = tuple[str, str]  # an untrusted text and its color


class Phase(Enum):
    """A state of the view: filling in fields, working, asking a question, or done."""

    ASKING = "asking"
    WORKING = "working"
    QUESTION = "question"
    DONE = "done"


PHASE_OF_ACTION = {
    "go": Phase.ASKING,
    "choose": Phase.ASKING,
    "answer": Phase.QUESTION,
    "copy": Phase.DONE,
    "again": Phase.DONE,
    "close": Phase.DONE,
}

CONNECTING = ("Connecting...", "muted")

_COPY, _AGAIN = shown_key("machine.copy", "c"), shown_key("machine.again", "r")
_YES, _NO = shown_key("machine.yes", "y"), shown_key("machine.no", "n")


class AttachScreen(DialogScreen["Checked | None"], inherit_bindings=False):
    """The screen that attaches a machine to the project, as one undo step.

    Its result is the last `Checked`, or None if the files were not written or no check has ended. The `Checked` has no
    results if the user must install the workbench's key first.
    """

    def __init__(self, project: Project, history: ChangeHistory, written: Callable[[], None]) -> None:
        """`written` is called when the files are written, before the machine is checked."""
        self._asked: tuple[Attachment, SecretNeeded] | None = None
        self._form = AttachForm()
        self.view = MachineView(self._fields, self._proceed)
        super().__init__(box_of("Attach a machine", self.view))
        self._project = project
        self._history = history
        self._written = written
        self._abandoning: asyncio.Task[None] | None = None

    def on_mount(self) -> None:
        self.set_focus(self.view)
        self.view.show(Phase.ASKING, at="name")

    def _fields(self, values: Mapping[str, str]) -> Sequence[DialogField]:
        return self._form.fields(values) if self._asked is None else (answer_field(self._asked[1]),)

    async def _proceed(self) -> None:
        """Log in, write the files and check the machine. If the login or the writing fails, show the fields again.

        A question of the server, such as for a second factor, is shown first; the answer continues the login.
        """
        values, asked, self._asked = self.view.values, self._asked, None
        attachment: Attachment | None = asked[0] if asked else None
        try:
            attachment = await self._begun(values, asked)
            if not await self._connect(attachment):
                self.view.show(Phase.ASKING, ("Host key not accepted; nothing was written.", "warning"))
                return
            attached = await in_thread(lambda: attachment.write(self._history.apply))
        except WorkbenchError as error:
            if attachment is not None and isinstance(error, SecretNeeded) and error.is_question:
                self._asked = (attachment, error)
                self.view.buffer(ANSWER).replace("")
                self.view.show(Phase.ASKING, _error_remark(error, attachment.host.label), at=ANSWER)
                return
            if attachment is not None:
                await in_thread(attachment.abandon)
            self._show_failure(error, attachment.host.label if attachment is not None else "")
            return
        self._written()
        await self._check_attached(attachment, attached)

    async def _begun(self, values: Mapping[str, str], asked: tuple[Attachment, SecretNeeded] | None) -> Attachment:
        """Return a new attachment, or that of a question, to which the answer was given."""
        if asked is not None:
            attachment, needed = asked
            await in_thread(lambda: attachment.give(needed, values.get(ANSWER, "")))
            return attachment
        attachment = await in_thread(lambda: Attachment(self._project.root, self._form.request(values)))
        secret = values.get(SECRET, "")
        if secret and attachment.request.has_password:
            attachment.give_password(secret)
        elif secret and attachment.request.private_key:
            attachment.give_passphrase(secret)
        return attachment

    def _show_failure(self, error: WorkbenchError, label: str) -> None:
        """Show the error above the fields, with the field for a password if the machine accepts only that."""
        at = SECRET if isinstance(error, SecretNeeded) else ""
        remark = _error_remark(error, label)
        if isinstance(error, LoginRefused) and error.offers_password:
            self.view.buffer("login").replace(PASSWORD)
            remark = ("The machine accepts none of your SSH keys. It accepts a password: enter it.", "warning")
            at = SECRET
        self.view.show(Phase.ASKING, remark, at=at)

    async def _connect(self, attachment: Attachment) -> bool:
        """Log in. Return False if the user does not accept the host key."""
        while True:
            try:
                await in_thread(attachment.connect)
                return True
            except asyncio.CancelledError:
                self._abandoning = asyncio.create_task(in_thread(attachment.abandon))
                raise
            except HostKeyRefused as error:
                if error.known or not error.presented:
                    raise
                if not await self.view.accepts(error):
                    await in_thread(attachment.abandon)
                    return False
                attachment.accept_host_key(error.presented)

    async def _check_attached(self, attachment: Attachment, attached: Attached) -> None:
        target = await in_thread(lambda: self._project.target(attachment.request.name))
        paths = (attached.compute, attached.run_configuration)
        remarks = [(f"Wrote {', '.join(path.rpartition('/')[2] for path in paths)}.", "text")]
        remarks += map(_storage_remark, attached.kept)
        key = attachment.install_by_hand
        if key is None:
            await self.view.check(target, *remarks)
            return
        self.view.checked = Checked(target)
        self.view.clear_checks(target.address)
        self.view.show(
            Phase.DONE,
            *remarks,
            (f"The workbench's key is not on {target.address} yet. Run this command there:", "warning"),
            (key.install_command, "accent"),
            (f"{_COPY} copies the command, {_AGAIN} repeats the checks.", "warning"),
            command=key.install_command,
        )


class CheckScreen(DialogScreen["Checked | None"], inherit_bindings=False):
    """The screen that checks a target, and asks for missing secrets and about new host keys.

    Its result is the last `Checked`, or None if no check has ended before the screen is closed.
    """

    def __init__(self, target: ComputeTarget) -> None:
        self._login = LoginQuestions(target)
        self._typed: dict[str, str] = {}
        self.view = MachineView(self._login.fields, self._proceed, self._conclude)
        super().__init__(box_of(f"Check {target.name}", self.view))
        self._target = target

    def on_mount(self) -> None:
        self.set_focus(self.view)
        self.view.work(self.view.check_attended(self._target))

    async def _conclude(self, checked: Checked) -> bool:
        """Ask for a missing secret or about a new host key.

        Return False if neither is necessary, or if the user refuses the host key.
        """
        error = checked.results[-1].error if checked.results else None
        return await self._login.ask(self.view, error, lambda: self.view.check(self._target))

    async def _proceed(self) -> None:
        """Pass the secret or the answer to the connection and check again. Save secrets if the checks succeed."""
        given = await self._login.give(self.view)
        if not given:
            return
        self._typed |= {reference: secret for reference, secret in given.items() if is_reference(reference)}
        await self.view.check(self._target)
        checked = self.view.checked
        if self.view.phase is Phase.DONE and self._typed and checked and not checked.error:
            typed, self._typed = self._typed, {}
            kept = await in_thread(lambda: store_typed(ssh_host_of(self._target), typed))
            self.view.show(Phase.DONE, *map(_storage_remark, kept), _result_remark(checked))


async def attend(target: ComputeTarget) -> None:
    """Let the connection ask again after a login that failed after a question of the server."""
    if target.uses_ssh:
        with contextlib.suppress(WorkbenchError):
            await in_thread(lambda: ssh_host_of(target).attend())


class LoginQuestions:
    """The questions about the login to a target's machine: for a missing secret, or about an unknown host key."""

    def __init__(self, target: ComputeTarget) -> None:
        self._target = target
        self._needed: SecretNeeded | None = None

    def fields(self, _values: Mapping[str, str]) -> Sequence[DialogField]:
        needed = self._needed
        return () if needed is None else (answer_field(needed),)

    async def ask(self, view: MachineView, error: WorkbenchError | None, again: Callable[[], Awaitable[None]]) -> bool:
        """Ask for a missing secret or about an unknown host key.

        Return False if the error needs neither question, or if the user refuses the host key. After the user has
        accepted a host key, `again` is called. The caller passes an entered secret to `give`.
        """
        if isinstance(error, SecretNeeded):
            self._needed = error
            key = answer_field(error).key
            view.buffer(key).replace("")  # the previous secret
            view.clear_checks(self._target.address)
            view.show(Phase.ASKING, _error_remark(error, login_of(self._target).label), at=key)
        elif isinstance(error, HostKeyRefused) and await view.accepts(error):
            await in_thread(lambda: ssh_host_of(self._target).accept_host_key(error.presented))
            await again()
        else:
            return False
        return True

    async def give(self, view: MachineView) -> dict[str, str]:
        """Pass the entered secret to the connection, and return it by its reference.

        Return nothing if no secret is needed. After an error, show the error and return nothing.
        """
        if self._needed is None:
            return {}
        needed, self._needed = self._needed, None
        secret = view.values.get(answer_field(needed).key, "")
        try:
            await in_thread(lambda: ssh_host_of(self._target).give_secret(needed.reference, secret))
        except WorkbenchError as error:
            view.show(Phase.DONE, _error_remark(error, login_of(self._target).label))
            return {}
        return {needed.reference: secret}


class MachineView(DialogView, inherit_bindings=False):
    """The content of a machine's screen: fields, a question, and the results of the checks as they arrive."""

    BINDINGS = MACHINE.bindings + MACHINE_RESULT.bindings

    def __init__(
        self,
        fields_of: Callable[[Mapping[str, str]], Sequence[DialogField]],
        proceed: Callable[[], Coroutine[None, None, None]],
        conclude: Callable[[Checked], Awaitable[bool]] | None = None,
    ) -> None:
        """`fields_of` returns the fields for the entered values; `proceed` is run when the user submits the values.

        `conclude` is called after a check. If it returns False, the view shows the result.
        """
        super().__init__()
        self.phase = Phase.ASKING
        self.checked: Checked | None = None
        self._fields_of, self._proceed, self._conclude = fields_of, proceed, conclude
        self._answer: asyncio.Future[bool] | None = None
        self._remarks: Sequence[Remark] = ()
        self._results: list[CheckResult] = []
        self._awaited: Sequence[str] = ()
        self._address = ""
        self._command = ""

    def show(self, phase: Phase, *remarks: Remark, at: str = "", command: str = "") -> None:
        """Change the phase and the remarks.

        `at` is the key of the field to which the cursor moves. `command` is a command that the user can copy.
        """
        self.phase, self._remarks, self._command = phase, remarks, command
        keys = [field.key for field in self.fields]
        self._cursor = keys.index(at) if at in keys else self._cursor
        self.rebuild()

    def clear_checks(self, address: str) -> None:
        """Remove the results. `address` is that of the machine, shown with commands to run there."""
        self._begin_checks((), address)

    def show_results(self, results: Iterable[CheckResult], address: str) -> None:
        """Show these results. `address` is as in `clear_checks`."""
        self._begin_checks((), address)
        self._results.extend(results)

    def _begin_checks(self, awaited: Sequence[str], address: str) -> None:
        self._results, self._awaited, self._address = [], awaited, address
        self.rebuild()

    # --- Work

    def work(self, work: Coroutine[None, None, None], *remarks: Remark) -> None:
        """Cancel the previous work, show the remarks, and run `work`."""
        self.show(Phase.WORKING, *remarks)
        self.run_worker(work, group="machine", exclusive=True)

    async def accepts(self, error: HostKeyRefused) -> bool:
        """Show an unknown host key, and return True if the user accepts it. Return False for other host key errors."""
        if error.known or not error.presented:
            return False
        return await self.agrees(
            (f"{error.message.partition(': ')[2]}.", "warning"),
            ("Compare the fingerprint with those that this command prints on the machine:", "muted"),
            ("cat /etc/ssh/ssh_host_*_key.pub | ssh-keygen -lf -", "accent"),
            (f"Accept this host key?  {_YES} accepts and remembers it, {_NO} rejects it.", "text"),
        )

    async def agrees(self, *question: Remark) -> bool:
        """Show a question, and return True if the user answers yes."""
        self._answer = asyncio.get_running_loop().create_future()
        self.show(Phase.QUESTION, *question)
        answer = await self._answer
        self.show(Phase.WORKING, CONNECTING)
        return answer

    async def check_attended(self, target: ComputeTarget) -> None:
        """Run the checks as `check`, at the request of the user, who can answer questions of the server."""
        await attend(target)
        await self.check(target)

    async def check(self, target: ComputeTarget, *remarks: Remark) -> None:
        """Run the checks of a target and show each result, with the remarks below."""
        checks = await in_thread(partial(checks_for, target))  # may load the code of the type
        self._begin_checks(checks.names, target.address)
        self.show(Phase.WORKING, *remarks)
        answers = checks.run()
        while (result := await in_thread(partial(next, answers, None))) is not None:
            self._results.append(result)
            self.rebuild()
        self.checked = Checked(target, tuple(self._results))
        if self._conclude is None or not await self._conclude(self.checked):
            self.show(Phase.DONE, *remarks, _result_remark(self.checked))

    # --- Fields and commands

    @property
    def fields(self) -> Sequence[DialogField]:
        return self._fields_of(self.values)

    @property
    def stops(self) -> int:
        return len(self.fields) if self.phase is Phase.ASKING else 0

    @property
    def current(self) -> DialogField | None:
        return super().current if self.phase is Phase.ASKING else None

    @property
    def resting_line(self) -> int:
        return len(self._lines) - 1

    def why_not(self, action: str) -> str:
        if PHASE_OF_ACTION.get(action, self.phase) is not self.phase:
            return "Not available in this step."
        if action == "copy" and not self.fix:
            return "No failed check has a command to copy."
        if action == "choose" and not (self.current and self.current.choices):
            return "This field has no choices."
        return ""

    @property
    def fix(self) -> str:
        """The command that fixes the failed check or completes the attachment, or ""."""
        return self._command or (self._results[-1].command if self._is_broken else "")

    @property
    def _is_broken(self) -> bool:
        return bool(self._results) and self._results[-1].state == BROKEN

    def action_go(self) -> None:
        self.work(self._proceed(), CONNECTING)

    def action_answer(self, yes: bool) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(yes)

    def action_copy(self) -> None:
        if copy(self.app, self.fix):
            self.app.notify("Command copied.", timeout=3.0, markup=False)

    def action_again(self) -> None:
        if self.checked is not None:
            self.work(self.check_attended(self.checked.target))

    def action_leave(self) -> None:
        if self.phase is Phase.QUESTION:
            self.action_answer(False)
        else:
            self.action_close()

    def action_close(self) -> None:
        self.screen.dismiss(self.checked)

    # --- Drawing

    def lines(self, width: int) -> Iterator[DialogLine]:
        yield DialogLine()
        if not self._results and not self._awaited and self.fields:
            for number, field in enumerate(self.fields):
                yield DialogLine(field=field, stop=number if self.phase is Phase.ASKING else -1)
            yield DialogLine()
        for result in self._results:
            yield from map(DialogLine, _lines_of(result, width, self._address))
        for name in () if self._is_broken else self._awaited[len(self._results) :]:
            yield DialogLine([Piece(f" ○ {name}", "comment")])
        if self._results or self._awaited:
            yield DialogLine()
        for text, role in self._remarks:
            yield from map(DialogLine, hanging([Piece(" ")], text, width, role))
        if self._remarks:
            yield DialogLine()


def _lines_of(result: CheckResult, width: int, address: str) -> list[tuple[Piece, ...]]:
    glyph, role = LOOKS[result.state]
    name, indent = set_cell_size(result.name, NAME_WIDTH), Piece(" " * (NAME_WIDTH + 3))
    text_role = "error" if result.state == BROKEN else "muted" if result.state == UNNEEDED else "text"
    lines = hanging([Piece(f" {glyph} ", role), Piece(name)], result.message, width, text_role)
    if result.remedy:
        lines += hanging([indent], result.remedy, width, "muted")
    if result.command:
        lines.append((indent, Piece(f"On {safe_text(address)}:" if result.there else "On this machine:", "muted")))
        for command in result.command.split("\n"):
            lines += hanging([indent, Piece("  ")], command, width, "accent")
    return lines


def _storage_remark(kept: KeyringResult) -> Remark:
    return f"{capitalized(kept.text)}.", "text" if kept.in_keyring else "warning"


def _result_remark(checked: Checked) -> Remark:
    name = checked.target.name
    if checked.error is not None:
        copies = f"{_COPY} copies the fix, " if checked.results[-1].command else ""
        return f"{name} is not ready. {copies}{_AGAIN} repeats the checks.", "warning"
    return f"{name} is ready.", "success"


def _error_remark(error: WorkbenchError, label: str) -> Remark:
    """Describe an error without the name of the machine, which the view already shows."""
    return capitalized(error_text(error).removeprefix(f"{label}: ")), "error"
