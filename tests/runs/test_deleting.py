"""Move runs to the trash, restore them, and purge them."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import require_root
from tests.runs.support import as_anybody, let_everybody_in, make_run, nest_folders, record_of, write_files
from tui_workbench.core.errors import RunNotFound, UsageError
from tui_workbench.core.files import delete_below, folder_size
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.lifecycle.limits import Demand, write_demand
from tui_workbench.runs.snapshots.snapshot import SnapshotStore
from tui_workbench.runs.store import ownership
from tui_workbench.runs.store.rundir import DEPENDENTS, RECORD, WAITING, ControllerLock, RunDirectory

if TYPE_CHECKING:
    from tests.runs.sources import Source

A, B, C = "project_1700000000001", "project_1700000000002", "project_1700000000003"


@pytest.fixture
def runs(project: Project) -> Runs:
    for number, run_id in enumerate((A, B, C), 1):
        make_run(project, run_id, number, state="completed", exit_code=0)
    return Runs(project)


def listed(runs: Runs) -> list[str]:
    return [run.run_id for run in runs.list()]


def trash(runs: Runs) -> list[str]:
    return [run.run_id for run in runs.deleted()]


class TestTrash:
    def test_deleted_run_is_listed_in_the_trash_and_restored(self, runs: Runs) -> None:
        assert listed(runs) == [C, B, A]
        runs.annotate(B, lambda old: old._replace(note="kept"))
        assert runs.delete("2") == B
        assert (listed(runs), trash(runs)) == ([C, A], [B])
        (record,) = runs.deleted_records()
        assert (record["run_id"], record["run_number"], record["description"]) == (B, 2, "kept")
        with pytest.raises(RunNotFound):
            runs.get(B)
        ownership.prune(runs.project.runs_directory)
        assert runs.undelete("2") == B
        assert (listed(runs), trash(runs)) == ([C, B, A], [])
        assert runs.directory(B).is_own, "it can be started again"
        with pytest.raises(RunNotFound, match="no run '9' in the trash"):
            runs.undelete("9")

    def test_active_and_pinned_runs_are_refused(self, runs: Runs) -> None:
        make_run(runs.project, "project_1700000000004", 4)
        runs.annotate(A, lambda old: old._replace(pinned=True))
        for number, words in (("4", "active"), ("1", "pinned")):
            with pytest.raises(UsageError, match=f"{words} and cannot be deleted"):
                runs.delete(number)
        assert trash(runs) == []

    def test_run_that_a_queued_run_waits_for_is_refused(self, runs: Runs) -> None:
        waiting = make_run(runs.project, "project_1700000000004", 4)
        before = runs.directory(A)
        waiting.write(WAITING, b"")
        before.write(DEPENDENTS, f"{waiting.run_id}\n".encode())
        write_demand(waiting, Demand("here", "", "", 0, "", 0, "", after=before.path, after_condition="any"))
        with pytest.raises(UsageError, match=f"because queued runs start after it: {waiting.run_id}"):
            runs.delete(A)

    def test_run_of_an_incomplete_sweep_is_refused(self, runs: Runs) -> None:
        directory = Path(runs.project.runs_directory, "project_1700000000004")
        directory.mkdir()
        run = RunDirectory(str(directory))
        run.write_record(record_of(directory, 4, group="sweep-1"))
        run.append_event("state", state="completed", final=True, end=1.0)
        sweeps = Path(runs.project.state_directory, "sweeps")
        write_files(sweeps, {"sweep-1.json": "{}"})
        with pytest.raises(UsageError, match="sweep-1 still creates runs"):
            runs.delete("4")
        (sweeps / "sweep-1.made").touch()
        runs.delete("4")

    def test_imported_run_is_refused_while_its_lock_is_held(self, runs: Runs) -> None:
        run = make_run(runs.project, "project_1700000000004", 4)
        ownership.forget(run.file(RECORD))
        lock = ControllerLock.acquire_new(run)
        assert lock is not None
        with lock, pytest.raises(UsageError, match="active and cannot be deleted"):
            runs.delete("4")
        runs.delete("4")
        assert trash(runs) == [run.run_id]

    def test_new_run_with_the_id_of_a_deleted_run_is_kept(self, runs: Runs) -> None:
        runs.delete(A)
        make_run(runs.project, A, 1, state="completed")
        with pytest.raises(UsageError, match="another run has the ID"):
            runs.undelete(A)
        with pytest.raises(UsageError, match=f"another run with the ID {A} is in the trash"):
            runs.delete(A)
        assert A in listed(runs)

    def test_outdated_runs_are_not_new_pinned_or_active(self, runs: Runs) -> None:
        make_run(runs.project, "project_1700000000000", 0)
        runs.annotate(B, lambda old: old._replace(pinned=True))
        assert [run.run_id for run in runs.outdated(1)] == [A]
        assert [run.run_id for run in runs.outdated(0)] == [C, A]
        assert runs.outdated(3) == []


class TestPurge:
    def test_purge_deletes_the_files_and_follows_no_link(self, runs: Runs, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        write_files(outside, {"file": "data"})
        place = Path(runs.directory(A).path)
        write_files(place, {"outputs/a\nb": "x", "outputs/-rf": "x", "outputs/\udcff": "x"})
        (place / "work").symlink_to(outside)
        (place / "outputs" / "link").symlink_to(outside / "file")
        os.link(outside / "file", place / "outputs" / "hard")
        runs.delete(A)
        runs.delete(B)
        Path(runs.project.runs_directory, C).rename(outside / C)
        Path(runs.project.runs_directory, C).symlink_to(outside / C)
        runs.delete(C)
        with_copies: list[frozenset[str]] = []

        def delete_copies(run_ids: frozenset[str]) -> list[str]:
            with_copies.append(run_ids)
            return ["gpu-box: it does not answer"]

        purged = runs.purge([A, C], delete_copies)
        assert (purged.run_ids, purged.problems) == ((A, C), ("gpu-box: it does not answer",))
        assert with_copies == [{A}]
        assert os.listdir(runs.project.runs_directory) == [f".deleted-{B}"]
        assert (outside / "file").read_text() == "data"
        assert (outside / C / RECORD).exists()
        assert [name for name in os.listdir(ownership.registry()) if name.startswith(A)] == []

    def test_interrupted_purge_is_completed_by_the_next(self, runs: Runs) -> None:
        runs.delete(A)
        rest = Path(runs.project.runs_directory, f".purged-{A}")
        Path(runs.project.runs_directory, f".deleted-{A}").rename(rest)
        (rest / RECORD).unlink()
        assert (trash(runs), runs.unfinished_purge()) == ([], [A])
        ownership.prune(runs.project.runs_directory)
        with_copies: list[str] = []

        def interrupt(run_ids: frozenset[str]) -> list[str]:
            with_copies.extend(run_ids)
            raise KeyboardInterrupt

        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                runs.purge([], interrupt)
        assert with_copies == [A, A], "its copies on targets are deleted although its record is gone"
        assert runs.purge([]).run_ids == (A,)
        assert runs.unfinished_purge() == []

    def test_two_purges_at_once_delete_each_run_once(self, runs: Runs) -> None:
        for run_id in (A, B, C):
            write_files(Path(runs.directory(run_id).path), {f"outputs/{n}/file": "x" for n in range(50)})
            runs.delete(run_id)
        with ThreadPoolExecutor(2) as threads:
            first, second = threads.map(runs.purge, [[A, B, C], [C, B, A]])
        assert sorted(first.run_ids + second.run_ids) == [A, B, C]
        assert first.problems == second.problems == ()

    @pytest.mark.system
    def test_problem_of_a_run_does_not_stop_the_others(self, runs: Runs) -> None:
        for run_id in (A, B):
            runs.delete(run_id)
        root = Path(runs.project.root)
        let_everybody_in(root, *root.rglob("*"))
        for folder in (root / ".workbench", Path(runs.project.runs_directory)):
            folder.chmod(0o777)
        purged_b = Path(runs.project.runs_directory, f".deleted-{B}")
        shutil.rmtree(purged_b)

        def check() -> None:
            purged_b.mkdir()
            purged = runs.purge([A, B])
            assert purged.run_ids == (B,)
            assert len(purged.problems) == 1
            assert purged.problems[0].startswith(f"{A}: permission denied; only the user who created its files")

        require_root("to create files of another user")
        as_anybody(check)

    def test_purge_keeps_another_run_with_the_same_id(self, with_git: Source) -> None:
        project = Project(str(with_git.root))
        project.prepare_state()
        store = SnapshotStore(project.root, project.state_directory)
        commit = store.record(store.reference_of(A), A)
        run = make_run(project, A, 1, state="completed", exit_code=0)
        runs = Runs(project)
        runs.delete(A)
        shutil.copytree(Path(project.runs_directory, f".deleted-{A}"), run.path)
        ownership.register(run.file(RECORD))
        with_copies: list[str] = []

        def delete_copies(run_ids: frozenset[str]) -> list[str]:
            with_copies.extend(run_ids)
            return []

        assert runs.purge([A], delete_copies).run_ids == (A,)
        assert with_copies == []
        assert store.holds(commit)
        assert runs.directory(A).is_own

    def test_only_snapshots_of_purged_runs_are_freed(self, with_git: Source, monkeypatch: pytest.MonkeyPatch) -> None:
        project = Project(str(with_git.root))
        project.prepare_state()
        store = SnapshotStore(project.root, project.state_directory)
        for number, run_id in enumerate((A, B), 1):
            write_files(with_git.root, {"large.bin": os.urandom(300_000), "same.txt": "same"})
            commit = store.record(store.reference_of(run_id), run_id)
            make_run(project, run_id, number, state="completed", exit_code=0)
            if run_id == A:
                store.keep(store.reference_of(C), commit)
        make_run(project, C, 3, state="completed", exit_code=0)
        (with_git.root / "large.bin").unlink()
        commits = {run_id: with_git.git("rev-parse", store.reference_of(run_id)).strip() for run_id in (A, B)}
        runs = Runs(project)
        for run_id in (A, B):
            runs.delete(run_id)
        with monkeypatch.context() as context:
            context.setenv("PATH", "")
            assert runs.purge([B]).snapshot_size == 0, "without git, the snapshot stays until the next purge"
        new = Path(project.runs_directory, ".new-project_1700000000004")
        new.mkdir()
        store.keep(store.reference_of("project_1700000000004"), commits[A])
        purged = runs.purge([A])
        assert with_git.git("rev-parse", store.reference_of("project_1700000000004")).strip() == commits[A]
        assert 250_000 < purged.snapshot_size < 500_000
        assert store.holds(commits[A], "large.bin"), "run C also uses it"
        assert not store.holds(commits[B])
        write_files(with_git.root, {"same.txt": "same"})
        again = store.record(store.reference_of(B), B)
        assert store.holds(again, "same.txt")


def test_folder_that_is_deep_and_read_only_is_deleted(open_folder: Path) -> None:
    def check() -> None:
        top = open_folder / "top"
        write_files(top, {"locked/inner/file": "x", "no access/file": "x"})
        nest_folders(top)
        (top / "locked" / "inner").chmod(0o555)
        (top / "locked").chmod(0o555)
        (top / "no access").chmod(0)
        delete_below(str(open_folder), "top")
        assert os.listdir(open_folder) == []

    as_anybody(check)


def test_size_counts_hard_links_once_and_skips_symlinks(tmp_path: Path) -> None:
    write_files(tmp_path, {"outside": b"x" * 100_000, "folder/in/file": b"x" * 100_000})
    folder = tmp_path / "folder"
    os.link(folder / "in" / "file", folder / "again")
    (folder / "link").symlink_to(tmp_path / "outside")
    assert 100_000 <= folder_size(str(folder)) < 150_000
    assert folder_size(str(folder / "link")) == 0
