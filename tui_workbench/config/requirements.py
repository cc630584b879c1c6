"""One line of a conda environment file, conda package or pip requirement, in its parts.

Invariant: reading never fails; what cannot be told stays empty, and the text as written is always there.
"""

from __future__ import annotations

import re

from tui_workbench.config.packages import Version, parse_version
from tui_workbench.config.paths import Path
from tui_workbench.config.syntax import LIST, MAP, SCALAR, Node
from tui_workbench.records import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_WHEEL = re.compile(
    r"(?P<name>[A-Za-z0-9_.]+?)-(?P<version>[^-/]+)(?:-\d[^-/]*)?-(?P<python>[\w.]+)-(?P<abi>[\w.]+)-(?P<platform>[\w.]+)\.whl"
)
_NAME = re.compile(r"(?:(?P<channel>[\w./-]+)::)?(?P<name>[A-Za-z0-9][\w.-]*)(?P<extras>\[[^\]]*\])?\s*(?P<spec>.*)\Z")
_CONDA_EXACT = re.compile(r"={1,2}\s*(\d[\w.!+]*)")
_PIP_EXACT = re.compile(r"={2,3}\s*(\d[\w.!+*]*)\s*(?:;.*)?\Z")


class Wheel(NamedTuple):
    """The tags of a wheel's file name."""

    name: str
    version: str
    python: str  # cp35, py3, cp27.cp35, ...
    abi: str
    platform: str  # linux_x86_64, win_amd64, any, ...


class Requirement(NamedTuple):
    """A package that a file asks for."""

    text: str  # as written
    manager: str  # conda or pip
    path: Path
    start: int
    end: int
    name: str = ""  # lower case, `-` for `_`; "" for options like --index-url
    version: str = ""  # of an exact pin, else ""
    spec: str = ""  # all behind the name
    extras: str = ""
    url: str = ""  # of a direct reference or a local file
    wheel: Wheel | None = None

    @property
    def pin(self) -> Version:
        """The exact version as numbers, () when there is none."""
        return parse_version(self.version)


def requirements_of(root: Node | None) -> list[Requirement]:
    """Every package of a conda environment file, in order; () of a file of another shape."""
    node = root.get("dependencies") if root is not None and root.kind == MAP else None
    if node is None or node.kind != LIST:
        return []
    return list(_items(node))


def _items(node: Node) -> Iterator[Requirement]:
    for index, item in enumerate(node.items):
        here: Path = ("dependencies", index)
        if item.kind == SCALAR:
            yield _conda(item, here)
        elif item.kind == MAP:
            pip = item.get("pip")
            for inner, one in enumerate(pip.items if pip is not None and pip.kind == LIST else ()):
                if one.kind == SCALAR:
                    yield _pip(one, (*here, "pip", inner))


def _conda(node: Node, path: Path) -> Requirement:
    match = _NAME.match(node.text.strip())
    if match is None:
        return Requirement(node.text, "conda", path, node.start, node.end)
    spec = match["spec"].strip()
    exact = _CONDA_EXACT.match(spec)
    version = exact[1] if exact else ""
    if spec[:1].isdigit():
        # `python 3.5.2` and `python 3.5.2 0` are conda's older way to pin.
        version = spec.split()[0]
    return Requirement(
        node.text, "conda", path, node.start, node.end, _normal(match["name"]), version.rstrip(".*"), spec
    )


def _pip(node: Node, path: Path) -> Requirement:
    text = node.text.strip()
    found = Requirement(node.text, "pip", path, node.start, node.end)
    if text.startswith("-"):
        return found
    wheel = _wheel(text)
    if wheel is not None:
        return found._replace(name=_normal(wheel.name), version=wheel.version, spec=text, url=text, wheel=wheel)
    if "://" in text or text.startswith(("./", "../", "/", "~")):
        name, _, rest = text.partition("@")
        is_named = bool(rest) and "://" not in name
        return found._replace(name=_normal(name.strip()) if is_named else "", url=text, spec=text)
    match = _NAME.match(text)
    if match is None:
        return found
    exact = _PIP_EXACT.match(match["spec"].strip())
    version = exact[1].rstrip(".*") if exact else ""
    return found._replace(
        name=_normal(match["name"]), version=version, spec=match["spec"].strip(), extras=match["extras"] or ""
    )


def _wheel(text: str) -> Wheel | None:
    if ".whl" not in text:
        return None
    match = _WHEEL.search(text.replace("%2B", "+"))
    return Wheel(*match.group("name", "version", "python", "abi", "platform")) if match else None


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
