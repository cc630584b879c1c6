"""Check that no code of the package compares or searches a reason, a message or a title.

`make check` runs `python -m tests.compared_texts`. Texts are for people: they change, and they contain names that
others choose. The ends of runs have causes with kinds (`core/causes.py`), and errors have types and codes. The texts of
other programs, such as Docker, are read by one function each, which returns a code. Other uses need an entry in
EXCEPTIONS.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from tests import source_check
from tests.source_check import Use

TEXTS = frozenset(("reason", "message", "title"))
"""Names of variables and attributes that contain a text for people."""

_METHODS = frozenset(("startswith", "endswith"))
_SEARCHES = frozenset(("search", "match", "fullmatch", "findall", "finditer"))

_NEWS = "shows or records a text again only if it has changed"
_FIELDS = "looks for a key in a document that is called a message"
_FOREIGN = "turns the text of another program into a code"

EXCEPTIONS = {
    ("cli/shared/stream.py", "update"): _NEWS,
    ("runs/lifecycle/queueing.py", "_explain"): _NEWS,
    ("runs/lifecycle/step_progress.py", "lost"): _NEWS,
    ("runs/logs/spark_events.py", "_failure"): "finds the exception in a message of Spark",
    ("runs/snapshots/snapshot_view.py", "damage"): _FOREIGN,
    ("targets/docker/building.py", "_failure"): _FOREIGN,
    ("targets/docker/engine.py", "of"): _FOREIGN,
    ("targets/docker/engine.py", "pull"): _FIELDS,
    ("targets/docker/images.py", "add"): _FIELDS,
    ("targets/docker/images.py", "listen"): _FIELDS,
    ("targets/slurm/followed.py", "_wait_for"): _NEWS,
    ("targets/slurm/squeue.py", "facts_of"): "the reason is a code of Slurm",
    ("targets/ssh/login_errors.py", "to_workbench_error"): _FOREIGN,
    ("targets/ssh/ssh_config.py", "asks_for_passphrase"): _FOREIGN,
    ("targets/ssh/ssh_host.py", "_reply"): _FIELDS,
    ("targets/ssh/ssh_secrets.py", "is_revoked"): _FOREIGN,
    ("targets/ssh/ssh_wire.py", "error_from_message"): _FIELDS,
    ("ui/details/run_details_read.py", "_step_lines"): "shows a title only if it differs from the name",
    ("ui/full_screen.py", "show_error"): "shows the name of a file only if the message does not contain it",
    ("ui/logs/log.py", "show_run"): _NEWS,
    ("ui/main/autosave.py", "_save_changes"): _NEWS,
    ("ui/undo.py", "forget"): "the title is the name that the caller has given to its step",
}
"""The functions that may compare such a text, by file, and why."""


def uses_in(source: str) -> list[Use]:
    """Return the refused uses in the text of a module."""
    return sorted(set(_uses(ast.parse(source), "")), key=lambda use: use.line)


def _uses(node: ast.AST, function: str) -> Iterator[Use]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        function = node.name
    elif (isinstance(node, ast.Compare) and _compares_text(node)) or (isinstance(node, ast.Call) and _searches(node)):
        yield Use(function, node.lineno)
    for child in ast.iter_child_nodes(node):
        yield from _uses(child, function)


def _compares_text(node: ast.Compare) -> bool:
    """Return True if the comparison uses a text, except with "" or None."""
    sides = (node.left, *node.comparators)
    has_constant = any(isinstance(side, ast.Constant) and not side.value for side in sides)
    return any(map(_is_text, sides)) and not has_constant


def _searches(node: ast.Call) -> bool:
    function = node.func
    if not isinstance(function, ast.Attribute):
        return False
    if function.attr in _METHODS and _is_text(function.value):
        return True
    return function.attr in _SEARCHES and any(map(_is_text, node.args))


def _is_text(node: ast.AST) -> bool:
    """Return True for a text for people, `str(error)`, and methods such as `lower` of them."""
    if isinstance(node, ast.Call):
        function = node.func
        if isinstance(function, ast.Attribute):
            return _is_text(function.value)
        is_error = bool(node.args) and isinstance(node.args[0], ast.Name) and node.args[0].id == "error"
        return isinstance(function, ast.Name) and function.id == "str" and is_error
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name in TEXTS


def problems() -> list[str]:
    """Return a line for each refused use in the package, and for each exception without a use."""
    return source_check.problems(uses_in, EXCEPTIONS, "tests/compared_texts.py")


def main() -> int:
    return source_check.report(
        problems(), "Compare the kind of a cause, or the type or a code of an error, not a text."
    )


if __name__ == "__main__":
    sys.exit(main())
