"""Shell scripts, which are files of the package beside the modules that use them.

Scripts are checked by shellcheck and executed by `sh -c` on this or another machine, with arguments instead of
formatted values. A module reads its scripts when it is imported, so that they always have the version of the module.
"""

from __future__ import annotations

import os
import re
from functools import cache

from tui_workbench.core.files import read_file

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_COMMENT = re.compile(r"^[ \t]*#(?: .*)?\n", re.MULTILINE)
_SOURCED = re.compile(r"^[ \t]*\. (\.\.?/[\w./-]+)\n", re.MULTILINE)


@cache
def shell_script(path: str) -> str:
    """Return the text of a script, such as `targets/hosts/scripts/start.sh`.

    A line such as `. ./alive.sh` is replaced by the lines of that file, whose path is relative to the script. Comments
    are removed, because scripts are sent with each request: lines that consist of `#`, or that start with `# `.
    """
    # Not `importlib.resources`, which would import pathlib.
    text = _COMMENT.sub("", read_file(os.path.join(_PACKAGE, path)).decode())
    return _SOURCED.sub(lambda line: shell_script(os.path.normpath(os.path.join(path, "..", line[1]))), text)
