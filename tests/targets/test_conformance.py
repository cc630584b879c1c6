"""Behaviors of every target, by the numbers in `tui_workbench.targets.base.protocol`.

`tests.targets.harness` explains how to add a target.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.faults.support import is_running, until
from tests.runs.metrics.support import curve, read
from tests.targets.harness import (
    HARNESSES,
    FakeClusterHarness,
    FakeHarness,
    Harness,
    LocalHarness,
    Script,
    harness_parameters,
)
from tui_workbench.core.causes import text_of
from tui_workbench.core.errors import ConfigurationError, WorkbenchError
from tui_workbench.core.model import RunSpec
from tui_workbench.core.waiting import Interrupted
from tui_workbench.targets import values
from tui_workbench.targets.base.group import RunGroup
from tui_workbench.targets.base.protocol import Target
from tui_workbench.targets.checks.result import BROKEN, CONFIGURATION
from tui_workbench.targets.hosts.host import Host
from tui_workbench.targets.values import Report

NEVER = -1


@pytest.fixture
def fake_harness(tmp_path: Path) -> Harness:
    return FakeHarness(tmp_path)


@pytest.fixture
def fakecluster_harness(tmp_path: Path) -> Harness:
    return FakeClusterHarness(tmp_path)


@pytest.fixture
def local_harness(tmp_path: Path) -> Harness:
    return LocalHarness(tmp_path)


def for_harnesses(*names: str) -> pytest.MarkDecorator:
    """Run a test with these harnesses only."""
    return pytest.mark.parametrize("harness", harness_parameters(*names), indirect=True)


def for_all_but(*names: str) -> pytest.MarkDecorator:
    """Run a test with all harnesses but these."""
    return for_harnesses(*(name for name in HARNESSES if name not in names))


@pytest.fixture(params=harness_parameters(*HARNESSES))
def harness(request: pytest.FixtureRequest) -> Iterator[Harness]:
    harness: Harness = request.getfixturevalue(f"{request.param}_harness")
    yield harness
    harness.close()


def files_of(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}


def test_1_plan_is_repeatable_and_changes_nothing(harness: Harness) -> None:
    spec = harness.spec(Script(), ("a",), {"NAME": "value"})
    plan = harness.target().plan(spec)
    assert plan == harness.target().plan(spec)
    assert files_of(spec.run_directory) == {}
    start = plan.step("start")
    assert start is not None
    assert start.command[-2:] == (spec.script, "a")
    assert start.environment["NAME"] == "value"


def test_1_plan_masks_secrets(harness: Harness) -> None:
    start = harness.target().plan(harness.spec(Script(), (), {"API_TOKEN": "hunter2"})).step("start")
    assert start is not None
    assert start.environment["API_TOKEN"] == "***"


SECRET_VARIABLES = (
    ("api-key", "hunter2xyz"), ("hf.token", "hunter2xyz"), ("PASSWÖRD_TOKEN", "hunter2xyz"),
    ("2ND_PASSWORD", "hunter2xyz"), ("my.db", "postgres://me:hunter2xyz@db/x"),
    ("MAIL", "imap://me:hunter2xyz@host"), ("api-key", "AzureMlSecret=p#api-key#0"),
)  # fmt: skip


@for_all_but("fake", "fakecluster")
def test_1_plan_refuses_secrets_that_a_list_of_processes_would_show(harness: Harness) -> None:
    for name, value in SECRET_VARIABLES:
        with pytest.raises(ConfigurationError, match="list, which other users of the machine can read") as refused:
            harness.target().plan(harness.spec(Script(), (), {name: value}))
        assert "hunter2xyz" not in str(refused.value)
    harness.target().plan(harness.spec(Script(), (), {"some.name": "1", "API_KEY": "hunter2xyz"}))


def test_2_run_starts_once(harness: Harness) -> None:
    spec = harness.spec(Script(output="once\n"))
    with ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(harness.start, spec) for _ in range(8)]:
            future.result()
    assert harness.target().started(spec) or until(lambda: harness.target().started(spec))
    assert harness.target().wait(spec, NEVER).exit_code == 0
    harness.start(spec)
    assert harness.target().wait(spec, NEVER).exit_code == 0
    assert harness.log(spec) == b"once\n"


def test_2_wait_refuses_a_run_that_was_not_started(harness: Harness) -> None:
    spec = harness.spec(Script())
    assert not harness.target().started(spec)
    assert not harness.target().has_ended(spec)
    with pytest.raises(WorkbenchError, match="started"):
        harness.target().wait(spec, NEVER)


@for_all_but("fake")  # its runs end with the process that started them
def test_3_run_outlives_the_process_that_started_it(harness: Harness) -> None:
    spec = harness.spec(Script(output="began\n", waits=True))
    starter = os.fork()
    if starter == 0:
        code = 1
        try:
            harness.start(spec)
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(starter, 0)[1] == 0
    harness.until_written(spec, "began")
    assert not harness.target().has_ended(spec)
    assert harness.target().stop(spec, grace=10) is False
    assert harness.target().wait(spec, NEVER).exit_code == 143


def test_4_wait_returns_the_exit_code(harness: Harness) -> None:
    specs = {code: harness.spec(Script(exit_code=code)) for code in (0, 1, 128, 255)}
    for spec in specs.values():
        harness.start(spec)
    for code, spec in specs.items():
        assert harness.target().wait(spec, NEVER).exit_code == code
        assert harness.target().has_ended(spec)
        again = harness.target().wait(spec, NEVER)
        assert again.exit_code == code
        assert bool(again.reason) is (code != 0)


def test_5_unknown_exit_code_has_a_reason(harness: Harness) -> None:
    spec = harness.spec(Script(output="began\n", waits=True))
    harness.start(spec)
    harness.until_written(spec, "began")
    harness.lose(spec)
    outcome = harness.target().wait(spec, NEVER)
    assert outcome.exit_code is None
    assert outcome.reason


def test_6_log_is_complete_after_wait(harness: Harness) -> None:
    output = "".join(f"\x1b[31m{number}\x00\r\t\u00e9\u202e\U0001f600\n" for number in range(20_000)) + "no newline"
    spec = harness.spec(Script(output=output))
    harness.start(spec)
    harness.target().wait(spec, NEVER)
    assert harness.log(spec) == output.encode()


def test_7_stop_kills_after_the_grace_period(harness: Harness) -> None:
    spec = harness.spec(Script(output="began\n", stubborn=True))
    harness.start(spec)
    harness.until_written(spec, "began")
    assert harness.target().stop(spec, grace=0.05) is True
    assert harness.target().has_ended(spec)
    assert harness.target().wait(spec, NEVER).exit_code == 137


def test_8_stop_of_an_ended_or_unstarted_run_does_nothing(harness: Harness) -> None:
    never = harness.spec(Script())
    assert harness.target().stop(never, grace=30) is False
    assert files_of(never.run_directory) == {}
    ended = harness.spec(Script(output="done\n", exit_code=3))
    harness.start(ended)
    harness.target().wait(ended, NEVER)
    before = files_of(ended.run_directory)
    assert harness.target().stop(ended, grace=30) is False
    assert files_of(ended.run_directory) == before
    assert harness.target().wait(ended, NEVER).exit_code == 3


ODD = (
    "", " ", "two words", "'", '"', "$(touch hacked)", "`touch hacked`", "$HOME", "${HOME}", "a\nb", "\n", "\t", "\r\n",
    "*", "?", "[a]", "~", "\\", "\\n", "-", "--", "-x", "--option=value", ";", "&&", "|", "> file", "#", "!", "%s", "%",
    "{}", "(", "\u00e9", "\u4f60\u597d", "\U0001f600", "\u202e", "\x1b[31m", "\x7f", "\x01", "\udcff", "=", "a=b",
)  # fmt: skip


def test_9_unusual_values_are_passed_unchanged(harness: Harness) -> None:
    variables = {f"NAME_{number}": value for number, value in enumerate(ODD)}
    names = ("with.dots", "with-hyphens", "with space", "1digit", "\u00fcber", "-x", "--", "a\nb", "$(x)", "%s", "'")
    variables |= {name: f"value of {name}" for name in names}
    # Most targets use a shell, which sets these variables.
    variables |= {"IFS": ":", "PWD": "/nowhere", "OPTIND": "7", "PS4": "$", "_": "_", "PPID": "1", "LINENO": "x"}
    variables |= {"run": "1", "dir": "2", "boot": "3", "stat": "4", "code": "5"}
    variables |= {
        "PATH": harness.unusual_path,
        "HOME": "/nobody",
        "OLDPWD": "/before",
        "ENV": "/etc/profile",
        "SHLVL": "9",
    }
    spec = harness.spec(Script(report=True), ODD, variables)
    harness.start(spec)
    outcome = harness.target().wait(spec, NEVER)
    assert outcome.exit_code == 0, harness.log(spec)
    report = harness.report(spec)
    assert tuple(report["arguments"]) == ODD
    found = report["environment"]
    assert {name: found.get(name) for name in variables} == variables
    assert not list(Path(spec.working_directory).glob("hacked"))


@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=20, max_size=80)
)
def test_9_any_text_is_passed_unchanged(harness: Harness, texts: list[str]) -> None:
    variables = {f"V{number}": text for number, text in enumerate(texts)}
    spec = harness.spec(Script(report=True), tuple(texts), variables)
    harness.start(spec)
    assert harness.target().wait(spec, NEVER).exit_code == 0
    report = harness.report(spec)
    assert report["arguments"] == texts
    assert {name: report["environment"][name] for name in variables} == variables


def test_9_configuration_overrides_the_callers_environment(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM_CALLER", "caller")
    monkeypatch.setenv("IN_BOTH", "caller")
    monkeypatch.setenv("caller.with.dots", "caller")
    spec = harness.spec(Script(report=True), (), {"IN_BOTH": "configuration"})
    harness.start(spec)
    harness.target().wait(spec, NEVER)
    found = harness.report(spec)["environment"]
    expected = "caller" if harness.inherits_environment else None
    assert (found.get("FROM_CALLER"), found["IN_BOTH"]) == (expected, "configuration")
    assert found.get("caller.with.dots") == expected
    assert found["AZUREML_RUN_ID"] == spec.run_id


def test_10_processes_of_the_script_end_with_it(harness: Harness) -> None:
    spec = harness.spec(Script(leaves_child=True, exit_code=5))
    harness.start(spec)
    outcome = harness.target().wait(spec, NEVER)
    assert outcome.exit_code == 5
    assert harness.target().has_ended(spec)
    if isinstance(harness, LocalHarness):
        assert text_of(outcome.notes).startswith(
            "the workbench ended 1 background process that the script left running"
        )
        assert not is_running(int(Path(spec.working_directory, "child").read_text()))


def test_11_wait_can_be_interrupted_and_called_again(harness: Harness) -> None:
    spec = harness.spec(Script(output="began\n", waits=True))
    harness.start(spec)
    reading, writing = os.pipe()
    try:
        os.write(writing, b"x")
        with pytest.raises(Interrupted):
            harness.target().wait(spec, reading)
        os.read(reading, 1)
        raised = threading.Event()

        def wait() -> None:
            try:
                harness.target().wait(spec, reading)
            except Interrupted:
                raised.set()

        waiter = threading.Thread(target=wait)
        waiter.start()
        harness.until_written(spec, "began")
        assert waiter.is_alive()
        os.write(writing, b"x")
        waiter.join(120)
        assert raised.is_set()
    finally:
        os.close(reading)
        os.close(writing)
    assert harness.target().stop(spec, grace=30) is False
    assert harness.target().wait(spec, NEVER).exit_code == 143


def test_7_stop_sends_sigterm_and_11_several_callers_wait(harness: Harness) -> None:
    spec = harness.spec(Script(output="began\n", waits=True))
    harness.start(spec)
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(harness.target().wait, spec, NEVER) for _ in range(4)]
        harness.until_written(spec, "began")
        assert harness.target().stop(spec, grace=30) is False
        assert harness.target().has_ended(spec)
        assert {future.result(120).exit_code for future in waiting} == {143}


def test_check_of_a_working_target_finds_no_problem(harness: Harness) -> None:
    assert harness.target().check() == []


@for_all_but("fake")  # its scripts are not programs
def test_16_logged_values_are_in_the_run_directory(harness: Harness) -> None:
    spec = harness.spec(Script(report=True, logs=True), (), {"PYTHONPATH": "/of/the/user"})
    harness.start(spec)
    target = harness.target()
    assert target.wait(spec, NEVER).exit_code == 0
    ours, users = harness.report(spec)["environment"]["PYTHONPATH"].split(":")
    assert "sdk" in ours.split("/")
    assert users == "/of/the/user"
    if isinstance(target, Target):
        target.collect(spec)
    assert curve(read(Path(spec.run_directory)), "loss") == [(3, 0.5)]
    assert Path(spec.run_directory, "outputs", "made.txt").read_text() == "made"


def group_of(harness: Harness, spec: RunSpec) -> RunGroup:
    """Return a new group that can follow the run."""
    shared = harness.target().shared_group(spec.run_directory)
    assert shared is not None
    return shared.open()


def ends(target: Target, group: RunGroup, specs: Sequence[RunSpec]) -> dict[str, int | None]:
    """Wait until the runs have ended, and return their exit codes by run ID."""
    by_id = {spec.run_id: spec for spec in specs}
    found: dict[str, int | None] = {}
    while len(found) < len(specs):
        for run_id, outcome in group.wait(NEVER).items():
            assert run_id not in found
            found[run_id] = (outcome or target.wait(by_id[run_id], NEVER)).exit_code
    return found


@for_all_but("fake", "cluster")  # each of their runs has a controller
def test_17_group_returns_each_run_once_with_its_outcome(harness: Harness) -> None:
    target = harness.target()
    specs = [harness.spec(Script(output=f"{code}\n", exit_code=code)) for code in (0, 3, 7)]
    with contextlib.closing(group_of(harness, specs[0])) as group:
        harness.start(specs[0])
        assert target.wait(specs[0], NEVER).exit_code == 0  # a run may have ended before it is added
        for spec in specs:
            harness.start(spec)
            group.add(spec, Report())
        assert ends(target, group, specs) == {specs[0].run_id: 0, specs[1].run_id: 3, specs[2].run_id: 7}
    assert [harness.log(spec) for spec in specs] == [b"0\n", b"3\n", b"7\n"]


@for_all_but("fake", "cluster")  # each of their runs has a controller
def test_17_group_reports_that_the_script_runs(harness: Harness) -> None:
    spec = harness.spec(Script(waits=True))
    reading, writing = os.pipe()

    class Reporting(Report):
        def running(self) -> None:
            os.write(writing, b"r")

    with contextlib.closing(group_of(harness, spec)) as group:
        harness.start(spec)
        group.add(spec, Reporting())
        assert group.wait(reading) == {}
        group.remove(spec.run_id)
        group.remove(spec.run_id)
    harness.target().stop(spec, grace=0)
    os.close(reading)
    os.close(writing)


@for_all_but("fake", "cluster")  # each of their runs has a controller
def test_17_wait_of_a_group_is_interrupted(harness: Harness) -> None:
    spec = harness.spec(Script(waits=True))
    reading, writing = os.pipe()
    with contextlib.closing(group_of(harness, spec)) as group:
        harness.start(spec)
        group.add(spec, Report())
        os.close(writing)
        assert group.wait(reading) == {}
    assert not harness.target().has_ended(spec)
    harness.target().stop(spec, grace=0)
    os.close(reading)


@for_harnesses("fakecluster", "local")  # the scripts of the others are not processes here
def test_19_warned_run_ends_by_itself(harness: Harness) -> None:
    spec = harness.spec(Script(output="began\n", waits=True))
    harness.start(spec)
    harness.until_written(spec, "began")
    harness.target().warn(spec)
    assert harness.target().wait(spec, NEVER).exit_code
    harness.target().warn(spec)


@for_harnesses("fakecluster", "local")  # the scripts of the others are not processes here
def test_19_warned_run_may_continue(harness: Harness) -> None:
    spec = harness.spec(Script(output="began\n", waits=True, stubborn=True))
    harness.start(spec)
    harness.until_written(spec, "began")
    harness.target().warn(spec)
    assert not harness.target().has_ended(spec)
    assert harness.target().stop(spec, grace=0)


@for_all_but("fake", "fakecluster", "cluster")  # their types do not read Retry
def test_18_run_starts_again_after_a_reset(harness: Harness) -> None:
    spec = harness.spec(Script(output="once\n", exit_code=3))
    for attempt in (1, 2):
        harness.start(spec)
        assert harness.target().wait(spec, NEVER).exit_code == 3
        assert harness.log(spec) == b"once\n" * attempt
        spec = spec._replace(attempt=attempt + 1)
        for _ in range(2):
            harness.target().reset(spec)
        assert not harness.target().started(spec)
        assert not harness.target().has_ended(spec)


class Times(Report):
    """The last reported times."""

    def __init__(self) -> None:
        self.times = values.Times()

    def ran(self, times: values.Times) -> None:
        self.times = times


@pytest.mark.processes
@for_all_but("fake")  # it records no times
def test_20_times_are_those_of_the_script(harness: Harness) -> None:
    spec, before = harness.spec(Script(output="ran\n")), time.time()
    harness.start(spec)
    harness.target().wait(spec, NEVER)
    after = time.time()
    until(lambda: time.time() > after + 1.0)
    target = harness.target()
    target.report = report = Times()
    target.wait(spec, NEVER)
    start, end = report.times
    rounding = 0.1
    assert before - rounding < start <= end < after + rounding


@pytest.mark.processes
@for_all_but("shellless")  # like `localdocker`
def test_21_checks_have_the_names_that_are_known_before(harness: Harness) -> None:
    target = harness.target()
    checks = type(target).checks(target.target, lambda _: target, target.host)
    names = checks.names
    assert len(set(names)) == len(names)
    results = [(found.name, found.state) for found in checks.run()]
    assert tuple(name for name, _ in results) == names[: len(results)]
    assert BROKEN not in [state for _, state in results[:-1]]
    assert len(results) == len(names) or results[-1][1] == BROKEN


@pytest.mark.processes
@for_all_but("shellless")
def test_21_first_check_reports_an_invalid_target(harness: Harness) -> None:
    target = harness.target()

    def refuse(_: Host | None) -> Target:
        raise ConfigurationError("the file is torn", remedy="Correct it.")

    (found,) = type(target).checks(target.target, refuse, target.host).run()
    assert (found.name, found.state, found.message) == (CONFIGURATION, BROKEN, "the file is torn")
