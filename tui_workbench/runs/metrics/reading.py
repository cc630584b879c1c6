"""All sources of one run as one set of metrics."""

from __future__ import annotations

import json
import math
import os
from array import array

from tui_workbench.records import TYPE_CHECKING, NamedTuple
from tui_workbench.runs.metrics.catalog import catalog, item_summaries, list_series, series_of, summaries
from tui_workbench.runs.metrics.columns import MAX_ITEMS, MAX_NAMES
from tui_workbench.runs.metrics.discovery import Discovery, Root, Window
from tui_workbench.runs.metrics.logged import Logged
from tui_workbench.runs.metrics.output import LIMIT, Output
from tui_workbench.runs.metrics.rules import NAME, Rules, read_rules
from tui_workbench.runs.metrics.stored import Contents, open_cache, read_summary
from tui_workbench.runs.metrics.values import LIST, SDK, Series
from tui_workbench.runs.rundir import LIVE, METRICS, OUTPUT, OUTPUTS, RECORD, WORKING_COPY, RunDirectory

if TYPE_CHECKING:
    from tui_workbench.runs.metrics.catalog import Entry, Source
    from tui_workbench.runs.metrics.stored import Stored
    from tui_workbench.runs.metrics.tables import Table
    from tui_workbench.runs.metrics.tensorboard import EventFile
    from tui_workbench.runs.metrics.values import LoggedItem, MetricSummary


EVENT_FILE = "tfevents"
"""What TensorBoard itself knows event files by: it stands in their names."""


class Place(NamedTuple):
    """Where a run's script writes."""

    project_root: str
    shared: tuple[str, ...]  # folders that other runs write into as well


