"""Log metrics, tables, images, tags and files from a training script.

Each call appends one line to `metrics.jsonl` in the run directory with a single write. Nothing is lost if the script is
killed, and threads, processes and ranks can log at the same time. No server or cleanup is needed. Outside
a run, the functions check their arguments and do nothing.

An argument of a wrong type raises TypeError, and an empty name raises ValueError.

This file must run on Python 3.5 or newer with the standard library only.
"""

import json
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple  # noqa: F401  (in comments)

__all__ = [
    "in_run",
    "log",
    "log_confusion_matrix",
    "log_image",
    "log_list",
    "log_metrics",
    "log_row",
    "log_table",
    "outputs_directory",
    "run_id",
    "tag",
    "upload",
    "upload_content",
]

_METRICS = "metrics.jsonl"
_IMAGES = "images"
_COPY_BYTES = 1 << 20


def log(name: "str", value: "Any", step: "Optional[float]" = None) -> "None":
    """Log a value of the metric `name`.

    A number becomes a point of a curve, at `step` or at the step after the last point. Scalars of NumPy, PyTorch,
    TensorFlow and JAX are numbers, and so are NaN and infinities. A list or array is logged as by `log_list`, a dict as
    by `log_row`. A value can also be a string or a Boolean. None is left out with a warning; other types raise
    TypeError.
    """
    if value is None:
        _skip(name)
        return
    if type(value) is not float:
        value = _plain(value)
        if isinstance(value, (list, dict)):
            _log_item("list" if isinstance(value, list) else "row", name, value, step)
            return
    _write("", name, '"step":%s,"value":%s' % (_step(step), _number(value)))


def log_metrics(values: "Mapping[str, Any]", step: "Optional[float]" = None) -> "None":
    """Log the values of several metrics at one step: `log_metrics({"loss": 0.3, "accuracy": 0.9}, step=3)`.

    The curves are the same as with a call of `log` for each metric. All numbers and strings are one line of
    `metrics.jsonl`, which is faster and takes less space. Without `step`, each metric gets the step after its last
    point.
    """
    number = _step(step)
    members = []
    for name, value in dict(values).items():
        if value is None:
            _skip(name)
            continue
        if type(value) is not float:
            value = _plain(value)
            if isinstance(value, (list, dict)):
                log(name, value, step)
                continue
        members.append("%s:%s" % (_names.get(name) or _name(name), _number(value)))
    if members:
        _journal.write('{"step":%s,"metrics":{%s},"time":%.6f}\n' % (number, ",".join(members), time.time()))


def log_list(name: "str", values: "Any", step: "Optional[float]" = None) -> "None":
    """Log a list of numbers or strings as a separate chart. A single value becomes a list."""
    values = _plain(values)
    _log_item("list", name, values if isinstance(values, list) else [values], step)


def log_row(
    name: "str", columns: "Optional[Mapping[str, Any]]" = None, step: "Optional[float]" = None, **more: "Any"
) -> "None":
    """Log a row of the table `name`. Give the columns as a dict or keywords: `log_row("epochs", loss=0.3)`.

    Raises ValueError without columns.
    """
    row = dict(columns or {})
    row.update(more)
    if not row:
        raise ValueError("a row needs at least one column")
    _log_item("row", name, _plain(row), step)


def log_table(name: "str", columns: "Mapping[str, Any]", step: "Optional[float]" = None) -> "None":
    """Log a table, given as a dict of lists (columns) or a list of dicts (rows).

    Raises ValueError if the columns have different lengths.
    """
    table = _plain(columns)
    if isinstance(table, list):
        table = _from_rows(table)
    if not isinstance(table, dict):
        raise TypeError("a table must be a dict of lists or a list of dicts, not %s" % type(columns).__name__)
    table = {key: column if isinstance(column, list) else [column] for key, column in table.items()}
    if len({len(column) for column in table.values()}) > 1:
        raise ValueError("the columns of a table must have the same length")
    _log_item("table", name, table, step)


