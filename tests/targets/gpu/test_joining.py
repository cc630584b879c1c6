"""Samples of several machines become those of one run, also if a machine no longer answers."""

from __future__ import annotations

from tui_workbench.targets.gpu.sample import WAIT_SECONDS, Reading, Sample, Source, join


class Machines:
    """Two machines, with one GPU each. `found` contains the GPUs in the joined samples, by time."""

    def __init__(self) -> None:
        self._sources = {0: Source(), 1: Source()}
        self.found: dict[float, list[int]] = {}

    def take(self, time: float, *numbers: int, is_last: bool = False) -> None:
        """Take a sample on the machines with these numbers."""
        for number in numbers:
            self._sources[number].samples.append(Sample(time, (Reading(number),)))
            self._sources[number].last = time
        for sample, parts in join(self._sources, is_last=is_last):
            assert sample.time not in self.found
            self.found[sample.time] = [reading.device for reading in sample.readings]
            assert list(parts) == self.found[sample.time]


def test_samples_of_a_lost_machine_are_awaited_for_a_while() -> None:
    machines = Machines()
    for time in range(1, 6):
        machines.take(time, 0, 1)
    lost = 6
    for time in range(lost, lost + int(WAIT_SECONDS)):
        machines.take(time, 0)
    assert machines.found == {time: [0, 1] for time in range(1, lost)}
    later = lost + int(WAIT_SECONDS)
    machines.take(later, 0)
    assert machines.found.keys() == set(range(1, lost + 1))
    assert machines.found[lost] == [0]
    machines.take(later + 1, 0, 1)  # the machine answers again
    assert machines.found[lost + 1] == machines.found[later] == [0]
    assert machines.found[later + 1] == [0, 1]


def test_silent_machine_is_not_awaited_at_the_end() -> None:
    machines = Machines()
    machines.take(1, 0)
    machines.take(2, 0)
    assert machines.found == {}
    machines.take(3, 0, is_last=True)
    assert machines.found == {1: [0], 2: [0], 3: [0]}
