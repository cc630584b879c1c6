"""Event files from TensorBoard's writers, growing and damaged."""

from __future__ import annotations

import math
import os
import shutil
import struct
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies

from tests.runs.metrics.support import curve, event, events, field, lasts, read, record, values_event, varint, write
from tui_workbench.runs.metrics import RunMetrics
from tui_workbench.runs.metrics.tensorboard import EventFile, masked_crc32c

DATA = Path(__file__).parent / "data"
NAME = "events.out.tfevents.1700000000.machine"


def test_checksum_matches_the_format() -> None:
    """The version record that begins every file has 24 bytes."""
    first = (DATA / "tensorboardX" / NAME).read_bytes()[:12]
    length, checksum = struct.unpack("<QI", first)
    assert masked_crc32c(first[:8]) == checksum
    assert length == 24


def test_scalars_of_pytorch_writer_are_read() -> None:
    """The file, from tensorboardX, also holds a histogram, an image and a text."""
    file = EventFile(str(DATA / "tensorboardX" / NAME))
    assert file.refresh()
    loss = file.columns.curves["loss/train"]
    assert list(loss.steps) == [0, 1, 2, 3, 4, 5]
    assert list(loss.values[:-1]) == [struct.unpack("<f", struct.pack("<f", 1 / (n + 1)))[0] for n in range(5)]
    assert math.isnan(loss.values[-1])
    assert list(loss.times) == [1.7e9 + number for number in range(6)]
    assert list(file.columns.curves["negative_step"].steps) == [-1]
    assert set(file.columns.curves) == {"loss/train", "negative_step"}
    assert not file.columns.unreadable


def test_scalars_of_tensorflow_writer_are_read_in_every_type() -> None:
    """Scalars are tensors without dimensions; only the first event of a name has metadata."""
    file = EventFile(str(DATA / "tensorboard" / "train" / f"{NAME}.1.0"))
    file.refresh()
    values = {name: list(curve.values) for name, curve in file.columns.curves.items()}
    third = struct.unpack("<f", struct.pack("<f", 0.5 / 3))[0]
    assert values == {
        "float32": [0.5, 0.25, third], "float64": [0, 1.5, 3], "int64": [0, -1, -2], "int32": [0, -1, -2],
        "float16": [0, 0.5, 1], "bool": [0, 1, 0], "uint8": [0, 1, 2], "content": [0.25, 1.25, 2.25],
    }  # fmt: skip


def test_file_is_read_as_it_grows_byte_by_byte(tmp_path: Path) -> None:
    data = events("loss", [3, 2, 1])
    path = tmp_path / NAME
    file, seen = EventFile(str(path)), []
    for number in range(len(data)):
        write(path, data[number : number + 1], append=True)
        if file.refresh():
            seen.append(list(file.columns.curves["loss"].values))
    assert seen == [[3], [3, 2], [3, 2, 1]]
    assert not file.refresh()


def test_truncated_file_yields_complete_records(tmp_path: Path) -> None:
    write(tmp_path / NAME, events("loss", [3, 2, 1])[:-1])
    file = EventFile(str(tmp_path / NAME))
    file.refresh()
    assert list(file.columns.curves["loss"].values) == [3, 2]
    assert file.columns.damaged_at == -1


def test_record_larger_than_a_chunk_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui_workbench.runs.metrics.tail.CHUNK", 64)
    image = values_event([field(1, b"image") + field(4, bytes(1000))], 1)
    write(tmp_path / NAME, event("a", 1, 1) + image + event("b", 2, 2))
    file = EventFile(str(tmp_path / NAME))
    file.refresh()
    assert set(file.columns.curves) == {"a", "b"}


def test_images_are_skipped_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui_workbench.runs.metrics.tail.CHUNK", 1000)
    monkeypatch.setattr("tui_workbench.runs.metrics.tensorboard.LARGEST_SCALARS", 2000)
    read_bytes = 0
    pread = os.pread

    def count(descriptor: int, size: int, offset: int) -> bytes:
        nonlocal read_bytes
        data = pread(descriptor, size, offset)
        read_bytes += len(data)
        return data

    monkeypatch.setattr(os, "pread", count)
    image = values_event([field(1, b"image") + field(4, bytes(100_000))], 1)
    half = len(image) // 2
    write(tmp_path / NAME, event("a", 1, 1) + image[:half])
    file = EventFile(str(tmp_path / NAME))
    file.refresh()
    write(tmp_path / NAME, image[half:] + event("a", 2, 2) + image + event("a", 3, 3), append=True)
    read_bytes = 0
    file.refresh()
    assert list(file.columns.curves["a"].values) == [1, 2, 3]
    assert read_bytes < 5000
    write(tmp_path / NAME, event("a", 4, 4), append=True)
    assert file.refresh()
    assert not file.refresh()
    assert list(file.columns.curves["a"].values) == [1, 2, 3, 4]


