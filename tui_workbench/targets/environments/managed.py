"""Managed environments on this machine: folders with the packages of a conda environment file, built without conda.

An environment is a folder in the user's cache; its name is a hash of its recipe. It is built in place, because a Python
installation cannot be moved. A file that is written last marks the environment as complete; a folder without this file
is built again.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tui_workbench.core import processes, trace
from tui_workbench.core.directories import user_cache_directory
from tui_workbench.core.errors import ConfigurationError, StorageError
from tui_workbench.core.files import load_json, write_atomically
from tui_workbench.core.locks import cache_lock
from tui_workbench.core.model import RunSpec
from tui_workbench.core.plaintext import counted
from tui_workbench.core.waiting import Interrupted, wait_ready
from tui_workbench.targets.base.interpreter import version_without_project
from tui_workbench.targets.environments import environment
from tui_workbench.targets.environments.environment import Recipe, not_prepared, report_steps
from tui_workbench.targets.environments.uv import find_uv, index_environment
from tui_workbench.targets.hosts.host import READ_SIZE
from tui_workbench.targets.values import Report

MARK = "workbench-environment.json"  # the file in a complete environment, with the lines of its recipe
UNKNOWN_VERSION = "0"  # fits no version that a recipe names, so that conda installs that version
LINES_KEPT = 20  # lines of a program's output that the trace of calls keeps
LINES_SEARCHED = 10_000  # last lines that can name a line of the recipe after a failure
LONGEST_LINE = 1 << 16  # bytes; a longer line is divided
DEFAULT_CHANNELS = ("conda-forge",)
# The URLs of the channel `defaults`.
_DEFAULTS = ("https://repo.anaconda.com/pkgs/main", "https://repo.anaconda.com/pkgs/r")


class Managed(NamedTuple):
    """A managed environment: its recipe, its folder and the interpreter to build it with."""

    recipe: Recipe
    base: str  # the interpreter to build it with, unless conda installs another Python
    version: str  # of the base interpreter
    folder: str

    @property
    def python(self) -> str:
        return os.path.join(self.folder, "bin", "python")

    @property
    def name(self) -> str:
        return os.path.basename(self.folder)

    @property
    def is_complete(self) -> bool:
        return os.path.exists(os.path.join(self.folder, MARK))

    def lines(self) -> list[str]:
        return self.recipe.lines(self.base, self.version)

    def why(self) -> str:
        """Return the reason why the environment must be built (see `environment.cause`)."""
        lines = self.lines()
        return environment.cause(self.recipe, lines, environment.closest(lines, Environments().recipes()))

    def activated(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return `variables` with the changes that activate the environment."""
        path = f"{self.folder}/bin:{variables.get('PATH', os.defpath)}"
        own = {"PATH": path, "VIRTUAL_ENV": self.folder, "CONDA_PREFIX": self.folder}
        return {**variables, **own, **self.recipe.variables}

    def refuse_unless_built(self, spec: RunSpec) -> None:
        """Raise NotPrepared if the environment is not built and the run configuration forbids building it."""
        if not self.is_complete and not spec.run_configuration.prepare_environment:
            raise not_prepared(spec, self.why())

    def ensure_built(self, report: Report) -> None:
        """Build the environment if needed.

        Raises Interrupted, ConfigurationError (with the line number) or StorageError.
        """
        if self.is_complete:
            return
        report.begin("build", f"build the environment {self.name}: {self.why()}")
        with cache_lock(f"environment-{self.name}", report.interrupted):
            if not self.is_complete:
                _Build(self, report).build()
        report.done("build", folder=self.folder)


class Environments:
    """The managed environments of this user."""

    def __init__(self) -> None:
        self._store = os.path.join(user_cache_directory(), "environments")

    def of(self, spec: RunSpec, base: str) -> Managed | None:
        """Return the environment of a run, based on the interpreter `base`; None if the run needs no packages.

        Raises ConfigurationError, with the line number.
        """
        recipe = environment.recipe_of(spec)
        # Plans are also made to be shown, and must not start an interpreter of the project.
        version = version_without_project(base, spec.project_root) or UNKNOWN_VERSION
        if recipe.is_met_by(version):
            return None
        name = recipe.tag(f"{base} {version}").rpartition(":")[2]
        return Managed(recipe, base, version, os.path.join(self._store, name))

    def folders(self) -> list[str]:
        try:
            with os.scandir(self._store) as entries:
                return sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
        except OSError:
            return []

    def recipes(self) -> list[list[str]]:
        recipes = []
        for folder in self.folders():
            try:
                recipes.append([str(line) for line in load_json(os.path.join(folder, MARK))])
            except (OSError, ValueError, TypeError):
                continue
        return recipes

    def remove(self, folder: str) -> None:
        """Remove an environment, the file MARK first, so that a partly removed environment never counts as complete.

        Raises StorageError.
        """
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, MARK))
            done = processes.run(["rm", "-rf", "--", folder])
            if done.returncode:
                raise OSError(done.stderr.decode("utf-8", "replace").split("\n")[0])
        except OSError as error:
            raise StorageError(
                f"cannot remove the environment: {error}",
                remedy="Check the permissions of the folder, then delete it.",
                file=folder,
            ) from error


