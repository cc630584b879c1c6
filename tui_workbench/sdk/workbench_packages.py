"""Execute a command in which the packages of the project are imported from the working copy of the run.

    python workbench_packages.py RUN PROJECT COMMAND [ARGUMENT ...]

A package that was installed with `pip install -e .` is imported from the folder of the project, which may have changed
since the snapshot was made. This file looks for such packages, adds the folders of the working copy (the current
folder) to PYTHONPATH, and executes the command, whose processes inherit the variable. PROJECT is the folder of the
project. On another machine, an editable installation of a project with the same name is replaced in the same way.

RUN is the folder of the run. `packages.json` in this folder lists the replaced folders, and the packages that could not
be replaced.

The workbench starts this file for tracked runs of projects that can be installed, and never imports it. The file must
run on Python 3.5 or newer with the standard library only.
"""

import json
import os
import re
import sys
import tempfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Tuple

RECORD = "packages.json"
LINKS = "packages"

_NAME = re.compile(r"""^\s*name\s*=\s*["']?([\w.-]+)|\bname\s*=\s*["']([\w.-]+)""", re.MULTILINE)
_MOST_BYTES = 1 << 20


class Replacement:
    """The folders for PYTHONPATH, and the entries that they replace."""

    def __init__(self, run: "str", roots: "List[str]", copy: "str") -> "None":
        self.path = []  # type: List[str]
        self.replaced = {}  # type: Dict[str, str]
        self._run = run
        self._roots = roots
        self._copy = copy

    def replace_folder(self, folder: "str") -> "None":
        """Replace a folder of the Python path. Most build systems add one for an editable installation."""
        copy = self._in_copy(folder)
        if os.path.isdir(copy):
            self.path.append(copy)
            self.replaced[folder] = copy

    def replace_packages(self, mapping: "Dict[str, str]") -> "None":
        """Replace the packages and modules that a finder of setuptools imports; `mapping` has their paths by name."""
        copies = {name: self._in_copy(path) for name, path in mapping.items()}
        names = sorted(name for name in copies if copies[name])
        if not names:
            return
        # A folder with links, because the names of packages and folders can differ.
        folder = os.path.join(self._run, LINKS)
        os.makedirs(folder, 0o700, exist_ok=True)
        links = tempfile.mkdtemp(dir=folder)  # on a cluster, several nodes can make one
        for name in names:
            link = os.path.join(links, *name.split("."))
            os.makedirs(os.path.dirname(link), exist_ok=True)
            if not os.path.lexists(link):
                os.symlink(copies[name], link if os.path.isdir(copies[name]) else link + ".py")
            self.replaced[mapping[name]] = copies[name]
        self.path.append(links)

    def _in_copy(self, path: "str") -> "str":
        """Return the path in the working copy for one in the project, or "" if there is none."""
        real = os.path.realpath(path)
        if _inside(real, os.path.realpath(self._copy)) or _inside(real, os.path.realpath(sys.prefix)):
            return ""
        for root in self._roots:
            inner = _inside(real, root)
            # The finder of setuptools names a module without its suffix in some versions.
            for candidate in (os.path.normpath(os.path.join(self._copy, inner + end)) for end in ("", ".py") if inner):
                if os.path.exists(candidate):
                    return candidate
        return ""


def _inside(path: "str", folder: "str") -> "str":
    """Return a path relative to `folder`, "." for the folder itself, or "" if it is outside."""
    inner = os.path.relpath(path, folder)
    return "" if inner == os.pardir or inner.startswith(os.pardir + os.sep) else inner


def _declared_name(folder: "str") -> "str":
    """Return the name of the distribution that a project declares, or ""."""
    for name in ("pyproject.toml", "setup.cfg", "setup.py"):
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            with open(path, "rb") as file:
                match = _NAME.search(file.read(_MOST_BYTES).decode("utf-8", "replace"))
            if match:
                return match.group(1) or match.group(2)
    return ""


def _editable_folder(name: "str") -> "str":
    """Return the folder from which a distribution is installed in editable form, or ""."""
    try:
        from importlib.metadata import PackageNotFoundError, distribution
        from urllib.parse import unquote, urlsplit
    except ImportError:
        return ""  # before Python 3.8
    try:
        origin = json.loads(distribution(name).read_text("direct_url.json") or "{}")
        is_editable = origin.get("dir_info", {}).get("editable")
        return unquote(urlsplit(origin["url"]).path) if is_editable else ""
    except (PackageNotFoundError, ValueError, KeyError, AttributeError, OSError):
        return ""


def _mappings() -> "List[Dict[str, str]]":
    """Return the paths of packages by name, for each finder of setuptools."""
    modules = [sys.modules.get(getattr(finder, "__module__", "") or "") for finder in sys.meta_path]
    mappings = [getattr(module, "MAPPING", None) for module in modules if module is not None]
    return [mapping for mapping in mappings if isinstance(mapping, dict)]


def find(run: "str", project: "str", copy: "str") -> "Tuple[Replacement, str]":
    """Return the folders for PYTHONPATH, and a sentence if a package is not imported from the working copy."""
    name = _declared_name(copy)
    editable = _editable_folder(name) if name else ""
    roots = [os.path.realpath(root) for root in (editable, project) if root and os.path.isdir(root)]
    replacement = Replacement(run, roots, copy)
    for folder in sys.path:
        if os.path.isdir(folder) and folder not in replacement.replaced:
            replacement.replace_folder(folder)
    for mapping in _mappings():
        replacement.replace_packages(mapping)
    if editable and not replacement.replaced:
        return replacement, "%s is imported from %s, and not from the snapshot." % (name, editable)
    return replacement, ""


def main(arguments: "List[str]") -> "None":
    """Set PYTHONPATH and execute the command. Without the packages, the run uses those of the project, and says so."""
    run, project, command = arguments[1], arguments[2], arguments[3:]
    del sys.path[0]  # the folder of this file
    problem = ""
    try:
        replacement, problem = find(run, project, os.getcwd())
        if replacement.path:
            path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
            # The modules of the workbench stay first.
            os.environ["PYTHONPATH"] = os.pathsep.join(path[:1] + replacement.path + path[1:])
        if replacement.replaced or problem:
            with open(os.path.join(run, RECORD), "w") as file:
                json.dump({"replaced": replacement.replaced, "problem": problem}, file, indent=1)
    except (OSError, ValueError) as error:
        problem = "The packages of the project may not be those of the snapshot: %s" % error
    if problem:
        sys.stderr.write("workbench: %s\n" % problem)
        sys.stderr.flush()
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv)
