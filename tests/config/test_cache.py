"""Cached values are those that reading the file now would give, or they are not used."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from tui_workbench.config import cache as cache_module
from tui_workbench.config import loading
from tui_workbench.config.cache import ConfigurationCache
from tui_workbench.errors import ConfigurationError
from tui_workbench.model import ComputeTarget, RunConfiguration

SAME_SIZE = "type: local\npythonLocation: python2\nunknown: [1, {a: null}]\n"


class Reader:
    """A configuration folder read through a cache, and how often the files themselves were read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / ".workbench" / "cache" / "configuration.json"
        (folder / ".workbench").mkdir()
        self.reads = 0

    def target(self, name: str = "local.compute") -> ComputeTarget:
        return ConfigurationCache(str(self.file)).compute_target(str(self.folder / name))

    def configuration(self, name: str = "local.runconfig") -> RunConfiguration:
        return ConfigurationCache(str(self.file)).run_configuration(str(self.folder / name))


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    reader = Reader(tmp_path)
    monkeypatch.setattr(cache_module, "SETTLED_NS", 0)
    for name in ("load_compute", "load_run_configuration"):
        real = getattr(loading, name)

        def counted(path: str, real: Any = real) -> Any:
            reader.reads += 1
            return real(path)

        monkeypatch.setattr(loading, name, counted)
    (tmp_path / "local.compute").write_text("type: local\npythonLocation: python3\nunknown: [1, {a: null}]\n")
    (tmp_path / "local.runconfig").write_text(
        'Target: local\nFramework: Python\nArgumentVector: [a.py, "1"]\nEnvironmentVariables: {A: "1"}\n'
    )
    return reader


def test_a_file_is_read_once_and_comes_back_the_same(reader: Reader) -> None:
    first = (reader.target(), reader.configuration())
    assert reader.reads == 2
    assert (reader.target(), reader.configuration()) == first
    assert reader.reads == 2
    assert isinstance(first[1].argument_vector, tuple)


@pytest.mark.parametrize("content", [SAME_SIZE, "type: local\n", "type: localdocker\n"])
def test_a_changed_file_is_read_again(reader: Reader, content: str) -> None:
    reader.target()
    path = reader.folder / "local.compute"
    status = path.stat()
    path.write_text(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # as tools that keep times do
    (reader.folder / "base.compute").write_text("baseDockerImage: x\n")
    if content != "type: localdocker\n":
        assert reader.target() == loading.load_compute(str(path))
    else:
        with pytest.raises(ConfigurationError):
            reader.target()


def test_another_file_under_the_name_is_read_again(reader: Reader) -> None:
    reader.target()
    other = reader.folder / "other"
    other.write_text("type: local\npythonLocation: pythonX\nunknown: [1, {a: null}]\n")
    os.replace(other, reader.folder / "local.compute")
    assert reader.target().python_location == "pythonX"


def test_a_file_that_may_still_be_written_is_not_remembered(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "SETTLED_NS", 10**15)
    for _ in range(2):
        reader.target()
    assert reader.reads == 2
    assert not reader.file.exists()


def test_an_error_is_not_remembered(reader: Reader) -> None:
    (reader.folder / "broken.compute").write_text("type: [\n")
    for _ in range(2):
        with pytest.raises(ConfigurationError):
            reader.target("broken.compute")
    assert reader.reads == 2


@pytest.mark.parametrize(
    "damage",
    ["", "{", "null", "[]", '{"form": 1}', "\xff", "[" * 100_000, '{"form": "FORM", "entries": []}',
     '{"form": "FORM", "entries": {"PATH": 5}}', '{"form": "FORM", "entries": {"PATH": {"signature": SIGNATURE}}}',
     '{"form": "FORM", "entries": {"PATH": {"signature": SIGNATURE, "values": []}}}',
     '{"form": "FORM", "entries": {"PATH": {"signature": SIGNATURE, "values": {"unheard": 1}}}}',
     '{"form": "FORM", "entries": {"PATH": {"signature": SIGNATURE, "values": {}}}}'],
)  # fmt: skip
def test_whatever_is_wrong_with_it_the_files_are_read(reader: Reader, damage: str) -> None:
    right = (reader.target(), reader.configuration())
    for name in ("local.compute", "local.runconfig"):
        path = reader.folder / name
        text = damage.replace("FORM", cache_module.FORM).replace("PATH", str(path))
        reader.file.write_bytes(text.replace("SIGNATURE", str(cache_module._signature(str(path)))).encode("latin-1"))
        assert (reader.target(), reader.configuration()) == right
    reads = reader.reads
    assert (reader.target(), reader.configuration()) == right
    assert reader.reads == reads, "it was not written anew"


def test_another_version_s_entries_are_not_used(reader: Reader) -> None:
    reader.target()
    stored = json.loads(reader.file.read_text())
    reader.file.write_text(json.dumps({**stored, "form": "0.0.1 name path"}))
    reader.target()
    assert reader.reads == 2


def test_values_that_json_would_change_are_not_remembered(reader: Reader) -> None:
    (reader.folder / "odd.runconfig").write_text("Target: local\nFramework: Python\nunknown: {1: one, true: two}\n")
    first = reader.configuration("odd.runconfig")
    assert reader.configuration("odd.runconfig") == first


def test_only_the_user_may_read_it(reader: Reader) -> None:
    reader.target()
    assert reader.file.stat().st_mode & 0o077 == 0


def test_a_project_without_state_gets_none(reader: Reader) -> None:
    (reader.folder / ".workbench").rmdir()
    reader.target()
    assert not (reader.folder / ".workbench").exists()


def test_a_place_that_cannot_be_written_costs_time_only(reader: Reader) -> None:
    (reader.folder / ".workbench" / "cache").write_text("in the way")
    assert reader.target() == reader.target()
    assert reader.reads == 2


def test_threads_that_share_it_get_what_is_in_the_files(reader: Reader) -> None:
    shared = ConfigurationCache(str(reader.file))
    for number in range(8):
        (reader.folder / f"{number}.compute").write_text(f"type: local\npythonLocation: python{number}\n")
    found: dict[int, set[str]] = {}

    def read(number: int) -> None:
        path = str(reader.folder / f"{number}.compute")
        found[number] = {shared.compute_target(path).python_location for _ in range(20)}

    threads = [threading.Thread(target=read, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: {f"python{number}"} for number in range(8)}
    assert not [path for path in reader.file.parent.iterdir() if path != reader.file]
