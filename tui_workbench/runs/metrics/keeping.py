"""What a controller does about metrics: reads them once when the run has ended, and keeps what it read.

They are derived from what the script wrote, so whatever goes wrong here costs a run nothing: it is noted, and who looks
at the run reads them anew.
"""

from __future__ import annotations

from tui_workbench.records import TYPE_CHECKING
from tui_workbench.runs.metrics.reading import RunMetrics
from tui_workbench.runs.metrics.stored import write

if TYPE_CHECKING:
    from tui_workbench.runs.rundir import RunDirectory


class Keeper:
    """Keeps the metrics of one run; nothing that it meets stands in the way of the run's end."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._metrics: RunMetrics | None = None

    def look(self) -> None:
        """Read what there is by now: links of the working copy, and what they lead to, go when that is settled."""
        try:
            self._metrics = RunMetrics(self._directory.path, use_stored=False)
            self._metrics.refresh(ended=True)
        # Of a million strange files one may show a fault of ours; the run has ended all the same.
        except Exception as error:
            self._complain(error)

    def keep(self) -> None:
        """Read what has come since, and store it."""
        if self._metrics is None:
            return
        try:
            self._metrics.refresh(ended=True)
            contents = self._metrics.contents()
            if contents.summary or contents.items or contents.notes:
                write(self._directory.path, contents)
        except Exception as error:
            self._complain(error)

    def _complain(self, error: Exception) -> None:
        self._metrics = None
        self._directory.append_event("step", step="metrics", reason=f"not kept: {type(error).__name__}: {error}")
