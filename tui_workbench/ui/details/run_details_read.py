"""Read the content of the details tabs from a run directory, as lines or lists of files.

All functions block; call them in threads. A damaged part of the directory is described and does not hide other parts.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, starmap, zip_longest
from typing import Any

from tui_workbench.core.causes import EXIT_CODE, kinds_of
from tui_workbench.core.errors import RunNotFound, WorkbenchError
from tui_workbench.core.files import load_json, open_regular
from tui_workbench.core.model import Run, Step
from tui_workbench.core.notebooks import LARGEST, parse_notebook, too_large
from tui_workbench.core.plaintext import counted
from tui_workbench.core.progress import size_text
from tui_workbench.runs.gpu.verdict import stored_verdict
from tui_workbench.runs.index.damages import damage_notes, damaged_files
from tui_workbench.runs.snapshots.snapshot_view import snapshot_content, snapshot_files
from tui_workbench.runs.stacks import read_stacks
from tui_workbench.runs.store.attempts import attempts_of
from tui_workbench.runs.store.rundir import PROVENANCE, STACKS, RunDirectory
from tui_workbench.runs.transfer.downloads import artifact_path, attachments
from tui_workbench.targets.hosts.data import describe_data
from tui_workbench.ui.charts.chart_scale import number, span_label
from tui_workbench.ui.editor.notebook_view import notebook_lines
from tui_workbench.ui.logs.stacks_panel import stack_lines
from tui_workbench.ui.terminal.safetext import safe_text
from tui_workbench.ui.widgets.pieces import Piece
from tui_workbench.ui.widgets.text_view import Line

PREVIEW_BYTES = 256 << 10
PREVIEW_LINES = 5_000
LONGEST_LINE = 2_000
LABEL_CELLS = 16

_KINDS = {
    b"\x89PNG": "PNG image",
    b"\xff\xd8\xff": "JPEG image",
    b"GIF8": "GIF image",
    b"PK\x03\x04": "ZIP archive",
    b"\x1f\x8b": "gzip data",
    b"\x7fELF": "ELF file",
    b"\x89HDF": "HDF5 data",
}

# --- Files


def outputs_of(run: Run) -> list[tuple[str, str]]:
    """Return the path and the size of each output and other file of a run."""
    files = []
    for name in attachments(run.directory):
        with suppress(OSError):  # the file was removed in the meantime
            files.append((name, size_text(os.lstat(os.path.join(run.directory, name)).st_size)))
    return files


def snapshot_of(state_directory: str, run: Run) -> list[tuple[str, str]]:
    """Return the path of each file in the run's snapshot, with its size or `link`; [] without a snapshot.

    Raises StorageError.
    """
    files = snapshot_files(state_directory, run.commit_id) if run.commit_id else ()
    return [(file.path, "link" if file.is_link else size_text(file.size)) for file in files]


def output_preview(run: Run, name: str, cells_width: int = 0) -> list[Line]:
    """Return the beginning of an output as lines, or the cells of a notebook as lines for the width `cells_width`.

    Raises WorkbenchError for an unknown name.
    """
    path = artifact_path(run.directory, name)
    if name.startswith(f"{STACKS}/"):
        return list(stack_lines(read_stacks(run.directory, name)))
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            return _content(file.read(LARGEST if cells_width else PREVIEW_BYTES), size, cells_width)
    except OSError as error:
        return [(Piece(f"Cannot read the file: {error.strerror}.", "error"),)]


def snapshot_preview(state_directory: str, run: Run, path: str, cells_width: int = 0) -> list[Line]:
    """Return a file of the snapshot, as `output_preview` does. Raises StorageError."""
    data = snapshot_content(state_directory, run.commit_id, path)
    return _content(data[:LARGEST], len(data), cells_width)


def _content(data: bytes, size: int, cells_width: int) -> list[Line]:
    """Return the cells of a notebook as lines, or its error and its text; if `cells_width` is 0, return the text."""
    text = preview(data[:PREVIEW_BYTES], size)
    if not cells_width:
        return text
    try:
        if size > LARGEST:
            raise too_large()
        return notebook_lines(parse_notebook(data.decode("utf-8-sig", "replace")), cells_width)
    except WorkbenchError as error:
        return [*error_lines(error), (), *text]


def preview(data: bytes, size: int) -> list[Line]:
    """Return the first bytes of a file as lines, or a description of a binary file."""
    if b"\0" in data[:8192]:
        kind = next((kind for start, kind in _KINDS.items() if data.startswith(start)), "Binary file")
        if data.startswith(b"\x89PNG\r\n") and len(data) >= 24:
            width, height = (int.from_bytes(data[start : start + 4], "big") for start in (16, 20))
            kind = f"PNG image of {width} x {height}"
        return [(Piece(f"{kind}, {size:,} bytes.", "muted"),)]
    if not data:
        return [(Piece("Empty file.", "muted"),)]
    text_lines = data.decode("utf-8", "replace").split("\n")
    lines: list[Line] = [(Piece(safe_text(line[:LONGEST_LINE].rstrip("\r"))),) for line in text_lines[:PREVIEW_LINES]]
    if len(data) < size or len(text_lines) > PREVIEW_LINES:
        lines.append((Piece(f"… {size_text(size)} in total", "muted"),))
    return lines


# --- Plan, environment, GPU


def uses_spark(run: Run) -> bool:
    """Return True if the run uses `spark-submit`."""
    try:
        return RunDirectory(run.directory).read_record().spec.run_configuration.uses_spark
    except RunNotFound:
        return False


def plan_of(run: Run, now: float) -> list[Line]:
    """Return the attempts of a run, the steps of its plan with commands and durations, and its states."""
    directory = RunDirectory(run.directory)
    events = directory.events()
    notes = damage_notes(damaged_files(run.directory))
    lines: list[Line] = [(Piece(f"▲ {safe_text(note)[:LONGEST_LINE]}", "warning"),) for note in notes]
    lines += [()] if notes else []
    lines += _attempt_lines(directory, now)
    try:
        steps: Sequence[Step] = directory.read_record().plan.steps
    except RunNotFound as error:
        steps = ()
        lines += [(Piece(f"▲ {safe_text(error.message)}", "warning"),), ()]
    took = _step_times(events)
    done = _done(run, steps, took)
    for index, step in enumerate(steps):
        lines += _step_lines(step, took.get(step.name), done=index < done)
    planned = {step.name for step in steps}
    for name, seconds in took.items():
        if name not in planned:
            lines.append((Piece("✓ ", "success"), Piece(f"{safe_text(name):<{LABEL_CELLS}}"), *_took(seconds)))
    # These steps failed without an effect on the run, such as notifications. Each reason is shown once.
    problems = dict.fromkeys((str(event.get("step")), str(event["reason"])) for event in events if _is_problem(event))
    for name, reason in problems:
        text = safe_text(reason)[:LONGEST_LINE]
        lines.append((Piece("✗ ", "error"), Piece(f"{safe_text(name):<{LABEL_CELLS}}"), Piece(f"  {text}")))
    return [*lines, (), *_state_lines(events, now)]


def _step_times(events: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Return the seconds of each step that has begun, keyed by its name; None for a step that has not ended."""
    begun: dict[str, float] = {}
    took: dict[str, float | None] = {}
    for event in events:
        name, moment, seconds = event.get("step"), _number(event.get("time")), _number(event.get("seconds"))
        if event["event"] != "step" or not isinstance(name, str) or _is_problem(event):
            continue
        if event.get("status") == "done":
            if seconds is None:
                seconds = moment - begun[name] if moment is not None and name in begun else 0.0
            took[name] = seconds
        elif moment is not None:
            begun[name], took[name] = moment, None
    return took


