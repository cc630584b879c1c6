"""`theme`: the themes there are, whether a file holds one, and which the screens start with."""

from __future__ import annotations

import os
import sys

from tui_workbench.cli.output import FORMATS, add_plain_option, emit
from tui_workbench.errors import WorkbenchError
from tui_workbench.plaintext import visible
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from typing import Any

COLUMNS = ("name", "title", "kind", "used", "problem")


def configure_list(parser: argparse.ArgumentParser) -> None:
    """Options of `theme list`."""
    parser.add_argument("-o", "--output", choices=FORMATS, default="table", help="default: %(default)s")
    add_plain_option(parser)
    parser.add_argument("--query", metavar="JMESPATH", help="pick from the result, as in \"[?kind=='light']\"")


def run_list(arguments: argparse.Namespace) -> int:
    """List the themes, the broken ones with what is wrong. Returns 0."""
    from tui_workbench.ui import themes

    used = themes.remembered_theme()[0].name
    emit([_record(name, used) for name in themes.theme_names()], arguments, COLUMNS)
    return 0


def configure_check(parser: argparse.ArgumentParser) -> None:
    """Options of `theme check`."""
    parser.add_argument("theme", metavar="FILE", help="a theme file, or the name of a theme")


def run_check(arguments: argparse.Namespace) -> int:
    """Say what is hard to read in a theme. Returns 0; raises ConfigurationError when it cannot be used at all."""
    from tui_workbench.ui import themes
    from tui_workbench.ui.theme_check import doubts

    is_file = os.sep in arguments.theme or arguments.theme.endswith(themes.SUFFIX)
    theme = themes.read_theme(arguments.theme) if is_file else themes.load_theme(arguments.theme)
    found = list(doubts(theme.palette))
    for doubt in found:
        sys.stdout.write(f"{visible(theme.path)}: {doubt}\n")
    if not found:
        sys.stdout.write(f"{visible(theme.path)}: nothing to complain of\n")
    return 0


def configure_use(parser: argparse.ArgumentParser) -> None:
    """Options of `theme use`."""
    parser.add_argument("theme", metavar="NAME", help="the name of a theme, as `theme list` shows it")


def run_use(arguments: argparse.Namespace) -> int:
    """Have the screens start with a theme from now on. Returns 0; raises when there is none of this name."""
    from tui_workbench.ui import themes

    themes.remember_theme(themes.load_theme(arguments.theme).name)
    return 0


def _record(name: str, used: str) -> dict[str, Any]:
    from tui_workbench.ui import themes

    try:
        theme = themes.load_theme(name)
    except WorkbenchError as error:
        return {"name": name, "title": "", "kind": "", "used": False, "problem": str(error), "file": error.file}
    return {
        "name": name,
        "title": theme.title,
        "kind": "dark" if theme.dark else "light",
        "used": name == used,
        "problem": "",
        "file": theme.path,
    }
