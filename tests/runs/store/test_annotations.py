"""Annotations of runs: stored in the run directory, changed concurrently, never lost."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runs.support import as_anybody, make_run
from tui_workbench.core.errors import RunNotFound, StorageError, UsageError
from tui_workbench.projects.project import Project
from tui_workbench.runs.facade import Runs
from tui_workbench.runs.index import index as index_module
from tui_workbench.runs.index.index import RunIndex
from tui_workbench.runs.index.table import RunQuery
from tui_workbench.runs.store.annotations import (
    FILE,
    JOURNAL,
    LOCK,
    LONGEST_NAME,
    Annotations,
    change_annotations,
    read_annotations,
    with_tags,
)

RUN = "project_1700000000001"


@pytest.fixture
def runs(project: Project) -> Runs:
    make_run(project, RUN, state="completed", exit_code=0)
    return Runs(project)


def file(project: Project) -> Path:
    return Path(project.runs_directory, RUN, FILE)


def pinned(found: Annotations) -> Annotations:
    return found._replace(pinned=True)


def test_without_annotations_nothing_is_written(runs: Runs, project: Project) -> None:
    before = sorted(os.listdir(Path(project.runs_directory, RUN)))
    assert runs.facts(RUN).annotations == Annotations()
    assert runs.annotate(RUN, lambda found: found) == Annotations()
    assert sorted(os.listdir(Path(project.runs_directory, RUN))) == sorted([*before, LOCK])


def test_annotations_are_in_every_result(runs: Runs, project: Project) -> None:
    runs.list()
    said = Annotations({"best": "", "model": "resnet"}, "a note\nof two lines", pinned=True)
    assert runs.annotate("1", lambda found: said) == said
    assert runs.facts(RUN).annotations == said
    (row,) = runs.page(RunQuery()).rows
    assert row.facts.annotations == said
    (record,) = runs.history_records()
    assert (record["tags"], record["description"], record["pinned"], record["hidden"]) == (
        {"best": "", "model": "resnet"}, "a note\nof two lines", True, False,
    )  # fmt: skip


def test_archived_run_is_hidden_and_can_be_restored(runs: Runs) -> None:
    assert len(runs.history_records()) == 1
    runs.annotate(RUN, lambda found: found._replace(archived=True))
    assert runs.history_records() == []
    assert [record["hidden"] for record in runs.history_records(hidden=True)] == [True]
    assert runs.page(RunQuery()).total == 0
    assert runs.page(RunQuery(archived=True)).total == runs.page(RunQuery("is:archived")).total == 1
    assert [run.run_id for run in runs.list()] == [RUN]
    runs.annotate(RUN, lambda found: found._replace(archived=False))
    assert len(runs.history_records()) == 1


def test_archived_active_run_is_hidden(project: Project) -> None:
    run_id = make_run(project, "project_1700000000002", 2).run_id
    make_run(project, RUN, state="completed", exit_code=0)
    directory = os.path.join(project.runs_directory, run_id)
    change_annotations(directory, project.state_directory, lambda found: found._replace(archived=True))
    with RunIndex(project) as index:
        assert [record["run_id"] for record in json.loads(b"[%b]" % index.history_json())] == [RUN]
        assert len(json.loads(b"[%b]" % index.history_json(hidden=True))) == 2


def test_tags_are_added_replaced_and_removed() -> None:
    found = with_tags(Annotations({"a": "1", "b": "2"}), {"b": "3", "c": ""}, ("a",))
    assert found.tags == {"b": "3", "c": ""}


@pytest.mark.slow("finds the categories of all characters")
@settings(max_examples=25)
@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=20), st.text(max_size=50)
    ),
    st.text(max_size=200),
)
def test_any_text_is_stored(tags: dict[str, str], note: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        said = Annotations(tags, note, archived=True)
        change_annotations(folder, folder, lambda found: said)
        assert read_annotations(folder) == said


@pytest.mark.parametrize(
    "said",
    [
        Annotations({"": ""}), Annotations({" ": ""}), Annotations({"a\nb": ""}), Annotations({"x" * 201: ""}),
        Annotations({"a": "x" * 20_001}), Annotations(note="x" * 20_001),
    ],
)  # fmt: skip
def test_invalid_annotations_are_refused(runs: Runs, project: Project, said: Annotations) -> None:
    runs.annotate(RUN, pinned)
    with pytest.raises(UsageError):
        runs.annotate(RUN, lambda found: said)
    assert runs.facts(RUN).annotations == Annotations(pinned=True)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b"\xff", b'{"schema": 9}', b'{"tags": 3}', b'{"pinned": "yes"}', b"[" * 100_000]
)
def test_malformed_file_is_reported_and_not_overwritten(runs: Runs, project: Project, content: bytes) -> None:
    file(project).write_bytes(content)
    assert FILE in runs.facts(RUN).annotations.problem
    assert FILE in runs.history_record(RUN)["annotations_problem"]
    with pytest.raises(StorageError) as caught:
        runs.annotate(RUN, pinned)
    assert caught.value.file == str(file(project))
    assert caught.value.remedy
    assert file(project).read_bytes() == content


def test_user_tags_override_script_tags(runs: Runs, project: Project) -> None:
    lines = (
        r'{"name":"{\"kind\":\"tag\",","step":null,"value":1,"time":1.0}',
        '{"kind":"tag","name":"best","value":null,"time":1.0}',
        '{"kind":"tag","name":"model","value":"a","time":1.0}',
        '{"kind":"tag","name":"model","value":"b","time":1.0}',
        '{"kind":"tag","name":"n","value":3,"time":1.0}',
        '{"kind":"tag","name":7}',
        '{"kind":"tag",',
        '{"kind":"tag","name":"torn',
    )
    Path(project.runs_directory, RUN, "metrics.jsonl").write_text("\n".join(lines))
    runs.annotate(RUN, lambda found: with_tags(found, {"model": "c", "mine": ""}))
    assert runs.facts(RUN).annotations.tags == {"best": "", "model": "c", "n": "3", "mine": ""}
    assert runs.page(RunQuery("tag=best tag=model=c")).total == 1
    assert read_annotations(os.path.join(project.runs_directory, RUN)).tags == {"model": "c", "mine": ""}


def test_long_script_tag_name_is_cut(runs: Runs, project: Project) -> None:
    lines = [json.dumps({"kind": "tag", "name": name * 300, "value": 1}, separators=(",", ":")) for name in "ab"]
    Path(project.runs_directory, RUN, "metrics.jsonl").write_text("\n".join([*lines, ""]))
    assert runs.facts(RUN).annotations.tags == {"a" * LONGEST_NAME: "1", "b" * LONGEST_NAME: "1"}


def test_pipe_in_place_of_a_file_does_not_block(runs: Runs, project: Project) -> None:
    folder = Path(project.runs_directory, RUN)
    for name in (FILE, "metrics.jsonl"):
        os.mkfifo(folder / name)
    assert "regular" in runs.facts(RUN).annotations.problem
    with pytest.raises(StorageError):
        runs.annotate(RUN, pinned)


def test_keys_of_a_later_version_are_kept(runs: Runs, project: Project) -> None:
    file(project).write_text(json.dumps({"schema": 1, "note": "n", "stars": 5}))
    runs.annotate(RUN, pinned)
    stored = json.loads(file(project).read_text())
    assert (stored["stars"], stored["note"], stored["pinned"]) == (5, "n", True)


def test_unknown_run_cannot_be_annotated(runs: Runs) -> None:
    with pytest.raises(RunNotFound):
        runs.annotate("9", pinned)


def test_concurrent_changes_are_not_lost(runs: Runs, project: Project) -> None:
    def say(tag: str) -> None:
        runs.annotate(RUN, lambda found: with_tags(found, {tag: ""}))

    children = []
    for number in range(4):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                for each in range(10):
                    say(f"{number}-{each}")
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    assert len(runs.facts(RUN).annotations.tags) == 40
    (row,) = runs.page(RunQuery()).rows
    assert len(row.facts.annotations.tags) == 40


def test_index_notices_annotations_of_ended_runs(runs: Runs, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "STABLE_NS", -(10**12))
    runs.list()
    runs.annotate(RUN, pinned)
    with RunIndex(project) as index:
        assert index.page(RunQuery("is:pinned")).total == 1
    # A removed or truncated journal only costs time.
    journal = Path(project.state_directory, JOURNAL)
    for content in (b"", b"foreign\n../x\n.hidden\n\xff\n"):
        journal.write_bytes(content)
        assert len(runs.list()) == 1
        runs.annotate(RUN, lambda found: found._replace(pinned=not found.pinned))
        with RunIndex(project) as index:
            assert index.page(RunQuery("is:pinned")).total == runs.facts(RUN).annotations.pinned


def test_annotations_being_changed_are_read_again(runs: Runs, project: Project) -> None:
    runs.list()

    def change(found: Annotations) -> Annotations:
        # Another process reads between the line in the journal and the file.
        Path(project.state_directory, JOURNAL).write_text(f"{RUN}\n")
        assert runs.page(RunQuery("is:pinned")).total == 0
        return found._replace(pinned=True)

    runs.annotate(RUN, change)
    assert runs.page(RunQuery("is:pinned")).total == 1


def test_write_error_is_reported(runs: Runs, project: Project) -> None:
    folder = Path(project.runs_directory, RUN)
    for each in (folder, *folder.parents):
        if "pytest" in str(each):
            each.chmod(0o755)
    runs.annotate(RUN, pinned)

    def check() -> None:
        with pytest.raises(StorageError):
            runs.annotate(RUN, lambda found: found._replace(note="mine"))

    as_anybody_without_rights(folder, check)
    assert runs.facts(RUN).annotations == Annotations(pinned=True)


def as_anybody_without_rights(folder: Path, check: object) -> None:
    assert callable(check)
    if os.geteuid() != 0:
        for path in (*folder.iterdir(), folder):
            path.chmod(0o555)
    try:
        as_anybody(check)
    finally:
        folder.chmod(0o755)
        for path in folder.iterdir():
            path.chmod(0o644)