def _is_problem(event: Mapping[str, Any]) -> bool:
    return event["event"] == "step" and "reason" in event and "status" not in event


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _took(seconds: float | None) -> tuple[Piece, ...]:
    return (Piece(f"  {span_label(round(seconds, 2))}", "muted"),) if seconds is not None else ()


def _done(run: Run, steps: Sequence[Step], took: Mapping[str, float | None]) -> int:
    """Return the number of completed steps. Steps run in order, but not every step reports its end."""
    if run.start and run.end:
        return len(steps)
    if not run.start:
        # A run that failed before its start also reports the step `collect`.
        steps = list(itertools.takewhile(lambda step: step.name != "start", steps))
    begun = [index for index, step in enumerate(steps) if step.name in took]
    ended = [index + 1 for index, step in enumerate(steps) if took.get(step.name) is not None]
    started = [index + 1 for index, step in enumerate(steps) if step.name == "start"]
    return max((0, *begun, *ended, *started))


def _step_lines(step: Step, seconds: float | None, *, done: bool) -> Iterator[Line]:
    mark = Piece("✓ ", "success") if done else Piece("· ", "muted")
    title = f"  {safe_text(step.title)}" if step.title and step.title != step.name else ""
    yield (mark, Piece(f"{safe_text(step.name):<{LABEL_CELLS}}", bold=True), Piece(title), *_took(seconds))
    if step.command:
        yield (Piece(f"    $ {safe_text(' '.join(step.command))[:LONGEST_LINE]}", "string"),)
    if step.directory:
        yield (Piece(f"    in {safe_text(step.directory)}", "muted"),)
    for name, value in step.environment.items():
        yield (Piece(f"    {safe_text(f'{name}={value}')[:LONGEST_LINE]}", "muted"),)


