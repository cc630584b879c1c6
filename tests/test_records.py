"""Named tuples made without `typing` are those that `typing` would have made."""

from __future__ import annotations

import copy
import pickle
import typing

from tui_workbench import records
from tui_workbench.model import Problem, Run


class Ours(records.NamedTuple):
    """A point."""

    x: int
    y: int = 2
    names: typing.Mapping[str, int] = {}

    @property
    def total(self) -> int:
        """Both."""
        return self.x + self.y

    def moved(self, by: int) -> Ours:
        """Another point."""
        return self._replace(x=self.x + by)


class Theirs(typing.NamedTuple):
    """A point."""

    x: int
    y: int = 2
    names: typing.Mapping[str, int] = {}


def test_they_are_the_same_kind_of_thing() -> None:
    assert Ours._fields == Theirs._fields
    assert Ours._field_defaults == Theirs._field_defaults
    assert Ours(1) == (1, 2, {})
    assert tuple(Ours(1)) == tuple(Theirs(1))
    assert repr(Ours(1)) == repr(Theirs(1)).replace("Theirs", "Ours")
    assert Ours.__doc__ == Theirs.__doc__
    assert (Ours.__name__, Ours.__module__) == ("Ours", Theirs.__module__)


def test_they_have_methods_and_properties() -> None:
    assert Ours(1).total == 3
    assert Ours(1).moved(4) == Ours(5)


def test_they_can_be_copied_and_pickled() -> None:
    assert pickle.loads(pickle.dumps(Ours(1, 5))) == Ours(1, 5)
    assert copy.deepcopy(Ours(1, 5)) == Ours(1, 5)


def test_the_nouns_of_the_workbench_are_such_tuples() -> None:
    assert Problem("f", 1, 2, "error", "c", "m").remedy == ""
    assert Run._field_defaults["state" if "state" in Run._field_defaults else "reason"] == ""
