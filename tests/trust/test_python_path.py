"""No process of the workbench imports modules or starts programs from the project or the current folder."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest

from tests.conftest import write_project
from tests.faults.support import until
from tests.test_serve import open_screens, start
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.core.model import ComputeTarget, RunRequest
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.targets.base import python_environment
from tui_workbench.targets.gpu import frameworks
from tui_workbench.targets.gpu.feed import Feed
from tui_workbench.targets.ssh.host_for import host_of
from tui_workbench.targets.values import SDK_FOLDER

MODULES = (
    "tui_workbench", "workbench_ranks", "json", "typing", "subprocess", "platform", "signal", "socket", "fcntl",
    "select", "sqlite3", "asyncio", "logging", "textual", "rich", "yaml", "asyncssh", "keyring", "docker", "pynvml",
    "aiohttp", "textual_serve", "sitecustomize", "usercustomize", "torch", "pkg_resources",
)  # fmt: skip

PROGRAMS = ("git", "ssh", "docker", "uv", "tmux", "nvidia-smi", "sh", "env", "ps", "df", "az", "python", "python3")

CONSOLE_SCRIPT = str(Path(sys.executable).parent / "workbench-tui")


class Hostile:
    """A project with modules and programs under names that the workbench uses; starting one adds a line to a note."""

    def __init__(self, folder: Path) -> None:
        self.root = write_project(folder / "project", tracked=True)
        self._note = folder / "note"
        for name in MODULES:
            text = f"import os\nopen({str(self._note)!r}, 'a').write('module {name} in ' + str(os.getpid()) + '\\n')\n"
            (self.root / f"{name}.py").write_text(text, encoding="utf-8")
        (self.root / "bin").mkdir()
        for name in PROGRAMS:
            for path in (self.root / name, self.root / "bin" / name):
                path.write_text(f"#!/bin/sh\necho program {name} >>'{self._note}'\nexit 1\n", encoding="utf-8")
                path.chmod(0o755)

    @property
    def started(self) -> str:
        """The modules and programs of the project that were started."""
        return self._note.read_text(encoding="utf-8") if self._note.exists() else ""

    @property
    def path(self) -> str:
        """A PATH that leads into the project in every way."""
        entries = ("", ".", "bin", str(self.root), str(self.root / "bin"), os.environ["PATH"], "")
        return os.pathsep.join(entries)


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hostile:
    """Make a hostile project the current folder, and return it."""
    one = Hostile(tmp_path)
    monkeypatch.chdir(one.root)
    return one


def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the installed command in the current folder."""
    environment = {**os.environ, **variables}
    return subprocess.run([CONSOLE_SCRIPT, *words], env=environment, capture_output=True, text=True, check=False)


COMMANDS = (
    ("history", "list"),
    ("config", "check"),
    ("doctor",),
    ("gpu", "list"),
    ("experiment", "submit", "-c", "local", "hello.py"),
    ("sweep", "-c", "local", "--param", "x=1,2", "hello.py"),
    ("project", "list"),
    ("status", "--line"),
)


@pytest.mark.processes
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_command_executes_nothing_of_the_project(hostile: Hostile, words: tuple[str, ...]) -> None:
    run(*words, PATH=hostile.path)
    assert hostile.started == ""


def test_tracked_run_completes_beside_hostile_modules(hostile: Hostile) -> None:
    done = run("experiment", "submit", "-c", "local", "hello.py", PATH=hostile.path)
    assert done.returncode == 0, done.stderr
    provenance = next((hostile.root / ".workbench" / "runs").glob("*/")) / "provenance.json"
    until(provenance.exists, "the provenance")
    assert hostile.started == ""


def test_python_m_imports_nothing_from_the_current_folder(hostile: Hostile) -> None:
    # The interpreter looks for the package itself there; no program can change that.
    (hostile.root / "tui_workbench.py").unlink()
    done = subprocess.run(
        [sys.executable, "-m", "tui_workbench", "history", "list", "-o", "table"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, hostile.started) == (0, ""), done.stderr


@pytest.mark.processes
async def test_served_screens_import_nothing_from_the_project(hostile: Hostile, home: Path) -> None:
    served = start(hostile.root, home, CONSOLE_SCRIPT)
    try:
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as client:
            page, headers = await open_screens(client, served, served.address)
            async with client.ws_connect(f"{page}ws", headers=headers) as websocket:
                await websocket.receive_bytes(timeout=120)
    finally:
        served.process.terminate()
        served.process.wait()
        assert served.process.stdout is not None
        served.process.stdout.close()
    assert hostile.started == ""


def test_spawned_controller_imports_nothing_from_the_project(hostile: Hostile) -> None:
    runs = Runs(Project.find(str(hostile.root)))
    submitted = runs.submit(RunRequest("local", "hello.py"))
    until(lambda: runs.get(submitted.run_id).end, "the end of the run")
    assert hostile.started == ""


def test_sampler_imports_nothing_from_the_project(hostile: Hostile) -> None:
    with Feed(
        ComputeTarget(name="local", path=str(hostile.root / "aml_config" / "local.compute"), type="local")
    ) as feed:
        until(lambda: feed.read() or feed.machine, "the first line of the sampler")
    assert hostile.started == ""


def test_link_imports_nothing_from_the_project(hostile: Hostile) -> None:
    target = ComputeTarget(
        name="box", path=str(hostile.root / "aml_config" / "box.compute"), type="remote", address="127.0.0.1:9"
    )
    with contextlib.suppress(WorkbenchError):
        host_of(target).run(["true"])
    assert hostile.started == ""


@pytest.mark.processes
@pytest.mark.parametrize(
    "arguments",
    [
        (python_environment.PROGRAM,),
        (frameworks.LAUNCH, frameworks.PROGRAM, "20", frameworks.ALL, frameworks.ALONE),
    ],
    ids=["surroundings", "frameworks"],
)
def test_helper_programs_import_nothing_from_the_current_folder(hostile: Hostile, arguments: tuple[str, ...]) -> None:
    subprocess.run([sys.executable, "-c", *arguments], capture_output=True, check=True)
    assert hostile.started == ""


def test_rank_imports_nothing_before_the_script(hostile: Hostile, tmp_path: Path) -> None:
    (tmp_path / "ranks").mkdir()
    launcher = [sys.executable, f"{SDK_FOLDER}/workbench_ranks.py", "--as-rank", str(tmp_path / "ranks"), "hello.py"]
    subprocess.run(launcher, env={**os.environ, "RANK": "0"}, check=True)
    assert (tmp_path / "ranks" / "0.log").read_text() == "hello\n"
    assert hostile.started == ""


def test_bare_interpreter_is_not_looked_up_in_current_folder(hostile: Hostile) -> None:
    write = hostile.root / "aml_config" / "local.compute"
    write.write_text('type: "local"\npythonLocation: python3\n', encoding="utf-8")
    path = os.pathsep.join(("", ".", "bin", os.path.dirname(sys.executable), os.environ["PATH"]))
    done = run("experiment", "submit", "-c", "local", "hello.py", PATH=path)
    assert (done.returncode, hostile.started) == (0, ""), done.stderr
