"""Shell scripts, which are files of the package beside the modules that use them.

Scripts are checked by shellcheck and executed by `sh -c` on this or another machine, with arguments instead of
formatted values. A module reads its scripts when it is imported, so that they always have the version of the module.
"""

from __future__ import annotations

import os
import re

from tui_workbench.core.files import read_file

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_COMMENT = re.compile(r"[ \t]*#( .*)?\n")
_SOURCE = re.compile(r"[ \t]*\. (\.\.?/[\w./-]+)\n")


def shell_script(path: str) -> str:
    """Return the text of a script, such as `targets/hosts/start.sh`.

    A line such as `. ./alive.sh` is replaced by the lines of that file, whose path is relative to the script. Comments
    are removed, because scripts are sent with each request: lines that consist of `#`, or that start with `# `.
    """
    # Not `importlib.resources`, which would import pathlib.
    file = os.path.join(_PACKAGE, path)
    return "".join(_lines(os.path.dirname(file), read_file(file).decode()))


def _lines(folder: str, text: str) -> list[str]:
    lines: list[str] = []
    for line in text.splitlines(keepends=True):
        if sourced := _SOURCE.fullmatch(line):
            lines.append(shell_script(os.path.join(folder, sourced[1])))
        elif not _COMMENT.fullmatch(line):
            lines.append(line)
    return lines
