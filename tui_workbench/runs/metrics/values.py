"""What a run has logged, as immutable values. Nothing here reads a file."""

from __future__ import annotations

from tui_workbench.records import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from array import array

SCALAR, TEXT, LIST, ROW, TABLE, CONFUSION, IMAGE = "scalar", "text", "list", "row", "table", "confusion", "image"
TAG, UPLOAD = "tag", "upload"
KINDS = frozenset((SCALAR, TEXT, LIST, ROW, TABLE, CONFUSION, IMAGE, TAG, UPLOAD))
"""What a logged thing can be. Tags and uploads are no metrics: they are among the items only."""

SDK, TENSORBOARD, FILE, OUTPUT = "sdk", "tensorboard", "file", "output"
SOURCES = (SDK, TENSORBOARD, FILE, OUTPUT)
"""Where a metric comes from. Of two sources that know the same name the one named first counts."""


class Series(NamedTuple):
    """The course of one metric, in the order in which it was logged; the three are equally long."""

    steps: array[float]
    values: array[float]
    times: array[float]  # seconds since the epoch; NaN where it is not known


class MetricSummary(NamedTuple):
    """What a table shows of one metric."""

    name: str
    kind: str  # SCALAR, TEXT, LIST, ROW, TABLE, CONFUSION or IMAGE
    last: float | str | None  # of what is no scalar and no text: None
    count: int  # type: ignore[assignment]  # the tuple's own method of this name is of no use here
    minimum: float  # NaN where there is no number
    maximum: float
    source: str  # SDK, TENSORBOARD, FILE or OUTPUT


class LoggedItem(NamedTuple):
    """Something logged that is no point of a curve."""

    kind: str  # LIST, ROW, TABLE, CONFUSION, IMAGE, TAG or UPLOAD
    name: str
    value: object = None  # as JSON has it; a LIST is a list, a ROW a dict of columns, a TABLE a dict of lists, ...
    step: float | None = None
    time: float = 0.0  # seconds since the epoch; 0.0 where it is not known
    path: str = ""  # IMAGE, UPLOAD: relative to the run directory; "" when it leads out of it


LONGEST_LINE = 2000
"""Bytes of a line of output: one beyond this is data, and a regular expression could take long over it."""


class Found(NamedTuple):
    """A metric in a line of output."""

    name: str
    value: float
    step: float | None
    refreshed: bool  # it is from a bar, which writes the same line again and again
