"""No content of a run directory ends a command or a screen with a traceback, or hides another run.

`make mutations` makes 20,000 mutations, which takes about an hour; `MUTATIONS` and `MUTATION_SEED` set the number and
the first seed. A failure lists the seeds: `MUTATIONS=1 MUTATION_SEED=n` repeats the mutation with the seed n.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import open_folder
from tests.faults.mutated_run import Answer, MutatedRun
from tests.faults.mutating import mutate

MUTATIONS = int(os.environ.get("MUTATIONS", "200"))
SEED = int(os.environ.get("MUTATION_SEED", "0"))
READINGS = 4
"""Number of readings after each mutation, in addition to the list of runs and the record of the run."""

MOST_SHOWN = 10
TRUSTED = ("exit", "pid")
"""Files that only the controller of an active run reads."""


@pytest.fixture(scope="module")
def mutated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MutatedRun]:
    with open_folder() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        run = MutatedRun(folder)
        # Of another user: an active run of this user would get a controller.
        shutil.rmtree(Path(os.environ["HOME"]) / ".local")
        yield run


@pytest.fixture(autouse=True)
def _home_of_run(mutated: MutatedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", mutated.home)


def test_every_reading_of_the_unchanged_run_succeeds(mutated: MutatedRun) -> None:
    answers = [reading() for reading in mutated.readings().values()]
    assert [answer for answer in answers if answer.traceback] == []
    assert "damaged_files" not in "".join(answer.text for answer in answers)


@pytest.mark.timeout(max(300, MUTATIONS * 5))
def test_mutated_file_is_named_and_no_reading_ends_with_a_traceback(mutated: MutatedRun) -> None:
    problems = [text for seed in range(SEED, SEED + MUTATIONS) for text in _problems(mutated, seed)]
    assert not problems, "\n\n".join([f"{len(problems)} problems", *problems[:MOST_SHOWN]])


def _problems(mutated: MutatedRun, seed: int) -> list[str]:
    """Mutate a file, read the run, and restore the file. Return a text for each problem."""
    rng = random.Random(seed)
    # Most values are in the record and in the events.
    often = [*mutated.files, *["run.json"] * 6, *["events.jsonl"] * 4, "gpu.json", "metrics.json", "provenance.json"]
    mutation = mutate(rng, mutated.path, often)
    mutated.forget_index()
    readings = mutated.readings()
    chosen = ("history list", f"history info -r {mutated.run_id}", *rng.sample(list(readings), READINGS))
    answers = [readings[name]() for name in chosen]
    mutated.restore(mutation.name)
    title = f"seed {seed}: {mutation.name}: {mutation.what}"
    found = [f"{title}: {answer.what}\n{answer.traceback}" for answer in answers if _traceback(answer)]
    if mutated.healthy not in answers[0].text or mutated.run_id not in answers[0].text:
        found.append(f"{title}: a run is missing in the list: {answers[0].text[:500]}")
    is_of_workbench = not mutation.name.startswith("outputs/") and mutation.name not in TRUSTED
    if mutation.is_broken and is_of_workbench and mutation.name not in "".join(answer.text for answer in answers):
        found.append(f"{title}: the file is not named")
    return found


def _traceback(answer: Answer) -> str:
    return answer.traceback or (answer.text if "Traceback (most recent call last)" in answer.text else "")
