"""Annotations of runs (tags, a note, and whether a run is pinned or archived), and the tags that a script logged.

The annotations of a run are in a small file in the run directory. It is written atomically under a lock, so that no
change by another process is lost, and keys of later versions are kept. A line in the journal of the project makes the
index read the run again. The line is written before the file, and the lock is held for both. A reader that finds the
line and a free lock therefore also finds the new file. A file that cannot be parsed is reported as a problem and never
overwritten.

The tags of a script are lines of `metrics.jsonl`. For each name, the last line applies, unless the user has set a tag
of this name.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from tui_workbench.core.errors import StorageError, UsageError, storage_error, storage_errors
from tui_workbench.core.files import append_below, load_json, open_below, write_below
from tui_workbench.core.json_values import parse_json
from tui_workbench.core.locks import held, is_locked
from tui_workbench.runs.store.logged import FAULTS, blocks, open_logged

FILE = "annotations.json"
LOCK = "annotations.lock"
JOURNAL = "annotated"  # in the state directory; each change of annotations or of an ended run adds a run ID

SCHEMA = 1
LONGEST_NAME = 200
LONGEST_TEXT = 20_000
MOST_SCRIPT_TAGS = 200

_DAMAGES = (ValueError, TypeError, AttributeError, RecursionError)
_SCRIPT_TAG = re.compile(rb'\n(\{"kind":"tag",.*)')
_BLOCK = 1 << 22


class Annotations(NamedTuple):
    """The annotations of a run. `problem` is the error if the file cannot be parsed, or ""."""

    tags: Mapping[str, str] = {}  # "" for a tag without a value
    note: str = ""
    pinned: bool = False
    archived: bool = False
    problem: str = ""

    @property
    def tags_text(self) -> str:
        """The tags as the user types them: `best, lr=0.1`."""
        return ", ".join(f"{name}={value}" if value else name for name, value in self.tags.items())


def read_annotations(directory: str) -> Annotations:
    """Return the annotations of the run at `directory`."""
    try:
        return _read(directory)[1]
    except (StorageError, *_DAMAGES) as error:
        return Annotations(problem=f"cannot read {FILE}: {error}")


def is_being_changed(directory: str) -> bool:
    """Return True while a process changes the annotations of the run at `directory`."""
    try:
        with open(open_below(directory, LOCK), "rb") as file:
            return is_locked(file.fileno())
    except OSError:
        return False


def change_annotations(
    directory: str, state_directory: str, change: Callable[[Annotations], Annotations]
) -> Annotations:
    """Replace the annotations of the run at `directory` with the result of `change`.

    `change` gets the current annotations. `state_directory` is the state directory of the project. Raises UsageError
    for invalid annotations, and StorageError if the file cannot be parsed or written, or is from a later version.
    """
    with storage_errors("lock", f"{directory}/{LOCK}"):
        lock = open_below(directory, LOCK, os.O_RDWR | os.O_CREAT)
    with held(lock):
        try:
            stored, current = _read(directory)
        except _DAMAGES as error:
            raise StorageError(
                f"cannot read the annotations of the run: {error}",
                remedy="Update the workbench if a newer version wrote the file. Otherwise, move the file away.",
                file=f"{directory}/{FILE}",
            ) from error
        changed = change(current)
        if changed != current:
            _check(changed)
            values = {**stored, "schema": SCHEMA, **changed._asdict()}
            del values["problem"]
            # The journal is first: if this process is killed in between, the index reads an unchanged file. In the
            # other order, it would never read the changed one.
            notify_index(state_directory, os.path.basename(directory))
            with storage_errors("write", f"{directory}/{FILE}"):
                write_below(directory, FILE, json.dumps(values, indent=1).encode() + b"\n", durable=True)
        return changed


def with_tags(current: Annotations, tags: Mapping[str, str], removed: tuple[str, ...] = ()) -> Annotations:
    """Return the annotations with `tags` added and the tags in `removed` removed."""
    kept = {name: value for name, value in current.tags.items() if name not in removed}
    return current._replace(tags={**kept, **tags})


def notify_index(state_directory: str, run_id: str) -> None:
    """Make the index read an ended run again, by a line in the journal. Raises StorageError."""
    with storage_errors("write", os.path.join(state_directory, JOURNAL)):
        append_below(state_directory, JOURNAL, os.fsencode(run_id) + b"\n")


def _read(directory: str) -> tuple[dict[str, Any], Annotations]:
    """Return the content of the file ({} if missing) and its annotations. Raises StorageError or one of _DAMAGES."""
    path = f"{directory}/{FILE}"
    try:
        stored = load_json(path)
    except (FileNotFoundError, NotADirectoryError):
        stored = {}
    except OSError as error:
        raise storage_error("read", path, error) from error
    if not isinstance(stored, dict):
        raise ValueError("not a JSON object")
    if stored.get("schema", SCHEMA) > SCHEMA:
        raise ValueError(f"unknown schema {stored['schema']}")
    tags = {str(name): str(value) for name, value in stored.get("tags", {}).items()}
    note, pinned, archived = stored.get("note", ""), stored.get("pinned", False), stored.get("archived", False)
    if not (isinstance(note, str) and isinstance(pinned, bool) and isinstance(archived, bool)):
        raise ValueError("a value has the wrong type")
    return stored, Annotations(tags, note, pinned, archived)


def _check(annotations: Annotations) -> None:
    for name in annotations.tags:
        if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
            raise UsageError(
                f"invalid tag name {name[:LONGEST_NAME]!r}",
                remedy=f"Use 1 to {LONGEST_NAME} printable characters, not only spaces.",
            )
    values = {f"value of tag {name!r}": value for name, value in annotations.tags.items()}
    for field, text in {**values, "note": annotations.note}.items():
        if len(text) > LONGEST_TEXT:
            raise UsageError(
                f"the {field} is too long: {len(text):,} characters",
                remedy=f"Use at most {LONGEST_TEXT:,} characters, or put the text into a file in outputs/.",
            )


def script_tags(directory: str) -> dict[str, str]:
    """Return the tags that the script of the run at `directory` logged, at most MOST_SCRIPT_TAGS.

    The value is "" for a tag without a value.
    """
    tags: dict[str, str] = {}
    for line in _script_tag_lines(directory):
        try:
            record = parse_json(line)
            name, value = record["name"], record["value"]
        except (ValueError, KeyError, TypeError):
            continue
        name = name[:LONGEST_NAME] if isinstance(name, str) and name.isprintable() else None
        if name is not None and (len(tags) < MOST_SCRIPT_TAGS or name in tags):
            text = "" if value is None else value if isinstance(value, str) else json.dumps(value)
            tags[name] = text[:LONGEST_TEXT]
    return tags


def _script_tag_lines(directory: str) -> Iterator[bytes]:
    """Yield the complete lines that begin like the line of a tag, without parsing other lines."""
    with contextlib.suppress(*FAULTS), open_logged(directory) as logged:
        # The pattern begins with the newline before a line. `rest` therefore begins with that before the next line.
        rest = b"\n"
        for block in blocks(logged, _BLOCK):
            data = rest + block
            end = data.rfind(b"\n")
            yield from _SCRIPT_TAG.findall(data, 0, max(end, 0))
            rest = data[end:] if len(data) - end < _BLOCK else b""  # a longer line is not that of a tag
