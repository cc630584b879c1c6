"""Find the frameworks that a script imports, directly or through modules of its project, by parsing the files.

Imports of installed modules are not followed, except for libraries that are known to use one framework.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator

from tui_workbench.core.files import open_file
from tui_workbench.core.notebooks import LARGEST, code_of, is_notebook
from tui_workbench.targets.gpu.frameworks import NAMES

_LIBRARIES = {
    "torch": ("accelerate", "fastai", "lightning", "pytorch_lightning", "timm", "torchaudio", "torchvision",
              "transformers", "ultralytics"),
    "jax": ("flax", "haiku", "optax"),
}  # fmt: skip
_FRAMEWORK_OF = {
    **NAMES, **{library: NAMES[name] for name, libraries in _LIBRARIES.items() for library in libraries}
}  # fmt: skip

_MOST_FILES, _LARGEST = 200, 1 << 20
_IMPORT = re.compile(r"^[ \t]*(?:import|from)[ \t]+([.\w]+)", re.MULTILINE)


def imported_frameworks(root: str, script: str) -> frozenset[str]:
    """Return the names of the frameworks that `script` imports, directly or through modules of the project `root`."""
    frameworks: set[str] = set()
    pending, seen = [os.path.join(root, script)], set[str]()
    while pending and len(seen) < _MOST_FILES:
        path = pending.pop()
        if path in seen:
            continue
        seen.add(path)
        for name in _names(_text(path)):
            framework = _FRAMEWORK_OF.get(name.partition(".")[0])
            if framework is not None:
                frameworks.add(framework)
            else:
                pending += _own_modules(name, path, (os.path.dirname(os.path.join(root, script)), root))
    return frozenset(frameworks)


def _text(path: str) -> str:
    try:
        with open_file(path) as file:
            text = file.read(LARGEST if is_notebook(path) else _LARGEST).decode("utf-8", "replace")
            return code_of(text) if is_notebook(path) else text
    except OSError:
        return ""


def _names(text: str) -> Iterator[str]:
    """Yield the imported names, with the dots of a relative import; for `from a import b` also `a.b`."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError):
        # The file may be for another version of Python.
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
