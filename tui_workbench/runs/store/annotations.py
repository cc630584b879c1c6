"""What people say of a run afterwards: tags, a note, pinned, archived; and the tags that its script put on it.

What people say is a small file in the run's directory. It is changed under a lock and written whole, so two workbenches
at once lose nothing of each other's; keys of a later version are kept. A line in the project's journal tells the index
which runs to look at again: it is written with the lock held and before the file, so who meets the line and a free lock
meets the file as well. A file that cannot be understood is shown as a problem and never overwritten.

The tags of a script are lines of `metrics.jsonl`. The last one of a name counts, and what people say wins over it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from tui_workbench.core.errors import StorageError, UsageError, storage_error, storage_errors
from tui_workbench.core.files import append_below, load_json, open_below, open_regular, write_below
from tui_workbench.core.locks import held, is_locked

FILE = "annotations.json"
LOCK = "annotations.lock"
JOURNAL = "annotated"
"""In the state directory of the project: for each change of what people say of a run its id, a line each."""

SCHEMA = 1
LONGEST_NAME = 200
LONGEST_TEXT = 20_000
MOST_SCRIPT_TAGS = 200

_DAMAGES = (ValueError, TypeError, AttributeError, RecursionError)
_SCRIPT_TAG = re.compile(rb'\n(\{"kind":"tag",.*)')
_BLOCK = 1 << 22


class Annotations(NamedTuple):
    """What was said of a run. `problem` is why its file cannot be understood, "" when it can."""

    tags: Mapping[str, str] = {}  # the value is "" for a tag that is only a word
    note: str = ""
    pinned: bool = False
    archived: bool = False
    problem: str = ""


def read_annotations(directory: str) -> Annotations:
    """The annotations of the run at `directory`; none when nothing was ever said."""
    try:
        return _read(directory)[1]
    except (StorageError, *_DAMAGES) as error:
        return Annotations(problem=f"{FILE} cannot be read: {error}")


def is_being_changed(directory: str) -> bool:
    """True while somebody changes the annotations of the run at `directory`."""
    try:
        with open(open_below(directory, LOCK), "rb") as file:
            return is_locked(file.fileno())
    except OSError:
        return False


def change_annotations(
    directory: str, state_directory: str, change: Callable[[Annotations], Annotations]
) -> Annotations:
    """Change the annotations of the run at `directory`, whose project keeps its state in `state_directory`.

    `change` gets what is there and gives what is to be. Raises UsageError for what no annotation can hold, and
    StorageError when the file cannot be written or holds what this version does not understand.
    """
    with storage_errors("lock", f"{directory}/{LOCK}"):
        lock = open_below(directory, LOCK, os.O_RDWR | os.O_CREAT)
    with held(lock):
        try:
            stored, found = _read(directory)
        except _DAMAGES as error:
            raise StorageError(
                f"this is no annotation that version {SCHEMA} can read ({error})",
                remedy="Update the workbench, or move the file away: nothing else is in it.",
                file=f"{directory}/{FILE}",
            ) from error
        wanted = change(found)
        if wanted != found:
            _check(wanted)
            values = {**stored, "schema": SCHEMA, **wanted._asdict()}
            del values["problem"]
            tell_index(state_directory, os.path.basename(directory))
            with storage_errors("write", f"{directory}/{FILE}"):
                write_below(directory, FILE, json.dumps(values, indent=1).encode() + b"\n", durable=True)
        return wanted


def with_tags(found: Annotations, tags: Mapping[str, str], removed: tuple[str, ...] = ()) -> Annotations:
    """The annotations with `tags` set and those named in `removed` taken away."""
    kept = {name: value for name, value in found.tags.items() if name not in removed}
    return found._replace(tags={**kept, **tags})


def tell_index(state_directory: str, run_id: str) -> None:
    """Let the index look again at a run that has ended. Raises StorageError."""
    with storage_errors("write", os.path.join(state_directory, JOURNAL)):
        append_below(state_directory, JOURNAL, os.fsencode(run_id) + b"\n")


def _read(directory: str) -> tuple[dict[str, Any], Annotations]:
    """What the file holds, {} when there is none, and the annotations in it. Raises StorageError, _DAMAGES."""
    path = f"{directory}/{FILE}"
    try:
        stored = load_json(path)
    except (FileNotFoundError, NotADirectoryError):
        stored = {}
    except OSError as error:
        raise storage_error("read", path, error) from error
    if not isinstance(stored, dict):
        raise ValueError("it is no object")
    if stored.get("schema", SCHEMA) > SCHEMA:
        raise ValueError(f"it has the form {stored['schema']}")
    tags = {str(name): str(value) for name, value in stored.get("tags", {}).items()}
    note, pinned, archived = stored.get("note", ""), stored.get("pinned", False), stored.get("archived", False)
    if not (isinstance(note, str) and isinstance(pinned, bool) and isinstance(archived, bool)):
        raise ValueError("a value in it is of another type")
    return stored, Annotations(tags, note, pinned, archived)


def _check(wanted: Annotations) -> None:
    for name, value in wanted.tags.items():
        if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
            raise UsageError(
                f"{name[:LONGEST_NAME]!r} is no name for a tag",
                remedy=f"Take a word or a few, of at most {LONGEST_NAME} characters.",
            )
        if len(value) > LONGEST_TEXT:
            raise UsageError(
                f"the value of the tag {name!r} has {len(value):,} characters",
                remedy=f"{LONGEST_TEXT:,} is the most; keep longer texts in a file of outputs/.",
            )
    if len(wanted.note) > LONGEST_TEXT:
        raise UsageError(
            f"the note has {len(wanted.note):,} characters",
            remedy=f"{LONGEST_TEXT:,} is the most; keep longer texts in a file of outputs/.",
        )


def script_tags(directory: str) -> dict[str, str]:
    """Name and value of each tag that the script put on the run at `directory`, "" for one without a value."""
    found: dict[str, str] = {}
    for line in _script_tag_lines(f"{directory}/metrics.jsonl"):
        try:
            record = json.loads(line)
            name, value = record["name"], record["value"]
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if isinstance(name, str) and name.isprintable() and (len(found) < MOST_SCRIPT_TAGS or name in found):
            text = "" if value is None else value if isinstance(value, str) else json.dumps(value)
            found[name[:LONGEST_TEXT]] = text[:LONGEST_TEXT]
    return found


def _script_tag_lines(path: str) -> Iterator[bytes]:
    """The whole lines of the file that begin as a tag does, found without reading the others one by one."""
    with contextlib.suppress(OSError), open_regular(path) as file:
        rest = b"\n"
        while data := file.read(_BLOCK):
            data = rest + data
            end = data.rfind(b"\n")
            yield from _SCRIPT_TAG.findall(data, 0, max(end, 0))
            rest = data[end:] if len(data) - end < _BLOCK else b""
