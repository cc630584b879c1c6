"""The structure that `docs/architecture.md` promises: no import cycles, imports at the top, and bounded reading."""

from __future__ import annotations

import ast
import graphlib
import re
from pathlib import Path

import grimp
import pytest

import tui_workbench
from tests import bounded_reading, compared_texts, private_names
from tests.conftest import LONGEST_FILES, REPOSITORY

PACKAGE = Path(tui_workbench.__file__).parent

SEAMS = {
    "cli/agent/mcp.py": "its libraries are an extra that may be missing",
    "cli/experiment/submit.py": "plans, records, repetitions, verdicts and stray files are loaded for runs with them",
    "cli/experiment/status.py": "all that acts on runs is loaded when the run may lack a controller",
    "cli/screens.py": "the libraries of `serve` are an extra that may be missing",
    "cli/shared/stream.py": "all that acts on runs is loaded when the followed run lacks a controller",
    "projects/project.py": "most commands that read runs read no configuration file",
    "targets/base/protocol.py": "the checks are loaded when a target is checked, or when a run asks for a GPU",
    "targets/docker/docker_target.py": "the checks are loaded when a target is checked, or when a run asks for a GPU",
    "targets/remote/remote_target.py": "the checks are loaded when a target is checked, or when a run asks for a GPU",
    "targets/slurm/slurm_target.py": "the checks are loaded when a target is checked, or when a run asks for a GPU",
    "targets/registry.py": "a target type is loaded when a target of that type is used",
    "targets/docker/engine.py": "the docker package is loaded when an engine is used",
    "targets/ssh/host_for.py": "SSH is loaded when a machine elsewhere is used",
    "targets/ssh/workbench_key.py": "SSH is loaded when a key is to be made",
    "runs/gpu/run_verdict.py": "samples are judged for a run that has some and no stored verdict",
    "runs/lifecycle/deferred_copy.py": "snapshots are loaded when a working copy is to be made",
    "runs/lifecycle/controller.py": "failures, verdicts, the queue, provenance and outputs are loaded when needed",
    "runs/lifecycle/helpers.py": "the recording of GPUs is loaded when there may be GPUs, or a policy",
    "runs/lifecycle/target_lifecycle.py": "the files of a run are listed when its target is another machine",
    "runs/notify/sender.py": "what sends notifications is loaded unless another process is sending",
    "runs/submission/launch.py": "snapshots and the queue are loaded when needed, the controller while the script runs",
    "runs/submission/planning.py": "snapshots are loaded when the run is tracked, options of Slurm when some are given",
    "ui/start.py": "the terminal is examined before Textual is imported; the keymap is loaded when there is one",
    "ui/main/main.py": "the first frame is drawn before the panes are imported",
    "ui/editor/editor.py": "the text area and the schema are loaded with the first open file",
    "ui/screens.py": "a full screen is loaded when it is opened",
}
"""The modules that may import own modules inside functions, and why."""


def test_modules_have_at_most_500_lines() -> None:
    lengths = {str(path.relative_to(PACKAGE)): path.read_bytes().count(b"\n") for path in PACKAGE.rglob("*.py")}
    assert {name: length for name, length in lengths.items() if length > 500} == {}


def test_files_that_the_order_and_the_makefile_name_exist() -> None:
    named = {*LONGEST_FILES, *re.findall(r"(?<= )tests/[\w/.]+", (REPOSITORY / "Makefile").read_text("utf-8"))}
    assert {name for name in named if not (REPOSITORY / name).exists()} == set()


def test_modules_import_each_other_without_cycles() -> None:
    graph = grimp.build_graph("tui_workbench", exclude_type_checking_imports=True)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    graphlib.TopologicalSorter(imports).prepare()  # raises CycleError, which names the modules


@pytest.mark.slow
def test_own_modules_are_imported_at_the_top() -> None:
    found = {path for path in PACKAGE.rglob("*.py") if "templates_data" not in path.parts and _imports_late(path)}
    assert sorted(str(path.relative_to(PACKAGE)) for path in found) == sorted(SEAMS)