def log_confusion_matrix(
    name: "str", matrix: "Any", labels: "Optional[Sequence[Any]]" = None, step: "Optional[float]" = None
) -> "None":
    """Log a confusion matrix. `matrix[true][predicted]` is a count, and `labels` are the names of the classes.

    Without `labels`, the classes are numbered from 0. Raises ValueError if the matrix is not square, or if the number
    of labels is not that of the classes.
    """
    rows = _plain(matrix)
    if not isinstance(rows, list) or any(not isinstance(row, list) or len(row) != len(rows) for row in rows):
        raise ValueError("a confusion matrix must be square")
    names = [str(label) for label in (range(len(rows)) if labels is None else _plain(labels))]
    if len(names) != len(rows):
        raise ValueError("got %d labels for %d classes: give one label for each class" % (len(names), len(rows)))
    _log_item("confusion", name, {"labels": names, "matrix": rows}, step)


def log_image(name: "str", image: "Any", step: "Optional[float]" = None) -> "None":
    """Log an image: a path, a Matplotlib figure or a PIL image. A copy is stored in the outputs of the run.

    Raises FileNotFoundError if the path is not a file.
    """
    if isinstance(image, (str, bytes)) or hasattr(image, "__fspath__"):
        source = _path(image)
        if not os.path.isfile(source):
            raise FileNotFoundError("image not found: %s" % source)
        ending = os.path.splitext(source)[1].lower()
        put = _copier(source)
    elif hasattr(image, "savefig") or hasattr(image, "save"):
        ending = ".png"
        put = image.savefig if hasattr(image, "savefig") else image.save
    else:
        raise TypeError("an image must be a path, a figure or a PIL image, not %s" % type(image).__name__)
    _name(name)
    number = _step(step)
    if in_run():
        path = _keep_image(name, ending if ending[1:].isalnum() else ".png", put)
        _write("image", name, '"step":%s,"path":%s' % (number, _json("outputs/" + path)))


def tag(name: "str", value: "Any" = None) -> "None":
    """Add a tag to the run, with an optional value."""
    _write("tag", name, '"value":%s' % ("null" if value is None else _json(str(_plain(value)))))


def upload(path: "Any", name: "Optional[str]" = None) -> "None":
    """Copy a file or folder to the outputs of the run, as `name` (default: its own name). Files there need no upload.

    Raises FileNotFoundError if `path` does not exist, and ValueError if `name` is outside the outputs.
    """
    source = _path(path)
    if not os.path.exists(source):
        raise FileNotFoundError("file not found: %s" % source)
    inside = _inside(os.path.basename(os.path.abspath(source)) if name is None else name)
    if not os.path.isdir(source):
        _keep(inside, _copier(source), source)
        return
    for folder, _, files in os.walk(source):
        for file in files:
            whole = os.path.join(folder, file)
            _keep(os.path.join(inside, os.path.relpath(whole, source)), _copier(whole), whole)


def upload_content(name: "str", content: "Any") -> "None":
    """Write a string, bytes or the content of an open file to the file `name` in the outputs of the run.

    Raises ValueError if `name` is outside the outputs.
    """
    inside = _inside(name)
    data = content.read() if hasattr(content, "read") else content
    data = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
    if not isinstance(data, (bytes, bytearray)):
        raise TypeError("the content of a file must be str or bytes, not %s" % type(data).__name__)

    def put(path: "str") -> "None":
        with open(path, "wb") as file:
            file.write(data)

    _keep(inside, put, "")


def in_run() -> "bool":
    """Return True if this process belongs to a run of the workbench."""
    return bool(os.environ.get("WORKBENCH_RUN_DIRECTORY"))


def run_id() -> "str":
    """Return the ID of the run, or "" outside a run."""
    return os.environ.get("WORKBENCH_RUN_ID", "")


def outputs_directory() -> "str":
    """Return the absolute path of `outputs/`. The run keeps the files in this folder.

    Outside a run, this is `outputs/` in the current folder, which may not exist.
    """
    folder = os.environ.get("WORKBENCH_OUTPUTS_DIRECTORY")
    if folder:
        return folder
    run = os.environ.get("WORKBENCH_RUN_DIRECTORY")
    return os.path.join(run, "outputs") if run else os.path.abspath("outputs")


