"""The screens about a machine: attaching one, and checking one that is attached.

The invariants: nothing is written before the login has worked; a host key that nobody has seen is shown and waits for
an answer; a secret is in the view and on its way to the connection, and nowhere else; leaving never waits.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from tui_workbench.errors import WorkbenchError
from tui_workbench.targets.attach import Attachment
from tui_workbench.targets.check import Rung, ladder, rungs_of
from tui_workbench.targets.host import HostKeyRefused, SecretNeeded
from tui_workbench.targets.host_for import ssh_host_of
from tui_workbench.targets.secrets import SecretStore, is_reference
from tui_workbench.targets.ssh_wire import login_of
from tui_workbench.ui.blocking import in_thread
from tui_workbench.ui.safetext import safe_text
from tui_workbench.ui.screens.machine_fields import SECRET, Field, attach_fields, request_of
from tui_workbench.ui.screens.machine_view import MachineView, Phase
from tui_workbench.ui.screens.target_checks import Checked
from tui_workbench.ui.widgets.footer import KeyFooter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from tui_workbench.config.changes import ChangeHistory
    from tui_workbench.model import ComputeTarget
    from tui_workbench.project import Project
    from tui_workbench.targets.attach import Attached
    from tui_workbench.targets.secrets import Kept


class MachineScreen(ModalScreen["Checked | None"], inherit_bindings=False):
    """Asks, connects, climbs the ladder. Its result is what was found, None when nothing was."""

    BINDINGS: ClassVar[list[BindingType]] = []
    DEFAULT_CSS = """
    MachineScreen { align: center middle; background: $background 60%; }
    MachineScreen > Vertical {
        width: 100; max-width: 96%; height: auto; max-height: 90%;
        background: $background; border: round $border; border-title-color: $border; border-title-style: bold;
    }
    """
    heading = ""

    def __init__(self, project: Project) -> None:
        super().__init__()
        self.project = project
        self.view = MachineView(self, self.fields_of)
        self.checked: Checked | None = None
        self._answer: asyncio.Future[bool] | None = None

    def compose(self) -> ComposeResult:
        """A box with the view in it, and the keys."""
        box = Vertical(self.view, KeyFooter())
        box.border_title = Content(safe_text(self.heading))
        yield box

    def fields_of(self, values: Mapping[str, str]) -> Sequence[Field]:
        """The fields, for what is said in them."""
        raise NotImplementedError

    async def proceed(self) -> None:
        """Do what the fields ask for."""
        raise NotImplementedError

    # --- The owner of the view

    def go(self) -> None:
        """The fields are filled in."""
        self.view.work(("Connecting...", "muted"))
        self.run_worker(self.proceed(), group="machine", exclusive=True)

    def answer(self, yes: bool) -> None:
        """A host key is accepted, or not."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(yes)

    def again(self) -> None:
        """Climb once more."""
        if self.checked is not None:
            self.view.work()
            self.run_worker(self._climb_again(self.checked), group="machine", exclusive=True)

    def leave(self) -> None:
        """Back, with what was found."""
        self.dismiss(self.checked)

    # --- What both screens do

    async def accepts(self, error: HostKeyRefused) -> bool:
        """Show a host key that was never seen, and wait for the answer."""
        if error.known or not error.presented:
            return False
        self._answer = asyncio.get_running_loop().create_future()
        self.view.question(
            (f"{error.message.partition(': ')[2]}.", "warning"),
            ("Compare it with the machine's own: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub", "muted"),
            ("Is it the machine's key?  y accepts it for good, n goes back.", "text"),
        )
        accepted = await self._answer
        self.view.work(("Connecting...", "muted"))
        return accepted

    async def climb(self, target: ComputeTarget, *said: tuple[str, str]) -> None:
        """Show the rungs of a target one by one; `said` stands below them."""
        self.view.climb(rungs_of(target), target.address)
        self.view.work(*said)
        rungs: list[Rung] = []
        answers = ladder(target)
        while (rung := await in_thread(partial(next, answers, None))) is not None:
            rungs.append(rung)
            self.view.show_rung(rung)
        self.checked = Checked(target, rungs)
        await self.settle(self.checked, said)

    async def settle(self, checked: Checked, said: Sequence[tuple[str, str]]) -> None:
        """The ladder has ended."""
        self.view.finish(*said, _verdict(checked))

    async def _climb_again(self, checked: Checked) -> None:
        await self.climb(checked.target)


