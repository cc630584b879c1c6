"""Which frameworks a script imports, itself or through modules of its project; nothing of it is run.

What a module that is installed imports in turn is not looked at, but for the libraries that stand on one framework.
"""

from __future__ import annotations

import ast
import os
import re

from tui_workbench.records import TYPE_CHECKING
from tui_workbench.targets.gpu.frameworks import NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator

_STANDING_ON = {
    "torch": ("accelerate", "fastai", "lightning", "pytorch_lightning", "timm", "torchaudio", "torchvision",
              "transformers", "ultralytics"),
    "jax": ("flax", "haiku", "optax"),
}  # fmt: skip
_FRAMEWORK_OF = {
    **NAMES, **{library: NAMES[name] for name, libraries in _STANDING_ON.items() for library in libraries}
}  # fmt: skip

_MOST_FILES, _LARGEST = 200, 1 << 20
_IMPORT = re.compile(r"^[ \t]*(?:import|from)[ \t]+([.\w]+)", re.MULTILINE)


def imported_by(root: str, script: str) -> frozenset[str]:
    """The frameworks, by the names that people know, that the script at `script` in the folder `root` imports."""
    found: set[str] = set()
    pending, seen = [os.path.join(root, script)], set[str]()
    while pending and len(seen) < _MOST_FILES:
        path = pending.pop()
        if path in seen:
            continue
        seen.add(path)
        for name in _names(_text(path)):
            framework = _FRAMEWORK_OF.get(name.partition(".")[0])
            if framework is not None:
                found.add(framework)
            else:
                pending += _own_modules(name, path, (os.path.dirname(os.path.join(root, script)), root))
    return frozenset(found)


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_LARGEST)
    except OSError:
        return ""


def _names(text: str) -> Iterator[str]:
    """What is imported, with the dots that a relative import begins with; of `from a import b` also `a.b`."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError):
        # Of another version of Python.
        yield from _IMPORT.findall(text)
        return
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield module
            yield from (f"{module}{'' if module.endswith('.') else '.'}{alias.name}" for alias in node.names)


def _own_modules(name: str, importer: str, folders: tuple[str, ...]) -> Iterator[str]:
    """The files of the project that an import of this name runs."""
    relative = name.lstrip(".")
    level = len(name) - len(relative)
    if level:
        folder = importer
        for _ in range(level):
            folder = os.path.dirname(folder)
        folders = (folder,)
    parts = [part for part in relative.split(".") if part]
    for folder in folders:
        for count in range(1, len(parts) + 1):
            base = os.path.join(folder, *parts[:count])
            yield from (path for path in (f"{base}.py", os.path.join(base, "__init__.py")) if os.path.isfile(path))
