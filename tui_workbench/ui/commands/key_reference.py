"""Print the key reference, generated from the registry of commands."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tui_workbench.ui.commands.command import Scope, key_label
from tui_workbench.ui.commands.registry import SCOPES

HEAD = """\
# Keys

`make pages` generates this page from the tables in `tui_workbench/ui/commands/`.

The last line of a screen shows the main keys that work now. `?` explains the focused pane and all
its keys, and `ctrl+p` finds any command by its name. If a command is unavailable, its key shows the
reason in the last line. `workbench-tui keys` prints this list with your own keys; `-o json` prints
the list as JSON.

## Your own keys

`keys.yaml` in `~/.config/workbench-tui/` sets the keys of commands, by their IDs:

```yaml
run.start: f5, ctrl+r    # two keys for one command
files.run: [s, "!"]      # the same as a list; quote characters with a special meaning in YAML
view.zoom: ""            # no key; the command is still in the palette
```

Write keys as `f5`, `ctrl+r`, `alt+up`, `space` or `"?"`. Commands that the file does not name keep
their default keys. The screens and `workbench-tui keys` report errors with their lines, such as:

- an unknown command or key,
- a key that two commands have in the same pane or dialog,
- a letter, digit or sign for a command that works while you type text.

The other lines of the file still apply, unless the file is not valid YAML.
"""


def page() -> str:
    """Return the key reference in Markdown."""
    return "\n".join([HEAD, *(part for scope in SCOPES.values() for part in _section(scope))])


def _section(scope: Scope) -> Iterator[str]:
    yield f"## {scope.title}\n"
    if scope.about:
        yield f"{scope.about}\n"
    yield "| Keys | Command | Description | ID |"
    yield "|---|---|---|---|"
    for command in scope:
        keys = " ".join(_code(key_label(key)) for key in command.default_keys.split(",") if key) or "palette"
        yield f"| {keys} | {_cell(command.name)} | {_cell(command.help)} | `{command.id}` |"
    yield ""


def _code(label: str) -> str:
    # In Markdown, a backtick needs longer delimiters, and a bar would end the cell.
    return f"`` {label} ``" if "`" in label else f"`{_cell(label)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page())
