"""What a check found: where, what, why it matters, and how one key puts it right.

Invariant: a fix is data, edits of the one file that the finding is in, made through the document and so undone as one
step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tui_workbench.config.schema.field_types import written
from tui_workbench.config.yaml_edit.syntax import Path
from tui_workbench.core.model import Problem

ERROR, WARNING, INFO = "error", "warning", "info"


class SetValue(NamedTuple):
    """Give `path` the value."""

    path: Path
    value: Any


class Unset(NamedTuple):
    """Remove what stands at `path`."""

    path: Path


class RenameKey(NamedTuple):
    """Call the key at `path` by another name."""

    path: Path
    name: str


class ReplaceText(NamedTuple):
    """Replace the characters from `start` to `end`; for texts that are no YAML yet."""

    start: int
    end: int
    text: str


class WriteAsYaml(NamedTuple):
    """Write a JSON text as YAML, with the same values; keys without a value are left out."""


Edit = SetValue | Unset | RenameKey | ReplaceText | WriteAsYaml


class Fix(NamedTuple):
    """Edits that put a finding right. `title` says what they do, as a command: "set nvidiaDocker: true"."""

    title: str
    edits: tuple[Edit, ...]
    is_choice: bool = False
    """True when the fix gives something up or decides for the user: never part of fixing everything at once."""


def setting(key: str, value: Any, *, is_choice: bool = False) -> Fix:
    """The fix that gives a field a value."""
    return Fix(f"set {key}: {written(value)}", (SetValue(tuple(key.split(".")), value),), is_choice)


def removing(key: str, name: str = "", *, is_choice: bool = False) -> Fix:
    """The fix that removes a field, in its title called `name`."""
    return Fix(f"remove {name or key}", (Unset(tuple(key.split("."))),), is_choice)


class Finding(NamedTuple):
    """Something wrong or unwise. Lines and columns count from 1; `start` and `end` are offsets into the text."""

    severity: str  # error: a run would fail; warning: unwise; info: a better form exists
    code: str
    message: str  # a clause without a full stop
    remedy: str  # a sentence
    file: str
    line: int
    column: int
    start: int
    end: int
    key: str = ""  # of the field it is about, "" for the whole file
    fix: Fix | None = None

    @property
    def problem(self) -> Problem:
        """The finding as the rest of the workbench knows problems."""
        return Problem(self.file, self.line, self.column, self.severity, self.code, self.message, self.remedy)


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
    "missing-comma": Code(ERROR, "A comma is missing between two entries of a JSON file."),
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
    "placeholder": Code(ERROR, "A value like `<ipAddress>` is what a manual leaves to be filled in."),
    "indentation": Code(ERROR, "A line is indented, as if it belonged to the value of the line above."),
    "bad-image": Code(ERROR, "Docker would not accept the image's name."),
    "bad-address": Code(ERROR, "The address is none: it holds a user, a scheme or spaces."),
    "bad-variable": Code(ERROR, "The name of an environment variable is empty or holds `=`."),
    "data-reference": Code(ERROR, "An item of `DataReferences` leads out of the project, or cannot be data."),
    "plain-password": Code(ERROR, "The file holds a password itself where a reference belongs."),
    "unknown-target": Code(ERROR, "`Target` names a compute target that does not exist."),
    "target-conflict": Code(ERROR, "The SDK's form says something else about where the run executes than the target."),
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
    "image-removed": Code(INFO, "The registry removed the image; it is there only where it was kept."),
    "no-tag": Code(INFO, "An image without a tag can be another one tomorrow."),
    "cpu-build": Code(WARNING, "The package is a CPU build; the GPU would stay unused."),
    "wrong-platform": Code(WARNING, "A wheel for Windows or macOS, and containers are Linux."),
    "wrong-python": Code(WARNING, "A wheel for another Python than the one that is pinned."),
    "cannot-install": Code(WARNING, "These versions of Python and a framework do not exist together."),
    "wrong-cuda": Code(WARNING, "The framework needs another CUDA than the image has."),
    "unpinned": Code(WARNING, "A package of hundreds of megabytes without a version."),
}
"""Every code, with its severity and what it means."""