class RunMetrics:
    """The metrics of the run at `directory`, read incrementally. Reading never writes into the run.

    A caller keeps one for as long as it shows the run, and calls `refresh` whenever it wants to know what is new. Not
    for several threads at once.
    """

    def __init__(self, directory: str, *, use_stored: bool = True, at_most: int = 0) -> None:
        """With `at_most`, no more than so many bytes of each log are read: enough for the last values of most."""
        self._directory = directory
        self._use_stored = use_stored
        self._stored: Stored | None = None
        self._place = place_of(directory)
        self._rules = read_rules(self._place.project_root) if self._place.project_root else Rules()
        self._end_ns = 0
        self._logged = Logged(f"{directory}/{METRICS}", at_most=at_most)
        self._output = Output(f"{directory}/{OUTPUT}", self._rules, at_most=at_most)
        self._files: dict[str, EventFile | Table] = {}
        roots = [
            Root(f"{directory}/{OUTPUTS}", directory),
            Root(f"{directory}/{WORKING_COPY}", f"{directory}/{WORKING_COPY}"),
            Root(f"{directory}/{LIVE}", f"{directory}/{LIVE}/{WORKING_COPY}"),
            *(Root(path, path, is_shared=True) for path in self._place.shared),
        ]
        self._discovery = Discovery(roots, self._is_wanted)
        self._catalog: dict[str, Entry] = {}
        self._known: list[tuple[int, int, int]] | None = None
        self._has_read = self._has_noted = False

    def refresh(self, *, ended: bool = False) -> bool:
        """Read what is new; True when something came. `ended` says that nothing will follow, to who has not read it."""
        if not self._end_ns:
            # Before anything is read: what was written before the end is read then.
            self._end_ns = self._end()
            if self._end_ns and self._use_stored and not self._has_read:
                self._stored = open_cache(self._directory, self._rules.text)
                if self._stored is not None:
                    return True
        if self._stored is not None:
            return False
        self._has_read = True
        ended = ended or self._end_ns > 0
        something = self._logged.refresh()
        something = self._output.refresh(ended=ended) or something
        for before, path in (*self._noted(), *self._discovery.look(Window(self._begun(), self._end_ns))):
            file = self._files.pop(before, None)
            file = _reader(path) if file is None else file
            file.move(path)
            self._files[path] = file
        for path in [path for path in self._files if self._was_only_live(path)]:
            del self._files[path]
        for file in self._files.values():
            something = file.refresh() or something
        return something

    def summary(self) -> dict[str, MetricSummary]:
        """Every metric by its name, those that the script logged itself first."""
        if self._stored is not None:
            return dict(self._stored.summary)
        found = summaries(self._entries())
        for name, summary in item_summaries(self._logged.columns, SDK).items():
            found.setdefault(name, summary)
        return found

    def series(self, name: str) -> Series:
        """The curve of a metric; of a list its last one over its places. Empty when there is none of this name."""
        if self._stored is not None and name in self._stored:
            stored = self._stored.series(name)
            if stored is not None:
                return stored
            # The cache was deleted while it was open.
            self._stored, self._use_stored = None, False
            self.refresh()
        entry = self._entries().get(name)
        if entry is not None:
            return series_of(entry)
        lists = [item for item in self._items() if item.kind == LIST and item.name == name]
        return list_series(lists[-1].value) if lists else Series(array("d"), array("d"), array("d"))

    def items(self, kind: str) -> list[LoggedItem]:
        """What was logged of a kind: lists, rows, tables, confusion matrices, images, tags or uploads, in order."""
        return [self._placed(item) for item in self._items() if item.kind == kind]

    def notes(self) -> list[str]:
        """What a person should know of what could not be read or is not kept, a sentence each."""
        if self._stored is not None:
            return list(self._stored.notes)
        found = [f"{NAME}: {mistake}" for mistake in self._rules.mistakes]
        for source in (self._logged, self._output, *self._files.values()):
            name, columns = os.path.relpath(source.path, self._directory), source.columns
            if columns.unreadable:
                found.append(f"{name}: {columns.unreadable:,} lines or records could not be understood")
            if columns.beyond:
                found.append(
                    f"{name}: it has more than {MAX_NAMES:,} names; {columns.beyond:,} values of others are not shown"
                )
            if columns.items_beyond:
                found.append(f"{name}: {columns.items_beyond:,} lists and tables beyond {MAX_ITEMS:,} are not shown")
            if columns.damaged_at >= 0:
                found.append(f"{name}: damaged from byte {columns.damaged_at:,} on")
        if self._output.is_cut:
            found.append(f"{OUTPUT}: only its first {LIMIT >> 20} MB are looked at for metrics")
        if self._discovery.is_cut:
            found.append("the run has so many files that not all were looked at for metrics")
        return found

    def contents(self) -> Contents:
        """All of it, to be stored."""
        entries = self._entries()
        return Contents(
            summary=self.summary(),
            series={name: series_of(entry) for name, entry in entries.items() if entry.curves()},
            items=self._logged.columns.items,
            notes=self.notes(),
            files=[self._real(path) for path in sorted(self._files)],
            rules=self._rules.text,
            points=sum(source.columns.points for source in (self._logged, self._output, *self._files.values())),
        )

    def _items(self) -> list[LoggedItem]:
        return self._logged.columns.items if self._stored is None else self._stored.items()

    def _entries(self) -> dict[str, Entry]:
        sources: list[Source] = [self._logged, *sorted(self._files.values(), key=_order)]
        sources.append(self._output)
        # By identity: a file that is read anew has other columns, which may have as many names.
        known = [(id(source.columns), len(source.columns.curves), len(source.columns.texts)) for source in sources]
        if known != self._known:
            self._catalog, self._known = catalog(sources, self._rules.ignores), known
        return self._catalog

    def _is_wanted(self, name: str, path: str) -> bool:
        return (self._rules.tensorboard and EVENT_FILE in name) or self._rules.is_table(name, path)

    def _was_only_live(self, path: str) -> bool:
        """Whether a file of a run elsewhere has come home since: it is found in its own place now."""
        return path.startswith(f"{self._directory}/{LIVE}/") and not os.path.exists(path)

    def _real(self, path: str) -> str:
        """Where a file really is, from the run's folder: links of the working copy go when the run ends."""
        return os.path.relpath(os.path.realpath(path), os.path.realpath(self._directory))

    def _noted(self) -> list[tuple[str, str]]:
        """Files that were found while the run was going on, in folders that only links of its copy led to."""
        if not self._end_ns or self._has_noted:
            return []
        self._has_noted = True
        stored = read_summary(self._directory) or {}
        root = os.path.realpath(self._place.project_root or self._directory)
        found = []
        for name in stored.get("files", ()):
            path = os.path.realpath(os.path.join(os.path.realpath(self._directory), str(name)))
            if path.startswith(f"{root}/") and self._discovery.add(path):
                found.append(("", path))
        return found

    def _begun(self) -> int:
        """Since when what is younger is the run's, in nanoseconds since the epoch."""
        try:
            return RunDirectory(self._directory).copied_at
        except OSError:
            return 0

    def _end(self) -> int:
        """When the run ended, in nanoseconds since the epoch; 0 while it goes on."""
        return int(RunDirectory(self._directory).status().end * 1e9)

    def _placed(self, item: LoggedItem) -> LoggedItem:
        """The item with its file where that is by now: outputs move out of the working copy when the run ends."""
        if not item.path or os.path.exists(f"{self._directory}/{item.path}"):
            return item
        inside = f"{WORKING_COPY}/{item.path}"
        return item._replace(path=inside) if os.path.exists(f"{self._directory}/{inside}") else item


def place_of(directory: str) -> Place:
    """Where the script of the run at `directory` writes, as far as its record can be read."""
    path = f"{directory}/{RECORD}"
    try:
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
        root, working_directory = record["project_root"], record["working_directory"]
        tracked = record["run_configuration"]["tracked_run"] or record["snapshot"] != "none"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return Place("", ())
    if not isinstance(root, str) or not isinstance(working_directory, str):
        return Place("", ())
    return Place(root, () if tracked else (working_directory,))


def _reader(path: str) -> EventFile | Table:
    """The reader of a file that was found."""
    # Most runs have neither, and to load what reads them takes as long as to read most others.
    if EVENT_FILE in os.path.basename(path):
        from tui_workbench.runs.metrics.tensorboard import EventFile

        return EventFile(path)
    from tui_workbench.runs.metrics.tables import Table

    return Table(path)


def _order(file: EventFile | Table) -> tuple[float, str]:
    """Event files of a folder in the order in which they were begun, which their names tell."""
    parts = os.path.basename(file.path).split(".tfevents.")
    digits = parts[-1].split(".")[0] if len(parts) > 1 else ""
    return (float(digits) if digits.isdigit() else math.inf, file.path)
