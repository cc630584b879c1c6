"""One sampling process a machine, whoever listens."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults.support import until
from tests.gpu.standin import REST, Standin, gpu
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
    """The living sampling processes of a test's home."""
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
    """A listener on this machine, which has two GPUs; no sampler outlives the test."""
    standin.write(gpu(0), gpu(1, REST))
    with Feed(LOCAL) as one:
        yield one
    for pid in samplers(home):
        os.kill(pid, signal.SIGKILL)
    until(lambda: not samplers(home), "the sampler's end")


def next_sample(feed: Feed) -> Sample:
    sample: Sample = until(lambda: next((each for each in feed.read() if isinstance(each, Sample)), None), "a sample")
    return sample


def test_the_machine_comes_first_and_then_a_sample_a_second(feed: Feed) -> None:
    told: list[object] = []

    def have_three() -> bool:
        told.extend(feed.read())
        return sum(isinstance(each, Sample) for each in told) == 3

    until(have_three, "three samples")
    assert isinstance(told[0], Machine)
    assert feed.machine == told[0]
    times = [each.time for each in told if isinstance(each, Sample)]
    assert times[1] - times[0] > sampler.INTERVAL / 2
    assert times[2] - times[1] > sampler.INTERVAL / 2


def test_many_listeners_have_one_process_and_the_same_samples(feed: Feed, home: Path) -> None:
    next_sample(feed)
    with Feed(LOCAL) as second, Feed(LOCAL._replace(name="other", type="localdocker")) as third:
        told: dict[Feed, set[float]] = {second: set(), third: set()}

        def have_one_in_common() -> bool:
            for each, times in told.items():
                times |= {thing.time for thing in each.read() if isinstance(thing, Sample)}
            return bool(told[second] & told[third])

        until(have_one_in_common, "a sample that both were told")
        assert len(samplers(home)) == 1


def test_a_sampler_that_was_killed_is_replaced(feed: Feed, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "SILENT_SECONDS", 0.2)
    before = next_sample(feed)
    (first,) = samplers(home)
    os.kill(first, signal.SIGKILL)
    until(lambda: samplers(home) not in ([], [first]) or feed.read() is None, "another sampler")
    assert next_sample(feed).time > before.time
    assert len(samplers(home)) == 1


def test_it_ends_when_nobody_listens_any_more(home: Path, standin: Standin) -> None:
    standin.write(gpu(0))
    with Feed(LOCAL) as only:
        next_sample(only)
        assert samplers(home)
    until(lambda: not samplers(home), "its end")


def test_a_machine_without_gpus_says_so_once_and_needs_no_process(home: Path, standin: Standin) -> None:
    standin.write()
    with Feed(LOCAL) as only:
        until(lambda: only.read() or only.machine, "an answer")
        until(lambda: not samplers(home), "its end")
        assert only.machine is not None
        assert (only.machine.devices, only.machine.problem) == ((), "the NVIDIA driver lists no GPU")


def test_a_file_that_has_grown_is_begun_anew_and_nothing_is_lost(
    home: Path, standin: Standin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler, "LARGEST", 1000)
    folder = Path(folder_of(LOCAL))
    folder.mkdir(parents=True)
    (folder / feeds.SAMPLER_LOCK).touch()
    monkeypatch.setattr(Feed, "_have_sampler", lambda self: None)
    written = sampler.Sampler(str(folder), LOCAL)
    written._begin(Machine(source="nvml"))
    with Feed(LOCAL) as reader:
        reader.read()
        for number in range(100):
            written._write([Sample(float(number), ()), Note(float(number), "x" * 20)])
            told = [each.time for each in reader.read() if isinstance(each, Sample)]
            told += [each.time for each in reader.read() if isinstance(each, Sample)]
            assert told == [number]


def test_a_new_listener_gets_as_much_of_the_past_as_it_wants(feed: Feed) -> None:
    for _ in range(2):
        next_sample(feed)
    with Feed(LOCAL, history=1 << 20) as curious:
        times = [each.time for each in curious.read() if isinstance(each, Sample)]
        assert len(times) >= 2
    with Feed(LOCAL) as modest:
        assert [type(each) for each in modest.read()] in ([Machine], [Machine, Sample])


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


def test_no_strange_address_leads_out_of_the_folder() -> None:
    key = machine_key(ComputeTarget("a", "/x", "remote", address="../../etc/passwd\0", username="ü/"))
    assert "/" not in key
    assert key.isascii()


def test_a_secret_in_a_target_s_file_is_not_written_into_another(home: Path) -> None:
    with pytest.raises(ConfigurationError, match="belongs into the keyring"):
        Feed(BOX._replace(password="hunter2"))
    assert not Path(folder_of(BOX)).exists()


def test_the_time_is_the_clock_s(feed: Feed) -> None:
    assert abs(next_sample(feed).time - time.time()) < 60
