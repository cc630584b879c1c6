"""Mutate the files of a run at random, as damaged disks, other programs and strangers do."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

DEEP = 3_000
"""Levels of a nested value; Python's own limit of recursion is 1,000."""

TEXTS = (
    "", "\0", "a\0b", "\ud800", "\udcff", "é\u202e", "\x1b]0;x\x07", "../../etc/passwd", "/dev/zero", "²", "1e999",
    "-1", "9" * 5000, "x" * 70_000, "\n", "nan", "true", "%s%d{}{0}", "[/red]", "-rf", "~", "a/b", ".", "local",
)  # fmt: skip
NUMBERS = (
    0, -1, 1, 2, True, 1e308, -1e308, 5e-324, float("nan"), float("inf"), float("-inf"), 10**15, -(10**15), 1 << 63,
    -(1 << 63), 1 << 64, 10**400, 0.5, 253402300800, 1e12,
)  # fmt: skip
KEYS = ("", "schema", "time", "event", "state", "values", "devices", "name", "\0", "\ud800", "__class__", "x" * 5000)


class Mutation(NamedTuple):
    """A change of one file of a run. `name` is the path of the file in the run directory after the change."""

    name: str
    what: str
    is_broken: bool  # True if no reader can use the file as a whole


def deep(levels: int = DEEP) -> str:
    return "[" * levels + "]" * levels


def value(rng: random.Random) -> Any:
    """Return a random JSON value; some are not strictly JSON, but Python's parser reads them."""
    kind = rng.randrange(10)
    if kind < 3:
        return rng.choice(TEXTS)
    if kind < 6:
        return rng.choice(NUMBERS)
    simple: tuple[Any, ...] = (
        None,
        [],
        {},
        [None],
        [[]],
        {"": None},
        [1, "a", None],
        {"a": [{}]},
        [{}] * 3,
        [["a", "b"]] * 2,
    )
    if kind < 9:
        return rng.choice(simple)
    return {rng.choice(KEYS): value(rng) for _ in range(rng.randrange(4))}


