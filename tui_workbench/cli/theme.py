"""`theme`: the themes there are, whether a file holds one, and which the screens start with."""

from __future__ import annotations

import argparse
import os
from typing import Any

from tui_workbench.cli.shared.output import emit, output, write_lines
from tui_workbench.cli.shared.parser import option, options
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.ui.themes import themes
from tui_workbench.ui.themes.themes import theme_warnings

COLUMNS = ("name", "title", "kind", "used", "problem")

configure_list = options(output(default="table", example="[?kind=='light']", is_of_project=False))
configure_check = options(option("theme", metavar="FILE", help="a theme file, or the name of a theme"))
configure_use = options(option("theme", metavar="NAME", help="the name of a theme, as `theme list` shows it"))


def run_list(arguments: argparse.Namespace) -> int:
    """List the themes, the broken ones with what is wrong. Returns 0."""
    used = themes.saved_theme()[0].name
    return emit([_record(name, used) for name in themes.theme_names()], arguments, COLUMNS)


def run_check(arguments: argparse.Namespace) -> int:
    """Say what is hard to read in a theme. Returns 0; raises ConfigurationError when it cannot be used at all."""
    is_file = os.sep in arguments.theme or arguments.theme.endswith(themes.SUFFIX)
    theme = themes.read_theme(arguments.theme) if is_file else themes.load_theme(arguments.theme)
    found = list(theme_warnings(theme.palette)) or ["nothing to complain of"]
    write_lines(f"{theme.path}: {doubt}" for doubt in found)
    return 0


def run_use(arguments: argparse.Namespace) -> int:
    """Have the screens start with a theme from now on. Returns 0; raises when there is none of this name."""
    themes.save_theme(themes.load_theme(arguments.theme).name)
    return 0


def _record(name: str, used: str) -> dict[str, Any]:
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
