"""Generated pages match the code, and links, commands and messages on other pages exist."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from docs.make_pages import PAGES
from docs.make_pictures import SCREENS
from tests import rings
from tests.cli.support import Installed, options_of
from tests.conftest import REPOSITORY, require
from tests.runs.support import make_run
from tui_workbench.cli import COMMANDS, build_parser, find_command
from tui_workbench.cli.agent.agent_guide import guide
from tui_workbench.projects.project import Project

DOCS = REPOSITORY / "docs"
CONTRIBUTING = REPOSITORY / "CONTRIBUTING.md"
WRITTEN = [REPOSITORY / "README.md", REPOSITORY / "CHANGELOG.md", CONTRIBUTING, *sorted(DOCS.rglob("*.md"))]
BY_NAME = pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)

LARGEST_PICTURE = 40_000
"""Bytes of a picture; every clone downloads them."""

BOXES = re.compile("[\u2500-\u259f\u2800-\u28ff\x1b\t]")


def text_of(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def cells(text: str) -> list[list[str]]:
    """Return the rows of all tables of a page without their header."""
    rows = [re.split(r"(?<!\\) ?\| ?", line.strip("| ")) for line in text.splitlines() if line.startswith("| ")]
    return [row for row in rows if not row[0].startswith(("It says", "Message", "Screen"))]


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_generated_page_is_current(name: str) -> None:
    assert text_of(f"reference/{name}") == PAGES[name](), "run python -m docs.make_pages"


@pytest.mark.system
def test_man_page_is_valid_roff() -> None:
    words = [require("groff"), "-man", "-Tutf8", "-ww", str(DOCS / "reference" / "workbench-tui.1")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert not done.stderr
    shown = re.sub("\x1b\\[[0-9;]*m|.\b", "", done.stdout)
    assert all(f"   {command.name}\n" in shown for command in COMMANDS)
    assert "workbench-tui experiment submit -c local train.py --epochs 3\n" in shown


@BY_NAME
def test_links_exist(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    assert not [link for link in links if "://" not in link and not (page.parent / link).is_file()]


@BY_NAME
def test_named_commands_exist(page: Path) -> None:
    verbs = {command.words for command in COMMANDS}
    nouns = {words[0] for words in verbs}
    named = re.findall(r"workbench-tui ((?:[a-z][a-z-]+ ?){1,3})", page.read_text(encoding="utf-8"))
    for words in (tuple(each.split()) for each in named):
        if words[0] in nouns:
            assert any(words[: len(known)] == known for known in verbs) or (words[0],) == words, words


class TestContributing:
    TEXT = CONTRIBUTING.read_text(encoding="utf-8")

    def test_named_files_exist(self) -> None:
        named = re.findall(r"`((?:tui_workbench|tests|docs|\.ci)/[\w./-]+)`", self.TEXT)
        assert len(named) > 20
        assert not [path for path in named if "NAME" not in path and not (REPOSITORY / path).exists()]

    def test_named_make_targets_exist(self) -> None:
        targets = re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text("utf-8"), re.MULTILINE)
        named = re.findall(r"(?:`| {4})make ([a-z-]+)", self.TEXT)
        assert set(named) <= {*targets, *(f"test-{mark}" for mark in rings.MARKS)}

    @pytest.mark.parametrize(
        ("name", "path"),
        [
            ("COLUMNS", "ui/dashboard/dashboard_columns.py"),
            ("SHARED", "ui/dashboard/dashboard_columns.py"),
            ("NUMBER_COLUMNS", "runs/index/table.py"),
            ("FORM", "runs/index/index_file.py"),
            ("CODES", "config/checks/findings.py"),
            ("COMMANDS", "cli/__init__.py"),
            ("BUILT_IN", "core/target_types.py"),
        ],
    )
    def test_named_tables_exist(self, name: str, path: str) -> None:
        assert f"`{name}`" in self.TEXT
        assert path in self.TEXT
        assert re.search(rf"^{name}\b.* = ", (REPOSITORY / "tui_workbench" / path).read_text("utf-8"), re.MULTILINE)


DECISIONS = sorted((DOCS / "decisions").glob("[0-9]*.md"))


class TestDecisions:
    def test_numbers_have_no_gap(self) -> None:
        assert [path.name[:5] for path in DECISIONS] == [f"{number:04}-" for number in range(1, len(DECISIONS) + 1)]

    @pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
    def test_record_has_its_parts_and_is_listed_with_its_title(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        number, title = re.findall(r"\A# (\d{4}): (.+)\n", text)[0]
        assert f"| [{number}]({path.name}) | {title} |" in text_of("decisions/README.md")
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]


def lines_of_commands(text: str) -> list[list[str]]:
    """Return the arguments of every `workbench-tui` command on a page, up to the name of a script."""
    shown = re.findall(r"^(?: {4}|[$#] )?workbench-tui (.+)$|`workbench-tui ([^`\n]+)`", text, re.MULTILINE)
    lines = []
    for line, inline in shown:
        words = re.split(r"\s*(?:[|;#]|&&) ", line or inline)[0].split()
        ends = [
            number for number, word in enumerate(words) if word.endswith((".py", ".ipynb", "SCRIPT")) or word == "--"
        ]
        lines.append(words[: ends[0]] if ends else words)
    return lines


@BY_NAME
def test_shown_options_exist(page: Path) -> None:
    wrong = []
    for words in lines_of_commands(page.read_text(encoding="utf-8")):
        command, rest = find_command(words)
        if command is not None:
            known = options_of(command)
            options = {re.split(r"[=\]]", word.lstrip("["))[0] for word in rest if re.match(r"\[?--?[a-z]", word)}
            wrong += [(*command.words, option) for option in options if option not in known]
    assert not wrong


class TestAgentGuide:
    def test_shown_commands_can_be_parsed(self) -> None:
        shown = re.findall(r"^ {4}workbench-tui (.+)$", guide(), re.MULTILINE)
        assert len(shown) >= 8
        for line in shown:
            command, rest = find_command(shlex.split(line))
            assert command is not None, line
            build_parser(command).parse(rest)

    def test_named_commands_and_options_exist(self) -> None:
        for text in re.findall(r"`(?:workbench-tui )?([^`]+)`", guide()):
            command, rest = find_command(text.split())
            if command is not None:
                assert {word for word in rest if word.startswith("-")} <= options_of(command), text

    def test_guide_is_short_and_fits_a_terminal(self) -> None:
        lines = guide().splitlines()
        assert len(lines) <= 120
        assert max(map(len, lines)) <= 82


@BY_NAME
def test_pages_hold_no_absolute_paths(page: Path) -> None:
    assert not re.search(r"/(work|tmp|root|home)/", page.read_text(encoding="utf-8"))


def test_index_names_every_page() -> None:
    assert {path.name for path in DOCS.glob("*.md")} - {"index.md"} <= set(
        re.findall(r"\((\S+\.md)\)", text_of("index.md"))
    )


def texts_in_the_code() -> list[str]:
    """Return every string in the package; formatted values are `…`."""
    found = []
    for path in (REPOSITORY / "tui_workbench").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
            elif isinstance(node, ast.JoinedStr):
                parts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
                found.append("".join(map(str, parts)))
    return found


@pytest.mark.slow
def test_troubleshooting_quotes_current_messages() -> None:
    quoted = [row[0].strip("`") for row in cells(text_of("troubleshooting.md"))]
    said = "\n".join(texts_in_the_code())
    assert len(quoted) > 40
    assert not [text for text in quoted if text not in said]


class TestPictures:
    def test_each_screen_has_one_picture(self) -> None:
        assert {path.name for path in (DOCS / "pictures").iterdir()} == {f"{name}.svg" for name in SCREENS}
        shown = {name for page in WRITTEN for name in re.findall(r"pictures/([\w-]+)\.svg", page.read_text("utf-8"))}
        assert shown == set(SCREENS)

    @pytest.mark.parametrize("name", SCREENS)
    def test_picture_is_small_and_self_contained(self, name: str) -> None:
        text = (DOCS / "pictures" / f"{name}.svg").read_text(encoding="utf-8")
        assert len(text) < LARGEST_PICTURE
        assert ET.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
        assert text.count("://") == 1
        assert not re.search("/(work|tmp|root|home)/|Traceback", text)


COMMANDS_OF_SCREENS = sorted(
    {tuple(words.split()) for row in cells(text_of("accessibility.md")) for words in re.findall("`([a-z -]+)`", row[1])}
)

ARGUMENTS = {
    ("completion", "--values", "files"): (),
    ("config", "check"): (),
    ("config", "get"): ("local.runconfig", "Target"),
    ("computetarget", "check"): ("local",),
    ("computetarget", "list"): (),
    ("asset", "list"): (),
    ("experiment", "status"): ("-r", "1"),
    ("experiment", "submit"): ("-c", "local", "hello.py"),
    ("experiment", "submit", "--dry-run"): ("-c", "local", "hello.py"),
    ("history", "compare"): ("1", "2"),
    ("history", "info"): ("-r", "1"),
    ("history", "list"): (),
    ("keys",): (),
    ("logs",): ("1",),
    ("runconfiguration", "list"): (),
    ("status",): (),
    ("theme", "list"): (),
    ("trace",): (),
}
"""The commands that are run here; others need a machine, change something, or ask."""


class TestAccessibility:
    @pytest.mark.parametrize("words", COMMANDS_OF_SCREENS, ids=" ".join)
    def test_commands_of_screens_have_plain_output(self, words: tuple[str, ...]) -> None:
        (command,) = (each for each in COMMANDS if words[: len(each.words)] == each.words)
        options = options_of(command)
        assert set(words[len(command.words) :]) - {"files"} <= options
        if "--output" in options:
            assert "--plain" in options

    @pytest.mark.parametrize("words", ARGUMENTS, ids=" ".join)
    def test_plain_output_has_no_boxes_colors_and_columns(self, words: tuple[str, ...], project: Project) -> None:
        make_run(project, "project_1700000000001", 1, state="completed", exit_code=0)
        make_run(project, "project_1700000000002", 2, state="failed", exit_code=3, reason="exit code 3")
        assert words in COMMANDS_OF_SCREENS
        (command,) = (each for each in COMMANDS if words[: len(each.words)] == each.words)
        plain = ("--plain",) if "--plain" in build_parser(command).format_help() else ()
        size = len(command.words)
        done = Installed(Path(project.root)).run(*words[:size], *plain, *words[size:], *ARGUMENTS[words])
        assert done.code == 0, done.err
        assert not BOXES.search(done.out + done.err), done.out
        assert not re.search(r"\S   +\S", done.out), done.out
