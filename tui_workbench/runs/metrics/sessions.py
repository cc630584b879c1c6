"""Curves of a training that was resumed: which points are valid, and which were replaced.

A source of metrics has *sessions*: the output of each attempt, the values that each attempt logs with `workbench`, the
event files of a folder that follow each other in time, and the rows of a table after a repeated header. Each session
continues from a checkpoint, and repeats the steps after this checkpoint. Therefore, the points of a session replace the
points of earlier sessions at its first step and at later steps. The event `SessionLog.START` of TensorBoard gives the
first step explicitly (`purge_step`).

A step that goes back within a session replaces nothing: a script may log its steps in any order, or begin each epoch
with step 0.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence

from tui_workbench.runs.metrics.values import Begin, Series, joined


def sessions_of(series: Series, begins: Sequence[Begin]) -> list[tuple[Series, Series]]:
    """Return the valid and the replaced points of each session, in order."""
    sessions = []
    # Go backwards, because `limit` is the smallest step from which a later session replaces points.
    limit, end = math.inf, len(series.values)
    for begin in reversed((Begin(0), *begins)):
        valid = part = Series(*(column[begin.index : end] for column in series))
        replaced = [index for index, step in enumerate(part.steps) if step >= limit] if limit < math.inf else []
        if replaced:
            left_out = set(replaced)
            valid = _points_of(part, [index for index in range(len(part.steps)) if index not in left_out])
        sessions.append((valid, _points_of(part, replaced)))
        limit = min(limit, begin.floor, min((step for step in part.steps if step == step), default=math.inf))
        end = begin.index
    return sessions[::-1]


def valid_points(series: Series, begins: Sequence[Begin]) -> Series:
    """Return the points that no later session has replaced. Without sessions, this is `series` itself."""
    if not begins:
        return series
    return joined([valid for valid, _ in sessions_of(series, begins)])


def first_steps(series: Series, begins: Sequence[Begin]) -> dict[int, float]:
    """Return the first step of each session after the first by the number of its attempt, if both are known."""
    ends = [*(begin.index for begin in begins[1:]), len(series.values)]
    return {
        begin.number: series.steps[begin.index]
        for begin, end in zip(begins, ends, strict=False)
        if begin.number and begin.index < min(end, len(series.steps))
    }


def backward_steps(steps: Sequence[float], most: int) -> list[Begin]:
    """Return the begins of sessions at the steps that go back, or [] if there are more than `most` of them.

    This is for tables without other signs of a new session: the number of attempts bounds the number of sessions.
    """
    begins: list[Begin] = []
    for index in range(1, len(steps) if most else 0):
        if steps[index] <= steps[index - 1]:
            begins.append(Begin(index))
            if len(begins) > most:
                return []
    return begins


def _points_of(series: Series, indices: Sequence[int]) -> Series:
    return Series(*(array("d", [column[index] for index in indices]) for column in series))
