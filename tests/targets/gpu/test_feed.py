"""The feed of GPU samples: one sampler per machine for all readers."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.support import until
from tests.gpu.standin import REST, Standin, gpu
from tui_workbench.core import locks
from tui_workbench.core.errors import ConfigurationError
from tui_workbench.core.model import ComputeTarget
from tui_workbench.core.processes import reap
from tui_workbench.targets.gpu import feed as feeds
from tui_workbench.targets.gpu import sampler
from tui_workbench.targets.gpu.feed import Feed, folder_of
from tui_workbench.targets.gpu.gpus import machine_key
from tui_workbench.targets.gpu.sample import Machine, Note, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

BOX = ComputeTarget("a", "/x", "remote", address="box")
LOCAL = ComputeTarget("local", "/nowhere/local.compute", "local")


def samplers(home: Path) -> list[int]:
    """Return the running samplers of a test's home directory."""
    reap()
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path("/proc", name, "cmdline").read_bytes()
            alive = b") Z " not in Path("/proc", name, "stat").read_bytes()
        except OSError:
            continue
        if alive and b"gpu.sampler" in words and os.fsencode(home) in words:
            found.append(int(name))
    return found


@pytest.fixture
def feed(home: Path, standin: Standin) -> Iterator[Feed]:
    """Return a feed of this machine, which has two GPUs. Its sampler ends with the test."""
    standin.write(gpu(0), gpu(1, REST))
    with Feed(LOCAL) as reader:
        yield reader
    for pid in samplers(home):
        os.kill(pid, signal.SIGKILL)
    until(lambda: not samplers(home), "the sampler's end")


def next_sample(feed: Feed) -> Sample:
    sample: Sample = until(lambda: next((each for each in feed.read() if isinstance(each, Sample)), None), "a sample")
    return sample


def test_machine_comes_first_then_a_sample_per_second(feed: Feed) -> None:
    records: list[object] = []

    def have_three() -> bool:
        records.extend(feed.read())
        return sum(isinstance(each, Sample) for each in records) == 3

    until(have_three, "three samples")
    assert isinstance(records[0], Machine)
    assert feed.machine == records[0]
    times = [each.time for each in records if isinstance(each, Sample)]
    assert abs(times[0] - time.time()) < 60
    assert times[1] - times[0] > sampler.INTERVAL / 2
    assert times[2] - times[1] > sampler.INTERVAL / 2


def test_readers_share_one_sampler(feed: Feed, home: Path) -> None:
    next_sample(feed)
    with Feed(LOCAL) as second, Feed(LOCAL._replace(name="other", type="localdocker")) as third:
        seen: dict[Feed, set[float]] = {second: set(), third: set()}

        def have_one_in_common() -> bool:
            for each, times in seen.items():
                times |= {record.time for record in each.read() if isinstance(record, Sample)}
            return bool(seen[second] & seen[third])

        until(have_one_in_common, "a sample that both feeds return")
        assert len(samplers(home)) == 1


def test_killed_sampler_is_replaced(feed: Feed, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "SILENT_SECONDS", 0.2)
    before = next_sample(feed)
    (first,) = samplers(home)
    os.kill(first, signal.SIGKILL)
    until(lambda: samplers(home) not in ([], [first]) or feed.read() is None, "another sampler")
    assert next_sample(feed).time > before.time
    assert len(samplers(home)) == 1


def test_sampler_ends_without_readers(home: Path, standin: Standin) -> None:
    standin.write(gpu(0))
    with Feed(LOCAL) as only:
        next_sample(only)
        assert samplers(home)
    until(lambda: not samplers(home), "its end")


def test_sampler_ends_on_a_machine_without_gpus(home: Path, standin: Standin) -> None:
    standin.write()
    with Feed(LOCAL) as only:
        until(lambda: only.read() or only.machine, "an answer")
        until(lambda: not samplers(home), "its end")
        assert only.machine is not None
        assert (only.machine.devices, only.machine.problem) == ((), "the NVIDIA driver lists no GPU")


def test_answer_of_an_ending_sampler_is_asked_again(home: Path, standin: Standin) -> None:
    standin.write(gpu(0))
    folder = Path(folder_of(LOCAL))
    folder.mkdir(parents=True)
    lock = locks.open_lock(str(folder / feeds.SAMPLER_LOCK))
    assert locks.try_lock(lock)  # as a sampler that has written its answer, and has not ended yet
    sampler.Sampler(str(folder), LOCAL).start_file(Machine(problem="the NVIDIA driver lists no GPU"))
    with Feed(LOCAL) as reader:
        until(lambda: reader.read() or reader.machine, "the earlier answer")
        os.close(lock)
        assert len(next_sample(reader).readings) == 1
    until(lambda: not samplers(home), "the sampler's end")


def test_readers_continue_in_a_new_file(home: Path, standin: Standin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "LARGEST", 1000)
    folder = Path(folder_of(LOCAL))
    folder.mkdir(parents=True)
    lock = locks.open_lock(str(folder / feeds.SAMPLER_LOCK))
    assert locks.try_lock(lock)  # as a running sampler holds it
    writer = sampler.Sampler(str(folder), LOCAL)
    writer.start_file(Machine(source="nvml"))
    with Feed(LOCAL) as reader:
        reader.read()
        for number in range(100):
            writer.write([Sample(float(number), ()), Note(float(number), "x" * 20)])
            times = [each.time for each in reader.read() if isinstance(each, Sample)]
            times += [each.time for each in reader.read() if isinstance(each, Sample)]
            assert times == [number]
    os.close(lock)


def test_new_reader_gets_the_requested_history(feed: Feed) -> None:
    for _ in range(2):
        next_sample(feed)
    with Feed(LOCAL, history=1 << 20) as long:
        assert sum(isinstance(each, Sample) for each in long.read()) >= 2
    with Feed(LOCAL) as short:
        assert [type(each) for each in short.read()] in ([Machine], [Machine, Sample])


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (
            ComputeTarget("a", "/x", "remote", address="box"),
            ComputeTarget("b", "/y", "remotedocker", address="box"),
            True,
        ),
        (ComputeTarget("a", "/x", "remote", address="box"), ComputeTarget("a", "/x", "remote", address="box2"), False),
        (BOX._replace(username="me"), BOX._replace(username="you"), False),
        (LOCAL, ComputeTarget("d", "/x", "localdocker"), True),
    ],
)
def test_targets_on_one_machine_share_a_folder(first: ComputeTarget, second: ComputeTarget, same: bool) -> None:
    assert (machine_key(first) == machine_key(second)) is same


def test_machine_key_is_a_safe_file_name() -> None:
    key = machine_key(ComputeTarget("a", "/x", "remote", address="../../etc/passwd\0", username="ü/"))
    assert "/" not in key
    assert key.isascii()


def test_plain_text_secret_is_not_copied(home: Path) -> None:
    with pytest.raises(ConfigurationError, match="plain-text secret"):
        Feed(BOX._replace(password="hunter2"))
    assert not Path(folder_of(BOX)).exists()
