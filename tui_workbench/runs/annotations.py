"""What people say of a run afterwards: tags, a note, pinned, archived. A small file in the run's directory.

The file is changed under a lock and written whole, so two workbenches at once lose nothing of each other's; keys of a
later version are kept. A line in the project's journal tells the index which runs to look at again: it is written with
the lock held and before the file, so who meets the line and a free lock meets the file as well. A file that cannot be
understood is shown as a problem and never overwritten.
"""

from __future__ import annotations

import fcntl
import json
import os

from tui_workbench.errors import StorageError, UsageError
from tui_workbench.records import TYPE_CHECKING, NamedTuple
from tui_workbench.runs.regular import open_regular
from tui_workbench.runs.rundir import storage_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

FILE = "annotations.json"
LOCK = "annotations.lock"
SCHEMA = 1
LARGEST = 64 << 20
LONGEST_NAME = 200
LONGEST_TEXT = 20_000


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
        return _annotations(_stored(directory))
    except (StorageError, ValueError, TypeError, AttributeError, RecursionError) as error:
        return Annotations(problem=f"{FILE} cannot be read: {error}")


def is_being_changed(directory: str) -> bool:
    """True while somebody changes the annotations of the run at `directory`."""
    try:
        descriptor = os.open(f"{directory}/{LOCK}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def change_annotations(
    directory: str, state_directory: str, change: Callable[[Annotations], Annotations]
) -> Annotations:
    """Change the annotations of the run at `directory`, whose project keeps its state in `state_directory`.

    `change` gets what is there and gives what is to be. Raises UsageError for what no annotation can hold, and
    StorageError when the file cannot be written or holds what this version does not understand.
    """
    path = f"{directory}/{LOCK}"
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise storage_error("lock", path, error) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _change(directory, state_directory, change)
    finally:
        os.close(lock)


def with_tags(found: Annotations, tags: Mapping[str, str], removed: tuple[str, ...] = ()) -> Annotations:
    """The annotations with `tags` set and those named in `removed` taken away."""
    kept = {name: value for name, value in found.tags.items() if name not in removed}
    return found._replace(tags={**kept, **tags})


def _change(directory: str, state_directory: str, change: Callable[[Annotations], Annotations]) -> Annotations:
    from tui_workbench.files import write_atomically

    try:
        stored = _stored(directory)
        found = _annotations(stored)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise StorageError(
            f"this is no annotation that version {SCHEMA} can read ({error})",
            remedy="Update the workbench, or move the file away: nothing else is in it.",
            file=f"{directory}/{FILE}",
        ) from error
    wanted = change(found)
    if wanted == found:
        return found
    _check(wanted)
    values = {**stored, "schema": SCHEMA, **wanted._asdict()}
    del values["problem"]
    _tell(state_directory, os.path.basename(directory))
    write_atomically(f"{directory}/{FILE}", json.dumps(values, indent=1).encode() + b"\n")
    return wanted


def _stored(directory: str) -> dict[str, Any]:
    """What the file holds, {} when there is none. Raises StorageError, and ValueError when it is no JSON object."""
    path = f"{directory}/{FILE}"
    try:
        with open_regular(path) as file:
            data = file.read(LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise storage_error("read", path, error) from error
    if len(data) > LARGEST:
        raise ValueError("it is too large")
    stored = json.loads(data)
    if not isinstance(stored, dict):
        raise ValueError("it is no object")
    if not isinstance(stored.get("schema", SCHEMA), int):
        raise ValueError("it has no form")
    if stored.get("schema", SCHEMA) > SCHEMA:
        raise ValueError(f"it has the form {stored['schema']}")
    return stored


def _annotations(stored: dict[str, Any]) -> Annotations:
    tags = {str(name): str(value) for name, value in stored.get("tags", {}).items()}
    note, pinned, archived = stored.get("note", ""), stored.get("pinned", False), stored.get("archived", False)
    if not (isinstance(note, str) and isinstance(pinned, bool) and isinstance(archived, bool)):
        raise ValueError("a value in it is of another type")
    return Annotations(tags, note, pinned, archived)


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


def _tell(state_directory: str, run_id: str) -> None:
    from tui_workbench.runs.indexfile import JOURNAL

    path = os.path.join(state_directory, JOURNAL)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            os.write(descriptor, os.fsencode(run_id) + b"\n")
        finally:
            os.close(descriptor)
    except OSError as error:
        raise storage_error("write", path, error) from error
