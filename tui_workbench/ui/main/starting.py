"""Starting a run: log in to the target, ask questions, build the environment, submit.

A local run starts without a login. Before a remote run, the user is asked for the secrets that the login needs. A host
key is accepted only with a letter, so that an extra press of enter cannot accept it. A secret is passed only to the
connection and the keyring. Blocking calls run in threads.
"""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import TypeGuard

from tui_workbench.config.changes.lifecycle import declare_data, ignore_paths
from tui_workbench.core.errors import ConfigurationError, LargeFiles, NoGpu, NotPrepared, UsageError, WorkbenchError
from tui_workbench.core.model import ComputeTarget, Run, RunConfiguration, RunRequest
from tui_workbench.core.plaintext import counted
from tui_workbench.core.progress import listening
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.lifecycle.starting import wake
from tui_workbench.runs.snapshots.ignore import pattern_of
from tui_workbench.runs.store.rundir import RunDirectory
from tui_workbench.runs.submission.planning import nothing_to_prepare
from tui_workbench.targets.hosts.contacts import require_contacted
from tui_workbench.targets.hosts.host import ConnectionLost, HostKeyRefused, SecretNeeded
from tui_workbench.targets.hosts.secrets import SECRET_ATTEMPTS
from tui_workbench.targets.ssh.login_secrets import ssh_host_of, store_typed
from tui_workbench.targets.ssh.ssh_host import SshHost
from tui_workbench.ui import messages
from tui_workbench.ui.blocking import hold_exit, in_thread
from tui_workbench.ui.formatting import capitalized, file_names, run_title
from tui_workbench.ui.main.main_context import MainContext
from tui_workbench.ui.main.project_changes import ProjectChanges
from tui_workbench.ui.main.project_state import ProjectState
from tui_workbench.ui.runs.preparation import PlanScreen, Preparation, PrepareScreen
from tui_workbench.ui.starting.sweep_form import SweepChoice, SweepScreen
from tui_workbench.ui.terminal.clipboard import copy
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.widgets.question_row import Choice, yes_no

NOTE_SECONDS = 15.0

ACCEPTED = "accepted"
YES, ON_CPU, COPY = "yes", "cpu", "copy"
DECLARE, LEAVE_OUT = "declare", "leave out"


class Login:
    """The login to targets, with questions about host keys and secrets."""

    def __init__(self, context: MainContext) -> None:
        self._context = context
        self._locks: dict[str, asyncio.Lock] = {}

    async def reach(self, target: ComputeTarget | None) -> bool:
        """Log in to the machine of a target. Raises WorkbenchError.

        Return False if the user refuses the host key or gives no secret. Return True if the machine is unreachable: the
        run then reports the error or waits.
        """
        if not _is_elsewhere(target):
            return True
        # If two runs start at the same time, only the first asks.
        async with self._locks.setdefault(target.path, asyncio.Lock()):
            self._context.say(f"Connecting to {target.address}...")
            try:
                return await self._log_in(target)
            finally:
                self._context.say("")

    async def needs_person(self, target: ComputeTarget | None) -> bool:
        """Return True if a login needs a secret or an answer about a host key. The run reports other errors.

        A machine that the user has not contacted is not contacted now either.
        """
        if not _is_elsewhere(target):
            return False

        def log_in() -> None:
            require_contacted(target)
            ssh_host_of(target).run(["true"])

        try:
            await in_thread(log_in)
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
        await in_thread(host.attend)
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
                if attempts == SECRET_ATTEMPTS and not error.is_question:
                    raise
                attempts += not error.is_question  # the server limits the number of its questions
                if not await self._ask_secret(error, host, typed, is_retry=attempts > 1):
                    return False
        for kept in await in_thread(lambda: store_typed(host, typed)):
            if not kept.in_keyring:
                self._context.notify(f"{capitalized(kept.text)}.", NOTE_SECONDS)
        return True

    async def _accepts(self, error: HostKeyRefused, host: SshHost) -> bool:
        """Ask about an unknown host key. Raise the error if the key has changed or the machine presented none."""
        if error.known or not error.presented:
            raise error
        text = f"{safe_text(capitalized(error.message))}. Accept this host key?"
        choices = yes_no(ACCEPTED, "accept and remember", "cancel")
        if await self._context.questions.choose(text, *choices, needs_letter=True) != ACCEPTED:
            return False
        await in_thread(lambda: host.accept_host_key(error.presented))
        return True

    async def _ask_secret(self, error: SecretNeeded, host: SshHost, typed: dict[str, str], *, is_retry: bool) -> bool:
        prompt = f"Not accepted. {error.prompt}" if is_retry and not error.is_question else error.prompt
        secret = await self._context.questions.secret(prompt)
        if not secret:
            return False
        await in_thread(lambda: host.give_secret(error.reference, secret))
        if not error.is_question:
            typed[error.reference] = secret
        return True


