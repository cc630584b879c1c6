"""Names and values with unusual characters are passed unchanged and displayed safely."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.conftest import write_project
from tests.faults.support import Workbench, tree

TELL = """\
import json, os, sys
here = os.path.dirname(os.path.abspath(__file__))
names = [name.encode("utf-8", "surrogateescape").hex() for name in (os.path.basename(__file__), *sys.argv[1:])]
print(json.dumps({"names": names, "odd": os.environ.get("ODD VALUE"), "plain": os.environ.get("PLAIN")}))
"""

NAMES = {
    "spaces": "my  script .py",
    "a line end": "two\nlines.py",
    "quotes": 'it\'s "quoted".py',
    "a shell's words": "$(touch owned) `touch owned` ; touch owned & # .py",
    "a backslash": "back\\slash\\n.py",
    "an option": "--help",
    "other scripts": "训练 ü Ж 🧪.py",
    "an escape sequence": "\x1b[2J\x1b]0;title\x07.py",
    "right to left": "\u202eyp.niart.py",
    "a glob": "*?[a-z]{1,2}.py",
    "markup": "[bold red]x[@click=app.quit]y.py",
    "a dollar": "$file",
    "an equals sign": "A=B.py",
    "no UTF-8": os.fsdecode(b"caf\xe9.py"),
}

IN_PLACE = ("spaces", "an option", "no UTF-8")
"""Names that are also tested without a working copy; such a run differs only in its folder."""

TERMINAL = ("a line end", "an escape sequence", "right to left", "no UTF-8")
"""Names that could change the display of a terminal."""


def cases(*names: str) -> list[pytest.ParameterSet]:
    """Return each name with a working copy of the project, and some names in place."""
    copied = [pytest.param(name, True, id=f"{name}-in a copy") for name in names]
    return copied + [pytest.param(name, False, id=f"{name}-in place") for name in names if name in IN_PLACE]


def hexadecimal(name: str) -> str:
    return os.fsencode(name).hex()


@pytest.mark.processes
@pytest.mark.parametrize(("case", "tracked"), cases(*NAMES))
def test_script_and_argument_names_are_passed_unchanged(tmp_path: Path, case: str, tracked: bool) -> None:
    name = NAMES[case]
    root = write_project(tmp_path / "project", tracked=tracked)
    (root / name).write_text(TELL)
    before = tree(root)
    workbench = Workbench(root)
    arguments = [*NAMES.values(), "", "--epochs", "3", "-c", "--detach"]
    script = f"./{name}" if name.startswith("-") else name
    submitted = workbench.submit(script, *arguments)
    assert submitted.code == 0, submitted
    told = json.loads(submitted.out.splitlines()[-1])
    assert told["names"] == [hexadecimal(name), *map(hexadecimal, arguments)]
    assert tree(root) == before

    (run,) = workbench.history()
    assert os.fsencode(run["script_name"]) == os.fsencode(name)
    assert [os.fsencode(argument) for argument in run["arguments"]] == [os.fsencode(word) for word in arguments]
    if case not in TERMINAL or not tracked:
        return
    table = workbench.run("history", "list", "-o", "table")
    assert len(table.out.splitlines()) == 3
    assert "\x1b" not in table.out
    assert "\u202e" not in table.out
    tsv = workbench.run("history", "list", "-o", "tsv")
    assert len(tsv.out.splitlines()) == 1
    plan = workbench.run("experiment", "submit", "-c", "local", "--dry-run", script, *arguments)
    assert plan.code == 0, plan
    assert "\x1b" not in plan.out


@pytest.mark.parametrize(("case", "tracked"), cases(*(name for name in NAMES if name != "an option"), "dots", "long"))
def test_project_can_have_any_name(tmp_path: Path, case: str, tracked: bool) -> None:
    name = {"dots": "...project...", "long": "n" * 200}.get(case) or NAMES[case]
    root = write_project(tmp_path / name, tracked=tracked)
    (root / "tell.py").write_text(TELL)
    (root / ".gitignore").write_text("/data set/\n")
    (root / "data set").mkdir()
    (root / "data set" / "x").write_text("1")
    workbench = Workbench(tmp_path)
    submitted = workbench.run("experiment", "submit", "--project", root, "-c", "local", "tell.py", "x")
    assert submitted.code == 0, submitted
    run_id = submitted.out.splitlines()[0].removeprefix("RunId: ")
    assert json.loads(submitted.out.splitlines()[-1])["names"] == [hexadecimal("tell.py"), hexadecimal("x")]
    # A run ID is a word that can be typed, and the name of a folder.
    assert run_id.isascii()
    assert run_id.replace("_", "").replace("-", "").replace(".", "").isalnum()
    assert (root / ".workbench" / "runs" / run_id / "run.json").is_file()
    # The project is also found from a folder below its root.
    (root / "below").mkdir()
    assert Workbench(root / "below").history()[0]["run_id"] == run_id
    assert [entry.name for entry in tmp_path.iterdir()] == [root.name]


def test_variables_are_passed_unchanged(tmp_path: Path) -> None:
    root = write_project(tmp_path / "project")
    value = "a b\n'c' \"d\" $(touch owned) ü \\n"
    (root / "tell.py").write_text(TELL)
    (root / "aml_config" / "local.runconfig").write_text(
        'Target: "local"\nFramework: "Python"\nTrackedRun: false\nEnvironmentVariables:\n'
        f'  "ODD VALUE": {json.dumps(value)}\n  PLAIN: {json.dumps(value)}\n'
    )
    submitted = Workbench(root).submit("tell.py")
    assert submitted.code == 0, submitted
    told = json.loads(submitted.out.splitlines()[-1])
    assert (told["odd"], told["plain"]) == (value, value)
    assert not (root / "owned").exists()


@pytest.mark.parametrize("case", ["spaces", "quotes", "other scripts", "a shell's words", "an equals sign"])
def test_configuration_can_have_any_name(tmp_path: Path, case: str) -> None:
    name = NAMES[case]
    root = write_project(tmp_path / "project")
    configuration = root / "aml_config"
    (configuration / "local.compute").rename(configuration / f"{name}.compute")
    (configuration / f"{name}.runconfig").write_text(
        f'Target: {json.dumps(name, ensure_ascii=False)}\nFramework: "Python"\nTrackedRun: false\n'
    )
    workbench = Workbench(root)
    submitted = workbench.submit("hello.py", configuration=name)
    assert submitted.code == 0, submitted
    (run,) = workbench.history()
    assert run["target"] == name


@pytest.mark.parametrize("case", NAMES)
def test_error_with_any_name_is_one_safe_line(tmp_path: Path, case: str) -> None:
    root = write_project(tmp_path / "project")
    workbench = Workbench(root)
    name = f"no {NAMES[case]}"
    commands = (
        (("experiment", "submit", "-c", "local", name), 2),
        (("experiment", "submit", "-c", name, "hello.py"), 3),
        (("experiment", "submit", "-c", "local", "-t", name, "hello.py"), 3),
        (("history", "info", "--run", name), 2),
        (("history", "list", "--project", name), 2),
        (("history", "list", "-o", name), 2),
        (("history", "list", "--query", name), 2),
        (("project", "create", name), 2),
    )
    for arguments, code in commands if case in TERMINAL else commands[:2]:
        error = workbench.run(*arguments).error(code)
        assert "\x1b" not in error
        assert "\u202e" not in error


@pytest.mark.processes
def test_output_is_stored_byte_by_byte(tmp_path: Path) -> None:
    root = write_project(tmp_path / "project")
    content = bytes(range(256)) * 64 + b"\r\rprogress\x1b]52;c;aGVsbG8=\x07" + b"x" * 10_000_000 + b"\n\n\xff\xfe"
    (root / "binary").write_bytes(content)
    (root / "binary.py").write_text("import sys\nsys.stdout.buffer.write(open('binary', 'rb').read())\n")
    process = Workbench(root).start("experiment", "submit", "-c", "local", "binary.py")
    out, _ = process.communicate(timeout=120)
    head, _, rest = out.partition(b"\n")
    assert head.startswith(b"RunId: ")
    assert rest == content
    process = Workbench(root).start("logs", head.removeprefix(b"RunId: ").decode())
    assert process.communicate(timeout=120)[0] == content