def _places(found: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of each value below `found`."""
    inner = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    return [path, *(place for key, each in inner for place in _places(each, (*path, key)))]


def _changed(rng: random.Random, found: Any) -> tuple[Any, str]:
    """Return a JSON value with one change, and a description of the change."""
    path = rng.choice(_places(found))
    if not path:
        new = value(rng)
        return new, f"the value is {new!r:.60}"
    parent = found
    for key in path[:-1]:
        parent = parent[key]
    kind = rng.randrange(8)
    if kind == 0:
        del parent[path[-1]]
        return found, f"without {path}"
    if kind == 1 and isinstance(parent, dict):
        parent[rng.choice(KEYS)] = value(rng)
        return found, f"another key beside {path}"
    if kind == 2 and isinstance(parent, list):
        parent[path[-1] : path[-1] + 1] = [parent[path[-1]]] * 300
        return found, f"{path} 300 times"
    parent[path[-1]] = new = value(rng)
    return found, f"{path} is {new!r:.60}"


def _as_json(rng: random.Random, data: bytes) -> tuple[bytes, str] | None:
    """Change one value of a JSON document, or of one line of several."""
    with contextlib.suppress(ValueError):
        found, what = _changed(rng, json.loads(data))
        return json.dumps(found).encode() + b"\n", what
    lines = data.splitlines(keepends=True)
    if not lines:
        return None
    place = rng.randrange(len(lines))
    with contextlib.suppress(ValueError):
        found, what = _changed(rng, json.loads(lines[place]))
        lines[place] = json.dumps(found).encode() + b"\n"
        return b"".join(lines), f"line {place + 1}: {what}"
    return None


def _nested(rng: random.Random, data: bytes) -> tuple[bytes, str]:
    """Put a deeply nested value in the place of another."""
    levels = rng.choice((150, 400, 900, 990, DEEP, 100_000))
    mark = b'"nested here"'
    with contextlib.suppress(ValueError):
        whole = json.loads(data)
        path = rng.choice(_places(whole))
        if path:
            parent = whole
            for key in path[:-1]:
                parent = parent[key]
            parent[path[-1]] = "nested here"
            return json.dumps(whole).replace(mark.decode(), deep(levels)).encode(), f"{levels} levels at {path}"
    line = deep(levels) if rng.random() < 0.5 else '{"a":' * levels + "0" + "}" * levels
    return data + line.encode() + b"\n", f"{levels} levels at the end"


def _cut(rng: random.Random, data: bytes) -> tuple[bytes, str]:
    size = rng.randrange(len(data) + 1)
    return data[:size], f"only {size} bytes"


def _doubled(rng: random.Random, data: bytes) -> tuple[bytes, str]:
    lines = data.splitlines(keepends=True) or [b""]
    place, times = rng.randrange(len(lines)), rng.choice((1, 2, 3000))
    lines[place:place] = [lines[place]] * times
    return b"".join(lines), f"line {place + 1} {times} times more"


def _shuffled(rng: random.Random, data: bytes) -> tuple[bytes, str]:
    lines = data.splitlines(keepends=True)
    rng.shuffle(lines)
    return b"".join(lines), "lines in another order"


def _bytes(rng: random.Random, data: bytes) -> tuple[bytes, str]:
    changed = bytearray(data or b"\0")
    for _ in range(rng.choice((1, 3, 30))):
        changed[rng.randrange(len(changed))] = rng.choice((0, 0xFF, 0x22, 0x5C, 0x7B, 0x5D, 0x0A, rng.randrange(256)))
    return bytes(changed), "random bytes"


def _encoded(rng: random.Random, data: bytes) -> tuple[bytes, str]:
    name = rng.choice(("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "latin-1", "cp500", "utf-7"))
    text = data.decode("utf-8", "replace").replace("e", "é", 1)
    return text.encode(name, "replace"), f"in {name}"


def _filled(rng: random.Random, data: bytes) -> tuple[bytes, str]:
    filling = rng.choice((b"\0", b"\xff", b"[", b"{", b'"', b"\n", b" ", b"9", b"\\"))
    size = rng.choice((0, 1, 300, 5_000, 100_000))
    return filling * size, f"{size} times {filling!r}"


CONTENTS: tuple[Callable[[random.Random, bytes], tuple[bytes, str]], ...] = (
    _cut, _doubled, _shuffled, _bytes, _encoded, _filled, _nested,
)  # fmt: skip


def _large(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(4 << 20)


def _folder(path: Path) -> None:
    path.mkdir()
    (path / "inner").write_text("{}")


SPECIAL: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: None,
    "a folder": _folder,
    "a FIFO": lambda path: os.mkfifo(path),
    "a dangling link": lambda path: path.symlink_to("nowhere"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "a link to a file": lambda path: path.symlink_to("/etc/passwd"),
    "a large hole": _large,
    "not readable": lambda path: os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0)),
}


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def mutate(rng: random.Random, run: Path, files: list[str]) -> Mutation:
    """Change one of the files of a run."""
    name = rng.choice(files)
    path = run / name
    kind = rng.randrange(20)
    if kind < 3:
        what = rng.choice(list(SPECIAL))
        remove(path)
        SPECIAL[what](path)
        # A hole is a regular file, and root can read files without permissions.
        is_broken = what not in ("missing", "a large hole") and not (what == "not readable" and os.geteuid() == 0)
        return Mutation(name, what, is_broken)
    data = path.read_bytes()
    changed = None
    if kind < 14 and not name.endswith((".log", ".diff")):
        changed = _as_json(rng, data)
    new, what = changed or rng.choice(CONTENTS)(rng, data)
    remove(path)
    path.write_bytes(new)
    return Mutation(name, what, name.endswith(".json") and not _is_json(new))


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True
