"""The screen that shows commands to install missing software on a target's machine, and runs them if the user agrees.

Leaving the screen while a command runs may interrupt the command. The commands can be run again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial

from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import ComputeTarget
from tui_workbench.core.plaintext import counted
from tui_workbench.targets.checks.result import OK, UNNEEDED, WARNING, CheckResult
from tui_workbench.targets.preparing.preparation import (
    MISSING,
    PRESENT,
    RESTART,
    Machine,
    StepResult,
    missing_commands,
)
from tui_workbench.targets.preparing.preparation import UNNEEDED as NOT_NEEDED
from tui_workbench.ui.blocking import in_thread
from tui_workbench.ui.commands.command import shown_key
from tui_workbench.ui.formatting import capitalized, error_text
from tui_workbench.ui.machines.machine import CONNECTING, LoginQuestions, MachineView, Phase, Remark, attend
from tui_workbench.ui.widgets.dialog import DialogScreen, box_of

OUTPUT_LINES = 8
"""The number of output lines that are visible while the commands run."""

_STATES = {PRESENT: OK, MISSING: WARNING, RESTART: WARNING, NOT_NEEDED: UNNEEDED}


class PrepareMachineScreen(DialogScreen[None], inherit_bindings=False):
    """The screen that prepares the machine of a target."""

    def __init__(self, target: ComputeTarget) -> None:
        self.view = PreparingView(target)
        super().__init__(box_of(f"Install packages on {target.address or 'this machine'}", self.view))

    def on_mount(self) -> None:
        self.set_focus(self.view)
        self.view.action_again()


class PreparingView(MachineView):
    """The steps with their states and commands, the question, and the last lines of the output."""

    def __init__(self, target: ComputeTarget) -> None:
        self._login = LoginQuestions(target)
        super().__init__(self._login.fields, self._proceed)
        self._target = target

    async def _prepare(self) -> None:
        commands = ""
        try:
            machine = await in_thread(lambda: Machine(self._target))
            results = await in_thread(machine.look)
            self.show_results(_shown(machine, results), self._target.address)
            commands = _commands(results)
            yes, no = shown_key("machine.yes", "y"), shown_key("machine.no", "n")
            question = f"Run {counted(missing_commands(results), 'command')} as root on "
            question += f"{self._target.address or 'this machine'}?  {yes} runs them, {no} runs nothing."
            if commands and await self.agrees((question, "text")):
                await self._install(machine, results)
                results = await in_thread(machine.verify)
        except WorkbenchError as error:
            if not await self._login.ask(self, error, self._prepare):
                self.show(Phase.DONE, (capitalized(error_text(error)), "error"), command=commands)
            return
        self.show_results(_shown(machine, results), self._target.address)
        self.show(Phase.DONE, _conclusion(results), command=_commands(results))

    async def _proceed(self) -> None:
        """Pass the secret to the connection, which keeps the secret in memory, and start again."""
        if await self._login.give(self):
            await self._prepare()

    async def _install(self, machine: Machine, results: list[StepResult]) -> None:
        lines: deque[str] = deque(maxlen=OUTPUT_LINES)
        output = machine.install(results)
        while (line := await in_thread(partial(next, output, None))) is not None:
            lines.append(line)
            self.show(Phase.WORKING, *((line, "accent" if line.startswith("# ") else "muted") for line in lines))

    async def _prepare_attended(self) -> None:
        await attend(self._target)
        await self._prepare()

    def action_again(self) -> None:
        self.work(self._prepare_attended(), CONNECTING)


def _shown(machine: Machine, results: Sequence[StepResult]) -> list[CheckResult]:
    is_elsewhere = not machine.host.is_local
    return [
        CheckResult(
            result.step.name,
            _STATES[result.state],
            result.message,
            result.step.warning if result.commands else "",
            "\n".join(result.commands),
            is_elsewhere,
        )
        for result in results
    ]


def _commands(results: Sequence[StepResult]) -> str:
    return "\n".join(command for result in results for command in result.commands)


def _conclusion(results: Sequence[StepResult]) -> Remark:
    if missing_commands(results):
        copies = shown_key("machine.copy", "c")
        return f"Nothing was run. {copies} copies the commands, for example for an administrator.", "warning"
    if any(result.state == RESTART for result in results):
        return "Restart the machine, then check the target.", "warning"
    if any(result.state == MISSING for result in results):
        return "Complete the missing steps, then check the target.", "warning"
    return "Nothing is missing. Check the target next.", "success"
