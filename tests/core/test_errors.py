"""Every error is one line with location, problem and fix, and has an exit code."""

from __future__ import annotations

import errno

import pytest

from tui_workbench.core import errors
from tui_workbench.core.errors import (
    ConfigurationError,
    ProjectNotFound,
    RunNotFound,
    StorageError,
    TargetUnreachable,
    UsageError,
    WorkbenchError,
    storage_error,
)

CODES = {
    WorkbenchError: 1,
    UsageError: 2,
    ProjectNotFound: 2,
    RunNotFound: 2,
    ConfigurationError: 3,
    TargetUnreachable: 4,
    StorageError: 1,
}


@pytest.mark.parametrize(("kind", "code"), CODES.items(), ids=lambda value: getattr(value, "__name__", str(value)))
def test_each_kind_has_its_exit_code(kind: type[WorkbenchError], code: int) -> None:
    assert kind("it went wrong").exit_code == code


def test_docstring_lists_every_error_and_its_exit_code() -> None:
    drawn = (errors.__doc__ or "").split("```")[1]
    for kind, code in CODES.items():
        (line,) = [line for line in drawn.splitlines() if f" {kind.__name__} " in f" {line.lstrip('│├└─ ')} "]
        assert f"exit {code}" in line or kind in (ProjectNotFound, RunNotFound)
    assert issubclass(ProjectNotFound, UsageError)
    assert issubclass(RunNotFound, UsageError)


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ({}, "it went wrong. Fix it."),
        ({"file": "a.compute"}, "a.compute: it went wrong. Fix it."),
        ({"file": "a.compute", "line": 3}, "a.compute:3: it went wrong. Fix it."),
        ({"file": "a.compute", "line": 3, "column": 7}, "a.compute:3:7: it went wrong. Fix it."),
        ({"file": "a.compute", "column": 7}, "a.compute: it went wrong. Fix it."),
        ({"line": 3}, "it went wrong. Fix it."),
    ],
)
def test_error_begins_with_the_location_and_ends_with_the_fix(place: dict[str, object], text: str) -> None:
    assert str(WorkbenchError("it went wrong", remedy="Fix it.", **place)) == text  # type: ignore[arg-type]


def test_error_is_one_line_with_any_quoted_text() -> None:
    error = WorkbenchError("no\nsuch\nfile", remedy="Look\nagain.", file="a\nb")
    assert "\n" not in str(error)
    assert error.message == "no\nsuch\nfile"


@pytest.mark.parametrize(
    "number", [errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.ENAMETOOLONG, errno.EIO, 0]
)
def test_storage_errors_have_a_location_and_a_fix(number: int) -> None:
    error = storage_error("write", "/some/file", OSError(number, "why") if number else OSError("why"))
    assert str(error).startswith("/some/file: cannot write: ")
    assert error.remedy.endswith(".")
