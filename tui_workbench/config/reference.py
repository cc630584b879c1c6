"""Generate docs/reference/configuration-reference.md from the declarations of the fields."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from tui_workbench.config.checks.findings import CODES
from tui_workbench.config.schema.field_types import TYPE_NAMES, Field, FileKind, written
from tui_workbench.config.schema.fields import COMPUTE, KINDS
from tui_workbench.core import target_types

_INTRODUCTION = """\
# Configuration reference

`make pages` generates this page from `tui_workbench/config/schema/fields.py`.

The files are YAML or JSON in UTF-8. The type of a field determines how its value is read: in a text
field, `no` and `0022` are text. Unknown keys are kept and have no effect. `workbench-tui config
check` reports mistakes, `config set FILE KEY VALUE` changes a single value, and `config schema`
prints the JSON Schema of the files.
"""

_SOURCES = """\
The *Source* column shows where a field comes from:

- `docs`: the documentation of Azure ML Workbench
- `template`: comments in the files that Azure ML Workbench generated
- `files`: configuration files of public projects
- `old`: files from before September 2017
- `sdk`: the Azure ML SDK of 2018
- `conda`: the documentation of conda
- `workbench`: this program
"""


_FINDINGS = """\
## Findings of `config check`

The severity is `error` if runs would fail, `warning` for a probable mistake, and `info` for advice.
"""


def reference_page() -> str:
    """Return the configuration reference as Markdown."""
    codes = _table(["Code", "Severity", "Meaning"], [[f"`{name}`", *code] for name, code in CODES.items()])
    kinds = [line for kind in KINDS for line in _kind(kind)]
    return "\n".join([_INTRODUCTION, _SOURCES, *kinds, _FINDINGS, *codes]) + "\n"


def _kind(kind: FileKind) -> Iterator[str]:
    yield f"## {kind.title}: `{kind.pattern}`\n\n{kind.help}\n"
    has_targets = kind is COMPUTE
    head = ["Key", "Type", "Default", *(["Targets"] if has_targets else []), "Meaning", "Source"]
    yield from _table(head, [_cells(field, has_targets) for field in kind.fields if not field.is_old])
    yield ""
    old = [_cells(field, has_targets) for field in kind.fields if field.is_old]
    if old:
        yield "Old forms, which still work:\n"
        yield from _table(head, old)
        yield ""


def _table(head: list[str], rows: Iterable[list[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'|'.join('---' for _ in head)}|"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def _cells(field: Field, has_targets: bool) -> list[str]:
    kind = ", ".join(f"`{choice}`" for choice in field.choices) or TYPE_NAMES[field.type]
    targets = [", ".join(field.targets) or "all"] if has_targets else []
    return [f"`{field.key}`", kind, _default(field), *targets, _meaning(field), field.source]


def _default(field: Field) -> str:
    readers = [kind for kind in target_types.BUILT_IN if field.key in kind.required or kind.reads(field.key)]
    if field.required or any(field.key in kind.required for kind in readers):
        others = [kind.name for kind in readers if not field.required and field.key not in kind.required]
        return f"required, except for {', '.join(others)}" if others and field.targets else "required"
    if isinstance(field.default, tuple):
        return f"`[{', '.join(field.default)}]`"
    return "" if field.default is None else f"`{written(field.default)}`"


def _meaning(field: Field) -> str:
    synonyms = ", ".join(f"`{word}` as `{meant}`" for word, meant in field.synonyms)
    columns = ", ".join(f"`{column.key}`" for column in field.row)
    parts = (
        (synonyms, f"Also accepted: {synonyms}."),
        (columns, f"Each item has {columns}."),
        (field.replaced_by, f"Use `{field.replaced_by}`."),
        (field.example, f"Example: `{field.example}`."),
    )
    return " ".join([field.help, *(text for condition, text in parts if condition)])


if __name__ == "__main__":
    sys.stdout.write(reference_page())
