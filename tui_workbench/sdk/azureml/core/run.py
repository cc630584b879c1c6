"""`Run`, the class with which training scripts log to their run."""

import json

import workbench

from azureml.logging import log_anything

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional, Sequence

__all__ = ["Run"]


class Run:
    """The run of the script. Outside a run, nothing is logged."""

    def __init__(self) -> "None":
        self._tags = {}  # type: Dict[str, Optional[str]]

    @classmethod
    def get_context(cls, allow_offline: "bool" = True, **_: "Any") -> "Run":
        """Return the run of the script. Raises RuntimeError outside a run, unless `allow_offline` is true."""
        if not allow_offline and not workbench.in_run():
            raise RuntimeError("not in a run of the workbench: submit the script, or set allow_offline=True")
        return cls()

    @classmethod
    def get_submitted_run(cls, **_: "Any") -> "Run":
        return cls.get_context()

    @property
    def id(self) -> "str":
        return workbench.run_id() or "OfflineRun"

    @property
    def tags(self) -> "Dict[str, Optional[str]]":
        """The tags that this object has set."""
        return dict(self._tags)

    def log(self, name: "str", value: "Any", description: "str" = "", step: "Optional[float]" = None) -> "None":
        log_anything(name, value, step)

    def log_list(self, name: "str", value: "Any", description: "str" = "", step: "Optional[float]" = None) -> "None":
        workbench.log_list(name, value, step)

    def log_row(self, name: "str", description: "Any" = None, **columns: "Any") -> "None":
        workbench.log_row(name, columns)

    def log_table(self, name: "str", value: "Any", description: "str" = "", step: "Optional[float]" = None) -> "None":
        workbench.log_table(name, value, step)

    def log_confusion_matrix(self, name: "str", value: "Any", description: "str" = "") -> "None":
        """Log a confusion matrix: `{"data": {"class_labels": [...], "matrix": [...]}}`."""
        data = json.loads(value) if isinstance(value, str) else value
        data = data.get("data", data) if isinstance(data, dict) else {"matrix": data}
        workbench.log_confusion_matrix(name, data["matrix"], data.get("class_labels"))

    def log_image(
        self,
        name: "str",
        path: "Any" = None,
        plot: "Any" = None,
        description: "str" = "",
        step: "Optional[float]" = None,
    ) -> "None":
        """Log the image file `path`, or `plot`: a Matplotlib figure or the module `matplotlib.pyplot`.

        Raises ValueError unless exactly one of them is given.
        """
        if (path is None) == (plot is None):
            raise ValueError("give either path or plot")
        workbench.log_image(name, path if plot is None else plot, step)

    def upload_file(self, name: "str", path_or_stream: "Any", *_: "Any", **__: "Any") -> "None":
        if hasattr(path_or_stream, "read"):
            workbench.upload_content(name, path_or_stream)
        else:
            workbench.upload(path_or_stream, name)

    def upload_files(self, names: "Sequence[str]", paths: "Sequence[str]", *_: "Any", **__: "Any") -> "None":
        for name, path in zip(names, paths):
            workbench.upload(path, name)

    def upload_folder(self, name: "str", path: "str", *_: "Any", **__: "Any") -> "None":
        workbench.upload(path, name)

    def tag(self, key: "str", value: "Any" = None) -> "None":
        self._tags[key] = None if value is None else str(value)
        workbench.tag(key, value)

    def set_tags(self, tags: "Dict[str, Any]") -> "None":
        for key, value in tags.items():
            self.tag(key, value)

    def get_tags(self) -> "Dict[str, Optional[str]]":
        return self.tags

    def flush(self, timeout_seconds: "float" = 300) -> "None":
        """Do nothing: every call is written at once."""

    def complete(self, _set_status: "bool" = True) -> "None":
        """Do nothing: a run is complete when the script ends."""
