"""Read Jupyter notebooks: their cells, their code, and their outputs as text.

Source of the format: https://nbformat.readthedocs.io/en/latest/format_description.html (version 4).
"""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from tui_workbench.core.errors import UsageError
from tui_workbench.core.json_values import MOST_BITS, parse_json

SUFFIX = ".ipynb"
LARGEST = 32 << 20
"""Maximum size in bytes of a notebook that is read. Images in outputs make notebooks large."""

FORMAT = 4
CODE, MARKDOWN = "code", "markdown"
TEXT, ERROR, MEDIA = "text", "error", "media"

_OTHER_TEXT = "Correct the text, or save the notebook again in Jupyter."
_OTHER_FILE = "Save the notebook again in Jupyter, or rename the file if it is not a notebook."


class CellOutput(NamedTuple):
    """An output of a cell: text, the traceback of an error, or data that is not shown as text, such as an image."""

    kind: str  # TEXT, ERROR or MEDIA
    text: str
    media_type: str = ""  # for MEDIA, such as image/png
    size: int = 0  # for MEDIA, in bytes


class Cell(NamedTuple):
    """A cell. `number` is the execution count, or None if the cell was not executed."""

    kind: str  # CODE, MARKDOWN or raw
    source: str
    number: int | None = None
    outputs: tuple[CellOutput, ...] = ()


def is_notebook(path: str) -> bool:
    """Return True if the name of a file ends with `.ipynb`, in uppercase or lowercase."""
    return os.path.splitext(path)[1].lower() == SUFFIX


def parse_notebook(text: str) -> list[Cell]:
    """Return the cells of a notebook. Raises UsageError if the text is not a notebook of version 4."""
    content = read_notebook(text)
    version = content.get("nbformat")
    try:
        cells = [_cell(cell) for cell in content["cells"]] if version == FORMAT else []
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"not a valid notebook: {_describe(error)}", remedy=_OTHER_TEXT) from error
    if version != FORMAT:
        remedy = "Open the notebook in Jupyter and save it."
        raise UsageError(f"notebooks of format {version!r} cannot be shown", remedy=remedy)
    return cells


def read_notebook(text: str) -> dict[str, Any]:
    """Return the JSON object of a notebook. Raises UsageError, with the line if the text is not valid JSON.

    Notebooks of versions 1 to 3 have `worksheets` instead of `cells`; Jupyter and runs convert them.
    """
    try:
        content = parse_json(text, bits=MOST_BITS)
    except ValueError as error:
        raise UsageError(f"not a valid notebook: {_describe(error)}", remedy=_OTHER_TEXT) from error
    if isinstance(content, dict) and ("cells" in content or "worksheets" in content):
        return content
    description = "a JSON object without `cells`" if isinstance(content, dict) else f"JSON, but {_kind(content)}"
    raise UsageError(
        f"not a notebook: the file contains {description}; a notebook is a JSON object with `cells`", remedy=_OTHER_FILE
    )


def too_large() -> UsageError:
    """Return the error for a notebook that is larger than `LARGEST`."""
    return UsageError(
        f"the notebook is larger than {LARGEST >> 20} MiB", remedy="Clear its outputs in Jupyter, and save it."
    )


def code_of(text: str) -> str:
    """Return the code of all cells, without IPython lines (`%`, `!` or `?`); "" if the text is not a notebook."""
    try:
        cells = parse_notebook(text)
    except UsageError:
        return ""
    lines = (line for cell in cells if cell.kind == CODE for line in cell.source.split("\n"))
    return "\n".join(line for line in lines if not line.lstrip().startswith(("%", "!", "?")))


def _describe(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno}, column {error.colno}: {error.msg[:1].lower()}{error.msg[1:]}"
    if isinstance(error, KeyError):
        return f"{error} is missing"
    return str(error) if isinstance(error, ValueError) else "a value has the wrong type"


def _kind(value: object) -> str:
    """Return the name of the type of a JSON value that is not an object."""
    names: dict[type, str] = {list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _cell(cell: dict[str, Any]) -> Cell:
    kind, number = str(cell["cell_type"]), cell.get("execution_count")
    outputs = tuple(_output(output) for output in cell.get("outputs") or ()) if kind == CODE else ()
    return Cell(kind, _joined(cell["source"]), number if isinstance(number, int) else None, outputs)


def _output(output: dict[str, Any]) -> CellOutput:
    if output["output_type"] == "stream":
        return CellOutput(TEXT, _joined(output["text"]))
    if output["output_type"] == "error":
        traceback = "\n".join(map(str, output.get("traceback") or ()))
        return CellOutput(ERROR, _joined(traceback or f"{output.get('ename', '')}: {output.get('evalue', '')}"))
    data = {_joined(kind): value for kind, value in (output.get("data") or {}).items()}
    plain = _joined(data.pop("text/plain", ""))
    image = next((kind for kind in data if kind.startswith("image/")), "")
    if plain and not image:
        return CellOutput(TEXT, plain)
    kind = image or next(iter(data), "")
    value = data.get(kind, "")
    content = _joined(value) if isinstance(value, str | list) else json.dumps(value)
    is_text = not image or image.endswith("+xml")
    return CellOutput(MEDIA, plain, kind, len(content.encode()) if is_text else len(content) * 3 // 4)


def _joined(text: str | list[str]) -> str:
    """Join a multi-line string, which the format stores as one string or as a list of lines. Raises TypeError.

    JSON can contain lone surrogates, which UTF-8 cannot encode. They become question marks.
    """
    joined = text if isinstance(text, str) else "".join(text)
    return joined.encode("utf-8", "replace").decode()
