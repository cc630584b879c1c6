"""Time to check all real configuration files, to edit a file with a command or a key, and to refuse harmful files."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable

import yaml

from benchmarks.harness import check, compare, finish, measure, note, percentile, process_time, python
from tui_workbench.config.checks.project_context import ProjectContext
from tui_workbench.config.document import Document
from tui_workbench.core.errors import ConfigurationError

REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CORPUS = os.path.join(os.path.dirname(REPOSITORY), "shared", "corpus")
SAMPLE = os.path.join(REPOSITORY, "sample_project")

LOADER = """
import sys, yaml
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        yaml.load(file, Loader=yaml.CSafeLoader)
"""

KEYSTROKE_LIMIT = 0.016
"""Seconds; half of the 33 ms from key to repaint, the rest is the screen's."""

OPEN_LIMIT = 0.010
"""Seconds; a fifth of the 50 ms from key to form."""

REFUSED_LIMIT = 0.050
"""Seconds to refuse a harmful file."""


def main() -> int:
    """Run the benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        paths = _files(folder)
        _checking(paths)
        _editing(folder)
        _keystroke(folder)
        _refusing(folder)
    return finish()


def _files(folder: str) -> list[str]:
    """Return 120 paths: the real files if present, otherwise repeated files of the sample."""
    if os.path.isdir(CORPUS):
        found = [os.path.join(root, name) for root, _, names in os.walk(CORPUS) for name in names]
        return sorted(path for path in found if not path.endswith(".md"))
    note("the collection of real files is not there: the sample's files, copied to 120")
    source = os.path.join(SAMPLE, "aml_config")
    names = sorted(os.listdir(source))
    paths = []
    for number in range(120):
        path = os.path.join(folder, str(number), names[number % len(names)])
        os.makedirs(os.path.dirname(path))
        paths.append(shutil.copy(os.path.join(source, os.path.basename(path)), path))
    return paths


def _checking(paths: list[str]) -> None:
    def ours() -> None:
        for path in paths:
            Document.open(path).problems()

    def loader() -> None:
        for path in paths:
            with open(path, "rb") as file:
                yaml.load(file, Loader=yaml.CSafeLoader)

    name = f"check of {len(paths)} files"
    compare(name, ours, loader, 5, 30, baseline_name="loading them once with PyYAML's C loader")
    command = [python(), "-m", "tui_workbench", "config", "check", "-o", "json", *paths]
    compare(
        f"{name}, whole process",
        lambda: _process(command, (0, 3)),
        lambda: _process([python(), "-c", LOADER, *paths], (0,)),
        5,
        baseline_name="the same with the C loader",
    )


def _process(command: list[str], codes: tuple[int, ...]) -> None:
    import subprocess

    from benchmarks.harness import environment

    done = subprocess.run(command, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
    if done.returncode not in codes:
        raise subprocess.CalledProcessError(done.returncode, command[:6])


def _editing(folder: str) -> None:
    path = shutil.copy(os.path.join(SAMPLE, "aml_config", "gpu-box.compute"), folder)
    numbers = iter(range(10_000))

    def edit() -> float:
        words = ["config", "set", path, "username", f"user{next(numbers)}"]
        return process_time([python(), "-m", "tui_workbench", *words])

    compare(
        "config set, whole process",
        edit,
        lambda: process_time([python(), "-c", "import yaml"]),
        3,
        baseline_name='python -c "import yaml"',
    )


def _keystroke(folder: str) -> None:
    """Measure in a project, because a check also reads the other files."""
    project = shutil.copytree(SAMPLE, os.path.join(folder, "project"), ignore=shutil.ignore_patterns(".workbench"))
    path = os.path.join(project, "aml_config", "conda_dependencies.yml")
    lines = ["name: big", "dependencies:", "  - python=3.12", "  - pip:"]
    lines += [f"    - package-{number}==1.{number}" for number in range(296)]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    document = Document.open(path, ProjectContext(project))
    times = []
    for _ in range(200):
        # After the last package: the text stays valid YAML, so everything is parsed and checked.
        text = document.text.removesuffix("\n") + "1\n"
        times.append(measure(lambda text=text: _typed(document, text)))  # type: ignore[misc]
    check("a key in a 300-line file to its problems, p95", percentile(times, 95), KEYSTROKE_LIMIT)
    small = os.path.join(project, "aml_config", "gpu-box.compute")
    opened = [measure(lambda: _opened(small, project)) for _ in range(50)]
    check("opening a target to the rows of its form, p95", percentile(opened, 95), OPEN_LIMIT)


def _typed(document: Document, text: str) -> None:
    document.replace_text(text)
    document.problems()


def _opened(path: str, project: str) -> None:
    document = Document.open(path, ProjectContext(project))
    document.fields()


def _refusing(folder: str) -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    )
    for name, text in (
        ("a file of 10 MB", "x" * 10_000_000),
        ("a YAML bomb", bomb),
        ("500,000 levels of brackets", "[" * 500_000),
        ("300,000 levels of dashes", "- " * 300_000),
    ):
        path = os.path.join(folder, "refused.compute")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        check(f"refusing {name}", min(measure(_refuser(path)) for _ in range(3)), REFUSED_LIMIT)


def _refuser(path: str) -> Callable[[], None]:
    def refuse() -> None:
        try:
            document = Document.open(path)
        except ConfigurationError:
            return
        if document.error is None:
            raise AssertionError(f"{path} was not refused")

    return refuse


if __name__ == "__main__":
    sys.exit(main())
