"""How a machine over SSH is attached, whose Python or Spark executes the scripts."""

from __future__ import annotations

from typing import Any

from tui_workbench.targets.base.attaching import PYTHON, Attaching, Values, python_of


class PythonAttaching(Attaching):
    """A machine that executes scripts with its Python."""

    label = "Python over SSH"
    explanation = "Python over SSH"
    fields = (PYTHON,)

    def compute(self, values: Values) -> dict[str, Any]:
        return {"pythonLocation": python_of(values), "userManagedEnvironment": True}


class SparkAttaching(PythonAttaching):
    """A machine that submits scripts to a Spark cluster."""

    label = "Spark over SSH"
    explanation = "Spark"

    def run_configuration(self, project_root: str) -> dict[str, Any]:
        """Azure ML Workbench wrote PySpark for every type, but machines of other types may not have Spark."""
        return {"Framework": "PySpark"}
