"""`workbench` logs each value of any type as one line with one write, and writes nothing outside a run."""

from __future__ import annotations

import decimal
import errno
import io
import math
import multiprocessing
import os
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.sdk.support import load, logged, script


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "run"
    path.mkdir()
    monkeypatch.setenv("WORKBENCH_RUN_DIRECTORY", str(path))
    monkeypatch.setenv("WORKBENCH_RUN_ID", "project_1")
    monkeypatch.delenv("WORKBENCH_OUTPUTS_DIRECTORY", raising=False)
    return path


@pytest.fixture
def workbench(run: Path) -> ModuleType:
    return load()


class Scalar:
    """Like scalars of NumPy and PyTorch."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"scalar {self.value!r}"

    def tolist(self) -> object:
        return self.value

    item = tolist


class Subclass(float):
    def __repr__(self) -> str:
        return "np.float64(0.5)"


class Floating:
    def __repr__(self) -> str:
        return "floating"

    def __float__(self) -> float:
        return 0.25


class Eager:
    """Like tensors of TensorFlow."""

    def __repr__(self) -> str:
        return "eager"

    def numpy(self) -> Scalar:
        return Scalar(0.75)


# Values


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.5, 0.5), (-0.0, -0.0), (3, 3), (True, True), ("text", "text"), (math.nan, "NaN"), (math.inf, "Infinity"),
        (-math.inf, "-Infinity"), (1e300, 1e300), (5e-324, 5e-324), (10**400, "Infinity"), (-(10**400), "-Infinity"),
        (Scalar(0.5), 0.5), (Scalar(7), 7), (Scalar(math.nan), "NaN"), (Subclass(0.5), 0.5), (Floating(), 0.25),
        (Eager(), 0.75), (decimal.Decimal("1.5"), 1.5), (b"bytes", "bytes"),
        ("line\nfeed \x1b[31m", "line\nfeed \x1b[31m"),
        ("\ud800", "\ud800"),
    ],
    ids=repr,
)  # fmt: skip
def test_values_are_converted_to_plain_types(workbench: ModuleType, run: Path, value: Any, expected: Any) -> None:
    workbench.log("loss", value, 3)
    assert logged(run) == [{"name": "loss", "step": 3, "value": expected}]


def test_several_metrics_are_one_line(workbench: ModuleType, run: Path) -> None:
    values = {"loss": Scalar(0.5), "val/loss": math.nan, "epoch": 3, "phase": "warm-up"}
    workbench.log_metrics(values, step=7)
    workbench.log_metrics({"loss": 0.25})
    workbench.log_metrics({})
    assert logged(run) == [
        {"step": 7, "metrics": {"loss": 0.5, "val/loss": "NaN", "epoch": 3, "phase": "warm-up"}},
        {"step": None, "metrics": {"loss": 0.25}},
    ]


def test_lists_among_several_metrics_are_logged_as_lists(workbench: ModuleType, run: Path) -> None:
    workbench.log_metrics({"loss": 0.5, "curve": [1, 2]}, step=1)
    assert logged(run) == [
        {"kind": "list", "name": "curve", "step": 1, "value": [1, 2]},
        {"step": 1, "metrics": {"loss": 0.5}},
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([1, 2.5], [1, 2.5]), ((1, "a", None), [1, "a", None]), (Scalar([1, 2]), [1, 2]), (range(3), [0, 1, 2]),
        ([Scalar(0.5), math.nan, [math.inf]], [0.5, "NaN", ["Infinity"]]), ([], []),
    ],
    ids=repr,
)  # fmt: skip
def test_lists_and_arrays_are_logged_as_lists(workbench: ModuleType, run: Path, value: Any, expected: Any) -> None:
    workbench.log("curve", value)
    assert logged(run) == [{"kind": "list", "name": "curve", "step": None, "value": expected}]


def test_dict_is_logged_as_a_row(workbench: ModuleType, run: Path) -> None:
    workbench.log("epoch", {"loss": Scalar(0.5), 1: math.nan})
    workbench.log_row("epoch", loss=0.5, comment="fine", step=2)
    row = {"kind": "row", "name": "epoch"}
    assert logged(run) == [
        {**row, "step": None, "value": {"loss": 0.5, "1": "NaN"}},
        {**row, "step": 2, "value": {"loss": 0.5, "comment": "fine"}},
    ]


def test_table_is_a_dict_of_lists_or_a_list_of_rows(workbench: ModuleType, run: Path) -> None:
    workbench.log_table("t", {"a": [1, 2], "b": Scalar([3, 4])})
    workbench.log_table("t", [{"a": 1}, {"a": 2, "b": 3}])
    assert [record["value"] for record in logged(run)] == [{"a": [1, 2], "b": [3, 4]}, {"a": [1, 2], "b": [None, 3]}]
    with pytest.raises(ValueError, match="same length"):
        workbench.log_table("t", {"a": [1, 2], "b": [3]})


def test_confusion_matrix_must_be_square_with_all_labels(workbench: ModuleType, run: Path) -> None:
    workbench.log_confusion_matrix("cm", Scalar([[5, 1], [0, 4]]), ["cat", "dog"])
    workbench.log_confusion_matrix("cm", [[1]])
    assert [record["value"] for record in logged(run)] == [
        {"labels": ["cat", "dog"], "matrix": [[5, 1], [0, 4]]},
        {"labels": ["0"], "matrix": [[1]]},
    ]
    with pytest.raises(ValueError, match="must be square"):
        workbench.log_confusion_matrix("cm", [[1, 2]])
    with pytest.raises(ValueError, match="got 1 labels for 2 classes"):
        workbench.log_confusion_matrix("cm", [[1, 2], [3, 4]], ["one"])


@pytest.mark.parametrize("step", [0, -1, 2.5, Scalar(4), None])
def test_step_can_be_any_number(workbench: ModuleType, run: Path, step: Any) -> None:
    workbench.log("loss", 1.0, step)
    assert logged(run)[0]["step"] == (4 if isinstance(step, Scalar) else step)


@pytest.mark.parametrize(
    "name", ["train/loss", "Präzision", "損失", 'a "quote" and \\', "line\nfeed", "100%", "\ud800"]
)
def test_name_can_be_any_text(workbench: ModuleType, run: Path, name: str) -> None:
    workbench.log(name, 1.0)
    workbench.tag(name, "value")
    assert [record["name"] for record in logged(run)] == [name, name]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("", 1.0), ValueError, "must not be empty"),
        ((7, 1.0), TypeError, "must be a string, not int"),
        (("loss", object()), TypeError, "value of type object"),
        (("loss", [object()]), TypeError, "value of type object"),
        (("loss", 1.0, "three"), TypeError, "a step must be a number, not str"),
        (("loss", 1.0, True), TypeError, "a step must be a number, not bool"),
    ],
)
@pytest.mark.parametrize("inside", [True, False], ids=["run", "no run"])
def test_invalid_values_raise(
    run: Path, monkeypatch: pytest.MonkeyPatch, arguments: Any, error: type[Exception], words: str, inside: bool
) -> None:
    if not inside:
        monkeypatch.delenv("WORKBENCH_RUN_DIRECTORY")
    with pytest.raises(error, match=words):
        load().log(*arguments)
    assert not logged(run)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (({"": 1.0},), ValueError, "must not be empty"),
        (({7: 1.0},), TypeError, "must be a string, not int"),
        (({"loss": 1.0}, "three"), TypeError, "a step must be a number, not str"),
        ((0.5,), TypeError, "float"),
    ],
)
def test_invalid_metrics_raise(
    workbench: ModuleType, run: Path, arguments: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        workbench.log_metrics(*arguments)
    assert not logged(run)


def test_none_is_left_out_with_one_warning(
    workbench: ModuleType, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workbench.log("loss", None)
    workbench.log("loss", None, step=3)
    workbench.log_metrics({"loss": None, "accuracy": 0.9})
    assert [record["metrics"] for record in logged(run)] == [{"accuracy": 0.9}]
    assert capsys.readouterr().err == 'workbench: the value of "loss" is None; it is left out\n'


@pytest.mark.parametrize(("attempt", "is_later"), [("", False), ("1", False), ("x", False), ("2", True)])
def test_later_attempt_begins_with_its_number(
    run: Path, monkeypatch: pytest.MonkeyPatch, attempt: str, is_later: bool
) -> None:
    monkeypatch.setenv("WORKBENCH_ATTEMPT", attempt)
    workbench = load()
    workbench.log("loss", 0.5)
    workbench.log("loss", 0.4)
    marks = [{"kind": "attempt", "name": "attempt", "value": 2}] if is_later else []
    points = [{"name": "loss", "step": None, "value": value} for value in (0.5, 0.4)]
    assert logged(run) == [*marks, *points]


def test_line_that_a_killed_attempt_left_incomplete_is_ended(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_ATTEMPT", "2")
    (run / "metrics.jsonl").write_text('{"name":"loss","st')
    load().log("loss", 0.5)
    torn, mark, point = (run / "metrics.jsonl").read_text().splitlines()
    assert torn == '{"name":"loss","st'
    assert mark.startswith('{"kind":"attempt"')
    assert point.startswith('{"name":"loss","step":null,"value":0.5')


# Files


def test_each_logged_image_has_a_unique_name(workbench: ModuleType, run: Path, tmp_path: Path) -> None:
    image = tmp_path / "plot.PNG"
    for content in (b"first", b"second"):
        image.write_bytes(content)
        workbench.log_image("val/confusion", image, step=1)
    paths = [record["path"] for record in logged(run)]
    assert paths == ["outputs/images/val-confusion.png", "outputs/images/val-confusion-1.png"]
    assert [(run / path).read_bytes() for path in paths] == [b"first", b"second"]


def test_figure_is_saved_with_its_savefig(workbench: ModuleType, run: Path) -> None:
    class Figure:
        def savefig(self, path: str) -> None:
            Path(path).write_bytes(b"drawn")

    workbench.log_image("../../etc/100%", Figure())
    (record,) = logged(run)
    assert record["path"] == "outputs/images/-..-etc-100-.png"
    assert (run / record["path"]).read_bytes() == b"drawn"


def test_invalid_image_raises(workbench: ModuleType, run: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"image not found: nowhere\.png"):
        workbench.log_image("plot", "nowhere.png")
    with pytest.raises(TypeError, match="an image must be a path"):
        workbench.log_image("plot", 7)
    assert not logged(run)


def test_uploads_are_copied_to_the_outputs(workbench: ModuleType, run: Path, tmp_path: Path) -> None:
    (tmp_path / "model" / "deep").mkdir(parents=True)
    (tmp_path / "model" / "deep" / "weights").write_bytes(b"w")
    (tmp_path / "note.txt").write_text("note")
    workbench.upload(tmp_path / "note.txt")
    workbench.upload(str(tmp_path / "model"), "outputs/best")
    workbench.upload_content("a/b.txt", "text")
    workbench.upload_content("c.bin", io.BytesIO(b"\0"))
    paths = [record["path"] for record in logged(run)]
    assert paths == ["outputs/note.txt", "outputs/best/deep/weights", "outputs/a/b.txt", "outputs/c.bin"]
    assert [(run / path).read_bytes() for path in paths] == [b"note", b"w", b"text", b"\0"]
    assert not list(run.rglob("*.part-*"))


def test_upload_of_an_output_does_not_copy_it(workbench: ModuleType, run: Path) -> None:
    (run / "outputs").mkdir()
    (run / "outputs" / "model.pt").write_bytes(b"weights")
    workbench.upload(run / "outputs" / "model.pt")
    assert (run / "outputs" / "model.pt").read_bytes() == b"weights"
    assert logged(run) == [{"kind": "upload", "name": "model.pt", "path": "outputs/model.pt"}]


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "..", ".", "", "outputs/../../x", "..\\x", "a\0b"])
def test_upload_name_outside_the_outputs_is_refused(
    workbench: ModuleType, run: Path, tmp_path: Path, name: str
) -> None:
    with pytest.raises(ValueError, match="is outside the outputs"):
        workbench.upload_content(name, "text")
    assert not logged(run)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["run"]


def test_target_chooses_the_outputs_folder(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_OUTPUTS_DIRECTORY", str(tmp_path / "work" / "outputs"))
    load().upload_content("x.txt", "text")
    assert (tmp_path / "work" / "outputs" / "x.txt").read_text() == "text"


# Outside a run, and failures


def test_logging_outside_a_run_writes_and_prints_nothing(tmp_path: Path) -> None:
    text = (
        "import workbench as w; w.log('a', 1); w.log('b', [1]); w.log_row('c', d=1); w.tag('e'); "
        "w.upload_content('f', 'g'); open('i.png', 'w').close(); w.log_image('h', 'i.png'); print(w.in_run())"
    )
    assert script(text, None, directory=tmp_path) == "False\n"
    assert [path.name for path in tmp_path.iterdir()] == ["i.png"]


def test_missing_run_folder_is_reported_once_without_an_error(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run.rmdir()
    workbench = load()
    for _ in range(3):
        workbench.log("loss", 1.0)
    assert capfd.readouterr().err.count("cannot write metrics") == 1


@pytest.mark.parametrize(("group", "values"), [("0", [1, 2]), ("1", [])])
def test_only_the_first_of_several_nodes_logs(
    run: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], group: str, values: list[int]
) -> None:
    monkeypatch.setenv("WORKBENCH_NODE", "node2")
    monkeypatch.setenv("GROUP_RANK", group)
    workbench = load()
    for value in (1, 2):
        workbench.log("loss", value)
    assert [record["value"] for record in logged(run)] == values
    assert capfd.readouterr().err.count("not on the node of rank 0") == (1 if group == "1" else 0)


def test_full_disk_loses_only_the_incomplete_line(
    workbench: ModuleType, run: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    write = os.write

    def full(_descriptor: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    workbench.log("a", 1)
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:9]))
    workbench.log("torn", 2)
    monkeypatch.setattr(os, "write", full)
    workbench.log("lost", 3)
    monkeypatch.setattr(os, "write", write)
    workbench.log("b", 4)
    lines = (run / "metrics.jsonl").read_text().split("\n")
    assert [line[:11] for line in lines] == ['{"name":"a"', '{"name":"', '{"name":"b"', ""]
    assert "No space left" in capfd.readouterr().err


def test_concurrent_threads_and_processes_lose_no_lines(workbench: ModuleType, run: Path) -> None:
    def log(name: str) -> None:
        for number in range(200):
            workbench.log(name, float(number), number)

    def log_from_threads(name: str) -> None:
        threads = [threading.Thread(target=log, args=(f"{name}/{number}",)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    context = multiprocessing.get_context("fork")
    children = [context.Process(target=log_from_threads, args=(f"rank{number}",)) for number in range(3)]
    log("parent")
    for child in children:
        child.start()
    for child in children:
        child.join()
        assert child.exitcode == 0
    records = logged(run)
    names = {record["name"] for record in records}
    assert names == {"parent", *(f"rank{rank}/{thread}" for rank in range(3) for thread in range(2))}
    for name in names:
        assert [record["value"] for record in records if record["name"] == name] == list(map(float, range(200)))


def test_child_with_closed_descriptors_writes_to_no_other_file(
    workbench: ModuleType, run: Path, tmp_path: Path
) -> None:
    """Daemons close all descriptors, and then open other files under the same numbers."""
    workbench.log("a", 1)
    child = os.fork()
    if child == 0:
        os.closerange(3, 100)
        opened = [os.open(tmp_path / f"other{number}", os.O_WRONLY | os.O_CREAT, 0o644) for number in range(90)]
        workbench.log("b", 2)
        os._exit(0 if opened else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [record["name"] for record in logged(run)] == ["a", "b"]
    assert not [path for path in tmp_path.glob("other*") if path.stat().st_size]


def test_logged_values_survive_sigkill(run: Path) -> None:
    text = "import os, workbench\nfor n in range(100):\n workbench.log('loss', n)\nos.kill(os.getpid(), 9)"
    with pytest.raises(AssertionError):
        script(text, run)
    assert [record["value"] for record in logged(run)] == list(range(100))


def test_import_loads_only_the_standard_library(tmp_path: Path) -> None:
    modules = "import sys; print([name for name in sys.modules if 'workbench' in name or 'azureml' in name])"
    assert script(modules, tmp_path) == "[]\n"
    added = script("import sys; old = set(sys.modules); import workbench; print(*(set(sys.modules) - old))", None)
    assert {name.split(".")[0] for name in added.split()} - set(sys.stdlib_module_names) == {"workbench"}
