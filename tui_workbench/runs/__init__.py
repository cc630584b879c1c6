"""Runs of a project: submit, follow, list, cancel. `Runs` is the facade; the other modules are its parts."""

from tui_workbench.runs.facade import Runs

__all__ = ["Runs"]
