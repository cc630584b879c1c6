"""The wheel and the source distribution hold exactly what they need, and the wheel works.

pip, `uv tool` and pipx install the wheel with its dependencies from the package index, as `.ci/install` does.
"""

from __future__ import annotations

import email.message
import email.parser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from benchmarks.terminal import Terminal
from tests.conftest import REPOSITORY

pytestmark = pytest.mark.packaging

DATA = "tui_workbench/_data/"
MAN_PAGE = "share/man/man1/workbench-tui.1"
LARGEST_WHEEL = 2_000_000
"""Bytes."""

LEFT_BEHIND = (
    "sample_project/.workbench/runs/r1/run.json",
    "sample_project/outputs/model.pt",
    "themes/__pycache__/x.pyc",
)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the repository with a run of the sample."""
    root = tmp_path_factory.mktemp("source") / "workbench-tui"
    apart = shutil.ignore_patterns(
        ".git", ".venv*", "__pycache__", ".*_cache", ".hypothesis", "dist", "build", ".workbench"
    )
    shutil.copytree(REPOSITORY, root, ignore=apart)
    for relative in LEFT_BEHIND:
        (root / relative).parent.mkdir(parents=True)
        (root / relative).write_text("left behind")
    return root


def build(what: str, source: Path, into: Path) -> Path:
    command = [sys.executable, "-m", "build", f"--{what}", "--no-isolation", "--outdir", str(into), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = into.iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", source, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("sdist", source, tmp_path_factory.mktemp("sdist"))


def names_in(archive: Path) -> set[str]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as opened:
            return set(opened.namelist())
    with tarfile.open(archive) as opened_tar:
        return {member.name.split("/", 1)[1] for member in opened_tar.getmembers() if member.isfile()}


def files_below(source: Path, *folders: str) -> set[str]:
    return {
        str(path.relative_to(source)) for folder in folders for path in (source / folder).rglob("*") if path.is_file()
    } - set(LEFT_BEHIND)


def test_wheel_holds_package_themes_and_sample_only(source: Path, wheel: Path) -> None:
    names = {name.partition(".data/data/")[2] or name for name in names_in(wheel) if ".dist-info/" not in name}
    wanted = files_below(source, "tui_workbench") | {
        DATA + name for name in files_below(source, "themes", "sample_project")
    }
    assert names == wanted | {MAN_PAGE}
    assert wheel.stat().st_size < LARGEST_WHEEL
    assert DATA + "sample_project/aml_config/local.runconfig" in names
    assert any(name.startswith(DATA + "themes/") for name in names)


def test_source_distribution_holds_what_make_needs(source: Path, sdist: Path) -> None:
    names = names_in(sdist)
    assert files_below(source, "tui_workbench", "themes", "sample_project", "tests", "benchmarks", ".ci") <= names
    assert {"Makefile", "README.md", "CONTRIBUTING.md", "LICENSE", "pyproject.toml", ".shellcheckrc"} <= names
    assert not set(LEFT_BEHIND) & names


def test_source_distribution_builds_the_same_wheel(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as opened:
        # Python 3.11.2 of Debian 12 has no extraction filters.
        opened.extraction_filter = getattr(tarfile, "data_filter", None)
        opened.extractall(tmp_path / "unpacked")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    again = build("wheel", unpacked, tmp_path / "wheel")
    assert names_in(again) == names_in(wheel)


def metadata_of(wheel: Path) -> email.message.Message:
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (name for name in opened.namelist() if name.endswith(".dist-info/METADATA"))
        return email.parser.Parser().parsestr(opened.read(name).decode())


def test_torch_is_optional_and_textual_is_pinned(wheel: Path) -> None:
    requirements = metadata_of(wheel).get_all("Requires-Dist") or []
    program = [requirement for requirement in requirements if "extra ==" not in requirement]
    assert "textual==8.2.8" in program
    assert not [requirement for requirement in program if requirement.startswith(("torch", "numpy"))]
    assert [requirement for requirement in requirements if requirement.startswith("torch==2.13.0;")]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the `bin` folder of an environment with the wheel, which finds its dependencies in this environment."""
    environment = tmp_path_factory.mktemp("installed") / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    # A .pth file adds a path only; the editable install in that path is not followed.
    (packages / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return environment / "bin"


def run(installed: Path, command: str, *arguments: str, folder: Path) -> str:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    variables["PATH"] = f"{installed}:{variables['PATH']}"
    done = subprocess.run(
        [str(installed / command), *arguments], cwd=folder, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_installed_program_is_the_wheel(installed: Path, wheel: Path, tmp_path: Path) -> None:
    place = run(installed, "python", "-c", "import tui_workbench; print(tui_workbench.__file__)", folder=tmp_path)
    assert place.startswith(str(installed.parent))
    assert run(installed, "workbench-tui", "--version", folder=tmp_path).split()[-1] == wheel.name.split("-")[1]


def test_installed_program_creates_the_sample(installed: Path, tmp_path: Path) -> None:
    listed = json.loads(run(installed, "workbench-tui", "project", "sample", "list", "-o", "json", folder=tmp_path))
    assert {"blank", "digits"} <= {template["name"] for template in listed}
    run(installed, "workbench-tui", "project", "create", "my-digits", "--template", "digits", folder=tmp_path)
    assert (tmp_path / "my-digits" / "data" / "digits.csv.gz").is_file()
    targets = run(
        installed, "workbench-tui", "computetarget", "list", "--project", "my-digits", "-o", "json", folder=tmp_path
    )
    assert "gpu-box" in targets


def test_installed_program_runs_a_script(installed: Path, tmp_path: Path) -> None:
    run(installed, "workbench-tui", "project", "create", "fresh", folder=tmp_path)
    (tmp_path / "fresh" / "where.py").write_text("import sys; print(sys.prefix)\n")
    command = ("experiment", "submit", "--project", "fresh", "-c", "local", "where.py")
    said = run(installed, "workbench-tui", *command, folder=tmp_path)
    assert said.splitlines()[1:] == [str(installed.parent)], "`python` is the one on the caller's PATH"


def test_installed_program_opens_its_sample(installed: Path, tmp_path: Path) -> None:
    (packages,) = installed.parent.glob("lib/python*/site-packages")
    sample = packages / DATA / "sample_project"
    with Terminal([str(installed / "workbench-tui"), str(sample)], directory=str(tmp_path)) as terminal:
        for name in ("train.py", "readme.md", "gpu-box"):
            terminal.until_text(name)


class Bare:
    """A home folder, and a PATH with Python, uv and pipx, but without a compiler."""

    def __init__(self, folder: Path) -> None:
        self.home = folder
        programs = folder / "programs"
        programs.mkdir()
        (programs / "python3").symlink_to(Path(sys.executable).resolve())
        for name in ("uv", "pipx"):
            (programs / name).symlink_to(Path(sys.executable).with_name(name))
        apart = ("PYTHON", "XDG_", "VIRTUAL_ENV")
        self.variables = {name: value for name, value in os.environ.items() if not name.startswith(apart)}
        # Bytecode of all dependencies would take longer than the rest of the test.
        self.variables |= {"HOME": str(folder), "PATH": str(programs), "PIP_NO_COMPILE": "1"}

    def run(self, command: str) -> str:
        """Run a shell command and return its output."""
        done = self.attempt(command)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def attempt(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, shell=True, cwd=self.home, env=self.variables, capture_output=True, text=True, check=False
        )


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Bare:
    return Bare(tmp_path_factory.mktemp("bare"))


INSTALLERS = {
    "pip": ("python3 -m venv environment && environment/bin/python -m pip install {wheel}", "environment"),
    "uv tool": ("uv tool install {wheel}", ".local/share/uv/tools/workbench-tui"),
    "pipx": ("pipx install {wheel}", ".local/share/pipx/venvs/workbench-tui"),
}
"""For each installer, the command that installs the wheel, and the environment in the home folder."""


@pytest.mark.parametrize("installer", INSTALLERS)
def test_installs_without_a_compiler_and_extends_itself(
    bare: Bare, wheel: Path, project_root: Path, installer: str
) -> None:
    command, environment = INSTALLERS[installer]
    bare.run(command.format(wheel=shlex.quote(str(wheel))))
    program = f"{environment}/bin/workbench-tui"
    said = bare.run(f"{program} --version --check")
    assert f"installed by {installer} from the file {wheel}\nno newer version to look for" in said

    def fix(failing: str) -> str:
        """Return the command in the error of a command."""
        complaint = bare.attempt(failing).stderr
        found = re.search(r"[Ii]nstall .*: `(.*)`\.", complaint)
        assert found, complaint
        return found[1]

    bare.run(fix(f"{program} serve {shlex.quote(str(project_root))}"))
    address = shlex.quote("ntfy://127.0.0.1/topic")
    bare.run(fix(f"echo {address} | {program} notify add phone --on end --url-stdin"))
    (packages,) = (bare.home / environment).glob("lib/python*/site-packages")
    if installer != "pip":  # it would download all dependencies again
        shutil.rmtree(packages / DATA / "themes")
        bare.run(fix(f"{program} theme list"))
        assert "name" in bare.run(f"{program} theme list -o json")
    # The later commands have kept the packages of the first.
    bare.run(f"{environment}/bin/python -c 'import aiohttp, textual_serve, apprise'")
