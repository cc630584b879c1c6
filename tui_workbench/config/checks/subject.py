"""What every check gets: the document under inspection, and the list of all codes."""

from __future__ import annotations

from tui_workbench.config.findings import ERROR, INFO, WARNING, Edit, Finding, Fix
from tui_workbench.config.paths import Path
from tui_workbench.records import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any

    from tui_workbench.config.document import Document
    from tui_workbench.config.schema import Field
    from tui_workbench.config.syntax import Node


class Code(NamedTuple):
    """One kind of finding."""

    severity: str
    help: str


CODES: dict[str, Code] = {
    "syntax": Code(ERROR, "The text is not YAML."),
    "tab": Code(ERROR, "A line is indented with a tab, which YAML does not allow."),
    "missing-space": Code(
        ERROR, "`Framework:Python` without a space behind the colon is one long word, not a key and a value."
    ),
    "unclosed": Code(ERROR, "A quote or bracket is opened and not closed."),
    "control-character": Code(ERROR, "The text holds a character that YAML does not allow."),
    "refused": Code(ERROR, "The file is too large, too deep, or its aliases expand without measure."),
    "several-documents": Code(ERROR, "A line `...` or `---` ends the document; what follows it is not read."),
    "ellipsis": Code(WARNING, "A line `...` stands before the first key; other YAML readers refuse the file."),
    "not-a-map": Code(ERROR, "The file holds no `key: value` lines."),
    "duplicate-key": Code(ERROR, "A key stands twice; readers differ in which one counts."),
    "wrong-type": Code(ERROR, "A value is of another type than the field's."),
    "wrong-choice": Code(ERROR, "A value is none of the field's words."),
    "missing-value": Code(ERROR, "A key or list item that needs a value has none."),
    "missing-field": Code(ERROR, "A required field is missing."),
    "bad-image": Code(ERROR, "Docker would not accept the image's name."),
    "bad-address": Code(ERROR, "The address is none: it holds a user, a scheme or spaces."),
    "bad-variable": Code(ERROR, "The name of an environment variable is empty or holds `=`."),
    "plain-password": Code(ERROR, "The file holds a password itself where a reference belongs."),
    "share-without-volumes": Code(
        ERROR, "`sharedVolumes: false` with a native share in Docker: the share cannot be mounted."
    ),
    "unknown-target": Code(ERROR, "`Target` names a compute target that does not exist."),
    "missing-file": Code(ERROR, "A file that the run needs does not exist."),
    "standard-library": Code(ERROR, "The packages ask for a module that is part of Python; no index has it."),
    "unknown-key": Code(WARNING, "No field has this name; it is kept and has no effect."),
    "no-effect": Code(INFO, "The field has no effect on this type of target."),
    "old-form": Code(INFO, "An old form that is understood; the modern form is offered."),
    "json-form": Code(INFO, "A run configuration in JSON, the form from before September 2017."),
    "other-spelling": Code(WARNING, "A word in another spelling than the documented one."),
    "secret-in-file": Code(WARNING, "An environment variable that looks like a secret stands in the file in clear."),
    "framework-missing": Code(WARNING, "Without `Framework` a run starts Spark."),
    "framework-pyspark": Code(WARNING, "`Framework: PySpark`, and no script uses Spark."),
    "not-prepared": Code(
        WARNING, "`PrepareEnvironment` is off: a run fails unless the environment was prepared before."
    ),
    "gpu-unused": Code(WARNING, "The image has CUDA, but without `nvidiaDocker: true` the container gets no GPU."),
    "gpu-image-missing": Code(WARNING, "`nvidiaDocker: true` with an image that has no CUDA."),
    "processes-without-gpu": Code(ERROR, "`ProcessesPerNode: gpus` on a target that gives its runs no GPU."),
    "more-processes-than-gpus": Code(WARNING, "`ProcessesPerNode` is more than the GPUs that a run is given."),
    "no-torch": Code(WARNING, "`ProcessesPerNode` without PyTorch in the environment."),
    "stale-image": Code(WARNING, "The image is too old for a GPU of today."),
    "no-tag": Code(INFO, "An image without a tag can be another one tomorrow."),
    "cpu-build": Code(WARNING, "The package is a CPU build; the GPU would stay unused."),
    "wrong-platform": Code(WARNING, "A wheel for Windows or macOS, and containers are Linux."),
    "wrong-python": Code(WARNING, "A wheel for another Python than the one that is pinned."),
    "cannot-install": Code(WARNING, "These versions of Python and a framework do not exist together."),
    "wrong-cuda": Code(WARNING, "The framework needs another CUDA than the image has."),
    "unpinned": Code(WARNING, "A package of hundreds of megabytes without a version."),
}
"""Every code, with its severity and what it means."""


class Subject:
    """The document under inspection, with what all checks need of it."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.text = document.text
        self.kind = document.kind
        self.surroundings = document.surroundings
        if document.error is None:
            self.tree = document.tree
            self.reading = document.reading
            self.values: dict[str, Any] = document.reading.values
            self.nodes: dict[str, Node] = document.reading.nodes
            self.target_type = document.target_type

    def finding(
        self,
        code: str,
        message: str,
        remedy: str,
        at: Node | tuple[int, int] | None = None,
        *,
        key: str = "",
        fix: Fix | None = None,
        severity: str = "",
    ) -> Finding:
        """A finding about a node, a span, or (None) the whole file."""
        start, end = at if isinstance(at, tuple) else (at.start, at.end) if at is not None else (0, 0)
        line, column = self.tree.place(start)
        return Finding(
            severity or CODES[code].severity,
            code,
            message,
            remedy,
            self.document.path,
            line,
            column,
            start,
            end,
            key,
            fix,
        )

    def about(
        self, field: str, code: str, message: str, remedy: str, *edits: Edit, title: str = "", severity: str = ""
    ) -> Finding:
        """A finding about a field, at its value when it is set; `edits` fix it."""
        fix = Fix(title, edits) if edits else None
        return self.finding(code, message, remedy, self.nodes.get(field), key=field, fix=fix, severity=severity)


def key_of(path: Path, field: Field | None) -> str:
    """The key under which the form shows a finding at `path`."""
    return field.key if field is not None else ".".join(str(step) for step in path if isinstance(step, str))