@pytest.mark.parametrize(
    "source",
    [
        "from textual._compositor import Compositor",
        "from tests.waiting import _pause",
        "import _socket",
        "log_file._READ",
        "pool()._attempt.cancel()",
        "class Stream(OutputStream):\n    def read(self): return self._path",
        "monkeypatch.setattr(log_file, '_READ', 4)",
        "mock.patch.object(log_file, '_READ', 4)",
        "run(python, '-c', 'from tui_workbench.core.files import _open')",
        "monkeypatch.setattr('tui_workbench.runs.logs.log_file._READ', 4)",
    ],
)
def test_a_private_name_of_something_else_is_refused(source: str) -> None:
    assert private_names.uses_in(source) != []


@pytest.mark.parametrize(
    "source",
    [
        "from __future__ import annotations",
        "run._replace(number=2)._asdict()",
        "class Shop:\n    def __init__(self): self._runs = []\n    def runs(self): return self._runs",
        "for _ in range(3): pass",
        "monkeypatch.setenv('_PLACE', 'here')",
    ],
)
def test_an_own_or_documented_name_is_accepted(source: str) -> None:
    assert private_names.uses_in(source) == []


@pytest.mark.parametrize(
    "source",
    [
        "with open(path) as file: pass",
        "from io import open as o\no(path)",
        "import os as system\nsystem.open(path, system.O_RDONLY)",
        "functools.partial(open, path)",
        "import pathlib",
        "path.read_text()",
        "import subprocess\nsubprocess.run(words)",
        "from subprocess import check_output\ncheck_output(words)",
        "import asyncio\nasyncio.create_subprocess_exec(*words)",
        "import json\nwith open_file(path) as file: json.load(file)",
        "import json\njson.loads(text)",
        "from json import JSONDecoder\nJSONDecoder().decode(text)",
        "with open_regular(path) as file: file.read()",
        "with open_regular(path) as file: lines = [line for line in file]",
        "file = stack.enter_context(open_file(path))\nfile.readlines()",
        "import tarfile\ntarfile.open(path)",
        "import shutil\nshutil.copyfile(path, copy)",
    ],
)
def test_a_use_of_other_functions_is_refused(source: str) -> None:
    assert bounded_reading.uses_in(source) != []


@pytest.mark.parametrize(
    "source",
    [
        "with open_file(path) as file: file.read(4096)",
        "data = read_regular(path)",
        "with open(open_below(top, name), 'rb') as file: file.readline(4096)",
        "import os\nos.open(os.devnull, os.O_RDWR)",
        "import os\nos.open(path, os.O_RDONLY | os.O_DIRECTORY)",
        "import subprocess\nsubprocess.TimeoutExpired",
        "fleet.read()",
    ],
)
def test_a_use_with_a_limit_is_accepted(source: str) -> None:
    assert bounded_reading.uses_in(source) == []


@pytest.mark.slow
def test_no_code_compares_or_searches_texts() -> None:
    assert compared_texts.problems() == []


@pytest.mark.parametrize(
    "source",
    [
        'if run.reason == "canceled": pass',
        'is_full = "disk is full" in error.message',
        'ending.reason.startswith("exit code")',
        'if "passphrase" in str(error): pass',
        "found = PATTERN.search(error.message)",
        'import re\nre.match("a", reason.lower())',
        'is_same = title in ("a", "b")',
    ],
)
def test_comparison_and_search_of_a_text_are_refused(source: str) -> None:
    assert compared_texts.uses_in(source) != []


@pytest.mark.parametrize(
    "source",
    [
        'if run.reason != "": pass',
        "if CANCELED in run.kinds: pass",
        'text = f"{run.reason}."',
        "shown = error.message.removeprefix(label)",
        'if name == "reason": pass',
    ],
)
def test_other_uses_of_a_text_are_accepted(source: str) -> None:
    assert compared_texts.uses_in(source) == []


def _imports_late(path: Path) -> bool:
    functions = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return any(
        isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tui_workbench")
        for function in functions
        for node in ast.walk(function)
    )
