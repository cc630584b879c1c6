"""The key reference, made from the registry: `python -m tui_workbench.ui.key_reference > docs/keys.md`."""

from __future__ import annotations

import sys

from tui_workbench.records import TYPE_CHECKING
from tui_workbench.ui.key_names import key_label
from tui_workbench.ui.registry import SCOPES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui_workbench.ui.command import Command

HEAD = """\
# Keys

Made by `python -m tui_workbench.ui.key_reference > docs/keys.md`; edit `tui_workbench/ui/*commands.py` instead.

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

TITLES = {
    "app": ("On every screen", ""),
    "everywhere": ("Main screen", "Everywhere on it, unless a text is being typed."),
    "list": ("Lists", "Files, targets, runs, choices and all other lists."),
    "list filter": ("The filter of a list", "Targets, runs, a run's files and metrics, plans and texts to read."),
    "files": ("1 Files", ""),
    "targets": ("2 Compute targets", ""),
    "changes": ("Configuration files", "In Files and in Compute targets."),
    "log view": ("Logs", "In Log, in run details, and where an environment is made."),
    "log": ("4 Log", ""),
    "log search": ("Search in a log", ""),
    "jobs": ("5 Jobs", ""),
    "run bar": ("0 Run bar", ""),
    "field": ("Fields with choices", ""),
    "choices": ("An open list of choices", ""),
    "arguments": ("Arguments of the run", ""),
    "run button": ("The button", ""),
    "editor": ("3 Editor", ""),
    "file": ("An open file", ""),
    "configuration": ("An open configuration file", ""),
    "form": ("The form of a configuration file", ""),
    "form value": ("A value that is being typed", ""),
    "text": ("Text of a file", ""),
    "text field": ("Text fields", ""),
    "search field": ("Search fields over a list", ""),
    "find in file": ("Search in a file", ""),
    "difference": ("The difference to the file on disk", ""),
    "help": ("Help", ""),
    "jump": ("Jump mode", "The letter on a place goes there; any other key leaves."),
    "palette": ("Palette", ""),
    "change": ("A change of configuration files", ""),
    "machine": ("Attaching and checking a machine", ""),
    "machine result": ("When that is done", ""),
    "plan": ("The plan of a run", ""),
    "preparing": ("An environment that is made", ""),
    "secret": ("A secret that is asked for", ""),
    "question": ("Questions", "Each answer has its key in the question."),
    "lines": ("Lines of a plan", ""),
    "chart": ("Charts", ""),
    "table": ("Tables", "As in lists, and:"),
    "history": ("Screens about runs", "All runs, run details, the comparison and what they open."),
    "dashboard": ("6 All runs", ""),
    "one run": ("One run", "In All runs, the run under the cursor; in run details, the run."),
    "reader": ("Texts to read", ""),
    "file panel": ("Files of a run", "Outputs and snapshot, in run details."),
    "column choice": ("Choice of columns", ""),
    "restore": ("Restoring the files of a run", ""),
    "run edit": ("Running again with changes", ""),
    "metrics": ("Metrics of a run", ""),
    "run details": ("Run details", ""),
    "compare": ("Comparison", ""),
    "gpus": ("7 GPUs", ""),
    "gpu panel": ("GPUs beside the runs", ""),
    "calls": ("8 Calls", ""),
    "runs at the side": ("6 All runs", "In terminals of 180 columns and more, beside the other panes."),
}
"""What people call a scope, and where it is."""


def page() -> str:
    """The whole page, in Markdown."""
    return "\n".join([HEAD, *(part for name, scope in SCOPES.items() for part in _section(name, scope))])


def _section(name: str, scope: tuple[Command, ...]) -> Iterator[str]:
    title, about = TITLES.get(name, (name.capitalize(), ""))
    yield f"## {title}\n"
    if about:
        yield f"{about}\n"
    yield "| Keys | Command | What it does | Id |"
    yield "|---|---|---|---|"
    for command in scope:
        keys = (
            " ".join(_code(key_label(key)) for key in command.default_keys.split(","))
            if command.default_keys
            else "palette"
        )
        yield f"| {keys} | {_cell(command.name)} | {_cell(command.help)} | `{command.id}` |"
    yield ""


def _code(label: str) -> str:
    # A backtick needs longer fences, and a bar would end the cell.
    return f"`` {label} ``" if "`" in label else f"`{_cell(label)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page())
