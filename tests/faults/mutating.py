"""Mutations of files, chosen by hypothesis: what damaged disks, other programs and strangers do to them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st

LEVELS = (150, 400, 900, 990, 3_000, 100_000)
"""Levels of nested values; Python's own limit of recursion is 1,000."""

TEXTS = (
    "", "\0", "a\0b", "\ud800", "\udcff", "é\u202e", "\x1b]0;x\x07", "../../etc/passwd", "/dev/zero", "²", "1e999",
    "-1", "9" * 5000, "x" * 70_000, "\n", "nan", "true", "%s%d{}{0}", "[/red]", "-rf", "~", "a/b", ".", "local",
)  # fmt: skip
NUMBERS = (
    0, -1, 1, 2, True, 1e308, -1e308, 5e-324, float("nan"), float("inf"), float("-inf"), 10**15, -(10**15), 1 << 63,
    -(1 << 63), 1 << 64, 10**400, 0.5, 253402300800, 1e12,
)  # fmt: skip
KEYS = ("", "schema", "time", "event", "state", "values", "devices", "name", "\0", "\ud800", "__class__", "x" * 5000)
SIMPLE: tuple[Any, ...] = (
    None, [], {}, [None], [[]], {"": None}, [1, "a", None], {"a": [{}]}, [{}] * 3, [["a", "b"]] * 2,
)  # fmt: skip
NAMES = (
    "a\nb", "\udcff", "-rf", "é\u202e", "x" * 255, " ", "\x1b[31m", ".json", ".new-x", "1", "0", "-1", "9" * 200, "NaN",
    "sweep-1.json", "project_1", "²", "run.json", "[/red]", "index.db", "%s{}", "annotations.json.1.tmp",
    "20260101.json",
)  # fmt: skip
ENCODINGS = ("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "latin-1", "cp500", "utf-7")
YAML = (
    "", "null", "[", "{}", "[]", "[[[[]]]]", "- a", '"', "'", "&a [*a]", "*missing", "!!python/object:os.system x",
    "2026-01-01", "0o17", "1e999", ".nan", "yes", "|\n", "<<: 1", "\t", "# ", "\x00", "\u0085", "9" * 5000, "? x",
)  # fmt: skip

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.sampled_from(TEXTS), st.sampled_from(NUMBERS), st.sampled_from(SIMPLE), st.integers(), st.floats()),
    lambda inner: st.dictionaries(st.sampled_from(KEYS), inner, max_size=3) | st.lists(inner, max_size=3),
    max_leaves=4,
)
"""JSON values; some are not strictly JSON, but Python's parser reads them."""


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


