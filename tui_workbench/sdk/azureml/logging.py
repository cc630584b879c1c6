"""The module `azureml.logging` of Azure ML Workbench."""

import workbench

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

__all__ = ["AzureMLLogger", "get_azureml_logger"]


def log_anything(name: "str", value: "Any", step: "Optional[float]" = None) -> "None":
    """Log a value. As in Azure ML Workbench, a value of an unsupported type is logged as a string."""
    try:
        workbench.log(name, value, step)
    except TypeError:
        workbench.log(str(name), str(value), step)


class AzureMLLogger:
    """Logger for metrics and files of the run."""

    def log(self, name: "str", value: "Any") -> "AzureMLLogger":
        log_anything(name, value)
        return self

    def upload(self, path: "str", content: "Any") -> "AzureMLLogger":
        """Write `content` to the file `path` in the outputs of the run."""
        workbench.upload_content(path, content)
        return self

    def wait(self) -> "None":
        """Do nothing, because each call is written immediately."""


def get_azureml_logger() -> "AzureMLLogger":
    """Return the logger of this run. Outside a run, nothing is logged."""
    return AzureMLLogger()
