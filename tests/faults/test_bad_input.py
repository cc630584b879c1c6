"""Wrong commands and files: a one-line error with a remedy, the right exit code, and no changes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.support import Workbench, controller_of, is_running, open_gate, tree, until
from tests.waiting import PATIENCE


@pytest.fixture
def workbench(project_root: Path) -> Workbench:
    return Workbench(project_root)


def configure(root: Path, name: str, text: str | bytes) -> None:
    (root / "aml_config" / name).write_bytes(text.encode() if isinstance(text, str) else text)


SUBMIT = ("experiment", "submit", "-c", "local", "hello.py")

USAGE = {
    "a command that does not exist": (("experiment", "sbmit"), "submit"),
    "a noun without a verb that exists": (("history", "show"), "list"),
    "an option that does not exist": (("history", "list", "--frobnicate"), "--frobnicate"),
    "an option without its value": (("experiment", "submit", "hello.py", "-c"), "-c"),
    "no run configuration": (("experiment", "submit", "hello.py"), "-c"),
    "an output format that does not exist": (("history", "list", "-o", "xml"), "xml"),
    "a query that is no JMESPath": (("history", "list", "--query", "[?"), "--query"),
    "a number that is none": (("logs", "--tail", "many", "1"), "many"),
    "a negative number of lines": (("logs", "--tail", "-3", "1"), "-3"),
    "two things at once": ((*SUBMIT[:-1], "--wait", "--detach", "hello.py"), "--detach"),
    "a script that does not exist": ((*SUBMIT[:-1], "missing.py"), "missing.py"),
    "a script that is a folder": ((*SUBMIT[:-1], "aml_config"), "aml_config"),
    "a script outside of the project": ((*SUBMIT[:-1], "/etc/hostname"), "/etc/hostname"),
    "no script anywhere": (SUBMIT[:-1], "local.runconfig"),
    "a run that does not exist": (("history", "info", "--run", "project_1"), "project_1"),
    "a run number that does not exist": (("experiment", "status", "--run", "7"), "7"),
    "a path for a run": (("logs", "../../etc"), "../../etc"),
    "no run at all": (("history", "last"), "no runs yet"),
    "to cancel what does not exist": (("experiment", "cancel", "--run", "project_1"), "project_1"),
    "two projects": ((".", ".."), "one project"),
    "a project that does not exist": (("history", "list", "--project", "nowhere"), "nowhere"),
    "the screens without a terminal": ((".",), "terminal"),
    "a name that is no folder and no command": (("hstory",), "hstory"),
}


@pytest.mark.parametrize("case", USAGE)
def test_usage_error_exits_with_2(workbench: Workbench, case: str) -> None:
    arguments, named = USAGE[case]
    before = tree(workbench.folder)
    workbench.run(*arguments).error(2, named)
    assert tree(workbench.folder) == before
    assert workbench.history() == []


def test_folder_without_project_names_the_create_command(tmp_path: Path) -> None:
    said = Workbench(tmp_path).run("history", "list").error(2, str(tmp_path), "aml_config/", "project create")
    assert "no project" in said
    assert not list(tmp_path.iterdir())


def test_file_in_place_of_a_project_is_named(project_root: Path) -> None:
    Workbench(project_root).run("history", "list", "--project", "hello.py").error(2, "hello.py", "not a folder")


def break_target(root: Path) -> None:
    configure(root, "local.runconfig", 'Framework: "Python"\nTarget: "gpu-box"\n')


def no_target(root: Path) -> None:
    configure(root, "local.runconfig", 'Framework: "Python"\n')


def pyspark(root: Path) -> None:
    configure(root, "local.runconfig", 'Target: "local"\nFramework: "PySpark"\n')


def no_framework(root: Path) -> None:
    configure(root, "local.runconfig", 'Target: "local"\n')


def missing_interpreter(root: Path) -> None:
    configure(root, "local.compute", 'type: "local"\npythonLocation: "/nowhere/python"\n')


def interpreter_not_on_the_path(root: Path) -> None:
    configure(root, "local.compute", 'type: "local"\npythonLocation: "python-of-nobody"\n')


def interpreter_that_is_a_folder(root: Path) -> None:
    configure(root, "local.compute", 'type: "local"\npythonLocation: "/usr"\n')


def unknown_type(root: Path) -> None:
    configure(root, "local.compute", 'type: "quantum"\n')


def no_type(root: Path) -> None:
    configure(root, "local.compute", 'pythonLocation: "python"\n')


def broken_yaml(root: Path) -> None:
    configure(root, "local.runconfig", 'Target: "local"\nFramework: "Python\nTrackedRun: false\n')


def tab_in_yaml(root: Path) -> None:
    configure(root, "local.runconfig", 'Target: "local"\nEnvironmentVariables:\n\tA: "1"\n')


def no_space_after_the_colon(root: Path) -> None:
    configure(root, "local.runconfig", 'Target: "local"\nFramework:Python\n')


def vector_that_is_a_map(root: Path) -> None:
    configure(root, "local.runconfig", 'Target: "local"\nFramework: "Python"\nArgumentVector:\n  a: 1\n')


def variables_that_are_a_list(root: Path) -> None:
    configure(root, "local.runconfig", 'Target: "local"\nFramework: "Python"\nEnvironmentVariables: [A]\n')


def tracked_that_is_no_boolean(root: Path) -> None:
    configure(root, "local.runconfig", 'Target: "local"\nFramework: "Python"\nTrackedRun: perhaps\n')


def list_on_top(root: Path) -> None:
    configure(root, "local.runconfig", "- Target: local\n")


def empty(root: Path) -> None:
    configure(root, "local.runconfig", "")


def binary(root: Path) -> None:
    configure(root, "local.runconfig", bytes(range(256)) * 8)


def latin_1(root: Path) -> None:
    configure(root, "local.runconfig", b'Target: "local"\nFramework: "Python"\nDescription: "caf\xe9"\n')


def bomb(root: Path) -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    configure(root, "local.runconfig", "\n".join(levels))


def deep(root: Path) -> None:
    configure(root, "local.runconfig", "Target: " + "[" * 50_000)


def huge(root: Path) -> None:
    configure(root, "local.runconfig", 'Target: "local"\n' + "# padding\n" * 1_000_000)


def folder(root: Path) -> None:
    (root / "aml_config" / "local.runconfig").unlink()
    (root / "aml_config" / "local.runconfig").mkdir()


def dangling_link(root: Path) -> None:
    (root / "aml_config" / "local.runconfig").unlink()
    (root / "aml_config" / "local.runconfig").symlink_to("nowhere")


@pytest.mark.parametrize(
    ("spoil", "parts"),
    [
        (break_target, ("aml_config/local.runconfig:2", "'gpu-box'", "local")),
        (no_target, ("aml_config/local.runconfig", "Target")),
        (pyspark, ("aml_config/local.runconfig", "Framework: Python")),
        (no_framework, ("aml_config/local.runconfig", "Framework", "PySpark")),
        (missing_interpreter, ("aml_config/local.compute:2", "/nowhere/python", "pythonLocation")),
        (interpreter_not_on_the_path, ("aml_config/local.compute:2", "python-of-nobody", "PATH")),
        (interpreter_that_is_a_folder, ("aml_config/local.compute:2", "/usr")),
        (unknown_type, ("aml_config/local.compute:1", "quantum", "local")),
        (no_type, ("aml_config/local.compute", "type")),
        (broken_yaml, ("aml_config/local.runconfig:",)),
        (tab_in_yaml, ("aml_config/local.runconfig:3:1", "tab")),
        (no_space_after_the_colon, ("aml_config/local.runconfig:2", "space")),
        (vector_that_is_a_map, ("aml_config/local.runconfig:", "ArgumentVector")),
        (variables_that_are_a_list, ("aml_config/local.runconfig:3", "EnvironmentVariables")),
        (tracked_that_is_no_boolean, ("aml_config/local.runconfig:3", "TrackedRun", "true")),
        (list_on_top, ("aml_config/local.runconfig:1",)),
        (empty, ("aml_config/local.runconfig",)),
        (binary, ("aml_config/local.runconfig",)),
        (latin_1, ("aml_config/local.runconfig", "UTF-8")),
        (bomb, ("aml_config/local.runconfig",)),
        (deep, ("aml_config/local.runconfig",)),
        (huge, ("aml_config/local.runconfig",)),
        (folder, ("aml_config/local.runconfig",)),
        (dangling_link, ("local",)),
    ],
)
def test_invalid_configuration_exits_with_3_and_names_the_line(
    workbench: Workbench, spoil: Callable[[Path], None], parts: tuple[str, ...]
) -> None:
    spoil(workbench.folder)
    before = tree(workbench.folder)
    workbench.run(*SUBMIT).error(3, *parts)
    assert tree(workbench.folder) == before
    assert workbench.history() == []


def test_unknown_run_configuration_lists_existing_ones(workbench: Workbench) -> None:
    workbench.run("experiment", "submit", "-c", "lokal", "hello.py").error(3, "'lokal'", "local")


def test_unknown_target_lists_existing_ones(workbench: Workbench) -> None:
    workbench.run("experiment", "submit", "-c", "local", "-t", "lokal", "hello.py").error(3, "'lokal'", "local")


def test_dry_run_reports_the_same_errors(workbench: Workbench) -> None:
    missing_interpreter(workbench.folder)
    workbench.run("experiment", "submit", "--dry-run", *SUBMIT[2:]).error(3, "local.compute", "/nowhere/python")


@pytest.mark.parametrize("noun", ["computetarget", "runconfiguration"])
def test_broken_file_does_not_hide_others_in_a_list(workbench: Workbench, noun: str) -> None:
    suffix = {"computetarget": "compute", "runconfiguration": "runconfig"}[noun]
    configure(workbench.folder, f"broken.{suffix}", "type: [\n")
    result = workbench.run(noun, "list", "-o", "table")
    assert result.code == 0, result
    assert "local" in result.out
    assert "broken" in result.out


def test_project_modules_do_not_replace_library_modules(workbench: Workbench) -> None:
    for name in ("json", "signal", "contextlib", "subprocess", "copy", "types", "tui_workbench", "yaml"):
        (workbench.folder / f"{name}.py").write_text("open('hijacked', 'w').close()\nraise SystemExit(99)\n")
    (workbench.folder / "wait.sh").write_text("read line < gate\n")
    gate = workbench.folder / "gate"
    os.mkfifo(gate)
    configure(workbench.folder, "shell.compute", 'type: "local"\npythonLocation: "/bin/sh"\n')
    configure(workbench.folder, "shell.runconfig", 'Target: "shell"\nFramework: "Python"\nTrackedRun: false\n')
    run_id = workbench.detach("wait.sh", configuration="shell")
    directory = workbench.folder / ".workbench" / "runs" / run_id
    controller = controller_of(directory)
    os.kill(controller, signal.SIGKILL)
    until(lambda: not is_running(controller))
    # The next controller is a fresh interpreter.
    follower = workbench.start("logs", "-f", run_id)
    controller_of(directory, other_than=controller)
    open_gate(gate)
    follower.communicate(timeout=PATIENCE)
    assert workbench.info(run_id)["status"] == "Completed"
    assert not (workbench.folder / "hijacked").exists()