class AttachScreen(MachineScreen, inherit_bindings=False):
    """Attaches a machine to the project; what it writes is one step of the history."""

    heading = "Attach a machine"

    def __init__(self, project: Project, history: ChangeHistory, written: Callable[[], None]) -> None:
        """`written` is called as soon as the files stand there, before the machine is checked."""
        super().__init__(project)
        self._history = history
        self._written = written
        self._abandoning: asyncio.Task[None] | None = None

    def on_mount(self) -> None:
        """Ask."""
        self.set_focus(self.view)
        self.view.ask(at="name")

    def fields_of(self, values: Mapping[str, str]) -> Sequence[Field]:
        """Those of attaching."""
        return attach_fields(values)

    async def proceed(self) -> None:
        """Log in, write, check; back to the fields when something is wrong with them."""
        values = self.view.values
        attachment: Attachment | None = None
        try:
            attachment = await in_thread(lambda: Attachment(self.project.root, request_of(values)))
            _give(attachment, values)
            if not await self._connect(attachment):
                self.view.ask(("The host key was not accepted; nothing was written.", "warning"))
                return
            attached = await in_thread(lambda: attachment.write(self._history.apply))
        except WorkbenchError as error:
            if attachment is not None:
                await in_thread(attachment.abandon)
            label = attachment.host.label if attachment is not None else ""
            self.view.ask(_complaint(error, label), at=SECRET if isinstance(error, SecretNeeded) else "")
            return
        self._written()
        await self._follow(attachment, attached)

    async def _connect(self, attachment: Attachment) -> bool:
        """Log in; false when the person does not accept the host key."""
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
                if not await self.accepts(error):
                    await in_thread(attachment.abandon)
                    return False
                attachment.accept_host_key(error.presented)

    async def _follow(self, attachment: Attachment, attached: Attached) -> None:
        target = await in_thread(lambda: self.project.target(attachment.request.name))
        said = [("Written: " + ", ".join(path.rpartition("/")[2] for path in _paths(attached)) + ".", "text")]
        said += [(_where(kept), "text" if kept.in_keyring else "warning") for kept in attached.kept]
        key = attachment.install_by_hand
        if key is None:
            await self.climb(target, *said)
            return
        self.checked = Checked(target, ())
        self.view.climb((), target.address)
        self.view.finish(
            *said,
            (f"The workbench's key is not on {target.address} yet. There, type this:", "warning"),
            (key.install_command, "accent"),
            ("c copies it, r checks again.", "warning"),
            command=key.install_command,
        )


class CheckScreen(MachineScreen, inherit_bindings=False):
    """Checks a target, and asks on the spot for what only a person can give."""

    def __init__(self, project: Project, target: ComputeTarget) -> None:
        super().__init__(project)
        self.heading = f"Check {target.name}"
        self._target = target
        self._needed: SecretNeeded | None = None

    def on_mount(self) -> None:
        """Begin at once."""
        self.set_focus(self.view)
        self.view.work()
        self.run_worker(self.climb(self._target), group="machine", exclusive=True)

    def fields_of(self, values: Mapping[str, str]) -> Sequence[Field]:
        """The secret that is missing, when one is."""
        return () if self._needed is None else (Field(SECRET, "Secret", self._needed.prompt, is_secret=True),)

    async def settle(self, checked: Checked, said: Sequence[tuple[str, str]]) -> None:
        """Ask for a missing secret, or about a new host key; else say how it went."""
        error = checked.rungs[-1].error if checked.rungs else None
        if isinstance(error, SecretNeeded):
            self._needed = error
            self.view.climb((), self._target.address)
            self.view.ask(_complaint(error, login_of(self._target).label), at=SECRET)
        elif isinstance(error, HostKeyRefused) and await self.accepts(error):
            await in_thread(lambda: ssh_host_of(self._target).accept_host_key(error.presented))
            await self.climb(self._target)
        else:
            await super().settle(checked, said)

    async def proceed(self) -> None:
        """Hand the secret over, and climb again; what lets us in is kept."""
        assert self._needed is not None
        reference, secret = self._needed.reference, self.view.values.get(SECRET, "")
        self._needed = None
        try:
            await in_thread(lambda: ssh_host_of(self._target).give_secret(reference, secret))
        except WorkbenchError as error:
            self.view.finish(_complaint(error, login_of(self._target).label))
            return
        await self.climb(self._target)
        if self.view.phase is Phase.DONE and is_reference(reference) and self.checked and not self.checked.error:
            kept = await in_thread(lambda: SecretStore().put(reference, secret))
            self.view.finish((_where(kept), "text" if kept.in_keyring else "warning"), _verdict(self.checked))


def _give(attachment: Attachment, values: Mapping[str, str]) -> None:
    secret = values.get(SECRET, "")
    if secret and attachment.request.has_password:
        attachment.give_password(secret)
    elif secret and attachment.request.private_key:
        attachment.give_passphrase(secret)


def _paths(attached: Attached) -> tuple[str, str]:
    return attached.compute, attached.run_configuration


def _where(kept: Kept) -> str:
    if kept.in_keyring:
        return "The secret is in the keyring."
    return f"The secret is held in memory only: {kept.reason}. It is asked for again when it is needed."


def _verdict(checked: Checked) -> tuple[str, str]:
    name = checked.target.name
    if checked.error is not None:
        return f"{name} cannot be used yet. c copies the command, r checks again.", "warning"
    return f"{name} can be used.", "success"


def _complaint(error: WorkbenchError, label: str) -> tuple[str, str]:
    """What is wrong, without the name of the machine, which stands above."""
    message = error.message.removeprefix(f"{label}: ")
    return f"{message[:1].upper()}{message[1:]}. {error.remedy}".rstrip(), "error"