class _Journal:
    """Appends lines to the metrics file of the run."""

    def __init__(self) -> "None":
        self._descriptor = -1
        self._process = 0
        self._torn = False
        self._complained = False

    def write(self, line: "str") -> "None":
        """Append a line with a single write. Errors, such as a full disk, are reported once and raise no exception."""
        if self._process != os.getpid():
            self._open()
        if self._descriptor < 0:
            return
        data = line.encode("ascii")
        if self._torn:
            data = b"\n" + data
        try:
            written = os.write(self._descriptor, data)
        except OSError as error:
            self._complain(error)
            return
        # Do not write the rest of a torn line: another process may have written in between.
        self._torn = written < len(data)

    def _open(self) -> "None":
        # A forked process opens the file again. `_process` is set last, so that no other thread uses an old descriptor.
        process, descriptor = os.getpid(), -1
        run = os.environ.get("WORKBENCH_RUN_DIRECTORY")
        if run and os.environ.get("WORKBENCH_NODE") and os.environ.get("GROUP_RANK", "0") != "0":
            # Several machines cannot safely append to one file.
            self._complain("this process is not on the node of rank 0; log from rank 0 instead")
        elif run:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
            try:
                descriptor = os.open(os.path.join(run, _METRICS), flags, 0o600)
            except OSError as error:
                self._complain(error)
        self._descriptor, self._torn = descriptor, False
        self._process = process
        attempt = os.environ.get("WORKBENCH_ATTEMPT", "")
        if run and descriptor >= 0 and attempt.isdigit() and int(attempt) > 1:
            # The values of this attempt replace those of earlier attempts. A killed attempt can leave a torn line.
            self._torn = _is_torn(os.path.join(run, _METRICS))
            self.write('{"kind":"attempt","name":"attempt","value":%d,"time":%.6f}\n' % (int(attempt), time.time()))

    def _complain(self, error: "object") -> "None":
        if not self._complained:
            self._complained = True
            sys.stderr.write("workbench: cannot write metrics: %s\n" % error)


def _is_torn(path: "str") -> "bool":
    """Return True if the last line of a file is incomplete."""
    try:
        with open(path, "rb") as file:
            return file.seek(0, os.SEEK_END) > 0 and file.seek(-1, os.SEEK_END) >= 0 and file.read(1) != b"\n"
    except OSError:
        return False


_journal = _Journal()
_names = {}  # type: Dict[str, str]
_skipped = {}  # type: Dict[str, bool]  # the names whose values were None


def _skip(name: "str") -> "None":
    """Warn once for each name that a value is None: a missing value must not end a training."""
    if name not in _skipped and len(_skipped) < 100:
        _name(name)
        _skipped[name] = True
        sys.stderr.write("workbench: the value of %s is None; it is left out\n" % _json(name))


def _name(name: "str") -> "str":
    """Return the name as JSON, and cache it. Raises TypeError or ValueError for an invalid name."""
    if not isinstance(name, str):
        raise TypeError("a name must be a string, not %s" % type(name).__name__)
    if not name:
        raise ValueError("a name must not be empty")
    text = _json(name)
    if len(_names) < 10000:
        _names[name] = text
    return text


def _step(step: "Any") -> "str":
    if step is None:
        return "null"
    if type(step) is int:
        return str(step)
    value = _plain(step)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError("a step must be a number, not %s" % type(step).__name__)
    return _number(value)


def _number(value: "Any") -> "str":
    """Return a plain value as JSON; NaN and infinities are strings."""
    if isinstance(value, float):
        if value - value == 0.0:
            return float.__repr__(value)
        return '"NaN"' if value != value else '"Infinity"' if value > 0 else '"-Infinity"'
    if isinstance(value, bool) or value is None:
        return _json(value)
    if isinstance(value, int):
        # Readers cannot convert larger integers to float.
        return int.__repr__(value) if -(1 << 1023) < value < 1 << 1023 else '"%sInfinity"' % ("-" if value < 0 else "")
    return _json(value)


def _log_item(kind: "str", name: "str", value: "Any", step: "Optional[float]") -> "None":
    _write(kind, name, '"step":%s,"value":%s' % (_step(step), _json(value)))


def _write(kind: "str", name: "str", fields: "str") -> "None":
    """Append a line. `fields` are JSON members as text; `kind` is "" for a number or string."""
    start = '{"kind":"%s","name":' % kind if kind else '{"name":'
    _journal.write('%s%s,%s,"time":%.6f}\n' % (start, _names.get(name) or _name(name), fields, time.time()))


def _json(value: "Any") -> "str":
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return json.dumps(_finite(value), allow_nan=False, separators=(",", ":"))


