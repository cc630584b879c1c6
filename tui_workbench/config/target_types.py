"""Types of compute targets that other packages have installed.

A package adds one with an entry point in the group `tui_workbench.targets`, named like the `type` in a `.compute` file.
"""

from __future__ import annotations

from functools import cache

ENTRY_POINT_GROUP = "tui_workbench.targets"


@cache
def installed() -> frozenset[str]:
    """The types, as they were when this process first asked: an editor asks with each key."""
    from importlib.metadata import entry_points

    return frozenset(entry_points(group=ENTRY_POINT_GROUP).names)
