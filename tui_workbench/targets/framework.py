"""What every target that starts plain Python asks of a run, before anything is done."""

from __future__ import annotations

from tui_workbench.errors import ConfigurationError
from tui_workbench.project import line_of_key
from tui_workbench.records import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tui_workbench.model import RunConfiguration


def require_python(configuration: RunConfiguration) -> None:
    """Raise ConfigurationError when the run configuration wants Spark."""
    if configuration.framework.lower() == "python":
        return
    said = (
        "Framework is PySpark" if "Framework" in configuration.values else "Framework is missing, which means PySpark"
    )
    raise ConfigurationError(
        f"{said}, and Spark runs are not supported yet",
        remedy="Set `Framework: Python`.",
        file=configuration.path,
        line=line_of_key(configuration.path, "Framework"),
    )


def refuse_impossible(path: str, variables: Mapping[str, str], command: Sequence[str]) -> None:
    """Raise ConfigurationError for variables and arguments that no process can be given; `path` is the runconfig."""
    names = [name for name in variables if not name or "=" in name or "\0" in name]
    if names:
        raise ConfigurationError(
            f"{names[0]!r} can be no name of a variable",
            remedy="Give it another name.",
            file=path,
            line=line_of_key(path, "EnvironmentVariables"),
        )
    if any("\0" in text for text in (*variables.values(), *command)):
        raise ConfigurationError(
            "a variable's value or an argument holds a NUL character", remedy="No process can be given one.", file=path
        )
