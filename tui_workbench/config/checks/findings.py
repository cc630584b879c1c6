"""Findings of checks, and their fixes.

A fix is a list of edits of the file with the finding. `Document.apply` applies them, and one undo reverts them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tui_workbench.config.schema.field_types import written
from tui_workbench.config.yaml_edit.syntax import Path
from tui_workbench.core.model import Problem

ERROR, WARNING, INFO = "error", "warning", "info"


class SetValue(NamedTuple):
    """An edit that sets the value at `path`."""

    path: Path
    value: Any


class Unset(NamedTuple):
    """An edit that removes the key or item at `path`."""

    path: Path


class MoveSecret(NamedTuple):
    """An edit that stores the value at `path` outside the project, and writes a reference to it."""

    path: Path


class RenameKey(NamedTuple):
    """An edit that renames the key at `path`."""

    path: Path
    name: str


class ReplaceText(NamedTuple):
    """An edit that replaces the characters from `start` to `end`. This edit is also possible in invalid YAML."""

    start: int
    end: int
    text: str


class WriteAsYaml(NamedTuple):
    """An edit that converts JSON to YAML. Keys without a value are omitted."""


Edit = SetValue | Unset | MoveSecret | RenameKey | ReplaceText | WriteAsYaml


class Fix(NamedTuple):
    """Edits that remove the cause of a finding."""

    title: str  # an imperative: "set nvidiaDocker: true"
    edits: tuple[Edit, ...]
    is_choice: bool = False  # True if the user must decide; `config fix` without a code does not apply it


def set_field(key: str, value: Any, *, is_choice: bool = False) -> Fix:
    """Return the fix that sets a field."""
    return Fix(f"set {key}: {written(value)}", (SetValue(tuple(key.split(".")), value),), is_choice)


def remove_field(key: str, name: str = "", *, is_choice: bool = False) -> Fix:
    """Return the fix that removes a field; `name` is the name of the field in the title."""
    return Fix(f"remove {name or key}", (Unset(tuple(key.split("."))),), is_choice)


class Finding(NamedTuple):
    """A problem in a file. Lines and columns count from 1; `start` and `end` are offsets into the text."""

    severity: str  # error: a run would fail; warning: a probable mistake; info: a better form exists
    code: str
    message: str  # a clause without a final period
    remedy: str  # a sentence
    file: str
    line: int
    column: int
    start: int
    end: int
    key: str = ""  # key of the field; "" for the whole file
    fix: Fix | None = None

    @property
    def problem(self) -> Problem:
        """The finding without its offsets and fix."""
        return Problem(self.file, self.line, self.column, self.severity, self.code, self.message, self.remedy)


def severity_rank(finding: Finding) -> int:
    """Return the sort key of a problem, which is higher for a worse problem."""
    return ("info", "warning", "error").index(finding.severity)


class Code(NamedTuple):
    """A kind of finding."""

    severity: str
    help: str


DATA_SOURCE_FILE = "data-source-file"

CODES: dict[str, Code] = {
    "syntax": Code(ERROR, "The text is not valid YAML."),
    "tab": Code(ERROR, "A line is indented with a tab, which YAML does not allow."),
    "missing-space": Code(
        ERROR, "Without a space after the colon, `Framework:Python` is one word, not a key and a value."
    ),
    "missing-comma": Code(ERROR, "A comma is missing between two entries of a JSON file."),
    "unclosed": Code(ERROR, "A quote or bracket is not closed."),
    "control-character": Code(ERROR, "The text contains a character that YAML does not allow."),
    "refused": Code(
        ERROR, "The file is unreadable, not UTF-8, too large or too deeply nested, or it has an invalid key or alias."
    ),
    "several-documents": Code(ERROR, "A line `...` or `---` ends the document; the rest of the file is ignored."),
    "ellipsis": Code(WARNING, "A line `...` precedes the first key; other YAML readers reject the file."),
    "not-a-map": Code(ERROR, "The file has no `key: value` lines."),
    "duplicate-key": Code(ERROR, "A key occurs more than once; YAML readers disagree on which value they use."),
    "wrong-type": Code(ERROR, "The value has the wrong type."),
    "wrong-choice": Code(ERROR, "The value is not one of the allowed words."),
    "wrong-form": Code(ERROR, "The value has an invalid format, such as a time limit that Slurm cannot read."),
    "reserved-option": Code(ERROR, "`extra` has an option of sbatch that the workbench controls."),
    "missing-value": Code(ERROR, "A key or list item has no value."),
    "missing-field": Code(ERROR, "A required field is missing."),
    "placeholder": Code(ERROR, "The value is a placeholder from a manual, such as `<ipAddress>`."),
    "indentation": Code(ERROR, "A line is indented as if it were part of the value above."),
    "bad-image": Code(ERROR, "Docker does not accept this image name."),
    "bad-address": Code(ERROR, "The address contains a user, a scheme or a wrong port, or is not a valid host name."),
    "bad-username": Code(ERROR, "The user name contains characters that `ssh` refuses."),
    "bad-variable": Code(ERROR, "The name of an environment variable is empty, or contains `=` or a NUL character."),
    "visible-secret": Code(
        ERROR, "The name of a secret variable is not made of letters, digits and `_`, so `ps` would show its value."
    ),
    "data-reference": Code(
        ERROR,
        "An item of `DataReferences` is impossible: the script cannot open its path, the workbench uses this path for "
        "its own files, two items overlap, or the data is on this machine but the target is another machine.",
    ),
    "data-outside": Code(
        WARNING,
        "A script or an argument names an existing path outside the project (`../NAME`), and `DataReferences` does not "
        "contain it.",
    ),
    "data-source": Code(WARNING, "The key is about data sources of Azure ML Workbench, and is ignored."),
    DATA_SOURCE_FILE: Code(
        WARNING,
        "Files of the project are data sources of Azure ML Workbench, or use them. `config check` reports this once.",
    ),
    "wrong-script": Code(ERROR, "The script is not a valid notebook, or is a data source of Azure ML Workbench."),
    "plain-password": Code(ERROR, "The file contains a password or passphrase in plain text."),
    "unknown-target": Code(ERROR, "`Target` names a compute target that does not exist."),
    "target-conflict": Code(ERROR, "A key of the SDK form disagrees with the compute target."),
    "missing-file": Code(ERROR, "A file that the run needs does not exist."),
    "pip-option": Code(
        ERROR, "An option of pip is not supported in this file. If no target builds the environment, it is a warning."
    ),
    "standard-library": Code(ERROR, "A listed package is a module of the Python standard library."),
    "unknown-key": Code(WARNING, "The field is unknown. It is kept, but has no effect."),
    "no-effect": Code(INFO, "The field has no effect on this type of target, or without another field."),
    "wrong-members": Code(
        ERROR,
        "`members` of a group names only one target, names a target twice, or names a target that does not exist or "
        "cannot be a member.",
    ),
    "one-node": Code(ERROR, "`Nodes` is more than 1, but this type of target does not support it."),
    "nodes-conflict": Code(ERROR, "`Nodes` and `Slurm.nodes` of a run configuration differ."),
    "early-signal": Code(
        WARNING, "`SignalBeforeEndMinutes` is not less than the time limit, so the script gets the signal at its start."
    ),
    "cannot-retry": Code(ERROR, "`Retry` is set, but runs on this type of target cannot be started again."),
    "old-form": Code(INFO, "The file uses an old form of a setting, which still works."),
    "json-form": Code(INFO, "The run configuration is JSON, the format before September 2017."),
    "other-spelling": Code(WARNING, "The value has an undocumented spelling."),
    "secret-in-file": Code(WARNING, "An environment variable looks like a secret in plain text."),
    "framework-missing": Code(WARNING, "Without `Framework`, a run starts Spark."),
    "framework-pyspark": Code(WARNING, "`Framework` is PySpark, but the script does not use Spark."),
    "not-prepared": Code(
        WARNING, "`PrepareEnvironment` is not true: a run fails unless its environment is already built."
    ),
    "gpu-unused": Code(
        WARNING, "The image has CUDA or ROCm, but without `nvidiaDocker: true` the container gets no GPU."
    ),
    "gpu-image-missing": Code(WARNING, "The container gets a GPU, but the image has neither CUDA nor ROCm."),
    "reservations-unused": Code(
        WARNING, "`gpuReservations` is set, but runs reserve GPUs only if `gpus` is `free` or a number."
    ),
    "processes-without-gpu": Code(ERROR, "`ProcessesPerNode` is `gpus`, but the target gives its runs no GPU."),
    "no-gpu-requested": Code(ERROR, "`RequireGpu` is true, but the Slurm job requests no GPU."),
    "nodes-without-gpu": Code(ERROR, "`ProcessesPerNode` is `gpus`, but the job has fewer GPUs than nodes."),
    "more-processes-than-gpus": Code(WARNING, "`ProcessesPerNode` exceeds the GPUs that a run has on each node."),
    "no-torch": Code(WARNING, "`ProcessesPerNode` is set, but the environment has no PyTorch."),
    "processes-with-spark": Code(ERROR, "`ProcessesPerNode` is set, but the framework is PySpark."),
    "notebook-launcher": Code(ERROR, "The script is a notebook, which torchrun and spark-submit cannot run."),
    "no-nbclient": Code(WARNING, "The script is a notebook, but the environment has no nbclient or ipykernel."),
    "local-master": Code(WARNING, "The target is a Spark cluster, but `spark.master` uses only its head node."),
    "no-spark": Code(WARNING, "The framework is PySpark, but the environment has no Spark or Java."),
    "spark-secret": Code(ERROR, "A Spark property looks like a secret; the command line of Spark would show it."),
    "old-scala": Code(INFO, "A Spark package is for Spark 2; runs with a newer Spark omit it."),
    "stale-image": Code(WARNING, "The image is outdated or too old for current GPUs."),
    "image-removed": Code(INFO, "The image was removed from its registry."),
    "no-tag": Code(INFO, "The image has no tag or the tag `latest`, so its content may change."),
    "cpu-build": Code(WARNING, "The package is a CPU build: it cannot use the GPU."),
    "wrong-platform": Code(WARNING, "The wheel is for Windows or macOS, but containers run Linux."),
    "wrong-python": Code(WARNING, "The wheel is not for the pinned Python version."),
    "cannot-install": Code(WARNING, "The framework does not support the pinned Python version."),
    "wrong-cuda": Code(WARNING, "The framework needs a CUDA version that the image does not have."),
    "unpinned": Code(WARNING, "A large package is not pinned to a version."),
}
"""The severity and meaning of each finding code."""
