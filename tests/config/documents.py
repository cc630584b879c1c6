"""Documents for tests: from given text, and generated in many styles."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from tui_workbench.config.checks.project_context import ProjectContext
from tui_workbench.config.document import Document
from tui_workbench.config.yaml_edit import scalars
from tui_workbench.core.files import Signature
from tui_workbench.core.text_files import TextFile

if TYPE_CHECKING:
    from pathlib import Path


def document(text: str, name: str = "test.runconfig", context: ProjectContext | None = None) -> Document:
    """Return a document of this text outside a project."""
    return Document(TextFile(name, text, Signature(0, len(text), 0)), context)


def project(root: Path, **files: str) -> Path:
    """Return a project at `root` with these files, in aml_config/ unless they are scripts; `__` stands for a dot."""
    for written, text in files.items():
        name = written.replace("__", ".")
        path = root / name if name.endswith((".py", ".ipynb")) else root / "aml_config" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
    return root


def in_project(root: Path, name: str) -> Document:
    """Return the document of a file of the project's aml_config/."""
    return Document.open(os.path.join(root, "aml_config", name), ProjectContext(str(root)))


# -- generated documents ---------------------------------------------------------------------------------------------

KEYS = st.sampled_from(
    """
    Target Framework ArgumentVector EnvironmentVariables TrackedRun script a b spark.app.name dependencies packages pip
    name no 1 ümlaut key-with-dash $file ~ X_Y
    """.split()  # noqa: SIM905 - a paragraph of names
)
_AWKWARD = """
local|$file|--epochs=10|no|0022|true|~|null|| |a: b|x #y|it's|say "hi"|1.0|2018-01-01|- a|[x]|{y}|C:\\dir\\n|\ttab|ünï
|日本|*x|&y|!t|%|@|trailing | leading|a,b|key:|?|-|---|...|>|=|<<|\x85|\u2028|\x07|🙂|\ufeff|a\u00a0b
"""
TEXTS = st.one_of(
    st.sampled_from([*_AWKWARD.strip("\n").replace("\n", "").split("|"), "a\nb", "a\n", "\n", " a\n  b\n", "|"]),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12),
)
VALUES: st.SearchStrategy[Any] = st.one_of(TEXTS, st.booleans(), st.integers(-1000, 1000))
COMMENTS = st.sampled_from(
    ["", "", "", "# a comment\n", "#no space\n", "\n", "#\twith a tab\n", "# key: value\n", "\n# after a blank line\n"]
)
TAILS = st.sampled_from(["", "", "", "  # why", " #x", "   "])


@dataclass
class Style:
    """The style of a generated document."""

    json: bool
    quote: str
    key_quote: str
    list_indent: int
    map_indent: int


STYLES = st.builds(
    Style,
    json=st.booleans(),
    quote=st.sampled_from(["", "", '"', "'"]),
    key_quote=st.sampled_from(["", "", '"', "'"]),
    list_indent=st.sampled_from([0, 2, 4]),
    map_indent=st.sampled_from([2, 4, 1]),
)


def _scalar(draw: st.DrawFn, style: Style, *, flow: bool) -> str:
    value = draw(VALUES)
    if value == "" and not flow and draw(st.booleans()):
        return ""
    quote = draw(st.sampled_from(["", style.quote, '"', "'"]))
    return scalars.render(value, scalars.Style(quote=quote, flow=flow, json=style.json))


def _key(draw: st.DrawFn, style: Style, taken: set[str], *, flow: bool) -> str:
    key = draw(KEYS.filter(lambda one: one not in taken))
    taken.add(key)
    return scalars.render_key(key, scalars.Style(key_quote=style.key_quote, flow=flow, json=style.json))


def _flow(draw: st.DrawFn, style: Style, depth: int) -> str:
    kind = draw(st.sampled_from(["scalar", "scalar", "list", "map"] if depth else ["scalar"]))
    if kind == "scalar":
        return _scalar(draw, style, flow=True)
    count = draw(st.integers(0, 3))
    comma = draw(st.sampled_from([", ", ","])) if not style.json else draw(st.sampled_from([", ", ",\n  "]))
    separator = draw(st.sampled_from([": ", ":"])) if style.json else ": "
    if kind == "list":
        return "[" + comma.join(_flow(draw, style, depth - 1) for _ in range(count)) + "]"
    taken: set[str] = set()
    pairs = [_key(draw, style, taken, flow=True) + separator + _flow(draw, style, depth - 1) for _ in range(count)]
    return "{" + comma.join(pairs) + "}"


