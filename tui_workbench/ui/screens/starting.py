"""From the key on Run to a run: what has to be asked or made before a run can start, on whatever target.

The invariants: a run on this machine starts without a detour; one elsewhere starts only when the login works or cannot
be asked for now, so that no run fails for want of a secret that nobody was asked for; everything that blocks is done
in threads that nobody waits for.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tui_workbench.config.schema import DOCKER_TYPES, LOCAL, REMOTE, REMOTE_DOCKER
from tui_workbench.errors import ConfigurationError, NoGpu, NotPrepared, UsageError, WorkbenchError
from tui_workbench.targets.host import ConnectionLost, HostKeyRefused, SecretNeeded
from tui_workbench.ui.blocking import in_thread
from tui_workbench.ui.clipboard import copy
from tui_workbench.ui.safetext import safe_text
from tui_workbench.ui.widgets.question_row import Choice

if TYPE_CHECKING:
    from tui_workbench.model import ComputeTarget, Run, RunConfiguration, RunRequest
    from tui_workbench.runs import Runs
    from tui_workbench.targets.secrets import Kept
    from tui_workbench.targets.ssh import SshHost
    from tui_workbench.ui.panes.run_bar import RunBar
    from tui_workbench.ui.screens.preparing import Preparation
    from tui_workbench.ui.screens.project_runs import ProjectRuns

SECRET_ATTEMPTS = 3
"""As many as `ssh` gives."""

REACHED = (REMOTE_DOCKER, REMOTE)
"""The types of targets that a login leads to."""

YES, PREPARE, ON_CPU, COPY = "yes", "prepare", "cpu", "copy"


class Starting:
    """Starts runs for a screen, and does what comes before one: log in, look, prepare."""

    def __init__(self, screen: ProjectRuns) -> None:
        self._screen = screen
        self._logging_in: dict[str, asyncio.Lock] = {}
        self._preparations: dict[str, Preparation] = {}

    async def run(self, request: RunRequest) -> None:
        """Save what is edited, ask what must be asked, and submit."""
        if not await self._save():
            return
        configuration, target = self._bar.chosen
        try:
            if not await self.reach(target):
                self._screen.say("Nothing was run.")
                return
            if _must_be_prepared(configuration, target) and not await self._is_prepared(request):
                return
        except WorkbenchError as error:
            self._screen.show_error(error)
            return
        self._screen.submit(request)

    async def again(self, run: Run, request: RunRequest | None) -> None:
        """Run a run again: as it was, or as the request says."""
        try:
            if request is None:
                request = await in_thread(lambda: self._runs.request_of(run.run_id))
            plan_target = await in_thread(lambda: self._target_of(run, request))
            if not await self.reach(plan_target):
                self._screen.say("Nothing was run.")
                return
        except WorkbenchError as error:
            self._screen.show_error(error)
            return
        self._screen.submit(request)

    async def on_cpu(self, request: RunRequest, error: NoGpu) -> None:
        """Ask whether a run that asks for a GPU and would train on the CPU is to run all the same."""
        text = f"{safe_text(error.message[:1].upper() + error.message[1:])}."
        choices = (Choice("c", "copy what mends it", COPY), Choice("r", "run it on the CPU", ON_CPU))
        answer = await self._screen.asking.choose(text, *choices, Choice("n", "run nothing", ""))
        if answer == ON_CPU:
            self._screen.submit(request._replace(allow_cpu=True))
        elif answer == COPY:
            if copy(self._screen.app, error.command):
                self._screen.notify(f"Copied: {safe_text(error.command)}", timeout=6.0, markup=False)
        else:
            self._screen.say("Nothing was run.")

    def _target_of(self, run: Run, request: RunRequest) -> ComputeTarget | None:
        """The target that the request leads to; None when it is not there any more, which the submit says."""
        project = self._screen.project
        try:
            if request.run_configuration:
                return project.target_of(project.run_configuration(request.run_configuration), request.target)
            return project.target(request.target or run.target)
        except ConfigurationError:
            return None

    @property
    def _runs(self) -> Runs:
        from tui_workbench.runs import Runs

        return Runs(self._screen.project)

    async def prepare(self, *, goes_on: bool = False) -> bool:
        """Make the environment of the chosen run configuration, in view; true when it is there.

        With `goes_on` something waits for it, and the view goes away with its end.
        """
        from tui_workbench.ui.screens.preparing import Preparation, PrepareScreen

        configuration, target = self._bar.chosen
        if configuration is None:
            self._screen.show_error(UsageError("no run configuration is chosen", remedy="Choose one in the run bar."))
            return False
        try:
            if not await self._save() or not await self.reach(target):
                return False
        except WorkbenchError as error:
            self._screen.show_error(error)
            return False
        preparation = self._preparations.get(configuration.name)
        if preparation is None or preparation.has_ended:
            preparation = Preparation(self._screen.project, configuration.name)
            self._preparations[configuration.name] = preparation
            self._screen.run_worker(preparation.work(self._screen.notify), group="prepare")
        return await self._screen.app.push_screen_wait(PrepareScreen(preparation, goes_on=goes_on))

    async def show_plan(self, request: RunRequest) -> None:
        """Show what the run would do, send and build, before it does; run it when the person says so."""
        from tui_workbench.ui.screens.plan import PlanScreen

        if not await self._save():
            return
        _, target = self._bar.chosen
        while True:
            screen = PlanScreen(self._screen.project, request, lambda: self._needs_person(target))
            chosen = await self._screen.app.push_screen_wait(screen)
            if chosen != PlanScreen.LOG_IN:
                break
            try:
                if not await self.reach(target):
                    return
            except WorkbenchError as error:
                self._screen.show_error(error)
                return
        if chosen == PlanScreen.RUN:
            await self.run(request)
        elif chosen == PlanScreen.PREPARE:
            await self.prepare()

    async def reconnect(self, run: Run, target: ComputeTarget | None) -> None:
        """Reach the target of a run that nothing is known of, asking where that is needed, and let the run go on."""
        from tui_workbench.runs.activity import try_now
        from tui_workbench.runs.rundir import RunDirectory

        try:
            if await self.reach(target):
                await in_thread(lambda: try_now(RunDirectory(run.directory)))
        except WorkbenchError as error:
            self._screen.show_error(error)

    async def reach(self, target: ComputeTarget | None) -> bool:
        """Log in on the machine of a target, asking where that is needed; false when the person says no.

        A machine that does not answer now is let be: the run says so, or waits. Raises WorkbenchError.
        """
        if target is None or target.problem is not None or target.type not in REACHED:
            return True
        # Two runs that are asked for at once ask one question.
        async with self._logging_in.setdefault(target.path, asyncio.Lock()):
            self._screen.say(f"Connecting to {target.address}...")
            try:
                return await self._log_in(target)
            finally:
                self._screen.say("")

    async def _needs_person(self, target: ComputeTarget | None) -> bool:
        """Whether a login there needs what only a person can give; other troubles are told by who meets them."""
        if target is None or target.problem is not None or target.type not in REACHED:
            return False
        from tui_workbench.targets.host_for import ssh_host_of

        try:
            await in_thread(lambda: ssh_host_of(target).run(["true"]))
        except SecretNeeded:
            return True
        except HostKeyRefused as error:
            return bool(error.presented) and not error.known
        except WorkbenchError:
            return False
        return False

    async def _log_in(self, target: ComputeTarget) -> bool:
        from tui_workbench.targets.host_for import ssh_host_of

        host = await in_thread(lambda: ssh_host_of(target))
        typed: dict[str, str] = {}
        attempts = 0
        while True:
            try:
                await in_thread(lambda: host.run(["true"]))
                break
            except ConnectionLost:
                return True
            except HostKeyRefused as error:
                if not await self._accepts(error, host):
                    return False
            except SecretNeeded as error:
                if attempts == SECRET_ATTEMPTS:
                    raise
                attempts += 1
                if not await self._gives(error, host, typed, is_again=attempts > 1):
                    return False
        for kept in await in_thread(lambda: _keep(typed)):
            if not kept.in_keyring:
                self._screen.notify(f"The secret is held in memory only: {kept.reason}.", timeout=6.0, markup=False)
        return True

    async def _accepts(self, error: HostKeyRefused, host: SshHost) -> bool:
        """Show a host key that was never seen; raises the error for one that changed."""
        if error.known or not error.presented:
            raise error
        text = f"{safe_text(error.message)}. Is it the machine's own?"
        choices = (Choice("y", "accept it for good", YES), Choice("n", "run nothing", ""))
        if await self._screen.asking.choose(text, *choices) != YES:
            return False
        await in_thread(lambda: host.accept_host_key(error.presented))
        return True

    async def _gives(self, error: SecretNeeded, host: SshHost, typed: dict[str, str], *, is_again: bool) -> bool:
        prompt = f"Not accepted. {error.prompt}" if is_again else error.prompt
        secret = await self._screen.asking.secret(prompt)
        if not secret:
            return False
        await in_thread(lambda: host.give_secret(error.reference, secret))
        typed[error.reference] = secret
        return True

    async def _is_prepared(self, request: RunRequest) -> bool:
        """Whether the environment is there; when not, offers to make it. Raises what would keep the run from starting.

        Where the target cannot be asked the run is let go on, which says so or waits.
        """
        from tui_workbench.runs import Runs

        try:
            await in_thread(lambda: Runs(self._screen.project).survey(request))
            return True
        except NotPrepared as error:
            text = f"{safe_text(error.message[:1].upper() + error.message[1:])}."
        choices = (Choice("p", "prepare it, then run", PREPARE), Choice("n", "run nothing", ""))
        if await self._screen.asking.choose(text, *choices) != PREPARE:
            return False
        return await self.prepare(goes_on=True)

    async def _save(self) -> bool:
        """What is edited counts; false when it could not be saved."""
        editor = self._screen.parts.editor
        failed = await editor.save_all() if editor.dirty_paths() else []
        if failed:
            names = ", ".join(path.rpartition("/")[2] for path in failed)
            self._screen.show_error(
                UsageError(f"nothing was run: {names} could not be saved", remedy="The editor says why.")
            )
        return not failed

    @property
    def _bar(self) -> RunBar:
        return self._screen.parts.run_bar


def _must_be_prepared(configuration: RunConfiguration | None, target: ComputeTarget | None) -> bool:
    """Whether the run may not make the environment that it may need."""
    if configuration is None or target is None or configuration.prepare_environment:
        return False
    return target.type in DOCKER_TYPES or (target.type == LOCAL and not target.user_managed_environment)


def _keep(typed: dict[str, str]) -> list[Kept]:
    """Put what was typed into the keyring; what has no reference is for this time only."""
    from tui_workbench.targets.secrets import SecretStore, is_reference

    store = SecretStore()
    return [store.put(reference, secret) for reference, secret in typed.items() if is_reference(reference)]
