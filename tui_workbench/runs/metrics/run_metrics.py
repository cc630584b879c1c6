"""Merge the metrics of a run from all sources. Each metric has a unique name, and comes from one source."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from functools import partial

from tui_workbench.config.schema.data_references import inside_project
from tui_workbench.core.files import load_json, open_regular
from tui_workbench.core.plaintext import counted
from tui_workbench.projects.project import root_of_state, state_of_run
from tui_workbench.runs.metrics.catalog import Entry, catalog, item_summaries, list_series, summary_of_curves
from tui_workbench.runs.metrics.discovery import Discovery, Root, Window
from tui_workbench.runs.metrics.output import MAYBE_METRIC, MOST_POINTS, Output
from tui_workbench.runs.metrics.parts import PART_POINTS, Parts
from tui_workbench.runs.metrics.rules import NAME, Rules, read_rules
from tui_workbench.runs.metrics.sessions import first_steps, sessions_of, valid_points
from tui_workbench.runs.metrics.stored import Contents, Stored, open_cache, read_summary
from tui_workbench.runs.metrics.tables import SdkFile, TableFile
from tui_workbench.runs.metrics.tail import Reader
from tui_workbench.runs.metrics.tensorboard import EventFile
from tui_workbench.runs.metrics.values import (
    LIST,
    MAX_ITEM_BYTES,
    MAX_ITEMS,
    MAX_NAMES,
    SDK,
    Begin,
    LoggedItem,
    MetricSummary,
    Series,
    joined,
)
from tui_workbench.runs.store.logged import logged_size
from tui_workbench.runs.store.rundir import LIVE, METRICS, OUTPUT, OUTPUTS, RECORD, WORKING_COPY, RunDirectory

MANY_BYTES, MANY_POINTS = 1 << 20, 500_000  # each takes about 0.2 s to read or to store

EVENT_FILE = "tfevents"  # TensorBoard recognizes event files by this part of the name


class RunMetrics:
    """The metrics of the run at `directory`, read incrementally.

    Keep an instance while a run is shown, and call `refresh` to read new data. Only `follow` and `follow_logged`, which
    the controller calls, change the run directory. The class is not thread-safe.
    """

    def __init__(self, directory: str, *, use_stored: bool = True, at_most: int = 0) -> None:
        """With `at_most`, read about this number of bytes of each log: half from its start and half from its end."""
        self._directory = directory
        self._use_stored, self._at_most = use_stored, at_most
        self._parts = Parts(directory)
        self._stored: Stored | None = None
        self._root, is_tracked, data = _project_of(directory)
        self._rules = read_rules(self._root)
        self._end_ns = 0
        self._logged = SdkFile(f"{directory}/{METRICS}", at_most=at_most)
        self._output = Output(f"{directory}/{OUTPUT}", self._rules, at_most=at_most)
        self._files: dict[str, Reader] = {}
        roots = [
            Root(f"{directory}/{OUTPUTS}", directory),
            Root(f"{directory}/{WORKING_COPY}", f"{directory}/{WORKING_COPY}"),
            Root(f"{directory}/{LIVE}", f"{directory}/{LIVE}/{WORKING_COPY}"),
        ]
        if self._root and not is_tracked:
            roots.append(Root(self._root, self._root, is_shared=True))  # other runs use the project too
        # Data sets may be large, and are not written by runs.
        skipped = {os.path.join(root.base, path) for root in roots for path in data}
        # Without a reference to itself, the object is freed as soon as it is not used any more.
        self._discovery = Discovery(roots, partial(_is_source, self._rules), skipped)
        self._catalog: dict[str, Entry] = {}
        self._catalog_state: list[tuple[int, int, int]] | None = None
        self._summaries: dict[str, tuple[list[tuple[float, ...]], MetricSummary]] = {}  # of curves with sessions
        self._later_attempts = 0
        self._has_read = self._has_read_summary = False

    def refresh(self, *, ended: bool = False) -> bool:
        """Read new data. Return True if there was new data. Pass `ended` if the script of an active run has ended."""
        if not self._end_ns:
            # Determine the end first, so that all data written before it is read below.
            self._end_ns = int(RunDirectory(self._directory).status().end * 1e9)  # 0 for an active run
            if self._end_ns and self._use_stored and not self._has_read:
                self._stored = open_cache(self._directory, self._rules.text)
                if self._stored is not None:
                    return True
        if self._stored is not None:
            return False
        if self._use_stored and not self._has_read and not self._at_most:
            self.restore_parts()
        self._has_read = True
        ended = ended or self._end_ns > 0
        self._read_attempts()
        has_new_data = self._logged.refresh()
        has_new_data = self._output.refresh(ended=ended) or has_new_data
        return self.refresh_files() or has_new_data

    def refresh_files(self) -> bool:
        """Find the files of metrics and read their new data, but not the logs. Return True if there was new data."""
        has_new_data = False
        for before, path in (*self._files_of_summary(), *self._discovery.search(self._window())):
            file = self._files.pop(before, None) or (EventFile if EVENT_FILE in os.path.basename(path) else TableFile)(
                path
            )
            file.tail.path = path  # outputs move out of the working copy when a run ends
            self._files[path] = file
        for path in [path for path in self._files if path.startswith(f"{self._directory}/{LIVE}/")]:
            if not os.path.exists(path):
                del self._files[path]  # the file was moved to its final folder, where the search finds it
        for file in self._files.values():
            has_new_data = file.refresh() or has_new_data
        return has_new_data

    def restore_parts(self) -> None:
        """Continue after the lines of `metrics.jsonl` that the controller has stored in parts. Call this first."""
        self._parts.restore(self._logged)

    def follow(self) -> bool:
        """Read the next piece of the growing files. Return False if little is unread.

        The controller calls this during the run, so that little of a long log is unread when the run ends.
        """
        if self.follow_logged():
            return True
        self._read_attempts()
        return self._output.follow()

    def _read_attempts(self) -> None:
        """Read where the attempts of the run begin. Call this before reading the output."""
        attempts = RunDirectory(self._directory).attempts()
        self._later_attempts = len(attempts)
        self._output.set_attempts(attempts)

    def follow_logged(self) -> bool:
        """Read the next piece of `metrics.jsonl`, and move many points to a part. Return False if little is unread."""
        if not self._logged.follow():
            return False
        if self._logged.columns.points >= PART_POINTS:
            with contextlib.suppress(OSError):  # the points stay in memory
                self._parts.add(self._logged)
        return True

    @property
    def takes_long(self) -> bool:
        """True if reading the rest of `metrics.jsonl` and storing all metrics takes longer than about 0.2 s."""
        return self._logged.tail.unread >= MANY_BYTES or self._logged.columns.points >= MANY_POINTS

    @property
    def rules_changed(self) -> bool:
        """True if the rules of the project have changed since they were read."""
        return read_rules(self._root).text != self._rules.text

    def summary(self) -> dict[str, MetricSummary]:
        """Return the summary of each metric by name. Numbers and texts that the SDK logged are first."""
        if self._stored is not None:
            return dict(self._stored.summary)
        summaries = {name: self._summary_of(name, entry) for name, entry in self._entries().items()}
        for name, summary in item_summaries(self._logged.columns, SDK).items():
            summaries.setdefault(name, summary)
        return summaries

    def _summary_of(self, name: str, entry: Entry) -> MetricSummary:
        begins = entry.begins(self._later_attempts)
        if not begins:
            return summary_of_curves(name, entry, ())
        # Finding the valid points of long curves takes time.
        state = [(curve.count, *curve.values[-1:]) for curve in entry.curves()]
        if name not in self._summaries or self._summaries[name][0] != state:
            with contextlib.suppress(OSError):  # a part was deleted; `series` reads its points again
                self._summaries[name] = state, summary_of_curves(name, entry, begins)
        return self._summaries[name][1] if name in self._summaries else summary_of_curves(name, entry, ())

    def series(self, name: str) -> Series:
        """Return the curve of a metric, or its last list as a curve over the indices; empty for an unknown name.

        If several attempts have logged the same steps, the curve contains the points of the last of these attempts.
        """
        return valid_points(*self._all_points(name))

    def replaced(self, name: str) -> list[Series]:
        """Return the points of each attempt that a later attempt has replaced. Empty curves are left out."""
        return [replaced for _, replaced in sessions_of(*self._all_points(name)) if replaced.values]

    def attempt_steps(self, name: str) -> dict[int, float]:
        """Return the first step of each attempt after the first, if its values can be distinguished."""
        return first_steps(*self._all_points(name))

    def _all_points(self, name: str) -> tuple[Series, list[Begin]]:
        """Return all points of a metric, and its sessions after the first."""
        if self._stored is not None and name in self._stored:
            stored = self._stored.series(name)
            if stored is not None:
                return stored, self._stored.begins.get(name, [])
            # The cache was deleted while it was open.
            self._stored, self._use_stored = None, False
            self.refresh()
        entry = self._entries().get(name)
        if entry is not None:
            try:
                return Series(*(column[:] for column in entry.series())), entry.begins(self._later_attempts)
            except OSError:  # a part was deleted
                self._logged, self._catalog_state = SdkFile(self._logged.path, at_most=self._at_most), None
                self.refresh()
                return self._all_points(name)
        lists = [item for item in self._items() if item.kind == LIST and item.name == name]
        return list_series(lists[-1].value if lists else None), []

    def items(self, kind: str) -> list[LoggedItem]:
        """Return the logged items of a kind in `values.KINDS`, such as lists or images, in the order of logging."""
        return [self._with_current_path(item) for item in self._items() if item.kind == kind]

    def notes(self) -> list[str]:
        """Return notes about data that could not be read or was not kept."""
        if self._stored is not None:
            return list(self._stored.notes)
        notes = [f"{NAME}: {mistake}" for mistake in self._rules.mistakes]
        for source in (self._logged, self._output, *self._files.values()):
            name, columns = os.path.relpath(source.path, self._directory), source.columns
            if columns.problem:
                notes.append(f"{name}: {columns.problem}")
            if columns.unreadable:
                notes.append(f"{name}: {counted(columns.unreadable, 'unreadable record')}")
            if columns.dropped_points:
                values = counted(columns.dropped_points, "value")
                notes.append(f"{name}: more than {MAX_NAMES:,} metric names; {values} left out")
            if columns.dropped_items:
                notes.append(
                    f"{name}: more than {MAX_ITEMS:,} lists, tables and other items, or more than "
                    f"{MAX_ITEM_BYTES >> 20} MiB; {columns.dropped_items:,} left out"
                )
            if columns.damaged_at >= 0:
                notes.append(f"{name}: damaged from byte {columns.damaged_at:,}")
        if self._output.tail.skipped:
            megabytes = max(self._output.tail.skipped / 1e6, 0.1)
            notes.append(f"{OUTPUT}: too long to read at once; {megabytes:,.1f} MB were not searched for metrics")
        if self._output.columns.is_thinned:
            notes.append(f"{OUTPUT}: more than {MOST_POINTS:,} values, so curves show only minima and maxima")
        if self._discovery.is_cut:
            notes.append("too many files, so not all of them were searched for metrics")
        return notes

    def contents(self) -> Contents:
        """Return the data to store at the end of the run."""
        entries, real = self._entries(), os.path.realpath(self._directory)
        return Contents(
            summary=self.summary(),
            series={name: joined(parts) for name, entry in entries.items() if (parts := entry.in_memory())},
            items=self._logged.columns.items,
            notes=self.notes(),
            # Store real paths, because links in the working copy are removed when the run ends.
            files=[os.path.relpath(os.path.realpath(path), real) for path in sorted(self._files)],
            rules=self._rules.text,
            points=sum(source.columns.points for source in (self._logged, self._output, *self._files.values())),
            is_long=self._output.is_long,
            parts=self._parts.count(self._logged),
            begins={name: begins for name, entry in entries.items() if (begins := entry.begins(self._later_attempts))},
        )

    def _items(self) -> list[LoggedItem]:
        return self._logged.columns.items if self._stored is None else self._stored.items()

    def _entries(self) -> dict[str, Entry]:
        sources: list[Reader] = [self._logged, *sorted(self._files.values(), key=_order), self._output]
        # Compare the identity too: a file that is read again has new columns, possibly with the same number of names.
        state = [(id(source.columns), len(source.columns.curves), len(source.columns.texts)) for source in sources]
        if state != self._catalog_state:
            self._catalog, self._catalog_state = catalog(sources, self._rules.ignores), state
        return self._catalog

    def _files_of_summary(self) -> Iterator[tuple[str, str]]:
        """Yield files that were found through links in the working copy. Such links are removed when a run ends."""
        if not self._end_ns or self._has_read_summary:
            return
        self._has_read_summary = True
        stored = read_summary(self._directory) or {}
        root = os.path.realpath(self._root or self._directory)
        for name in stored.get("files", ()):
            path = os.path.realpath(os.path.join(os.path.realpath(self._directory), str(name)))
            if path.startswith(f"{root}/") and self._discovery.add(path):
                yield "", path

    def _window(self) -> Window:
        try:
            return Window(RunDirectory(self._directory).copied_at, self._end_ns)
        except OSError:
            return Window(0, self._end_ns)

    def _with_current_path(self, item: LoggedItem) -> LoggedItem:
        """Return the item with the current path of its file. Outputs move out of the working copy when a run ends."""
        if not item.path or os.path.exists(f"{self._directory}/{item.path}"):
            return item
        inside = f"{WORKING_COPY}/{item.path}"
        return item._replace(path=inside) if os.path.exists(f"{self._directory}/{inside}") else item


def _is_source(rules: Rules, name: str, path: str) -> bool:
    return (rules.tensorboard and EVENT_FILE in name) or rules.is_table(name, path)


def _project_of(directory: str) -> tuple[str, bool, frozenset[str]]:
    """Return the project of a run ("" if its record is unreadable), whether it has a working copy, and its data.

    The data is a set of paths relative to the project.
    """
    root = root_of_state(state_of_run(directory))
    try:
        record = load_json(f"{directory}/{RECORD}")
        is_tracked = bool(record["run_configuration"]["tracked_run"] or record["snapshot"] != "none")
        references = record["run_configuration"].get("data_references", ())
        data = frozenset(inside_project(root, opened) for opened in references)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return "", False, frozenset()
    return root, is_tracked, data


def _order(file: Reader) -> tuple[float, str]:
    """Return a sort key for files. Event files are sorted by creation time, which their names contain."""
    parts = os.path.basename(file.path).split(".tfevents.")
    digits = parts[-1].split(".")[0] if len(parts) > 1 else ""
    return (float(digits) if digits.isdecimal() else math.inf, file.path)


SMALL = 64 << 10  # number of bytes of a log that `has_no_metrics` reads


def has_no_metrics(directory: str) -> bool:
    """Return True if a run certainly has no metrics. This is fast enough for a list of 10,000 runs."""
    head = _head(f"{directory}/{OUTPUT}")
    return not (
        len(head) > SMALL
        or MAYBE_METRIC.search(head)
        or logged_size(directory) > 0
        or any(_holds(f"{directory}/{name}") for name in (OUTPUTS, WORKING_COPY, LIVE))
    )


def _head(path: str) -> bytes:
    try:
        with open_regular(path) as file:
            return file.read(SMALL + 1)
    except OSError:
        return b""


def _holds(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(True for _ in entries)
    except OSError:
        return False
