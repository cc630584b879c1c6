"""The tags that a script put on its run by `workbench.tag`: lines of `metrics.jsonl`, found without reading the others.

The last one of a name counts. What people say afterwards wins over what the script said (`history.facts_of`).
"""

from __future__ import annotations

import json

from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs.regular import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator

_FILE = "metrics.jsonl"
_START = b'{"kind":"tag",'
_BLOCK = 1 << 22
MOST_TAGS = 200
LONGEST = 20_000


def script_tags(directory: str) -> dict[str, str]:
    """Name and value of each tag, "" for one without; at most MOST_TAGS of the run at `directory`."""
    found: dict[str, str] = {}
    for line in _lines(f"{directory}/{_FILE}"):
        try:
            record = json.loads(line)
            name, value = record["name"], record["value"]
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if not isinstance(name, str) or not name.isprintable() or (len(found) == MOST_TAGS and name not in found):
            continue
        text = "" if value is None else value if isinstance(value, str) else json.dumps(value)
        found[name[:LONGEST]] = text[:LONGEST]
    return found


def _lines(path: str) -> Iterator[bytes]:
    """The whole lines of the file that begin as a tag does."""
    try:
        with open_regular(path) as file:
            rest = b""
            while block := file.read(_BLOCK):
                block = rest + block
                end = block.rfind(b"\n") + 1
                rest = block[end:] if len(block) - end < _BLOCK else b""
                yield from _tags_in(block[:end])
    except OSError:
        return


def _tags_in(block: bytes) -> Iterator[bytes]:
    place = block.find(_START)
    while place >= 0:
        end = block.index(b"\n", place)
        if place == 0 or block[place - 1] == 10:
            yield block[place:end]
        place = block.find(_START, end)
