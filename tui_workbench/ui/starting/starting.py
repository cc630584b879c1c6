"""From the key on Run to a run: what has to be asked or made before a run can start, on whatever target.

The invariants: a run on this machine starts without a detour; one elsewhere starts only when the login works or cannot
be asked for now, so that no run fails for want of a secret that nobody was asked for; a host key is accepted by a
letter that was read, never by a key that was pressed twice; a secret goes to the connection and to the keyring, and
nowhere else; everything that blocks is done in threads that nobody waits for.
"""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import TypeGuard

from tui_workbench.config.changes.lifecycle import declare_data, ignore_paths
from tui_workbench.core.errors import ConfigurationError, LargeFiles, NoGpu, NotPrepared, UsageError, WorkbenchError
from tui_workbench.core.model import ComputeTarget, Run, RunConfiguration, RunRequest
from tui_workbench.core.progress import listening
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.lifecycle.starting import wake
from tui_workbench.runs.snapshots.ignore import pattern_of
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.runs.submission.planning import nothing_to_prepare
from tui_workbench.targets.base.secrets import KeyringResult, SecretStore, is_reference
from tui_workbench.targets.hosts.host import ConnectionLost, HostKeyRefused, SecretNeeded
from tui_workbench.targets.hosts.host_for import ssh_host_of
from tui_workbench.targets.ssh.ssh_host import SshHost
from tui_workbench.ui import messages
from tui_workbench.ui.blocking import hold_exit, in_thread
from tui_workbench.ui.changes.project_changes import ProjectChanges
from tui_workbench.ui.formatting import capitalized, file_names
from tui_workbench.ui.main.main_context import MainContext
from tui_workbench.ui.main.project_state import ProjectState
from tui_workbench.ui.runs.preparation import PlanScreen, Preparation, PrepareScreen
from tui_workbench.ui.terminal.clipboard import copy
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.widgets.question_row import Choice, yes_no

NOTE_SECONDS = 15.0
"""How long it is shown that something about a run is unusual."""

SECRET_ATTEMPTS = 3
"""As many as `ssh` gives."""

ACCEPTED = "accepted"
YES, ON_CPU, COPY = "yes", "cpu", "copy"
DECLARE, LEAVE_OUT = "declare", "leave out"


class Login:
    """Logs in for a screen."""

    def __init__(self, context: MainContext) -> None:
        self._context = context
        self._locks: dict[str, asyncio.Lock] = {}

    async def reach(self, target: ComputeTarget | None) -> bool:
        """Log in on the machine of a target, asking where that is needed; false when the person says no.

        A machine that does not answer now is let be: the run says so, or waits. Raises WorkbenchError.
        """
        if not _is_elsewhere(target):
            return True
        # Two runs that are asked for at once ask one question.
        async with self._locks.setdefault(target.path, asyncio.Lock()):
            self._context.say(f"Connecting to {target.address}...")
            try:
                return await self._log_in(target)
            finally:
                self._context.say("")

    async def needs_person(self, target: ComputeTarget | None) -> bool:
        """Whether a login there needs what only a person can give; other troubles are told by who meets them."""
        if not _is_elsewhere(target):
            return False
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
                self._context.notify(f"The secret is held in memory only: {kept.reason}.", 6.0)
        return True

    async def _accepts(self, error: HostKeyRefused, host: SshHost) -> bool:
        """Show a host key that was never seen; raises the error for one that changed."""
        if error.known or not error.presented:
            raise error
        text = f"{safe_text(capitalized(error.message))}. Is it the machine's own?"
        choices = yes_no(ACCEPTED, "accept it for good", "run nothing")
        # A key that is pressed twice must not be what trusts a machine.
        if await self._context.questions.choose(text, *choices, needs_letter=True) != ACCEPTED:
            return False
        await in_thread(lambda: host.accept_host_key(error.presented))
        return True

    async def _gives(self, error: SecretNeeded, host: SshHost, typed: dict[str, str], *, is_again: bool) -> bool:
        prompt = f"Not accepted. {error.prompt}" if is_again else error.prompt
        secret = await self._context.questions.secret(prompt)
        if not secret:
            return False
        await in_thread(lambda: host.give_secret(error.reference, secret))
        typed[error.reference] = secret
        return True