class Starting:
    """The start of runs, with login and preparation. All methods may raise WorkbenchError."""

    def __init__(self, context: MainContext, state: ProjectState, changes: ProjectChanges) -> None:
        self._context = context
        self._state = state
        self._changes = changes
        self._login = Login(context)
        self._preparations: dict[str, Preparation] = {}

    async def sweep(self, request: RunRequest) -> None:
        """Ask for the values of a sweep, and start its runs."""
        choice = await self._context.app.push_screen_wait(SweepScreen(request))
        if choice is not None:
            await self.run(request, choice)

    async def run(self, request: RunRequest, sweep: SweepChoice | None = None) -> None:
        """Save the project's edited files, log in, prepare, and submit."""
        await self._save(self._edited())
        configuration, target = self._context.panes.run_bar.chosen
        if not await self._reaches(target):
            return
        if not _must_be_prepared(configuration, target) or await self._is_prepared(request):
            await self.submit(request, sweep)

    async def again(self, run: Run, request: RunRequest | None) -> None:
        """Rerun a run, unchanged or with another request."""
        if request is None:
            request = await in_thread(lambda: self._runs.request_of(run.run_id))
        if await self._reaches(await in_thread(partial(self._target_of, run, request))):
            await self.submit(request)

    async def _reaches(self, target: ComputeTarget | None) -> bool:
        logged_in = await self._login.reach(target)
        if not logged_in:
            self._context.say("Nothing was run.")
        return logged_in

    async def submit(self, request: RunRequest, sweep: SweepChoice | None = None) -> None:
        """Start a run or a sweep that needs no further login or preparation."""
        try:
            await in_thread(lambda: self._submit(request, sweep))
        except NoGpu as error:
            self._context.say("")
            await self._on_cpu(request, sweep, error)
        except LargeFiles as error:
            self._context.say("")
            await self._on_large_files(request, sweep, error)
        except WorkbenchError as error:
            # A request of the run bar may have been changed meanwhile; a rerun was never in the run bar.
            if request.origin or self._context.panes.run_bar.holds(request):
                self._context.show_error(error)

    def _submit(self, request: RunRequest, sweep: SweepChoice | None) -> None:
        """Submit a run or a sweep, and show the (first) run when it starts. Blocks."""
        screen = self._context.screen
        shown: list[str] = []

        def show(run: Run) -> None:
            if shown:
                return  # a further run of the sweep
            shown.append(run.run_id)
            notes = self._runs.directory(run.run_id).notes() if run.tracked else []
            screen.call_later(self._show, run, notes)

        with hold_exit(), listening(lambda progress: screen.post_message(messages.ProgressReported(progress))):
            if sweep is not None:
                name = self._runs.sweep(request, sweep.members, sweep.max_parallel, show)
                screen.call_later(self._context.notify, f"{name}: {counted(len(sweep.members), 'run')}", NOTE_SECONDS)
            else:
                show(self._runs.submit(request, on_started=show))

    def _show(self, run: Run, notes: list[str]) -> None:
        """Show a run that has started, and the notes about its snapshot."""
        self._context.say("")
        self._state.show_started(run)
        for text in notes:
            self._context.notify(text, NOTE_SECONDS)

    async def _on_cpu(self, request: RunRequest, sweep: SweepChoice | None, error: NoGpu) -> None:
        text = f"{safe_text(capitalized(error.message))}."
        choices = (Choice("c", "copy fix", COPY), Choice("r", "run on CPU", ON_CPU), Choice("n", "cancel", ""))
        answer = await self._context.questions.choose(text, *choices)
        if answer == ON_CPU:
            await self.submit(request._replace(allow_cpu=True), sweep)
        elif answer == COPY:
            if copy(self._context.app, error.command):
                self._context.notify(f"Copied: {error.command}", 6.0)
        else:
            self._context.say("Nothing was run.")

    async def _on_large_files(self, request: RunRequest, sweep: SweepChoice | None, error: LargeFiles) -> None:
        """Ask whether to link files that are too large for a snapshot as data, or to exclude them."""
        paths = [path for path, _ in error.paths]
        choices = [Choice("s", "exclude them", LEAVE_OUT), Choice("n", "cancel", "")]
        # A rerun uses the data of the original run. On another machine, only the user knows where the data is.
        if (not request.origin or request.run_configuration) and not self._runs_remotely(request):
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
        await self.submit(request, sweep)

    def _runs_remotely(self, request: RunRequest) -> bool:
        project = self._context.project
        configuration = project.run_configuration(request.run_configuration)
        return project.target_of(configuration, request.target).kind.is_remote

    def _target_of(self, run: Run, request: RunRequest) -> ComputeTarget | None:
        """Return the target of a request, or None if its files are missing or invalid; `submit` then reports why."""
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

    def why_not_prepare(self) -> str:
        """Return the reason why the chosen run configuration needs no environment, or ""."""
        _, target = self._context.panes.run_bar.chosen
        refusal = nothing_to_prepare(target) if target is not None else None
        return f"{refusal.message}." if refusal is not None else ""

    async def prepare(self, *, runs_afterwards: bool = False) -> bool:
        """Show a screen that builds the environment of the chosen run configuration.

        Return True if the environment is ready. If `runs_afterwards`, the screen closes at that moment.
        """
        configuration, target = self._context.panes.run_bar.chosen
        if configuration is None:
            raise UsageError(
                "no run configuration is chosen",
                remedy="Choose a run configuration in the run bar, or create one with `New runconfig` in Files.",
            )
        await self._save(self._edited_environment_files(configuration, target))
        if not await self._login.reach(target):
            return False
        preparation = self._preparations.get(configuration.name)
        if preparation is None or preparation.has_ended:
            preparation = Preparation(self._context.project, configuration.name)
            self._preparations[configuration.name] = preparation
            # A worker of the app, so that the end of a stopped preparation is reported after the screen was replaced.
            app = self._context.app
            app.run_worker(preparation.work(app.notify), group="prepare")
        return await self._context.app.push_screen_wait(PrepareScreen(preparation, closes=runs_afterwards))

    def stop_preparations(self) -> None:
        """Stop all preparations, without waiting for their end."""
        for preparation in self._preparations.values():
            preparation.stop()

    async def show_plan(self, request: RunRequest) -> None:
        """Show the plan of a request. Then start the run or prepare the environment if the user chooses so."""
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

    async def start_again(self, run: Run) -> None:
        """Start another attempt of an ended run, after a confirmation."""
        files = "in its working copy" if run.tracked else "with the current files of the project"
        text = f"Start {safe_text(run_title(run))} again {files}?"
        if await self._context.questions.choose(text, *yes_no(YES)) != YES:
            return
        if await self._login.reach(self._state.target(run.target)):
            self._show(await in_thread(lambda: self._runs.start_again(run.run_id)), [])

    async def reconnect(self, run: Run) -> None:
        """Log in to a run's target, and resume the run or fetch its missing files."""
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
        """Return True if the environment is ready, or was built after a question. Raises errors of the plan."""
        try:
            await in_thread(lambda: self._runs.plan_details(request))
            return True
        except NotPrepared as error:
            text = f"{safe_text(capitalized(error.message))}. Prepare the environment, then run?"
        if await self._context.questions.choose(text, *yes_no(YES)) != YES:
            return False
        return await self.prepare(runs_afterwards=True)

    def _edited(self) -> frozenset[str]:
        folder = os.path.join(self._context.project.root, "")
        return frozenset(path for path in self._context.panes.editor.dirty_paths() if path.startswith(folder))

    def _edited_environment_files(
        self, configuration: RunConfiguration, target: ComputeTarget | None
    ) -> frozenset[str]:
        """Return the files that define the environment and have unsaved edits."""
        root = self._context.project.root
        named = (configuration.conda_dependencies_file, configuration.spark_dependencies_file)
        files = {configuration.path, *(os.path.join(root, name) for name in named if name)}
        return self._edited() & (files | ({target.path} if target is not None else set()))

    async def _save(self, paths: frozenset[str]) -> None:
        """Save these files. Raises UsageError when a file cannot be saved."""
        if failed := await self._context.panes.editor.save(paths):
            raise UsageError(
                f"nothing was run: cannot save {file_names(failed)}",
                remedy="Answer the question or fix the error that the editor shows.",
            )


def _must_be_prepared(configuration: RunConfiguration | None, target: ComputeTarget | None) -> bool:
    """Return True if the run may need an environment that it is not allowed to build."""
    if configuration is None or target is None or configuration.prepare_environment:
        return False
    return target.builds_environment


def _is_elsewhere(target: ComputeTarget | None) -> TypeGuard[ComputeTarget]:
    """Return True if runs on the target need a login."""
    return target is not None and target.problem is None and target.uses_ssh
