"""Runs that an earlier version of the workbench has stored, whose events have texts instead of causes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tui_workbench.core.causes import (
    CANCELED,
    KILLED,
    TIME_LIMIT,
    Cause,
    exit_causes,
    kinds_of,
    of_attempt,
    plain,
)
from tui_workbench.runs.store.attempts import attempts_of
from tui_workbench.runs.store.rundir import CancelRequest, Ending, RunDirectory

LIMIT = "MaxDurationMinutes: ended after 30 min"
EVENTS = [
    {"time": 1.0, "event": "state", "state": "queued"},
    {"time": 2.0, "event": "state", "state": "running"},
    {"time": 3.0, "event": "limit", "reason": LIMIT, "reached": True},
    {"time": 4.0, "event": "attempt", "number": 2, "start": 6, "reason": LIMIT, "due": 5.0, "exit_code": None,
     "state": "canceled", "ended": 4.0, "anew": False},
    {"time": 5.0, "event": "state", "state": "queued", "reason": f"attempt 2 at 14:03:12: {LIMIT}"},
    {"time": 6.0, "event": "state", "state": "running"},
    {"time": 7.0, "event": "ending", "state": "failed", "reason": "attempt 2: exit code 3", "exit_code": 3,
     "end": 7.0, "error_code": 0, "cause": None},
    {"time": 8.0, "event": "state", "state": "failed", "reason": "attempt 2: ValueError: x (exit code 3)",
     "final": True, "end": 7.0, "exit_code": 3},
]  # fmt: skip


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    (tmp_path / "events.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in EVENTS))
    return RunDirectory(str(tmp_path))


def test_run_of_an_earlier_version_keeps_its_texts(directory: RunDirectory) -> None:
    status = directory.status()
    assert status.reason == EVENTS[-1]["reason"]
    assert status.causes == of_attempt(2, plain("ValueError: x (exit code 3)"))
    assert status.ending == Ending("failed", of_attempt(2, exit_causes(3)), 3, 7.0)
    assert [attempt.reason for attempt in attempts_of(directory)] == [LIMIT, "ValueError: x (exit code 3)"]
    assert [attempt.causes for attempt in directory.attempts()] == [plain(LIMIT)]


def test_limit_of_an_earlier_version_is_read(directory: RunDirectory) -> None:
    Path(directory.path, "events.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in EVENTS[:3]))
    assert directory.status().limit == plain(LIMIT)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"5.000\n", CancelRequest(5.0)),
        (f"2.500 {LIMIT}\n".encode(), CancelRequest(2.5, plain(LIMIT))),
        (b'{"causes": 3}\n2.500 a text\n', CancelRequest(2.5, plain("a text"))),
        (b"[1]\n2.500 a text\n", CancelRequest(2.5, plain("a text"))),
        (b"2.500 incomplete", CancelRequest()),
        (b"", CancelRequest()),
    ],
)
def test_cancel_requests_of_earlier_versions_are_read(tmp_path: Path, content: bytes, expected: CancelRequest) -> None:
    (tmp_path / "cancel").write_bytes(content)
    assert RunDirectory(str(tmp_path)).cancel_request == expected


def test_last_cancel_request_applies(tmp_path: Path) -> None:
    directory = RunDirectory(str(tmp_path))
    directory.request_cancel(5.0, Cause(TIME_LIMIT, {"minutes": 30}))
    assert directory.cancel_request == CancelRequest(5.0, (Cause(TIME_LIMIT, {"minutes": 30}),))
    # Controllers of earlier versions read the last line.
    assert Path(tmp_path, "cancel").read_text().splitlines()[-1] == f"5.000 {LIMIT}"
    directory.request_cancel(0.0)
    assert directory.cancel_request == CancelRequest(0.0)


def test_events_store_causes_and_their_text(tmp_path: Path) -> None:
    directory = RunDirectory(str(tmp_path))
    causes = (Cause(CANCELED), Cause(KILLED, {"seconds": 5.0}))
    directory.append_event("state", state="canceled", causes=causes, final=True)
    (event,) = directory.events()
    assert event["reason"] == "canceled; its processes were killed after 5 s"
    assert event["causes"] == [{"kind": "canceled", "facts": {}}, {"kind": "killed", "facts": {"seconds": 5.0}}]
    assert kinds_of(directory.status().causes) == (CANCELED, KILLED)
