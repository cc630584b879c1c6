"""`theme list|check|use`: list, check and choose themes."""

from __future__ import annotations

import argparse
import os
from typing import Any

from tui_workbench.cli.shared.output import TEXT, emit, output
from tui_workbench.cli.shared.parser import option, options
from tui_workbench.core.errors import WorkbenchError
from tui_workbench.ui.themes import themes
from tui_workbench.ui.themes.themes import theme_warnings

COLUMNS = ("name", "title", "kind", "used", "problem")

configure_list = options(output(default="table", example="[?kind=='light']", has_project=False))
configure_check = options(
    option("theme", metavar="FILE", help="a theme file or the name of a theme"), output(TEXT, has_project=False)
)
configure_use = options(
    option("theme", metavar="NAME", help="a name from `theme list`"), output(TEXT, has_project=False)
)


def run_list(arguments: argparse.Namespace) -> int:
    used = themes.saved_theme()[0].name
    return emit([_record(name, used) for name in themes.theme_names()], arguments, COLUMNS)


def run_check(arguments: argparse.Namespace) -> int:
    """Print warnings about poor contrast. Raises ConfigurationError for an invalid theme."""
    is_file = os.sep in arguments.theme or arguments.theme.endswith(themes.SUFFIX)
    theme = themes.read_theme(arguments.theme) if is_file else themes.load_theme(arguments.theme)
    warnings = list(theme_warnings(theme.palette))
    text = [f"{theme.path}: {warning}" for warning in warnings or ["no problems found"]]
    return emit({"name": theme.name, "file": theme.path, "warnings": warnings}, arguments, text=text)


def run_use(arguments: argparse.Namespace) -> int:
    theme = themes.load_theme(arguments.theme)
    themes.save_theme(theme.name)
    return emit({"name": theme.name, "file": theme.path}, arguments, text=())


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