def test_damaged_length_ends_the_file_and_is_reported(tmp_path: Path) -> None:
    good = event("loss", 1, 1)
    write(tmp_path / "outputs" / NAME, good + b"\xff" * 40 + event("loss", 2, 2))
    metrics = read(tmp_path)
    assert curve(metrics, "loss") == [(1, 1)]
    assert metrics.notes() == [f"outputs/{NAME}: damaged from byte {len(good)}"]
    assert not metrics.refresh()


def test_invalid_event_does_not_affect_others(tmp_path: Path) -> None:
    broken = [record(b"\xff" * 20), record(b"\x0a"), values_event([field(1, b"\xff\xff") + b"\x15\0\0\0\0"], 1)]
    write(tmp_path / NAME, b"".join(broken) + event("loss", 2, 2))
    file = EventFile(str(tmp_path / NAME))
    file.refresh()
    assert list(file.columns.curves["loss"].values) == [2]
    assert file.columns.unreadable == 3


def test_several_values_of_one_event_are_read(tmp_path: Path) -> None:
    name = "layer/" * 60
    values = [
        field(1, tag.encode()) + b"\x15" + struct.pack("<f", number) for number, tag in enumerate(("a", "b", name))
    ]
    write(tmp_path / NAME, values_event(values, 1 << 40))
    file = EventFile(str(tmp_path / NAME))
    file.refresh()
    assert {tag: (curve.steps[0], curve.values[0]) for tag, curve in file.columns.curves.items()} == {
        "a": (float(1 << 40), 0), "b": (float(1 << 40), 1), name: (float(1 << 40), 2),
    }  # fmt: skip


def test_hyperparameters_are_not_metrics(tmp_path: Path) -> None:
    write(tmp_path / NAME, event("_hparams_/session_start_info", 1, 1) + event("hp/accuracy", 1, 1))
    file = EventFile(str(tmp_path / NAME))
    file.refresh()
    assert set(file.columns.curves) == {"hp/accuracy"}


@hypothesis.given(strategies.binary(max_size=200))
@hypothesis.settings(max_examples=80)
def test_any_bytes_in_a_record_are_parsed_or_counted(data: bytes) -> None:
    """A malformed message raises only errors that are counted."""
    file = EventFile("")
    file.tail.offset = file.tail.size = len(whole := record(data))
    file.parse(whole)
    assert file.tail.offset == len(whole)


def test_tensor_of_packed_numbers_is_read(tmp_path: Path) -> None:
    tensor = varint(1 << 3) + varint(9) + field(10, varint(-5))
    write(tmp_path / NAME, values_event([field(1, b"int") + field(8, tensor)], 1))
    file = EventFile(str(tmp_path / NAME))
    file.refresh()
    assert list(file.columns.curves["int"].values) == [-5]


# Names of several files


def test_training_and_validation_curves_get_prefixes(tmp_path: Path) -> None:
    """As Keras writes them."""
    write(tmp_path / "work" / "logs" / "train" / NAME, events("epoch_loss", [3, 2]))
    metrics = read(tmp_path)
    assert lasts(metrics) == {"train/epoch_loss": 2}
    write(tmp_path / "work" / "logs" / "validation" / NAME, events("epoch_loss", [4, 3]))
    metrics = read(tmp_path)
    assert lasts(metrics) == {"train/epoch_loss": 2, "validation/epoch_loss": 3}


def test_only_conflicting_names_get_prefixes(tmp_path: Path) -> None:
    write(tmp_path / "outputs" / "runs" / "a" / NAME, events("loss", [1]) + events("only", [5]))
    write(tmp_path / "outputs" / "runs" / "b" / NAME, events("loss", [2]))
    assert lasts(read(tmp_path)) == {"a/loss": 1, "only": 5, "b/loss": 2}


def test_files_of_one_folder_continue_by_creation_time(tmp_path: Path) -> None:
    folder = tmp_path / "outputs" / "tb"
    write(folder / "events.out.tfevents.900.machine", event("loss", 3, 0))
    write(folder / "events.out.tfevents.1700000000.machine", event("loss", 2, 1))
    metrics = read(tmp_path)
    assert curve(metrics, "loss") == [(0, 3), (1, 2)]
    assert metrics.summary()["loss"][2:6] == (2, 2, 2, 3)


def test_file_with_any_name_is_read(tmp_path: Path) -> None:
    write(tmp_path / "outputs" / "events.out.tfevents.²", event("loss", 3, 0))
    assert curve(read(tmp_path), "loss") == [(0, 3)]


def test_file_started_during_the_run_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui_workbench.runs.metrics.discovery.SHARE_OF_TIME", math.inf)
    metrics = RunMetrics(str(tmp_path))
    assert not metrics.refresh()
    (tmp_path / "outputs").mkdir()
    shutil.copytree(DATA, tmp_path / "outputs" / "tb")
    assert metrics.refresh()
    assert "loss/train" in metrics.summary()
    assert metrics.summary()["loss/train"].source == "tensorboard"
