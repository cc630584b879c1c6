"""Real shells complete commands, options and names of the project."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.terminal import Terminal
from tests.cli.support import INSTALLED, Installed, options_of
from tests.conftest import require, write_project
from tests.runs.support import make_run
from tui_workbench.cli import COMMANDS
from tui_workbench.cli.completion import SHELLS, values
from tui_workbench.projects.project import Project

HARNESS = """\
source {script}
complete_line() {{
  eval "COMP_WORDS=($1)"
  COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
  COMPREPLY=()
  _shtab_workbench_tui
  printf '%s\\n' "${{COMPREPLY[@]}}" --
}}
for line in {lines}; do complete_line "$line"; done
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a project and the completion scripts of all shells."""
    folder = tmp_path_factory.mktemp("completion")
    root = write_project(folder / "project")
    (root / "aml_config" / "gpu-box.compute").write_text("type: remotedocker\naddress: gpu\n")
    (root / "aml_config" / "$(touch ran).compute").write_text("type: local\n")
    (root / "aml_config" / "two words.compute").write_text("type: local\n")
    (root / "notes.txt").write_text("")
    (root / "models").mkdir()
    make_run(Project(str(root)), "project_1700000000001", 1, state="completed", exit_code=0)
    for shell in SHELLS:
        name = "_workbench-tui" if shell == "zsh" else f"script.{shell}"
        (folder / name).write_text(Installed(root).run("completion", shell).out)
    return folder


def completed(folder: Path, *lines: str) -> list[set[str]]:
    """Return the completions of bash for the last word of each line."""
    words = shlex.join(f"{INSTALLED} {line}" for line in lines)
    script = HARNESS.format(script=shlex.quote(str(folder / "script.bash")), lines=words)
    done = subprocess.run(
        [require("bash"), "--norc", "-c", script],
        cwd=folder / "project",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return [set(part.split("\n")) - {""} for part in done.stdout.split("--\n")[:-1]]


OFFERED = {
    "exp": {"experiment"},
    "experiment s": {"stacks", "submit", "sweep", "status"},
    "project sample ''": {"list"},
    "history list --o": {"--output"},
    "history list -o ''": {"json", "table", "tsv"},
    "experiment submit -c ''": {"local"},
    "experiment submit -c local -t g": {"gpu-box"},
    "experiment submit -c local h": {"hello.py"},
    "experiment submit -c local m": {"models"},
    "computetarget check ''": {"local", "gpu-box"},
    "history info --run ''": {"1", "project_1700000000001"},
    "history compare 1 p": {"project_1700000000001"},
    "logs p": {"project_1700000000001"},
    "config get local.r": {"local.runconfig"},
    "project create x --template bl": {"blank"},
    "completion ''": set(SHELLS),
    "config get local.compute pyth": {"pythonLocation"},
    "theme check ../script.b": {"../script.bash"},
    "experiment rerun -r 1 --script h": {"hello.py"},
    "computetarget check --project /nowhere ''": set(),
    "project create ''": set(),
}


@pytest.mark.processes
def test_bash_completes(folder: Path) -> None:
    assert dict(zip(OFFERED, completed(folder, *OFFERED), strict=True)) == OFFERED


def test_project_option_selects_the_values(folder: Path, tmp_path: Path) -> None:
    other = write_project(tmp_path / "other")
    (other / "aml_config" / "elsewhere.compute").write_text("type: local\n")
    assert completed(folder, f"computetarget check --project {other} e") == [{"elsewhere"}]


def test_unsafe_names_are_not_offered(folder: Path) -> None:
    root = folder / "project"
    assert {"two words", "$(touch ran)"} <= set(values("targets", str(root)))
    assert Installed(root).run("completion", "--values", "targets").out.split("\n") == ["gpu-box", "local", ""]
    assert not (root / "ran").exists()


def test_tab_does_not_run_a_program_of_the_folder(folder: Path) -> None:
    trap = folder / "project" / "models" / "workbench-tui"
    trap.write_text("#!/bin/sh\ntouch sprung\n")
    trap.chmod(0o755)
    script = HARNESS.format(
        script=shlex.quote(str(folder / "script.bash")),
        lines=shlex.quote("models/workbench-tui experiment submit -c ''"),
    )
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    command = [require("bash"), "--norc", "-c", script]
    done = subprocess.run(
        command, cwd=folder / "project", env={"PATH": path}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["local", "--"]
    assert not (folder / "project" / "sprung").exists()


STARTS = {
    "bash": ("bash --norc --noprofile -i", "bind 'set show-all-if-ambiguous on'; . ../script.bash"),
    "zsh": ("zsh -f -i", "fpath=(.. $fpath); autoload -Uz compinit; compinit -u -D"),
    "fish": ("fish --no-config -i", "source ../script.fish"),
    "tcsh": ("tcsh -f", "set autolist; source ../script.tcsh"),
}


@pytest.mark.system
@pytest.mark.parametrize("shell", SHELLS)
def test_tab_completes_in_a_real_shell(folder: Path, shell: str) -> None:
    start, setup = STARTS[shell]
    program, *options = shlex.split(start)
    bin_folder = Path(sys.executable).parent
    environment = {"PATH": f"{bin_folder}:/usr/local/bin:/usr/bin:/bin", "TERM": "xterm"}
    with Terminal(
        [require(program), *options], directory=str(folder / "project"), changes=environment, columns=160
    ) as terminal:
        terminal.send(f"{setup}; echo re''ady\n")
        terminal.until_text("ready")
        # tcsh confuses commands with the same last word. Only one command ends in `login`.
        terminal.send("workbench-tui compu\tlog\tg\t")
        terminal.until_text("workbench-tui computetarget login gpu-box")
        terminal.send("--pl\t")
        terminal.until_text("gpu-box --plain")


def test_script_knows_every_command_and_option(folder: Path) -> None:
    text = (folder / "script.bash").read_text()
    for command in COMMANDS:
        prefix = "_".join(("_shtab_workbench_tui", *command.words)).replace("-", "_")
        (declared,) = (line for line in text.splitlines() if line.startswith(f"{prefix}_option_strings="))
        known = options_of(command)
        assert set(shlex.split(declared.partition("=(")[2].rstrip(")"))) == known


def test_user_themes_are_offered(folder: Path, home: Path) -> None:
    (home / ".config" / "workbench-tui" / "themes").mkdir(parents=True)
    (home / ".config" / "workbench-tui" / "themes" / "zebra.yaml").write_text("")
    assert completed(folder, "theme use z") == [{"zebra"}]


def test_missing_shell_lists_the_shells(folder: Path) -> None:
    done = Installed(folder).run("completion")
    assert (done.code, done.out) == (2, "")
    assert "bash, zsh, fish, tcsh" in done.err
