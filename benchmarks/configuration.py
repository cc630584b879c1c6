"""Measure configuration files: checks, edits, the refusal of harmful files, and problems and forms on the screen.

    python -m benchmarks.configuration

Checks are compared with PyYAML's C loader, which only parses. On the screen, the time from a key in a long file to the
problem that the key causes is compared with a key in Textual's `TextArea`. The time to open the form of a file is
compared with a form of Textual's `Input` widgets. No terminal is emulated during these measurements.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import yaml

from benchmarks.harness import (
    compare,
    compare_values,
    environment,
    finish,
    measure,
    on_processor,
    percentile,
    processor_time,
    python,
)
from benchmarks.terminal import Seen, Terminal
from tui_workbench.config.document import Document
from tui_workbench.core.errors import ConfigurationError

REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CORPUS = os.path.join(os.path.dirname(REPOSITORY), "shared", "corpus")
SAMPLE = os.path.join(REPOSITORY, "sample_project")

CHECK_LIMIT, PROCESS_LIMIT, EDIT_LIMIT = 7.0, 5.0, 3.0
REFUSAL_LIMIT, FORM_LIMIT, KEY_LIMIT = 0.1, 1.0, 15.0
LETTER_LIMIT = 5.0
ROUNDS, FORM_ROUNDS, KEY_ROUNDS, LETTERS = 5, 3, 6, 20
LINES = 300
LARGE = 500_000
"""Bytes of harmful files that are read."""

F2, F3 = "\x1bOQ", "\x1bOR"

LOADER = """
import sys, yaml
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        yaml.load(file, Loader=yaml.CSafeLoader)
"""

STOCK = """
import sys
from textual.app import App
from textual.containers import VerticalScroll
from textual.widgets import Input, Label, TextArea

class Stock(App):
    CSS = "TextArea {{ height: 12; }} Input {{ height: 1; border: none; }}"
    BINDINGS = [("f2", "open", "Open"), ("f3", "close", "Close")]
    form = None

    def compose(self):
        with open({path!r}) as file:
            yield TextArea(file.read(), show_line_numbers=True)

    async def action_open(self):
        fields = [widget for n in range(20) for widget in (Label(f"field{{n:02}}"), Input(f"value{{n:02}}"))]
        self.form = VerticalScroll(*fields)
        await self.mount(self.form)

    async def action_close(self):
        await self.form.remove()
        self.query_one(TextArea).focus()

Stock().run()
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        paths = _files(folder)
        measure_checks(paths)
        measure_edit(folder)
        measure_refusals(folder)
        measure_screen(folder)
    return finish()


def _files(folder: str) -> list[str]:
    """Return the paths of the real files if present, otherwise of 120 copies of the files of the sample."""
    if os.path.isdir(CORPUS):
        found = [os.path.join(root, name) for root, _, names in os.walk(CORPUS) for name in names]
        return sorted(path for path in found if not path.endswith(".md"))
    source = os.path.join(SAMPLE, "aml_config")
    names = sorted(os.listdir(source))
    paths = []
    for number in range(120):
        path = os.path.join(folder, str(number), names[number % len(names)])
        os.makedirs(os.path.dirname(path))
        paths.append(shutil.copy(os.path.join(source, os.path.basename(path)), path))
    return paths


def load(paths: list[str]) -> None:
    """Parse all files with PyYAML's C loader."""
    for path in paths:
        with open(path, "rb") as file:
            yaml.load(file, Loader=yaml.CSafeLoader)


def measure_checks(paths: list[str]) -> None:
    """Compare a check of all files, in this process and as a command."""

    def ours() -> None:
        for path in paths:
            Document.open(path).problems()

    name = f"check of {len(paths)} files"
    theirs = on_processor(lambda: load(paths))
    compare(name, on_processor(ours), theirs, CHECK_LIMIT, ROUNDS, baseline_name="PyYAML's C loader")
    command = [python(), "-m", "tui_workbench", "config", "check", "-o", "json", *paths]
    compare(
        f"{name}, whole process",
        lambda: _process(command, (0, 3)),
        lambda: _process([python(), "-c", LOADER, *paths], (0,)),
        PROCESS_LIMIT,
        ROUNDS,
        baseline_name="process with the C loader",
    )