class Mutation(NamedTuple):
    """A change of the file `name`, whose path is relative to the folder of all files.

    `content` is its new content, or a key of SPECIAL. `is_broken` is True if no reader can use the file as a whole.
    """

    name: str
    what: str
    content: bytes | str
    is_broken: bool = False

    def __repr__(self) -> str:
        return f"{self.name!r:.300}: {self.what}"

    def apply(self, folder: Path) -> None:
        """Change the file below `folder`."""
        path = folder / self.name
        remove(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(self.content, str):
            SPECIAL[self.content](path)
        else:
            path.write_bytes(self.content)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def mutations(folder: Path, names: list[str]) -> st.SearchStrategy[Mutation]:
    """Return the mutations of the files `names` below `folder`, which has their unchanged content."""
    return st.sampled_from(names).flatmap(lambda name: _mutation_of(folder / name, name))


@st.composite
def _mutation_of(draw: st.DrawFn, path: Path, name: str) -> Mutation:
    kind = draw(st.sampled_from(("content", "content", "content", "value", "value", "value", "special", "beside")))
    data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
    if kind == "beside":
        return _beside(draw, path, name, data)
    if kind == "special":
        what = draw(st.sampled_from(list(SPECIAL)))
        # A hole is a regular file, and root can read files without permissions.
        is_broken = what not in ("missing", "a large hole") and not (what == "not readable" and os.geteuid() == 0)
        return Mutation(name, what, what, is_broken)
    changed = None
    if kind == "value" and not name.endswith((".log", ".diff")):
        is_yaml = name.endswith((".compute", ".runconfig", ".yaml", ".yml"))
        changed = _yaml(draw, data) if is_yaml else _as_json(draw, data)
    new, what = changed or draw(st.sampled_from(CONTENTS))(draw, data)
    return Mutation(name, what, new, name.endswith(".json") and not _is_json(new))


def _beside(draw: st.DrawFn, path: Path, name: str, data: bytes) -> Mutation:
    """Copy a file to another name in its folder, or its folder to another name with only this file."""
    parts = list(Path(name).parts)
    place = draw(st.sampled_from((-1, -2))) if len(parts) > 2 else -1
    parts[place] = draw(st.sampled_from(NAMES))
    if (path.parent.parent / parts[-2]).is_file():  # for example, a folder `run.json` beside the file
        parts[-2] = path.parent.name
    return Mutation(str(Path(*parts)), f"a copy of {name}", data)


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _places(found: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of each value below `found`."""
    inner = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    return [path, *(place for key, each in inner for place in _places(each, (*path, key)))]


def _changed(draw: st.DrawFn, found: Any) -> tuple[Any, str]:
    """Return a JSON value with one change, and a description of the change."""
    path = draw(st.sampled_from(_places(found)))
    if not path:
        new = draw(VALUES)
        return new, f"the value is {new!r:.60}"
    parent = found
    for key in path[:-1]:
        parent = parent[key]
    kind = draw(st.sampled_from(("other", "other", "other", "without", "more")))
    if kind == "without":
        del parent[path[-1]]
        return found, f"without {path}"
    if kind == "more" and isinstance(parent, dict):
        key = draw(st.sampled_from(KEYS))
        parent[key] = draw(VALUES)
        return found, f"another key {key!r:.20} beside {path}"
    if kind == "more":
        parent[path[-1] : path[-1] + 1] = [parent[path[-1]]] * 300
        return found, f"{path} 300 times"
    parent[path[-1]] = new = draw(VALUES)
    return found, f"{path} is {new!r:.60}"


def _as_json(draw: st.DrawFn, data: bytes) -> tuple[bytes, str] | None:
    """Change one value of a JSON document, or of one line of several."""
    with contextlib.suppress(ValueError):
        whole = json.loads(data)
        found, what = _changed(draw, whole)
        return json.dumps(found).encode() + b"\n", what
    lines = data.splitlines(keepends=True)
    if not lines:
        return None
    place = draw(st.integers(0, len(lines) - 1))
    with contextlib.suppress(ValueError):
        line = json.loads(lines[place])
        found, what = _changed(draw, line)
        lines[place] = json.dumps(found).encode() + b"\n"
        return b"".join(lines), f"line {place + 1}: {what}"
    return None


def _yaml(draw: st.DrawFn, data: bytes) -> tuple[bytes, str]:
    """Replace the value of a line, or the line."""
    lines = data.decode().splitlines(keepends=True)
    place = draw(st.integers(0, len(lines) - 1))
    key, colon, _ = lines[place].partition(":")
    new = draw(st.sampled_from(YAML) | st.sampled_from(TEXTS) | VALUES.map(json.dumps))
    lines[place] = f"{key}{colon} {new}\n" if draw(st.booleans()) else f"{new}\n"
    return "".join(lines).encode(
        "utf-8", "surrogateescape" if "\udcff" in new else "surrogatepass"
    ), f"line {place + 1}: {lines[place]!r:.60}"


def _nested(draw: st.DrawFn, data: bytes) -> tuple[bytes, str]:
    """Put a deeply nested value in the place of another."""
    levels = draw(st.sampled_from(LEVELS))
    with contextlib.suppress(ValueError):
        whole = json.loads(data)
        if path := draw(st.sampled_from(_places(whole))):
            parent = whole
            for key in path[:-1]:
                parent = parent[key]
            parent[path[-1]] = "nested here"
            text = json.dumps(whole).replace('"nested here"', "[" * levels + "]" * levels)
            return text.encode(), f"{levels} levels at {path}"
    begin, end = draw(st.sampled_from((("[", "]"), ('{"a":', "}"))))
    return data + f"{begin * levels}0{end * levels}\n".encode(), f"{levels} levels at the end"


def _cut(draw: st.DrawFn, data: bytes) -> tuple[bytes, str]:
    size = draw(st.integers(0, len(data)))
    return data[:size], f"only {size} bytes"


def _doubled(draw: st.DrawFn, data: bytes) -> tuple[bytes, str]:
    lines = data.splitlines(keepends=True) or [b""]
    place, times = draw(st.integers(0, len(lines) - 1)), draw(st.sampled_from((1, 2, 3000)))
    lines[place:place] = [lines[place]] * times
    return b"".join(lines), f"line {place + 1} {times} times more"


def _shuffled(draw: st.DrawFn, data: bytes) -> tuple[bytes, str]:
    lines = data.splitlines(keepends=True)
    first, second = (draw(st.integers(0, max(0, len(lines) - 1))) for _ in range(2))
    if lines:
        lines[first], lines[second] = lines[second], lines[first]
    return b"".join(lines), f"lines {first + 1} and {second + 1} exchanged"


def _bytes(draw: st.DrawFn, data: bytes) -> tuple[bytes, str]:
    changed = bytearray(data or b"\0")
    byte = st.sampled_from((0, 0xFF, 0x22, 0x5C, 0x7B, 0x5D, 0x0A)) | st.integers(0, 255)
    for place, new in draw(st.lists(st.tuples(st.integers(0, len(changed) - 1), byte), min_size=1, max_size=30)):
        changed[place] = new
    return bytes(changed), "other bytes"


def _encoded(draw: st.DrawFn, data: bytes) -> tuple[bytes, str]:
    name = draw(st.sampled_from(ENCODINGS))
    text = data.decode("utf-8", "replace").replace("e", "é", 1)
    return text.encode(name, "replace"), f"in {name}"


def _filled(draw: st.DrawFn, data: bytes) -> tuple[bytes, str]:
    filling = draw(st.sampled_from((b"\0", b"\xff", b"[", b"{", b'"', b"\n", b" ", b"9", b"\\")))
    size = draw(st.sampled_from((0, 1, 300, 5_000, 100_000)))
    return filling * size, f"{size} times {filling!r}"


CONTENTS: tuple[Callable[[st.DrawFn, bytes], tuple[bytes, str]], ...] = (
    _cut, _doubled, _shuffled, _bytes, _encoded, _filled, _nested,
)  # fmt: skip