def _attempt_lines(directory: RunDirectory, now: float) -> Iterator[Line]:
    """Draw the attempts of a run, if there were several: number, start, duration, end, reason and GPU verdict."""
    attempts = attempts_of(directory)
    if not attempts:
        return
    yield (Piece("Attempts", "accent", bold=True),)
    for attempt in attempts:
        started = _clock(attempt.start) if attempt.start else "not started        "
        took = span_label(round((attempt.end or now) - attempt.start, 1)) if attempt.start else ""
        code = f"exit code {attempt.exit_code}" if attempt.exit_code is not None else ""
        yield (
            Piece(f"  {attempt.number:>2}  ", bold=True),
            Piece(f"{started}  {took:>9}  ", "muted"),
            Piece(f"{safe_text(attempt.state)}{f' with {code}' if code else ''}"),
            Piece("" if kinds_of(attempt.causes) == (EXIT_CODE,) else f"  {safe_text(attempt.reason)}", "muted"),
        )
        verdict = stored_verdict(directory.file(attempt.folder))
        if verdict is not None:
            yield (Piece(f"      GPU {safe_text(f'{verdict.word}: {verdict.text}')[:LONGEST_LINE]}", "muted"),)
    yield ()


def _state_lines(events: Sequence[Mapping[str, Any]], now: float) -> Iterator[Line]:
    yield (Piece("States", "accent", bold=True),)
    for event in events:
        moment, state = event.get("time"), event.get("state")
        if event["event"] != "state" or not isinstance(state, str) or not isinstance(moment, int | float):
            continue
        code = f" with exit code {event['exit_code']}" if isinstance(event.get("exit_code"), int) else ""
        reason = safe_text(str(event.get("reason") or ""))
        yield (
            Piece(f"  {_clock(moment)}  ", "muted"),
            Piece(f"{safe_text(state)}{code}"),
            Piece(f"  {reason}" if reason else "", "muted"),
        )


def _clock(moment: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))
    except (ValueError, OverflowError, OSError):
        return "at an unknown time "


def provenance_of(run: Run) -> tuple[Mapping[str, Any] | None, str]:
    """Return the provenance of a run and "", or None and the reason why it cannot be read."""
    try:
        provenance = load_json(os.path.join(run.directory, PROVENANCE))
    except FileNotFoundError:
        return None, f"No provenance recorded{'' if run.tracked else ', because the run was not tracked'}."
    except (OSError, ValueError) as error:
        return None, f"Cannot read {PROVENANCE}: {error}."
    return (provenance, "") if isinstance(provenance, dict) else (None, f"{PROVENANCE} is not a JSON object.")


def environment_of(run: Run) -> list[Line]:
    """Return the environment of a run: user, commit, interpreter, image, machine, packages, configuration."""
    provenance, problem = provenance_of(run)
    facts = {
        "interpreter": run.interpreter,
        "target": f"{run.target} ({run.target_type})",
        "configuration": run.run_configuration,
        "user": run.user_id,
        **({"agent": run.agent} if run.agent else {}),
        **({"snapshot": run.commit_id} if run.commit_id else {}),
    }
    lines = [*starmap(_label, facts.items()), *_configuration_lines(run)]
    if provenance is None:
        return [*lines, (), (Piece(f"▲ {safe_text(problem)}", "warning"),)]
    provenance = {**provenance, "data": describe_data(provenance.get("data"))}
    for name in ("git", "data", "python", "image", "host", "seeds", "problems"):
        lines += _section(name, provenance.get(name), "warning" if name == "problems" else "text")
    packages = provenance.get("packages")
    if isinstance(packages, dict):
        lines += [(), (Piece(counted(len(packages), "package"), "accent", bold=True),)]
        lines += [_label(str(name), str(version), 28) for name, version in packages.items()]
    return lines


def _configuration_lines(run: Run) -> Iterator[Line]:
    try:
        spec = RunDirectory(run.directory).read_record().spec
    except RunNotFound:
        return
    yield _label("framework", spec.run_configuration.framework)
    for name, value in spec.run_configuration.environment_variables.items():
        yield _label("variable", f"{name}={value}")


def gpu_of(run: Run) -> list[Line]:
    """Return the GPUs of the run's machine as lines."""
    provenance, problem = provenance_of(run)
    gpus = provenance.get("gpus") if provenance is not None else None
    if provenance is None:
        return [(Piece(f"▲ {safe_text(problem)}", "warning"),)]
    if not isinstance(gpus, list):
        return [(Piece("The GPUs of the machine were not recorded.", "muted"),)]
    if not gpus:
        return [(Piece("Neither nvidia-smi nor amd-smi found a GPU in the machine.", "warning"),)]
    title = (Piece(f"{counted(len(gpus), 'GPU')} in the machine", "accent"),)
    return [title, *chain.from_iterable(_section(f"GPU {index}", gpu) for index, gpu in enumerate(gpus))]