def _process(command: list[str], codes: tuple[int, ...]) -> None:
    done = subprocess.run(command, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
    if done.returncode not in codes:
        raise subprocess.CalledProcessError(done.returncode, command[:6])


def measure_edit(folder: str) -> None:
    """Compare the command that changes a value with the import of PyYAML."""
    path = shutil.copy(os.path.join(SAMPLE, "aml_config", "gpu-box.compute"), folder)
    numbers = iter(range(10_000))

    def edit() -> float:
        words = ["config", "set", path, "username", f"user{next(numbers)}"]
        return processor_time([python(), "-m", "tui_workbench", *words])

    bare = [python(), "-c", "import yaml"]
    compare(
        "`config set`, processor time",
        edit,
        lambda: processor_time(bare),
        EDIT_LIMIT,
        ROUNDS,
        baseline_name='`python -c "import yaml"`',
    )


def measure_refusals(folder: str) -> None:
    """Compare the slowest refusal of a harmful file with loading a harmless file of the same size."""
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    )
    path = os.path.join(folder, "harmful.compute")
    taken = []
    for text in ("x" * 10_000_000, bomb, "[" * LARGE, "- " * (LARGE // 2)):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        taken.append(min(measure(_refuser(path)) for _ in range(5)))
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(f"name{number:06}: value {number:06}\n" for number in range(LARGE // 25)))
    harmless = min(measure(lambda: load([path])) for _ in range(3))
    name = "refusal of harmful files, the slowest of four"
    baseline = f"harmless file of {LARGE // 1000} kB in the C loader"
    compare_values(name, max(taken), harmless, REFUSAL_LIMIT, baseline_name=baseline)


def _refuser(path: str) -> Callable[[], None]:
    def refuse() -> None:
        try:
            document = Document.open(path)
        except ConfigurationError:
            return
        if document.error is None:
            raise AssertionError(f"{path} was not refused")

    return refuse


def measure_screen(folder: str) -> None:
    """Compare the screens with Textual's widgets."""
    project = shutil.copytree(
        SAMPLE, os.path.join(folder, "project"), ignore=shutil.ignore_patterns(".workbench", "readme.md")
    )
    path = os.path.join(project, "aml_config", "conda_dependencies.yml")
    with open(path, "w", encoding="utf-8") as file:
        file.write("name: long\ndependencies:\n" + "".join(f"  - package{n}=1.{n}\n" for n in range(LINES - 2)))
    stock = [python(), "-c", STOCK.format(path=path)]
    with seen_program([python(), "-m", "tui_workbench", project], project) as (terminal, ours):
        ours.until(b"No runs yet")
        terminal.settle(1.0)
        with seen_program(stock, folder) as (bare, theirs):
            theirs.until(b"package0")
            _measure_form(ours, bare, theirs)
            _measure_key(terminal, ours, bare, theirs)


@contextmanager
def seen_program(command: list[str], folder: str) -> Iterator[tuple[Terminal, Seen]]:
    """Run a program in a terminal while the context is active."""
    with Terminal(command, emulate=False, changes={"HOME": folder}, directory=folder) as terminal:
        yield terminal, Seen(terminal)


def _measure_form(ours: Seen, bare: Terminal, theirs: Seen) -> None:
    """Compare opening the form of gpu-box.compute with mounting a form of Textual's `Input` widgets."""
    ours.after("/gpu-box.compute\r", b"nativeSharedDirectory")

    def open_form() -> float:
        ours.after("\x17", b"press enter")
        ours.after("1", b"enter Open")
        return ours.after("\r", b"nativeSharedDirectory")

    def open_stock() -> float:
        taken = theirs.after(F2, b"field05")
        bare.send(F3)
        return taken

    compare("key press on a `.compute` file until its form is shown", open_form, open_stock, FORM_LIMIT, FORM_ROUNDS,
            baseline_name="form of 20 `Input` widgets")  # fmt: skip


def _measure_key(terminal: Terminal, ours: Seen, bare: Terminal, theirs: Seen) -> None:
    """Compare a letter, and a key that causes an error, with a key in Textual's editor."""
    ours.after("\x17", b"press enter")
    ours.after("1", b"enter Open")
    ours.after("/conda_dep\r", b"package0=1.0")
    ours.after("\x14", b"YAML")  # switches from the form to the text
    ours.after("\x06:150\r", b"package147=")
    terminal.send("\x1b")
    terminal.settle()
    terminal.send("\x1b[F")

    def typed(seen: Seen, into: Terminal) -> float:
        """Return the time that only 5 % of the keys exceed."""
        times = []
        for _ in range(LETTERS):
            times.append(seen.after("Q", b"Q"))
            into.settle(0.05)
            into.send("\x7f")
            into.settle(0.05)
        return percentile(times, 95)

    name = f"letter typed in a {LINES}-line file until it is shown, 95th percentile"
    compare_values(name, typed(ours, terminal), typed(theirs, bare), LETTER_LIMIT, baseline_name="Textual's `TextArea`")

    def with_problem() -> float:
        taken = ours.after(":", "▲".encode())
        terminal.settle()
        terminal.send("\x7f")
        return taken

    def plain() -> float:
        taken = theirs.after("~", b"~")
        bare.send("\x7f")
        return taken

    name = f"key press that causes an error in a {LINES}-line file, until the error is shown"
    compare(name, with_problem, plain, KEY_LIMIT, KEY_ROUNDS, baseline_name="key press in Textual's `TextArea`")


if __name__ == "__main__":
    sys.exit(main())