def _finite(value: "Any") -> "Any":
    """Return the value with NaN and infinities as strings."""
    if isinstance(value, float):
        return value if value - value == 0.0 else _number(value).strip('"')
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list) else value


def _plain(value: "Any") -> "Any":
    """Convert a value of any library to a number, string, list or dict. Raises TypeError if that is not possible."""
    if type(value) in (float, int, bool, str):
        return value
    if isinstance(value, dict):
        return {str(key): _element(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, range, set, frozenset)):
        return [_element(item) for item in value]
    if isinstance(value, (float, int, str)):
        # The repr of a subclass may not be valid JSON.
        return float(value) if isinstance(value, float) else int(value) if isinstance(value, int) else str(value)
    for name in ("tolist", "item"):
        method = getattr(value, name, None)
        if callable(method):
            converted = method()
            return converted if type(converted) is not type(value) and converted is not value else _as_float(value)
    if callable(getattr(value, "numpy", None)):
        return _plain(value.numpy())
    if hasattr(value, "to_dict") and hasattr(value, "columns"):
        return _plain(value.to_dict("list"))
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "replace")
    return _as_float(value)


def _element(value: "Any") -> "Any":
    return None if value is None else _plain(value)


def _as_float(value: "Any") -> "float":
    if not hasattr(type(value), "__float__"):
        raise TypeError("cannot log a value of type %s" % type(value).__name__)
    return float(value)


def _from_rows(rows: "List[Any]") -> "Dict[str, List[Any]]":
    if not all(isinstance(row, dict) for row in rows):
        raise TypeError("a table must be a dict of lists or a list of dicts")
    names = []  # type: List[str]
    for row in rows:
        names += [name for name in row if name not in names]
    return {name: [row.get(name) for row in rows] for name in names}


def _path(path: "Any") -> "str":
    # Python 3.5 has no os.fspath.
    path = path.__fspath__() if hasattr(path, "__fspath__") else str(path) if hasattr(path, "parts") else path
    if not isinstance(path, (str, bytes)):
        raise TypeError("a path must be a string, not %s" % type(path).__name__)
    return os.fsdecode(path)


def _inside(name: "str") -> "str":
    """Return the name as a path below the outputs. Raises ValueError for a path outside."""
    if not isinstance(name, str):
        raise TypeError("the name of a file must be a string, not %s" % type(name).__name__)
    clean = os.path.normpath(name.replace("\\", "/"))
    parts = clean.split("/")
    if parts[0] == "outputs" and len(parts) > 1:
        # Scripts for Azure ML Workbench include the folder in the name.
        parts = parts[1:]
    if "\0" in clean or os.path.isabs(clean) or parts[0] in ("", ".", ".."):
        raise ValueError("%r is outside the outputs of the run" % name)
    return "/".join(parts)


def _copier(source: "str") -> "Callable[[str], None]":
    def put(path: "str") -> "None":
        with open(source, "rb") as reading, open(path, "wb") as writing:
            while True:
                data = reading.read(_COPY_BYTES)
                if not data:
                    return
                writing.write(data)

    return put


def _keep(inside: "str", put: "Callable[[str], None]", source: "str") -> "None":
    """Write a file in the outputs atomically with `put`, and log it."""
    if not in_run():
        return
    path = os.path.join(outputs_directory(), inside)
    if not source or not os.path.exists(path) or not os.path.samefile(source, path):
        part = "%s.part-%d" % (path, os.getpid())
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            put(part)
            os.replace(part, path)
        finally:
            if os.path.exists(part):
                os.unlink(part)
    _write("upload", inside, '"path":%s' % _json("outputs/" + inside))


_image_numbers = {}  # type: Dict[Tuple[str, str], int]


def _keep_image(name: "str", ending: "str", put: "Callable[[str], None]") -> "str":
    """Write an image with `put` to a new file, and return its path relative to the outputs."""
    slug = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)[:80].strip(".") or "image"
    folder = os.path.join(outputs_directory(), _IMAGES)
    os.makedirs(folder, exist_ok=True)
    number = _image_numbers.get((slug, ending), 0)
    while True:
        file = slug + ("-%d" % number if number else "") + ending
        number += 1
        try:
            os.close(os.open(os.path.join(folder, file), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
            break
        except FileExistsError:
            pass
    _image_numbers[slug, ending] = number
    put(os.path.join(folder, file))
    return _IMAGES + "/" + file