class _Build:
    def __init__(self, managed: Managed, report: Report) -> None:
        self._managed = managed
        self._recipe = managed.recipe
        self._report = report

    def build(self) -> None:
        folder = self._managed.folder
        begun = time.monotonic()
        try:
            shutil.rmtree(folder, ignore_errors=True)  # the rest of an interrupted build
            os.makedirs(os.path.dirname(folder), exist_ok=True)
            self._steps()
            write_atomically(os.path.join(folder, MARK), json.dumps(self._managed.lines()).encode())
        except OSError as error:
            raise StorageError(
                f"cannot build the environment: {error.strerror or error}",
                remedy="Check the free space and the permissions of the folder. `workbench-tui experiment clean` "
                "removes unused environments.",
                file=error.filename or folder,
            ) from error
        self._report.line(f"the environment is built ({time.monotonic() - begun:.1f} s)")

    def _steps(self) -> None:
        uv = find_uv()
        steps = []
        if self._recipe.needs_conda(self._managed.version):
            steps.append(("install conda packages", self._install_conda))
        else:
            title = f"create an environment with {self._managed.base}"
            command = [uv, "venv", "--python", self._managed.base, "--no-project", self._managed.folder]
            steps.append((title, lambda: self._run(title, command)))
        if self._recipe.pip:
            pip_title = f"install {counted(len(self._recipe.pip), 'package')} with uv"
            options = ["--python", self._managed.python, "--no-progress", "--color", "never", *self._recipe.options]
            packages = [package.file or package.text for package in self._recipe.pip]
            pip_command = [uv, "pip", "install", *options, *packages]
            steps.append((pip_title, lambda: self._run(pip_title, pip_command)))
        report_steps(self._report, steps)

    def _run(self, title: str, command: Sequence[str]) -> None:
        """Run a program and report its lines. Raises ConfigurationError, or Interrupted after killing the program."""
        output_lines: deque[str] = deque(maxlen=LINES_SEARCHED)
        watched = [self._report.interrupted] if self._report.interrupted >= 0 else []
        with (
            trace.Call(trace.PROCESS, command, log_start=True) as call,
            subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=processes.clean_environment(index_environment(os.environ)),
                # uv reads settings of a project in the current folder.
                cwd="/",
                start_new_session=True,
            ) as process,
        ):
            assert process.stdout is not None, "it is a pipe"
            output, rest = process.stdout.fileno(), b""
            while True:
                if output not in wait_ready([output, *watched]):
                    os.killpg(process.pid, signal.SIGKILL)
                    raise Interrupted
                data = os.read(output, READ_SIZE)
                *lines, rest = (rest + data).split(b"\n") if data else ([rest] if rest else []) + [b""]
                if len(rest) > LONGEST_LINE:
                    lines, rest = [*lines, rest], b""
                for line in lines:
                    output_lines.append(line.decode("utf-8", "replace").rstrip())
                    self._report.line(f"  {output_lines[-1]}")
                if not data:
                    break
            call.end(process.wait(), "\n".join([*output_lines][-LINES_KEPT:]))
        if process.returncode:
            raise self._failure(title, "\n".join(output_lines) or f"exit code {process.returncode}")

    def _failure(self, title: str, text: str) -> ConfigurationError:
        summary = " ".join(line.strip() for line in text.splitlines()[-3:]).rstrip(".")
        return ConfigurationError(
            f"cannot build the environment, because the step '{title}' failed: {summary}",
            remedy="Correct the packages, or check the connection to the package index.",
            file=self._recipe.path,
            line=self._recipe.line_named_in(text),
        )

    def _install_conda(self) -> None:
        import asyncio

        asyncio.run(self._solve_and_install())

    async def _solve_and_install(self) -> None:
        import rattler

        channels = [
            url for channel in self._recipe.channels or DEFAULT_CHANNELS
            for url in (_DEFAULTS if channel == "defaults" else (channel,))
        ]  # fmt: skip
        python = f"python {self._managed.version}.*" if self._managed.version != UNKNOWN_VERSION else "python"
        if self._recipe.python is not None:
            python = self._recipe.python.text
        specs = [python, *(package.text for package in self._recipe.conda)]
        try:
            records = await rattler.solve(
                channels,
                [rattler.MatchSpec(spec) for spec in specs],
                platforms=[rattler.Subdir.current(), "noarch"],
                virtual_packages=[virtual.into_generic() for virtual in rattler.VirtualPackage.detect()],
            )
            self._report.line(f"  {counted(len(records), 'package')} from {', '.join(channels)}")
            cache = Path(user_cache_directory(), "conda")
            await rattler.install(records, target_prefix=self._managed.folder, cache_dir=cache, show_progress=False)
        except _rattler_errors() as error:
            raise self._failure("install conda packages", str(error)) from error


def _rattler_errors() -> tuple[type[Exception], ...]:
    """Return the errors of the conda library, which have no common base class."""
    from rattler import exceptions as errors

    return (
        *(errors.InvalidMatchSpecError, errors.InvalidPackageNameError, errors.PackageNameMatcherParseError),
        *(errors.InvalidVersionError, errors.InvalidVersionSpecError, errors.InvalidChannelError),
        *(errors.InvalidUrlError, errors.DetectVirtualPackageError, errors.VirtualPackageOverrideError),
        *(errors.GatewayError, errors.FetchRepoDataError, errors.AuthenticationStorageError, errors.SolverError),
        *(errors.ValidatePackageRecordsError, errors.CacheDirError, errors.ExtractError, errors.LinkError),
        *(errors.TransactionError, errors.InstallerError, errors.IoError),
    )
