"""Print the key reference, made from the registry of commands."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tui_workbench.ui.commands.command import Scope, key_label
from tui_workbench.ui.commands.registry import SCOPES

HEAD = """\
# Keys

Made by `make pages`; edit the tables in
`tui_workbench/ui/commands/` instead.

The last line of every screen shows the keys that do something now, `?` explains where one is with all its keys, and
`ctrl+p` finds any command by its name. A key that can do nothing now says why in the last line. `workbench-tui keys`
lists what stands here, with your own keys; `-o json` for programs.

## Other keys

`keys.yaml` in `~/.config/workbench-tui/` gives commands other keys, by their ids:

```yaml
run.start: f5, ctrl+r    # two keys for one command
files.run: [s, "!"]      # the same as a list; signs that YAML knows in quotes
view.zoom: ""            # none: the palette still has it
```

Keys are written as in `f5`, `ctrl+r`, `alt+up`, `space`, `"?"`. A command keeps its own keys until the file gives it
others. What is wrong (a command or key that there is not, a key that another command of the same place has, a letter
where letters are text) is told when the program starts and by `workbench-tui keys`, with its line; the rest counts.
"""


def page() -> str:
    """The whole page, in Markdown."""
    return "\n".join([HEAD, *(part for scope in SCOPES.values() for part in _section(scope))])


def _section(scope: Scope) -> Iterator[str]:
    yield f"## {scope.title}\n"
    if scope.about:
        yield f"{scope.about}\n"
    yield "| Keys | Command | What it does | Id |"
    yield "|---|---|---|---|"
    for command in scope:
        keys = " ".join(_code(key_label(key)) for key in command.default_keys.split(",") if key) or "palette"
        yield f"| {keys} | {_cell(command.name)} | {_cell(command.help)} | `{command.id}` |"
    yield ""


def _code(label: str) -> str:
    # A backtick needs longer fences, and a bar would end the cell.
    return f"`` {label} ``" if "`" in label else f"`{_cell(label)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page())