def _section(name: str, value: Any, role: str = "text") -> Iterator[Line]:
    if not value:
        return
    yield ()
    yield (Piece(safe_text(name), "accent", bold=True),)
    if isinstance(value, dict):
        for key, part in value.items():
            if part not in (None, "", [], {}):
                shown = ", ".join(map(str, part[:20])) if isinstance(part, list) else str(part)
                if name == "host" and key == "memory" and isinstance(part, int):
                    shown = size_text(part)
                yield _label(str(key), shown, role=role)
    else:
        yield (Piece(safe_text(str(value)[:LONGEST_LINE]), role),)


def _label(name: str, value: str, cells: int = LABEL_CELLS, *, role: str = "text") -> Line:
    return (Piece(f"{safe_text(name[:LONGEST_LINE]):<{cells}} ", "muted"), Piece(safe_text(value[:LONGEST_LINE]), role))


# --- Logged values other than curves


def logged_lines(items: Sequence[Any]) -> list[Line]:
    """Draw lists, rows, tables, confusion matrices and images (`LoggedItem`s of one name)."""
    lines: list[Line] = []
    rows = [item.value for item in items if item.kind == "row" and isinstance(item.value, dict)]
    if rows:
        names = list(dict.fromkeys(str(name) for row in rows for name in row))
        lines += table_lines({name: [row.get(name) for row in rows] for name in names})
    for item in items:
        if item.kind == "table" and isinstance(item.value, dict):
            lines += [*table_lines(item.value), ()]
        elif item.kind == "confusion":
            lines += [*confusion_lines(item.value), ()]
        elif item.kind == "image":
            shown = item.path or "not shown: its path is outside the run directory"
            lines.append((Piece("▧ ", "accent"), Piece(safe_text(str(shown)))))
        elif item.kind == "list" and isinstance(item.value, list):
            shown = ", ".join(_cell(value) for value in item.value[:1000])
            lines.append((Piece(safe_text(shown[:LONGEST_LINE])),))
        elif item.kind != "row":
            lines.append((Piece(safe_text(str(item.value)[:LONGEST_LINE])),))
    return lines


def table_lines(columns: Mapping[Any, Any]) -> list[Line]:
    """Draw a table of named columns, each a list of values or one value."""
    parts = []
    for name, values in list(columns.items())[:50]:
        cells = [_cell(value) for value in (values if isinstance(values, list) else [values])[:1000]]
        width = min(40, max(map(len, [str(name), *cells])))
        head = Piece(f"{safe_text(str(name))[:width]:>{width}}  ", "accent")
        parts.append([head, *(Piece(f"{cell[:width]:>{width}}  ") for cell in cells)])
    blanks = [Piece(" " * len(part[0].text)) for part in parts]
    return [tuple(piece or blank for piece, blank in zip(row, blanks, strict=True)) for row in zip_longest(*parts)]


def confusion_lines(value: Any) -> list[Line]:
    """Draw a confusion matrix: `{"labels": [...], "matrix": [[...], ...]}` or a list of rows (true classes)."""
    labels = value.get("labels", value.get("class_labels")) if isinstance(value, dict) else None
    matrix = value.get("matrix") if isinstance(value, dict) else value
    if not isinstance(matrix, list) or not all(isinstance(row, list) for row in matrix):
        return [(Piece(safe_text(str(value)[:LONGEST_LINE])),)]
    names = [safe_text(str(name))[:12] for name in labels] if isinstance(labels, list) else []
    names += [str(index) for index in range(len(names), len(matrix))]
    side = max(map(len, names), default=1)
    width = max([side, *(len(_cell(cell)) for row in matrix for cell in row)])
    lines: list[Line] = [(Piece(" " * (side + 2)), *(Piece(f"{name:>{width}} ", "accent") for name in names))]
    for index, row in enumerate(matrix[:100]):
        roles = ("success" if column == index else "text" if cell else "faint" for column, cell in enumerate(row))
        cells = (Piece(f"{_cell(cell):>{width}} ", role) for cell, role in zip(row[:100], roles, strict=False))
        lines.append((Piece(f"{names[index]:>{side}}  ", "accent"), *cells))
    return lines


def _cell(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "" if value is None else str(value).lower()
    return number(float(value)) if isinstance(value, int | float) else safe_text(str(value)[:200])


def error_lines(error: WorkbenchError) -> list[Line]:
    """Return an error and its remedy as lines."""
    return [(Piece(f"✗ {safe_text(error.message)}", "error"),), (Piece(f"  {safe_text(error.remedy)}", "muted"),)]


def lines_or_error(call: Callable[[], list[Line]]) -> list[Line]:
    """Return the lines that a call returns, or the lines of the error that the call raises."""
    try:
        return call()
    except WorkbenchError as error:
        return error_lines(error)
