from __future__ import annotations

import os
from pathlib import Path

import pytest

from tui_workbench.core import locks


def test_held_lock_keeps_others_out_until_it_ends(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    other = locks.open_lock(path)
    with locks.held(locks.open_lock(path)):
        assert not locks.try_lock(other)
        assert not locks.try_lock(other, shared=True)
        assert locks.is_locked(other)
    assert not locks.is_locked(other)
    assert locks.try_lock(other)
    os.close(other)


def test_shared_lock_lets_others_share(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    first, second = locks.open_lock(path), locks.open_lock(path)
    locks.lock(first, shared=True)
    assert locks.try_lock(second, shared=True)
    assert not locks.try_lock(second)
    locks.unlock(first)
    assert locks.try_lock(second)
    os.close(first)
    os.close(second)


def test_exception_in_the_pause_ends_the_wait(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    pauses = []

    def pause() -> None:
        pauses.append(1)
        if len(pauses) == 3:
            raise TimeoutError

    waiting = locks.open_lock(path)
    with locks.held(locks.open_lock(path)):
        with pytest.raises(TimeoutError), locks.held(waiting, pause):
            raise AssertionError("two hold it")
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(waiting)


def test_lock_file_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        locks.open_lock(str(tmp_path / "lock"))
    assert not (tmp_path / "elsewhere").exists()
