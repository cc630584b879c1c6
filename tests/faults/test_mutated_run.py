"""No content of a file that the workbench reads ends a command or a screen with a traceback, or hides other runs.

Hypothesis chooses a file of a run, of the project or of the user's state, how it is changed, and READINGS of all
readings. A few readings that must read the file are always added. All readings of one mutation would take 0.3 s, so
that 20,000 mutations would take most of two hours; with READINGS, they take about half an hour.

`make mutations` makes 20,000 mutations with a random seed. `MUTATIONS` sets another number, and the option
`--hypothesis-seed` of pytest a seed. A failure is shrunk, and shows the mutation and the readings.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import open_folder
from tests.faults.mutated_project import CONFIG, RUNS, STATE, MutatedProject
from tests.faults.mutating import Mutation, mutations
from tests.faults.readings import OF_HOME, Answer, Readings

pytestmark = pytest.mark.slow

MUTATIONS = int(os.environ.get("MUTATIONS", "200"))
READINGS = 4
"""Number of readings that hypothesis chooses for each mutation."""

UNREAD = ("exit", "pid", "waiting", "copy")
"""Files that only the controller of an active run reads, and files whose content has no meaning."""


@pytest.fixture(scope="module")
def mutated() -> Iterator[MutatedProject]:
    with open_folder() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder / "files" / "home"))
        yield MutatedProject(folder)


@pytest.fixture(autouse=True)
def _home_of_project(mutated: MutatedProject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(mutated.folder / "home"))


def _readings(mutated: MutatedProject, name: str = "") -> Readings:
    """Return the readings of the run that has the file `name`."""
    run_id = name.removeprefix(f"{RUNS}/").split("/")[0] if name.startswith(RUNS) else ""
    if run_id not in (mutated.imported, mutated.queued, mutated.first):
        run_id = mutated.own
    return Readings(mutated.root, run_id, mutated.healthy, mutated.folder / "exports")


def test_every_reading_of_the_unchanged_files_succeeds(mutated: MutatedProject) -> None:
    for run_id in (mutated.own, mutated.imported):
        readings = _readings(mutated, f"{RUNS}/{run_id}")
        answers = [readings.read(name) for name in readings.names]
        failed = [answer for answer in answers if answer.code or answer.traceback]
        assert failed == [], "\n".join(map(str, failed))
        assert "damaged_files" not in "".join(answer.text for answer in answers)


def _mutations(mutated: MutatedProject) -> st.SearchStrategy[Mutation]:
    """Half of the mutations are of the two runs; most values are in a few of their files."""
    groups = []
    for run_id in (mutated.own, mutated.imported):
        of_run = [name for name in mutated.files if name.startswith(f"{RUNS}/{run_id}/")]
        most = [f"{RUNS}/{run_id}/{name}" for name in ("run.json", "events.jsonl", "metrics.json", "provenance.json")]
        groups += [of_run, [*most, f"{RUNS}/{run_id}/gpu.json"]]
    beside = [
        name for name in mutated.files if not name.startswith((RUNS + "/" + mutated.own, RUNS + "/" + mutated.imported))
    ]
    beside = [name for name in beside if not name.startswith(f"{RUNS}/{mutated.healthy}")]
    groups += [beside, beside, [name for name in beside if name.startswith((STATE, CONFIG))]]
    return st.one_of(*(mutations(mutated.pristine, names) for names in groups))


@pytest.mark.timeout(max(300, MUTATIONS * 5))
@settings(
    max_examples=MUTATIONS,
    derandomize="MUTATIONS" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
@given(data=st.data())
def test_mutated_file_is_named_and_no_reading_ends_with_a_traceback(
    mutated: MutatedProject, data: st.DataObject
) -> None:
    mutation = data.draw(_mutations(mutated), label="mutation")
    names = _readings(mutated, mutation.name).names
    chosen = data.draw(
        st.lists(st.sampled_from(names), unique=True, min_size=READINGS, max_size=READINGS), label="readings"
    )
    problems = problems_of(mutated, mutation, chosen)
    assert not problems, "\n\n".join(problems)


def problems_of(mutated: MutatedProject, mutation: Mutation, chosen: list[str]) -> list[str]:
    """Change a file, execute the readings, and restore the file. Return a text for each problem."""
    mutated.damage(mutation)
    try:
        readings = _readings(mutated, mutation.name)
        answers = [readings.read(name) for name in dict.fromkeys((*_always(mutation), *chosen))]
    finally:
        mutated.restore(mutation)
    return [*_problems(mutated, readings.run_id, answers), *_unnamed(mutation, answers, readings)]


def _problems(mutated: MutatedProject, run_id: str, answers: list[Answer]) -> list[str]:
    found = [f"{answer.what}\n{_traceback(answer)}" for answer in answers if _traceback(answer)]
    missing = [each for each in (mutated.healthy, run_id) if each not in answers[0].text]
    if missing and not answers[0].code:
        found.append(f"{missing} are missing in the list: {answers[0].text[:500]}")
    return found


def _always(mutation: Mutation) -> tuple[str, ...]:
    """Return the names of readings that read the changed file, the list of runs first."""
    if mutation.name.startswith(RUNS):
        return ("history list", "history info")
    if mutation.name.startswith((STATE, CONFIG)):
        return ("history list", *OF_HOME, "screen: session")
    return ("history list", "config check")


def _unnamed(mutation: Mutation, answers: list[Answer], readings: Readings) -> list[str]:
    """Return a text for each answer that should name a broken file, and does not. The file is restored already."""
    if not mutation.is_broken:
        return []
    name = mutation.name.rpartition("/")[2]
    found = [
        f"{answer.what}: the file is not named: {answer.text[:500]}"
        for answer in answers
        if answer.code and name not in answer.text and not answer.traceback and not readings.read(answer.name).code
    ]
    run, _, of_run = mutation.name.removeprefix(f"{RUNS}/").partition("/")
    is_of_run = mutation.name.startswith(RUNS) and not of_run.startswith("outputs/") and of_run not in UNREAD
    if is_of_run and of_run not in "".join(answer.text for answer in answers):
        found.append(f"no answer names {of_run} of {run}")
    return found


def _traceback(answer: Answer) -> str:
    return answer.traceback or (answer.text if "Traceback (most recent call last)" in answer.text else "")


DAMAGES: dict[str, bytes | str] = {
    "project/.workbench/annotated": b"a\0b\n",
    f"{STATE}/agents/requests/1.json": b"{",
    f"{CONFIG}/themes/mine.yaml": "a FIFO",
    f"{RUNS}/QUEUED/queue.json": b"{",
    f"{RUNS}/QUEUED/environment.json": b"[",
    f"{RUNS}/FIRST/dependents": "a dangling link",
}
"""Damages that were found by more mutations than the tests make."""


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_that_was_found_earlier_is_named(mutated: MutatedProject, name: str) -> None:
    path = name.replace("QUEUED", mutated.queued).replace("FIRST", mutated.first)
    mutation = Mutation(path, "found earlier", DAMAGES[name], is_broken=name != "project/.workbench/annotated")
    assert problems_of(mutated, mutation, _readings(mutated).names) == []
