"""Check that the tests use no private name of the package or of a library.

`make check` runs `python -m tests.private_names`. A test that uses public names only still passes after a change that
keeps the behavior, and its helpers are found where others look for them. `_replace`, `_asdict`, `_fields` and `_make`
of named tuples and `os._exit` are documented, so they are public in spite of their names.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests import source_check

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TESTS = Path(__file__).parent

EXCEPTIONS = {
    "test_structure.py": "has the examples of the tests of this check",
    "ui/idle.py": "asyncio does not say when its loop is idle",
    "ui/painted.py": "Textual does not say which parts of the screen are waiting to be painted",
    "ui/textual_internals.py": "has the other private parts of Textual that tests need",
}
"""The files that may use private names, and why. A helper in one of these files serves all other tests."""

_DOCUMENTED = frozenset(("_", "_replace", "_asdict", "_fields", "_field_defaults", "_make", "_exit"))
_BY_NAME = frozenset(("setattr", "getattr", "hasattr", "delattr", "attrgetter", "patch", "object"))


class Use(NamedTuple):
    """A use of a private name of something else."""

    name: str
    line: int


def uses_in(source: str) -> list[Use]:
    """Return the uses of private names in the text of a module, except those that its own classes define.

    Programs in texts are searched too.
    """
    nodes = list(ast.walk(ast.parse(source)))
    own = set(_defined(nodes))
    uses = []
    for node in nodes:
        names: Iterable[str] = ()
        if isinstance(node, ast.ImportFrom):
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [part for alias in node.names for part in alias.name.split(".")]
        elif isinstance(node, ast.Attribute):
            is_own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls") and node.attr in own
            names = () if is_own else (node.attr,)
        elif isinstance(node, ast.Call):
            names = _names_in_text(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "import " in node.value:
            names = _names_in_program(node.value)
        uses += [Use(name, getattr(node, "lineno", 0)) for name in names if _is_private(name)]
    return sorted(set(uses), key=lambda use: use.line)


def _defined(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the names of functions and of assigned attributes."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _names_in_text(call: ast.Call) -> Iterator[str]:
    """Yield the parts of the names that are texts, such as in `monkeypatch.setattr("module._name", value)`."""
    function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    for argument in call.args[:2] if function in _BY_NAME else ():
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            parts = argument.value.split(".")
            yield from parts if all(part.isidentifier() for part in parts) else ()


def _names_in_program(text: str) -> list[str]:
    try:
        return [use.name for use in uses_in(text)]
    except SyntaxError:
        return []


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name not in _DOCUMENTED


def problems() -> list[str]:
    """Return a line for each refused use in the tests, and for each exception without a use."""
    found, used = [], set()
    for path in sorted(TESTS.rglob("*.py")):
        name = path.relative_to(TESTS).as_posix()
        uses = uses_in(path.read_text(encoding="utf-8"))
        if name not in EXCEPTIONS:
            found += [f"tests/{name}:{use.line}: {use.name}" for use in uses]
        elif uses:
            used.add(name)
    return found + [f"tests/private_names.py: no private name in {name}" for name in EXCEPTIONS.keys() - used]


def main() -> int:
    advice = "Test the behavior through public names, or make the helper public and describe it."
    return source_check.report(problems(), advice)


if __name__ == "__main__":
    sys.exit(main())