class Starting:
    """Starts runs for a screen, and does what comes before one: log in, look, prepare.

    Its calls raise WorkbenchError, which `MainContext.run` shows.
    """

    def __init__(self, context: MainContext, state: ProjectState, changes: ProjectChanges) -> None:
        self._context = context
        self._state = state
        self._changes = changes
        self._login = Login(context)
        self._preparations: dict[str, Preparation] = {}

    async def run(self, request: RunRequest) -> None:
        """Save the project's edited files, ask what must be asked, and submit."""
        await self._save(self._edited())
        configuration, target = self._context.panes.run_bar.chosen
        if not await self._reaches(target):
            return
        if not _must_be_prepared(configuration, target) or await self._is_prepared(request):
            await self.submit(request)

    async def again(self, run: Run, request: RunRequest | None) -> None:
        """Run a run again: as it was, or as the request says."""
        if request is None:
            request = await in_thread(lambda: self._runs.request_of(run.run_id))
        if await self._reaches(await in_thread(partial(self._target_of, run, request))):
            await self.submit(request)

    async def _reaches(self, target: ComputeTarget | None) -> bool:
        is_there = await self._login.reach(target)
        if not is_there:
            self._context.say("Nothing was run.")
        return is_there

    # --- The run

    async def submit(self, request: RunRequest) -> None:
        """Start a run, in a thread; what it needs was asked for."""
        try:
            await in_thread(lambda: self._submit(request))
        except NoGpu as error:
            self._context.say("")
            await self._on_cpu(request, error)
        except LargeFiles as error:
            self._context.say("")
            await self._on_large_files(request, error)
        except WorkbenchError as error:
            if self._context.panes.run_bar.holds(request):
                self._context.show_error(error)

    def _submit(self, request: RunRequest) -> None:
        """Blocks. The run is shown as soon as it has started; submitting it may take longer."""
        screen, shown = self._context.screen, []

        def show(run: Run) -> None:
            shown.append(run.run_id)
            notes = self._runs.directory(run.run_id).notes() if run.tracked else []
            screen.call_later(self._show, run, notes)

        with hold_exit(), listening(lambda progress: screen.post_message(messages.ProgressReported(progress))):
            run = self._runs.submit(request, on_started=show)
        if not shown:
            show(run)

    def _show(self, run: Run, notes: list[str]) -> None:
        """A run of ours has started; `notes` say what is unusual about it."""
        self._context.say("")
        others = [other for other in self._state.runs if other.run_id != run.run_id]
        self._state.show_runs([run, *others], select=run.run_id)
        for text in notes:
            self._context.notify(text, NOTE_SECONDS)

    async def _on_cpu(self, request: RunRequest, error: NoGpu) -> None:
        """Ask whether a run that asks for a GPU and would train on the CPU is to run all the same."""
        text = f"{safe_text(capitalized(error.message))}."
        choices = (Choice("c", "copy what mends it", COPY), Choice("r", "run it on the CPU", ON_CPU))
        answer = await self._context.questions.choose(text, *choices, Choice("n", "run nothing", ""))
        if answer == ON_CPU:
            await self.submit(request._replace(allow_cpu=True))
        elif answer == COPY:
            if copy(self._context.app, error.command):
                self._context.notify(f"Copied: {error.command}", 6.0)
        else:
            self._context.say("Nothing was run.")

    async def _on_large_files(self, request: RunRequest, error: LargeFiles) -> None:
        """Ask what is to become of files that are too large for a run: data that is linked, or left out."""
        paths = [path for path, _ in error.paths]
        choices = [Choice("s", "leave them out", LEAVE_OUT), Choice("n", "run nothing", "")]
        # A run that repeats another has the data of then.
        if not request.origin or request.run_configuration:
            choices.insert(0, Choice("l", "link them as data", DECLARE))
        answer = await self._context.questions.choose(f"{safe_text(capitalized(error.message))}.", *choices)
        if not answer:
            self._context.say("Nothing was run.")
            return
        root = self._context.project.root
        if answer == DECLARE:
            changes = await in_thread(lambda: declare_data(error.configuration, paths))
        else:
            changes = await in_thread(lambda: ignore_paths(root, [pattern_of(path) for path in paths]))
        await self._changes.apply(changes)
        await self.submit(request)

    def _target_of(self, run: Run, request: RunRequest) -> ComputeTarget | None:
        """The target that the request leads to; None when it is not there any more, which the submit says."""
        project = self._context.project
        try:
            if request.run_configuration:
                return project.target_of(project.run_configuration(request.run_configuration), request.target)
            return project.target(request.target or run.target)
        except ConfigurationError:
            return None

    @property
    def _runs(self) -> Runs:
        return Runs(self._context.project)

    # --- The environment, the plan, and runs that lost their target

    def why_not_prepare(self) -> str:
        """Why there is no environment to make for the chosen run configuration."""
        _, target = self._context.panes.run_bar.chosen
        refusal = nothing_to_prepare(target) if target is not None else None
        return f"{refusal.message}." if refusal is not None else ""

    async def prepare(self, *, goes_on: bool = False) -> bool:
        """Make the environment of the chosen run configuration, in view; true when it is there.

        With `goes_on` something waits for it, and the view goes away with its end.
        """
        configuration, target = self._context.panes.run_bar.chosen
        if configuration is None:
            raise UsageError("no run configuration is chosen", remedy="Choose one in the run bar.")
        await self._save(self._makes_environment(configuration, target))
        if not await self._login.reach(target):
            return False
        preparation = self._preparations.get(configuration.name)
        if preparation is None or preparation.has_ended:
            preparation = Preparation(self._context.project, configuration.name)
            self._preparations[configuration.name] = preparation
            self._context.run("prepare", preparation.work, self._context.screen.notify)
        return await self._context.app.push_screen_wait(PrepareScreen(preparation, closes=goes_on))

    async def show_plan(self, request: RunRequest) -> None:
        """Show what the run would do, send and build, before it does; run it when the person says so."""
        _, target = self._context.panes.run_bar.chosen
        while True:
            unsaved = file_names(self._edited())
            needs_person = partial(self._login.needs_person, target)
            screen = PlanScreen(self._context.project, request, needs_person, self.why_not_prepare(), unsaved)
            chosen = await self._context.app.push_screen_wait(screen)
            if chosen != PlanScreen.LOG_IN:
                break
            if not await self._login.reach(target):
                return
        if chosen == PlanScreen.RUN:
            await self.run(request)
        elif chosen == PlanScreen.PREPARE:
            await self.prepare()

    async def reconnect(self, run: Run) -> None:
        """Reach a run's target, asking where that is needed, and let the run go on or fetch what is missing of it."""
        if not await self._login.reach(self._state.target(run.target)):
            return
        if not run.lacks_outputs:
            await in_thread(lambda: wake(RunDirectory(run.directory)))
            return
        self._context.say("Fetching files...")
        try:
            await in_thread(lambda: self._runs.collect(run.run_id))
        finally:
            self._context.say("")

    async def _is_prepared(self, request: RunRequest) -> bool:
        """Whether the environment is there; when not, offers to make it. Raises what would keep the run from starting.

        Where the target cannot be asked the run is let go on, which says so or waits.
        """
        try:
            await in_thread(lambda: self._runs.plan_details(request))
            return True
        except NotPrepared as error:
            text = f"{safe_text(capitalized(error.message))}. Prepare it, then run?"
        if await self._context.questions.choose(text, *yes_no(YES)) != YES:
            return False
        return await self.prepare(goes_on=True)

    # --- Edited files

    def _edited(self) -> frozenset[str]:
        """The files of the project with unsaved edits. A run may read any of them."""
        folder = os.path.join(self._context.project.root, "")
        return frozenset(path for path in self._context.panes.editor.dirty_paths() if path.startswith(folder))

    def _makes_environment(self, configuration: RunConfiguration, target: ComputeTarget | None) -> frozenset[str]:
        """The files with unsaved edits that say how an environment is made."""
        root = self._context.project.root
        named = (configuration.conda_dependencies_file, configuration.spark_dependencies_file)
        files = {configuration.path, *(os.path.join(root, name) for name in named if name)}
        return self._edited() & (files | ({target.path} if target is not None else set()))

    async def _save(self, paths: frozenset[str]) -> None:
        """Save these files before they are used. Raises UsageError when one cannot be saved."""
        if failed := await self._context.panes.editor.save(paths):
            raise UsageError(
                f"nothing was run: {file_names(failed)} could not be saved",
                remedy="Answer the question in the editor first.",
            )


def _must_be_prepared(configuration: RunConfiguration | None, target: ComputeTarget | None) -> bool:
    """Whether the run may not make the environment that it may need."""
    if configuration is None or target is None or configuration.prepare_environment:
        return False
    return target.kind.can_run and target.builds_environment


def _is_elsewhere(target: ComputeTarget | None) -> TypeGuard[ComputeTarget]:
    """Whether its runs need a login."""
    return target is not None and target.problem is None and target.kind.is_remote and target.kind.can_run


def _keep(typed: dict[str, str]) -> list[KeyringResult]:
    """Put what was typed into the keyring; what has no reference is for this time only."""
    store = SecretStore()
    return [store.put(reference, secret) for reference, secret in typed.items() if is_reference(reference)]