def _block(draw: st.DrawFn, style: Style, indent: int, depth: int, *, first: str | None = None) -> str:
    """Return a map's lines at column `indent`; the first one follows `first` (a dash) when that is given."""
    lines = []
    taken: set[str] = set()
    for number in range(draw(st.integers(1, 4))):
        lead = first if number == 0 and first is not None else draw(COMMENTS) + " " * indent
        lines.append(lead + _entry(draw, style, indent, depth, taken))
    return "".join(lines)


def _entry(draw: st.DrawFn, style: Style, indent: int, depth: int, taken: set[str]) -> str:
    key = _key(draw, style, taken, flow=False)
    deep = ["list", "map"] if depth else []
    kind = draw(st.sampled_from(["scalar", "scalar", "scalar", "flow", "lines", *deep]))
    tail = draw(TAILS)
    if kind == "lines":
        return f"{key}: {_lines(draw, indent + draw(st.integers(1, 4)))}"
    if kind in ("scalar", "flow"):
        value = _scalar(draw, style, flow=False) if kind == "scalar" else _flow(draw, style, 2)
        return f"{key}: {value}{tail}\n" if value else f"{key}:{tail}\n"
    if kind == "map":
        return f"{key}:{tail}\n" + _block(draw, style, indent + style.map_indent, depth - 1)
    inner = indent + style.list_indent
    return f"{key}:{tail}\n" + "".join(_item(draw, style, inner, depth - 1) for _ in range(draw(st.integers(1, 3))))


def _lines(draw: st.DrawFn, indent: int) -> str:
    """Return a value of several lines: a block scalar, or a plain or quoted text that continues below."""
    lines = draw(st.lists(st.sampled_from(["one", "two words", "", "# no comment", "three"]), min_size=1, max_size=3))
    body = "".join(" " * indent * bool(line) + line + "\n" for line in ["first", *lines])
    header = draw(st.sampled_from(["|", "|-", "|+", ">", ">-", ">+", "plain", '"', "'"]))
    if header == "plain":
        return body.replace("#", "").lstrip()
    if header in "\"'":
        return header + body.strip() + header + "\n"
    return f"{header}\n{body}" + draw(st.sampled_from(["", "\n", "\n\n"]))


def _item(draw: st.DrawFn, style: Style, indent: int, depth: int) -> str:
    lead = draw(COMMENTS) + " " * indent + "- "
    if depth and draw(st.integers(0, 3)) == 0:
        return _block(draw, style, indent + 2, depth - 1, first=lead)
    value = _scalar(draw, style, flow=False) or '""'
    return f"{lead}{value}{draw(TAILS)}\n"


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Return a YAML or JSON text whose root is a map."""
    style = draw(STYLES)
    if style.json:
        taken: set[str] = set()
        separator = draw(st.sampled_from([": ", ":"]))
        pairs = [
            _key(draw, style, taken, flow=True) + separator + _flow(draw, style, 2)
            for _ in range(draw(st.integers(0, 5)))
        ]
        inner = "\n  " if draw(st.booleans()) else ""
        text = "{" + (inner + ("," + (inner or " ")).join(pairs) + ("\n" if inner else "") if pairs else "") + "}\n"
    else:
        text = draw(st.sampled_from(["", "", "---\n", "# head\n"])) + _block(draw, style, 0, 2) + draw(COMMENTS)
        text += draw(st.sampled_from(["", "", "", "...\n"]))
    if draw(st.integers(0, 5)) == 0:
        # Line endings of both kinds, as after an edit with an unsuitable editor.
        text = "\r\n".join("\n".join(part) for part in _pairs(text.split("\n")))
    return text.removesuffix("\n") if draw(st.booleans()) else text


def _pairs(lines: list[str]) -> list[list[str]]:
    return [lines[at : at + 2] for at in range(0, len(lines), 2)]
