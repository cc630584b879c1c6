"""`get_azureml_logger`, as scripts of Azure ML Workbench know it."""

import workbench

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

__all__ = ["AzureMLLogger", "get_azureml_logger"]


def log_anything(name: "str", value: "Any", step: "Optional[float]" = None) -> "None":
    """Log a value as the original does, which ends no script for one of a type that it cannot draw."""
    try:
        workbench.log(name, value, step)
    except TypeError:
        workbench.log(str(name), str(value), step)


class AzureMLLogger:
    """Logs metrics of the run, and files."""

    def log(self, name: "str", value: "Any") -> "AzureMLLogger":
        """Log a number, a text, or a list of numbers, which becomes a chart."""
        log_anything(name, value)
        return self

    def upload(self, path: "str", content: "Any") -> "AzureMLLogger":
        """Keep `content` as the file `path` among the outputs of the run."""
        workbench.upload_content(path, content)
        return self

    def wait(self) -> "None":
        """Wait until everything has arrived: it has."""


def get_azureml_logger() -> "AzureMLLogger":
    """The logger of this run; outside of a run what it is told goes nowhere."""
    return AzureMLLogger()
