"""The configuration reference page, made from the declaration of the fields.

Invariant: nothing on the page is written by hand; a test compares the page in docs/ with what this makes.
"""

from __future__ import annotations

import sys

from tui_workbench.config import fields, schema
from tui_workbench.config.checks import CODES
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui_workbench.config.schema import Field, FileKind

_INTRODUCTION = """\
# Configuration reference

Made by `python -m tui_workbench.config.reference > docs/configuration-reference.md`; edit the tables in
`tui_workbench/config/fields.py` instead.

The files are YAML in UTF-8; JSON is YAML too. A value is read by the type of its field: `no` and `0022` are texts where
a text belongs. Unknown keys are kept and have no effect. `workbench-tui config check` finds what is wrong, `config set
FILE KEY VALUE` changes one value and nothing else, and `config schema` gives all this as JSON Schema.
"""

_SOURCES = """\
Where a field's meaning is from: `docs` the original product's documentation, `template` comments in the files it
generated, `files` real files of public projects, `old` the same from before September 2017, `sdk` the SDK of 2018,
`conda` conda, `workbench` this program.
"""


def reference_page() -> str:
    """The whole page as Markdown."""
    return (
        "\n".join([_INTRODUCTION, _SOURCES, *(line for kind in fields.KINDS for line in _kind(kind)), *_codes()]) + "\n"
    )


def _kind(kind: FileKind) -> Iterator[str]:
    yield f"## {kind.title}: `{kind.pattern}`"
    yield ""
    yield kind.help
    yield ""
    current = [field for field in kind.fields if not field.is_old]
    old = [field for field in kind.fields if field.is_old]
    yield from _table(current, kind)
    if old:
        yield "Old forms, understood and not rewritten unasked:"
        yield ""
        yield from _table(old, kind)


def _table(rows: list[Field], kind: FileKind) -> Iterator[str]:
    has_targets = kind is fields.COMPUTE
    head = ["Key", "Type", "Default", *(["Targets"] if has_targets else []), "Meaning", "Source"]
    yield f"| {' | '.join(head)} |"
    yield f"|{'|'.join('---' for _ in head)}|"
    for field in rows:
        cells = [
            f"`{field.key}`",
            _type(field),
            _default(field),
            *([_targets(field)] if has_targets else []),
            _meaning(field),
            field.source,
        ]
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
    yield ""


def _type(field: Field) -> str:
    if field.choices:
        return ", ".join(f"`{choice}`" for choice in field.choices)
    return schema.TYPE_NAMES[field.type]


def _default(field: Field) -> str:
    if field.required:
        return "required"
    if field.default is None:
        return ""
    if isinstance(field.default, bool):
        return f"`{str(field.default).lower()}`"
    if isinstance(field.default, tuple):
        return f"`[{', '.join(field.default)}]`"
    return f"`{field.default}`"


def _targets(field: Field) -> str:
    return ", ".join(field.targets) if field.targets else "all"


def _meaning(field: Field) -> str:
    parts = [field.help]
    if field.synonyms:
        parts.append(
            "Also understood: " + ", ".join(f"`{written}` as `{meant}`" for written, meant in field.synonyms) + "."
        )
    if field.row:
        parts.append("Each with " + ", ".join(f"`{column.key}`" for column in field.row) + ".")
    if field.replaced_by:
        parts.append(f"Use `{field.replaced_by}`.")
    if field.example:
        parts.append(f"Example: `{field.example}`.")
    return " ".join(parts)


def _codes() -> Iterator[str]:
    yield "## What `config check` finds"
    yield ""
    yield "An error means that a run would fail; a warning that something is unwise; info that a better form exists."
    yield ""
    yield "| Code | Severity | Meaning |"
    yield "|---|---|---|"
    for name, code in CODES.items():
        yield f"| `{name}` | {code.severity} | {code.help} |"


if __name__ == "__main__":
    sys.stdout.write(reference_page())
